/* bench-optimizer-cuda: the launchers of src/cuda/kernels/optimizer over many tensors, checked against the reference in
 * double on the same numbers, and timed over BERT-large's weights. usage: bench-optimizer-cuda [REPETITIONS]
 * A check fails when an element is off by more than 16 roundings of a float of its size or its tensor's (and one of a
 * narrower type). It fails also when bits differ from one run to the next, or when something beside the tensors is
 * written. */
#include "optimizer_cuda.h"

#include "op/optimizer/dynamic_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

struct cuda_call call;
static int failures;

void require(int code, const char *what)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString((cudaError_t)code));
    exit(1);
}

/* ---- launchers ---- */

#define LAUNCHER(name)                                                                                                 \
    int launch_##name(const union args_any *const *a, int n)                                                           \
    {                                                                                                                  \
        const struct args_##name *list[MAX_TENSORS];                                                                   \
        for (int i = 0; i < n; i++)                                                                                    \
            list[i] = &a[i]->name;                                                                                     \
        return cuda_##name##_many(list, n, &call);                                                                     \
    }
LAUNCHER(sumsq)
LAUNCHER(adamw)
LAUNCHER(sgd)
LAUNCHER(adafactor)
LAUNCHER(adamw8bit)

static int launch_clip(const union args_any *const *a, int n)
{
    int code = 0;
    for (int i = 0; i < n && !code; i++)
        code = cuda_clip(&a[i]->clip, &call);
    return code;
}

/* ---- checks ---- */

/* One tensor on the device, between guards, `shift` elements behind an aligned address. */
static char *put(const struct slot_data *s, int shift)
{
    char *base;
    int64_t at = GUARD + dtype_bytes(s->shape.dtype, shift);
    require(cudaMalloc((void **)&base, (size_t)(at + s->bytes + GUARD)), "cudaMalloc");
    require(cudaMemset(base, 0xA5, (size_t)(at + s->bytes + GUARD)), "cudaMemset");
    require(cudaMemcpy(base + at, s->data, (size_t)s->bytes, cudaMemcpyHostToDevice), "upload");
    return base + at;
}

static void get(const struct slot_data *s, const char *device, int shift, char *host)
{
    char guards[2 * GUARD];
    require(cudaMemcpy(host, device, (size_t)s->bytes, cudaMemcpyDeviceToHost), "download");
    require(cudaMemcpy(guards, device - GUARD, GUARD, cudaMemcpyDeviceToHost), "download");
    require(cudaMemcpy(guards + GUARD, device + s->bytes, GUARD, cudaMemcpyDeviceToHost), "download");
    for (int i = 0; i < 2 * GUARD; i++)
        if ((unsigned char)guards[i] != 0xA5) {
            printf("FAIL: wrote beside a tensor\n");
            failures++;
            break;
        }
    require(cudaFree((char *)(uintptr_t)device - GUARD - dtype_bytes(s->shape.dtype, shift)), "cudaFree");
}

/* Half of what an element of 16 bits can be off by its own rounding. */
static double rounding(enum dtype t, double x)
{
    return t == DT_BF16 ? 0x1p-9 * x : t == DT_F16 ? fmax(0x1p-12 * x, 0x1p-25) : 0;
}

/* The largest error of a tensor, less the rounding of its type, in roundings of a float (of a double: a thousand) that
 * is as large as the result, or as the tensor's root mean square before or after. */
static double worst_error(const struct slot_data *s, const char *got, const double *want)
{
    double squares = 0, before = 0, worst = 0;
    for (int64_t i = 0; i < s->elements; i++) {
        double x;
        dtype_convert(&x, DT_F64, (char *)s->data + dtype_bytes(s->shape.dtype, i), s->shape.dtype, 1);
        before += x * x;
        squares += isfinite(want[i]) ? want[i] * want[i] : 0;
    }
    double rms = sqrt(fmax(before, squares) / (double)(s->elements ? s->elements : 1));
    for (int64_t i = 0; i < s->elements; i++) {
        double x;
        dtype_convert(&x, DT_F64, got + dtype_bytes(s->shape.dtype, i), s->shape.dtype, 1);
        double size = fmax(fabs(want[i]), rms) * (s->shape.dtype == DT_F64 ? 0x1p-43 : 0x1p-24);
        double off = fabs(x - want[i]) - 2.002 * rounding(s->shape.dtype, fabs(want[i]));
        double error = x == want[i] || off <= 0 ? 0 : off / size;
        worst = error <= worst ? worst : error;
    }
    return worst;
}

