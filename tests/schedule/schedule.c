/* Every schedule against the rates of transformers (record_schedules.py), from the options that a user gives; early stopping
 * against the decisions of its callback (record_stopping.py). */
#include "schedule/plateau.h"
#include "schedule/stopping.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *recorded(const char *name)
{
    char path[512];
    json_error_t e;
    snprintf(path, sizeof path, "%s/tests/schedule/%s", getenv("SNUG_SOURCE"), name);
    json_t *o = json_load_file(path, 0, &e);
    if (!o)
        fail_msg("%s: %s", path, e.text);
    return o;
}

static void set(struct options *o, const char *name, const char *text)
{
    struct snug_err err;
    if (options_set(o, name, text, &err))
        fail_msg("%s %s: %s", name, text, err.text);
}

static const char *string(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static double number(const json_t *o)
{
    return json_is_string(o) ? strtod(json_string_value(o), NULL) : json_number_value(o);
}

/* As `snug train` has them. */
static struct options options_of(const json_t *test, bool evaluates)
{
    struct options o;
    struct snug_err err;
    char text[64];
    options_init(&o, CMD_TRAIN);
    set(&o, "model", "m");
    set(&o, "train_data", "d.csv");
    set(&o, "output_dir", "out");
    set(&o, "lr_scheduler_type", string(test, "type"));
    snprintf(text, sizeof text, "%.17g", json_number_value(json_object_get(test, "learning_rate")));
    set(&o, "learning_rate", text);
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(json_object_get(test, "warmup")));
    if (strcmp(text, "0") != 0)
        set(&o, "warmup_steps", text);
    json_t *given = json_object_get(test, "kwargs");
    char *kwargs = json_dumps(given, 0);
    if (json_object_size(given))
        set(&o, "lr_scheduler_kwargs", kwargs);
    free(kwargs);
    if (evaluates) {
        set(&o, "eval_data", "e.csv");
        set(&o, "eval_strategy", "epoch");
    }
    if (options_check(&o, &err))
        fail_msg("%s", err.text);
    return o;
}

static void near(double got, double want, const json_t *test, size_t at)
{
    if (!(fabs(got - want) <= 1e-14 * fabs(want) + 1e-20))
        fail_msg("%s, rate %zu: %.17g instead of %.17g", json_dumps(test, 0), at, got, want);
}

static void rates_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *file = recorded("schedules.json"), *test;
    bool seen[OPT_SCHEDULE_GREEDY + 1] = {0};
    size_t i, at;
    json_array_foreach(json_object_get(file, "cases"), i, test)
    {
        json_t *metrics = json_object_get(test, "metrics"), *rates = json_object_get(test, "rates"), *rate;
        struct options o = options_of(test, metrics != NULL);
        struct schedule c = schedule_of(&o, json_integer_value(json_object_get(test, "total")));
        struct plateau p;
        plateau_start(&p, &c);
        assert_int_equal(schedule_follows_metric(&o), metrics != NULL);
        json_array_foreach(rates, at, rate)
        {
            if (metrics)
                plateau_step(&p, &c, json_number_value(json_array_get(metrics, at)));
            near(metrics ? p.rate : schedule_rate(&c, (int64_t)at), json_number_value(rate), test, at);
        }
        seen[o.lr_scheduler_type] = true;
        options_free(&o);
    }
    for (size_t k = 0; k < sizeof seen; k++)
        assert_true(seen[k]);
    json_decref(file);
}

static void early_stopping_is_that_of_the_callback(void **state)
{
    (void)state;
    json_t *file = recorded("stopping.json"), *test, *metric;
    size_t i, at, stopped = 0;
    json_array_foreach(json_object_get(file, "cases"), i, test)
    {
        struct options o;
        struct stopping s = {0};
        char text[64];
        options_init(&o, CMD_TRAIN);
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(json_object_get(test, "patience")));
        set(&o, "early_stopping_patience", text);
        snprintf(text, sizeof text, "%.17g", json_number_value(json_object_get(test, "threshold")));
        set(&o, "early_stopping_threshold", text);
        set(&o, "greater_is_better", json_is_true(json_object_get(test, "greater")) ? "true" : "false");
        bool stops = false;
        json_array_foreach(json_object_get(test, "metrics"), at, metric)
        {
            stopping_count(&s, &o, number(metric));
            stops |= stopping_is_due(&s, &o);
            json_t *count = json_array_get(json_object_get(test, "counts"), at);
            bool theirs = json_is_true(json_array_get(json_object_get(test, "stops"), at));
            if (s.failed != json_integer_value(count) || stops != theirs)
                fail_msg("%s: at %zu %lld failed", json_dumps(test, 0), at, (long long)s.failed);
        }
        stopped += stops;
        options_free(&o);
    }
    assert_true(stopped > 20);
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates_are_those_of_transformers),
                                       cmocka_unit_test(early_stopping_is_that_of_the_callback)};
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
