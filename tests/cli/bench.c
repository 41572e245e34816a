/* snug bench through the real command, on a tiny model and the CPU: every row is there, planned memory is what a run
 * allocates, rates are those of the last steps, the three files say the same; stopped or killed, nothing is left
 * behind. */
#include "cli/bench/bench.h"
#include "../run/command.h"
#include "base/size.h"
#include "xml.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *model; /* two layers, hidden size 16, at most 12 tokens */

static const char *const all_rows[] = {
    "vanilla",      "accumulation", "checkpointing", "fp16",     "fp16_accumulation_checkpointing",
    "bf16",         "tf32",         "adafactor",     "adam8bit", "all_adafactor",
    "all_adam8bit", "planned"};
enum { ALL = sizeof all_rows / sizeof *all_rows, SAMPLES = 4, LENGTH = 12, STEPS = 9, TIMED = 6 };

/* ---- rates ---- */

/* Two slow steps of 3 s, then four of 0.5 s, of 8 samples and 80 tokens each: 8 samples in 3 s are 2.67 a second, 16 in
 * 6 s the same, 48 in 8 s are 6. What counts is the four: 32 samples in 2 s. */
static void rates_are_of_the_last_steps(void **state)
{
    (void)state;
    double samples, tokens;
    struct bench_mark from = {2, 16 / 6., 160 / 6.}, to = {6, 48 / 8., 480 / 8.};
    assert_true(bench_rates(&from, &to, 8, &samples, &tokens));
    assert_true(fabs(samples - 16) < 1e-12 && fabs(tokens - 160) < 1e-11);
    assert_false(bench_rates(&to, &from, 8, &samples, &tokens));
    assert_false(bench_rates(&from, &from, 8, &samples, &tokens));
    assert_false(bench_rates(&(struct bench_mark){0}, &to, 8, &samples, &tokens));
}

/* ---- the table ---- */

