/* --allow-option-change: what may change is said and recorded, each row of an epoch is still seen once, and the changed run
 * can be stopped and resumed like any other. */
#include "few_rows.h"
#include "here.h"

#include <math.h>

/* 29 rows, 3 epochs. */
#define RUN                                                                                                            \
    "--model", fixture("golden/trainer/init"), "--train-data", rows, "--hidden-dropout-prob", "0.1", "--log-hash",     \
        "true", "--logging-steps", "1", "--threads", "1", "--device", "cpu", "--num-train-epochs", "3"

static const char *out;

static int train_until(int64_t at, const char *const *more, const char *const *still, struct snug_err *err)
{
    struct snug_summary summary;
    return train_here(LISTS(ARGS(RUN, "--output-dir", out), more, still), at, &summary, err);
}

static json_t *state_of(int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "step-%08lld/state.json", (long long)step);
    json_t *doc = json_load_file(join(out, name), 0, NULL);
    assert_non_null(doc);
    return doc;
}

static int64_t samples_at(int64_t step)
{
    json_t *doc = state_of(step);
    int64_t samples = json_integer_value(json_object_get(json_object_get(doc, "run"), "samples"));
    json_decref(doc);
    return samples;
}

#define CHANGED                                                                                                        \
    "--batch-size", "3", "--gradient-accumulation-steps", "2", "--learning-rate", "1e-4", "--save-steps", "5",         \
        "--allow-option-change", "true", "--resume-from-checkpoint", "true"

/* 4 rows a step: 8 steps an epoch. After step 11 12 rows of the second epoch are done; the other 17 are 3 steps of 6, and
 * the third epoch 5. */
static void batch_and_rate(void **state)
{
    (void)state;
    struct snug_err err;
    assert_int_equal(train_until(11, ARGS("--batch-size", "4"), NULL, &err), SNUG_STOPPED);
    assert_int_equal(samples_at(11), 29 + 12);
    if (train_until(NEVER, ARGS(CHANGED), NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(samples_at(19), 3 * 29);
    static const char *const said_so[] = {"from step 11 on: --per-device-train-batch-size: 4 -> 3\n",
                                          "from step 11 on: --gradient-accumulation-steps: 1 -> 2\n",
                                          "from step 11 on: --learning-rate: 5e-05 -> 0.0001\n",
                                          "from step 11 on: --save-steps: 500 -> 5\n"};
    for (int i = 0; i < 4; i++)
        if (!strstr(notes, said_so[i]))
            fail_msg("'%s' is not in '%s'", said_so[i], notes);

    json_t *log = read_log(out), *doc = state_of(19);
    json_t *line = json_array_get(log, 11), *changes = json_object_get(json_object_get(doc, "about"), "option_changes");
    /* linear, over the 19 steps of the whole run, with the new rate */
    assert_true(fabs(json_number_value(json_object_get(line, "learning_rate")) - 1e-4 * (19 - 11) / 19) < 1e-12);
    assert_true(fabs(json_number_value(json_object_get(line, "epoch")) - (1 + 12 / 29. + 17 / 29. / 3)) < 1e-9);
    assert_true(json_number_value(json_object_get(json_array_get(log, 18), "epoch")) == 3);
    assert_int_equal(json_array_size(log), 19);
    assert_int_equal(json_array_size(changes), 4);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(changes, 0), "from")), 4);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(changes, 0), "to")), 3);
    json_decref(doc);
    json_decref(log);
}

/* Steps of 8 rows before and after, but of 29 rows 28 are whole batches of 4: 4 steps an epoch. After step 6 16 rows of the second epoch are
 * done. Of the other 13 a batch of 8 is whole, and of the third epoch three. */
static void where_the_last_batch_is_dropped(void **state)
{
    (void)state;
    struct snug_err err;
    assert_int_equal(train_until(6, ARGS("--batch-size", "4", "--gradient-accumulation-steps", "2"),
                                 ARGS("--dataloader-drop-last", "true"), &err),
                     SNUG_STOPPED);
    assert_int_equal(samples_at(6), 28 + 16);
    if (train_until(NEVER, ARGS("--batch-size", "8", "--dataloader-drop-last", "true"),
                    ARGS("--allow-option-change", "true", "--resume-from-checkpoint", "true"), &err))
        fail_msg("%s", err.text);
    assert_int_equal(samples_at(10), 28 + 16 + 8 + 24);
    remove_tree(out);
}

