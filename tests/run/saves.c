/* Which steps of a run are saved, which of them is the best, and whether what a run says about it is so. In a process of
 * its own a run would take no longer, but here it can be asked to stop at any step. */
#include "here.h"

#include "checkpoint/internal.h"
#include "train/train.h"

#include <math.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

/* 8 steps an epoch. With a rate at which the loss soon becomes worse than it was: the best is not the last. */
#define COMMON                                                                                                         \
    "--model", fixture("golden/trainer/init"), "--train-data", "synthetic:64x12", "--learning-rate", "5", "--device",  \
        "cpu", "--dtype", "fp32", "--threads", "1"
#define EVALUATED "--eval-data", "synthetic:32x12", "--eval-strategy", "steps"

/* Asked to stop after step `at`. */
static int train_until(int64_t at, const char *out, const char *const *first, const char *const *second,
                       struct snug_summary *summary, struct snug_err *err)
{
    return train_here(LISTS(ARGS(COMMON, "--output-dir", out), first, second), at, summary, err);
}

static void train(const char *out, const char *const *first, const char *const *second)
{
    train_to_the_end(LISTS(ARGS(COMMON, "--output-dir", out), first, second));
}

static bool has_step(const char *out, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "step-%08lld", (long long)step);
    return !access(join(out, name), F_OK);
}

static double evaluated(const char *out, int64_t step, const char *metric)
{
    double value = NAN;
    json_t *log = read_log(out), *line;
    size_t i;
    json_array_foreach(log, i, line)
    {
        json_t *x = json_object_get(line, metric);
        if (x && json_integer_value(json_object_get(line, "step")) == step)
            value = json_number_value(x);
    }
    json_decref(log);
    return value;
}

/* The one with the smallest metric, or the greatest, of those steps in the folder from `from` on. */
static int64_t best_saved(const char *out, const char *metric, bool greatest, int64_t from, int64_t last)
{
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t step = from; step <= last; step++) {
        double x = evaluated(out, step, metric) * (greatest ? -1 : 1);
        if (has_step(out, step) && x < least) {
            least = x;
            best = step;
        }
    }
    assert_true(best >= 0);
    return best;
}

static void assert_result_is(const char *out, int64_t step, int64_t last)
{
    char line[64];
    snprintf(line, sizeof line, "loaded the best model, that of step %lld ", (long long)step);
    assert_true(step == last ? !strstr(notes, "loaded the best") : !!strstr(notes, line));
    assert_int_equal(access(join(out, "model.safetensors"), F_OK), 0);
}

/* ---- The best. */

#define BEST "--load-best-model-at-end", "true"