static const char *text_of(json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long long int_of(json_t *o, const char *key)
{
    if (!json_is_integer(json_object_get(o, key)))
        fail_msg("%s is no integer", key);
    return json_integer_value(json_object_get(o, key));
}

static double real_of(json_t *o, const char *key)
{
    if (!json_is_number(json_object_get(o, key)))
        fail_msg("%s is no number", key);
    return json_number_value(json_object_get(o, key));
}

/* The arena that `snug plan` finds for a row, by options as a user would write them; -1 where they are refused. */
static long long planned(json_t *row)
{
    char batch[24], accumulation[24], batches[32], budget[32];
    bool searched = !strcmp(text_of(row, "name"), "planned");
    snprintf(batch, sizeof batch, "%lld", searched ? SAMPLES : int_of(row, "batch_size"));
    snprintf(budget, sizeof budget, "%lldB", searched ? int_of(row, "memory_budget") : 0);
    snprintf(accumulation, sizeof accumulation, "%lld", int_of(row, "gradient_accumulation_steps"));
    snprintf(batches, sizeof batches, "synthetic:%dx%d", SAMPLES, LENGTH);
    const char *const *options = ARGS(
        "plan", "--model", model, "--train-data", batches, "--device", "cpu", "--json", "--batch-size", batch,
        searched ? "--memory-budget" : "--gradient-accumulation-steps", searched ? budget : accumulation, "--dtype",
        text_of(row, "dtype"), "--optim", text_of(row, "optim"), "--save-strategy", "no", "--threads", "2");
    bool checkpointing = json_is_true(json_object_get(row, "gradient_checkpointing"));
    if (snug(said(), options, checkpointing ? ARGS("--gradient-checkpointing") : NULL))
        return -1;
    json_t *plan = said_object();
    long long bytes = int_of(plan, "arena_bytes");
    assert_string_equal(text_of(plan, "device"), "cpu");
    assert_string_equal(text_of(plan, "class"), "BertForSequenceClassification");
    json_decref(plan);
    return bytes;
}

static void check_setting(json_t *row, const char *name)
{
    if (!strcmp(name, "planned")) { /* in the room of the guide's combined row, what is fastest */
        char title[64], size[SIZE_TEXT_MAX];
        assert_int_equal(int_of(row, "batch_size") * int_of(row, "gradient_accumulation_steps"), SAMPLES);
        assert_true(int_of(row, "planned_bytes") <= int_of(row, "memory_budget"));
        snprintf(title, sizeof title, "planned for %s", size_text(int_of(row, "memory_budget"), size));
        assert_string_equal(text_of(row, "title"), title);
        return;
    }
    bool accumulates = strstr(name, "acc") || strstr(name, "all_") || !strcmp(name, "checkpointing");
    bool half = strstr(name, "all_") || strstr(name, "fp16_");
    assert_int_equal(int_of(row, "batch_size"), accumulates ? 1 : SAMPLES);
    assert_int_equal(int_of(row, "gradient_accumulation_steps"), accumulates ? SAMPLES : 1);
    assert_true(json_is_true(json_object_get(row, "gradient_checkpointing")) ==
                (strstr(name, "checkpointing") || strstr(name, "all_")));
    assert_string_equal(text_of(row, "dtype"), half                   ? "bf16" /* the CPU has no fp16 */
                                               : strstr(name, "fp16") ? "fp16"
                                               : strstr(name, "bf16") ? "bf16"
                                               : strstr(name, "tf32") ? "tf32"
                                                                      : "fp32");
    assert_string_equal(text_of(row, "note"), half ? "bf16 instead of fp16" : "");
    assert_string_equal(text_of(row, "optim"), strstr(name, "adafactor")  ? "adafactor"
                                               : strstr(name, "adam8bit") ? "adamw_8bit"
                                                                          : "adamw_torch");
}

static void check_numbers(json_t *row, long long arena)
{
    double samples = real_of(row, "samples_per_second"), timed = TIMED * SAMPLES / samples;
    assert_int_equal(int_of(row, "planned_bytes"), arena);
    assert_int_equal(int_of(row, "arena_bytes"), arena);
    assert_true(int_of(row, "memory_bytes") > 1 << 20);
    assert_true(fabs(real_of(row, "planned_of_memory") * (double)int_of(row, "memory_bytes") - (double)arena) < 1);
    assert_true(fabs(real_of(row, "tokens_per_second") / samples - LENGTH) < 1e-4); /* every row has 12, none padded */
    assert_true(timed > 0 && timed < real_of(row, "seconds"));
    assert_true(real_of(row, "first_step_seconds") > 0);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    while ((text = strstr(text, part))) {
        n++;
        text += strlen(part);
    }
    return n;
}

static void every_row_is_measured_or_says_why(void **state)
{
    (void)state;
    const char *out = join(folder, "all");
    expect_snug(
        0, said(),
        ARGS("bench", "--model", model, "--output-dir", out, "--steps", "9", "--device", "cpu", "--threads", "2"),
        NULL);
    assert_true(file_has(said(), "Samples/second: "));
    json_t *bench = json_load_file(join(out, "bench.json"), 0, NULL), *rows = json_object_get(bench, "rows"), *row;
    assert_int_equal(int_of(bench, "samples_per_step"), SAMPLES);
    assert_int_equal(int_of(bench, "max_length"), LENGTH);
    assert_int_equal(int_of(bench, "steps"), STEPS);
    assert_int_equal(int_of(bench, "timed_steps"), TIMED);
    /* tables 37 + 12 + 2 of 16 and a norm; two layers of 16x16 four times, 16x24 twice, biases and norms; pooler; head
     */
    assert_int_equal(int_of(bench, "weights"), 51 * 16 + 32 + 2 * (4 * 272 + 16 * 24 * 2 + 24 + 16 + 64) + 272 + 51);
    assert_string_equal(text_of(bench, "device"), "cpu");
    assert_int_equal(json_array_size(rows), ALL);
    int measured = 0, fastest = 0, smallest = 0;
    double best = 0, least = INFINITY;
    size_t i;
    json_array_foreach(rows, i, row) if (json_object_get(row, "seconds"))
    {
        best = fmax(best, real_of(row, "samples_per_second"));
        least = fmin(least, (double)int_of(row, "memory_bytes"));
    }
    json_array_foreach(rows, i, row)
    {
        if (json_is_true(json_object_get(row, "fastest")))
            assert_true(!fastest++ && real_of(row, "samples_per_second") == best);
        if (json_is_true(json_object_get(row, "smallest")))
            assert_true(!smallest++ && (double)int_of(row, "memory_bytes") == least);
        long long arena = planned(row);
        assert_string_equal(text_of(row, "name"), all_rows[i]);
        check_setting(row, all_rows[i]);
        assert_string_equal(text_of(row, "status"), arena < 0 ? "not available" : "measured");
        measured += arena >= 0;
        if (arena >= 0)
            check_numbers(row, arena);
        else
            assert_true(strlen(text_of(row, "reason")) > 10 && !json_object_get(row, "seconds"));
    }
    long long combined = int_of(json_array_get(rows, 4), "planned_bytes");
    assert_int_equal(int_of(json_array_get(rows, ALL - 1), "memory_budget"), combined);
    json_decref(bench);
    assert_true(fastest == 1 && smallest == 1);
    assert_true(measured >= 5); /* the precisions of the CPU, with the optimizer that there always is */
    assert_int_equal(count_names(out, "bench."), 3);
    assert_int_equal(count_names(out, ".running"), 0);

    size_t n;
    char *text = read_text(join(out, "bench.svg"), &n);
    const char *complaint = xml_complaint(text, n);
    if (complaint)
        fail_msg("bench.svg: %s", complaint);
    assert_int_equal(count(text, "<rect "), 1 + 3 * measured); /* the ground; of each row speed, memory, plan */
    assert_true(count(text, " fastest</text>") == 1 && count(text, " smallest</text>") == 1);
    assert_true(count(text, "width=\"270.00\"") >= 2); /* the longest bars of each panel fill it */
    free(text);

    text = read_text(join(out, "bench.md"), &n);
    int lines = 0, marks = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (*line == '|') {
            assert_int_equal(count(line, "|"), 10);
            marks += count(line, "(fastest") + count(line, "smallest)");
            lines++;
        }
    assert_int_equal(lines, ALL + 2);
    assert_int_equal(marks, 2);
    free(text);
}

static void rows_can_be_chosen(void **state)
{
    (void)state;
    const char *out = join(folder, "some");
    expect_snug(0, said(),
                ARGS("bench", "--model", model, "--output-dir", out, "--steps", "3", "--device", "cpu", "--rows",
                     "bf16,vanilla,bf16", "--batch-size", "2", "--max-length", "5"),
                NULL);
    json_t *bench = json_load_file(join(out, "bench.json"), 0, NULL), *rows = json_object_get(bench, "rows");
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(text_of(json_array_get(rows, 0), "name"), "vanilla");
    assert_string_equal(text_of(json_array_get(rows, 1), "name"), "bf16");
    assert_int_equal(int_of(json_array_get(rows, 0), "batch_size"), 2);
    assert_true(fabs(real_of(json_array_get(rows, 0), "tokens_per_second") /
                         real_of(json_array_get(rows, 0), "samples_per_second") -
                     5) < 1e-4);
    json_decref(bench);
}

/* One experiment on 1, 2 and 3 ranks, each with the same rows and threads. What a plan of so many says is there, and shares are of the
 * first row's rate. */
static void ranks_are_compared(void **state)
{
    (void)state;
    const char *out = join(folder, "ranks");
    static const char *const numbers[] = {"1", "2", "3"};
    expect_snug(0, said(),
                ARGS("bench", "--model", model, "--output-dir", out, "--steps", "9", "--device", "cpu", "--threads",
                     "7", "--ranks", "3", "--rows", "vanilla", "--zero-stage", "1"),
                NULL);
    assert_true(file_has(said(), "  Of linear: "));
    json_t *bench = json_load_file(join(out, "bench.json"), 0, NULL), *rows = json_object_get(bench, "rows"), *row;
    assert_int_equal(json_array_size(rows), 3);
    double alone = real_of(json_array_get(rows, 0), "samples_per_second");
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *threads[] = {"2", "4", "6"}; /* two each */
        int ranks = (int)i + 1;
        expect_snug(0, said(),
                    ARGS("plan", "--model", model, "--train-data", "synthetic:108x12", "--device", "cpu", "--json",
                         "--batch-size", "4", "--gradient-accumulation-steps", "1", "--save-strategy", "no", "--ranks",
                         numbers[i], "--threads", threads[i]),
                    i ? ARGS("--zero-stage", "1") : NULL);
        json_t *plan = said_object();
        assert_string_equal(text_of(row, "status"), "measured");
        assert_int_equal(int_of(row, "ranks"), ranks);
        assert_int_equal(int_of(row, "planned_bytes"), int_of(plan, "arena_bytes"));
        assert_int_equal(int_of(row, "arena_bytes"), int_of(plan, "arena_bytes"));
        double rate = real_of(row, "samples_per_second");
        assert_true(fabs(real_of(row, "of_linear") - rate / (ranks * alone)) < 1e-6);
        assert_true(fabs(real_of(row, "tokens_per_second") / rate - LENGTH) < 1e-4);
        assert_true(6 * SAMPLES * ranks / rate < real_of(row, "seconds")); /* all ranks' samples, of the timed steps */
        assert_null(json_object_get(row, "planned_exchange"));             /* of a CPU it is not known */
        json_decref(plan);
    }
    json_decref(bench);
    size_t n;
    char *text = read_text(join(out, "bench.svg"), &n);
    assert_null(xml_complaint(text, n));
    assert_int_equal(count(text, "<rect "),
                     1 + 3 * 4); /* the ground; of each row linear, speed, planned and measured share */
    assert_true(count(text, "width=\"270.00\"") >= 2);
    free(text);
    assert_true(file_has(join(out, "bench.md"), "| 3 | fp32 | 4 x 1 | ") &&
                file_has(join(out, "bench.md"), "2 threads"));
    expect_snug(SNUG_ERR_USAGE, said(),
                ARGS("bench", "--model", model, "--device", "cpu", "--ranks", "2", "--rows", "vanilla,bf16"), NULL);
    assert_true(file_has(said(), "--rows vanilla,bf16: several GPUs or ranks run one of them; give one"));
}

