/* Every number of an evaluation against those of scikit-learn and scipy (record.py), for rows in several orders and
 * batches; and that these make no difference to a single bit. */
#include "metrics/metrics.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static json_t *recorded;

/* One recorded evaluation, as an evaluation gives its rows. */
struct made {
    struct metrics_setup setup;
    double *logits;   /* (rows, width) */
    float *values;    /* (rows, width) */
    int32_t *classes; /* (rows) */
};

static double number(json_t *v)
{
    return json_is_null(v) ? NAN : json_number_value(v);
}

static struct made make(json_t *c)
{
    static const char *const kinds[] = {"single_label", "multi_label", "regression"};
    struct made d = {.setup = {.threshold = number(json_object_get(c, "threshold")),
                               .smoothing = number(json_object_get(c, "smoothing")),
                               .width = json_integer_value(json_object_get(c, "width"))}};
    json_t *outputs = json_object_get(c, "outputs"), *labels = json_object_get(c, "labels");
    while (strcmp(kinds[d.setup.kind], json_string_value(json_object_get(c, "kind"))) != 0)
        d.setup.kind++;
    int64_t rows = d.setup.rows = (int64_t)json_array_size(outputs), width = d.setup.width;
    d.logits = calloc((size_t)(rows * width), sizeof *d.logits);
    d.values = calloc((size_t)(rows * width), sizeof *d.values);
    d.classes = calloc((size_t)rows, sizeof *d.classes);
    for (int64_t r = 0; r < rows; r++) {
        json_t *label = json_array_get(labels, (size_t)r), *output = json_array_get(outputs, (size_t)r);
        if (d.setup.kind == METRICS_SINGLE_LABEL)
            d.classes[r] = (int32_t)json_integer_value(label);
        for (int64_t i = 0; i < width; i++) {
            d.logits[r * width + i] = number(json_array_get(output, (size_t)i));
            if (d.setup.kind != METRICS_SINGLE_LABEL)
                d.values[r * width + i] = (float)number(json_array_get(label, (size_t)i));
        }
    }
    return d;
}

static void drop(struct made *d)
{
    free(d->logits);
    free(d->values);
    free(d->classes);
}

/* Batches of `batch` rows, from the last to the first if `backwards`. */
static void evaluate(struct metrics *m, const struct made *d, int64_t batch, bool backwards)
{
    int64_t width = d->setup.width;
    metrics_reset(m);
    for (int64_t from = 0; from < d->setup.rows; from += batch) {
        int64_t rows[64], n = 0;
        double logits[64 * 8];
        float values[64 * 8];
        int32_t classes[64];
        for (; n < batch && from + n < d->setup.rows; n++) {
            int64_t r = rows[n] = backwards ? d->setup.rows - 1 - from - n : from + n;
            memcpy(logits + n * width, d->logits + r * width, (size_t)width * sizeof *logits);
            memcpy(values + n * width, d->values + r * width, (size_t)width * sizeof *values);
            classes[n] = d->classes[r];
        }
        if (d->setup.kind == METRICS_SINGLE_LABEL)
            metrics_add_classes(m, rows, logits, classes, n);
        else
            metrics_add_values(m, rows, logits, values, n);
    }
    metrics_finish(m);
}

struct found {
    const char *name; /* of the case */
    json_t *expected;
    int n;
};

static void compare(void *ctx, const char *name, double value)
{
    struct found *f = ctx;
    json_t *v = json_object_get(f->expected, name);
    double want = number(v), slack = 1e-11 * (fabs(want) > 1 ? fabs(want) : 1);
    f->n++;
    if (!v)
        fail_msg("%s: %s is not recorded", f->name, name);
    if (isnan(want) ? !isnan(value) : !(fabs(value - want) <= slack))
        fail_msg("%s: %s is %.17g, recorded %.17g", f->name, name, value, want);
}

