/* Dropout of features, elementwise; the mask is made again by each pass (op/mask.h). Bound by bytes: two tensors once,
 * or three where a gradient is added to. One warp a row. */
#include "cuda/kernels/feature_mask.cuh"
#include "cuda/kernels/vector.cuh"

enum { LANE = 32, WARPS = 8 };

template <class T, int N>
__global__ void __launch_bounds__(LANE *WARPS)
    dropout_kernel(const T *x, T *y, bool add, int64_t rows, int64_t H, const struct feature_mask mask)
{
    int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / LANE;
    if (n >= rows)
        return;
    struct row_mask row = mask_start(mask);
    mask_set_row(mask, &row, n);
#pragma unroll 4
    for (int64_t h = threadIdx.x % LANE * N; h < H; h += LANE * N) {
        float v[N];
        load<T, N>(v, x + n * H + h);
        mask_apply<N>(mask, row, h, v);
        store_or_add<T, N>(y + n * H + h, v, add);
    }
}

static void dropout_launch(const struct tensor *x, const struct tensor *y, const struct feature_mask *mask,
                           const struct cuda_call *c)
{
    int64_t rows = x->shape[0], H = x->shape[1];
    unsigned blocks = (unsigned)((rows + WARPS - 1) / WARPS);
    if (rows > 0 && y->data)
        WITH_FLOAT_TYPE(x->dtype, T, {
            if (packs_fit(x) && packs_fit(y))
                dropout_kernel<T, pack_width<T>>
                    <<<blocks, LANE * WARPS, 0, c->stream>>>((const T *)x->data, (T *)y->data, y->add, rows, H, *mask);
            else
                dropout_kernel<T, 1>
                    <<<blocks, LANE * WARPS, 0, c->stream>>>((const T *)x->data, (T *)y->data, y->add, rows, H, *mask);
        })
}

extern "C" int cuda_dropout(const struct args_dropout *a, const struct cuda_call *c)
{
    struct feature_mask mask = feature_mask(&a->rng, &a->coords, a->site, a->p);
    dropout_launch(&a->x, &a->y, &mask, c);
    return cuda_launched(c, "dropout");
}

extern "C" int cuda_dropout_bwd(const struct args_dropout_bwd *a, const struct cuda_call *c)
{
    struct feature_mask mask = feature_mask(&a->rng, &a->coords, a->site, a->p);
    dropout_launch(&a->dy, &a->dx, &mask, c);
    return cuda_launched(c, "dropout_bwd");
}
