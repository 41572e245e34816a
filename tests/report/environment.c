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
    assert_non_null(strstr(page, "<th scope=\"row\">device</th><td class=\"text\">cpu</td>"));
    free(page);
    json_decref(plan);
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
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_that_of_the_plan),
        cmocka_unit_test(the_command_is_the_run),
        cmocka_unit_test(files_of_others_are_texts),
    };
    return cmocka_run_group_tests_name("environment", tests, open_folder, close_folder);
}
