/* Numbers of tags against those of seqeval (entities.py), for rows in batches of any size. */
#include "metrics/metrics.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LABELS = 16, ROWS = 64, TOKENS = 1024 };

struct made {
    const char *names[LABELS];
    int32_t n_names, n, rows, cu[ROWS + 1], actual[TOKENS], predicted[TOKENS];
};

static int32_t id_of(const struct made *d, json_t *name)
{
    int32_t i = 0;
    while (strcmp(d->names[i], json_string_value(name)))
        i++;
    return i;
}

/* Behind each word stands a token of the same word, which has no label. */
static void make(json_t *c, struct made *d)
{
    size_t i, k;
    json_t *name, *row;
    *d = (struct made){0};
    json_array_foreach(json_object_get(c, "labels"), i, name) d->names[d->n_names++] = json_string_value(name);
    json_array_foreach(json_object_get(c, "actual"), i, row)
    {
        json_array_foreach(row, k, name)
        {
            json_t *other = json_array_get(json_array_get(json_object_get(c, "predicted"), i), k);
            d->actual[d->n] = id_of(d, name);
            d->predicted[d->n++] = id_of(d, other);
            d->actual[d->n] = -100;
            d->predicted[d->n++] = (int32_t)k % d->n_names;
        }
        d->cu[++d->rows] = d->n;
    }
}

static void evaluate(struct metrics *m, const struct made *d, int32_t batch)
{
    metrics_reset(m);
    for (int32_t from = 0; from < d->rows; from += batch) {
        int32_t n = d->rows - from < batch ? d->rows - from : batch, first = d->cu[from], cu[ROWS + 1];
        for (int32_t i = 0; i <= n; i++)
            cu[i] = d->cu[from + i] - first;
        metrics_add_tags(m, d->predicted + first, d->actual + first, cu, n, 0.5 * cu[n]);
    }
    metrics_finish(m);
}

struct found {
    const char *name;
    json_t *expected;
    size_t n;
};

static void compare(void *ctx, const char *name, double value)
{
    struct found *f = ctx;
    json_t *want = json_object_get(f->expected, name);
    if (!strcmp(name, "loss")) {
        assert_true(fabs(value - 1) < 1e-12); /* half a unit for each token, and every other one counts */
        return;
    }
    f->n++;
    if (!want)
        fail_msg("%s: %s is not recorded", f->name, name);
    if (!(fabs(value - json_number_value(want)) <= 1e-12))
        fail_msg("%s: %s is %.17g, recorded %.17g", f->name, name, value, json_number_value(want));
}

/* A type that no tag names has no row in seqeval's report, and 0 everywhere here. */
static void compare_type(const struct metrics *m, int64_t i, json_t *types, struct found *f)
{
    json_t *none =
        json_pack("{s:i,s:i,s:i,s:i,s:i}", "precision", 0, "recall", 0, "f1", 0, "support", 0, "predicted", 0);
    json_t *recorded = json_object_get(types, m->types[i]);
    f->expected = recorded ? recorded : none;
    f->n = 0;
    metrics_report_label(m, i, compare, f);
    assert_int_equal(f->n, 5);
    json_decref(none);
}

static void as_seqeval(void **state)
{
    char path[4096];
    (void)state;
    snprintf(path, sizeof path, "%s/tests/metrics/entities.json", getenv("SNUG_SOURCE"));
    json_t *all = json_load_file(path, 0, NULL), *cases = json_object_get(all, "cases"), *c;
    size_t i;
    assert_int_equal(json_array_size(cases), 61);
    json_array_foreach(cases, i, c)
    {
        static struct made d;
        make(c, &d);
        struct metrics_setup setup = {.kind = METRICS_ENTITIES, .width = d.n_names, .names = d.names};
        struct metrics m;
        json_t *types = json_object_get(c, "types");
        assert_int_equal(metrics_open(&m, &setup, NULL), 0);
        for (int32_t batch = 1; batch <= 64; batch *= 4) {
            struct found f = {.name = json_string_value(json_object_get(c, "name")),
                              .expected = json_object_get(c, "expected")};
            size_t named = 0;
            evaluate(&m, &d, batch);
            metrics_report(&m, compare, &f);
            assert_int_equal(f.n, json_object_size(f.expected));
            for (int64_t t = 0; t < m.n_labels; t++) {
                named += json_object_get(types, m.types[t]) != NULL;
                compare_type(&m, t, types, &f);
            }
            assert_int_equal(named, json_object_size(types));
        }
        metrics_close(&m);
    }
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_seqeval)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
