/* route and its gradient (op/experts/route.c): tokens side by side; the sort, a small part, in one thread. */
#include "cpu/kernels.h"
#include "cpu/simd/simd_math.h"
#include "op/experts/rows.h"

SIMD float element(const struct tensor *t, int64_t i, bool bf16)
{
    return vf_get_upto(t->data, i, 1, bf16)[0];
}

/* The sum of exp(z - max) over a row of E logits from element `at` on. */
SIMD float exp_sum(const struct tensor *z, int64_t at, int64_t E, float max, bool bf16)
{
    vf sum = vf_set1(0);
    for (int64_t e = 0; e < E; e += VF_LANES) {
        vf x = vf_exp(vf_get_upto(z->data, at + e, E - e, bf16) - vf_set1(max));
        sum += vf_where(vi_iota() + (int32_t)e < vi_set1((int32_t)E), x);
    }
    return vf_hsum(sum);
}

/* The experts of token n into its places, and their gates. */
SIMD void choose(const struct args_route *a, int64_t n, bool bf16)
{
    int64_t E = a->logits.shape[1], k = a->k;
    int32_t *chosen = (int32_t *)a->places.data + n * k;
    float last_z = 0, max = 0, sum = 0;
    for (int64_t j = 0, last = -1; j < k; j++) {
        int64_t best = -1;
        float best_z = 0;
        for (int64_t e = 0; e < E; e += VF_LANES) {
            vf z = vf_get_upto(a->logits.data, n * E + e, E - e, bf16);
            for (int l = 0; l < VF_LANES && e + l < E; l++)
                if ((last < 0 || experts_before(last_z, last, z[l], e + l)) &&
                    (best < 0 || experts_before(z[l], e + l, best_z, best)))
                    best = e + l, best_z = z[l];
        }
        chosen[j] = (int32_t)(last = best);
        last_z = best_z;
        max = j ? max : best_z;
        if (a->normalized)
            sum += vf_exp(vf_set1(best_z - max))[0];
    }
    if (!a->normalized)
        sum = exp_sum(&a->logits, n * E, E, max, bf16);
    for (int64_t j = 0; j < k; j++) {
        vf z = vf_set1(element(&a->logits, n * E + chosen[j], bf16) - max);
        vf_put_upto(a->gates.data, n * k + j, vf_exp(z) / vf_set1(sum), 1, bf16);
    }
}

void ISA(cpu_route)(const struct args_route *a, const struct call *c)
{
    bool bf16 = a->logits.dtype == DT_BF16;
    int64_t N = a->logits.shape[0], E = a->logits.shape[1];
#pragma omp parallel for schedule(static) num_threads(N *E * a->k < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        bf16 ? choose(a, n, true) : choose(a, n, false);
    experts_sort(a->places.data, a->offsets.data, N * a->k, E);
}

SIMD void route_bwd_row(const struct args_route_bwd *a, int64_t n, bool bf16)
{
    int64_t E = a->logits.shape[1], k = a->dgates.shape[1];
    const int32_t *places = (const int32_t *)a->places.data + n * k, *offsets = a->offsets.data;
    float max = element(&a->logits, n * E + experts_of(offsets, E, places[0]), bf16), sum = 0, s = 0;
    if (!a->normalized)
        sum = exp_sum(&a->logits, n * E, E, max, bf16);
    for (int64_t j = 0; j < k; j++) {
        float p = vf_exp(vf_set1(element(&a->logits, n * E + experts_of(offsets, E, places[j]), bf16) - max))[0];
        sum += a->normalized ? p : 0;
        s += p * element(&a->dgates, n * k + j, bf16);
    }
    s /= sum;
    for (int64_t e = 0; e < E; e += VF_LANES) {
        vf d = vf_set1(0),
           p = vf_exp(vf_get_upto(a->logits.data, n * E + e, E - e, bf16) - vf_set1(max)) / vf_set1(sum);
        vi chosen = vi_set1(0);
        for (int64_t j = 0; j < k; j++) {
            int64_t lane = experts_of(offsets, E, places[j]) - e;
            if (lane < 0 || lane >= VF_LANES)
                continue;
            d[lane] = element(&a->dgates, n * k + j, bf16);
            chosen[lane] = -1;
        }
        vf dz = p * (d - vf_set1(s));
        put_or_add(&a->dlogits, n * E + e, a->normalized ? vf_where(chosen, dz) : dz, E - e, bf16);
    }
}

void ISA(cpu_route_bwd)(const struct args_route_bwd *a, const struct call *c)
{
    bool bf16 = a->logits.dtype == DT_BF16;
    int64_t N = a->dlogits.data ? a->logits.shape[0] : 0;
#pragma omp parallel for schedule(static) num_threads(N * a->logits.shape[1] < PARALLEL_FROM ? 1 : c->threads)
    for (int64_t n = 0; n < N; n++)
        bf16 ? route_bwd_row(a, n, true) : route_bwd_row(a, n, false);
}
