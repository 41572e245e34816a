/* data/dataset: what is read from CSV and JSON: texts, labels, and what neither threads nor locales change. */
#include "dataset_help.h"

#include <locale.h>

static void check_ids(const struct dataset *d, int64_t row, const char *const *tokens)
{
    int32_t n = 0;
    for (; tokens[n]; n++) {
        int32_t want = tokenizer_id(tokenizer, tokens[n]);
        assert_true(want >= 0);
        assert_int_equal(d->ids[d->offsets[row] + n], want);
    }
    assert_int_equal(dataset_length(d, row), n);
}

static void csv_with_names(void **state)
{
    (void)state;
    struct dataset d = text(
        "a.csv", "id,text,label\r\n1,world,pos\r\n2,\"New York\nworld\",neg\r\n\r\n3,,pos\r\n4,null,\"Zürich, CH\"\r\n",
        TASK_AUTO);
    assert_int_equal(d.task, TASK_CLASS);
    assert_int_equal(d.n_rows, 4);
    check_ids(&d, 0, (const char *[]){"[CLS]", "world", "[SEP]", NULL});
    check_ids(&d, 2, (const char *[]){"[CLS]", "[SEP]", NULL});
    assert_int_equal(d.ids[d.offsets[2] - 2], tokenizer_id(tokenizer, "world"));
    assert_int_equal(d.empty, 1);
    assert_null(d.types);
    assert_int_equal(d.num_labels, 3);
    assert_string_equal(d.labels.names[0], "Zürich, CH");
    assert_string_equal(d.labels.names[1], "neg");
    assert_string_equal(d.labels.names[2], "pos");
    const int32_t classes[] = {2, 1, 2, 0};
    assert_memory_equal(d.classes, classes, sizeof classes);
    assert_int_equal(label_map_find(&d.labels, "pos"), 2);
    assert_int_equal(label_map_find(&d.labels, "po"), -1);
    assert_non_null(strstr(notes, "a.csv: 3 labels, sorted by name: 0 = Zürich, CH, 1 = neg, 2 = pos\n"));
    assert_non_null(strstr(notes, "a.csv: 1 rows have an empty text, and are kept\n"));
    /* evaluation: the training labels' ids, in any number and order */
    write_data("b.csv", "text,label\nworld,pos\nworld,pos\n");
    struct dataset_options o = options(TASK_CLASS);
    o.labels = &d.labels;
    struct dataset eval = opened(&o);
    assert_int_equal(eval.classes[1], 2);
    assert_int_equal(eval.num_labels, 3);
    assert_string_equal(notes, "");
    dataset_close(&eval);
    dataset_close(&d);
}

static void pairs_have_types(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"p.tsv", "sentence1\tsentence2\tlabel\nworld\tun ice\t1\nmy\tcard\t0\n"},
        {"p.jsonl",
         "{\"sentence1\":\"world\",\"sentence2\":\"un ice\",\"label\":1}\n\n{\"label\":0,\"sentence2\":\"card\","
         "\"sentence1\":\"my\"}"},
        {"p.json", "[{\"sentence1\":\"world\",\"sentence2\":\"un ice\",\"label\":1},\n {\"sentence1\":\"my\","
                   "\"sentence2\":\"card\",\"label\":0}]\n"},
        {"q.json", "{\"sentence1\":\"world\",\"sentence2\":\"un ice\",\"label\":1}\n{\"sentence1\":\"my\","
                   "\"sentence2\":\"card\",\"label\":0}\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct dataset d = text(files[i][0], files[i][1], TASK_CLASS);
        assert_int_equal(d.n_rows, 2);
        check_ids(&d, 0, (const char *[]){"[CLS]", "world", "[SEP]", "un", "ice", "[SEP]", NULL});
        const uint8_t types[] = {0, 0, 0, 1, 1, 1};
        assert_memory_equal(d.types, types, sizeof types);
        assert_int_equal(d.classes[0], 1);
        assert_int_equal(d.classes[1], 0);
        assert_string_equal(d.labels.names[1], "1");
        assert_true(d.labels.numbers);
        assert_int_equal(d.longest, 6);
        assert_int_equal(d.max_id, tokenizer_id(tokenizer, "ice") > tokenizer_id(tokenizer, "world")
                                       ? tokenizer_id(tokenizer, "ice")
                                       : tokenizer_id(tokenizer, "world"));
        dataset_close(&d);
    }
}

