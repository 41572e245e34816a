/* When the estimate of how long a run takes is called a guess. The linker puts __wrap_machine_waited_seconds in the place
 * of what reads Linux' counters of the time that threads waited for a processor. */
#include "here.h"

#include "base/machine.h"

double __wrap_machine_waited_seconds(void);

enum { THREADS = 2 };

static struct {
    double share; /* of the threads' time that they wait; below 0: the system does not count */
    double began; /* the first look; 0: none yet */
} fake;

double __wrap_machine_waited_seconds(void)
{
    double now = seconds_now();
    fake.began = fake.began > 0 ? fake.began : now;
    return fake.share < 0 ? -1 : 1000 + fake.share * THREADS * (now - fake.began);
}

static const char *rows;

/* *options are to be freed behind the session. */
static snug_session *plan(double share, snug_options **options)
{
    snug_options *o;
    snug_session *s = NULL;
    struct snug_err err;
    const char *const set[][2] = {{"model", fixture("golden/trainer/init")},
                                  {"train-data", rows},
                                  {"device", "cpu"},
                                  {"threads", "2"},
                                  {"output-dir", join(folder, "out")}};
    fake.share = share;
    fake.began = 0;
    int code = snug_options_new("train", &o, &err);
    for (size_t i = 0; !code && i < sizeof set / sizeof *set; i++)
        code = snug_options_set(o, set[i][0], set[i][1], &err);
    if (!code)
        code = snug_open(o, SNUG_WHOLE_RUNS, NULL, &s, &err);
    if (code)
        fail_msg("%s", err.text);
    *options = o;
    return s;
}

static void check(double share, bool guess)
{
    snug_options *o;
    snug_session *s = plan(share, &o);
    struct snug_forecast f = snug_forecast(s);
    char *text;
    struct snug_err err;
    assert_true(f.step_seconds > 0 && !f.measured);
    assert_int_equal(f.disturbed, guess);
    assert_int_equal(snug_plan_summary(s, &text, &err), SNUG_OK);
    assert_int_equal(strstr(text, "a guess: other programs have the processors") != NULL, guess);
    assert_int_equal(strstr(text, "estimated") != NULL, !guess);
    snug_free(text);
    snug_close(s);
    snug_options_free(o);
}

static void an_estimate_where_threads_hardly_wait(void **state)
{
    (void)state;
    check(0, false);
    check(0.04, false);
}

static void a_guess_where_they_wait_more_than_a_twentieth(void **state)
{
    (void)state;
    check(0.06, true);
    check(0.5, true);
}

static void an_estimate_where_waiting_is_not_counted(void **state)
{
    (void)state;
    check(-1, false);
}

static int set_up(void **state)
{
    open_folder(state);
    rows = make_rows(folder, 45, 12, 1, true);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_estimate_where_threads_hardly_wait),
        cmocka_unit_test(a_guess_where_they_wait_more_than_a_twentieth),
        cmocka_unit_test(an_estimate_where_waiting_is_not_counted),
    };
    return cmocka_run_group_tests_name("disturbed", tests, set_up, close_folder);
}
