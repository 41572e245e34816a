/* What a run shows on a terminal: a pseudo-terminal whose screen is kept here, by the few controls that xterm's manual
 * gives for a carriage return, erasing and moving up. A character behind the last column is a line that has wrapped. */
#include "../run/command.h"
#include "cli/progress.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 512, WIDEST = 512 };

struct terminal {
    char text[LINES][WIDEST]; /* a character of several bytes, one column wide, is a '?' */
    int row, column, columns;
    bool wrapped;
    int draws, ends; /* carriage returns, line ends */
};

static void put_character(struct terminal *t, char c)
{
    if (t->column == t->columns) {
        t->wrapped = true;
        t->row++;
        t->column = 0;
    }
    assert_in_range(t->row, 0, LINES - 1);
    t->text[t->row][t->column++] = c;
}

static void put(struct terminal *t, const char **s)
{
    if (**s == '\033') {
        assert_int_equal((*s)[1], '[');
        *s += 2;
        if (**s == 'A')
            t->row--;
        else if (**s == 'J')
            memset(t->text[t->row] + t->column, 0, sizeof t->text - (size_t)(t->row * WIDEST + t->column));
        else
            fail_msg("an unknown control: ESC [ %c", **s);
    } else if (**s == '\r') {
        t->column = 0;
        t->draws++;
    } else if (**s == '\n') {
        t->row++;
        t->ends++;
    } else if ((**s & 0xC0) != 0x80) {
        put_character(t, **s & 0x80 ? '?' : **s);
    }
    assert_in_range(t->row, 0, LINES - 1);
}

/* The line that is being drawn is laid out anew, as most terminals do with all. */
static void resize(struct terminal *t, int columns)
{
    char line[WIDEST];
    memcpy(line, t->text[t->row], sizeof line);
    memset(t->text[t->row], 0, sizeof line);
    t->columns = columns;
    t->column = 0;
    for (const char *s = line; *s; s++)
        put_character(t, *s);
}

static void print_screen(const struct terminal *t)
{
    for (int i = 0; i <= t->row; i++)
        print_message("%s\n", t->text[i]);
}

static const char *rows;

static int open_with_model(void **state)
{
    int code = open_folder(state) || symlink(fixture("golden/trainer/init"), join(folder, "m"));
    rows = strrchr(make_rows(folder, 96, 12, 5, true), '/') + 1;
    return code;
}

/* Runs snug with `columns` columns, and gives what stands there. When there are `narrow_at` log lines, the window gets
 * `then` columns. */
static void run_on_terminal(struct terminal *t, const char *const *argv, int columns, int narrow_at, int then,
                            const char *kind)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int controller = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(controller >= 0 && !grantpt(controller) && !unlockpt(controller));
    int side = open(ptsname(controller), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(side >= 0);
    assert_int_equal(ioctl(side, TIOCSWINSZ, &size), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setenv("TERM", kind, 1);
        if (!chdir(folder) && dup2(side, 1) >= 0 && dup2(side, 2) >= 0)
            execv(getenv("SNUG_COMMAND"), (char *const *)argv);
        _exit(127);
    }
    close(side);
    *t = (struct terminal){.columns = columns};
    char bytes[4096];
    int logged = 0;
    for (ssize_t n; (n = read(controller, bytes, sizeof bytes - 1)) > 0;) {
        bytes[n] = 0;
        for (const char *s = bytes; *s; s++) {
            put(t, &s);
            logged += *s == '\n' && t->row && strstr(t->text[t->row - 1], "epoch");
        }
        if (narrow_at && logged >= narrow_at && t->columns != then) {
            size.ws_col = (unsigned short)then;
            assert_int_equal(ioctl(controller, TIOCSWINSZ, &size), 0);
            resize(t, then); /* what is under way was made for the width before */
        }
    }
    close(controller);
    int code = end_of(pid);
    if (code) {
        print_screen(t);
        fail_msg("exit %d", code);
    }
}

/* Runs snug train for so many steps. */
static void train_on_terminal(struct terminal *t, const char *steps, int columns, int narrow_at, int then,
                              const char *kind)
{
    const char *argv[] = {"snug",
                          "train",
                          "--model",
                          "m",
                          "--train-data",
                          rows,
                          "--eval-data",
                          rows,
                          "--output-dir",
                          "out",
                          "--threads",
                          "1",
                          "--max-steps",
                          steps,
                          "--logging-steps",
                          "4",
                          "--eval-strategy",
                          "steps",
                          "--eval-steps",
                          "12",
                          "--save-strategy",
                          "no",
                          NULL};
    run_on_terminal(t, argv, columns, narrow_at, then, kind);
    remove_tree(join(folder, "out"));
}

