/* A run that is stopped at any step, killed at any moment or asked to stop in any phase, and resumed, ends in the same
 * bits as the run that was left alone. That is said of weights, states (the log has their hash) and every line of the
 * log. */
#include "here.h"

#include "base/philox.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* On each of the three devices. */
enum { STOPS = SANITIZED ? 10 : 100, KILLS = SANITIZED ? 5 : 100, SIGNALS = SANITIZED ? 4 : 15 };

static const char *rows, *other_rows, *many_rows, *texts, *other_texts;
static uint32_t seed, drawn; /* SNUG_TEST_SEED, or the clock */

static double chance(void)
{
    struct philox r = philox4x32((struct philox){{drawn++, 0, 0, 0}}, seed, 0);
    return r.w[0] * 0x1p-32;
}

static int64_t dice(int64_t from, int64_t to)
{
    return from + (int64_t)(chance() * (double)(to - from + 1));
}

/* ---- Runs, different in what their results depend on and in how they log, evaluate and save. */

struct workload {
    const char *args[64]; /* --option, value, … NULL */
    size_t n;
};
static struct workload workloads[6];
enum { N_WORKLOADS = sizeof workloads / sizeof *workloads };

static void add(struct workload *w, const char *const *args)
{
    for (; *args; args++)
        w->args[w->n++] = *args;
    w->args[w->n] = NULL;
    assert_true(w->n < sizeof w->args / sizeof *w->args);
}

static void make_workloads(void)
{
    const char *bert = fixture("golden/trainer/init"), *gpt2 = fixture("golden/gpt2");
    for (int i = 0; i < N_WORKLOADS; i++)
        add(&workloads[i], ARGS("--hidden-dropout-prob", "0.1", "--attention-probs-dropout-prob", "0.1",
                                "--learning-rate", "1e-3", "--log-hash", "true"));
    add(&workloads[0],
        ARGS("--model", bert, "--train-data", rows, "--eval-data", other_rows, "--batch-size", "4",
             "--num-train-epochs", "2", "--logging-steps", "1", "--eval-strategy", "steps", "--eval-steps", "5",
             "--save-steps", "1", "--save-total-limit", "2", "--weight-decay", "0.1"));
    add(&workloads[1], ARGS("--model", bert, "--train-data", rows, "--eval-data", other_rows, "--batch-size", "2",
                            "--gradient-accumulation-steps", "3", "--num-train-epochs", "3", "--logging-steps", "4",
                            "--lr-scheduler-type", "cosine", "--warmup-steps", "3", "--max-grad-norm", "0.05",
                            "--label-smoothing-factor", "0.1", "--save-strategy", "no"));
    add(&workloads[2], ARGS("--model", bert, "--train-data", rows, "--eval-data", other_rows, "--batch-size", "5",
                            "--num-train-epochs", "4", "--optim", "sgd", "--optim-args", "momentum=0.9",
                            "--gradient-checkpointing", "true", "--logging-strategy", "epoch", "--eval-strategy",
                            "epoch", "--save-strategy", "epoch", "--load-best-model-at-end", "true"));
    add(&workloads[3], ARGS("--model", gpt2, "--train-data", texts, "--eval-data", other_texts, "--batch-size", "3",
                            "--num-train-epochs", "1", "--train-sampling-strategy", "group_by_length",
                            "--max-grad-norm", "0", "--logging-steps", "3", "--eval-strategy", "steps", "--eval-steps",
                            "4", "--eval-on-start", "true", "--save-steps", "5"));
    add(&workloads[4], ARGS("--model", bert, "--train-data", rows, "--batch-size", "4", "--num-train-epochs", "2",
                            "--logging-steps", "1", "--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=100",
                            "--weight-decay", "0.1", "--save-steps", "3"));
    add(&workloads[5], ARGS("--model", bert, "--train-data", rows, "--batch-size", "4", "--num-train-epochs", "4",
                            "--logging-steps", "1", "--optim", "adafactor", "--optim-args", "beta1=0.9",
                            "--gradient-accumulation-steps", "2", "--save-steps", "3"));
}

