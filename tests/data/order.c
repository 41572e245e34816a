/* data/order: permutations, and orders computed a second time by order/record.py. */
#include "data/order.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void order_is_a_permutation(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 700; n += n < 80 ? 1 : 31) {
        struct order o;
        assert_int_equal(order_open(&o, ORDER_RANDOM, n, (uint64_t)n * 77, NULL, 0, NULL), 0);
        char *seen = calloc(1, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            int64_t row = order_row(&o, 3, i);
            assert_in_range(row, 0, n - 1);
            assert_int_equal(seen[row]++, 0);
        }
        free(seen);
    }
}

/* Over many epochs each row stands equally often at each position: chi-squared with 36 degrees of freedom exceeds 80
 * once in 30,000 tries. */
static void positions_are_uniform(void **state)
{
    (void)state;
    enum { N = 7, EPOCHS = 7000 };
    struct order o;
    int count[N][N] = {{0}};
    order_open(&o, ORDER_RANDOM, N, 42, NULL, 0, NULL);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < N; i++)
            count[i][order_row(&o, e, i)]++;
    double chi = 0, expected = (double)EPOCHS / N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi += (count[i][j] - expected) * (count[i][j] - expected) / expected;
    assert_true(chi < 80);
}

static void sequential_is_the_file(void **state)
{
    (void)state;
    struct order o;
    order_open(&o, ORDER_SEQUENTIAL, 9, 42, NULL, 0, NULL);
    for (int i = 0; i < 9; i++)
        assert_int_equal(order_row(&o, 5, i), i);
}

/* The lengths of record.py. */
static int64_t length(int64_t row, int64_t kind)
{
    return kind == 0 ? 1 + (row * 7919 + 13) % 97 : kind == 1 ? 1 + row % 2 : kind == 2 ? (row == 17 ? 1000 : 5) : 8;
}

static int64_t get(json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void check_case(json_t *c)
{
    int64_t n = get(c, "n"), step_rows = get(c, "step_rows"), epoch = get(c, "epoch");
    uint64_t seed = strtoull(json_string_value(json_object_get(c, "seed")), NULL, 10);
    json_t *want = json_object_get(c, "rows");
    int64_t *offsets = calloc((size_t)n + 1, sizeof *offsets), *rows = calloc((size_t)n, sizeof *rows);
    for (int64_t i = 0; i < n; i++)
        offsets[i + 1] = offsets[i] + length(i, get(c, "lengths"));
    struct order o;
    assert_int_equal(order_open(&o, step_rows ? ORDER_BY_LENGTH : ORDER_RANDOM, n, seed, offsets, step_rows, NULL), 0);
    for (int64_t i = 0; !step_rows && i < n; i++)
        assert_int_equal(order_row(&o, epoch, i), json_integer_value(json_array_get(want, (size_t)i)));
    /* all at once, and in pieces that do not respect the mega-batches */
    for (int64_t piece = n; piece > 0; piece = piece > 7 ? 7 : 0) {
        memset(rows, 0xFF, (size_t)n * sizeof *rows);
        for (int64_t from = 0; from < n; from += piece)
            assert_int_equal(order_rows(&o, epoch, from, n - from < piece ? n - from : piece, rows + from, NULL), 0);
        for (int64_t i = 0; i < n; i++)
            if (rows[i] != json_integer_value(json_array_get(want, (size_t)i)))
                fail_msg("n %lld seed %llu epoch %lld step %lld lengths %lld: row at %lld", (long long)n,
                         (unsigned long long)seed, (long long)epoch, (long long)step_rows, (long long)get(c, "lengths"),
                         (long long)i);
    }
    order_close(&o);
    free(offsets);
    free(rows);
}

static void orders_are_those_recorded(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/order/cases.json", getenv("SNUG_SOURCE"));
    json_t *cases = json_load_file(path, 0, NULL), *c;
    assert_int_equal(json_array_size(cases), 104);
    size_t i;
    json_array_foreach(cases, i, c) check_case(c);
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_a_permutation),
        cmocka_unit_test(positions_are_uniform),
        cmocka_unit_test(sequential_is_the_file),
        cmocka_unit_test(orders_are_those_recorded),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
