#include "cuda/products/problem.h"

#include "cuda/errors.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>

int problem_status(const struct cublaslt *lt, const struct cuda_product *product, cublasStatus_t status,
                   struct snug_err *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return SNUG_OK;
    char name[128];
    cuda_product_name(product, name);
    if (status == CUBLAS_STATUS_EXECUTION_FAILED) /* of a launch, perhaps because the device had failed before */
        TRY(cuda_check(cudaPeekAtLastError(), name, err));
    return err_set(err, SNUG_ERR_ENV, "cuda: %s: cuBLASLt %" PRId64 ": %s; update the driver, or report this", name,
                   lt->version, lt->GetStatusString(status));
}

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
    return t == DT_BF16 ? CUDA_R_16BF : t == DT_F16 ? CUDA_R_16F : t == DT_F8_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_32F;
}

static uint32_t epilogue_of(const struct cuda_product *p)
{
    return p->bias != DT_U8 ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void problem_free(const struct cublaslt *lt, struct problem *problem)
{
    if (problem->desc)
        lt->MatmulDescDestroy(problem->desc);
    if (problem->a)
        lt->MatrixLayoutDestroy(problem->a);
    if (problem->b)
        lt->MatrixLayoutDestroy(problem->b);
    if (problem->d)
        lt->MatrixLayoutDestroy(problem->d);
    *problem = (struct problem){0};
}

/* As many matrices as heads, `step` elements apart. */
static cublasStatus_t repeat(const struct cublaslt *lt, cublasLtMatrixLayout_t layout, int64_t heads, int64_t step)
{
    int32_t count = (int32_t)heads;
    cublasStatus_t s = lt->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    return s ? s
             : lt->MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
}

static cublasStatus_t point_to_scales(const struct cublaslt *lt, const struct problem *problem, const void *a,
                                      const void *b)
{
    cublasStatus_t s = lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &a, sizeof a);
    return s ? s : lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &b, sizeof b);
}

/* Sums are left in the matrix units, where Hopper keeps 14 bits of them (DeepSeek-V3, arXiv 2412.19437), 11 more than the factors have.
 * Bringing them to F32 registers on the way takes a fifth longer. */
static cublasStatus_t add_up_codes(const struct cublaslt *lt, const struct problem *problem)
{
    int8_t fast = 1;
    return lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
}

/* A scale for each row of either factor. */
static cublasStatus_t scale_rows(const struct cublaslt *lt, const struct problem *problem)
{
    static const _Alignas(16) float any = 1; /* without a pointer cuBLASLt has no algorithm; a run brings its own */
    int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    cublasStatus_t s = lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode);
    if (!s)
        s = lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode);
    return s ? s : point_to_scales(lt, problem, &any, &any);
}

static cublasStatus_t describe(const struct cublaslt *lt, const struct cuda_product *product, struct problem *out)
{
    struct gemm g = gemm_of(product);
    cudaDataType_t in = type_of(product->in), result = type_of(product->out), bias = type_of(product->bias);
    int32_t ta = g.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, tb = g.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint32_t epilogue = epilogue_of(product);
    int32_t bias_type = (int32_t)bias;
    int64_t a_pitch = g.a_is_rows ? product->rows_pitch : product->factor_pitch;
    int64_t b_pitch = g.a_is_rows ? product->factor_pitch : product->rows_pitch;
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
        s = lt->MatrixLayoutCreate(&out->a, in, (uint64_t)g.a_rows, (uint64_t)g.a_columns,
                                   a_pitch ? a_pitch : g.a_rows);
    if (!s)
        s = lt->MatrixLayoutCreate(&out->b, in, (uint64_t)g.b_rows, (uint64_t)g.b_columns,
                                   b_pitch ? b_pitch : g.b_rows);
    if (!s)
        s = lt->MatrixLayoutCreate(&out->d, result, (uint64_t)g.m, (uint64_t)g.n,
                                   product->result_pitch ? product->result_pitch : g.m);
    if (!s && product->in == DT_F8_E4M3)
        s = add_up_codes(lt, out);
    if (!s && product->in == DT_F8_E4M3 && lt->scales_rows)
        s = scale_rows(lt, out);
    if (!s && product->heads)
        s = repeat(lt, out->a, product->heads, g.a_is_rows ? product->rows_step : product->factor_step);
    if (!s && product->heads)
        s = repeat(lt, out->b, product->heads, g.a_is_rows ? product->factor_step : product->rows_step);
    if (!s && product->heads)
        s = repeat(lt, out->d, product->heads, product->result_step);
    return s;
}

int problem_make(const struct cublaslt *lt, const struct cuda_product *product, struct problem *out,
                 struct snug_err *err)
{
    *out = (struct problem){0};
    int code = problem_status(lt, product, describe(lt, product, out), err);
    if (code)
        problem_free(lt, out);
    return code;
}

int problem_candidates(const struct cublaslt *lt, const struct cuda_product *product, const struct problem *problem,
                       int64_t workspace, int max, cublasLtMatmulHeuristicResult_t *results, int *n,
                       struct snug_err *err)
{
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
        s = lt->MatmulAlgoGetHeuristic(lt->handle, problem->desc, problem->a, problem->b, problem->d, problem->d, pref,
                                       max, results, &found);
        for (int i = 0; i < found && !s; i++)
            if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= bytes)
                results[(*n)++] = results[i];
        if (s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE) /* no algorithm for this form */
            s = CUBLAS_STATUS_SUCCESS;
    }
    if (pref)
        lt->MatmulPreferenceDestroy(pref);
    return problem_status(lt, product, s, err);
}

bool problem_takes(const struct cublaslt *lt, const struct problem *m, const cublasLtMatmulAlgo_t *algo,
                   int64_t workspace, int64_t *wants)
{
    cublasLtMatmulHeuristicResult_t r = {0};
    cublasStatus_t s = lt->MatmulAlgoCheck(lt->handle, m->desc, m->a, m->b, m->d, m->d, algo, &r);
    *wants = (int64_t)r.workspaceSize;
    return !s && *wants <= workspace;
}

int problem_run(const struct cublaslt *lt, const struct cuda_product *product, const struct problem *problem,
                const cublasLtMatmulAlgo_t *algo, int64_t workspace_bytes, const struct product_data *data,
                struct CUstream_st *stream, struct snug_err *err)
{
    cublasStatus_t s = CUBLAS_STATUS_SUCCESS;
    if (product->bias != DT_U8)
        s = lt->MatmulDescSetAttribute(problem->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &data->bias,
                                       sizeof data->bias);
    bool rows_first = gemm_of(product).a_is_rows;
    if (!s && product->in == DT_F8_E4M3 && lt->scales_rows)
        s = point_to_scales(lt, problem, data->factor_scale, data->rows_scale);
    float alpha = 1, beta = product->add ? 1 : 0;
    if (!s)
        s = lt->Matmul(lt->handle, problem->desc, &alpha, rows_first ? data->rows : data->factor, problem->a,
                       rows_first ? data->factor : data->rows, problem->b, &beta,
                       data->addend ? data->addend : data->result, problem->d, data->result, problem->d, algo,
                       data->workspace, (size_t)workspace_bytes, stream);
    return problem_status(lt, product, s, err);
}
