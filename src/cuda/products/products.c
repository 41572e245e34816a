#include "cuda/products/products_internal.h"

#include "base/mem.h"
#include "cuda/device.h"
#include "cuda/kernels/linear_sm90.h"
#include "op/dx_act.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- products ---- */

static bool same_layer(const struct cuda_product *a, const struct cuda_product *b)
{
    return a->op == b->op && a->I == b->I && a->O == b->O && a->in == b->in && a->out == b->out &&
           a->in_out == b->in_out && a->tf32 == b->tf32;
}

static bool same_form(const struct cuda_product *a, const struct cuda_product *b)
{
    return same_layer(a, b) && a->bias == b->bias && a->add == b->add && a->act == b->act && a->own == b->own &&
           a->align == b->align;
}

bool product_equal(const struct cuda_product *a, const struct cuda_product *b)
{
    return same_form(a, b) && a->N == b->N;
}

void cuda_product_name(const struct cuda_product *p, char name[128])
{
    snprintf(name, 128, "%s %" PRId64 "x%" PRId64 "x%" PRId64 " %s>%s%s%s%s%s%s%s%s%s", op_table[p->op].name, p->N,
             p->I, p->O, dtype_name(p->in), dtype_name(p->out), p->in_out ? " in_out" : "", p->add ? " add" : "",
             p->tf32 ? " tf32" : "", p->bias == DT_U8 ? "" : " b ", p->bias == DT_U8 ? "" : dtype_name(p->bias),
             p->act ? " " : "", p->act ? act_names[p->act] : "", p->own ? " own" : "");
}

int product_status(struct cuda_products *p, const struct cuda_product *product, cublasStatus_t status,
                   struct snug_err *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return SNUG_OK;
    char name[128];
    cuda_product_name(product, name);
    if (status == CUBLAS_STATUS_EXECUTION_FAILED) /* of a launch, perhaps because the device had failed before */
        TRY(cuda_check(cudaPeekAtLastError(), name, err));
    return err_set(err, SNUG_ERR_ENV, "cuda: %s: cuBLASLt %" PRId64 ": %s; update the driver, or report this", name,
                   p->version, p->lt.GetStatusString(status));
}

/* ---- as cuBLASLt sees them ---- */

/* Its matrices are column-major, so a row-major (R,C) tensor is its (C,R) matrix, and Y = X W^T is asked for as
 * Y^T = W X^T: D (m,n) = op(A) (m,k) op(B) (k,n). */
struct gemm {
    int64_t m, n;
    int64_t a_rows, a_columns, b_rows, b_columns;
    bool a_transposed, b_transposed;
    bool a_is_rows; /* A is data->rows and B data->factor; else the other way round */
};

static struct gemm gemm_of(const struct cuda_product *p)
{
    int64_t N = p->N, I = p->I, O = p->O;
    if (p->op == OP_linear_dw) /* both factors are tall: the sum runs over their rows */
        return p->in_out ? (struct gemm){O, I, O, N, I, N, false, true, true}
                         : (struct gemm){I, O, I, N, O, N, false, true, false};
    struct gemm g = {.m = p->op == OP_linear ? O : I, .n = N, .b_rows = p->op == OP_linear ? I : O, .b_columns = N};
    g.a_rows = p->in_out ? O : I;
    g.a_columns = p->in_out ? I : O;
    g.a_transposed = p->in_out == (p->op == OP_linear_dx);
    return g;
}

