/* Which algorithms of a product are timed for long, by the times of one launch each. */
#include "cuda/products/race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void those_that_run(void **state)
{
    (void)state;
    const double no = INFINITY;
    const struct {
        double us[9];
        int n, n_best, best[FINALISTS + 1];
    } rows[] = {
        {{5}, 1, 1, {0}},
        {{9, 5, 3, 4}, 4, 4, {0, 2, 3, 1}},                      /* the first one although it is slow */
        {{9, 8, 7, 6, 5, 4, 3, 2, 1}, 9, 6, {0, 8, 7, 6, 5, 4}}, /* and five others */
        {{9, no, 3, no, 2}, 5, 3, {0, 4, 2}},                    /* which run */
        {{no, 5, 3, 4}, 4, 3, {2, 3, 1}},                        /* it does not */
        {{no, no, 7}, 3, 1, {2}},
        {{no, 8, 7, 6, 5, 4, 3, 2, 1}, 9, 6, {8, 7, 6, 5, 4, 3}},
        {{no, no}, 2, 0, {0}},
        {{0}, 0, 0, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int best[FINALISTS + 1];
        assert_int_equal(race_finalists(rows[i].us, rows[i].n, best), rows[i].n_best);
        for (int k = 0; k < rows[i].n_best; k++)
            assert_int_equal(best[k], rows[i].best[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(those_that_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
