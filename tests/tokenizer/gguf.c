/* Tokenizers of GGUF files: ids are those of the tokenizers library for the tokenizer that the file was made of
 * (tests/format/gguf/record_models.py). */
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *recorded(const char *name, const char *end)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/format/gguf/%s.%s", getenv("SNUG_SOURCE"), name, end);
    return path;
}

static void compare(const struct tokenizer *t, const char *name, const char *line, struct token_buf *buf)
{
    json_t *row = json_loads(line, 0, NULL), *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");
    struct snug_err err;
    assert_int_equal(tokenizer_encode(t, json_string_value(text), json_string_length(text), NULL, 0, 0, buf, &err), 0);
    bool same = buf->n == json_array_size(ids);
    for (size_t i = 0; same && i < buf->n; i++)
        same = buf->ids[i] == json_integer_value(json_array_get(ids, i));
    if (!same)
        fail_msg("%s: other ids for %s", name, line);
    json_decref(row);
}

static void gives_the_ids_of_its_tokenizer(void **state)
{
    static const char *const names[] = {"smollm", "llama-bpe", "qwen2", "phi-2", "spm"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *t;
        struct token_buf buf = {0};
        struct snug_err err;
        char line[4096];
        int rows = 0;
        if (tokenizer_open(&io_posix, recorded(names[i], "gguf"), &t, &err))
            fail_msg("%s", err.text);
        FILE *f = fopen(recorded(names[i], "jsonl"), "r");
        while (fgets(line, sizeof line, f)) {
            compare(t, names[i], line, &buf);
            rows++;
        }
        assert_true(rows > 15);
        fclose(f);
        token_buf_free(&buf);
        tokenizer_close(t);
    }
}

static void knows_special_tokens(void **state)
{
    struct tokenizer *t;
    struct snug_err err;
    (void)state;
    assert_int_equal(tokenizer_open(&io_posix, recorded("spm", "gguf"), &t, &err), 0);
    assert_int_equal(tokenizer_special(t, TOKEN_BOS), 1);
    assert_int_equal(tokenizer_special(t, TOKEN_EOS), 2);
    assert_int_equal(tokenizer_special(t, TOKEN_UNK), 0);
    assert_int_equal(tokenizer_special(t, TOKEN_PAD), -1);
    assert_int_equal(tokenizer_template_tokens(t, false), 1);
    tokenizer_close(t);
    assert_int_equal(tokenizer_open(&io_posix, recorded("smollm", "gguf"), &t, &err), 0);
    assert_int_equal(tokenizer_special(t, TOKEN_EOS), 1);
    assert_int_equal(tokenizer_template_tokens(t, false), 0);
    assert_int_equal(tokenizer_vocab_size(t), 380); /* three more fill up the table of embeddings */
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gives_the_ids_of_its_tokenizer),
                                       cmocka_unit_test(knows_special_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