static void as_recorded(void **state)
{
    size_t i;
    json_t *c;
    (void)state;
    assert_true(json_array_size(recorded) > 20);
    json_array_foreach(recorded, i, c)
    {
        struct made d = make(c);
        struct metrics m;
        struct found f = {.name = json_string_value(json_object_get(c, "name"))};
        assert_int_equal(metrics_open(&m, &d.setup, NULL), 0);
        evaluate(&m, &d, 7, false);
        f.expected = json_object_get(c, "expected");
        metrics_report(&m, compare, &f);
        assert_int_equal(f.n, json_object_size(f.expected));
        for (int64_t l = 0; l < d.setup.width; l++) {
            f.expected = json_array_get(json_object_get(c, "by_label"), (size_t)l);
            f.n = 0;
            metrics_report_label(&m, l, compare, &f);
            assert_int_equal(f.n, json_object_size(f.expected));
        }
        metrics_close(&m);
        drop(&d);
    }
}

static void confusions_as_recorded(void **state)
{
    size_t i;
    json_t *c;
    int matrices = 0;
    (void)state;
    json_array_foreach(recorded, i, c)
    {
        json_t *matrix = json_object_get(c, "confusion_matrix");
        struct made d = make(c);
        struct metrics m;
        struct confusion *cells;
        size_t n, at = 0;
        assert_int_equal(metrics_open(&m, &d.setup, NULL), 0);
        evaluate(&m, &d, 5, true);
        assert_int_equal(metrics_confusions(&m, &cells, &n, NULL), 0);
        for (int32_t a = 0; matrix && a < d.setup.width; a++)
            for (int32_t p = 0; p < d.setup.width; p++) {
                json_int_t rows = json_integer_value(json_array_get(json_array_get(matrix, (size_t)a), (size_t)p));
                if (!rows)
                    continue;
                assert_true(at < n);
                assert_int_equal(cells[at].actual, a);
                assert_int_equal(cells[at].predicted, p);
                assert_int_equal(cells[at++].rows, rows);
            }
        assert_int_equal(at, n);
        matrices += matrix != NULL;
        mem_free(cells);
        metrics_close(&m);
        drop(&d);
    }
    assert_true(matrices > 8);
}

struct bits {
    double values[64];
    int n;
};

static void keep(void *ctx, const char *name, double value)
{
    struct bits *b = ctx;
    (void)name;
    b->values[b->n++] = value;
}

static void order_and_batches_make_no_difference(void **state)
{
    size_t i;
    json_t *c;
    (void)state;
    json_array_foreach(recorded, i, c)
    {
        struct made d = make(c);
        struct metrics m;
        struct bits first = {0};
        assert_int_equal(metrics_open(&m, &d.setup, NULL), 0);
        evaluate(&m, &d, 1, false);
        metrics_report(&m, keep, &first);
        for (int64_t batch = 1; batch <= 64; batch *= 4) {
            struct bits again = {0};
            evaluate(&m, &d, batch, true);
            metrics_report(&m, keep, &again);
            assert_memory_equal(first.values, again.values, sizeof first.values);
        }
        metrics_close(&m);
        drop(&d);
    }
}

/* Rows whose label is negative are as if they were not there. */
static void rows_without_a_label_do_not_count(void **state)
{
    static const double logits[] = {1, 2, 9, -9, 3, 1, 1, 4};
    static const int32_t labels[] = {1, -100, 0, 0};
    static const int64_t rows[] = {0, 1, 2, 3};
    struct metrics_setup setup = {.kind = METRICS_SINGLE_LABEL, .rows = 4, .width = 2};
    struct metrics m;
    (void)state;
    assert_int_equal(metrics_open(&m, &setup, NULL), 0);
    for (int i = 0; i < 2; i++) {
        metrics_reset(&m);
        metrics_add_classes(&m, rows, logits, labels, 4);
        metrics_finish(&m);
        assert_int_equal(m.n, 3);
        assert_int_equal(m.right, 2);
        assert_int_equal(m.labels[0].actual, 2);
        assert_true(m.labels[1].roc_auc == 0.5); /* 1 lies above -2 and below 3 */
    }
    metrics_close(&m);
}

