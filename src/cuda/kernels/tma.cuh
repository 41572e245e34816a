/* tma.cuh: Hopper's copies of boxes of a matrix between memory and shared memory (the TMA), for sm_90, and the maps that they go by.
 * A row of a box has 64 elements of 16 bits, 128 bytes, swizzled by 128 bytes: chunk c of 16 bytes of row r lies at chunk c ^ (r % 8). */
#ifndef CUDA_KERNELS_TMA_CUH
#define CUDA_KERNELS_TMA_CUH

#include "cuda/kernels/barrier.cuh"
#include "cuda/kernels/kernel.cuh"

#include <cuda.h>

enum { BOX_BYTES = 128 }; /* of a row of a box */

/* Arrives, and has the phase wait for so many bytes of copies besides. */
__device__ static inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* One thread starts the copy of a box from (row, column) on; the barrier counts its bytes. */
__device__ static inline void box_load(uint32_t to, const CUtensorMap *map, int column, int row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* One thread starts the copy of a box out of shared memory. Its cp.async.bulk.commit_group and wait_group are the caller's. */
__device__ static inline void box_store(const CUtensorMap *map, uint32_t from, int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
                 "r"(row), "r"(from)
                 : "memory");
}

/* ---- maps, made on the host ---- */

typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                        const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Boxes of `box_rows` by 64 elements of a row-major (rows, columns) matrix; what is outside reads as 0 and is not
 * written. */
static inline int map_matrix(CUtensorMap *map, encode *f, const struct tensor *t, int box_rows)
{
    cuuint64_t size[2] = {(cuuint64_t)t->shape[1], (cuuint64_t)t->shape[0]}, stride[1] = {(cuuint64_t)t->shape[1] * 2};
    cuuint32_t box[2] = {BOX_BYTES / 2, (cuuint32_t)box_rows}, ones[2] = {1, 1};
    return f(map, t->dtype == DT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, t->data,
             size, stride, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* The driver's function that makes tensor maps; NULL where the driver has none. */
static inline int find_encode(encode **f, const char *op, const struct cuda_call *c)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult why;
#if CUDART_VERSION < 12050 /* as of the runtime's own version, which is 12.1 or later */
    int code = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &why);
#else
    int code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &why);
#endif
    *f = (encode *)found;
    return cuda_check(code, op, c->err);
}

static inline int no_tensor_map(const char *op, const struct cuda_call *c)
{
    return err_set(c->err, SNUG_ERR_ENV, "cuda: %s: the driver makes no tensor map; update it", op);
}

#endif
