/* bench-attention-cuda: checks attention and its gradient on the cuda backend against op/attention/attention.c in double, then
 * times them.
 * usage: bench-attention-cuda [check [D]|time|once [N]]     check (heads of D only), then time; once: one run of setting N,
 * for profilers. A check prints the relative error (of norms) of every output. Each is run twice, over poisoned outputs, once
 * with the dropout mask kept between the two where it can be, and must give the same bits. Times are medians of runs of a
 * CUDA graph; floating-point operations are counted as in attention.c. */
#include "cuda/kernels/kernel.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct problem {
    const char *what;
    enum dtype dtype;
    bool tf32;
    std::vector<int> lengths;
    int padding; /* rows after the last sequence */
    int64_t heads, kv_heads, D, causal;
    double p;
    int64_t longest;   /* as in attention's attributes */
    bool kept = false; /* the dropout mask, from the forward to the backward pass */
    int64_t window = 0;
    double softcap = 0;

    int64_t rows(void) const
    {
        int64_t n = padding;
        for (int s : lengths)
            n += s;
        return n;
    }
    int64_t mask_rows(void) const
    {
        return rows() + 15 * (int64_t)lengths.size();
    }
    int64_t mask_width(void) const
    {
        return heads * ((longest + 63) / 64) * 8;
    }
    int64_t width(void) const
    {
        return (heads + 2 * kv_heads) * D;
    }
};

static void must(int code, const char *what)
{
    if (code) {
        printf("%s: error %d\n", what, code);
        exit(1);
    }
}

static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Values that every dtype holds exactly: bf16, not below 2^-10. */
static std::vector<double> random_values(int64_t n, double scale)
{
    const size_t distinct = 1000003; /* enough, and soon made */
    std::vector<double> v((size_t)n);
    for (size_t i = 0; i < v.size(); i++) {
        double x = i < distinct ? bf16_to_float(bf16_from_float((float)(scale * normal()))) : v[i - distinct];
        v[i] = fabs(x) < 1.0 / 1024 ? 0 : x;
    }
    return v;
}

