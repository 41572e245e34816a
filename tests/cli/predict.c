/* snug predict as people use it: texts of the command line, files and pipes of every kind, pairs; what comes out, and what is
 * left when something goes wrong. What a text must get is what its token ids get from a file of tensors, which tests/run/golden.c
 * holds against transformers. */
#include "../run/command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *model, *regression, *labels; /* folders: classes no, perhaps and yes; a number; several labels */

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(join(folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *name)
{
    static char text[4 << 20];
    FILE *f = fopen(*name == '/' ? name : join(folder, name), "r");
    if (!f)
        return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* The fixture's folder with a vocabulary (a is token 5, b 6, ...), and its config.json changed. */
static const char *make_model(const char *name, const char *fixture_name, const char *key, json_t *value)
{
    static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const char *from = fixture(fixture_name), *to = join(folder, name);
    assert_int_equal(mkdir(to, 0777), 0);
    assert_int_equal(symlink(join(from, "model.safetensors"), join(to, "model.safetensors")), 0);
    json_t *config = json_load_file(join(from, "config.json"), 0, NULL);
    json_object_del(config, "label2id"); /* which has to agree with id2label */
    json_object_set_new(config, key, value);
    assert_int_equal(json_dump_file(config, join(to, "config.json"), 0), 0);
    FILE *f = fopen(join(to, "vocab.txt"), "w");
    json_int_t n = json_integer_value(json_object_get(config, "vocab_size"));
    for (json_int_t i = 0; i < n; i++) {
        if (i < 5)
            fprintf(f, "%s\n", words[i]);
        else if (i < 31)
            fprintf(f, "%c\n", (char)('a' + i - 5));
        else
            fprintf(f, "##%c\n", (char)('a' + i - 31));
    }
    fclose(f);
    json_decref(config);
    return to;
}

static int open_models(void **state)
{
    int code = open_folder(state);
    model = make_model("classes", "golden/trainer/init", "id2label",
                       json_pack("{s:s,s:s,s:s}", "0", "no", "1", "perhaps", "2", "yes"));
    regression = make_model("number", "golden/bert_regression", "problem_type", json_string("regression"));
    labels = make_model("labels", "golden/bert_multilabel", "problem_type", json_string("multi_label_classification"));
    return code;
}

static const char *predict(const char *with, const char *const *args)
{
    expect_snug(0, said(), ARGS("predict", "--model", with, "--device", "cpu", "--threads", "2"), args);
    return read_file(said());
}

/* The i-th line that is no note. */
static char *line(const char *text, int i)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        if (strncmp(text, "snug: ", 6) != 0 && i-- == 0)
            return strndup(text, (size_t)(end - text));
    return NULL;
}

#define LINE_IS(text, i, wanted)                                                                                       \
    do {                                                                                                               \
        char *line_ = line(text, i);                                                                                   \
        assert_non_null(line_);                                                                                        \
        assert_string_equal(line_, wanted);                                                                            \
        free(line_);                                                                                                   \
    } while (0)

/* The probabilities of row `i`, which --json shows. */
static json_t *row(const char *text, int i)
{
    char *l = line(text, i);
    assert_non_null(l);
    json_t *o = json_loads(l, 0, NULL);
    if (!o)
        fail_msg("no object: %s", l);
    free(l);
    return o;
}

/* The rows "a b", "c", "d e f" as token ids: what texts must agree with. */
static const char *tensors(void)
{
    static const int32_t ids[3][5] = {{2, 5, 6, 3, 0}, {2, 7, 3, 0, 0}, {2, 8, 9, 10, 3}};
    int32_t mask[3][5];
    const char *path = join(folder, "ids.safetensors");
    struct st_tensor t[2] = {{.name = "attention_mask", .dtype = DT_I32, .ndim = 2, .shape = {3, 5}},
                             {.name = "input_ids", .dtype = DT_I32, .ndim = 2, .shape = {3, 5}}};
    struct st_writer w;
    for (int i = 0; i < 15; i++)
        mask[i / 5][i % 5] = ids[i / 5][i % 5] != 0;
    unlink(path);
    assert_int_equal(st_create(&io_posix, path, t, 2, NULL, 0, false, &w, NULL), SNUG_OK);
    assert_int_equal(st_write(&w, &t[0], 0, mask, sizeof mask, NULL), SNUG_OK);
    assert_int_equal(st_write(&w, &t[1], 0, ids, sizeof ids, NULL), SNUG_OK);
    assert_int_equal(st_finish(&w, NULL, NULL), SNUG_OK);
    return path;
}

static void every_kind_of_text_is_the_same(void **state)
{
    (void)state;
    json_t *want[3];
    const char *text = predict(model, ARGS("--data", tensors(), "--json"));
    for (int i = 0; i < 3; i++)
        want[i] = row(text, i);
    assert_null(json_object_get(want[0], "input"));
    write_file("t.txt", "a b\nc\nd e f");
    write_file("t.csv", "id,text\n1,a b\n2,c\n3,d e f\n");
    write_file("t.jsonl", "{\"text\":\"a b\"}\n{\"text\":\"c\",\"n\":1}\n{\"text\":\"d e f\"}\n");
    const char *const *kinds[] = {ARGS("--json", "--text", "a b", "--text", "c", "--text", "d e f"),
                                  ARGS("--json", "--data", join(folder, "t.txt")),
                                  ARGS("--json", "--data", join(folder, "t.csv")),
                                  ARGS("--json", "--data", join(folder, "t.jsonl"), "--batch-size", "1")};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        text = predict(model, kinds[k]);
        for (int i = 0; i < 3; i++) {
            json_t *got = row(text, i);
            json_t *input = json_object_get(got, "input");
            assert_string_equal(json_string_value(json_object_get(input, "text")), i == 0   ? "a b"
                                                                                   : i == 1 ? "c"
                                                                                            : "d e f");
            if (k == 3 && i == 1)
                assert_int_equal(json_integer_value(json_object_get(input, "n")), 1);
            json_object_del(got, "input");
            assert_true(json_equal(got, want[i]));
            json_decref(got);
        }
    }
    for (int i = 0; i < 3; i++)
        json_decref(want[i]);
}