static void a_table_without_numbers_is_an_error(void **state)
{
    (void)state;
    const char *out = join(folder, "none");
    expect_snug(SNUG_ERR_ENV, said(),
                ARGS("bench", "--model", model, "--output-dir", out, "--device", "cpu", "--rows", "tf32"), NULL);
    assert_true(file_has(said(), "snug: error: no row could be measured; the first, tf32: "));
    assert_int_not_equal(access(out, F_OK), 0);
}

/* ---- names from outside in a picture and a table ---- */

static void names_are_escaped(void **state)
{
    (void)state;
    const char *odd = join(folder, "a<b>&\"c|\x01\xff"), *out = join(folder, "escaped");
    size_t n;
    char *config = read_text(join(model, "config.json"), &n);
    assert_int_equal(mkdir(odd, 0700), 0);
    write_text(odd, "config.json", config);
    free(config);
    expect_snug(
        0, said(),
        ARGS("bench", "--model", odd, "--output-dir", out, "--steps", "3", "--device", "cpu", "--rows", "vanilla"),
        NULL);
    char *svg = read_text(join(out, "bench.svg"), &n);
    assert_null(xml_complaint(svg, n));
    assert_non_null(strstr(svg, "a&lt;b&gt;&amp;&quot;c|??,"));
    free(svg);
    json_t *bench = json_load_file(join(out, "bench.json"), 0, NULL);
    assert_non_null(bench);
    json_decref(bench);
    assert_true(file_has(join(out, "bench.md"), "a<b>&\"c\\|"));
}