static void numbers_keep_their_value(void **state)
{
    (void)state;
    struct dataset d = text("n.csv", "text,label\na,1\nb,4\nc,2\n", TASK_CLASS);
    assert_int_equal(d.num_labels, 5);
    assert_int_equal(d.classes[1], 4);
    assert_non_null(strstr(notes, "labels are numbers and keep their value: 5 classes, 0 to 4; no row has 0"));
    dataset_close(&d);
    /* as ids of a model whose labels have names, which is said */
    struct label_map model;
    struct snug_err e;
    assert_int_equal(label_map_init(&model, (const char *const[]){"NEGATIVE", "POSITIVE"}, 2, "config.json", &e), 0);
    write_data("n.csv", "text,label\na,1\nb,1\n");
    struct dataset_options o = options(TASK_CLASS);
    o.labels = &model;
    d = opened(&o);
    assert_int_equal(d.classes[0], 1);
    assert_non_null(strstr(notes, "labels are numbers, taken as the model's ids: 0 = NEGATIVE, 1 = POSITIVE"));
    dataset_close(&d);
    label_map_free(&model);
}

static void several_labels(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"m.csv", "text,labels\nx,b; a\ny,\nz,c\n"},
        {"m.jsonl", "{\"text\":\"x\",\"labels\":[\"b\",\"a\"]}\n{\"text\":\"y\",\"labels\":[]}\n{\"text\":\"z\","
                    "\"labels\":[\"c\"]}\n"},
        {"v.csv", "text,labels\nx,1;1;0\ny,0;0;0\nz,0;0;1\n"},
        {"v.jsonl", "{\"text\":\"x\",\"labels\":[1,1,0]}\n{\"text\":\"y\",\"labels\":[0,0,0]}\n{\"text\":\"z\","
                    "\"labels\":[0.0,0,1.0]}\n"},
        {"w.csv", "text,labels\nx,\"[1, 1, 0]\"\ny,\"[0,0,0]\"\nz,\"[0,0,1]\"\n"},
        {"i.jsonl",
         "{\"text\":\"x\",\"labels\":[1,0]}\n{\"text\":\"y\",\"labels\":[]}\n{\"text\":\"z\",\"labels\":[2]}\n"},
    };
    const float want[] = {1, 1, 0, 0, 0, 0, 0, 0, 1};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct dataset d = text(same[i][0], same[i][1], TASK_MULTI_LABEL);
        check_values(&d, want, 9);
        assert_string_equal(d.labels.names[2], i < 2 ? "c" : "LABEL_2");
        dataset_close(&d);
    }
    struct dataset d = text("r.csv", "text,score\nx,0.5\ny,-1e-3\nz,3\n", TASK_REGRESSION);
    check_values(&d, (const float[]){0.5f, -1e-3f, 3}, 3);
    dataset_close(&d);
    d = text("r.jsonl", "{\"text\":\"x\",\"target\":[1,2.5]}\n{\"text\":\"y\",\"target\":[-1,0]}\n", TASK_REGRESSION);
    check_values(&d, (const float[]){1, 2.5f, -1, 0}, 4);
    dataset_close(&d);
}

static void language_models_need_no_label(void **state)
{
    (void)state;
    struct dataset d = text("l.csv", "text,label\nworld,x\nice,\n", TASK_CAUSAL_LM);
    assert_int_equal(d.n_rows, 2);
    assert_null(d.targets);
    assert_int_equal(d.num_labels, 0);
    dataset_close(&d);
    d = text("l.csv", "text\nworld\n\n", TASK_UNLABELED);
    assert_int_equal(d.n_rows, 1);
    dataset_close(&d);
}

/* A tokenizer without a template makes no token of an empty text. */
static void rows_without_tokens(void **state)
{
    (void)state;
    struct tokenizer *bare;
    struct snug_err e;
    struct dataset d;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/tests/tokenizer/recorded/bare", getenv("SNUG_SOURCE"));
    assert_int_equal(tokenizer_open(&io_posix, folder, &bare, &e), 0);
    write_data("e.csv", "text\n\"\"\nworld\n\"\"\nworld world\n");
    struct dataset_options o = options(TASK_CAUSAL_LM);
    o.tokenizer = bare;
    d = opened(&o);
    assert_int_equal(d.n_rows, 2);
    assert_int_equal(d.offsets[2], d.n_tokens);
    assert_int_equal(d.empty, 2);
    dataset_close(&d);
    o.task = TASK_UNLABELED;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "e.csv: row 0: no tokens"));
    tokenizer_close(bare);
}

