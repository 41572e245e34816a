/* schedule/position: where a run is in its data, against a count, step by step, of the rows that are taken. */
#include "schedule/position.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* A run that takes its rows one step after another. */
struct counted {
    int64_t epoch, row, steps;
};

/* Goes on by a step of `rows`, batch after batch; where short batches are dropped, one of less than `batch` rows is left out. */
static void take(struct counted *c, int64_t n, int64_t rows, int64_t batch, bool drop)
{
    int64_t least = drop ? batch : 1;
    for (int64_t taken = 0; taken < rows && n - c->row >= least; taken += batch)
        c->row += batch;
    c->steps++;
    if (n - c->row < least)
        c->epoch++, c->row = 0;
}

static void every_step_of_changed_runs(void **state)
{
    (void)state;
    static const struct {
        int64_t n, batch, times, new_batch, new_times;
    } sizes[] = {{29, 4, 1, 6, 1}, {29, 3, 2, 2, 2},   {30, 5, 1, 2, 5}, {7, 7, 1, 1, 1},
                 {7, 1, 1, 7, 1},  {100, 3, 1, 16, 4}, {43, 4, 3, 8, 8}, {43, 4, 2, 2, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int drop = 0; drop <= 1; drop++)
            for (int64_t change = 0; change <= 20; change++) {
                int64_t n = sizes[i].n, batch = sizes[i].batch, before_change = batch * sizes[i].times, epoch, row;
                int64_t rows = before_change;
                struct counted c = {0};
                while (c.steps < change)
                    take(&c, n, rows, batch, drop);
                if (change) {
                    batch = sizes[i].new_batch;
                    rows = batch * sizes[i].new_times;
                }
                struct position p = {.n_rows = n, .step_rows = rows, .drop_below = drop ? batch : 0};
                if (drop && n - c.row < batch)
                    c.epoch++, c.row = 0;
                if (change)
                    p.from = (struct origin){change, c.epoch, c.row, before_change};
                for (int more = 0; more < 60; more++) {
                    position_of(&p, c.steps, &epoch, &row);
                    assert_int_equal(epoch, c.epoch);
                    assert_int_equal(row, c.row);
                    struct counted before = c;
                    take(&c, n, rows, batch, drop);
                    assert_int_equal(position_ends_epoch(&p, c.steps), c.epoch > before.epoch);
                    double done = position_epochs(&p, c.steps);
                    assert_true(c.epoch > before.epoch ? done == (double)c.epoch : floor(done) == (double)c.epoch);
                    if (c.epoch > before.epoch) /* a whole number of epochs ends at this step */
                        assert_int_equal(position_total(&p, (double)c.epoch), c.steps);
                }
            }
}

/* Half an epoch more, from the middle of one: 29 rows, 12 of the second epoch are done when steps become 4 rows. */
static void a_share_of_an_epoch(void **state)
{
    (void)state;
    struct position p = {.n_rows = 29, .step_rows = 4, .from = {.step = 7, .epoch = 1, .row = 12}};
    assert_int_equal(position_total(&p, 1.5), 8);  /* 2.5 rows to the 14.5th */
    assert_int_equal(position_total(&p, 1.2), 7);  /* behind us */
    assert_int_equal(position_total(&p, 2), 12);   /* 17 rows: 5 steps */
    assert_int_equal(position_total(&p, 2.5), 16); /* and half of 8 */
    p.from = (struct origin){0};
    assert_int_equal(position_total(&p, 1.5), 12); /* as transformers: ceil(1.5 * 8) */
    assert_int_equal(position_steps_per_epoch(&p), 8);
    p = (struct position){.n_rows = 43, .step_rows = 12, .drop_below = 4}; /* 10 batches of the Trainer's, 3 a step */
    assert_int_equal(position_steps_per_epoch(&p), 4);
    assert_int_equal(position_rows_per_epoch(&p), 40);
    p = (struct position){.n_rows = 43, .step_rows = 64, .drop_below = 8};
    assert_int_equal(position_steps_per_epoch(&p), 1);
    assert_int_equal(position_rows_per_epoch(&p), 40);
    p = (struct position){.n_rows = 43, .step_rows = 6, .drop_below = 6, .from = {.step = 3, .row = 12}};
    assert_int_equal(position_total(&p, 0.99), 8); /* of 30 rows that are taken, not of 31 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_of_changed_runs),
                                       cmocka_unit_test(a_share_of_an_epoch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
