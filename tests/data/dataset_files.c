/* data/dataset: several files as one table, text files, and what is said of columns that were found by their names. */
#include "dataset_help.h"

static char paths[3][160];

static void write_to(int i, const char *name, const char *content)
{
    snprintf(paths[i], sizeof paths[i], "%s", write_data(name, content));
}

/* The first file, and `n_more` behind it. */
static struct dataset_options of_files(enum data_task task, size_t n_more)
{
    static const char *more[2];
    more[0] = paths[1], more[1] = paths[2];
    struct dataset_options o = options(task);
    o.path = paths[0];
    o.more_paths = more;
    o.n_more_paths = n_more;
    return o;
}

static void check_same_rows(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->offsets, b->offsets, (size_t)(a->n_rows + 1) * sizeof *a->offsets);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_tokens * sizeof *a->ids);
    assert_int_equal(a->num_labels, b->num_labels);
    if (a->classes)
        assert_memory_equal(a->classes, b->classes, (size_t)a->n_rows * sizeof *a->classes);
}

static void several_files_are_one_table(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {".csv", "text,label\nworld,b\n\"ice\ncream\",a\n", "label,text\r\nc,un\r\n",
         "text,label\nworld,b\n\"ice\ncream\",a\nun,c\nmy,a\n"},
        {".jsonl", "{\"text\":\"world\",\"label\":\"b\"}\n{\"text\":\"ice\\ncream\",\"label\":\"a\"}",
         "{\"label\":\"c\",\"text\":\"un\"}\n",
         "{\"text\":\"world\",\"label\":\"b\"}\n{\"text\":\"ice\\ncream\",\"label\":\"a\"}\n{\"text\":\"un\",\"label\":"
         "\"c\"}\n{\"text\":\"my\",\"label\":\"a\"}\n"},
        {".json", "[{\"text\":\"world\",\"label\":\"b\"},{\"text\":\"ice\\ncream\",\"label\":\"a\"}]",
         "{\"label\":\"c\",\"text\":\"un\"}\n",
         "[{\"text\":\"world\",\"label\":\"b\"},{\"text\":\"ice\\ncream\",\"label\":\"a\"},{\"text\":\"un\",\"label\":"
         "\"c\"},{\"text\":\"my\",\"label\":\"a\"}]"},
    };
    static const char *const last[] = {"text,label\nmy,a\n", "{\"text\":\"my\",\"label\":\"a\"}\n",
                                       "[{\"text\":\"my\",\"label\":\"a\"}]"};
    char cache[96];
    snprintf(cache, sizeof cache, "%s/cache", dir);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        snprintf(name, sizeof name, "all%s", cases[i][0]);
        struct dataset all = text(name, cases[i][3], TASK_CLASS);
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "%c%s", 'a' + k, cases[i][0]);
            write_to(k, name, k == 2 ? last[i] : cases[i][k + 1]);
        }
        struct dataset_options o = of_files(TASK_CLASS, 2);
        o.cache_dir = cache;
        struct dataset parts = opened(&o), again = opened(&o);
        assert_non_null(strstr(notes, " and 2 more: 3 labels, sorted by name: 0 = a, 1 = b, 2 = c"));
        assert_non_null(again.block); /* from the cache */
        check_same_rows(&all, &parts);
        check_same_rows(&all, &again);
        assert_memory_equal(&parts.fingerprint, &again.fingerprint, sizeof parts.fingerprint);
        struct dataset_options fewer = of_files(TASK_CLASS, 1);
        struct dataset two = opened(&fewer);
        assert_int_equal(two.n_rows, 3);
        assert_true(memcmp(&parts.fingerprint, &two.fingerprint, sizeof two.fingerprint) != 0);
        dataset_close(&two);
        dataset_close(&all);
        dataset_close(&parts);
        dataset_close(&again);
    }
}

/* An array is read piece by piece: whatever is in its rows, and wherever a piece ends, they are those of JSON lines. */
static void an_array_has_the_rows_of_lines(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{\"text\":\"world ]}, [{ \\\\\",\"label\":\"b\"}",
        "{\"label\":\"a\",\"text\":\"ice \\\"cream\\\"},\",\"more\":[[{\"x\":[1,2]}],\"]\"]}",
        "{\"text\":\"un\",\"label\":\"c\",\"no\":{}}"};
    enum { ROWS = 60000, MOST = 80 };
    char *lines = malloc((size_t)ROWS * MOST), *array = malloc((size_t)ROWS * (MOST + 4));
    size_t n = 0, m = 0;
    for (int i = 0; i < ROWS; i++) {
        const char *row = rows[i * 7 % 11 % 3];
        n += (size_t)sprintf(lines + n, "%s\n", row);
        m += (size_t)sprintf(array + m, "%s%s%s", i ? "," : " \n[", i % 5 ? "" : "\r\n\t", row);
    }
    sprintf(array + m, "\n]\n\n");
    struct dataset a = text("a.json", array, TASK_CLASS), b = text("a.jsonl", lines, TASK_CLASS);
    assert_int_equal(a.n_rows, ROWS);
    check_same_rows(&a, &b);
    dataset_close(&a);
    dataset_close(&b);
    free(lines);
    free(array);
}

