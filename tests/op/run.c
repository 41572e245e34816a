/* Every case of cases.c on every instruction set of the cpu backend (harness.h), with equal bits for any number of
 * threads; and the tests of single ops. */
#include "cases.h"
#include "checks.h"
#include "cpu/isa.h"
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct cpu_kernels cpu_kernels_amx_emulated;

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

static void check_kernels(const char *isa, const struct cpu_kernels *kernels, bool (*wanted)(enum op op))
{
    const struct op_runner r = {
        .name = isa, .alignment_free = true, .workspace = workspace, .run = run, .kernels = kernels};
    check_runner(&r, wanted);
    check_columns(&r, wanted);
}

/* A test for each name: where this processor has no such instructions, it says so and is skipped. */
static void check_isa(const char *name)
{
    const struct cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_usable(i)); i++)
        if (!strcmp(isa->name, name)) {
            check_kernels(name, isa->kernels, NULL);
            return;
        }
    print_message("%s: not on this processor\n", name);
    skip();
}

#define ISA_TEST(name)                                                                                                 \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check_isa(#name);                                                                                              \
    }
ISA_TEST(generic)
ISA_TEST(avx2)
ISA_TEST(avx512)
ISA_TEST(avx512bf16)
ISA_TEST(amx)
ISA_TEST(neon)
ISA_TEST(neonbf16)

static bool may_use_tiles(enum op op)
{
    return !strncmp(op_table[op].name, "linear", 6) || !strncmp(op_table[op].name, "attention", 9);
}

static void test_amx_emulated(void **state)
{
    (void)state;
    check_kernels("amx, emulated", &cpu_kernels_amx_emulated, may_use_tiles);
}

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
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_cached),
        cmocka_unit_test(test_short_conv),
        cmocka_unit_test(test_llm),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_columns_recomputed),
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512bf16),
        cmocka_unit_test(test_amx),
        cmocka_unit_test(test_neon),
        cmocka_unit_test(test_neonbf16),
        cmocka_unit_test(test_amx_emulated),
    };
    cmocka_set_test_filter(getenv("SNUG_TEST_FILTER")); /* NULL: all */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