static void *on_device(const void *data, int64_t bytes)
{
    void *p;
    must(cudaMalloc(&p, (size_t)bytes + 256), "cudaMalloc");
    if (data)
        must(cudaMemcpy(p, data, (size_t)bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    return p;
}

static void *values_on_device(const std::vector<double> &v, enum dtype dtype)
{
    std::vector<char> bytes((size_t)dtype_bytes(dtype, (int64_t)v.size()));
    dtype_convert(bytes.data(), dtype, v.data(), DT_F64, (int64_t)v.size());
    return on_device(bytes.data(), (int64_t)bytes.size());
}

static std::vector<double> values_of(const void *device, int64_t n, enum dtype dtype)
{
    std::vector<char> bytes((size_t)dtype_bytes(dtype, n));
    std::vector<double> v((size_t)n);
    must(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    dtype_convert(v.data(), DT_F64, bytes.data(), dtype, n);
    return v;
}

/* Tensors of one problem, on the device or (dtype F64) on the host. */
struct tensors {
    void *qkv, *o, *lse, *dout, *dqkv, *cu, *coords, *rng, *mask;
};

static struct args_attention forward_args(const struct problem &q, const struct tensors &t, enum dtype dtype)
{
    int64_t T = q.rows(), B = (int64_t)q.lengths.size();
    struct args_attention a = {};
    a.qkv = {t.qkv, {T, q.width()}, 0, 0, dtype, 2, false, false};
    a.cu = {t.cu, {B + 1}, 0, 0, DT_I32, 1, false, false};
    a.coords = {q.p > 0 ? t.coords : NULL, {T, 2}, 0, 0, DT_I32, 2, false, false};
    a.rng = {q.p > 0 ? t.rng : NULL, {4}, 0, 0, DT_I32, 1, false, false};
    a.o = {t.o, {T, q.heads * q.D}, 0, 0, dtype, 2, false, false};
    a.lse = {t.lse, {q.heads, T}, 0, 0, dtype == DT_F64 ? DT_F64 : DT_F32, 2, false, false};
    a.mask = {q.kept ? t.mask : NULL, {q.mask_rows(), q.mask_width()}, 0, 0, DT_U8, 2, false, false};
    a.heads = q.heads;
    a.kv_heads = q.kv_heads;
    a.causal = q.causal;
    a.scale = 1 / sqrt((double)q.D);
    a.p = q.p;
    a.site = 5;
    a.longest = q.longest;
    a.window = q.window;
    a.softcap = q.softcap;
    return a;
}

static struct args_attention_bwd backward_args(const struct args_attention &f, const struct tensors &t)
{
    struct args_attention_bwd a = {};
    a.qkv = f.qkv;
    a.o = f.o;
    a.lse = f.lse;
    a.dout = f.o;
    a.dout.data = t.dout;
    a.cu = f.cu;
    a.coords = f.coords;
    a.rng = f.rng;
    a.mask = f.mask;
    a.dqkv = f.qkv;
    a.dqkv.data = t.dqkv;
    a.heads = f.heads;
    a.kv_heads = f.kv_heads;
    a.causal = f.causal;
    a.scale = f.scale;
    a.p = f.p;
    a.site = f.site;
    a.longest = f.longest;
    a.window = f.window;
    a.softcap = f.softcap;
    return a;
}

static struct cuda_call call_of(const struct problem &q, struct snug_err *err)
{
    struct cuda_call c = {};
    must((cudaError_t)cuda_call_device(&c, 0), "cuda_call_device");
    c.tf32 = q.tf32;
    c.err = err;
    if (getenv("BENCH_ARCH")) /* 80: the kernels for any GPU */
        c.sm90 = c.sm90 && atoi(getenv("BENCH_ARCH")) == 90;
    return c;
}

static void index_inputs(const struct problem &q, std::vector<int32_t> &cu, std::vector<int32_t> &coords)
{
    cu.assign(1, 0);
    for (size_t b = 0; b < q.lengths.size(); b++) {
        for (int i = 0; i < q.lengths[b]; i++) {
            coords.push_back(100 + 3 * (int)b); /* a sample's index need not be its place */
            coords.push_back(i);
        }
        cu.push_back(cu.back() + q.lengths[b]);
    }
    coords.resize(2 * (size_t)q.rows());
}

static struct tensors make_device(const struct problem &q, const std::vector<double> &qkv,
                                  const std::vector<double> &dout)
{
    std::vector<int32_t> cu, coords;
    int32_t rng[4] = {12345, 678, 9, 0};
    int64_t T = q.rows();
    index_inputs(q, cu, coords);
    struct tensors t = {};
    t.qkv = values_on_device(qkv, q.dtype);
    t.dout = values_on_device(dout, q.dtype);
    t.o = on_device(NULL, dtype_bytes(q.dtype, (int64_t)dout.size()));
    t.dqkv = on_device(NULL, dtype_bytes(q.dtype, (int64_t)qkv.size()));
    t.lse = on_device(NULL, 4 * q.heads * T);
    t.cu = on_device(cu.data(), 4 * (int64_t)cu.size());
    t.coords = on_device(coords.data(), 4 * (int64_t)coords.size());
    t.rng = on_device(rng, sizeof rng);
    t.mask = on_device(NULL, q.mask_rows() * q.mask_width());
    return t;
}

static void release(const struct tensors &t)
{
    void *all[] = {t.qkv, t.o, t.lse, t.dout, t.dqkv, t.cu, t.coords, t.rng, t.mask};
    for (void *p : all)
        cudaFree(p);
}

/* ---- checks ---- */

/* What the reference makes of a problem's inputs. */
struct expected {
    std::vector<double> qkv, dout, o, lse, dqkv;
};

static struct expected reference(const struct problem &q)
{
    struct expected e;
    int64_t T = q.rows();
    e.qkv = random_values(T * q.width(), 1);
    e.dout = random_values(T * q.heads * q.D, 1);
    e.o.resize(e.dout.size());
    e.lse.resize((size_t)(q.heads * T));
    e.dqkv.resize(e.qkv.size());
    std::vector<int32_t> cu, coords;
    int32_t rng[4] = {12345, 678, 9, 0};
    index_inputs(q, cu, coords);
    struct tensors t = {e.qkv.data(),  e.o.data(), e.lse.data(),  e.dout.data(),
                        e.dqkv.data(), cu.data(),  coords.data(), rng};
    struct args_attention f = forward_args(q, t, DT_F64);
    struct args_attention_bwd b = backward_args(f, t);
    ref_attention(&f, NULL);
    ref_attention_bwd(&b, NULL);
    return e;
}

/* Of columns [from, from + n) of a matrix of `width`. Where the reference is 0, relative to `scale`. */
static double relative_error(const std::vector<double> &x, const std::vector<double> &ref, int64_t width, int64_t from,
                             int64_t n, double scale)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < x.size(); i++) {
        int64_t column = (int64_t)i % width;
        if (column < from || column >= from + n)
            continue;
        difference += (x[i] - ref[i]) * (x[i] - ref[i]);
        norm += ref[i] * ref[i];
    }
    return sqrt(difference) / (norm > 0 ? sqrt(norm) : scale);
}

static double norm_of(const std::vector<double> &x)
{
    double norm = 0;
    for (double v : x)
        norm += v * v;
    return sqrt(norm);
}

static int check(struct problem q, const struct expected &e, const enum dtype dtype, bool tf32, bool quiet)
{
    q.dtype = dtype;
    q.tf32 = tf32;
    struct tensors t = make_device(q, e.qkv, e.dout);
    struct snug_err err = {};
    struct cuda_call c = call_of(q, &err);
    q.kept = q.p > 0 && q.longest > 0;
    struct args_attention f = forward_args(q, t, dtype);
    struct args_attention_bwd b = backward_args(f, t);
    int64_t workspace = cuda_attention_bwd_workspace(&b, &c), T = q.rows();
    c.workspace = on_device(NULL, workspace);
    std::vector<double> o, lse, dqkv, again;
    bool same = true;
    for (int run = 0; run < 2; run++) {
        cudaMemset(t.o, 0xFF, (size_t)dtype_bytes(dtype, (int64_t)e.o.size()));
        cudaMemset(t.dqkv, 0xFF, (size_t)dtype_bytes(dtype, (int64_t)e.dqkv.size()));
        cudaMemset(t.lse, 0xFF, 4 * e.lse.size());
        cudaMemset(c.workspace, 0xFF, (size_t)workspace);
        cudaMemset(t.mask, 0xA5, (size_t)(q.mask_rows() * q.mask_width()));
        if (run) /* the mask is made again in the backward pass */
            f.mask.data = b.mask.data = NULL;
        if (cuda_attention(&f, &c) || cuda_attention_bwd(&b, &c))
            printf("%s\n", err.text);
        must(cudaDeviceSynchronize(), "attention");
        std::vector<double> o2 = values_of(t.o, (int64_t)e.o.size(), dtype), l2 = values_of(t.lse, q.heads * T, DT_F32),
                            d2 = values_of(t.dqkv, (int64_t)e.dqkv.size(), dtype);
        if (run)
            same = memcmp(o.data(), o2.data(), 8 * o.size()) == 0 &&
                   memcmp(lse.data(), l2.data(), 8 * lse.size()) == 0 &&
                   memcmp(dqkv.data(), d2.data(), 8 * dqkv.size()) == 0;
        o = o2;
        lse = l2;
        dqkv = d2;
    }
    bool clear = true; /* of rows past the last sequence */
    int64_t used = T - q.padding;
    for (size_t i = 0; i < o.size(); i++)
        clear = clear && ((int64_t)i / (q.heads * q.D) < used || o[i] == 0);
    for (size_t i = 0; i < dqkv.size(); i++)
        clear = clear && ((int64_t)i / q.width() < used || dqkv[i] == 0);
    for (size_t i = 0; i < lse.size(); i++)
        clear = clear && ((int64_t)i % T < used || lse[i] == 0);
    /* With a window of one, dq and dk are 0: differences of numbers as large as dv, the rest of dqkv. */
    double scale = norm_of(e.dqkv);
    scale = scale > 0 ? scale : 1;
    double errors[5] = {relative_error(o, e.o, 1, 0, 1, 1), relative_error(lse, e.lse, 1, 0, 1, 1),
                        relative_error(dqkv, e.dqkv, q.width(), 0, q.heads * q.D, scale),
                        relative_error(dqkv, e.dqkv, q.width(), q.heads * q.D, q.kv_heads * q.D, scale),
                        relative_error(dqkv, e.dqkv, q.width(), (q.heads + q.kv_heads) * q.D, q.kv_heads * q.D, scale)};
    double limit = dtype == DT_F32 ? (tf32 ? 1.5e-3 : 2e-6) : dtype == DT_F16 ? 2e-3 : 1.2e-2;
    bool good = same && clear;
    for (double x : errors)
        good = good && x < limit;
    if (!good || !quiet)
        printf("%-4s %-4s D %3lld heads %lld/%lld causal %lld window %lld cap %g p %.2f  o %.1e lse %.1e dq %.1e dk "
               "%.1e dv %.1e%s%s%s\n",
               good ? "ok" : "BAD", tf32 ? "TF32" : dtype_name(dtype), (long long)q.D, (long long)q.heads,
               (long long)q.kv_heads, (long long)q.causal, (long long)q.window, q.softcap, q.p, errors[0], errors[1],
               errors[2], errors[3], errors[4], same ? "" : " TWO RUNS DIFFER", clear ? "" : " PADDING IS NOT 0", "");
    cudaFree(c.workspace);
    release(t);
    return !good;
}

static int check_all(int64_t only)
{
    int bad = 0, done = 0;
    std::vector<int> lengths = {0, 1, 17, 64, 65, 0, 130, 300};
    std::vector<struct problem> problems;
    for (int64_t D : {32, 40, 64, 80, 96, 128, 200, 256})
        for (int k = 0; k < 4; k++)
            problems.push_back(
                {"", DT_F32, false, lengths, k % 2 ? 27 : 0, 4, k / 2 ? 2 : 4, D, k / 2, k % 2 ? 0.1 : 0, 0});
    const std::vector<int> to_512[] = {{0, 1, 17, 64, 65, 0, 130, 300, 512, 509}, {511, 0, 64, 512, 200, 449}};
    for (int64_t D : {40, 64})
        for (int k = 0; k < 4; k++)
            for (const std::vector<int> &l : to_512)
                problems.push_back({"", DT_F32, false, l, k % 2 ? 27 : 0, 6, 6, D, k / 2, k % 2 ? 0.1 : 0, 512});
    for (int64_t D : {32, 64, 80, 128})
        for (int64_t window : {1, 17, 63, 64, 65, 128})
            for (int k = 0; k < 4; k++)
                problems.push_back({"", DT_F32, false, lengths, k % 2 ? 27 : 0, 4, 2, D, k / 2, 0, 0, false, window,
                                    k % 2 ? 2.0 : 0.0});
    std::vector<int> many;
    for (int i = 0; i < 32; i++)
        many.push_back(i % 8 ? 1 + 41 * i % 230 : 384 + 4 * i);
    problems.push_back({"", DT_F32, false, many, 9, 9, 9, 64, 0, 0.1, 512});
    problems.push_back({"", DT_F32, false, many, 0, 9, 9, 48, 1, 0.1, 512});
    problems.push_back({"", DT_F32, false, {700, 3}, 200, 2, 1, 64, 0, 0.7, 0});
    problems.push_back({"", DT_F32, false, {}, 100, 2, 2, 64, 0, 0.1, 512});
    problems.push_back({"", DT_F32, false, std::vector<int>(300, 2), 5, 2, 2, 64, 1, 0.1, 2});
    for (const struct problem &q : problems) {
        if (only && q.D != only)
            continue;
        struct expected e = reference(q);
        if (q.D <= 128) { /* floats of larger heads have no kernel */
            bad += check(q, e, DT_F32, false, q.D != 64) + check(q, e, DT_F32, true, q.D != 64);
            done += 2;
        }
        bad += check(q, e, DT_F16, false, q.D != 64) + check(q, e, DT_BF16, false, q.D != 64);
        done += 2;
    }
    printf("%d of %d checks passed\n", done - bad, done);
    return bad;
}

/* ---- times ---- */

template <class F> static double graph_us(F launch)
{
    enum { LAUNCHES = 10, RUNS = 7 };
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaEvent_t start, end;
    must(cudaStreamCreate(&stream), "stream");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    for (int i = 0; i < LAUNCHES; i++)
        launch(stream);
    must(cudaStreamEndCapture(stream, &graph), "capture");
    must(cudaGraphInstantiate(&run, graph, 0), "graph");
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    std::vector<float> ms(RUNS);
    for (int i = -2; i < RUNS; i++) {
        cudaEventRecord(start, stream);
        cudaGraphLaunch(run, stream);
        cudaEventRecord(end, stream);
        must(cudaStreamSynchronize(stream), "run");
        if (i >= 0)
            cudaEventElapsedTime(&ms[(size_t)i], start, end);
    }
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    std::sort(ms.begin(), ms.end());
    return 1e3 * ms[RUNS / 2] / LAUNCHES;
}

static void time_one(const struct problem &q, bool once)
{
    int64_t T = q.rows();
    struct tensors t = make_device(q, random_values(T * q.width(), 1), random_values(T * q.heads * q.D, 1));
    struct cuda_call c = call_of(q, NULL);
    struct args_attention f = forward_args(q, t, q.dtype);
    struct args_attention_bwd b = backward_args(f, t);
    c.workspace = on_device(NULL, cuda_attention_bwd_workspace(&b, &c));
    if (once) {
        must(cuda_attention(&f, &c), "attention");
        must(cuda_attention_bwd(&b, &c), "attention_bwd");
        must(cudaDeviceSynchronize(), "run");
        return;
    }
    double forward = graph_us([&](cudaStream_t s) {
        c.stream = s;
        must(cuda_attention(&f, &c), "attention");
    });
    double backward = graph_us([&](cudaStream_t s) {
        c.stream = s;
        must(cuda_attention_bwd(&b, &c), "attention_bwd");
    });
    double work = 0;
    for (int s : q.lengths) {
        double w = q.window ? (double)std::min((int64_t)s, q.window) : s; /* keys that a query sees behind it */
        work += (w * s - w * w / 2) * (double)(q.heads * q.D) * (q.causal ? 1 : 2) * 1e-6;
    }
    printf("%-28s %-4s p %.1f %s %8.1f us %5.0f TFLOP/s %8.1f us %5.0f TFLOP/s\n", q.what,
           q.tf32 ? "TF32" : dtype_name(q.dtype), q.p, q.kept ? "kept" : "    ", forward, 4 * work / forward, backward,
           10 * work / backward);
    cudaFree(c.workspace);
    release(t);
}

static void time_all(int once) /* setting `once` alone, one run; -1: all */
{
    std::vector<int> ragged, b32(32, 512), b4(4, 512);
    for (int i = 0; i < 128; i++) /* log-normal, mean about 154 */
        ragged.push_back(std::min(512, std::max(8, (int)exp(4.8 + 0.7 * normal()))));
    const struct problem problems[] = {
        {"BERT-large b32", DT_BF16, false, b32, 0, 16, 16, 64, 0, 0.1, 512, true},
        {"BERT-large b32", DT_BF16, false, b32, 0, 16, 16, 64, 0, 0.1, 512},
        {"BERT-large b32", DT_BF16, false, b32, 0, 16, 16, 64, 0, 0, 512},
        {"BERT-large b32", DT_F16, false, b32, 0, 16, 16, 64, 0, 0.1, 512},
        {"BERT-large b32, long", DT_BF16, false, b32, 0, 16, 16, 64, 0, 0.1, 0},
        {"BERT-large b32, long", DT_BF16, false, b32, 0, 16, 16, 64, 0, 0, 0},
        {"BERT-large b4", DT_BF16, false, b4, 0, 16, 16, 64, 0, 0.1, 512, true},
        {"BERT-large b4", DT_BF16, false, b4, 0, 16, 16, 64, 0, 0.1, 512},
        {"BERT-large b4", DT_BF16, false, b4, 0, 16, 16, 64, 0, 0, 512},
        {"BERT-large ragged b128", DT_BF16, false, ragged, 0, 16, 16, 64, 0, 0.1, 512, true},
        {"BERT-large ragged b128", DT_BF16, false, ragged, 0, 16, 16, 64, 0, 0.1, 512},
        {"64 tokens, b256", DT_BF16, false, std::vector<int>(256, 64), 0, 16, 16, 64, 0, 0.1, 512},
        {"64 tokens, b256, long", DT_BF16, false, std::vector<int>(256, 64), 0, 16, 16, 64, 0, 0.1, 0},
        {"BERT-large ragged, long", DT_BF16, false, ragged, 0, 16, 16, 64, 0, 0.1, 0},
        {"BERT-large b1", DT_BF16, false, {512}, 0, 16, 16, 64, 0, 0.1, 512},
        {"BERT-large b1, long", DT_BF16, false, {512}, 0, 16, 16, 64, 0, 0.1, 0},
        {"512 causal b32", DT_BF16, false, b32, 0, 16, 16, 64, 1, 0.1, 512, true},
        {"512 causal b32", DT_BF16, false, b32, 0, 16, 16, 64, 1, 0.1, 512},
        {"512 causal b32, long", DT_BF16, false, b32, 0, 16, 16, 64, 1, 0.1, 0},
        {"GPT-2 1024 causal b16", DT_BF16, false, std::vector<int>(16, 1024), 0, 12, 12, 64, 1, 0, 0},
        {"GPT-2 1024 causal b16", DT_BF16, false, std::vector<int>(16, 1024), 0, 12, 12, 64, 1, 0.1, 0},
        {"Llama-3.1-8B 2048 b4", DT_BF16, false, std::vector<int>(4, 2048), 0, 32, 8, 128, 1, 0, 0},
        {"Qwen2.5-0.5B 1024 b16", DT_BF16, false, std::vector<int>(16, 1024), 0, 14, 2, 64, 1, 0, 0},
        {"Qwen2.5-7B 2048 b4", DT_BF16, false, std::vector<int>(4, 2048), 0, 28, 4, 128, 1, 0, 0},
        {"ModernBERT-large b32, window 65", DT_BF16, false, b32, 0, 16, 16, 64, 0, 0, 512, false, 65},
        {"ModernBERT-large 8192, window 65", DT_BF16, false, std::vector<int>(4, 8192), 0, 16, 16, 64, 0, 0, 8192,
         false, 65},
        {"Mistral-7B 8192, window 4096", DT_BF16, false, {8192}, 0, 32, 8, 128, 1, 0, 8192, false, 4096},
        {"Gemma-2-2B 2048 b4", DT_BF16, false, std::vector<int>(4, 2048), 0, 8, 4, 256, 1, 0, 2048, false, 0, 50},
        {"Gemma-2-2B 8192, window 4096", DT_BF16, false, {8192}, 0, 8, 4, 256, 1, 0, 8192, false, 4096, 50},
        {"BERT-large b8", DT_F32, true, std::vector<int>(8, 512), 0, 16, 16, 64, 0, 0.1, 512},
        {"BERT-large b8", DT_F32, false, std::vector<int>(8, 512), 0, 16, 16, 64, 0, 0.1, 512},
    };
    if (once >= 0 && once < (int)(sizeof problems / sizeof *problems))
        return time_one(problems[once], true);
    printf("%-40s %27s %27s\n", "", "forward", "backward");
    for (const struct problem &q : problems)
        time_one(q, false);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    int bad = *what && strcmp(what, "check") ? 0 : check_all(argc > 2 ? atoi(argv[2]) : 0);
    if (strcmp(what, "check"))
        time_all(strcmp(what, "once") ? -1 : argc > 2 ? atoi(argv[2]) : 0);
    return bad != 0;
}
