/* What a run leaves about its machine and its memory: the bytes are those that snug plan gives for the same options. */
#include "../run/command.h"

#include "base/size.h"

#include <unistd.h>

#define RUN                                                                                                            \
    "--model", fixture("golden/trainer/init"), "--train-data", rows, "--batch-size", "4", "--max-steps", "4",          \
        "--device", "cpu", "--threads", "1"

static json_t *load(const char *path)
{
    json_t *file = json_load_file(path, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(file);
    return file;
}

static long long bytes_of(const json_t *memory, const char *kind, size_t column)
{
    return json_integer_value(json_array_get(json_object_get(memory, kind), column));
}

/* The column that holds the most, and how much that is. */
static long long find_peak(const json_t *memory, size_t *column)
{
    size_t n = json_array_size(json_object_get(memory, "node"));
    long long most = 0;
    for (size_t i = 0; i < n; i++) {
        long long sum = 0;
        const char *kind;
        json_t *v;
        json_object_foreach((json_t *)(uintptr_t)memory, kind, v) if (strcmp(kind, "node") != 0) sum +=
            bytes_of(memory, kind, i);
        *column = sum > most ? i : *column;
        most = sum > most ? sum : most;
    }
    return most;
}

static void memory_is_that_of_the_plan(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 3, true), *out = join(folder, "run"), *kind;
    size_t peak = 0, n;
    json_t *v;
    expect_snug(0, said(), ARGS("plan", RUN, "--json"), NULL);
    json_t *plan = load(said());
    expect_snug(0, said(), ARGS("train", RUN, "--save-strategy", "no", "--output-dir", out), NULL);
    json_t *environment = load(join(out, "environment.json"));
    const json_t *memory = json_object_get(environment, "memory"), *parts = json_object_get(plan, "components");
    long long arena = json_integer_value(json_object_get(plan, "arena_bytes"));
    assert_int_equal(json_integer_value(json_object_get(memory, "arena")), arena);
    assert_int_equal(find_peak(memory, &peak) + json_integer_value(json_object_get(plan, "gap_bytes")), arena);
    json_object_foreach((json_t *)(uintptr_t)parts, kind, v)
    {
        long long want = json_integer_value(v), with = 0;
        if (!strcmp(kind, "inputs"))
            with = json_integer_value(json_object_get(parts, "scalars"));
        if (strcmp(kind, "scalars") != 0)
            assert_int_equal(bytes_of(memory, kind, peak), want + with);
    }
    char *page = read_text(join(out, "report.html"), &n), text[160], size[SIZE_TEXT_MAX];
    snprintf(text, sizeof text, "activations, node %lld: %s</title>", bytes_of(memory, "node", peak),
             size_text(bytes_of(memory, "activations", peak), size));
    assert_non_null(strstr(page, text));
    assert_non_null(strstr(page, "planned memory by kind: step"));
    snprintf(text, sizeof text, "<th scope=\"row\">memory that is planned</th><td class=\"n\">%s</td>",
             size_text(arena, size));
    assert_non_null(strstr(page, text));
    assert_non_null(strstr(page, "<th scope=\"row\">threads</th><td class=\"n\">1</td>"));
    assert_non_null(strstr(page, "<th scope=\"row\">device</th><td>cpu</td>"));
    free(page);
    json_decref(plan);
    json_decref(environment);
}

static int nodes_of(const char *program, const char *op)
{
    int n = 0;
    char call[64];
    snprintf(call, sizeof call, "\n%s(", op);
    for (const char *at = program; (at = strstr(at, call)); at += strlen(call))
        n++;
    return n;
}

/* Each op has the nodes that the plan's programs have of it: with accumulation of 3 the second program runs twice. Together they take
 * no longer than the run. */
static void ops_are_those_of_the_steps(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 96, 12, 6, true), *out = join(folder, "ops");
    size_t i, n;
    json_t *v;
    expect_snug(0, said(), ARGS("plan", RUN, "--gradient-accumulation-steps", "3", "--dump", "order"), NULL);
    char *programs = read_text(said(), &n), *next = strstr(programs, "# next micro-step"),
         *update = strstr(programs, "# update");
    assert_true(next && update && next < update);
    expect_snug(0, said(), ARGS("train", RUN, "--gradient-accumulation-steps", "3", "--output-dir", out, "--json"),
                NULL);
    json_t *environment = load(join(out, "environment.json"));
    json_t *times = json_object_get(json_object_get(environment, "ops"), "times");
    double seconds = 0;
    assert_true(json_array_size(times) > 15);
    json_array_foreach(times, i, v)
    {
        const char *op = json_string_value(json_object_get(v, "op"));
        int all = nodes_of(programs, op), behind = nodes_of(next, op), last = nodes_of(update, op);
        assert_int_equal(json_number_value(json_object_get(v, "nodes")), all + behind - last);
        assert_true(json_number_value(json_object_get(v, "seconds")) > 0);
        seconds += json_number_value(json_object_get(v, "seconds"));
    }
    char *run = read_text(said(), &n), *runtime = strstr(run, "\"train_runtime\": ");
    assert_non_null(runtime);
    assert_true(3 * seconds < strtod(runtime + strlen("\"train_runtime\": "), NULL)); /* 4 steps without the first */
    char *page = read_text(join(out, "report.html"), &n);
    assert_non_null(strstr(page, "measured in 3 steps behind the first of this run"));
    assert_non_null(strstr(page, "<th scope=\"row\">linear_dx</th><td class=\"text\">dx = dy W</td>"));
    assert_non_null(strstr(page, "<th scope=\"row\">others</th>"));
    free(page);
    free(programs);
    free(run);
    json_decref(environment);
}

