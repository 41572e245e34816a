#include "cuda/products/products.h"

#include "base/mem.h"
#include "cuda/products/algorithms.h"

/* ---- choosing ---- */

static int choose_new(struct cuda_products *p, const struct cuda_product *product, int64_t workspace,
                      struct algorithm *out, struct snug_err *err)
{
    const struct algorithm *near = algorithm_nearest(p, product);
    *out = (struct algorithm){.product = *product, .supported = true};
    TRY(problem_make(&p->lt, product, &out->problem, err));
    out->ready = true;
    if (near && near->supported) {
        out->algo = near->algo;
        if (problem_takes(&p->lt, &out->problem, &out->algo, workspace, &out->workspace))
            return SNUG_OK;
    }
    cublasLtMatmulHeuristicResult_t first;
    int n;
    int code = problem_candidates(&p->lt, product, &out->problem, workspace, 1, &first, &n, err);
    if (code) {
        problem_free(&p->lt, &out->problem);
        return code;
    }
    out->supported = n > 0;
    if (n) {
        out->algo = first.algo;
        out->workspace = (int64_t)first.workspaceSize;
    }
    return SNUG_OK;
}

/* Without cuBLASLt: as the nearest that was measured. */
static int choose_absent(struct cuda_products *p, const struct cuda_product *product, struct algorithm **out,
                         struct snug_err *err)
{
    const struct algorithm *near = algorithm_nearest(p, product);
    struct algorithm made = {.product = *product, .supported = !near || near->supported};
    made.workspace = near ? near->workspace : PRODUCT_WORKSPACE_CAP;
    if (!algorithm_find(p, product))
        TRY(algorithm_put(p, &made, err));
    *out = algorithm_find(p, product);
    return SNUG_OK;
}

/* The algorithm for `product` within `workspace` bytes, made now if there is none. Valid until the next call. */
static int choose(struct cuda_products *p, const struct cuda_product *product, int64_t workspace,
                  struct algorithm **out, struct snug_err *err)
{
    if (!p->lt.handle)
        return choose_absent(p, product, out, err);
    struct algorithm *a = algorithm_find(p, product);
    if (a && a->supported && !a->ready) { /* from a profile or a checkpoint */
        TRY(problem_make(&p->lt, product, &a->problem, err));
        int64_t wants;
        a->ready = problem_takes(&p->lt, &a->problem, &a->algo, a->workspace, &wants);
        if (!a->ready)
            problem_free(&p->lt, &a->problem);
    }
    if (!a || (a->supported && (!a->ready || a->workspace > workspace))) {
        struct algorithm made;
        TRY(choose_new(p, product, workspace, &made, err));
        int code = algorithm_put(p, &made, err);
        if (code) {
            problem_free(&p->lt, &made.problem);
            return code;
        }
        a = algorithm_find(p, product);
    }
    *out = a;
    return SNUG_OK;
}

int64_t cuda_products_workspace(struct cuda_products *p, const struct cuda_product *product)
{
    int64_t bytes = algorithms_granted(p, product);
    if (bytes >= 0)
        return bytes;
    bytes = algorithms_workspace(p, product);
    struct algorithm *a;
    if (bytes < 0)
        bytes = choose(p, product, PRODUCT_WORKSPACE_CAP, &a, NULL) || !a->supported ? 0 : a->workspace;
    algorithms_grant(p, product, bytes); /* else the run's own call takes an algorithm without workspace */
    return bytes;
}

void cuda_products_grant(struct cuda_products *p)
{
    for (size_t i = 0; i < p->n_algorithms; i++) {
        struct cuda_product product = p->algorithms[i].product; /* the table may move */
        if (!p->algorithms[i].hidden)
            cuda_products_workspace(p, &product);
    }
}

bool cuda_products_supported(struct cuda_products *p, const struct cuda_product *product)
{
    struct algorithm *a;
    int64_t workspace = algorithms_granted(p, product);
    return !choose(p, product, workspace < 0 ? PRODUCT_WORKSPACE_CAP : workspace, &a, NULL) && a->supported;
}

bool cuda_products_chosen(const struct cuda_products *p, const struct cuda_product *own)
{
    const struct algorithm *a = algorithm_find(p, own);
    if (!a)
        a = algorithm_nearest(p, own);
    return a && a->supported && a->us > 0;
}

int cuda_products_run(struct cuda_products *p, const struct cuda_product *product, const struct product_data *data,
                      struct CUstream_st *stream, struct snug_err *err)
{
    int64_t workspace = algorithms_granted(p, product);
    struct algorithm *a;
    TRY(choose(p, product, workspace < 0 ? 0 : workspace, &a, err));
    if (!a->supported)
        return problem_status(&p->lt, product, CUBLAS_STATUS_NOT_SUPPORTED, err);
    return problem_run(&p->lt, product, &a->problem, &a->algo, a->workspace, data, stream, err);
}

int cuda_products_unmeasured(const struct cuda_products *p)
{
    return algorithms_unmeasured(p);
}

/* ---- opening ---- */

int cuda_products_open(struct cuda_products **out, bool scales_rows, struct snug_err *err)
{
    *out = NULL;
    struct cuda_products *p = mem_alloc(sizeof *p);
    if (!p)
        return err_no_memory(err, sizeof *p);
    int code = cublaslt_open(&p->lt, err);
    if (code) {
        mem_free(p);
        return code;
    }
    p->lt.scales_rows = scales_rows;
    *out = p;
    return SNUG_OK;
}

bool cuda_products_scale_rows(const struct cuda_products *p)
{
    return p->lt.scales_rows;
}

int cuda_products_open_absent(int64_t cublaslt, bool scales_rows, struct cuda_products **out, struct snug_err *err)
{
    *out = mem_alloc(sizeof **out);
    if (!*out)
        return err_no_memory(err, sizeof **out);
    (*out)->lt.version = cublaslt;
    (*out)->lt.scales_rows = scales_rows;
    return SNUG_OK;
}

void cuda_products_close(struct cuda_products *p)
{
    if (!p)
        return;
    algorithms_close(p);
    cublaslt_close(&p->lt);
    mem_free(p);
}

int64_t cuda_products_version(const struct cuda_products *p)
{
    return p->lt.version;
}