static const char *find_line(const struct terminal *t, const char *beginning)
{
    for (int i = 0; i <= t->row; i++)
        if (!strncmp(t->text[i], beginning, strlen(beginning)))
            return t->text[i];
    return NULL;
}

/* At every width each logging step and each evaluation has a line that stays, the line that is drawn ends whole, and
 * none of the lines of the run is broken. */
static void lines_fit(void **state)
{
    (void)state;
    static const int widths[] = {40, 60, 80, 120};
    static struct terminal t;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        train_on_terminal(&t, "24", widths[i], 0, 0, "xterm");
        if (t.wrapped)
            print_screen(&t);
        assert_false(t.wrapped);
        assert_true(t.draws > t.row + 6); /* it was drawn again in its place, more often than lines ended */
        for (int step = 4; step <= 24; step += 4) {
            char beginning[32];
            snprintf(beginning, sizeof beginning, "step %d/24  ", step);
            const char *line = find_line(&t, beginning);
            if (!line || !strstr(line, "loss "))
                fail_msg("%d columns: no line of step %d", widths[i], step);
        }
        assert_non_null(find_line(&t, "evaluation at step 12:"));
        assert_non_null(find_line(&t, "evaluation at step 24:"));
    }
}

static void a_window_that_becomes_narrower(void **state)
{
    (void)state;
    static struct terminal t;
    train_on_terminal(&t, "400", 120, 2, 40, "xterm"); /* more than a pipe holds: not all is under way by then */
    const char *early = find_line(&t, "step 4/400  "), *late = find_line(&t, "step 400/400  ");
    if (!early || !late)
        print_screen(&t);
    assert_non_null(early);
    assert_non_null(late);
    assert_true(strlen(early) > 40);
    assert_null(strstr(late, "lr ")); /* for which the window is too narrow now */
}

static void a_dumb_terminal_has_plain_lines(void **state)
{
    (void)state;
    static struct terminal t;
    train_on_terminal(&t, "24", 200, 0, 0, "dumb");
    assert_int_equal(t.draws, t.ends); /* that the terminal's driver puts before line ends */
    const char *line = find_line(&t, "step 4/24  ");
    assert_non_null(line);
    assert_non_null(strstr(line, "tokens/s"));
}

/* A model of words: [PAD], [UNK], [CLS], [SEP], [MASK], a, b, ...; and a file of texts. */
static void make_texts(void)
{
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const char *from = fixture("golden/trainer/init");
    assert_int_equal(mkdir(join(folder, "words"), 0777), 0);
    assert_int_equal(symlink(join(from, "config.json"), join(folder, "words/config.json")), 0);
    assert_int_equal(symlink(join(from, "model.safetensors"), join(folder, "words/model.safetensors")), 0);
    FILE *vocab = fopen(join(folder, "words/vocab.txt"), "w"), *data = fopen(join(folder, "texts.csv"), "w");
    assert_true(vocab && data);
    for (int i = 0; i < 37; i++)
        i < 5 ? fprintf(vocab, "%s\n", special[i]) : fprintf(vocab, "%s%c\n", i < 31 ? "" : "##", 'a' + (i - 5) % 26);
    fputs("id,text\n7,a b c\n8,\"d\ne \x1b[31m\"\n9,", data);
    for (int i = 0; i < 60; i++)
        fputs("f ", data);
    fputs("\n", data);
    fclose(vocab);
    fclose(data);
}

/* The likeliest class of row i and its probability, as --json has them. */
static double likeliest(int i, char label[32])
{
    expect_snug(0, said(), ARGS("predict", "--model", join(folder, "words"), "--data", join(folder, "texts.csv")),
                ARGS("--json", "--device", "cpu"));
    FILE *f = fopen(said(), "r");
    assert_non_null(f);
    char line[1024];
    json_t *o = NULL;
    while (!o && fgets(line, sizeof line, f))
        if (*line == '{' && i-- == 0)
            o = json_loads(line, 0, NULL);
    fclose(f);
    snprintf(label, 32, "%s", json_string_value(json_object_get(o, "label")));
    double p = json_number_value(json_object_get(json_object_get(o, "probabilities"), label));
    json_decref(o);
    return p;
}

