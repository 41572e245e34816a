/* The buckets of a bias by distance against those of transformers (record_buckets.py). */
#include "op/attention/bias_bucket.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_buckets(const char *of, bool one_way)
{
    char path[4096];
    const char *key;
    json_t *row;
    int rows = 0;
    snprintf(path, sizeof path, "%s/tests/op/buckets.json", getenv("SNUG_SOURCE"));
    json_t *all = json_load_file(path, 0, NULL);
    json_object_foreach(json_object_get(all, of), key, row)
    {
        int buckets, furthest;
        assert_int_equal(sscanf(key, "%d %d", &buckets, &furthest), 2);
        assert_int_equal(json_array_size(row), 1201);
        for (int64_t i = 0; i < 1201; i++) {
            int64_t apart = i + json_integer_value(json_object_get(all, "first"));
            int64_t want = json_integer_value(json_array_get(row, (size_t)i));
            if (bias_bucket(1000, 1000 + apart, buckets, furthest, one_way) != want)
                fail_msg("%s: a distance of %lld is not in bucket %lld", key, (long long)apart, (long long)want);
        }
        rows++;
    }
    assert_int_equal(rows, 4);
    json_decref(all);
}

static void buckets_are_those_of_transformers(void **state)
{
    (void)state;
    check_buckets("rows", false);
}

static void buckets_one_way_are_those_of_transformers(void **state)
{
    (void)state;
    check_buckets("one way", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(buckets_are_those_of_transformers),
                                       cmocka_unit_test(buckets_one_way_are_those_of_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