static cudaDataType_t type_of(enum dtype t)
{
    return t == DT_BF16 ? CUDA_R_16BF : t == DT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static uint32_t epilogue_of(const struct cuda_product *p)
{
    return p->bias != DT_U8 ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void problem_free(struct cuda_products *p, struct problem *problem)
{
    if (problem->desc)
        p->lt.MatmulDescDestroy(problem->desc);
    if (problem->a)
        p->lt.MatrixLayoutDestroy(problem->a);
    if (problem->b)
        p->lt.MatrixLayoutDestroy(problem->b);
    if (problem->d)
        p->lt.MatrixLayoutDestroy(problem->d);
    *problem = (struct problem){0};
}

static cublasStatus_t describe(struct cuda_products *p, const struct cuda_product *product, struct problem *out)
{
    const struct cublaslt *lt = &p->lt;
    struct gemm g = gemm_of(product);
    cudaDataType_t in = type_of(product->in), result = type_of(product->out), bias = type_of(product->bias);
    int32_t ta = g.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint32_t epilogue = epilogue_of(product);
    int32_t bias_type = (int32_t)bias;
    cublasStatus_t s =
        lt->MatmulDescCreate(&out->desc, product->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!s)
        s = lt->MatmulDescSetAttribute(out->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    if (!s)
        s = lt->MatmulDescSetAttribute(out->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    if (!s)
        s = lt->MatmulDescSetAttribute(out->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!s && product->bias != DT_U8)
        s = lt->MatmulDescSetAttribute(out->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type);
    if (!s)
        s = lt->MatrixLayoutCreate(&out->a, in, (uint64_t)g.a_rows, (uint64_t)g.a_columns, g.a_rows);
    if (!s)
        s = lt->MatrixLayoutCreate(&out->b, in, (uint64_t)g.b_rows, (uint64_t)g.b_columns, g.b_rows);
    if (!s)
        s = lt->MatrixLayoutCreate(&out->d, result, (uint64_t)g.m, (uint64_t)g.n, g.m);
    return s;
}

int problem_make(struct cuda_products *p, const struct cuda_product *product, struct problem *out, struct snug_err *err)
{
    *out = (struct problem){0};
    int code = product_status(p, product, describe(p, product, out), err);
    if (code)
        problem_free(p, out);
    return code;
}

int problem_candidates(struct cuda_products *p, const struct cuda_product *product, const struct problem *problem,
                       int64_t workspace, int max, cublasLtMatmulHeuristicResult_t *results, int *n,
                       struct snug_err *err)
{
    const struct cublaslt *lt = &p->lt;
    cublasLtMatmulPreference_t pref = NULL;
    uint64_t bytes = (uint64_t)workspace;
    /* Partial sums go through the workspace in F32, or through the result where that is F32 (counters in the workspace
     * keep the order); never rounded to 16 bits in between. */
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (product->out == DT_F32)
        schemes |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
    uint32_t align = (uint32_t)product->align;
    *n = 0;
    cublasStatus_t s = lt->MatmulPreferenceCreate(&pref);
    if (!s)
        s = lt->MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (!s)
        s = lt->MatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                             sizeof schemes);
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4 && !s; i++)
        s = lt->MatmulPreferenceSetAttribute(pref, alignments[i], &align, sizeof align);
    if (!s) {
        int found = 0;
        s = lt->MatmulAlgoGetHeuristic(p->handle, problem->desc, problem->a, problem->b, problem->d, problem->d, pref,
                                       max, results, &found);
        for (int i = 0; i < found && !s; i++)
            if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= bytes)
                results[(*n)++] = results[i];
        if (s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE) /* no algorithm for this form */
            s = CUBLAS_STATUS_SUCCESS;
    }
    if (pref)
        lt->MatmulPreferenceDestroy(pref);
    return product_status(p, product, s, err);
}

bool problem_takes(struct cuda_products *p, const struct problem *m, const cublasLtMatmulAlgo_t *algo,
                   int64_t workspace, int64_t *wants)
{
    cublasLtMatmulHeuristicResult_t r = {0};
    cublasStatus_t s = p->lt.MatmulAlgoCheck(p->handle, m->desc, m->a, m->b, m->d, m->d, algo, &r);
    *wants = (int64_t)r.workspaceSize;
    return !s && *wants <= workspace;
}

int problem_run(struct cuda_products *p, const struct cuda_product *product, const struct problem *problem,
                const cublasLtMatmulAlgo_t *algo, int64_t workspace_bytes, const struct product_data *data,
                struct CUstream_st *stream, struct snug_err *err)
{
    const struct cublaslt *lt = &p->lt;
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (product->bias != DT_U8)
        s = lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &data->bias,
                                       sizeof data->bias);
    bool rows_first = gemm_of(product).a_is_rows;
    float alpha = 1, beta = product->add ? 1 : 0;
    if (!s)
        s = lt->Matmul(p->handle, problem->desc, &alpha, rows_first ? data->rows : data->factor, problem->a,
                       rows_first ? data->factor : data->rows, problem->b, &beta, data->result, problem->d,
                       data->result, problem->d, algo, data->workspace, (size_t)workspace_bytes, stream);
    return product_status(p, product, s, err);
}

