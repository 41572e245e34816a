/* data/dataset: rows of words with tags, from JSON and from CoNLL's columns. */
#include "dataset_help.h"

#include "data/files/row_stream.h"

/* "payq" has two tokens, of which the second has no label; special tokens have none. */
static void tags_stand_at_first_tokens(void **state)
{
    static const struct {
        const char *name, *content;
    } same[] = {
        {"a.jsonl",
         "{\"tokens\":[\"card\",\"payq\"],\"tags\":[\"B-X\",\"O\"]}\n{\"tokens\":[\"my\"],\"tags\":[\"I-X\"]}\n"},
        {"b.jsonl", "{\"id\":7,\"words\":[\"card\",\"payq\"],\"ner_tags\":[\"B-X\",\"O\"]}\n{\"words\":[\"my\"],\"ner_"
                    "tags\":[\"I-X\"]}\n"},
        {"c.json",
         "[{\"tokens\":[\"card\",\"payq\"],\"labels\":[\"B-X\",\"O\"]},{\"tokens\":[\"my\"],\"labels\":[\"I-X\"]}]"},
        {"d.conll", "-DOCSTART- -X- O O\n\ncard NN x B-X\npayq NN y O\n\n\nmy P z I-X\n"},
        {"e.bio", "# id = 5\r\ncard\tB-X\r\npayq\tO\r\n\r\n# sent_id = 6\r\nmy\tI-X"},
    };
    (void)state;
    int32_t card = tokenizer_id(tokenizer, "card"), my = tokenizer_id(tokenizer, "my");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct dataset d = text(same[i].name, same[i].content, TASK_TOKEN_CLASS);
        assert_int_equal(d.n_rows, 2);
        assert_int_equal(d.num_labels, 3);
        assert_string_equal(d.labels.names[0], "B-X");
        assert_string_equal(d.labels.names[2], "O");
        assert_int_equal(d.offsets[1], 5);
        assert_int_equal(d.ids[1], card);
        assert_int_equal(d.ids[6], my);
        const int32_t want[] = {-100, 0, 2, -100, -100, -100, 1, -100};
        assert_int_equal(d.n_tokens, 8);
        assert_memory_equal(d.targets, want, sizeof want);
        assert_null(d.words);
        dataset_close(&d);
    }
    struct dataset d = text("n.jsonl", "{\"tokens\":[\"card\",\"pay\"],\"tags\":[4,0]}\n", TASK_TOKEN_CLASS);
    assert_int_equal(d.num_labels, 5);
    assert_int_equal(d.targets[1], 4);
    dataset_close(&d);
}

/* What is cut away has no label, and the number of rows that it happened to is said. */
static void long_rows_are_cut(void **state)
{
    (void)state;
    write_data("l.jsonl", "{\"tokens\":[\"card\",\"pay\",\"my\"],\"tags\":[\"A\",\"B\",\"A\"]}\n"
                          "{\"tokens\":[\"my\"],\"tags\":[\"B\"]}\n");
    struct dataset_options o = options(TASK_TOKEN_CLASS);
    o.max_length = 4;
    struct dataset d = opened(&o);
    const int32_t want[] = {-100, 0, 1, -100, -100, 1, -100};
    assert_int_equal(d.n_tokens, 7);
    assert_memory_equal(d.targets, want, sizeof want);
    assert_non_null(strstr(notes, "1 of 2 rows (50.0 %) were longer than 4 tokens and are cut"));
    dataset_close(&d);
}

static void the_cache_gives_the_same(void **state)
{
    (void)state;
    char cache[160];
    snprintf(cache, sizeof cache, "%s/cache", dir);
    write_data("c.conll", "card B-X\npay O\n\nmy I-X\n");
    struct dataset_options o = options(TASK_TOKEN_CLASS);
    o.cache_dir = cache;
    struct dataset first = opened(&o), again = opened(&o);
    assert_null(first.block);
    assert_non_null(again.block);
    assert_int_equal(again.n_tokens, first.n_tokens);
    assert_memory_equal(again.targets, first.targets, (size_t)first.n_tokens * sizeof *first.targets);
    assert_string_equal(again.labels.names[1], "I-X");
    assert_memory_equal(&again.fingerprint, &first.fingerprint, sizeof first.fingerprint);
    dataset_close(&first);
    dataset_close(&again);
}

