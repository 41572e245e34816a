/* What `snug eval` reports: with --json all of it, whose parts must agree with each other and with what predict says of the
 * same rows, bit for bit in every batch; on a terminal, tables that fit. */
#include "../run/command.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *rows, *model;

static int open_with_model(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 60, 12, 5, true);
    model = fixture("golden/trainer/init");
    return code;
}

static json_t *evaluated(const char *const *more)
{
    const char *out = join(folder, "eval.json");
    expect_snug(0, out, ARGS("eval", "--model", model, "--data", rows, "--json", "--device", "cpu"), more);
    json_t *o = NULL;
    char line[1 << 16];
    FILE *f = fopen(out, "r");
    while (f && fgets(line, sizeof line, f))
        if (*line == '{')
            o = json_loads(line, 0, NULL);
    fclose(f);
    assert_non_null(o);
    json_object_del(o, "seconds");
    json_object_del(o, "samples_per_second");
    return o;
}

static void batches_and_threads_make_no_difference(void **state)
{
    (void)state;
    json_t *first = evaluated(ARGS("--batch-size", "60", "--threads", "1"));
    const char *const *others[] = {ARGS("--batch-size", "1"), ARGS("--batch-size", "7", "--threads", "3"),
                                   ARGS("--threads", "2")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        json_t *other = evaluated(others[i]);
        assert_true(json_equal(first, other));
        json_decref(other);
    }
    json_decref(first);
}

/* The confusion matrix is a count of the same rows as all the rest. */
static void parts_agree(void **state)
{
    (void)state;
    json_t *o = evaluated(NULL), *matrix = json_object_get(o, "confusion_matrix");
    json_t *by_label = json_object_get(o, "by_label");
    json_int_t all = 0, right = 0;
    double f1 = 0;
    size_t n = json_array_size(matrix);
    assert_int_equal(n, 3);
    assert_int_equal(json_array_size(by_label), n);
    for (size_t i = 0; i < n; i++) {
        json_t *row = json_array_get(matrix, i), *label = json_array_get(by_label, i);
        json_int_t support = 0, predicted = 0, both = json_integer_value(json_array_get(row, i));
        for (size_t k = 0; k < n; k++) {
            support += json_integer_value(json_array_get(row, k));
            predicted += json_integer_value(json_array_get(json_array_get(matrix, k), i));
        }
        assert_true(json_number_value(json_object_get(label, "support")) == (double)support);
        assert_true(json_number_value(json_object_get(label, "predicted")) == (double)predicted);
        all += support;
        right += both;
        f1 += 2.0 * (double)both / (double)(support + predicted ? support + predicted : 1) / 3;
    }
    assert_int_equal(all, 60);
    assert_true(fabs(json_number_value(json_object_get(o, "accuracy")) - (double)right / 60) < 1e-9);
    assert_true(fabs(json_number_value(json_object_get(o, "macro_f1")) - f1) < 1e-9);
    json_decref(o);
}

/* The lines that `snug` prints on a terminal of so many columns, in one text. */
static void run_on_terminal(int columns, const char *const *args, struct str *text)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master) && !ioctl(master, TIOCSWINSZ, &size));
    const char *name = ptsname(master);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        int fd = open(name, O_RDWR), null = open("/dev/null", O_WRONLY);
        dup2(fd, 1);
        dup2(null, 2);
        execv(getenv("SNUG_COMMAND"), (char *const *)(uintptr_t)args);
        _exit(127);
    }
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC); /* until the child has it, reading would end */
    bool ended = false;
    int status = 0;
    char buf[4096];
    fcntl(master, F_SETFL, O_NONBLOCK);
    for (ssize_t n = 0; !ended || n > 0;) {
        ended = ended || waitpid(pid, &status, WNOHANG) == pid;
        n = read(master, buf, sizeof buf);
        if (n > 0)
            str_append_n(text, buf, (size_t)n);
        else if (!ended)
            usleep(2000);
    }
    close(slave);
    close(master);
    assert_int_equal(status, 0);
}

static void tables_fit_the_terminal(void **state)
{
    (void)state;
    static const int widths[] = {40, 60, 80, 120};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct str text = {0};
        int lines = 0;
        run_on_terminal(widths[i], ARGS("snug", "eval", "--model", model, "--data", rows, "--device", "cpu"), &text);
        for (const char *line = str_text(&text), *end; (end = strstr(line, "\r\n")); line = end + 2) {
            assert_true(text_columns(line, (size_t)(end - line)) <= widths[i]);
            lines++;
        }
        assert_true(lines > 20);
        assert_non_null(strstr(str_text(&text), "precision"));
        assert_non_null(strstr(str_text(&text), "by what is predicted"));
        assert_int_equal(strstr(str_text(&text), "  predicted\r\n") != NULL, widths[i] >= 80); /* the last column */
        str_free(&text);
    }
}

/* Labels come with a model from strangers. */
static void labels_do_not_steer_the_terminal(void **state)
{
    (void)state;
    const char *steered = join(folder, "steered");
    assert_int_equal(mkdir(steered, 0700), 0);
    assert_int_equal(symlink(join(model, "model.safetensors"), join(steered, "model.safetensors")), 0);
    json_t *config = json_load_file(join(model, "config.json"), 0, NULL);
    const char *const names[] = {"a\xE2\x80\xAE", "b\xC2\x9B", "c\x1B[2J"};
    json_t *labels = json_object();
    for (int i = 0; i < 3; i++)
        json_object_set_new(labels, (const char *const[]){"0", "1", "2"}[i], json_string(names[i]));
    json_object_set_new(config, "id2label", labels);
    json_object_del(config, "label2id");
    assert_int_equal(json_dump_file(config, join(steered, "config.json"), 0), 0);
    json_decref(config);
    const char *const *commands[] = {
        ARGS("snug", "eval", "--model", steered, "--data", rows, "--device", "cpu"),
        ARGS("snug", "predict", "--model", steered, "--data", rows, "--device", "cpu"),
        ARGS("snug", "predict", "--model", steered, "--data", rows, "--device", "cpu", "--json")};
    for (int i = 0; i < 3; i++) {
        struct str text = {0};
        run_on_terminal(120, commands[i], &text);
        for (int k = 0; k < 3; k++)
            assert_null(strstr(str_text(&text), names[k]));
        assert_non_null(strstr(str_text(&text), i < 2 ? "a\\xE2\\x80\\xAE" : "a\\u202e"));
        str_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_and_threads_make_no_difference),
        cmocka_unit_test(parts_agree),
        cmocka_unit_test(tables_fit_the_terminal),
        cmocka_unit_test(labels_do_not_steer_the_terminal),
    };
    return cmocka_run_group_tests(tests, open_with_model, close_folder);
}