static void the_best_is_one_that_is_saved(void **state)
{
    (void)state;
    static const char *const cases[][6] = {/* --eval-steps, --save-steps, --max-steps, --eval-on-start, strategy */
                                           {"2", "2", "4", "true", "steps"},
                                           {"1", "4", "8", "false", "steps"},
                                           {"3", "3", "8", "true", "best"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *c = cases[i], *out = join(folder, "best");
        bool all = !strcmp(c[4], "best");
        int64_t last = strtoll(c[2], NULL, 10);
        train(out, ARGS(EVALUATED, BEST, "--eval-steps", c[0], "--max-steps", c[2], "--eval-on-start", c[3]),
              ARGS("--save-strategy", c[4], all ? NULL : "--save-steps", c[1]));
        if (i == 0) /* what would have been the best, could it be loaded */
            assert_true(evaluated(out, 0, "eval_loss") < evaluated(out, 2, "eval_loss"));
        if (i == 1)
            assert_true(evaluated(out, 1, "eval_loss") < evaluated(out, 4, "eval_loss"));
        assert_result_is(out, best_saved(out, "eval_loss", false, 1, last), last);
        remove_tree(out);
    }
}

/* A best whose checkpoint is in another folder, or is deleted, is none. */
static void the_best_is_in_the_folder(void **state)
{
    (void)state;
    const char *from = join(folder, "from"), *out = join(folder, "to");
    const char *const *run = ARGS(EVALUATED, BEST, "--eval-steps", "2", "--save-steps", "2");
    train(from, run, ARGS("--max-steps", "4"));
    assert_int_equal(best_saved(from, "eval_loss", false, 1, 4), 2);
    train(out, run, ARGS("--max-steps", "8", "--resume-from-checkpoint", from));
    assert_true(evaluated(from, 2, "eval_loss") <
                evaluated(out, best_saved(out, "eval_loss", false, 1, 8), "eval_loss"));
    assert_result_is(out, best_saved(out, "eval_loss", false, 1, 8), 8);
    train(from, run, ARGS("--max-steps", "8", "--resume-from-checkpoint", "true"));
    assert_result_is(from, 2, 8);
    remove_tree(join(from, "step-00000002"));
    train(from, run, ARGS("--max-steps", "10", "--resume-from-checkpoint", "true"));
    assert_result_is(from, best_saved(from, "eval_loss", false, 10, 10), 10);
    remove_tree(from);
    remove_tree(out);
}

/* The state of a checkpoint as an earlier version wrote it, which recorded no metric. */
static void forget_metric(const char *step)
{
    struct ckpt_manifest m;
    struct str text = {0};
    char hash[33];
    size_t n;
    const char *path = join(step, "state.json");
    assert_int_equal(ckpt_verify(&io_posix, step, true, &m, NULL), SNUG_OK);
    json_t *doc = json_load_file(path, 0, NULL);
    json_t *reports = json_object_get(json_object_get(doc, "about"), "reports");
    assert_int_equal(json_object_del(reports, "best_metric"), 0);
    assert_int_equal(json_object_del(reports, "best_is_greatest"), 0);
    assert_int_equal(json_dump_file(doc, path, 0), 0);
    json_decref(doc);
    char *bytes = read_text(path, &n);
    for (size_t i = 0; i < m.n_files; i++)
        if (!strcmp(m.files[i].name, "state.json")) {
            hash_hex(hash_bytes(bytes, n), hash);
            m.files[i].hash = hash;
            m.files[i].bytes = (int64_t)n;
        }
    assert_int_equal(ckpt_manifest_write(&m, &text, NULL), SNUG_OK);
    write_text(step, "MANIFEST.json", str_text(&text));
    free(bytes);
    str_free(&text);
    ckpt_manifest_free(&m);
}

static void the_best_is_by_one_metric(void **state)
{
    (void)state;
    const char *out = join(folder, "metric");
    const char *const *run = ARGS(EVALUATED, BEST, "--eval-steps", "2", "--save-steps", "2");
    const char *const metrics[][2] = {
        {"loss", "false"}, {"eval_loss", "false"}, {"accuracy", "true"}, {"loss", "true"}};
    for (int old = 0; old <= 1; old++)
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
            train(out, run, ARGS("--max-steps", "4"));
            assert_true(evaluated(out, 2, "eval_loss") < evaluated(out, 4, "eval_loss"));
            if (old)
                forget_metric(join(out, "step-00000004"));
            train(out, run,
                  ARGS("--max-steps", "12", "--resume-from-checkpoint", "true", "--metric-for-best-model",
                       metrics[i][0], "--greater-is-better", metrics[i][1]));
            int64_t best = 2; /* by the same metric: the one from before */
            if (i >= 2)       /* by another: of those since then */
                best = best_saved(out, i == 2 ? "eval_accuracy" : "eval_loss", true, 6, 12);
            assert_result_is(out, best, 12);
            remove_tree(out);
        }
}

/* ---- What is saved. */

/* As the Trainer does: on_epoch_end comes after the last step too. */
static void the_last_step_is_saved(void **state)
{
    (void)state;
    const char *out = join(folder, "last");
    const char *const ends[][2] = {{"--max-steps", "12"}, {"--num-train-epochs", "1.5"}};
    const char *const strategies[][4] = {{"--save-strategy", "epoch"},
                                         {"--save-strategy", "steps", "--save-steps", "8"}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            const char *const *w = strategies[k];
            train(out, ARGS(ends[i][0], ends[i][1], "--logging-steps", "1"), ARGS(w[0], w[1], w[2], w[3]));
            for (int64_t step = 1; step <= 12; step++)
                assert_int_equal(has_step(out, step), step == 8 || step == 12);
            remove_tree(out);
        }
}

