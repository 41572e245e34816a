/* What `snug plan` says of time: that it adds up, by rows, steps and evaluations counted by hand, and that a measured time
 * is kept. */
#include "command.h"

#include <math.h>

static const char *rows, *other_rows;

static json_t *timed(const struct device *on, const char *const *args)
{
    expect_snug(0, said(),
                ARGS("plan", "--json", "--model", fixture("golden/trainer/init"), "--device", on->name, "--dtype",
                     on->dtype, "--threads", "1", "--batch-size", "4", "--gradient-accumulation-steps", "2"),
                args);
    json_t *o = said_object(), *time = json_object_get(o, "time");
    json_incref(time);
    json_decref(o);
    return time;
}

static double number(json_t *o, const char *name)
{
    json_t *x = json_object_get(o, name);
    if (!json_is_number(x))
        fail_msg("%s is not a number", name);
    return json_number_value(x);
}

static void close_to(double x, double y)
{
    if (!(fabs(x - y) <= 1e-5 * fabs(y)))
        fail_msg("%.9g, not %.9g", x, y);
}

static void adds_up(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = device(d);
        if (!strcmp(on->name, "reference")) {
            assert_null(timed(on, ARGS("--train-data", rows)));
            continue;
        }
        /* 45 rows, 8 a step: six steps an epoch, the last one of 5 rows; evaluations at 5, 10, 12. */
        json_t *t = timed(on, ARGS("--train-data", rows, "--eval-data", other_rows, "--num-train-epochs", "2",
                                   "--eval-strategy", "steps", "--eval-steps", "5"));
        double step = number(t, "step_seconds"), evaluation = number(t, "evaluation_seconds");
        assert_true(step > 0 && evaluation > 0);
        assert_string_equal(json_string_value(json_object_get(t, "basis")), is_host(on) ? "estimated" : "measured");
        close_to(number(t, "steps"), 12);
        close_to(number(t, "evaluations"), 3);
        close_to(number(t, "samples_per_second"), 8 / step);
        close_to(number(t, "run_seconds"), 2 * 45.0 / 8 * step + 3 * evaluation);
        json_decref(t);

        /* Whole micro-batches only: 44 rows. One evaluation before the first step; the last is that of step 12. */
        t = timed(on, ARGS("--train-data", rows, "--eval-data", other_rows, "--num-train-epochs", "2",
                           "--eval-strategy", "epoch", "--eval-on-start", "--dataloader-drop-last"));
        close_to(number(t, "steps"), 12);
        close_to(number(t, "evaluations"), 3);
        close_to(number(t, "run_seconds"),
                 2 * 44.0 / 8 * number(t, "step_seconds") + 3 * number(t, "evaluation_seconds"));
        json_decref(t);

        /* The seventh step is whole: the last of the first epoch is not. */
        t = timed(on, ARGS("--train-data", rows, "--max-steps", "7"));
        close_to(number(t, "steps"), 7);
        close_to(number(t, "evaluations"), 0);
        close_to(number(t, "run_seconds"), (45.0 / 8 + 1) * number(t, "step_seconds"));
        json_decref(t);

        t = timed(on, ARGS("--max-length", "10")); /* no data: 8 rows of 10 tokens */
        close_to(number(t, "steps"), 0);
        close_to(number(t, "tokens_per_second"), 80 / number(t, "step_seconds"));
        json_decref(t);
    }
}

/* On a GPU the second plan has the time that the first one measured. */
static void measured_times_are_kept(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        if (is_host(device(d)))
            continue;
        const char *const *args = ARGS("--max-length", "10", "--cache-dir", join(folder, "cache")); /* a long run */
        json_t *a = timed(device(d), args), *b = timed(device(d), args);
        close_to(number(b, "step_seconds"), number(a, "step_seconds")); /* six digits are kept */
        json_decref(a);
        json_decref(b);
    }
}

static int set_up(void **state)
{
    open_folder(state);
    rows = make_rows(folder, 45, 12, 1, true);
    other_rows = make_rows(folder, 14, 12, 2, true);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_up),
        cmocka_unit_test(measured_times_are_kept),
    };
    return cmocka_run_group_tests_name("forecast", tests, set_up, close_folder);
}
