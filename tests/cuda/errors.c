/* What an error of CUDA's runtime becomes: a code and a line. */
#include "cuda/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_run), cmocka_unit_test(while_opening),
                                       cmocka_unit_test(forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
