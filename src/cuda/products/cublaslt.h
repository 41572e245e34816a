/* cublaslt.h: cuBLASLt: a table of functions, looked up when the backend opens, and a handle for the current device. The
 * library is half a gigabyte. */
#ifndef CUDA_PRODUCTS_CUBLASLT_H
#define CUDA_PRODUCTS_CUBLASLT_H

#include "base/err.h"

#include <cublasLt.h>
#include <stdbool.h>

/* What is used of it; each is called by its name without the prefix: lt->Matmul(...). */
#define CUBLASLT_FUNCTIONS(F)                                                                                          \
    F(Create)                                                                                                          \
    F(Destroy)                                                                                                         \
    F(GetVersion)                                                                                                      \
    F(GetStatusString)                                                                                                 \
    F(MatmulDescCreate)                                                                                                \
    F(MatmulDescDestroy)                                                                                               \
    F(MatmulDescSetAttribute)                                                                                          \
    F(MatrixLayoutCreate)                                                                                              \
    F(MatrixLayoutSetAttribute)                                                                                        \
    F(MatrixLayoutDestroy)                                                                                             \
    F(MatmulPreferenceCreate)                                                                                          \
    F(MatmulPreferenceDestroy)                                                                                         \
    F(MatmulPreferenceSetAttribute)                                                                                    \
    F(MatmulAlgoGetHeuristic)                                                                                          \
    F(MatmulAlgoCheck)                                                                                                 \
    F(Matmul)

struct cublaslt {
    void *library;
    cublasLtHandle_t handle; /* NULL: there is no device */
    int64_t version;         /* such as 130100 */
    bool scales_rows;        /* of factors in F8_E4M3 */
#define F(name) __typeof__(cublasLt##name) *name;
    CUBLASLT_FUNCTIONS(F)
#undef F
};

/* SNUG_ERR_ENV when there is no such library (libraries/open.h) under the names of CUDA 13 and 12, it lacks a function, or it cannot
 * start on this device. */
int cublaslt_open(struct cublaslt *lt, struct snug_err *err);
void cublaslt_close(struct cublaslt *lt);

#endif
