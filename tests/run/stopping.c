/* Runs that go by their evaluations: early stopping, and a learning rate that falls on a plateau. How decisions follow from
 * metrics is in tests/schedule/schedule.c; here, that they are made, kept in checkpoints, and the same after a resume. */
#include "here.h"

#include <math.h>
#include <unistd.h>

/* 8 steps an epoch, with a rate at which the loss soon becomes worse than it was. */
#define COMMON                                                                                                         \
    "--model", fixture("golden/trainer/init"), "--train-data", "synthetic:64x12", "--eval-data", "synthetic:32x12",    \
        "--device", "cpu", "--threads", "1", "--eval-strategy", "steps", "--eval-steps", "2", "--save-steps", "2",     \
        "--logging-steps", "1", "--max-steps", "24", "--log-hash", "true"

static const char *train(const char *name, const char *const *more, const char *const *last)
{
    const char *out = join(folder, name);
    train_to_the_end(LISTS(ARGS(COMMON, "--output-dir", out), more, last));
    return out;
}

/* Of each evaluation, in the log's order. */
static int losses(const char *out, double loss[32], int64_t step[32])
{
    json_t *log = read_log(out), *line;
    size_t i;
    int n = 0;
    json_array_foreach(log, i, line) if (json_object_get(line, "eval_loss"))
    {
        loss[n] = json_number_value(json_object_get(line, "eval_loss"));
        step[n++] = json_integer_value(json_object_get(line, "step"));
    }
    json_decref(log);
    return n;
}

/* The evaluation after which a patience of `patience` is at its end, by the words of its documentation. */
static int ends_at(const double *loss, int n, int patience, double threshold)
{
    double best = INFINITY;
    int failed = 0;
    for (int i = 0; i < n; i++) {
        bool better = loss[i] < best - threshold;
        failed = better ? 0 : failed + 1;
        best = fmin(best, loss[i]);
        if (failed >= patience)
            return i;
    }
    return n;
}

static void assert_same(const char *a, const char *b)
{
    json_t *x = read_log(a), *y = read_log(b);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    assert_true(same_bytes(join(a, "model.safetensors"), join(b, "model.safetensors")));
}

#define STOPPING(patience)                                                                                             \
    "--learning-rate", "2", "--load-best-model-at-end", "true", "--early-stopping-patience", patience

static void a_run_stops_early_with_the_best(void **state)
{
    (void)state;
    double loss[32], all[32];
    int64_t step[32], steps[32];
    const char *whole = train("whole", ARGS("--learning-rate", "2"), NULL);
    int n_all = losses(whole, all, steps), end = ends_at(all, n_all, 3, 0);
    assert_int_equal(n_all, 12);
    assert_true(end < n_all - 1); /* the test tests something */
    const char *out = train("early", ARGS(STOPPING("3")), NULL);
    int n = losses(out, loss, step);
    assert_int_equal(n, end + 1);
    assert_memory_equal(loss, all, (size_t)n * sizeof *loss);
    char line[128];
    snprintf(line, sizeof line, "stopped early, after step %lld: no better loss than ", (long long)step[n - 1]);
    assert_non_null(strstr(notes, line));
    assert_non_null(strstr(notes, " in 3 evaluations"));
    assert_non_null(strstr(notes, "loaded the best model"));

    /* from a checkpoint on the way: the same; from its end: there is nothing left to do */
    const char *from = join(out, "step-00000004"), *resumed = join(folder, "resumed");
    train("resumed", ARGS(STOPPING("3")), ARGS("--resume-from-checkpoint", from));
    assert_int_equal(losses(resumed, loss, step), n - 2);
    assert_true(same_bytes(join(out, "model.safetensors"), join(resumed, "model.safetensors")));
    struct snug_summary again = train_to_the_end(
        LISTS(ARGS(COMMON, "--output-dir", out), ARGS(STOPPING("3")), ARGS("--resume-from-checkpoint", "true")));
    assert_int_equal(again.steps, 0);
    assert_true(same_bytes(join(out, "model.safetensors"), join(resumed, "model.safetensors")));
    /* with more patience it goes on, to what it had been with that from the start */
    train("early", ARGS(STOPPING("5")), ARGS("--resume-from-checkpoint", "true"));
    const char *patient = train("patient", ARGS(STOPPING("5")), NULL);
    assert_same(out, patient);
    remove_tree(whole);
    remove_tree(out);
    remove_tree(resumed);
    remove_tree(patient);
}

/* patience=0, factor=0.5: after each evaluation that is not better than all before by a share of 1e-4, half the rate. */
static void the_rate_falls_on_a_plateau(void **state)
{
    (void)state;
#define PLATEAU                                                                                                        \
    "--learning-rate", "2", "--lr-scheduler-type", "reduce_lr_on_plateau", "--lr-scheduler-kwargs",                    \
        "patience=0,factor=0.5", "--hidden-dropout-prob", "0.1"
    const char *out = train("plateau", ARGS(PLATEAU), NULL), *from = join(out, "step-00000012");
    json_t *log = read_log(out), *line;
    double rate = 2, best = INFINITY;
    size_t i;
    json_array_foreach(log, i, line)
    {
        json_t *loss = json_object_get(line, "eval_loss");
        if (!loss)
            assert_true(json_number_value(json_object_get(line, "learning_rate")) == rate);
        else if (json_number_value(loss) < best * (1 - 1e-4))
            best = json_number_value(loss);
        else
            rate /= 2;
    }
    assert_true(rate < 0.5);
    json_decref(log);
    struct snug_err err;
    struct snug_summary summary;
    const char *resumed = train("resumed", ARGS(PLATEAU), ARGS("--resume-from-checkpoint", from));
    assert_true(same_bytes(join(out, "model.safetensors"), join(resumed, "model.safetensors")));
    remove_tree(resumed);
    /* stopped between two evaluations */
    int code = train_here(LISTS(ARGS(COMMON, "--output-dir", resumed), ARGS(PLATEAU)), 9, &summary, &err);
    assert_int_equal(code, SNUG_STOPPED);
    train("resumed", ARGS(PLATEAU), ARGS("--resume-from-checkpoint", "true"));
    assert_same(out, resumed);
    remove_tree(out);
    remove_tree(resumed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_stops_early_with_the_best),
        cmocka_unit_test(the_rate_falls_on_a_plateau),
    };
    return cmocka_run_group_tests_name("stopping", tests, open_folder, close_folder);
}
