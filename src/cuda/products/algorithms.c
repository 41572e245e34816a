#include "cuda/products/algorithms.h"

#include "base/mem.h"

#include <math.h>

/* ---- the table ---- */

struct algorithm *algorithm_find(const struct cuda_products *p, const struct cuda_product *product)
{
    for (size_t i = 0; i < p->n_algorithms; i++)
        if (!p->algorithms[i].hidden && product_equal(&p->algorithms[i].product, product))
            return &p->algorithms[i];
    return NULL;
}

const struct algorithm *algorithm_nearest(const struct cuda_products *p, const struct cuda_product *product)
{
    const struct algorithm *best = NULL;
    double best_ratio = 0;
    for (size_t i = 0; i < p->n_algorithms; i++) {
        const struct algorithm *a = &p->algorithms[i];
        if (a->us <= 0 || a->hidden || !product_same_form(&a->product, product))
            continue;
        double ratio = fabs(log((double)a->product.N / (double)product->N));
        if (!best || ratio < best_ratio || (ratio == best_ratio && a->product.N < best->product.N)) {
            best = a;
            best_ratio = ratio;
        }
    }
    return best;
}

int algorithm_put(struct cuda_products *p, const struct algorithm *a, struct snug_err *err)
{
    struct algorithm *old = algorithm_find(p, &a->product);
    if (old) {
        problem_free(&p->lt, &old->problem);
        *old = *a;
        return SNUG_OK;
    }
    if (!MEM_GROW(p->algorithms, p->cap_algorithms, p->n_algorithms + 1))
        return err_no_memory(err, (p->n_algorithms + 1) * sizeof *p->algorithms);
    p->algorithms[p->n_algorithms++] = *a;
    return SNUG_OK;
}

int algorithm_put_recorded(struct cuda_products *p, const struct algorithm *a, struct snug_err *err)
{
    struct algorithm recorded = *a;
    recorded.recorded = true;
    for (size_t i = 0; i < p->n_algorithms; i++)
        if (!p->algorithms[i].recorded && product_same_layer(&p->algorithms[i].product, &a->product))
            p->algorithms[i].hidden = true;
    return algorithm_put(p, &recorded, err);
}

bool algorithm_is_recorded(const struct cuda_products *p, const struct cuda_product *product)
{
    for (size_t i = 0; i < p->n_algorithms; i++)
        if (p->algorithms[i].recorded && product_same_layer(&p->algorithms[i].product, product))
            return true;
    return false;
}

int64_t algorithms_workspace(const struct cuda_products *p, const struct cuda_product *product)
{
    int64_t bytes = -1;
    for (size_t i = 0; i < p->n_algorithms; i++) {
        const struct algorithm *a = &p->algorithms[i];
        if (a->supported && !a->hidden && product_same_layer(&a->product, product) && a->workspace > bytes)
            bytes = a->workspace;
    }
    return bytes;
}

int algorithms_unmeasured(const struct cuda_products *p)
{
    int n = 0;
    for (size_t i = 0; i < p->n_algorithms; i++) {
        const struct algorithm *a = &p->algorithms[i];
        n += a->supported && !a->hidden && a->us <= 0 && !a->product.heads && !algorithm_nearest(p, &a->product);
    }
    return n;
}

void algorithms_forget(struct cuda_products *p)
{
    for (size_t i = 0; i < p->n_algorithms; i++)
        problem_free(&p->lt, &p->algorithms[i].problem);
    p->n_algorithms = 0;
    algorithms_forget_grants(p);
}

void algorithms_close(struct cuda_products *p)
{
    algorithms_forget(p);
    mem_free(p->algorithms);
    mem_free(p->grants);
}

/* ---- grants ---- */

int64_t algorithms_granted(const struct cuda_products *p, const struct cuda_product *product)
{
    for (size_t i = 0; i < p->n_grants; i++)
        if (product_same_layer(&p->grants[i].layer, product))
            return p->grants[i].bytes;
    return -1;
}

void algorithms_grant(struct cuda_products *p, const struct cuda_product *product, int64_t bytes)
{
    if (MEM_GROW(p->grants, p->cap_grants, p->n_grants + 1))
        p->grants[p->n_grants++] = (struct grant){*product, bytes};
}

void algorithms_forget_grants(struct cuda_products *p)
{
    p->n_grants = 0;
}
