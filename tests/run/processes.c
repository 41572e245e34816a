/* Runs of several processes are as those of as many threads, to the last bit; they agree before they begin, and stop together. */
#include "processes.h"

static void processes_are_as_threads(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++)
        for (int n = 2; n <= most_processes(device(d)); n++) {
            const char *const *args = ARGS(
                MODEL, DROPOUT, "--logging-steps", "1", "--max-steps", is_host(device(d)) ? "5" : "2", "--batch-size",
                n == 2 ? "5" : "2", "--gradient-accumulation-steps", n == 3 ? "2" : "1", "--eval-data", other_rows,
                "--eval-strategy", "steps", "--eval-steps", "2", "--per-device-eval-batch-size", "3", "--save-steps",
                "2", "--load-best-model-at-end", "--zero-stage", is_host(device(d)) ? "0" : "1");
            const char *threads = train("threads", device(d), args, ranks(device(d), n, ARGS(NULL)));
            const char *out = join(folder, "processes");
            struct processes_run r = start_processes(n, run_of(device(d), out, args));
            assert_ends(&r, 0);
            assert_same_run(threads, out);
        }
}

/* At a stage each has states of its own, at stage 2 gradients, at stage 3 weights: logs with hashes, checkpoints and results are those of
 * all states in one memory, and a run goes on from them, where others are whose. */
static void processes_have_stages(void **state)
{
    (void)state;
    static const char *const stages[] = {"1", "2", "3"};
    for (int d = 0; d < n_devices(); d++)
        for (int n = 2; n <= most_processes(device(d)); n++) {
            const char *stage = stages[(n + d) % 3];
            const char *const *args =
                ARGS(MODEL, DROPOUT, "--logging-steps", "2", "--max-steps", "6", "--batch-size", n == 2 ? "5" : "2",
                     "--gradient-accumulation-steps", n == 3 ? "2" : "1", "--save-steps", "3", "--optim",
                     n == 4 ? "muon" : "adamw_torch", "--offload-optimizer", n == 3 ? "cpu" : "none", "--eval-data",
                     other_rows, "--eval-strategy", "steps", "--eval-steps", "3", "--load-best-model-at-end",
                     "--per-device-eval-batch-size", "3", "--zero-stage", stage);
            const char *threads = train("threads", device(d), args, ranks(device(d), n, ARGS(NULL)));
            const char *out = join(folder, "processes");
            struct processes_run r = start_processes(n, run_of(device(d), out, args));
            assert_ends(&r, 0);
            assert_same_run(threads, out);
            const char *saved = "step-00000003/rank-0000.safetensors", *again = join(folder, "again");
            assert_true(same_bytes(join(threads, saved), join(out, saved)));
            static const char *more[64];
            size_t k = 0;
            for (const char *const *a = args; *a; a++)
                more[k++] = *a;
            more[k++] = "--resume-from-checkpoint";
            more[k++] = join(out, "step-00000003");
            more[k] = NULL;
            r = start_processes(n, run_of(device(d), again, more));
            assert_ends(&r, 0);
            assert_true(same_bytes(join(out, "model.safetensors"), join(again, "model.safetensors")));
        }
}

/* At stage 3 each reads of the base what is its own, and the first one collects what is trained; a vector has its first lengths from a
 * matrix of another process. */
static void processes_have_parts_of_the_base(void **state)
{
    (void)state;
    const struct device *on = device(n_devices() - 1);
    int n = most_processes(on) < 3 ? most_processes(on) : 3;
    for (int only = 0; only < 2; only++) {
        const char *const *args =
            ARGS(MODEL, "--logging-steps", "1", "--max-steps", "3", "--batch-size", "5", "--use-peft", "--lora-r", "2",
                 "--use-dora", "--save-steps", "2", "--zero-stage", "3", only ? "--save-only-model" : "--no-report");
        const char *threads = train("threads", on, args, ranks(on, n, ARGS(NULL)));
        const char *out = join(folder, "processes");
        struct processes_run r = start_processes(n, run_of(on, out, args));
        assert_ends(&r, 0);
        assert_same_log(threads, out);
        const char *const files[] = {"adapter_model.safetensors", "step-00000002/rank-0000.safetensors"};
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            assert_true(same_bytes(join(threads, files[i]), join(out, files[i])));
    }
}