/* Codes of 8 bits: the share that is not the reference's, which a few may be, but next to it. Gradients in bf16 have few
 * distinct values: one that lies between two codes comes several times. */
static double wrong_codes(const struct slot_data *s, const char *got, const uint8_t *want)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < s->elements; i++) {
        int off = abs((uint8_t)got[i] - want[i]);
        if (off > 1)
            return 1e9;
        wrong += off;
    }
    return 16.0 * (double)wrong / (8 + (double)s->elements / 300); /* 16: one in 300, and eight more */
}

/* What the ops that have a workspace want of it for all of these. */
int64_t workspace_bytes(enum op op, const union args_any *args, int n)
{
    int64_t bytes = 256;
    for (int i = 0; i < n && op == OP_adafactor; i++)
        bytes += cuda_adafactor_workspace(&args[i].adafactor, &call);
    return bytes;
}

static void check(const char *what, launcher *launch, struct op_case *cases, int n)
{
    static struct op_inputs in[MAX_TENSORS];
    static union args_any args[MAX_TENSORS];
    static char *first[MAX_TENSORS][OP_MAX_SLOTS];
    const union args_any *list[MAX_TENSORS];
    const struct op_info *op = &op_table[cases[0].op];
    double worst = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            if (!round) {
                cases[i].stream = 1000 + (uint32_t)i;
                inputs_make(&in[i], &cases[i], DT_BF16);
            }
            args[i] = cases[i].args;
            list[i] = &args[i];
            for (int s = 0; s < op->n_slots; s++)
                if (in[i].slot[s].present) {
                    args[i].slot[s] = in[i].slot[s].shape;
                    args[i].slot[s].data = put(&in[i].slot[s], i % 3);
                }
        }
        int64_t bytes = workspace_bytes(cases[0].op, args, n);
        require(cudaMalloc(&call.workspace, (size_t)bytes), "cudaMalloc");
        require(cudaMemset(call.workspace, 0xFF, (size_t)bytes), "cudaMemset");
        require(launch(list, n), what);
        require(cudaDeviceSynchronize(), what);
        require(cudaFree(call.workspace), "cudaFree");
        for (int i = 0; i < n; i++)
            for (int s = 0; s < op->n_slots; s++) {
                if (!in[i].slot[s].present)
                    continue;
                char *host = mem_alloc((size_t)in[i].slot[s].bytes + 1);
                get(&in[i].slot[s], args[i].slot[s].data, i % 3, host);
                if (round && memcmp(host, first[i][s], (size_t)in[i].slot[s].bytes)) {
                    printf("FAIL: %s: other bits in a second run\n", what);
                    failures++;
                }
                if (round)
                    mem_free(host);
                else
                    first[i][s] = host;
            }
    }
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < op->n_slots; s++)
            if (in[i].slot[s].present)
                args[i].slot[s].data = in[i].slot[s].ref ? (void *)in[i].slot[s].ref : in[i].slot[s].data;
        reference_kernels[cases[0].op](&args[i], &(struct call){.threads = 1});
        for (int s = 0; s < op->n_slots; s++) {
            if (!in[i].slot[s].present)
                continue;
            double error = !slot_writes(op->slots[s].kind) ? 0
                           : in[i].slot[s].ref             ? worst_error(&in[i].slot[s], first[i][s], in[i].slot[s].ref)
                                               : wrong_codes(&in[i].slot[s], first[i][s], in[i].slot[s].data);
            if (!(error <= 16)) {
                printf("FAIL: %s: %s of tensor %d is off by %.3g roundings\n", what, op->slots[s].name, i, error);
                failures++;
            }
            worst = fmax(worst, error);
            mem_free(first[i][s]);
        }
        inputs_free(&in[i]);
    }
    printf("%-28s %4d tensors, at most %.2f roundings off\n", what, n, worst);
}

/* ---- cases ---- */

struct tensor tensor(enum dtype t, int64_t n)
{
    return (struct tensor){.shape = {n}, .dtype = t, .ndim = 1};
}

