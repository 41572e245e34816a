/* Every case of cases.c on every instruction set of the cpu backend (harness.h), with equal bits for any number of
 * threads; and the tests of single ops. */
#define SNUG_ISA generic
#include "cases.h"
#include "checks.h"
#include "cpu/kernels.h"
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

extern const struct cpu_kernels cpu_kernels_generic;
#if defined __x86_64__
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
#endif

static int64_t workspace(const struct op_runner *r, enum op op, const union args_any *args, int threads)
{
    const struct cpu_kernels *k = r->kernels;
    return k->workspace[op] ? k->workspace[op](args, threads) : 0;
}

static void run(const struct op_runner *r, enum op op, union args_any *args, const struct buffer *slots,
                const struct buffer *workspace, int threads)
{
    const struct cpu_kernels *k = r->kernels;
    for (int i = 0; i < op_table[op].n_slots; i++)
        args->slot[i].data = slots[i].data;
    k->run[op](args, &(struct call){.workspace = workspace->data, .threads = threads});
}

static void check_isa(const char *isa, const struct cpu_kernels *kernels)
{
    const struct op_runner r = {
        .name = isa, .alignment_free = true, .workspace = workspace, .run = run, .kernels = kernels};
    check_runner(&r, NULL);
}

static void test_generic(void **state)
{
    (void)state;
    check_isa("generic", &cpu_kernels_generic);
}

#if defined __x86_64__
static void test_avx2(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        skip();
    check_isa("avx2", &cpu_kernels_avx2);
}

static void test_avx512(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vl"))
        skip();
    check_isa("avx512", &cpu_kernels_avx512);
}
#endif

static void test_every_op_has_a_case(void **state)
{
    (void)state;
    for (int op = 1; op < OP_COUNT; op++) {
        bool found = false;
        for (int i = 0; i < n_op_cases; i++)
            found |= (int)op_cases[i].op == op;
        if (!found)
            fail_msg("op %s has no case in tests/op/cases.c", op_table[op].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_has_a_case),
        cmocka_unit_test(test_shape_errors),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_generic),
#if defined __x86_64__
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