static void long_rows_are_cut_and_counted(void **state)
{
    (void)state;
    write_data("t.csv", "text\nworld world world world\nworld\nworld world world\n");
    struct dataset_options o = options(TASK_UNLABELED);
    o.max_length = 4;
    struct dataset d = opened(&o);
    assert_int_equal(d.truncated, 2);
    assert_int_equal(d.longest, 4);
    check_ids(&d, 0, (const char *[]){"[CLS]", "world", "world", "[SEP]", NULL});
    assert_non_null(strstr(notes, "2 of 3 rows (66.7 %) were longer than 4 tokens and are cut (--max-length)"));
    dataset_close(&d);
}

static void threads_do_not_show(void **state)
{
    (void)state;
    enum { ROWS = 40000 };
    char *content = malloc(64 * ROWS);
    size_t n = (size_t)sprintf(content, "text,label\n");
    for (int i = 0; i < ROWS; i++)
        n += (size_t)sprintf(content + n, "%.*s %d,%d\n", i % 25, "world ice cream want need", i, i % 7);
    write_file("big.csv", content, n);
    struct dataset_options o = options(TASK_CLASS);
    struct dataset one = opened(&o);
    static const int threads[] = {2, 7, 64, 0};
    for (int i = 0; i < 4; i++) {
        o.threads = threads[i];
        struct dataset d = opened(&o);
        assert_int_equal(d.n_tokens, one.n_tokens);
        assert_memory_equal(d.offsets, one.offsets, (ROWS + 1) * sizeof *d.offsets);
        assert_memory_equal(d.ids, one.ids, (size_t)d.n_tokens * sizeof *d.ids);
        assert_memory_equal(d.classes, one.classes, ROWS * sizeof *d.classes);
        assert_memory_equal(&d.fingerprint, &one.fingerprint, sizeof d.fingerprint);
        dataset_close(&d);
    }
    dataset_close(&one);
    free(content);
}

/* D17: each thing that makes other data makes another fingerprint; the file's name does not. */
static void fingerprints(void **state)
{
    (void)state;
    struct hash128 seen[8];
    int n = 0;
    static const char content[] = "text,content,label,category\nworld,ice,0,a\nice,ice,1,b\n";
    write_data("f.csv", content);
    struct dataset_options o = options(TASK_CLASS);
#define ADD(change)                                                                                                    \
    do {                                                                                                               \
        change;                                                                                                        \
        struct dataset d = opened(&o);                                                                                 \
        seen[n++] = dataset_fingerprint(&d);                                                                           \
        dataset_close(&d);                                                                                             \
    } while (0)
    ADD(o.path = path);
    ADD(o.max_length = 32);
    ADD(o.text_column = "content");
    ADD(o.label_column = "category");
    ADD(write_data("f.csv", "text,content,label,category\nworld,ice,0,a\nice,ice,1,c\n"));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            assert_true(memcmp(&seen[i], &seen[j], sizeof *seen) != 0);
    write_data("g.csv", content);
    o = options(TASK_CLASS);
    ADD(o.text_column = "text"); /* what is found without being named */
    assert_memory_equal(&seen[0], &seen[n - 1], sizeof *seen);
#undef ADD
}

/* "1,5" is no number anywhere, and 1.5 is one in a German locale too, where it is installed. */
static void locales_do_not_matter(void **state)
{
    (void)state;
    char *before = strdup(setlocale(LC_ALL, NULL));
    setlocale(LC_ALL, "de_DE.UTF-8");
    struct dataset d = text("r.csv", "text,score\nx,1.5\n", TASK_REGRESSION);
    check_values(&d, (const float[]){1.5f}, 1);
    dataset_close(&d);
    setlocale(LC_ALL, before);
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_with_names),
        cmocka_unit_test(pairs_have_types),
        cmocka_unit_test(numbers_keep_their_value),
        cmocka_unit_test(several_labels),
        cmocka_unit_test(language_models_need_no_label),
        cmocka_unit_test(rows_without_tokens),
        cmocka_unit_test(long_rows_are_cut_and_counted),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(locales_do_not_matter),
    };
    return cmocka_run_group_tests_name("dataset_text", tests, set_up, tear_down);
}
