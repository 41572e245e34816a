/* schedule/due: how many evaluations a run has, counted by hand for 100 rows, 10 a step, 3 epochs: 30 steps. */
#include "schedule/due.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct position rows = {.n_rows = 100, .step_rows = 10};

static int64_t evaluations(struct options o)
{
    return due_evaluations(&o, &rows, 30);
}

static void counted_by_hand(void **state)
{
    (void)state;
    struct options o = {.eval_strategy = OPT_WHEN_NO};
    assert_int_equal(evaluations(o), 1); /* after step 30, as always */
    o.eval_on_start = true;
    assert_int_equal(evaluations(o), 2);
    o = (struct options){.eval_strategy = OPT_WHEN_EPOCH};
    assert_int_equal(evaluations(o), 3);
    o.eval_delay = 1.5; /* epochs */
    assert_int_equal(evaluations(o), 2);
    o = (struct options){.eval_strategy = OPT_WHEN_STEPS, .eval_steps = {.steps = 7}};
    assert_int_equal(evaluations(o), 5); /* 7, 14, 21, 28, 30 */
    o.eval_delay = 15;                   /* steps */
    assert_int_equal(evaluations(o), 3);
    o = (struct options){.eval_strategy = OPT_WHEN_STEPS, .eval_steps = {.ratio = 0.25}};
    assert_int_equal(evaluations(o), 4); /* each ceil(0.25 * 30): 8, 16, 24, 30 */
}

static void each_so_many_steps(void **state)
{
    (void)state;
    struct moment third = {.step = 3, .total = 30, .ends_epoch = true};
    assert_true(due(OPT_WHEN_EPOCH, (struct opt_steps){.steps = 2}, &third));
    assert_true(due(OPT_WHEN_STEPS, (struct opt_steps){.steps = 3}, &third));
    assert_false(due(OPT_WHEN_STEPS, (struct opt_steps){.steps = 2}, &third));
    assert_false(due(OPT_WHEN_STEPS, (struct opt_steps){0}, &third));
    assert_false(due(OPT_WHEN_NO, (struct opt_steps){.steps = 3}, &third));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counted_by_hand), cmocka_unit_test(each_so_many_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
