/* What an error of CUDA's runtime becomes: a code and a line. */
#include "cuda/errors.h"
#include "cuda/products/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void in_a_run(void **state)
{
    (void)state;
    struct snug_err err = {0};
    assert_int_equal(cuda_check(cudaSuccess, "linear", &err), 0);
    assert_int_equal(cuda_check(cudaErrorMemoryAllocation, "the arena", &err), SNUG_ERR_ENV);
    assert_string_equal(err.text, "cuda: the arena: out of memory; free memory of the device, or ask for less");
    assert_int_equal(cuda_check(cudaErrorIllegalAddress, "linear", &err), SNUG_ERR_CHECKPOINT);
    assert_string_equal(err.text, "cuda: linear: an illegal memory access was encountered (cudaErrorIllegalAddress)");
}

/* A GPU in exclusive mode that another process has. */
static void while_opening(void **state)
{
    (void)state;
    struct snug_err err = {0};
    assert_int_equal(cuda_check_opening(cudaSuccess, 1, &err), 0);
    assert_int_equal(cuda_check_opening(cudaErrorDevicesUnavailable, 1, &err), SNUG_ERR_ENV);
    assert_string_equal(
        err.text, "--device cuda: GPU 1 cannot be opened: CUDA-capable device(s) is/are busy or unavailable "
                  "(cudaErrorDevicesUnavailable); see with nvidia-smi whether another program has it to itself, or "
                  "use --device cpu");
    assert_int_equal(cuda_check_opening(cudaErrorMemoryAllocation, 1, &err), SNUG_ERR_ENV);
    assert_string_equal(err.text,
                        "cuda: opening the device: out of memory; free memory of the device, or ask for less");
}

/* The next launch is not blamed for what was told. */
static void forgotten(void **state)
{
    (void)state;
    struct snug_err err = {0};
    int n, code;
    if (cudaGetDeviceCount(&n)) /* without a driver every call fails */
        skip();
    code = (int)cudaSetDevice(1 << 20);
    assert_int_not_equal(code, cudaSuccess);
    assert_int_equal(cuda_check(code, "linear", &err), SNUG_ERR_CHECKPOINT);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cuda_check_opening((int)cudaSetDevice(1 << 20), 1 << 20, &err), SNUG_ERR_ENV);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static const char *says(cublasStatus_t status)
{
    (void)status;
    return "the status";
}

/* A launch that fails because the device has failed is no fault of cuBLASLt's. */
static void of_a_product(void **state)
{
    (void)state;
    struct snug_err err = {0};
    struct cublaslt lt = {.version = 7, .GetStatusString = says};
    const struct cuda_product product = {OP_linear_dw, 8, 4, 2, .in = DT_BF16, .out = DT_F32, .bias = DT_U8};
    cudaGetLastError();
    assert_int_equal(problem_status(&lt, &product, CUBLAS_STATUS_SUCCESS, &err), 0);
    assert_int_equal(problem_status(&lt, &product, CUBLAS_STATUS_NOT_SUPPORTED, &err), SNUG_ERR_ENV);
    assert_string_equal(err.text,
                        "cuda: linear_dw 8x4x2 BF16>F32: cuBLASLt 7: the status; update the driver, or report this");
    assert_int_not_equal(cudaSetDevice(1 << 20), cudaSuccess);
    assert_int_equal(problem_status(&lt, &product, CUBLAS_STATUS_EXECUTION_FAILED, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "cuda: linear_dw 8x4x2 BF16>F32: "));
    assert_non_null(strstr(err.text, "(cudaError"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_run), cmocka_unit_test(while_opening),
                                       cmocka_unit_test(forgotten), cmocka_unit_test(of_a_product)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
