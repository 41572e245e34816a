/* Numbers of generated texts against those of rouge_score and sacrebleu (texts.py), whatever the order of rows. */
#include "metrics/metrics.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct found {
    const char *name;
    json_t *expected;
    size_t n;
};

static void compare(void *ctx, const char *name, double value)
{
    struct found *f = ctx;
    json_t *want = json_object_get(f->expected, name);
    if (!want)
        return;
    f->n++;
    if (!(fabs(value - json_number_value(want)) <= 1e-10))
        fail_msg("%s: %s is %.17g, recorded %.17g", f->name, name, value, json_number_value(want));
}

/* From row `first` on, round to it; each beside tokens of a loss of 2. */
static void evaluate(struct metrics *m, json_t *pairs, size_t first)
{
    size_t n = json_array_size(pairs);
    const int32_t ids[] = {5, 6}, targets[] = {5, -100};
    metrics_reset(m);
    for (size_t i = 0; i < n; i++) {
        json_t *pair = json_array_get(pairs, (first + i) % n), *a = json_array_get(pair, 0),
               *b = json_array_get(pair, 1);
        metrics_add_tokens(m, ids, targets, 2, 2);
        assert_int_equal(metrics_add_text(m, json_string_value(a), json_string_length(a), json_string_value(b),
                                          json_string_length(b), NULL),
                         0);
    }
    metrics_finish(m);
}

static void as_rouge_score_and_sacrebleu(void **state)
{
    char path[4096];
    (void)state;
    snprintf(path, sizeof path, "%s/tests/metrics/texts.json", getenv("SNUG_SOURCE"));
    json_t *all = json_load_file(path, JSON_ALLOW_NUL, NULL), *cases = json_object_get(all, "cases"), *c;
    struct metrics_setup setup = {.kind = METRICS_TEXTS, .width = 9};
    struct metrics m;
    size_t i;
    assert_int_equal(json_array_size(cases), 25);
    assert_int_equal(metrics_bytes(&setup), 0);
    assert_int_equal(metrics_open(&m, &setup, NULL), 0);
    json_array_foreach(cases, i, c)
    {
        json_t *pairs = json_object_get(c, "pairs");
        for (size_t first = 0; first < json_array_size(pairs); first++) {
            struct found f = {.name = json_string_value(json_object_get(c, "name")),
                              .expected = json_object_get(c, "expected")};
            evaluate(&m, pairs, first);
            metrics_report(&m, compare, &f);
            assert_int_equal(f.n, 3);
            assert_true(m.loss_sum / (double)m.n == 2 && m.right == m.n);
        }
    }
    metrics_close(&m);
    json_decref(all);
}

/* Bytes that are no UTF-8 are no characters; before them and behind them stand words. */
static void broken_text(void **state)
{
    (void)state;
    struct text_sums broken = {0}, blank = {0};
    assert_int_equal(texts_add(&broken,
                               "a\xFF"
                               "b c\xC3",
                               6, "a b", 3, NULL),
                     0);
    assert_int_equal(texts_add(&blank, "a b c ", 6, "a b", 3, NULL), 0);
    assert_memory_equal(&broken, &blank, sizeof blank);
    assert_true(blank.rouge > 0.79 && blank.rouge < 0.81);
}

/* What is greater is better, but for loss and perplexity; and without rows there is no number. */
static void no_rows(void **state)
{
    struct metrics_setup setup = {.kind = METRICS_TEXTS, .width = 9};
    struct metrics m;
    const struct metric *row;
    (void)state;
    assert_int_equal(metrics_open(&m, &setup, NULL), 0);
    for (int i = 0; (row = metric_at(METRICS_TEXTS, 9, i)); i++) {
        bool of_texts = !strcmp(row->name, "rougeL") || !strcmp(row->name, "chrf") || !strcmp(row->name, "exact_match");
        assert_true(!of_texts || (isnan(row->value(&m)) && !metric_lower_is_better(row->name)));
    }
    metrics_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_rouge_score_and_sacrebleu), cmocka_unit_test(broken_text),
                                       cmocka_unit_test(no_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