static const int64_t sizes[] = {2, 1024, 0, 4097, 1, 65536, 2 * 65536 + 5, 30522, 2048, 7, 300001, 3};
static const enum dtype types[] = {DT_F32, DT_BF16, DT_F16};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* So many tensors of the sizes above, every fourth one aligned for all; skip: coef says so. */
static void check_updates(const char *what, enum op op, int n, bool skip, bool plain)
{
    static struct op_case c[MAX_TENSORS];
    for (int i = 0; i < n; i++) {
        int64_t size = n > 100 ? 40 + i : sizes[i % N_SIZES];
        struct tensor p = tensor(DT_F32, size), g = tensor(types[i % 3], size), step = tensor(DT_F64, STEP_SCALARS);
        struct tensor copy = i % 4 == 1 ? (struct tensor){0} : tensor(types[(i + 1) % 3], size);
        struct tensor coef = tensor(DT_F32, plain ? 0 : 1);
        coef.ndim = !plain;
        c[i] = (struct op_case){.op = op, .name = what, .skip = skip, .update = plain ? 1 : 7};
        if (op == OP_adamw)
            c[i].args.adamw = (struct args_adamw){.p = p,
                                                  .g = g,
                                                  .m = p,
                                                  .v = p,
                                                  .step = step,
                                                  .coef = coef,
                                                  .copy = copy,
                                                  .beta1 = 0.9,
                                                  .beta2 = 0.999,
                                                  .eps = 1e-8,
                                                  .weight_decay = i % 2 ? 0.1 : 0};
        else
            c[i].args.sgd = (struct args_sgd){.p = p,
                                              .g = g,
                                              .buf = i % 5 == 0 ? (struct tensor){0} : p,
                                              .step = step,
                                              .coef = coef,
                                              .copy = copy,
                                              .momentum = 0.9,
                                              .dampening = plain ? 0.5 : 0,
                                              .nesterov = !plain,
                                              .weight_decay = i % 2 ? 0.1 : 0};
    }
    check(what, op == OP_adamw ? launch_adamw : launch_sgd, c, n);
}

static void check_8bit(const char *what, int n, bool skip, bool plain)
{
    static struct op_case c[MAX_TENSORS];
    for (int i = 0; i < n; i++) {
        int64_t size = n > 100 ? 40 + i : sizes[i % N_SIZES], blocks = (size + 255) / 256;
        struct tensor p = tensor(DT_F32, size), codes = tensor(DT_U8, size), absmax = tensor(DT_F32, blocks);
        struct tensor coef = tensor(DT_F32, plain ? 0 : 1);
        coef.ndim = !plain;
        c[i] = (struct op_case){
            .op = OP_adamw8bit,
            .name = what,
            .skip = skip,
            .update = plain ? 1 : 7,
            .args.adamw8bit = {.p = p,
                               .g = tensor(types[i % 3], size),
                               .m = codes,
                               .v = codes,
                               .absmax_m = absmax,
                               .absmax_v = absmax,
                               .step = tensor(DT_F64, STEP_SCALARS),
                               .coef = coef,
                               .copy = i % 4 == 1 ? (struct tensor){0} : tensor(types[(i + 1) % 3], size),
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = i % 2 ? 0.1 : 0}};
    }
    check(what, launch_adamw8bit, c, n);
}

static struct tensor shaped(enum dtype t, int ndim, const int64_t *shape)
{
    struct tensor x = {.dtype = t, .ndim = (int8_t)ndim};
    for (int d = 0; d < ndim; d++)
        x.shape[d] = shape[d];
    return x;
}

static void check_adafactor(const char *what, int n, bool skip, bool first, bool moment, bool relative)
{
    static const int64_t shapes[][4] = {{5, 7},  {37},         {130, 1024}, {1, 1},      {300, 2052},
                                        {40001}, {2, 3, 5, 9}, {1000, 3},   {2, 1024},   {3, 140, 64},
                                        {0, 8},  {129, 1030},  {2},         {640, 4096}, {33, 2}};
    static const int dims[] = {2, 1, 2, 2, 2, 1, 4, 2, 2, 3, 2, 2, 1, 2, 2};
    static struct op_case c[MAX_TENSORS];
    for (int i = 0; i < n; i++) {
        const int64_t *shape = shapes[i % 15], small[2] = {20 + i % 7, 30 + i % 11};
        int d = n > 100 ? 2 : dims[i % 15];
        shape = n > 100 ? small : shape;
        int64_t columns[4] = {0}, rows[4] = {0};
        for (int k = 0; k < d - 1; k++) {
            rows[k] = shape[k];
            columns[k] = k < d - 2 ? shape[k] : shape[d - 1];
        }
        struct tensor none = {0}, p = shaped(DT_F32, d, shape), coef = tensor(DT_F32, 1);
        c[i] = (struct op_case){.op = OP_adafactor,
                                .name = what,
                                .skip = skip,
                                .update = first ? 1 : 30,
                                .args.adafactor = {.p = p,
                                                   .g = shaped(types[i % 3], d, shape),
                                                   .row = d > 1 ? shaped(DT_F32, d - 1, rows) : none,
                                                   .col = d > 1 ? shaped(DT_F32, d - 1, columns) : none,
                                                   .v = d > 1 ? none : p,
                                                   .m = moment ? p : none,
                                                   .step = tensor(DT_F64, STEP_SCALARS),
                                                   .coef = first ? none : coef,
                                                   .copy = i % 4 == 1 ? none : shaped(types[(i + 1) % 3], d, shape),
                                                   .eps1 = 1e-30,
                                                   .eps2 = 1e-3,
                                                   .clip_threshold = 1,
                                                   .decay_rate = -0.8,
                                                   .beta1 = moment ? 0.9 : -1,
                                                   .weight_decay = i % 2 ? 0.1 : 0,
                                                   .scale_parameter = first || relative,
                                                   .relative_step = relative,
                                                   .warmup_init = relative && first}};
    }
    check(what, launch_adafactor, c, n);
}