static void assert_same_result(const char *oracle, const char *out)
{
    json_t *x = read_log(oracle), *y = read_log(out);
    for (size_t i = 0; i < json_array_size(x) && i < json_array_size(y); i++)
        if (!json_equal(json_array_get(x, i), json_array_get(y, i)))
            fail_msg("seed %u: line %zu of %s:\n%s\nleft alone:\n%s", seed, i + 1, out,
                     json_dumps(json_array_get(y, i), 0), json_dumps(json_array_get(x, i), 0));
    if (json_array_size(x) != json_array_size(y))
        fail_msg("seed %u: %s: %zu lines in the log, left alone %zu", seed, out, json_array_size(y),
                 json_array_size(x));
    json_decref(x);
    json_decref(y);
    if (!same_bytes(join(oracle, "model.safetensors"), join(out, "model.safetensors")))
        fail_msg("seed %u: %s: other weights", seed, out);
}

static int64_t last_step(const char *out)
{
    json_t *log = read_log(out);
    int64_t step = json_integer_value(json_object_get(json_array_get(log, json_array_size(log) - 1), "step"));
    json_decref(log);
    return step;
}

/* ---- Stopped at a step, through the library. */

/* Gives the code. */
static int run_here(const struct workload *w, const struct device *on, const char *out, bool resume, int64_t stop_at)
{
    struct snug_summary summary;
    struct snug_err err;
    const char *const *where = ARGS("--device", on->name, "--dtype", on->dtype, "--output-dir", out, "--threads", "1");
    int code = train_here(LISTS(w->args, where, resume ? ARGS("--resume-from-checkpoint", "auto") : NULL), stop_at,
                          &summary, &err);
    if (code && code != SNUG_STOPPED)
        fail_msg("seed %u: %s: %s", seed, out, err.text);
    return code;
}

static void stopped_at_any_step(void **state)
{
    (void)state;
    const char *oracle = join(folder, "alone"), *out = join(folder, "stopped");
    for (int d = 0; d < n_devices(); d++)
        for (int k = 0; k < N_WORKLOADS; k++) {
            const struct workload *w = &workloads[k];
            assert_int_equal(run_here(w, device(d), oracle, false, NEVER), SNUG_OK);
            int64_t steps = last_step(oracle);
            assert_true(steps >= 12);
            for (int i = 0; i < loops(STOPS / N_WORKLOADS); i++) {
                int64_t first = dice(1, steps), second = dice(first, steps); /* the same step: stops once */
                assert_int_equal(run_here(w, device(d), out, false, first), SNUG_STOPPED);
                if (second > first)
                    assert_int_equal(run_here(w, device(d), out, true, second), SNUG_STOPPED);
                assert_int_equal(run_here(w, device(d), out, true, NEVER), SNUG_OK);
                assert_same_result(oracle, out);
                remove_tree(out);
            }
            remove_tree(oracle);
        }
}

/* ---- Killed, and asked to stop, from outside. */

static void sleep_seconds(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

/* The last N of "checkpoint of step N complete" (or of "resumed step N"), 0 if there is none. */
static int64_t reported(const char *before, const char *behind)
{
    size_t n;
    long long step = 0, last = 0;
    char *text = read_text(said(), &n);
    for (char *at = text; (at = strstr(at, before)); at++)
        if (sscanf(at + strlen(before), "%lld", &step) == 1 &&
            !strncmp(at + strlen(before) + strspn(at + strlen(before), "0123456789"), behind, strlen(behind)))
            last = step;
    free(text);
    return last;
}

/* What a finished run may leave in its folder. */
static void assert_nothing_left_behind(const char *out)
{
    DIR *dir = opendir(out);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        static const char *const known[] = {".",
                                            "..",
                                            "config.json",
                                            "model.safetensors",
                                            "log.jsonl",
                                            "latest",
                                            "training_args.json",
                                            "README.md",
                                            "report.html",
                                            "last_evaluation.json",
                                            "environment.json"};
        bool ours = !strncmp(e->d_name, "step-", 5);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            ours |= !strcmp(e->d_name, known[i]);
        if (!ours)
            fail_msg("seed %u: %s/%s was left behind", seed, out, e->d_name);
    }
    closedir(dir);
}