/* Also by a run that saves nothing any more: one was killed between a save and the deletions after it, or the limit is new. */
static void too_many_go_at_the_end(void **state)
{
    (void)state;
    const char *out = join(folder, "limit");
    const char *const *run = ARGS("--max-steps", "10", "--save-steps", "2");
    train(out, run, NULL);
    for (int64_t step = 2; step <= 10; step += 2)
        assert_true(has_step(out, step));
    train(out, run, ARGS("--resume-from-checkpoint", "true", "--save-total-limit", "3"));
    for (int64_t step = 2; step <= 10; step += 2)
        assert_int_equal(has_step(out, step), step > 4);
    remove_tree(out);
}

/* ---- What is said. */

/* Stopped, and what the message tells to do is done: it must go on there, and end as the run that was left alone. */
static void assert_goes_on(int64_t at, int64_t step, const char *oracle, const char *out, const char *const *run,
                           const char *const *more)
{
    char line[256];
    struct snug_summary summary;
    struct snug_err err;
    assert_int_equal(train_until(at, out, run, more, &summary, &err), SNUG_STOPPED);
    snprintf(line, sizeof line,
             "stopped by a signal after step %lld, which is saved; go on with --resume-from-checkpoint %s",
             (long long)step, out);
    assert_string_equal(err.text, line);
    assert_true(has_step(out, step));
    train(out, run, ARGS("--resume-from-checkpoint", out));
    snprintf(line, sizeof line, "resumed step %lld ", (long long)step);
    assert_non_null(strstr(notes, line));
    assert_true(same_bytes(join(oracle, "model.safetensors"), join(out, "model.safetensors")));
    remove_tree(out);
}

static void a_stopped_run_goes_on_as_it_says(void **state)
{
    (void)state;
    const char *oracle = join(folder, "alone"), *from = join(folder, "from"), *out = join(folder, "stopped");
    const char *const *run = ARGS(EVALUATED, "--eval-steps", "4", "--save-steps", "2", "--max-steps", "8");
    const char *const *weights =
        ARGS(EVALUATED, "--eval-steps", "4", "--save-steps", "2", "--max-steps", "8", "--save-only-model", "true");
    struct snug_summary summary;
    struct snug_err err;
    train(oracle, run, NULL);
    assert_goes_on(4, 4, oracle, out, weights, NULL); /* where weights are saved, and where nothing is */
    assert_goes_on(5, 5, oracle, out, weights, NULL);
    /* in the evaluation that was cut short in another folder; where there was none, before the first step */
    for (int64_t step = 4; step <= 5; step++) {
        assert_int_equal(train_until(step, from, run, NULL, &summary, &err), SNUG_STOPPED);
        assert_goes_on(AT_START, step, oracle, out, run, ARGS("--resume-from-checkpoint", from));
        assert_goes_on(AT_START, step, oracle, from, run, ARGS("--resume-from-checkpoint", from));
    }
    remove_tree(oracle);
}

static void a_model_that_is_not_there_is_not_named(void **state)
{
    (void)state;
    const char *out = join(folder, "further"), *named = ", a Hugging Face folder";
    struct snug_summary summary;
    struct snug_err err;
    assert_int_equal(train_until(6, out, ARGS("--max-steps", "8"), NULL, &summary, &err), SNUG_STOPPED);
    for (int i = 0; i < 2; i++) {
        bool whole = i == 1;
        expect_snug(0, said(), ARGS("train", COMMON),
                    ARGS("--output-dir", out, "--resume-from-checkpoint", "true", "--max-steps", whole ? "6" : "4"));
        assert_true(file_has(said(), "already complete at step 6"));
        assert_int_equal(file_has(said(), named), whole);
        assert_int_equal(!access(join(out, "model.safetensors"), F_OK), whole);
    }
    remove_tree(out);
}

/* ---- Room. */

static int no_room(const struct io *io, const char *path, struct statfs *st)
{
    (void)io;
    int r = statfs(path, st);
    st->f_bavail = 0;
    return r;
}

