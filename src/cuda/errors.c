#include "cuda/errors.h"

#include <cuda_runtime_api.h>

int cuda_check(int code, const char *op, struct snug_err *err)
{
    if (code == cudaSuccess)
        return SNUG_OK;
    cudaGetLastError();
    if (code == cudaErrorMemoryAllocation)
        return err_set(err, SNUG_ERR_ENV, "cuda: %s: %s; free memory of the device, or ask for less", op,
                       cudaGetErrorString((cudaError_t)code));
    return err_set(err, SNUG_ERR_CHECKPOINT, "cuda: %s: %s (%s)", op, cudaGetErrorString((cudaError_t)code),
                   cudaGetErrorName((cudaError_t)code));
}

int cuda_check_opening(int code, int device, struct snug_err *err)
{
    if (code == cudaSuccess || code == cudaErrorMemoryAllocation)
        return cuda_check(code, "opening the device", err);
    cudaGetLastError();
    return err_set(
        err, SNUG_ERR_ENV,
        "--device cuda: GPU %d cannot be opened: %s (%s); see with nvidia-smi whether another program has it "
        "to itself, or use --device cpu",
        device, cudaGetErrorString((cudaError_t)code), cudaGetErrorName((cudaError_t)code));
}