/* A pair is [CLS] a [SEP] b [SEP]: not what its first text alone gets, nor the two turned round. */
static void pairs(void **state)
{
    (void)state;
    write_file("p.csv", "sentence1,sentence2\na b,c\nc,a b\na b,c\n");
    char *text = strdup(predict(model, ARGS("--data", join(folder, "p.csv"), "--json")));
    json_t *first = row(text, 0), *turned = row(text, 1), *again = row(text, 2);
    assert_true(json_equal(json_object_get(first, "probabilities"), json_object_get(again, "probabilities")));
    assert_false(json_equal(json_object_get(first, "probabilities"), json_object_get(turned, "probabilities")));
    json_t *line_of = row(predict(model, ARGS("--json", "--text", "a b", "--text-pair", "c")), 0);
    assert_true(json_equal(json_object_get(first, "probabilities"), json_object_get(line_of, "probabilities")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(line_of, "input"), "text_pair")), "c");
    json_decref(first), json_decref(turned), json_decref(again), json_decref(line_of);
    free(text);
}

/* The input's columns follow, quoted as they must be; a name that a prediction has gets input_ in front. */
static void columns_are_kept(void **state)
{
    (void)state;
    write_file("c.csv", "label,text,row,a;b\nx,\"a, \"\"b\"\"\",7,\"two\nlines\"\n");
    const char *text = predict(model, ARGS("--data", join(folder, "c.csv")));
    LINE_IS(text, 0, "row,label,no,perhaps,yes,input_label,text,input_row,a;b");
    assert_non_null(strstr(text, ",x,\"a, \"\"b\"\"\",7,\"two\nlines\"\n"));
    write_file("o.jsonl", "{\"text\":\"a\",\"meta\":{\"id\":[1,null]},\"label\":true}\n");
    json_t *o = row(predict(model, ARGS("--json", "--data", join(folder, "o.jsonl"))), 0);
    json_t *input = json_pack("{s:s,s:{s:[i,n]},s:b}", "text", "a", "meta", "id", 1, "label", 1);
    assert_true(json_equal(json_object_get(o, "input"), input));
    json_decref(o), json_decref(input);
    text = predict(model, ARGS("--data", join(folder, "o.jsonl")));
    LINE_IS(text, 0, "row,label,no,perhaps,yes,text,meta,input_label");
    assert_non_null(strstr(text, ",a,\"{\"\"id\"\":[1,null]}\",true\n"));
}