/* The command that a page has makes the same losses again. */
static void the_command_is_the_run(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 4, true), *out = join(folder, "it's one");
    size_t n, again;
    expect_snug(0, said(),
                ARGS("train", RUN, "--save-strategy", "no", "--output-dir", out, "--learning-rate", "1e-3",
                     "--logging-steps", "1", "--log-hash"),
                NULL);
    json_t *environment = load(join(out, "environment.json"));
    const char *command = json_string_value(json_object_get(environment, "command"));
    char *log = read_text(join(out, "log.jsonl"), &n);
    FILE *f = fopen(join(folder, "again.sh"), "w");
    assert_non_null(f);
    assert_true(!strncmp(command, "snug ", 5));
    fprintf(f, "exec '%s' %s --overwrite-output-dir 2>/dev/null >&2\n", getenv("SNUG_COMMAND"), command + 5);
    assert_int_equal(fclose(f), 0);
    char line[4200];
    snprintf(line, sizeof line, "sh '%s'", join(folder, "again.sh"));
    assert_int_equal(system(line), 0); /* NOLINT: what a user would type */
    char *other = read_text(join(out, "log.jsonl"), &again);
    const char *hash = strstr(log, "state_hash");
    assert_non_null(hash);
    while (hash) { /* speeds differ; the state after each step does not */
        snprintf(line, sizeof line, "%.*s", 50, hash);
        assert_non_null(strstr(other, line));
        hash = strstr(hash + 1, "state_hash");
    }
    free(log);
    free(other);
    json_decref(environment);
}

/* What somebody has put into the file is only text, and no list of another length is drawn. */
static void files_of_others_are_texts(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 5, true), *out = join(folder, "edited");
    size_t n;
    expect_snug(0, said(), ARGS("train", RUN, "--save-strategy", "no", "--output-dir", out), NULL);
    write_text(
        out, "environment.json",
        "{\"snug_version\": \"<b>\", \"device\": \"<script>x</script>\", \"memory\": {\"program\": \"<i>\", \"node\": "
        "[1, 2, 3], \"<u>\": [1, 2, 4], \"short\": [1, 2], \"odd\": [1, \"x\", 3], \"no\": 7}}\n");
    expect_snug(0, said(), ARGS("report", out), NULL);
    char *page = read_text(join(out, "report.html"), &n);
    assert_null(strstr(page, "<script"));
    assert_non_null(strstr(page, "&lt;u&gt;, node 3: 4 B</title>"));
    assert_null(strstr(page, "short, node"));
    assert_null(strstr(page, "odd, node"));
    free(page);
    write_text(out, "environment.json", "{\"snug_version\": \"x\", \"memory\": {\"node\": [2, 1], \"a\": [1, 2]}}\n");
    expect_snug(0, said(), ARGS("report", out), NULL);
    page = read_text(join(out, "report.html"), &n);
    assert_null(strstr(page, "planned memory"));
    assert_null(strstr(page, "Slowest ops"));
    free(page);
    write_text(
        out, "environment.json",
        "{\"snug_version\": \"x\", \"ops\": {\"how\": \"<b>\", \"times\": [7, {\"op\": \"<i>\", \"seconds\": 3}, "
        "{\"op\": \"norm\", \"seconds\": 1, \"nodes\": \"x\"}, {\"op\": \"belated\", \"seconds\": -1}]}}\n");
    expect_snug(0, said(), ARGS("report", out), NULL);
    page = read_text(join(out, "report.html"), &n);
    assert_non_null(
        strstr(page, "&lt;i&gt;</th><td class=\"text\"></td><td class=\"n\">0</td><td class=\"n\">3000</td>"));
    assert_non_null(strstr(page, ">25 %</td>"));
    assert_non_null(strstr(page, "&lt;b&gt;</p>"));
    assert_null(strstr(page, "belated"));
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_that_of_the_plan),
        cmocka_unit_test(ops_are_those_of_the_steps),
        cmocka_unit_test(the_command_is_the_run),
        cmocka_unit_test(files_of_others_are_texts),
    };
    return cmocka_run_group_tests_name("environment", tests, open_folder, close_folder);
}