static void an_evaluation_is_of_all_processes(void **state)
{
    (void)state;
    const char *model = fixture("golden/bert"), *data = join(model, "inputs.safetensors");
    const char *const *args = ARGS("eval", "--model", model, "--data", data, "--json", "--device", a_device()->name,
                                   "--dtype", a_device()->dtype, "--per-device-eval-batch-size", "1", "--threads", "1");
    expect_snug(0, said(), args, NULL);
    json_t *one = said_object();
    for (int n = 2; n <= MOST_PROCESSES; n++) {
        struct processes_run r = start_processes(n, args);
        assert_ends(&r, 0);
        json_t *several = json_load_file(said_by(0), 0, NULL);
        assert_non_null(json_object_get(several, "accuracy"));
        assert_true(json_equal(json_object_get(one, "loss"), json_object_get(several, "loss")));
        assert_true(json_equal(json_object_get(one, "roc_auc"), json_object_get(several, "roc_auc")));
        assert_true(json_equal(json_object_get(one, "by_label"), json_object_get(several, "by_label")));
        json_decref(several);
    }
    json_decref(one);
}

/* Of three processes the last one is started otherwise: all end before the first step, and the first one says why. */
static void they_agree_before_they_begin(void **state)
{
    (void)state;
    const char *out = join(folder, "differ");
    const struct {
        const char *const *differs;
        const char *says;
    } wrong[] = {{ARGS("--weight-decay", "0.25"), "rank 2 has --weight-decay 0.25, rank 0 --weight-decay 0"},
                 {ARGS("--num-processes", "4"), "rank 2 was started as one of 4, rank 0 as one of 3"},
                 {ARGS("--process-index", "1"), "two processes are rank 1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct processes_run r = start_processes_but(
            3, run_of(a_device(), out, ARGS(MODEL, EVERY_STEP, "--batch-size", "2")), wrong[i].differs);
        assert_ends(&r, 2);
        assert_lines(said_by(0), 1);
        assert_true(file_has(said_by(0), wrong[i].says));
        assert_int_equal(access(join(out, "log.jsonl"), F_OK), -1);
    }
}

/* The same path, but another file: as where a data set was copied to one machine and changed on another. */
static void they_have_the_same_data(void **state)
{
    (void)state;
    const char *out = join(folder, "differ"), *mine = join(folder, "mine"), *here = join(folder, "here");
    mkdir(mine, 0700);
    mkdir(here, 0700);
    for (int i = 0; i < 2; i++) {
        size_t n;
        char *text = read_text(i ? other_rows : rows, &n);
        FILE *f = fopen(join(i ? mine : here, "rows.safetensors"), "wb");
        assert_true(f && fwrite(text, 1, n, f) == n && fclose(f) == 0);
        free(text);
    }
    if (most_processes(a_device()) < 2)
        skip();
    char before[4096];
    struct processes_run r = {.n = 2};
    assert_non_null(getcwd(before, sizeof before));
    char port[16];
    snprintf(port, sizeof port, "127.0.0.1:%d", free_port());
    for (int k = 0; k < 2; k++) {
        assert_int_equal(chdir(k ? mine : here), 0);
        r.pid[k] = start_snug(
            said_by(k),
            run_of(a_device(), out,
                   ARGS("--model", fixture("golden/trainer/init"), "--train-data", "rows.safetensors", EVERY_STEP,
                        "--batch-size", "2", "--max-steps", "3", "--num-processes", "2", "--main-process", port)),
            ARGS("--process-index", k ? "1" : "0"));
    }
    assert_int_equal(chdir(before), 0);
    assert_ends(&r, 2);
    assert_true(file_has(said_by(0), "rank 1: its number of rows differs from that of rank 0"));
}

/* A loss that is not finite, of whichever rank, is told by the first process, and ends all. */
static void a_bad_loss_stops_all(void **state)
{
    (void)state;
    const char *model = fixture("golden/bert_regression");
    for (int d = 0; d < n_devices(); d++) {
        int n = most_processes(device(d)) < 3 ? most_processes(device(d)) : 3;
        struct processes_run r =
            start_processes(n, run_of(device(d), join(folder, "burst"),
                                      ARGS("--model", model, "--train-data", join(model, "inputs.safetensors"),
                                           "--learning-rate", "1000", "--optim", "sgd", "--max-grad-norm", "0",
                                           "--num-train-epochs", "100", "--batch-size", "1")));
        assert_ends(&r, 7);
        assert_true(file_has(said_by(0), "first in activation"));
    }
}

