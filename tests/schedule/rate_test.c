/* schedule/rate_test: rates, means, the end and the suggestion against fastai's (record_rate_test.py). */
#include "schedule/rate_test.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static json_t *recorded(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/schedule/rate_test.json", getenv("SNUG_SOURCE"));
    json_t *o = json_load_file(path, 0, NULL);
    assert_non_null(o);
    return o;
}

static void assert_near(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound * fabs(want)))
        fail_msg("%.17g instead of %.17g", got, want);
}

static void rates_grow_by_the_same_factor(void **state)
{
    (void)state;
    json_t *o = recorded(), *rates = json_object_get(o, "rates");
    assert_int_equal(json_array_size(rates), RATE_TEST_STEPS);
    for (size_t i = 0; i < RATE_TEST_STEPS; i++)
        assert_near(rate_test_rate((int64_t)i), json_number_value(json_array_get(rates, i)), 1e-14);
    json_decref(o);
}

static void check_case(const json_t *test)
{
    json_t *losses = json_object_get(test, "loss"), *means = json_object_get(test, "smoothed");
    json_t *rate = json_object_get(test, "suggestion");
    struct rate_test t = {0};
    for (size_t i = 0; i < json_array_size(losses) && !t.diverged; i++) {
        json_t *loss = json_array_get(losses, i);
        rate_test_add(&t, json_is_string(loss) ? strtod(json_string_value(loss), NULL) : json_number_value(loss));
    }
    assert_int_equal(t.n, json_array_size(means));
    assert_int_equal(t.diverged, t.n < RATE_TEST_STEPS);
    for (int i = 0; i < t.n; i++)
        assert_near(t.smoothed[i], json_number_value(json_array_get(means, (size_t)i)), 1e-12);
    int step = rate_test_suggest(&t);
    if (json_is_null(rate))
        assert_int_equal(step, -1);
    else
        assert_near(t.rate[step], json_number_value(rate), 1e-14);
}

static void losses_as_fastai_reads_them(void **state)
{
    (void)state;
    json_t *o = recorded(), *test;
    size_t i;
    json_array_foreach(json_object_get(o, "cases"), i, test) check_case(test);
    assert_int_equal(i, 10);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates_grow_by_the_same_factor),
                                       cmocka_unit_test(losses_as_fastai_reads_them)};
    return cmocka_run_group_tests_name("rate_test", tests, NULL, NULL);
}
