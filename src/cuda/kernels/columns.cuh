/* columns.cuh: sums over the rows of a matrix, in two stages. A kernel that passes over the rows anyway leaves a
 * partial sum for each of a fixed number of chunks of rows; column_sums adds those. Order: warp w of 32 takes the
 * chunks w, w + 32, … in order, then the sums of the warps are added by a butterfly. */
#ifndef CUDA_COLUMNS_CUH
#define CUDA_COLUMNS_CUH

#include "cuda/kernels/kernel.cuh"

enum { COLUMN_PARTS = 3, COLUMN_FOLD = 32 };

/* `parts` sums side by side, at most COLUMN_PARTS: partial (chunks, parts, H), to[i] (H). add: to what is there. to[i] NULL: that sum is
 * not wanted, and its partial sums need not be written. */
struct column_sums {
    const float *partial;
    int64_t chunks, H;
    int parts;
    float *to[COLUMN_PARTS];
    bool add[COLUMN_PARTS];
};

__global__ static void column_sums_kernel(const __grid_constant__ struct column_sums s)
{
    __shared__ float folded[COLUMN_FOLD][32 + 1];
    int64_t first = (int64_t)blockIdx.x * 32, h = first + threadIdx.x;
    float *to = s.to[blockIdx.y], sum = 0;
    if (!to)
        return;
    const float *from = s.partial + blockIdx.y * s.H + h;
    if (h < s.H)
#pragma unroll 8
        for (int64_t i = threadIdx.y; i < s.chunks; i += COLUMN_FOLD)
            sum += from[i * s.parts * s.H];
    folded[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = warp_sum(folded[threadIdx.x][threadIdx.y]);
    h = first + threadIdx.y;
    if (threadIdx.x == 0 && h < s.H)
        to[h] = s.add[blockIdx.y] ? to[h] + sum : sum;
}

/* Sum number `part` goes to the ACC slot `to`, F32; it may be absent. */
static inline void column_sums_set(struct column_sums *s, int part, const struct tensor *to)
{
    s->to[part] = (float *)to->data;
    s->add[part] = to->add;
}

/* Enqueues it; the caller's cuda_launched finds a failed launch. With no chunks the sums are 0. */
static inline void column_sums_launch(const struct column_sums *s, const struct cuda_call *c)
{
    if (s->H > 0)
        column_sums_kernel<<<dim3((unsigned)((s->H + 31) / 32), (unsigned)s->parts), dim3(32, COLUMN_FOLD), 0,
                             c->stream>>>(*s);
}

/* to (H) F32 = the sums of the columns of x (N,H), or added to what is there (columns.cu). All of the call's workspace is used, of
 * which the first function gives the bytes. A failed launch is the caller's to find. */
int64_t cuda_column_sums_workspace(const struct tensor *x);
void cuda_column_sums(const struct tensor *x, const struct tensor *to, const struct cuda_call *c);

#endif