static void language_models_count_targets(void **state)
{
    static const int32_t guesses[] = {3, 4, 5, 6}, targets[] = {3, -100, 4, 6};
    struct metrics_setup setup = {.kind = METRICS_TOKENS, .width = 9};
    struct metrics m;
    struct bits b = {0};
    (void)state;
    assert_int_equal(metrics_bytes(&setup), 0);
    assert_int_equal(metrics_open(&m, &setup, NULL), 0);
    metrics_add_tokens(&m, guesses, targets, 4, 1.5);
    metrics_finish(&m);
    metrics_report(&m, keep, &b);
    assert_int_equal(b.n, 3);
    assert_true(b.values[0] == 0.5 && b.values[1] == 2.0 / 3 && fabs(b.values[2] - 1.6487212707001282) < 1e-15);
    metrics_close(&m);
}

static void logits_that_are_nan_harm_nothing(void **state)
{
    const double logits[] = {NAN, NAN, 1, 2, NAN, 0};
    static const float values[] = {1, 0, 0, 1, 1, 1};
    static const int32_t classes[] = {1, 0, 1};
    static const int64_t rows[] = {0, 1, 2};
    (void)state;
    for (int kind = METRICS_SINGLE_LABEL; kind <= METRICS_REGRESSION; kind++) {
        struct metrics_setup setup = {.kind = (enum metrics_kind)kind, .rows = 3, .width = 2, .threshold = 0.5};
        struct metrics m;
        struct bits b = {0};
        assert_int_equal(metrics_open(&m, &setup, NULL), 0);
        if (kind == METRICS_SINGLE_LABEL)
            metrics_add_classes(&m, rows, logits, classes, 3);
        else
            metrics_add_values(&m, rows, logits, values, 3);
        metrics_finish(&m);
        metrics_report(&m, keep, &b);
        assert_true(isnan(b.values[0]));
        metrics_close(&m);
    }
}

/* As the Trainer has it by their names, and for what it would get the wrong way round. */
static void losses_and_errors_are_better_when_lower(void **state)
{
    static const char *const lower[] = {"loss", "eval_loss",  "mse",          "eval_mae",
                                        "rmse", "perplexity", "hamming_loss", "my_loss"};
    static const char *const higher[] = {"accuracy", "f1", "eval_macro_f1", "r2", "roc_auc", "spearman", "mine"};
    (void)state;
    for (size_t i = 0; i < sizeof lower / sizeof *lower; i++)
        assert_true(metric_lower_is_better(lower[i]));
    for (size_t i = 0; i < sizeof higher / sizeof *higher; i++)
        assert_false(metric_lower_is_better(higher[i]));
}

/* The plan counts what is kept of every row: a score for each class but one of two, and some numbers besides. */
static void memory_grows_with_rows_and_classes(void **state)
{
    struct metrics_setup two = {.kind = METRICS_SINGLE_LABEL, .rows = 1000, .width = 2}, many = two;
    many.width = 150;
    (void)state;
    assert_int_equal(metrics_bytes(&many) - metrics_bytes(&two),
                     1000 * 149 * 4 + 148 * (int)sizeof(struct label_counts));
    assert_true(metrics_bytes(&two) < 1000 * 32);
}

static int load(void **state)
{
    char path[4096];
    json_error_t e;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/metrics/recorded.json", getenv("SNUG_SOURCE"));
    json_t *file = json_load_file(path, 0, &e);
    if (!file)
        fail_msg("%s: %s", path, e.text);
    recorded = json_incref(json_object_get(file, "cases"));
    json_decref(file);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    json_decref(recorded);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_recorded),
        cmocka_unit_test(confusions_as_recorded),
        cmocka_unit_test(order_and_batches_make_no_difference),
        cmocka_unit_test(rows_without_a_label_do_not_count),
        cmocka_unit_test(language_models_count_targets),
        cmocka_unit_test(logits_that_are_nan_harm_nothing),
        cmocka_unit_test(losses_and_errors_are_better_when_lower),
        cmocka_unit_test(memory_grows_with_rows_and_classes),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