static void check_sums(void)
{
    struct op_case c[12];
    for (int i = 0; i < 12; i++)
        c[i] = (struct op_case){
            .op = OP_sumsq,
            .args.sumsq = {.g = tensor(types[i % 3], sizes[i]), .partials = tensor(DT_F64, 8), .at = i % 3}};
    check("sumsq", launch_sumsq, c, 12);
}

static void check_clips(void)
{
    struct op_case c[6];
    for (int i = 0; i < 6; i++) {
        struct tensor one = tensor(DT_F32, 1), none = {0};
        c[i] = (struct op_case){.op = OP_clip,
                                .skip = i == 2 || i == 5,
                                .args.clip = {.partials = tensor(DT_F64, i == 4 ? 5500 : 5),
                                              .scaler = i < 3 ? none : tensor(DT_F64, SCALER_SCALARS),
                                              .norm = one,
                                              .coef = one,
                                              .max_norm = i % 2 ? 0.5 : 0}};
    }
    check("clip", launch_clip, c, 6);
}

/* ---- bitsandbytes' test of its 8-bit optimizer (tests/op/adamw8bit.c), here beside AdamW of the same launchers ---- */

static float *floats(char *device, int64_t n, float *host)
{
    require(cudaMemcpy(host, device, (size_t)n * 4, cudaMemcpyDeviceToHost), "download");
    return host;
}

static void set_floats(char *device, int64_t n, const float *host)
{
    require(cudaMemcpy(device, host, (size_t)n * 4, cudaMemcpyHostToDevice), "upload");
}

struct tensor on_device(enum dtype type, int64_t n)
{
    struct tensor t = tensor(type, n);
    require(cudaMalloc(&t.data, (size_t)dtype_bytes(type, n)), "cudaMalloc");
    require(cudaMemset(t.data, 0, (size_t)dtype_bytes(type, n)), "cudaMemset");
    return t;
}

/* Gives the state of 32 bits the numbers of that in codes, so that both go on from the same ones. Returns how many were far off. */
static int take_over(const struct tensor *state, const struct tensor *coded, const struct tensor *largest,
                     bool is_unsigned)
{
    int64_t n = state->shape[0], blocks = largest->shape[0];
    float *x = mem_alloc((size_t)n * 4), *absmax = mem_alloc((size_t)blocks * 4);
    uint8_t *codes = mem_alloc((size_t)n);
    int far = 0;
    floats(state->data, n, x);
    floats(largest->data, blocks, absmax);
    require(cudaMemcpy(codes, coded->data, (size_t)n, cudaMemcpyDeviceToHost), "download");
    for (int64_t i = 0; i < n; i++) {
        float got = (is_unsigned ? map_unsigned(codes[i]) : map_signed(codes[i])) * absmax[i / MAP_BLOCK];
        far += fabsf(got - x[i]) > 3e-3f + 1e-3f * fabsf(x[i]);
        x[i] = got;
    }
    set_floats(state->data, n, x);
    mem_free(x);
    mem_free(absmax);
    mem_free(codes);
    return far;
}