/* How many checkpoints a run asks the disk for before it starts. */
static int64_t asked_for(const char *out, const char *const *args)
{
    struct io full = io_posix;
    struct options o;
    struct session s;
    struct snug_summary summary;
    struct snug_err err = {0};
    long long n = 0;
    full.statfs = no_room;
    options_init(&o, CMD_TRAIN);
    const char *const *lists[] = {ARGS(COMMON), ARGS("--output-dir", out), args};
    for (int i = 0; i < 3; i++)
        for (const char *const *a = lists[i]; *a; a += 2)
            assert_int_equal(options_set(&o, a[0] + strlen("--"), a[1], &err), SNUG_OK);
    assert_int_equal(options_check(&o, &err), SNUG_OK);
    assert_int_equal(session_open(&s, &full, &o, false, (struct session_events){0}, NULL, &err), SNUG_OK);
    assert_int_equal(train_run(&s, (struct train_events){0}, &summary, &err), SNUG_ERR_IO);
    const char *what = strncmp(err.text, out, strlen(out)) ? "" : err.text + strlen(out);
    if (sscanf(what, ": %lld checkpoints of", &n) != 1 && strncmp(what, ": the model in the end needs ", 29))
        fail_msg("%s", err.text);
    session_close(&s);
    options_free(&o);
    return n;
}

#define TWELVE "--max-steps", "12"
#define SIX TWELVE, "--save-steps", "2"

static void there_is_room_for_what_is_kept(void **state)
{
    (void)state;
    const char *out = join(folder, "room"), *other = join(folder, "roomy");
    struct snug_summary summary;
    struct snug_err err;
    assert_int_equal(asked_for(out, ARGS(SIX)), 6);
    assert_int_equal(asked_for(out, ARGS(TWELVE, "--save-steps", "5")), 3);
    assert_int_equal(asked_for(out, ARGS(TWELVE, "--save-steps", "500")), 1);
    assert_int_equal(asked_for(out, ARGS(TWELVE, "--save-strategy", "epoch")), 2);
    assert_int_equal(asked_for(out, ARGS(TWELVE, "--save-strategy", "no")), 0); /* for the model alone */
    assert_int_equal(asked_for(out, ARGS(SIX, "--save-total-limit", "1")), 3);  /* two are kept */
    assert_int_equal(asked_for(out, ARGS(SIX, "--save-total-limit", "3")), 4);
    assert_int_equal(asked_for(out, ARGS(SIX, "--save-total-limit", "100")), 6);
    const char *const *best = ARGS(SIX, EVALUATED, "--eval-steps", "2", "--save-total-limit", "2");
    assert_int_equal(asked_for(out, best), 4); /* with the best */
    assert_int_equal(asked_for(out, ARGS(TWELVE, EVALUATED, "--eval-steps", "2", "--save-strategy", "best")), 3);
    assert_int_equal(train_until(4, out, ARGS(SIX), NULL, &summary, &err), SNUG_STOPPED);
    assert_int_equal(asked_for(out, ARGS(SIX, "--resume-from-checkpoint", "true")), 4);
    assert_int_equal(asked_for(other, ARGS(SIX, "--resume-from-checkpoint", out)), 4);
    /* that many there are, when the last is written; nothing is learned, and the first evaluation stays the best */
    train(other, best, ARGS("--learning-rate", "0"));
    assert_non_null(strstr(notes, "step-00000008: deleted, the newest 2 are kept"));
    assert_true(has_step(other, 2) && has_step(other, 10) && has_step(other, 12));
    remove_tree(out);
    remove_tree(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_one_that_is_saved),
        cmocka_unit_test(the_best_is_in_the_folder),
        cmocka_unit_test(the_best_is_by_one_metric),
        cmocka_unit_test(the_last_step_is_saved),
        cmocka_unit_test(too_many_go_at_the_end),
        cmocka_unit_test(a_stopped_run_goes_on_as_it_says),
        cmocka_unit_test(a_model_that_is_not_there_is_not_named),
        cmocka_unit_test(there_is_room_for_what_is_kept),
    };
    return cmocka_run_group_tests_name("saves", tests, open_folder, close_folder);
}
