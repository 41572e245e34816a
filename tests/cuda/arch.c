/* Which devices run the code of a build with kernels for 8.6, 8.9 and 9.0. */
#undef SNUG_GPU_ARCH
#define SNUG_GPU_ARCH 86, 89, 90
#include "cuda/arch.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* By CUDA's rules: machine code for X.y runs on X.z, z >= y; the last one's PTX on all that are newer. */
static void whose_code(void **state)
{
    (void)state;
    static const struct {
        int arch, code;
        const char *refused; /* NULL: can be used */
    } rows[] = {
        {70, 0, "--device cuda: compute capability 7.0 is older than 8.0 (Ampere); use --device cpu"},
        {79, 0, "--device cuda: compute capability 7.9 is older than"},
        {80, 0,
         "--device cuda: this build has no kernels for compute capability 8.0; build with -Dgpu_arch=80 or all, or use "
         "--device cpu"},
        {86, 86, NULL},
        {87, 86, NULL},
        {89, 89, NULL},
        {90, 90, NULL},
        {100, 90, NULL},
        {120, 90, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct snug_err err = {0};
        assert_int_equal(cuda_arch_code(rows[i].arch), rows[i].code);
        assert_int_equal(cuda_arch_check(rows[i].arch, &err), rows[i].refused ? SNUG_ERR_ENV : SNUG_OK);
        if (rows[i].refused)
            assert_int_equal(strncmp(err.text, rows[i].refused, strlen(rows[i].refused)), 0);
        assert_int_equal(cuda_arch_sm90(rows[i].arch), rows[i].arch == 90); /* whose instructions are in no PTX */
    }
}

static void what_is_built(void **state)
{
    (void)state;
    const int built[] = {86, 89, 90, 0, 0};
    for (int i = 0; i < 5; i++)
        assert_int_equal(backend_cuda_arch(i), built[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whose_code), cmocka_unit_test(what_is_built)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