/* ---- choosing ---- */

static struct choice *find(const struct cuda_products *p, const struct cuda_product *product)
{
    for (size_t i = 0; i < p->n_choices; i++)
        if (!p->choices[i].hidden && product_equal(&p->choices[i].product, product))
            return &p->choices[i];
    return NULL;
}

/* The measured choice of the same form at the nearest N (by ratio; of two, the smaller). */
static const struct choice *find_nearest(const struct cuda_products *p, const struct cuda_product *product)
{
    const struct choice *best = NULL;
    double best_ratio = 0;
    for (size_t i = 0; i < p->n_choices; i++) {
        const struct choice *c = &p->choices[i];
        if (c->us <= 0 || c->hidden || !same_form(&c->product, product))
            continue;
        double ratio = fabs(log((double)c->product.N / (double)product->N));
        if (!best || ratio < best_ratio || (ratio == best_ratio && c->product.N < best->product.N)) {
            best = c;
            best_ratio = ratio;
        }
    }
    return best;
}

int choice_put(struct cuda_products *p, const struct choice *c, struct snug_err *err)
{
    struct choice *old = find(p, &c->product);
    if (old) {
        problem_free(p, &old->problem);
        *old = *c;
        return SNUG_OK;
    }
    if (!MEM_GROW(p->choices, p->cap_choices, p->n_choices + 1))
        return err_no_memory(err, (p->n_choices + 1) * sizeof *p->choices);
    p->choices[p->n_choices++] = *c;
    return SNUG_OK;
}

int choice_put_recorded(struct cuda_products *p, const struct choice *c, struct snug_err *err)
{
    struct choice recorded = *c;
    recorded.recorded = true;
    for (size_t i = 0; i < p->n_choices; i++)
        if (!p->choices[i].recorded && same_layer(&p->choices[i].product, &c->product))
            p->choices[i].hidden = true;
    return choice_put(p, &recorded, err);
}

bool layer_is_recorded(const struct cuda_products *p, const struct cuda_product *product)
{
    for (size_t i = 0; i < p->n_choices; i++)
        if (p->choices[i].recorded && same_layer(&p->choices[i].product, product))
            return true;
    return false;
}

struct choice *choice_find(struct cuda_products *p, const struct cuda_product *product)
{
    return find(p, product);
}

