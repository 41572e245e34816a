/* A plan for a budget, on a device that then measures algorithms which want more: the emulated one, whose products do (SNUG_EMULATED_WORKSPACE,
 * tests/cuda/emulator). */
#include "command.h"

static const char WORKSPACE[] = "20000";
enum { KIB = 1024 };

/* What the plan takes; nothing is known of the device before. Without a budget where that is NULL. */
static int64_t planned(const char *cache, const char *budget)
{
    assert_int_equal(setenv("XDG_CACHE_HOME", join(folder, cache), 1), 0);
    expect_snug(0, said(),
                ARGS("plan", "--json", "--device", "cuda", "--model", fixture("golden/llama"), "--init-from-config",
                     "--train-data", "synthetic:4x4", "--batch-size", "2"),
                budget ? ARGS("--memory-budget", budget) : NULL);
    json_t *o = said_object();
    int64_t bytes = json_integer_value(json_object_get(o, "arena_bytes"));
    json_decref(o);
    assert_true(bytes > 0);
    return bytes;
}

static void what_fits_is_chosen_again_when_it_was_measured(void **state)
{
    char budget[32];
    (void)state;
    assert_int_equal(setenv("SNUG_EMULATED_WORKSPACE", WORKSPACE, 1), 0);
    int64_t measured = planned("one", NULL),
            limit = measured / KIB - 8; /* less than with these workspaces, more than without */
    assert_false(file_has(said(), "choosing again"));
    snprintf(budget, sizeof budget, "%lldKiB", (long long)limit);
    assert_true(planned("other", budget) <= limit * KIB);
    assert_true(file_has(said(), "choosing again: with the algorithms that were the fastest the plan needs"));
    assert_true(file_has(said(), "more than --memory-budget"));
    assert_true(file_has(said(), "chosen: --batch-size"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_chosen_again_when_it_was_measured),
    };
    return cmocka_run_group_tests_name("measured_budget", tests, open_folder, close_folder);
}