static const char *const *on_device(const struct device *on)
{
    static const char *args[5];
    args[0] = "--device", args[1] = on->name, args[2] = "--dtype", args[3] = on->dtype;
    return args;
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    const char *oracle = join(folder, "alone"), *out = join(folder, "killed");
    for (int d = 0; d < n_devices(); d++) {
        struct workload w = workloads[0];
        add(&w, on_device(device(d)));
        double start = seconds_now();
        expect_snug(0, said(), ARGS("train", "--output-dir", oracle, "--threads", "1"), w.args);
        double whole = seconds_now() - start;
        int64_t saved = 0;
        int kills = 0, finished = 0;
        while (kills < loops(KILLS) || saved) {
            const char *threads = dice(0, 3) ? "1" : "2";
            pid_t pid = start_snug(
                said(), ARGS("train", "--output-dir", out, "--threads", threads, "--resume-from-checkpoint", "auto"),
                w.args);
            if (kills < loops(KILLS)) {
                sleep_seconds(chance() * whole);
                kill(pid, SIGKILL);
            }
            int status = end_of(pid);
            int64_t resumed = reported("resumed step ", " "), now = reported("checkpoint of step ", " complete");
            if (resumed && resumed < saved)
                fail_msg("seed %u: resumed step %lld, but step %lld was reported complete", seed, (long long)resumed,
                         (long long)saved);
            saved = now > saved ? now : saved;
            kills += status == 128 + SIGKILL;
            if (status == 128 + SIGKILL)
                continue;
            if (status != 0) {
                size_t n;
                fail_msg("seed %u: after %d kills exit %d: %s", seed, kills, status, read_text(said(), &n));
            }
            assert_same_result(oracle, out);
            assert_nothing_left_behind(out);
            remove_tree(out);
            finished++;
            saved = 0;
        }
        print_message("%s %s: %d kills, %d runs finished and equal, seed %u\n", device(d)->name, device(d)->dtype,
                      kills, finished, seed);
        remove_tree(out);
        remove_tree(oracle);
    }
}

/* Long enough that a signal lands in the phase that is meant: while rows are read, in a step of many micro-batches, in
 * the evaluation of many rows; or anywhere. */