static void files_must_agree(void **state)
{
    (void)state;
    static const struct {
        const char *name, *content, *message;
    } seconds[] = {
        {"b.csv", "text,category\nun,a\n", "b.csv: no column 'label', which "},
        {"b.csv", "text,label,id\nun,a,1\n", "a.csv has no column 'id'; several files need the same columns"},
        {"b.csv", "text,label\nun,1\n", "b.csv:2: label '1' is a number, but that of line 2 is a name"},
        {"b.csv", "text,label\nun\n", "b.csv:2: 1 fields where the header has 2"},
        {"b.csv", "", "b.csv: the file is empty"},
        {"b.jsonl", "{\"text\":\"un\",\"label\":\"a\"}\n", "b.jsonl: of another kind than "},
        {"b.safetensors", "x", "b.safetensors: of another kind than "},
    };
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        write_to(0, "a.csv", "text,label\nworld,b\n");
        write_to(1, seconds[i].name, seconds[i].content);
        struct dataset_options o = of_files(TASK_CLASS, 1);
        struct dataset d;
        struct snug_err e;
        assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
        if (!strstr(e.text, seconds[i].message))
            fail_msg("%zu: %s", i, e.text);
    }
    write_to(0, "a.csv", "text,label\nworld,b\nice,a\n");
    write_to(1, "b.csv", "text,label\n"); /* a header only is no mistake here */
    struct dataset_options o = of_files(TASK_CLASS, 1);
    struct dataset d = opened(&o);
    assert_int_equal(d.n_rows, 2);
    dataset_close(&d);
}

static void check_texts(const struct dataset *d, const char *const *words, int64_t n)
{
    assert_int_equal(d->n_rows, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(dataset_length(d, i), *words[i] ? 3 : 2);
        if (*words[i])
            assert_int_equal(d->ids[d->offsets[i] + 1], tokenizer_id(tokenizer, words[i]));
    }
}

/* For a language model blank lines part paragraphs, as for run_mlm.py --line_by_line; for a prediction each is a row, so
 * that row and line have one number. */
static void text_files(void **state)
{
    (void)state;
    static const char content[] = "world\r\n\r\nice\n \t \ncream\rmy";
    struct dataset d = text("t.txt", content, TASK_MASKED_LM);
    check_texts(&d, (const char *const[]){"world", "ice", "cream", "my"}, 4);
    assert_int_equal(d.empty, 0);
    dataset_close(&d);
    d = text("t.txt", content, TASK_UNLABELED);
    check_texts(&d, (const char *const[]){"world", "", "ice", "", "cream", "my"}, 6);
    assert_int_equal(d.empty, 1);
    dataset_close(&d);
    d = text("t.txt", "my,ice\n\"un\n", TASK_CAUSAL_LM); /* no header, no quotes */
    assert_int_equal(d.n_rows, 2);
    assert_int_equal(d.ids[d.offsets[0] + 2], tokenizer_id(tokenizer, ","));
    dataset_close(&d);
    write_to(0, "a.txt", "world\n");
    write_to(1, "b.txt", "ice");
    struct dataset_options o = of_files(TASK_MASKED_LM, 1);
    d = opened(&o);
    check_texts(&d, (const char *const[]){"world", "ice"}, 2);
    dataset_close(&d);
    struct snug_err e;
    o = options(TASK_CLASS);
    o.path = paths[0];
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "a.txt: a text file has no label; give .csv or .jsonl"));
}

static void guesses_are_said(void **state)
{
    (void)state;
    struct dataset d = text("g.csv", "Id,Tweet,Sentiment\n1,world,a\n2,ice,b\n", TASK_CLASS);
    assert_non_null(
        strstr(notes, "g.csv: the text is the column 'Tweet', by its name; --text-column chooses another\n"));
    assert_non_null(
        strstr(notes, "g.csv: the label is the column 'Sentiment', by its name; --label-column chooses another\n"));
    struct dataset_options o = options(TASK_CLASS);
    o.labels = &d.labels;
    struct dataset eval = opened(&o);
    assert_string_equal(notes, "");
    dataset_close(&eval);
    o = options(TASK_CLASS);
    o.text_column = "tweet";
    o.label_column = "sentiment";
    eval = opened(&o);
    assert_null(strstr(notes, "by its name"));
    dataset_close(&eval);
    dataset_close(&d);
    d = text("g.csv", "Title,Body\nworld,ice\n", TASK_UNLABELED);
    assert_non_null(
        strstr(notes, "g.csv: the texts are the columns 'Title' and 'Body', by their names; --text-column "));
    assert_int_equal(d.types[d.n_tokens - 1], 1);
    dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_files_are_one_table),
        cmocka_unit_test(an_array_has_the_rows_of_lines),
        cmocka_unit_test(files_must_agree),
        cmocka_unit_test(text_files),
        cmocka_unit_test(guesses_are_said),
    };
    return cmocka_run_group_tests_name("dataset_files", tests, set_up, tear_down);
}
