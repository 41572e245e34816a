/* snug predict on pipes and files: what comes when, and what is left when something goes wrong. */
#include "predict_help.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- pipes ---- */

struct child {
    pid_t pid;
    int in, out;
};

static struct child start(const char *const *args)
{
    int in[2], out[2];
    const char *argv[32] = {"snug", "predict", "--model", model, "--device", "cpu", "--data", "-"};
    int n = 8;
    while (*args)
        argv[n++] = *args++;
    assert_true(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execv(getenv("SNUG_COMMAND"), (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    return (struct child){.pid = pid, .in = in[1], .out = out[0]};
}

static void say(const struct child *c, const char *text)
{
    assert_int_equal(write(c->in, text, strlen(text)), strlen(text));
}

/* Waits until `n` lines have come, and gives all of what has. */
static char *hear(const struct child *c, int n)
{
    static char text[1 << 16];
    size_t at = 0;
    for (int lines = 0; lines < n;) {
        ssize_t got = read(c->out, text + at, 1);
        if (got != 1)
            fail_msg("it ended after %d lines of %d", lines, n);
        lines += text[at++] == '\n';
    }
    text[at] = 0;
    return text;
}

static int end(struct child *c)
{
    close(c->in);
    close(c->out);
    return end_of(c->pid);
}

/* Neither a line nor a row of two lines is waited for before what is whole is answered. */
static void a_pipe_is_answered_row_by_row(void **state)
{
    (void)state;
    struct child c = start(ARGS("--json"));
    static const char *const texts[] = {"a b\n", "c", "\nd e f\r\nstill", " going\n"};
    say(&c, texts[0]);
    json_t *o = json_loads(hear(&c, 1), 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(o, "row")), 0);
    json_decref(o);
    say(&c, texts[1]);
    say(&c, texts[2]);
    char *two = hear(&c, 2);
    assert_non_null(strstr(two, "{\"row\":1,"));
    assert_non_null(strstr(two, "\"text\":\"d e f\""));
    say(&c, texts[3]);
    assert_non_null(strstr(hear(&c, 1), "\"text\":\"still going\""));
    assert_int_equal(end(&c), 0);

    c = start(ARGS(NULL)); /* an array */
    say(&c, "[ {\"text\":\"a\"}\n");
    assert_non_null(strstr(hear(&c, 2), ",a\n"));
    say(&c, ", {\"text\":\"b, ");
    say(&c, "c]\"}\n]\n");
    assert_non_null(strstr(hear(&c, 1), ",\"b, c]\"\n"));
    assert_int_equal(end(&c), 0);

    c = start(ARGS(NULL));
    say(&c, "text,n\na b,1\n\"c\n");
    assert_non_null(strstr(hear(&c, 2), "a b,1\n"));
    say(&c, "d\",2\n");
    assert_non_null(strstr(hear(&c, 2), "\"c\nd\",2\n"));
    assert_int_equal(end(&c), 0);
}

/* The rows before it are answered; a row that is not right is named, and a stop is heard while it waits. */
static void bad_rows_and_signals_in_a_pipe(void **state)
{
    (void)state;
    struct child c = start(ARGS("--data-format", "jsonl"));
    say(&c, "{\"text\":\"a\"}\n");
    hear(&c, 2);
    say(&c, "{\"text\":\"b\"}\n{\"text\":1}\n{\"text\":\"c\"}\n");
    assert_non_null(strstr(hear(&c, 1), ",b\n"));
    close(c.in);
    assert_int_equal(end_of(c.pid), 3);
    close(c.out);
    c = start(ARGS(NULL));
    say(&c, "[ {\"text\":\"a\"},\n");
    assert_non_null(strstr(hear(&c, 2), ",a\n"));
    say(&c, "{\"text\":\"b\"}, ]\n");
    assert_non_null(strstr(hear(&c, 1), ",b\n"));
    assert_int_equal(end(&c), 3);
    c = start(ARGS("--data-format", "txt"));
    say(&c, "[a] {\n");
    hear(&c, 2);
    kill(c.pid, SIGTERM);
    assert_int_equal(end_of(c.pid), 75);
    close(c.in);
    close(c.out);
    c = start(ARGS(NULL));
    say(&c, "a\n");
    hear(&c, 2);
    close(c.out);
    for (int i = 0; i < 3; i++) { /* nobody listens any more */
        ssize_t n = write(c.in, "b\n", 2);
        (void)n;
    }
    close(c.in);
    assert_int_equal(end_of(c.pid), 5);
}

/* ---- files ---- */

static int predict_into(const char *out, const char *more, const char *extra)
{
    return snug(said(),
                ARGS("predict", "--model", model, "--device", "cpu", "--data", join(folder, "t.csv"), "--output", out),
                more ? (extra ? ARGS(more, extra) : ARGS(more)) : NULL);
}

static int files_with(const char *part)
{
    int n = 0;
    struct dirent *e;
    DIR *d = opendir(folder);
    while ((e = readdir(d)))
        n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

static void an_output_file_is_whole_or_not_there(void **state)
{
    (void)state;
    write_text(folder, "t.csv", "id,text\n1,a b\n2,c\n3,d e f\n");
    const char *csv = join(folder, "out.csv"), *jsonl = join(folder, "out.jsonl");
    assert_int_equal(predict_into(csv, NULL, NULL), 0);
    assert_non_null(strstr(read_file(said()), "snug: note: 3 rows written to "));
    assert_true(file_has(said(), "/out.csv\n"));
    char *first = strdup(read_file(csv));
    LINE_IS(first, 0, "row,label,no,perhaps,yes,id,text");
    assert_string_equal(strrchr(first, ','), ",d e f\n");
    assert_int_equal(predict_into(jsonl, NULL, NULL), 0);
    json_decref(row(read_file(jsonl), 2));

    assert_int_equal(predict_into(csv, NULL, NULL), 2);
    assert_true(file_has(said(), "out.csv: is there already; give another name, or --overwrite-output"));
    assert_int_equal(predict_into(csv, "--top-k", "1"), 2);
    assert_string_equal(read_file(csv), first);
    assert_int_equal(predict_into(csv, "--overwrite-output", NULL), 0);
    assert_string_equal(read_file(csv), first);
    assert_int_equal(predict_into(join(folder, "t.csv"), "--overwrite-output", NULL), 2);
    assert_true(file_has(said(), "is what --data reads"));
    assert_int_equal(predict_into(join(folder, "out.txt"), NULL, NULL), 2);
    assert_int_equal(predict_into(csv, "--json", NULL), 2);
    assert_int_equal(predict_into(join(folder, "nowhere/out.csv"), NULL, NULL), 5);

    write_text(folder, "t.csv", "id,text\n1,a b\n2,c\n3,d,e\n"); /* a bad row in the end */
    assert_int_equal(predict_into(csv, "--overwrite-output", NULL), 3);
    assert_true(file_has(said(), "t.csv:4: 3 fields where the header has 2"));
    assert_false(file_has(said(), "written to"));
    assert_string_equal(read_file(csv), first);
    assert_int_equal(files_with(".tmp-"), 0);
    free(first);
}

static void a_full_disk(void **state)
{
    (void)state;
    write_text(folder, "t.csv", "id,text\n1,a b\n2,c\n3,d e f\n");
    const char *out = join(folder, "full.csv");
    struct rlimit all, little = {.rlim_cur = 40};
    getrlimit(RLIMIT_FSIZE, &all);
    little.rlim_max = all.rlim_max;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGXFSZ, SIG_IGN);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        setrlimit(RLIMIT_FSIZE, &little);
        execl(getenv("SNUG_COMMAND"), "snug", "predict", "--model", model, "--device", "cpu", "--data",
              join(folder, "t.csv"), "--output", out, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(end_of(pid), 5);
    assert_int_equal(files_with("full.csv"), 0);
}

/* More rows than are held at a time: each gets what it gets alone, and its own columns. */
static void many_rows(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    FILE *f = fopen(join(folder, "many.csv"), "w");
    fputs("text,n\n", f);
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "%s%c,%d\n", i % 3 ? "a b c " : "", (char)('a' + i % 26), i);
    fclose(f);
    const char *out = join(folder, "many-out.csv");
    expect_snug(0, said(), ARGS("predict", "--model", model, "--device", "cpu", "--data", join(folder, "many.csv")),
                ARGS("--output", out));
    f = fopen(out, "r");
    char text[256], seen[78][64] = {{0}};
    assert_non_null(fgets(text, sizeof text, f));
    for (int i = 0; i < ROWS; i++) {
        char values[64], words[64];
        int r, n;
        assert_non_null(fgets(text, sizeof text, f));
        assert_int_equal(sscanf(text, "%d,%63[a-z0-9.,-],%63[a-z ],%d", &r, values, words, &n) >= 2, 1);
        char *tail = strrchr(text, ',');
        assert_int_equal(r, i);
        assert_int_equal(atoi(tail + 1), i);
        *tail = 0;
        char *comma = strchr(text, ',');
        if (!*seen[i % 78])
            snprintf(seen[i % 78], sizeof *seen, "%s", comma);
        assert_string_equal(seen[i % 78], comma);
    }
    assert_null(fgets(text, sizeof text, f));
    fclose(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_is_answered_row_by_row),
        cmocka_unit_test(bad_rows_and_signals_in_a_pipe),
        cmocka_unit_test(an_output_file_is_whole_or_not_there),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(many_rows),
    };
    return cmocka_run_group_tests(tests, open_models, close_folder);
}