/* Who is not there is named. */
static void nobody_waits_forever(void **state)
{
    (void)state;
    char port[32];
    snprintf(port, sizeof port, "127.0.0.1:%d", free_port());
    const char *const *args =
        run_of(a_device(), join(folder, "alone"),
               ARGS(MODEL, "--num-processes", "2", "--main-process", port, "--peer-timeout", "1"));
    expect_snug(4, said(), args, NULL);
    assert_true(file_has(said(), "after 6 s 1 of 2 ranks have come, and rank 1 has not"));
    expect_snug(4, said(), args, ARGS("--process-index", "1"));
    assert_true(file_has(said(), "rank 0 is not there: Connection refused"));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *index, *at, *says;
        const char *const *more;
    } wrong[] = {{"2", "localhost:29500", "--process-index 2: of --num-processes 2 the last is 1", NULL},
                 {"0", "localhost", "--main-process localhost: is no HOST:PORT", NULL},
                 {"0", "localhost:0", "--main-process localhost:0: is no HOST:PORT", NULL},
                 {"0", "localhost:1", "--lr-find: is for one process", ARGS("--lr-find")},
                 {"0", "localhost:1", "--ranks 4: with --num-processes 2 each is one", ARGS("--ranks", "4")}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_snug(2, said(),
                    run_of(a_device(), join(folder, "wrong"),
                           ARGS(MODEL, "--num-processes", "2", "--process-index", wrong[i].index, "--main-process",
                                wrong[i].at)),
                    wrong[i].more);
        assert_true(file_has(said(), wrong[i].says));
    }
    expect_snug(2, said(),
                run_of(a_device(), join(folder, "wrong"), ARGS(MODEL, "--num-processes", "2", "--process-index", "1")),
                NULL);
    assert_true(file_has(said(), "they have to meet; give --main-process HOST:PORT"));
}

/* Without a place to meet one command starts them all: its run is that of as many threads, and what one of them says it says once. */
static void one_command_starts_all(void **state)
{
    (void)state;
    const struct device *on = a_device();
    if (most_processes(on) < 2)
        return;
    const char *const *args =
        ARGS(MODEL, "--logging-steps", "1", "--max-steps", "3", "--batch-size", "4", "--num-processes", "2");
    const char *out = join(folder, "started");
    expect_snug(0, said(), run_of(on, out, args), NULL);
    assert_same_run(train("threads", on, ARGS(MODEL, "--logging-steps", "1", "--max-steps", "3", "--batch-size", "4"),
                          ranks(on, 2, ARGS(NULL))),
                    out);
    if (!is_host(on)) {
        setenv("SNUG_EMULATED_APART", "1", 1); /* emulated GPUs do not reach each other's memory now */
        expect_snug(0, said(),
                    run_of(on, out,
                           ARGS(MODEL, "--logging-steps", "1", "--max-steps", "3", "--batch-size", "4", "--gpus", "2")),
                    NULL);
        unsetenv("SNUG_EMULATED_APART");
        assert_same_run(join(folder, "threads"), out);
        expect_snug(2, said(), run_of(on, out, ARGS(MODEL, "--num-processes", "2", "--gpus", "1,")), NULL);
        assert_true(file_has(said(), "--gpus 1,: with --num-processes 2 each has one; give as many, or leave it out"));
    }
    expect_snug(3, said(),
                run_of(on, out, ARGS("--model", join(folder, "none"), "--train-data", rows, "--num-processes", "2")),
                NULL);
    assert_true(file_has(said(), "snug: error: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_command_starts_all),
                                       cmocka_unit_test(processes_are_as_threads),
                                       cmocka_unit_test(processes_have_stages),
                                       cmocka_unit_test(processes_have_parts_of_the_base),
                                       cmocka_unit_test(an_evaluation_is_of_all_processes),
                                       cmocka_unit_test(they_agree_before_they_begin),
                                       cmocka_unit_test(they_have_the_same_data),
                                       cmocka_unit_test(a_bad_loss_stops_all),
                                       cmocka_unit_test(nobody_waits_forever),
                                       cmocka_unit_test(what_cannot_be_is_refused)};
    const struct CMUnitTest few[] = {cmocka_unit_test(one_command_starts_all),
                                     cmocka_unit_test(processes_are_as_threads)};
    if (getenv("SNUG_TEST_SHORT")) /* on a GPU that is emulated */
        return cmocka_run_group_tests(few, set_up, close_folder);
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
