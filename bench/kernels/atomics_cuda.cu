/* bench-atomics-cuda: what sums in a fixed order cost. The gradients of BERT-large's embeddings and biases by the kernels of
 * src/cuda, whose bits never change, beside kernels that add with atomics, whose bits do; 32 sequences of 512 tokens.
 * Times are medians of replays of a CUDA graph of 8 launches; "off": the largest difference of the two results. */
#include "cuda/kernels/kernel.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

enum { T = 32 * 512, THREADS = 256, LAUNCHES = 8, REPLAYS = 25, WIDTH = 8, ROWS = 64 };

static void must(int code, const char *what)
{
    if (code) {
        printf("%s: %s\n", what, cudaGetErrorString((cudaError_t)code));
        exit(1);
    }
}

__device__ static inline void add_atomically(float *to, const float (&v)[WIDTH])
{
#if __CUDA_ARCH__ >= 900
    for (int i = 0; i < WIDTH; i += 4)
        atomicAdd((float4 *)(to + i), make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]));
#else
    for (int i = 0; i < WIDTH; i++)
        atomicAdd(to + i, v[i]);
#endif
}

__device__ static inline void load_row(float (&v)[WIDTH], const __nv_bfloat16 *from)
{
    pack<__nv_bfloat16, WIDTH> x = *(const pack<__nv_bfloat16, WIDTH> *)from;
    for (int i = 0; i < WIDTH; i++)
        v[i] = to_float(x.v[i]);
}

/* A warp adds a row of dy to the row of the table. */
__global__ static void __launch_bounds__(THREADS)
    embed_kernel(const int32_t *ids, const __nv_bfloat16 *dy, int64_t H, float *table)
{
    int64_t n = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    for (int64_t h = threadIdx.x % 32 * WIDTH; h < H; h += 32 * WIDTH) {
        float v[WIDTH];
        load_row(v, dy + n * H + h);
        add_atomically(table + ids[n] * H + h, v);
    }
}

/* A thread adds ROWS rows of its columns before it adds to the result. */
__global__ static void __launch_bounds__(THREADS) bias_kernel(const __nv_bfloat16 *dy, int64_t O, float *db)
{
    int64_t o = ((int64_t)blockIdx.x * 32 + threadIdx.x % 32) * WIDTH;
    int64_t first = (int64_t)blockIdx.y * (THREADS / 32) * ROWS + threadIdx.x / 32;
    float sum[WIDTH] = {};
    __shared__ float sums[THREADS / 32][32][WIDTH + 1];
    for (int i = 0; i < ROWS; i++) {
        float v[WIDTH];
        load_row(v, dy + (first + i * (THREADS / 32)) * O + o);
        for (int k = 0; k < WIDTH; k++)
            sum[k] += v[k];
    }
    for (int k = 0; k < WIDTH; k++)
        sums[threadIdx.x / 32][threadIdx.x % 32][k] = sum[k];
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    for (int w = 1; w < THREADS / 32; w++)
        for (int k = 0; k < WIDTH; k++)
            sum[k] += sums[w][threadIdx.x][k];
    add_atomically(db + o, sum);
}

static struct cuda_call call;

template <class Launch> static double microseconds(Launch launch)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    std::vector<float> ms(REPLAYS);
    must(cudaStreamBeginCapture(call.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < LAUNCHES; i++)
        launch(i);
    must(cudaStreamEndCapture(call.stream, &graph), "capture");
    must(cudaGraphInstantiate(&exec, graph, 0), "graph");
    must(cudaEventCreate(&from) || cudaEventCreate(&to), "event");
    for (int r = -2; r < REPLAYS; r++) {
        must(cudaEventRecord(from, call.stream), "event");
        must(cudaGraphLaunch(exec, call.stream), "launch");
        must(cudaEventRecord(to, call.stream), "event");
        must(cudaEventSynchronize(to), "launch");
        cudaEventElapsedTime(&ms[std::max(r, 0)], from, to);
    }
    std::sort(ms.begin(), ms.end());
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return 1000.0 * ms[REPLAYS / 2] / LAUNCHES;
}

static struct tensor tensor(enum dtype dtype, std::vector<int64_t> shape)
{
    struct tensor t = {};
    t.dtype = dtype;
    t.ndim = (int8_t)shape.size();
    for (size_t i = 0; i < shape.size(); i++)
        t.shape[i] = shape[i];
    must(cudaMalloc(&t.data, (size_t)dtype_bytes(dtype, tensor_elements(&t))), "cudaMalloc");
    return t;
}

static void fill(const struct tensor *t, unsigned seed)
{
    std::vector<uint16_t> x((size_t)tensor_elements(t));
    srand(seed);
    for (size_t i = 0; i < x.size(); i++)
        x[i] = i < 100003 ? bf16_from_float((float)rand() / (float)RAND_MAX - 0.5f) : x[i - 100003];
    must(cudaMemcpy(t->data, x.data(), 2 * x.size(), cudaMemcpyHostToDevice), "upload");
}

