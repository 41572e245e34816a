/* Each rule alone, on logits by hand: what Keskar et al. divide or multiply, which token would end a run of tokens a second time, and
 * when a text may stop. What they make of whole texts is in tests/golden/generate. */
#include "train/generate/rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { V = 6 };

static void expect(const struct rules *r, int64_t n, const int32_t *ids, int64_t n_prompt, const double expected[V])
{
    float logits[V] = {-4, -2, 0, 2, 4, 8};
    rules_apply(r, ids, n, n_prompt, logits);
    for (int i = 0; i < V; i++)
        assert_true(logits[i] == (float)expected[i]);
}

/* A token counts once however often it comes, and again at the next call. */
static void test_penalty(void **state)
{
    bool seen[V] = {false};
    const struct rules r = {.penalty = 2, .seen = seen};
    (void)state;
    for (int i = 0; i < 2; i++) {
        expect(&r, 0, NULL, 0, (double[V]){-4, -2, 0, 2, 4, 8});
        expect(&r, 5, (int32_t[]){4, 1, 4, 4, 1}, 2, (double[V]){-4, -4, 0, 2, 2, 8});
        expect(&r, 3, (int32_t[]){2, 0, 5}, 0, (double[V]){-8, -2, 0, 2, 4, 4});
    }
}

static void test_no_repeat(void **state)
{
    (void)state;
    expect(&(struct rules){.penalty = 1, .no_repeat = 1}, 3, (int32_t[]){3, 5, 3}, 1,
           (double[V]){-4, -2, 0, -INFINITY, 4, -INFINITY});
    /* 3 was followed by 5, then by 1; the prompt counts. */
    expect(&(struct rules){.penalty = 1, .no_repeat = 2}, 5, (int32_t[]){3, 5, 3, 1, 3}, 3,
           (double[V]){-4, -INFINITY, 0, 2, 4, -INFINITY});
    expect(&(struct rules){.penalty = 1, .no_repeat = 3}, 5, (int32_t[]){1, 3, 5, 1, 3}, 0,
           (double[V]){-4, -2, 0, 2, 4, -INFINITY});
    /* Shorter than a run. */
    expect(&(struct rules){.penalty = 1, .no_repeat = 4}, 2, (int32_t[]){1, 1}, 0, (double[V]){-4, -2, 0, 2, 4, 8});
}

static void test_least(void **state)
{
    const struct rules whole = {.penalty = 1, .least = 3, .stops = (int32_t[]){5, 0}, .n_stops = 2};
    const struct rules behind = {.penalty = 1, .new_least = 2, .stops = (int32_t[]){5}, .n_stops = 1};
    (void)state;
    expect(&whole, 2, (int32_t[]){1, 1}, 1, (double[V]){-INFINITY, -2, 0, 2, 4, -INFINITY});
    expect(&whole, 3, (int32_t[]){1, 1, 1}, 2, (double[V]){-4, -2, 0, 2, 4, 8});
    expect(&behind, 4, (int32_t[]){1, 1, 1, 1}, 3, (double[V]){-4, -2, 0, 2, 4, -INFINITY});
    expect(&behind, 5, (int32_t[]){1, 1, 1, 1, 1}, 3, (double[V]){-4, -2, 0, 2, 4, 8});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_no_repeat),
        cmocka_unit_test(test_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
