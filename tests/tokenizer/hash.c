/* tokenizer_hash: what changes ids changes it, and nothing else does. */
#include "files_help.h"

/* The same vocabulary from either file is the same tokenizer. */
static void vocab_txt_and_tokenizer_json_have_one_hash(void **state)
{
    (void)state;
    const char *const names[] = {"uncased", "cased"};
    for (int i = 0; i < 2; i++) {
        char path[4096], *text[3];
        size_t bytes;
        struct snug_err e;
        struct tokenizer *a, *b;
        const char *const files[] = {"tokenizer.json", "vocab.txt", "tokenizer_config.json"};
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/%s/%s", getenv("SNUG_SOURCE"), names[i], files[k]);
            assert_int_equal(io_read_file(&io_posix, path, 1 << 20, &text[k], &bytes, &e), 0);
        }
        const struct file json[] = {{files[0], text[0]}, {files[2], text[2]}, {NULL, NULL}};
        const struct file vocab[] = {{files[1], text[1]}, {files[2], text[2]}, {NULL, NULL}};
        assert_int_equal(open_folder(json, &a, &e), 0);
        assert_int_equal(open_folder(vocab, &b, &e), 0);
        struct hash128 x = tokenizer_hash(a), y = tokenizer_hash(b);
        assert_true(x.high == y.high && x.low == y.low);
        tokenizer_close(a);
        tokenizer_close(b);
        for (int k = 0; k < 3; k++)
            mem_free(text[k]);
    }
}

static struct hash128 hash_of(const char *at, const char *value)
{
    char *json = changed(at, value);
    struct tokenizer *t;
    struct snug_err e;
    if (open_folder((const struct file[]){{"tokenizer.json", json}, {NULL, NULL}}, &t, &e))
        fail_msg("%s", e.text);
    struct hash128 h = tokenizer_hash(t);
    tokenizer_close(t);
    free(json);
    return h;
}

static void whatever_changes_ids_changes_the_hash(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"version", "\"1.0\""}, /* no change, to compare with */
        {"normalizer", "null"},
        {"normalizer.clean_text", "false"},
        {"normalizer.handle_chinese_chars", "false"},
        {"normalizer.lowercase", "false"},
        {"normalizer.strip_accents", "false"},
        {"pre_tokenizer", "null"},
        {"truncation", "{\"direction\":\"Left\"}"},
        {"model.max_input_chars_per_word", "99"},
        {"model.continuing_subword_prefix", "\"#\""},
        {"model.unk_token", "\"a\""},
        {"model.vocab.b", "5"},
        {"added_tokens", "[]"},
        {"added_tokens.0.single_word", "true"},
        {"added_tokens.0.lstrip", "true"},
        {"added_tokens.0.rstrip", "true"},
        {"added_tokens.0.normalized", "true"},
        {"post_processor", "null"},
        {"post_processor.single.0.SpecialToken.type_id", "1"},
        {"post_processor.single.1.Sequence.type_id", "1"},
        {"post_processor.special_tokens.[CLS].ids.0", "1"},
        {"post_processor.special_tokens.[CLS].ids.1", "2"},
        {"post_processor.pair",
         "[{\"Sequence\":{\"id\":\"B\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":1}}]"},
        {"post_processor.pair.2", "{\"Sequence\":{\"id\":\"A\",\"type_id\":1}}"},
    };
    enum { CHANGES = sizeof changes / sizeof *changes };
    struct hash128 h[CHANGES];
    for (int i = 0; i < CHANGES; i++) {
        h[i] = hash_of(changes[i][0], changes[i][1]);
        for (int k = 0; k < i; k++)
            if (h[i].high == h[k].high && h[i].low == h[k].low)
                fail_msg("%s and %s", changes[i][0], changes[k][0]);
    }
    struct hash128 same = hash_of("decoder", "null");
    assert_true(same.high == h[0].high && same.low == h[0].low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocab_txt_and_tokenizer_json_have_one_hash),
        cmocka_unit_test(whatever_changes_ids_changes_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
