/* update.cuh: what the updates of weights have in common. */
#ifndef CUDA_UPDATE_CUH
#define CUDA_UPDATE_CUH

#include "cuda/kernels/optimizer/stored.cuh"

/* What the rows of all updates have: the weight, its gradient and the copy that is written with it (NULL: none). */
struct updated {
    void *p;
    const void *g;
    void *copy;
    int64_t n;     /* elements */
    int64_t first; /* of a shard: the number of its first element in the weight */
    double weight_decay;
    uint32_t noise;          /* which random numbers round what is stored (op/optimizer/rounding.h) */
    uint8_t type, copy_type; /* of g and copy */
    bool packed;             /* each tensor, states as well, can be read and written updates_at_once */
    bool pure;               /* p, and states of its shape that are no codes, are bf16 */
};

/* Elements that a thread takes at once, of a weight whose elements have so many bytes. */
__host__ __device__ constexpr int updates_at_once(size_t bytes)
{
    return bytes == 2 ? ROUNDING_BLOCK : 4;
}

/* Whether t, or none, can be taken with the weight p. */
static inline bool fits_updates(const struct tensor *p, const struct tensor *t)
{
    return fits_packs(t, updates_at_once((size_t)dtype_bytes(p->dtype, 1)));
}

/* `states` are packed as well. */
template <class Args> static inline struct updated updated_of(const Args *a, bool states)
{
    return {a->p.data,
            a->g.data,
            a->copy.data,
            tensor_elements(&a->p),
            a->p.first,
            a->weight_decay,
            (uint32_t)a->noise,
            (uint8_t)a->g.dtype,
            (uint8_t)a->copy.dtype,
            states && fits_updates(&a->p, &a->p) && fits_updates(&a->p, &a->g) && fits_updates(&a->p, &a->copy),
            a->p.dtype == DT_BF16};
}

/* What is the same for all tensors of an AdamW step, and the factors that follow from it, combined in double. */
struct adamw_head {
    const double *step;
    const float *coef;
    double beta1, beta2, eps;
    bool decay_last;
};

struct adamw_factors {
    float beta1, rest1, beta2, rest2, eps, rate, scale, coef;
};

template <class Args> static inline struct adamw_head adamw_head_of(const Args *a, bool decay_last)
{
    return {(const double *)a->step.data, (const float *)a->coef.data, a->beta1, a->beta2, a->eps, decay_last};
}

/* By all threads of a block, of four warps or more, which then wait for one another. Two of them take a power each. */
__device__ static inline struct adamw_factors adamw_factors_shared(struct adamw_factors &f, const struct adamw_head &h)
{
    double t = h.step[STEP_UPDATE];
    if (threadIdx.x == 64) {
        f.beta1 = (float)h.beta1, f.rest1 = (float)(1 - h.beta1);
        f.beta2 = (float)h.beta2, f.rest2 = (float)(1 - h.beta2);
        f.eps = (float)h.eps;
        f.coef = h.coef ? *h.coef : 1;
        f.rate = (float)(-h.step[STEP_LR] / (1 - pow(h.beta1, t)));
    } else if (threadIdx.x == 96) {
        f.scale = (float)(1 / sqrt(1 - pow(h.beta2, t)));
    }
    __syncthreads();
    return f;
}

#endif
