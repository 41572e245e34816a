/* A library with cuBLASLt's name for the emulated device: products computed in double and rounded once. Of the interface there is what
 * src/cuda/products uses. Who asks for one algorithm gets one that needs no workspace; who asks for more, to measure them, gets one that wants
 * the bytes in SNUG_EMULATED_WORKSPACE (0). */
#include "enqueue.h"
#include "numbers.h"
#include "runtime.h"

#include <cublasLt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    int unused;
};

/* The types are opaque in cublasLt.h; these stand behind its pointers. */
struct description {
    cublasComputeType_t compute;
    int32_t turned_a, turned_b, bias_type;
    uint32_t epilogue;
    const void *bias;
    const float *a_scale, *b_scale; /* with a mode: of each row of A as it is multiplied, of each column of B */
    int32_t a_mode, b_mode;
    int8_t fast;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t pitch, step; /* step: from a matrix to the next of `count` */
    int32_t count;
};

size_t cublasLtGetVersion(void)
{
    return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status ? "an error of the emulator" : "no error";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = emulator_zeroed(1, sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    struct description *d = emulator_zeroed(1, sizeof *d);
    (void)scale;
    d->compute = compute;
    *out = (cublasLtMatmulDesc_t)(void *)d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    struct description *d = (void *)desc;
    void *to = attribute == CUBLASLT_MATMUL_DESC_TRANSA            ? (void *)&d->turned_a
               : attribute == CUBLASLT_MATMUL_DESC_TRANSB          ? (void *)&d->turned_b
               : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE        ? (void *)&d->epilogue
               : attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE  ? (void *)&d->bias_type
               : attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER    ? (void *)&d->bias
               : attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER ? (void *)&d->a_scale
               : attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER ? (void *)&d->b_scale
               : attribute == CUBLASLT_MATMUL_DESC_A_SCALE_MODE    ? (void *)&d->a_mode
               : attribute == CUBLASLT_MATMUL_DESC_B_SCALE_MODE    ? (void *)&d->b_mode
               : attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM      ? (void *)&d->fast
                                                                   : NULL;
    if (!to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t pitch)
{
    struct layout *l = emulator_zeroed(1, sizeof *l);
    *l = (struct layout){.type = type, .rows = rows, .columns = columns, .pitch = pitch, .count = 1};
    *out = (cublasLtMatrixLayout_t)(void *)l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    struct layout *l = (void *)layout;
    void *to = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT            ? (void *)&l->count
               : attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? (void *)&l->step
                                                                          : NULL;
    if (!to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = emulator_zeroed(1, 64);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    (void)p, (void)attribute, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int *n)
{
    (void)p;
    cublasLtMatmulAlgo_t algo = {.data = {most > 1}};
    *n = most > 0;
    return *n ? cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, &algo, results) : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d;
    const char *bytes = getenv("SNUG_EMULATED_WORKSPACE");
    *result = (cublasLtMatmulHeuristicResult_t){.algo = *algo,
                                                .workspaceSize = algo->data[0] && bytes ? strtoull(bytes, NULL, 10) : 0,
                                                .state = CUBLAS_STATUS_SUCCESS,
                                                .wavesCount = 1};
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- The product: columns one after the other in memory, `pitch` apart. */

struct product {
    struct description how;
    struct layout a, b, d;
    const void *pa, *pb, *pc;
    void *pd;
    float alpha, beta;
};

static int64_t element_bytes(const struct layout *l)
{
    return l->type == CUDA_R_32F ? 4 : l->type == CUDA_R_8F_E4M3 ? 1 : 2;
}

static double element(const struct layout *l, const void *p, int64_t at, int tf32)
{
    if (l->type == CUDA_R_32F) {
        uint32_t bits = bits_f32(((const float *)p)[at]);
        return (double)f32_of(tf32 ? bits_tf32(bits) : bits);
    }
    if (l->type == CUDA_R_8F_E4M3)
        return (double)e4m3_to_float(((const uint8_t *)p)[at]);
    uint16_t bits = ((const uint16_t *)p)[at];
    return (double)(l->type == CUDA_R_16BF ? bf16_to_float(bits) : fp16_to_float(bits));
}

static void put(const struct layout *l, void *p, int64_t at, double x)
{
    if (l->type == CUDA_R_32F)
        ((float *)p)[at] = (float)x;
    else
        ((uint16_t *)p)[at] = l->type == CUDA_R_16BF ? bits_bf16((float)x) : bits_f16((float)x);
}

static void multiply(const void *data)
{
    const struct product *p = data;
    int64_t m = (int64_t)p->d.rows, n = (int64_t)p->d.columns,
            k = (int64_t)(p->how.turned_a ? p->a.rows : p->a.columns);
    int tf32 = p->how.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    struct layout bias = {.type = (cudaDataType_t)p->how.bias_type};
    double *a = emulator_zeroed((size_t)(m * k), sizeof *a), *b = emulator_zeroed((size_t)k, sizeof *b);
    for (int64_t i = 0; i < m; i++)
        for (int64_t r = 0; r < k; r++)
            a[i * k + r] = element(&p->a, p->pa, p->how.turned_a ? i * p->a.pitch + r : r * p->a.pitch + i, tf32);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t r = 0; r < k; r++)
            b[r] = element(&p->b, p->pb, p->how.turned_b ? r * p->b.pitch + j : j * p->b.pitch + r, tf32);
        for (int64_t i = 0; i < m; i++) {
            double sum = 0;
            for (int64_t r = 0; r < k; r++)
                sum += a[i * k + r] * b[r];
            sum *= (double)p->alpha;
            if (p->how.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)
                sum *= (double)p->how.a_scale[i] * (double)p->how.b_scale[j];
            if (p->beta != 0)
                sum += (double)p->beta * element(&p->d, p->pc, j * p->d.pitch + i, 0);
            if (p->how.epilogue == CUBLASLT_EPILOGUE_BIAS)
                sum += element(&bias, p->how.bias, i, 0);
            put(&p->d, p->pd, j * p->d.pitch + i, sum);
        }
    }
    free(a);
    free(b);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)handle, (void)c, (void)algo, (void)bytes;
    if ((uintptr_t)workspace % 256) /* as version 13.1 has it, whatever the size */
        return CUBLAS_STATUS_INVALID_VALUE;
    struct product p = {.how = *(struct description *)(void *)desc,
                        .a = *(struct layout *)(void *)a,
                        .b = *(struct layout *)(void *)b,
                        .d = *(struct layout *)(void *)d,
                        .pa = A,
                        .pb = B,
                        .pc = C,
                        .pd = D};
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    for (int32_t i = 0; i < p.d.count; i++) {
        emulator_enqueue(stream, multiply, &p, sizeof p);
        p.pa = (const char *)p.pa + p.a.step * element_bytes(&p.a);
        p.pb = (const char *)p.pb + p.b.step * element_bytes(&p.b);
        p.pc = (const char *)p.pc + p.d.step * element_bytes(&p.d);
        p.pd = (char *)p.pd + p.d.step * element_bytes(&p.d);
    }
    return CUBLAS_STATUS_SUCCESS;
}