static void a_look_shows_tags(void **state)
{
    static const struct {
        const char *name, *content;
        enum data_task labels;
    } cases[] = {
        {"a.jsonl", "{\"tokens\":[\"a\"],\"ner_tags\":[\"O\"]}\n", TASK_TOKEN_CLASS},
        {"b.conll", "a O\n", TASK_TOKEN_CLASS},
        {"c.conll", "a\nb\n", TASK_UNLABELED},
        {"d.jsonl", "{\"tokens\":\"a b\",\"text\":\"a\",\"label\":\"x\"}\n", TASK_CLASS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset_look look;
        struct snug_err e;
        struct dataset_options o = {.path = write_data(cases[i].name, cases[i].content)};
        assert_int_equal(dataset_look(&io_posix, &o, &look, &e), 0);
        assert_int_equal(look.labels, cases[i].labels);
    }
}

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *name, *content, *message;
    } cases[] = {
        {"a.jsonl", "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"O\"]}\n",
         ":1: 2 words in 'tokens' but 1 tags in 'tags'; each word needs one"},
        {"b.jsonl", "{\"tokens\":[\"a\",3],\"tags\":[\"O\",\"O\"]}\n",
         ":1: word 1 of 'tokens' is 3; write each word as a string"},
        {"c.jsonl", "{\"tokens\":[\"a\"],\"tags\":[\"O\"]}\n{\"tokens\":\"b\",\"tags\":[\"O\"]}\n",
         ":2: 'tokens' is \"b\"; write the words of the row as a list of strings"},
        {"d.jsonl", "{\"tokens\":[\"a\"],\"x\":[\"O\"]}\n",
         ": no column with a usual name for the tags, such as 'tags'; name one with --label-column"},
        {"e.conll", "a O\nb X O\n",
         ":2: 3 columns where the lines before have 2; write a word and its tag on each line, and a blank line between "
         "sentences"},
        {"f.conll", "\n\n", ": no sentences in it; 0 rows"},
        {"g.csv", "text,label\na,b\n",
         ": CSV has no words with tags; give .jsonl or .parquet with \"tokens\" and \"tags\", or .conll with a word "
         "and its tag "
         "on "
         "each line"},
        {"h.jsonl", "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"O\",1.5]}\n",
         ":1: label '1.5' is a number, but that of line 1 is a name; use one kind only"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset d;
        struct snug_err e;
        write_data(cases[i].name, cases[i].content);
        struct dataset_options o = options(TASK_TOKEN_CLASS);
        assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
        if (!strstr(e.text, cases[i].message))
            fail_msg("%s\n%s", e.text, cases[i].message);
    }
}

static int take(void *ctx, const struct row_block *b, struct snug_err *err)
{
    (void)err;
    assert_int_equal(b->data.n_rows, 2);
    assert_int_equal(row_stream_words(*(struct row_stream **)ctx, 0), 2);
    assert_string_equal(row_stream_word(*(struct row_stream **)ctx, 1, 0), "my");
    const int32_t want[] = {-1, 0, 1, -1, -1, -1, 0, -1};
    assert_memory_equal(b->data.words, want, sizeof want);
    return 0;
}

/* For prediction words come from lists or from texts. */
static void words_to_predict(void **state)
{
    static const struct {
        const char *name, *content;
    } same[] = {
        {"p.jsonl", "{\"tokens\":[\"card\",\"payq\"]}\n{\"tokens\":[\"my\"]}\n"},
        {"p.conll", "card\npayq\n\nmy\n"},
        {"p.csv", "text\n card \t payq\nmy\n"},
        {"p.txt", "card payq\nmy \n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct row_stream *s;
        struct snug_err e;
        write_data(same[i].name, same[i].content);
        struct dataset_options o = options(TASK_UNLABELED);
        o.words = true;
        assert_int_equal(row_stream_open(&io_posix, &(struct row_stream_options){.data = &o}, &s, &e), 0);
        assert_int_equal(row_stream_run(s, take, &s, &e), 0);
        row_stream_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_stand_at_first_tokens), cmocka_unit_test(long_rows_are_cut),
        cmocka_unit_test(the_cache_gives_the_same),   cmocka_unit_test(a_look_shows_tags),
        cmocka_unit_test(what_is_wrong_is_named),     cmocka_unit_test(words_to_predict),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