static void asked_to_stop_in_any_phase(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    const char *oracle = join(folder, "alone"), *out = join(folder, "asked");
    for (int d = 0; d < n_devices(); d++)
        for (int phase = 0; phase < 3; phase++) {
            struct workload w = {0};
            add(&w, ARGS("train", "--model", fixture("golden/trainer/init"), "--hidden-dropout-prob", "0.1",
                         "--log-hash", "--logging-steps", "1", "--threads", "1", "--output-dir", out, "--max-steps"));
            if (phase == 0)
                add(&w, ARGS("8", "--train-data", rows));
            if (phase == 1)
                add(&w,
                    ARGS("3", "--train-data", many_rows, "--batch-size", "1", "--gradient-accumulation-steps", "600"));
            if (phase == 2)
                add(&w, ARGS("6", "--train-data", rows, "--eval-data", many_rows, "--eval-strategy", "steps",
                             "--eval-steps", "2"));
            add(&w, on_device(device(d)));
            double start = seconds_now();
            expect_snug(0, said(), w.args, NULL);
            double whole = seconds_now() - start;
            remove_tree(oracle);
            assert_int_equal(rename(out, oracle), 0);
            int stopped = 0;
            for (int i = 0; i < loops(SIGNALS / 3); i++) {
                int signal = signals[dice(0, 3)];
                pid_t pid = start_snug(said(), w.args, NULL);
                sleep_seconds(chance() * whole);
                kill(pid, signal);
                int status = end_of(pid);
                /* before its handlers are there, and when they are gone again, the signal kills it as any program */
                bool untouched = status == 128 + signal && !file_has(said(), "\nmemory ");
                if (status != SNUG_STOPPED && status != 0 && status != 128 + signal) {
                    size_t n;
                    fail_msg("seed %u: signal %d: exit %d: %s", seed, signal, status, read_text(said(), &n));
                }
                bool nothing = untouched || file_has(said(), "nothing to save");
                if (nothing && !access(out, F_OK)) {
                    size_t n;
                    fail_msg("seed %u: signal %d: exit %d, and %s is there: %s", seed, signal, status, out,
                             read_text(said(), &n));
                }
                stopped += status == SNUG_STOPPED;
                if (status)
                    expect_snug(0, said(), w.args, ARGS("--resume-from-checkpoint", "auto"));
                assert_same_result(oracle, out);
                remove_tree(out);
            }
            print_message("%s %s, phase %d: %d stopped cleanly, seed %u\n", device(d)->name, device(d)->dtype, phase,
                          stopped, seed);
        }
}

/* A file that takes long to tokenize, on the host: the end comes soon, with neither output folder nor cache file. */
static void asked_to_stop_while_tokenizing(void **state)
{
    (void)state;
    const char *model = make_deeper(folder, "golden/bert", 1), *data = join(folder, "long.csv");
    const char *out = join(folder, "asked"), *cache = join(folder, "cache");
    FILE *f = fopen(join(model, "vocab.txt"), "w");
    assert_non_null(f);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n", f);
    fclose(f);
    f = fopen(data, "w");
    assert_non_null(f);
    fputs("text,label\n", f);
    for (int i = 0; i < 400000; i++)
        fprintf(f, "a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b a b,%d\n", i % 2);
    fclose(f);
    bool while_read = false;
    for (double wait = 0.01; wait < 60 && !while_read; wait *= 1.5) { /* until its handlers are there, and it reads */
        pid_t pid = start_snug(said(),
                               ARGS("train", "--model", model, "--init-from-config", "--train-data", data,
                                    "--output-dir", out, "--cache-dir", cache, "--threads", "1", "--device", "cpu"),
                               NULL);
        sleep_seconds(wait);
        kill(pid, SIGINT);
        int status = end_of(pid);
        while_read = file_has(said(), "long.csv: stopped by a signal while it was read");
        if (while_read) {
            assert_int_equal(status, SNUG_STOPPED);
            assert_int_not_equal(access(out, F_OK), 0);
            assert_true(access(cache, F_OK) != 0 || rmdir(cache) == 0);
        } else if (status != 128 + SIGINT)
            fail_msg("exit %d: %s", status, read_text(said(), &(size_t){0}));
    }
    assert_true(while_read);
}

static int set_up(void **state)
{
    open_folder(state);
    const char *given = getenv("SNUG_TEST_SEED");
    seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL) ^ (uint32_t)getpid();
    print_message("seed %u (SNUG_TEST_SEED sets it)\n", seed);
    rows = make_rows(folder, 29, 12, 1, true);
    other_rows = make_rows(folder, 14, 12, 2, true);
    many_rows = make_rows(folder, 4500, 12, 3, true);
    texts = make_rows(folder, 40, 12, 4, false);
    other_texts = make_rows(folder, 9, 12, 5, false);
    make_workloads();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_any_step),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(asked_to_stop_in_any_phase),
        cmocka_unit_test(asked_to_stop_while_tokenizing),
    };
    return cmocka_run_group_tests_name("resume", tests, set_up, close_folder);
}