static double difference(const struct tensor *a, const struct tensor *b)
{
    std::vector<float> x((size_t)tensor_elements(a)), y(x.size());
    double most = 0;
    must(cudaMemcpy(x.data(), a->data, 4 * x.size(), cudaMemcpyDeviceToHost), "download");
    must(cudaMemcpy(y.data(), b->data, 4 * y.size(), cudaMemcpyDeviceToHost), "download");
    for (size_t i = 0; i < x.size(); i++)
        most = std::max(most, (double)std::fabs(x[i] - y[i]));
    return most;
}

static void report(const char *what, double ours, double atomic, double off)
{
    printf("%-34s in order %7.1f us   atomics %7.1f us   off %.1e\n", what, ours, atomic, off);
}

static void time_embedding(const char *what, int64_t words, bool positions)
{
    const int64_t H = 1024;
    struct tensor dy[LAUNCHES], ids = tensor(DT_I32, {T}), cu = tensor(DT_I32, {33});
    struct tensor ours = tensor(DT_F32, {words, H}), atomic = tensor(DT_F32, {words, H});
    std::vector<int32_t> id(T), first(33);
    for (int i = 0; i < T; i++)
        id[i] = positions ? i % 512 : (int32_t)((uint64_t)rand() % (uint64_t)words);
    for (int i = 0; i < 33; i++)
        first[i] = i * 512;
    must(cudaMemcpy(ids.data, id.data(), 4 * id.size(), cudaMemcpyHostToDevice), "upload");
    must(cudaMemcpy(cu.data, first.data(), 4 * first.size(), cudaMemcpyHostToDevice), "upload");
    for (int i = 0; i < LAUNCHES; i++) {
        dy[i] = tensor(DT_BF16, {T, H});
        fill(&dy[i], 1);
    }
    struct args_embed_bwd a = {};
    a.ids = ids, a.dy = dy[0], a.cu = cu, a.dtable = ours;
    must(cudaMalloc(&call.workspace, (size_t)cuda_embed_bwd_workspace(&a, &call)), "cudaMalloc");
    double x = microseconds([&](int i) {
        a.dy = dy[i];
        must(cuda_embed_bwd(&a, &call), "embed_bwd");
    });
    double y = microseconds([&](int i) {
        cudaMemsetAsync(atomic.data, 0, (size_t)(4 * words * H), call.stream);
        embed_kernel<<<T / (THREADS / 32), THREADS, 0, call.stream>>>(
            (const int32_t *)ids.data, (const __nv_bfloat16 *)dy[i].data, H, (float *)atomic.data);
    });
    report(what, x, y, difference(&ours, &atomic));
    for (struct tensor &t : dy)
        cudaFree(t.data);
    for (void *p : {ids.data, cu.data, ours.data, atomic.data, call.workspace})
        cudaFree(p);
}

static void time_bias(const char *what, int64_t O)
{
    struct tensor dy[LAUNCHES], ours = tensor(DT_F32, {O}), atomic = tensor(DT_F32, {O});
    for (int i = 0; i < LAUNCHES; i++) {
        dy[i] = tensor(DT_BF16, {T, O});
        fill(&dy[i], 2);
    }
    struct args_linear_dw a = {};
    a.dy = a.x = dy[0], a.db = ours;
    must(cudaMalloc(&call.workspace, (size_t)cuda_linear_dw_workspace(&a, &call)), "cudaMalloc");
    double x = microseconds([&](int i) {
        a.dy = dy[i];
        must(cuda_linear_dw(&a, &call), "linear_dw");
    });
    double y = microseconds([&](int i) {
        cudaMemsetAsync(atomic.data, 0, (size_t)(4 * O), call.stream);
        bias_kernel<<<dim3((unsigned)(O / (32 * WIDTH)), T / (THREADS / 32 * ROWS)), THREADS, 0, call.stream>>>(
            (const __nv_bfloat16 *)dy[i].data, O, (float *)atomic.data);
    });
    report(what, x, y, difference(&ours, &atomic));
    for (struct tensor &t : dy)
        cudaFree(t.data);
    for (void *p : {ours.data, atomic.data, call.workspace})
        cudaFree(p);
}

int main(void)
{
    struct snug_err err;
    must((cudaError_t)cuda_call_device(&call, 0), "device");
    call.err = &err;
    must(cudaStreamCreate(&call.stream), "stream");
    time_embedding("word embeddings, 30522 x 1024", 30522, false);
    time_embedding("positions, 512 x 1024", 512, true);
    time_embedding("token types, 2 x 1024", 2, false);
    time_bias("bias of 1024 outputs", 1024);
    time_bias("bias of 3072 outputs", 3072);
    time_bias("bias of 4096 outputs", 4096);
    return 0;
}