static void predictions_are_a_table(void **state)
{
    (void)state;
    static const char *const argv[] = {"snug",      "predict",  "--model", "words", "--data",
                                       "texts.csv", "--device", "cpu",     NULL};
    static const struct {
        int columns;
        const char *texts[4];
    } cases[] = {
        {40, {"id | text", "7 | a b c", "8 | d e \\x1B[31m", "9 | f f f f f f ?"}},
        {80,
         {"id | text", "7 | a b c", "8 | d e \\x1B[31m", "9 | f f f f f f f f f f f f f f f f f f f f f f f f f f ?"}},
    };
    static struct terminal t;
    make_texts();
    for (size_t k = 0; k < 2; k++) {
        run_on_terminal(&t, argv, cases[k].columns, 0, 0, "xterm");
        assert_false(t.wrapped);
        for (int i = 0; i < 4; i++)
            assert_non_null(strstr(t.text[i], cases[k].texts[i]));
        for (int i = 0; i < 3; i++) {
            char label[32], shown[32];
            double p = likeliest(i, label), x;
            int row;
            assert_int_equal(sscanf(t.text[1 + i], "%d %31s %lf", &row, shown, &x), 3);
            assert_int_equal(row, i);
            assert_string_equal(shown, label);
            assert_true(x > p - 1e-4 && x < p + 1e-4);
        }
    }
    run_on_terminal(&t, argv, 200, 0, 0, "dumb");
    assert_memory_equal(t.text[0], "row,label,", 10);
}

static void text_is_cut(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *text, *expected;
    } cases[] = {
        {5, "größe", "größe"}, {4, "größe", "grö…"}, {1, "größe", "…"}, {0, "größe", ""},
        {4, "你好", "你好"},   {3, "你好", "你…"},   {2, "你好", "…"},  {0, "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str out = {0};
        text_cut(&out, cases[i].text, cases[i].columns);
        assert_string_equal(str_text(&out), cases[i].expected);
        str_free(&out);
    }
}

/* From 40 columns on the line fits, whatever the numbers; the step and the time that is left are always there, in a
 * run of usual length the loss too, and what was shown is not left out again as the window grows. */
static void the_drawn_line(void **state)
{
    (void)state;
    static const struct snug_progress runs[] = {
        {1, 9, 0.1, 3, 0.5, 1, 5e-5, 1, 2, 3, 4, 1 << 20},
        {123456, 999999, 2.51, 3, 12.3456, 0.123, 1.2345e-5, 4000, 359999, 1234.5, 98765.4, (int64_t)99 << 30},
    };
    static const char *const parts[] = {"step ",  " left", "loss ", "[",         " samples/s",
                                        "epoch ", "lr ",   "iB",    " tokens/s", "norm "};
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++)
        for (int columns = 40; columns <= 200; columns++) {
            struct str line = {0};
            progress_drawn(&line, &runs[k], columns);
            assert_true((int)line.n < columns);
            bool gone = false;
            for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                bool there = strstr(str_text(&line), parts[i]) != NULL;
                if ((i < 2 && !there) || (i == 2 && !k && !there) || (there && gone) || (columns == 200 && !there))
                    fail_msg("%d columns: %s", columns, str_text(&line));
                gone |= !there;
            }
            str_free(&line);
        }
}

static void text_is_broken_between_words(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *text, *expected;
    } cases[] = {
        {10, "one two three", "one two\n  three"},
        {13, "one two three", "one two three"},
        {0, "one two three", "one two three"},
        {4, "a longword b", "a\n  longword\n  b"},
        {9, "größe größe", "größe\n  größe"}, /* 5 columns each, 7 bytes */
        {10, "你好你 好", "你好你 好"},       /* two columns each */
        {8, "你好你 好", "你好你\n  好"},
        {16, "x:  one 1  two 2", "x:  one 1  two 2"},
        {15, "x:  one 1  two 2", "x:  one 1\n  two 2"},
        {10, "model    a b c", "model    a\n  b c"},
        {14, "it takes 347 MiB of it", "it takes\n  347 MiB of\n  it"},
        {12, "these: 0 = aa, 1 = bb", "these:\n  0 = aa,\n  1 = bb"},
        {7, "at 12345 tokens", "at\n  12345\n  tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str out = {0};
        wrap_text(&out, cases[i].text, cases[i].columns, 2);
        assert_string_equal(str_text(&out), cases[i].expected);
        str_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_fit),
        cmocka_unit_test(a_window_that_becomes_narrower),
        cmocka_unit_test(a_dumb_terminal_has_plain_lines),
        cmocka_unit_test(predictions_are_a_table),
        cmocka_unit_test(text_is_cut),
        cmocka_unit_test(the_drawn_line),
        cmocka_unit_test(text_is_broken_between_words),
    };
    return cmocka_run_group_tests(tests, open_with_model, close_folder);
}