static int choose_new(struct cuda_products *p, const struct cuda_product *product, int64_t workspace,
                      struct choice *out, struct snug_err *err)
{
    const struct choice *near = find_nearest(p, product);
    *out = (struct choice){.product = *product, .supported = true};
    TRY(problem_make(p, product, &out->problem, err));
    out->ready = true;
    if (near && near->supported) {
        out->algo = near->algo;
        if (problem_takes(p, &out->problem, &out->algo, workspace, &out->workspace))
            return SNUG_OK;
    }
    cublasLtMatmulHeuristicResult_t first;
    int n;
    int code = problem_candidates(p, product, &out->problem, workspace, 1, &first, &n, err);
    if (code) {
        problem_free(p, &out->problem);
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
static int choose_absent(struct cuda_products *p, const struct cuda_product *product, struct choice **out,
                         struct snug_err *err)
{
    const struct choice *near = find_nearest(p, product);
    struct choice made = {.product = *product, .supported = !near || near->supported};
    made.workspace = near ? near->workspace : PRODUCT_WORKSPACE_CAP;
    if (!find(p, product))
        TRY(choice_put(p, &made, err));
    *out = find(p, product);
    return SNUG_OK;
}

/* The choice for `product` within `workspace` bytes, made now if there is none. Valid until the next call. */
static int choose(struct cuda_products *p, const struct cuda_product *product, int64_t workspace, struct choice **out,
                  struct snug_err *err)
{
    if (!p->handle)
        return choose_absent(p, product, out, err);
    struct choice *c = find(p, product);
    if (c && c->supported && !c->ready) { /* from a profile or a checkpoint */
        TRY(problem_make(p, product, &c->problem, err));
        int64_t wants;
        c->ready = problem_takes(p, &c->problem, &c->algo, c->workspace, &wants);
        if (!c->ready)
            problem_free(p, &c->problem);
    }
    if (!c || (c->supported && (!c->ready || c->workspace > workspace))) {
        struct choice made;
        TRY(choose_new(p, product, workspace, &made, err));
        int code = choice_put(p, &made, err);
        if (code) {
            problem_free(p, &made.problem);
            return code;
        }
        c = find(p, product);
    }
    *out = c;
    return SNUG_OK;
}

static int64_t granted(const struct cuda_products *p, const struct cuda_product *product)
{
    for (size_t i = 0; i < p->n_grants; i++)
        if (same_layer(&p->grants[i].layer, product))
            return p->grants[i].bytes;
    return -1;
}

bool choice_is_runs(const struct cuda_products *p, const struct cuda_product *product)
{
    return granted(p, product) >= 0;
}

int64_t cuda_products_workspace(struct cuda_products *p, const struct cuda_product *product)
{
    int64_t bytes = granted(p, product);
    if (bytes >= 0)
        return bytes;
    for (size_t i = 0; i < p->n_choices; i++) {
        const struct choice *c = &p->choices[i];
        if (c->supported && !c->hidden && same_layer(&c->product, product) && c->workspace > bytes)
            bytes = c->workspace;
    }
    struct choice *c;
    if (bytes < 0)
        bytes = choose(p, product, PRODUCT_WORKSPACE_CAP, &c, NULL) || !c->supported ? 0 : c->workspace;
    /* Without memory for this note the run's own call grants nothing, and takes an algorithm without workspace. */
    if (MEM_GROW(p->grants, p->cap_grants, p->n_grants + 1))
        p->grants[p->n_grants++] = (struct grant){*product, bytes};
    return bytes;
}

bool cuda_products_supported(struct cuda_products *p, const struct cuda_product *product)
{
    struct choice *c;
    int64_t workspace = granted(p, product);
    return !choose(p, product, workspace < 0 ? PRODUCT_WORKSPACE_CAP : workspace, &c, NULL) && c->supported;
}

bool cuda_products_chosen(const struct cuda_products *p, const struct cuda_product *own)
{
    const struct choice *c = find(p, own);
    if (!c)
        c = find_nearest(p, own);
    return c && c->supported && c->us > 0;
}

int cuda_products_run(struct cuda_products *p, const struct cuda_product *product, const struct product_data *data,
                      struct CUstream_st *stream, struct snug_err *err)
{
    int64_t workspace = granted(p, product);
    struct choice *c;
    TRY(choose(p, product, workspace < 0 ? 0 : workspace, &c, err));
    if (!c->supported)
        return product_status(p, product, CUBLAS_STATUS_NOT_SUPPORTED, err);
    return problem_run(p, product, &c->problem, &c->algo, c->workspace, data, stream, err);
}

int cuda_products_unmeasured(const struct cuda_products *p)
{
    int n = 0;
    for (size_t i = 0; i < p->n_choices; i++) {
        const struct choice *c = &p->choices[i];
        n += c->supported && !c->hidden && c->us <= 0 && !find_nearest(p, &c->product);
    }
    return n;
}

/* ---- nodes ---- */

static int alignment(const void *p, int align)
{
    while ((uintptr_t)p % (unsigned)align)
        align /= 2;
    return align;
}

static struct cuda_product product_of(enum op op, const struct tensor *rows, const struct tensor *factor,
                                      const struct tensor *result)
{
    struct cuda_product p = {.op = op,
                             .N = rows->shape[0],
                             .in = rows->dtype,
                             .out = result->dtype,
                             .bias = DT_U8,
                             .add = result->add,
                             .align = 16};
    p.align = alignment(rows->data, p.align);
    p.align = alignment(factor->data, p.align);
    p.align = alignment(result->data, p.align);
    return p;
}

static struct cuda_product forward(struct cuda_products *p, const struct args_linear *a, bool tf32)
{
    struct cuda_product f = product_of(OP_linear, &a->x, &a->w, &a->y);
    f.I = a->x.shape[1];
    f.O = tensor_pitch(&a->y);
    f.in_out = a->in_out;
    f.tf32 = tf32;
    if (!a->b.data && !a->b.ndim)
        return f;
    f.bias = a->b.dtype;
    if (f.bias != f.out && !cuda_products_supported(p, &f))
        f.bias = f.out;
    return f;
}

struct cuda_product cuda_product_of(struct cuda_products *p, enum op op, const union args_any *args, bool tf32)
{
    if (op == OP_linear)
        return forward(p, &args->linear, tf32 && args->linear.x.dtype == DT_F32);
    struct cuda_product f;
    if (op == OP_linear_dx || op == OP_linear_dx_act) {
        const struct args_linear_dx a = op == OP_linear_dx ? args->linear_dx : dx_act_product(&args->linear_dx_act);
        f = product_of(OP_linear_dx, &a.dy, &a.w, &a.dx);
        f.I = a.dx.shape[1];
        f.O = tensor_pitch(&a.dy);
        f.in_out = a.in_out;
    } else {
        const struct args_linear_dw *a = &args->linear_dw;
        f = product_of(op, &a->dy, &a->x, &a->dw);
        f.I = a->x.shape[1];
        f.O = tensor_pitch(&a->dy);
        f.in_out = a->in_out;
    }
    f.tf32 = tf32 && f.in == DT_F32;
    return f;
}

bool cuda_product_own(enum op op, const union args_any *args, const struct cuda_product *product,
                      const struct cuda_call *c, struct cuda_product *own)
{
    *own = *product;
    own->own = true;
    if (op == OP_linear) {
        own->bias = args->linear.b.ndim ? args->linear.b.dtype : DT_U8;
        own->act = (enum act)args->linear.act;
        return cuda_linear_sm90_fits(&args->linear, c);
    }
    return op == OP_linear_dx_act && cuda_linear_dx_act_sm90_fits(&args->linear_dx_act, c);
}

/* ---- opening ---- */

int cuda_products_open(struct cuda_products **out, struct snug_err *err)
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
    p->version = (int64_t)p->lt.GetVersion();
    cublasStatus_t s = p->lt.Create(&p->handle);
    if (s) {
        code =
            err_set(err, SNUG_ERR_ENV, "cuda: cuBLASLt %" PRId64 " cannot start: %s; check the driver with nvidia-smi",
                    p->version, p->lt.GetStatusString(s));
        p->handle = NULL;
        cuda_products_close(p);
        return code;
    }
    *out = p;
    return SNUG_OK;
}

int cuda_products_open_absent(int64_t cublaslt, struct cuda_products **out, struct snug_err *err)
{
    *out = mem_alloc(sizeof **out);
    if (!*out)
        return err_no_memory(err, sizeof **out);
    (*out)->version = cublaslt;
    return SNUG_OK;
}

void choices_forget(struct cuda_products *p)
{
    for (size_t i = 0; i < p->n_choices; i++)
        problem_free(p, &p->choices[i].problem);
    p->n_choices = 0;
    p->n_grants = 0;
}

void cuda_products_close(struct cuda_products *p)
{
    if (!p)
        return;
    choices_forget(p);
    mem_free(p->choices);
    mem_free(p->grants);
    if (p->handle)
        p->lt.Destroy(p->handle);
    cublaslt_close(&p->lt);
    mem_free(p);
}

int64_t cuda_products_version(const struct cuda_products *p)
{
    return p->version;
}