static void the_xml_reader_complains(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "<a>",
                                      "<a></b>",
                                      "<a/><b/>",
                                      "<a>&x;</a>",
                                      "<a b=1/>",
                                      "<a b=\"1\" b=\"2\"/>",
                                      "<a b=\"<\"/>",
                                      "<a>\x01</a>",
                                      "<a>\xff</a>",
                                      "x<a/>",
                                      "<a b=\"1\"c=\"2\"/>"};
    static const char *const good[] = {"<a/>\n", "<a b=\"1\" c='2'>x &lt; <b/>y</a>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!xml_complaint(bad[i], strlen(bad[i])))
            fail_msg("%s is taken", bad[i]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_null(xml_complaint(good[i], strlen(good[i])));
}

/* ---- being stopped ---- */

/* Processes that run `command` and name `part` in their command line. */
static int processes_with(const char *command, const char *part)
{
    DIR *d = opendir("/proc");
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[300], line[4096] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        FILE *f = atoi(e->d_name) > 0 ? fopen(path, "re") : NULL;
        size_t bytes = f ? fread(line, 1, sizeof line - 1, f) : 0;
        for (size_t i = 0; i < bytes; i++)
            line[i] = line[i] ? line[i] : ' ';
        n += !strncmp(line, command, strlen(command)) && strstr(line, part);
        if (f)
            fclose(f);
    }
    closedir(d);
    return n;
}

/* Comes within a second, but machines that test are busy. */
static void wait_for(bool (*there)(const char *), const char *what)
{
    for (int ms = 0; !there(what); ms += 10) {
        assert_true(ms < 120000);
        usleep(10000);
    }
}

static bool trains(const char *out)
{
    return processes_with("snug train ", join(out, ".running-")) > 0;
}

static bool is_gone(const char *out)
{
    return processes_with("snug ", join(out, ".running-")) == 0;
}

/* More steps than these tests wait for. */
static pid_t start_long_bench(const char *out, const char *rows)
{
    pid_t pid = start_snug(said(),
                           ARGS("bench", "--model", model, "--output-dir", out, "--steps", "1000000", "--device", "cpu",
                                "--threads", "1", "--rows", rows, "--batch-size", "1"),
                           NULL);
    wait_for(trains, out);
    return pid;
}

