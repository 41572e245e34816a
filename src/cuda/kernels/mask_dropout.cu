/* Rows of masked tokens become 0, those beside them in a sequence are scaled. Bound by bytes: two tensors once. */
#include "cuda/kernels/vector.cuh"

enum { THREADS = 128, SPLITS = 16 };

/* A block has every SPLITS-th row of a sequence and a strip of columns; those of number B have the rows behind all sequences, which are 0.
 * Each counts the sequence's masked tokens by itself. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    mask_dropout_kernel(const T *x, const int32_t *ids, const int32_t *cu, T *y, int64_t rows, int64_t B, int64_t H,
                        int64_t token, float kept)
{
    int64_t b = blockIdx.x, h = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    int64_t from = cu[b], to = b < B ? cu[b + 1] : rows;
    int left = 0;
    if (h >= H)
        return;
    for (int64_t n = from; n < to && b < B; n++)
        left += ids[n] != token;
    float by = kept * (float)(to - from) / (float)left;
    for (int64_t n = from + blockIdx.z; n < to; n += SPLITS) {
        float v[1] = {0};
        if (b < B && ids[n] != token) {
            load<T, 1>(v, x + n * H + h);
            v[0] *= by;
        }
        store<T, 1>(y + n * H + h, v);
    }
}

extern "C" int cuda_mask_dropout(const struct args_mask_dropout *a, const struct cuda_call *c)
{
    int64_t rows = a->x.shape[0], H = a->x.shape[1], B = a->cu.shape[0] - 1;
    const int32_t *ids = (const int32_t *)a->ids.data, *cu = (const int32_t *)a->cu.data;
    dim3 grid((unsigned)(B + 1), (unsigned)((H + THREADS - 1) / THREADS), SPLITS);
    if (rows > 0 && H > 0)
        WITH_FLOAT_TYPE(a->x.dtype, T,
                        mask_dropout_kernel<T><<<grid, THREADS, 0, c->stream>>>(
                            (const T *)a->x.data, ids, cu, (T *)a->y.data, rows, B, H, a->token, (float)a->kept))
    return cuda_launched(c, "mask_dropout");
}
