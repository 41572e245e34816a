/* add: y = a + b, and back, elementwise. Bound by bytes: every tensor once. */
#include "cuda/kernels/elementwise/elementwise.cuh"

struct add_params {
    const void *a, *b;
    void *y;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N], w[N];
        load<T, N>(v, (const T *)a + i);
        load<T, N>(w, (const T *)b + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] += w[k];
        store<T, N>((T *)y + i, v);
    }
};

extern "C" int cuda_add(const struct args_add *a, const struct cuda_call *c)
{
    struct add_params p = {a->a.data, a->b.data, a->y.data};
    elementwise(p, &a->y, packs_fit(&a->a) && packs_fit(&a->b) && packs_fit(&a->y), c);
    return cuda_launched(c, "add");
}

struct add_bwd_params {
    const void *dy;
    void *da, *db; /* NULL where that gradient is not wanted */
    bool add_a, add_b;

    template <class T, int N> __device__ void at(int64_t i) const
    {
        float v[N];
        load<T, N>(v, (const T *)dy + i);
        if (da)
            store_or_add<T, N>((T *)da + i, v, add_a);
        if (db)
            store_or_add<T, N>((T *)db + i, v, add_b);
    }
};

static bool fits(const struct tensor *t)
{
    return !t->data || packs_fit(t);
}

extern "C" int cuda_add_bwd(const struct args_add_bwd *a, const struct cuda_call *c)
{
    struct add_bwd_params p = {a->dy.data, a->da.data, a->db.data, a->da.add, a->db.add};
    elementwise(p, &a->dy, packs_fit(&a->dy) && fits(&a->da) && fits(&a->db), c);
    return cuda_launched(c, "add_bwd");
}