static void stopped_it_leaves_nothing(void **state)
{
    (void)state;
    const char *out = join(folder, "stopped");
    for (int i = 0; i < 2; i++) {
        pid_t pid = start_long_bench(out, "vanilla,bf16");
        assert_int_equal(kill(pid, i ? SIGTERM : SIGINT), 0);
        assert_int_equal(end_of(pid), SNUG_STOPPED);
        assert_true(is_gone(out));
        assert_true(file_has(said(), "snug: stopped by a signal before a row was measured\n"));
        assert_int_not_equal(access(out, F_OK), 0);
    }
}

static bool first_row_is_printed(const char *path)
{
    return file_has(path, "Samples/second");
}

/* Asked to stop after its first row, which is kept; the others say why they have no numbers. */
static void rows_measured_before_a_stop_are_written(void **state)
{
    (void)state;
    const char *out = join(folder, "partly");
    pid_t pid = start_snug(said(),
                           ARGS("bench", "--model", model, "--output-dir", out, "--steps", "3000", "--device", "cpu",
                                "--threads", "1", "--rows", "vanilla,accumulation,checkpointing,bf16"),
                           NULL);
    wait_for(first_row_is_printed, said());
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(end_of(pid), SNUG_STOPPED);
    assert_true(file_has(said(), "snug: stopped by a signal; the rows measured so far are in "));
    json_t *bench = json_load_file(join(out, "bench.json"), 0, NULL), *rows = json_object_get(bench, "rows");
    assert_int_equal(json_array_size(rows), 4);
    assert_string_equal(text_of(json_array_get(rows, 0), "status"), "measured");
    assert_string_equal(text_of(json_array_get(rows, 3), "status"), "not run");
    assert_string_equal(text_of(json_array_get(rows, 3), "reason"), "stopped by a signal");
    json_decref(bench);
    assert_int_equal(count_names(out, "bench."), 3);
    assert_int_equal(count_names(out, ".running"), 0);
}

static void killed_it_takes_its_run_along(void **state)
{
    (void)state;
    const char *out = join(folder, "killed");
    pid_t pid = start_long_bench(out, "vanilla");
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(end_of(pid), 128 + SIGKILL);
    wait_for(is_gone, out);
}

/* ---- what a run tells a program: snug train --json --discard-model ---- */

static void a_run_prints_its_log_and_a_summary(void **state)
{
    (void)state;
    const char *out = join(folder, "run");
    size_t n, kept;
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--train-data", "synthetic:12x7", "--max-steps", "3", "--batch-size",
                     "4", "--logging-steps", "1", "--device", "cpu", "--save-strategy", "no", "--discard-model",
                     "--json", "--output-dir", out),
                NULL);
    char *text = read_text(said(), &n), *log = read_text(join(out, "log.jsonl"), &kept);
    const char *printed = strchr(text, '{'); /* behind the notes, which are stderr's */
    assert_int_equal(count(log, "\n"), 3);
    assert_true(printed && strlen(printed) > kept);
    assert_memory_equal(printed, log, kept);
    json_t *summary = json_loads(printed + kept, 0, NULL);
    assert_int_equal(int_of(summary, "steps"), 3);
    assert_int_equal(int_of(summary, "first_step"), 0);
    assert_true(int_of(summary, "arena_bytes") > 0 && int_of(summary, "memory") > int_of(summary, "arena_bytes"));
    double seconds = real_of(summary, "train_runtime"), samples = real_of(summary, "train_samples_per_second");
    assert_true(fabs(samples * seconds / 12 - 1) < 1e-3);
    assert_true(fabs(real_of(summary, "train_tokens_per_second") / samples - 7) < 1e-3);
    json_decref(summary);
    free(text);
    free(log);
    assert_int_equal(access(join(out, "model.safetensors"), F_OK), -1);
    assert_int_equal(access(join(out, "config.json"), F_OK), -1);
}

static int set_up(void **state)
{
    model = fixture("golden/bert");
    return open_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_of_the_last_steps),
        cmocka_unit_test(the_xml_reader_complains),
        cmocka_unit_test(every_row_is_measured_or_says_why),
        cmocka_unit_test(rows_can_be_chosen),
        cmocka_unit_test(ranks_are_compared),
        cmocka_unit_test(a_table_without_numbers_is_an_error),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(stopped_it_leaves_nothing),
        cmocka_unit_test(rows_measured_before_a_stop_are_written),
        cmocka_unit_test(killed_it_takes_its_run_along),
        cmocka_unit_test(a_run_prints_its_log_and_a_summary),
    };
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