/* The best model is that of a step before the change. Nothing is learnt, so the first evaluation is the best. */
static void the_best_is_from_before(void **state)
{
    (void)state;
    const char *before = out;
    const char *const *best = ARGS("--learning-rate", "0", "--eval-data", rows, "--eval-strategy", "epoch",
                                   "--save-strategy", "epoch", "--load-best-model-at-end", "true");
    struct snug_err err;
    out = join(folder, "best");
    assert_int_equal(train_until(11, ARGS("--batch-size", "4"), best, &err), SNUG_STOPPED);
    if (train_until(NEVER,
                    ARGS("--batch-size", "3", "--allow-option-change", "true", "--resume-from-checkpoint", "true"),
                    best, &err))
        fail_msg("%s", err.text);
    assert_non_null(strstr(notes, "loaded the best model, that of step 8 "));
    out = before;
}

/* With every order of the rows: stopped behind the change and resumed with what it has by now, it is the same run. */
static void the_same_run_behind_the_change(void **state)
{
    (void)state;
    static const char *const orders[] = {"random", "sequential", "group_by_length"};
    const char *alone = join(folder, "alone");
    struct snug_err err;
    for (int i = 0; i < 3; i++) {
        const char *const *order = ARGS("--train-sampling-strategy", orders[i]);
        static const int64_t stops[] = {0, 12, 14, 18};
        for (int k = 0; k < 4; k++) {
            int64_t stop = stops[k];
            remove_tree(out);
            assert_int_equal(train_until(11, ARGS("--batch-size", "4"), order, &err), SNUG_STOPPED);
            if (stop)
                assert_int_equal(train_until(stop, ARGS(CHANGED), order, &err), SNUG_STOPPED);
            const char *const *now = ARGS("--batch-size", "3", "--gradient-accumulation-steps", "2", "--learning-rate",
                                          "1e-4", "--save-steps", "5", "--resume-from-checkpoint", "true");
            if (train_until(NEVER, stop ? now : ARGS(CHANGED), order, &err))
                fail_msg("%s, stopped at %lld: %s", orders[i], (long long)stop, err.text);
            assert_int_equal(samples_at(19), 3 * 29);
            if (!stop) {
                assert_int_equal(rename(out, alone), 0);
                continue;
            }
            json_t *x = read_log(alone), *y = read_log(out);
            assert_true(json_equal(x, y));
            json_decref(x);
            json_decref(y);
            assert_true(same_bytes(join(alone, "model.safetensors"), join(out, "model.safetensors")));
        }
        remove_tree(alone);
    }
}

/* All else is refused as without it, and without it these are. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const others[][2] = {{"--seed", "1"},
                                            {"--weight-decay", "0.5"},
                                            {"--warmup-steps", "3"},
                                            {"--lr-scheduler-type", "constant"},
                                            {"--max-grad-norm", "2"},
                                            {"--optim", "sgd"},
                                            {"--dataloader-drop-last", "true"}};
    struct snug_err err;
    remove_tree(out);
    assert_int_equal(train_until(11, ARGS("--batch-size", "4"), NULL, &err), SNUG_STOPPED);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(train_until(NEVER, ARGS(CHANGED), ARGS(others[i][0], others[i][1]), &err),
                         SNUG_ERR_CHECKPOINT);
        assert_non_null(strstr(err.text, others[i][0]));
    }
    assert_int_equal(train_until(NEVER, ARGS("--batch-size", "3", "--resume-from-checkpoint", "true"), NULL, &err),
                     SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "--per-device-train-batch-size: 4 -> 3"));
}

static int set_up(void **state)
{
    open_few_rows(state);
    out = join(folder, "out");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_the_last_batch_is_dropped),
        cmocka_unit_test(batch_and_rate),
        cmocka_unit_test(the_best_is_from_before),
        cmocka_unit_test(the_same_run_behind_the_change),
        cmocka_unit_test(the_rest_is_refused),
    };
    return cmocka_run_group_tests_name("option_change", tests, set_up, close_folder);
}
