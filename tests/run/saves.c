/* Which steps of a run are saved, which of them is the best, and whether what a run says about it is so. In a process of
 * its own a run would take no longer, but here it can be asked to stop at any step. */
#include "command.h"

#include "snug/snug.h"
#include "train/checkpoint_internal.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

static char notes[1 << 14];
static snug_stop *stop;
static int64_t stop_at;

static void note(void *ctx, const char *line)
{
    (void)ctx;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", line);
}

static void watch(void *ctx, const struct snug_progress *p)
{
    (void)ctx;
    if (p->step == stop_at)
        snug_stop_ask(stop, SIGTERM);
}

/* 8 steps an epoch. With a rate at which the loss soon becomes worse than it was: the best is not the last. */
#define COMMON                                                                                                         \
    ARGS("--model", fixture("golden/trainer/init"), "--train-data", "synthetic:64x12", "--learning-rate", "5",         \
         "--device", "cpu", "--dtype", "fp32", "--threads", "1")
#define EVALUATED "--eval-data", "synthetic:32x12", "--eval-strategy", "steps"

static void set_options(snug_options *o, const char *const *args)
{
    struct snug_err err;
    for (; args && *args; args += 2)
        if (snug_options_set(o, args[0] + strlen("--"), args[1], &err))
            fail_msg("%s", err.text);
}

/* Asked to stop after step `at`, 0: not at all. */
static int train_until(int64_t at, const char *out, const char *const *first, const char *const *second,
                       struct snug_summary *summary, struct snug_err *err)
{
    snug_options *o;
    snug_session *s = NULL;
    notes[0] = 0;
    stop_at = at;
    assert_int_equal(snug_options_new("train", &o, err), SNUG_OK);
    assert_int_equal(snug_stop_new(&stop, err), SNUG_OK);
    set_options(o, COMMON);
    set_options(o, ARGS("--output-dir", out));
    set_options(o, first);
    set_options(o, second);
    struct snug_events events = {.note = note, .progress = watch, .stop = stop};
    int code = snug_open(o, SNUG_WHOLE_RUNS, &events, &s, err);
    if (!code)
        code = snug_train(s, summary, err);
    snug_close(s);
    snug_options_free(o);
    snug_stop_free(stop);
    return code;
}

static void train(const char *out, const char *const *first, const char *const *second)
{
    struct snug_summary summary;
    struct snug_err err;
    if (train_until(0, out, first, second, &summary, &err))
        fail_msg("%s: %s", out, err.text);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_one_that_is_saved),
        cmocka_unit_test(the_best_is_in_the_folder),
        cmocka_unit_test(the_best_is_by_one_metric),
        cmocka_unit_test(the_last_step_is_saved),
    };
    return cmocka_run_group_tests_name("saves", tests, open_folder, close_folder);
}
