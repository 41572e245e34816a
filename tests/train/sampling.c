/* Temperature, top-k and top-p in closed form, and how often each token is drawn. */
#include "train/generate/sampling.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { V = 6 };

/* Logarithms of 1, 8, 2, 4, 4 and 1 twentieths. */
static void make_logits(float logits[V])
{
    static const double shares[V] = {1, 8, 2, 4, 4, 1};
    for (int i = 0; i < V; i++)
        logits[i] = (float)log(shares[i]);
}

static void expect(struct sampling s, int64_t n, const int32_t *ids, const double *probabilities)
{
    float logits[V];
    struct candidate all[V];
    int64_t got;
    make_logits(logits);
    sampling_candidates(&s, logits, V, all, &got);
    assert_int_equal(got, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(all[i].id, ids[i]);
        assert_true(fabs(all[i].probability - probabilities[i]) < 1e-6);
    }
}

static void test_candidates(void **state)
{
    static const int32_t order[V] = {1, 3, 4, 2, 0, 5};
    (void)state;
    expect((struct sampling){.temperature = 1, .top_p = 1}, V, order, (double[]){0.4, 0.2, 0.2, 0.1, 0.05, 0.05});
    expect((struct sampling){.temperature = 0.5, .top_p = 1}, V, order, /* squares: 64, 16, 16, 4, 1, 1 of 102 */
           (double[]){64 / 102.0, 16 / 102.0, 16 / 102.0, 4 / 102.0, 1 / 102.0, 1 / 102.0});
    expect((struct sampling){.temperature = 1, .top_p = 1, .top_k = 1}, 1, order, (double[]){1});
    /* Of two equal ones, both stay, as in transformers' TopKLogitsWarper. */
    expect((struct sampling){.temperature = 1, .top_p = 1, .top_k = 2}, 3, order, (double[]){0.5, 0.25, 0.25});
    expect((struct sampling){.temperature = 1, .top_p = 0.75}, 3, order, (double[]){0.5, 0.25, 0.25});
    expect((struct sampling){.temperature = 1, .top_p = 0.35}, 1, order, (double[]){1});
    /* top_p is of what top_k leaves: 0.5 and 0.25 reach 0.7. */
    expect((struct sampling){.temperature = 1, .top_p = 0.7, .top_k = 3}, 2, order, (double[]){2 / 3.0, 1 / 3.0});
}

/* Of N draws a token of probability p comes up p N times, within five standard deviations. */
static void test_draws(void **state)
{
    enum { N = 20000 };
    static const double p[V] = {0.05, 0.4, 0.1, 0.2, 0.2, 0.05};
    const struct sampling s = {.on = true, .temperature = 1, .top_p = 1, .seed = 7};
    struct candidate all[V];
    float logits[V];
    int count[V] = {0};
    (void)state;
    make_logits(logits);
    for (int i = 0; i < N; i++)
        count[sampling_choose(&s, logits, V, all, i % 10, i / 10)]++;
    for (int i = 0; i < V; i++)
        assert_true(fabs(count[i] - p[i] * N) < 5 * sqrt(N * p[i] * (1 - p[i])));
}

static void test_greedy(void **state)
{
    const struct sampling s = {.temperature = 1, .top_p = 1};
    struct candidate all[V];
    (void)state;
    assert_int_equal(sampling_choose(&s, (float[]){1, 3, 2, 3, 0, -1}, V, all, 0, 0), 1); /* the first of equals */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_candidates), cmocka_unit_test(test_draws),
                                       cmocka_unit_test(test_greedy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