static void check_acceptance(int64_t n, int steps)
{
    int64_t blocks = (n + MAP_BLOCK - 1) / MAP_BLOCK;
    double scalars[STEP_SCALARS] = {[STEP_LR] = 1e-3}, worst = 0;
    float *p8 = mem_alloc((size_t)n * 4), *p = mem_alloc((size_t)n * 4), *g = mem_alloc((size_t)n * 4);
    union args_any eight = {.adamw8bit = {.p = on_device(DT_F32, n),
                                          .g = on_device(DT_F32, n),
                                          .m = on_device(DT_U8, n),
                                          .v = on_device(DT_U8, n),
                                          .absmax_m = on_device(DT_F32, blocks),
                                          .absmax_v = on_device(DT_F32, blocks),
                                          .step = on_device(DT_F64, STEP_SCALARS),
                                          .beta1 = 0.9,
                                          .beta2 = 0.999,
                                          .eps = 1e-8}};
    struct args_adamw8bit *e = &eight.adamw8bit;
    union args_any full = {.adamw = {.p = on_device(DT_F32, n),
                                     .g = e->g,
                                     .m = on_device(DT_F32, n),
                                     .v = on_device(DT_F32, n),
                                     .step = e->step,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .eps = 1e-8}};
    struct args_adamw *f = &full.adamw;
    const union args_any *one[] = {&eight}, *other[] = {&full};
    for (int64_t i = 0; i < n; i++)
        p8[i] = (float)(0.1 * random_normal(1, 0, (uint32_t)i));
    set_floats(e->p.data, n, p8);
    set_floats(f->p.data, n, p8);
    for (int s = 1; s <= steps; s++) {
        double off = 0, relative = 0;
        int far = 0;
        for (int64_t i = 0; i < n; i++)
            g[i] = (float)(0.01 * random_normal(2, (uint32_t)s, (uint32_t)i));
        scalars[STEP_UPDATE] = s;
        set_floats(e->g.data, n, g);
        require(cudaMemcpy(e->step.data, scalars, sizeof scalars, cudaMemcpyHostToDevice), "upload");
        require(launch_adamw8bit(one, 1) || launch_adamw(other, 1) || cudaDeviceSynchronize(), "acceptance");
        floats(e->p.data, n, p8);
        floats(f->p.data, n, p);
        for (int64_t i = 0; i < n; i++) {
            double error = fabs((double)(p8[i] - p[i]));
            off += error;
            relative += error / (fabs((double)p[i]) + 1e-9);
        }
        set_floats(f->p.data, n, p8);
        for (int k = 0; k < 2; k++)
            far += take_over(k ? &f->v : &f->m, k ? &e->v : &e->m, k ? &e->absmax_v : &e->absmax_m, k);
        if (!(off / (double)n < 6e-5 && relative / (double)n < 6e-4 && far < 20)) {
            printf("FAIL: acceptance of adamw8bit, %lld elements, step %d: off by %.3g, relative %.3g, %d far off\n",
                   (long long)n, s, off / (double)n, relative / (double)n, far);
            failures++;
        }
        worst = fmax(worst, off / (double)n);
    }
    printf("adamw8bit beside adamw, %lld elements, %d steps: at most %.3g off on average (allowed 6e-5)\n",
           (long long)n, steps, worst);
    struct tensor *all[] = {&e->p, &e->g, &e->m, &e->v, &e->absmax_m, &e->absmax_v, &e->step, &f->p, &f->m, &f->v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        require(cudaFree(all[i]->data), "cudaFree");
    mem_free(p8);
    mem_free(p);
    mem_free(g);
}

int main(int argc, char **argv)
{
    struct snug_err err;
    cudaStream_t stream;
    require(cudaStreamCreate(&stream), "cudaStreamCreate");
    call = (struct cuda_call){.stream = stream, .err = &err};
    require((cudaError_t)cuda_call_device(&call, 0), "cuda_call_device");
    check_sums();
    check_clips();
    check_updates("adamw", OP_adamw, 24, false, false);
    check_updates("adamw, first, no clipping", OP_adamw, 24, false, true);
    check_updates("adamw, skipped", OP_adamw, 24, true, false);
    check_updates("adamw, two launches", OP_adamw, 590, false, false);
    check_updates("sgd", OP_sgd, 24, false, false);
    check_updates("sgd, first, no clipping", OP_sgd, 24, false, true);
    check_updates("sgd, skipped", OP_sgd, 24, true, false);
    check_8bit("adamw8bit", 24, false, false);
    check_8bit("adamw8bit, first", 24, false, true);
    check_8bit("adamw8bit, skipped", 24, true, false);
    check_8bit("adamw8bit, two launches", 590, false, false);
    check_adafactor("adafactor", 30, false, false, false, false);
    check_adafactor("adafactor, first", 30, false, true, false, false);
    check_adafactor("adafactor, first moment", 30, false, false, true, false);
    check_adafactor("adafactor, relative", 30, false, false, false, true);
    check_adafactor("adafactor, relative, first", 30, false, true, true, true);
    check_adafactor("adafactor, skipped", 30, true, false, true, false);
    check_adafactor("adafactor, two launches", 590, false, false, false, false);
    check_acceptance(1024 * 32, 50);
    check_acceptance(1024 * 1024, 5);
    time_all(argc > 1 ? atoi(argv[1]) : 50);
    printf("%d failures\n", failures);
    return failures > 0;
}