static void the_likeliest_come_first(void **state)
{
    (void)state;
    json_t *all = row(predict(model, ARGS("--json", "--text", "a b c")), 0);
    json_t *two = row(predict(model, ARGS("--json", "--text", "a b c", "--top-k", "2")), 0);
    json_t *p = json_object_get(all, "probabilities"), *shown = json_object_get(two, "probabilities");
    const char *best = json_string_value(json_object_get(all, "label")), *name;
    double before = 1, sum = 0;
    json_t *v;
    assert_int_equal(json_object_size(p), 3);
    assert_int_equal(json_object_size(shown), 2);
    assert_string_equal(json_object_iter_key(json_object_iter(shown)), best);
    json_object_foreach(shown, name, v)
    {
        assert_true(json_equal(v, json_object_get(p, name)));
        assert_true(json_real_value(v) <= before);
        before = json_real_value(v);
    }
    json_object_foreach(p, name, v)
    {
        sum += json_real_value(v);
        assert_true(json_object_get(shown, name) || json_real_value(v) <= before);
    }
    assert_true(fabs(sum - 1) < 1e-5);
    LINE_IS(predict(model, ARGS("--text", "a b c", "--top-k", "2")), 0,
            "row,label,label_1,probability_1,label_2,probability_2,text");
    json_decref(all), json_decref(two);
    expect_snug(2, said(), ARGS("predict", "--model", regression, "--text", "a", "--top-k", "2"), NULL);
    assert_true(file_has(said(), "--top-k: no effect on regression"));
}

/* Probabilities of labels do not depend on the threshold; which are named does. */
static void labels_above_the_threshold(void **state)
{
    (void)state;
    static const char *const thresholds[] = {"0.01", "0.5", "0.99"};
    for (size_t i = 0; i < 3; i++) {
        json_t *o = row(predict(labels, ARGS("--json", "--text", "a b", "--threshold", thresholds[i])), 0), *v;
        const char *name;
        size_t above = 0;
        json_object_foreach(json_object_get(o, "probabilities"), name, v) above +=
            json_real_value(v) > strtod(thresholds[i], NULL);
        assert_int_equal(json_array_size(json_object_get(o, "label")), above);
        json_decref(o);
    }
    char *text = line(predict(regression, ARGS("--text", "a b")), 0);
    assert_int_equal(strncmp(text, "row,LABEL_0", 11), 0);
    free(text);
    expect_snug(2, said(), ARGS("predict", "--model", model, "--text", "a", "--threshold", "0.3"), NULL);
    assert_true(file_has(said(), "--threshold: no effect"));
}

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
    say(&c, "[ {\"text\":\"a\"}]\n");
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
    write_file("t.csv", "id,text\n1,a b\n2,c\n3,d e f\n");
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

    write_file("t.csv", "id,text\n1,a b\n2,c\n3,d,e\n"); /* a bad row in the end */
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
    write_file("t.csv", "id,text\n1,a b\n2,c\n3,d e f\n");
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

static void usage(void **state)
{
    (void)state;
    expect_snug(2, said(), ARGS("predict", "--model", model), NULL);
    assert_true(file_has(said(), "--data: 'snug predict' needs it"));
    expect_snug(2, said(), ARGS("predict", "--model", model, "--data", "x.csv", "--text", "a"), NULL);
    assert_true(file_has(said(), "--text: serves the same as --data; give one of them"));
    expect_snug(2, said(), ARGS("predict", "--model", model, "--text", "a", "--text", "b", "--text-pair", "c"), NULL);
    assert_true(file_has(said(), "--text-pair: 1 for 2 --text"));
    expect_snug(2, said(), ARGS("predict", "--model", model, "--text", "a", "--overwrite-output"), NULL);
    assert_true(file_has(said(), "--overwrite-output: no effect without --output"));
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_text_is_the_same),
        cmocka_unit_test(pairs),
        cmocka_unit_test(columns_are_kept),
        cmocka_unit_test(the_likeliest_come_first),
        cmocka_unit_test(labels_above_the_threshold),
        cmocka_unit_test(a_pipe_is_answered_row_by_row),
        cmocka_unit_test(bad_rows_and_signals_in_a_pipe),
        cmocka_unit_test(an_output_file_is_whole_or_not_there),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(usage),
    };
    return cmocka_run_group_tests(tests, open_models, close_folder);
}
