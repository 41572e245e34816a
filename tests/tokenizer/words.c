/* Ids of texts that are cut into words, and which token begins which word, as the tokenizers library gives them
 * (recorded/words.py). */
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool same(json_t *want, const int32_t *got, size_t n)
{
    bool yes = json_array_size(want) == n;
    for (size_t i = 0; yes && i < n; i++)
        yes = json_integer_value(json_array_get(want, i)) == got[i];
    return yes;
}

static void check(const struct tokenizer *t, json_t *row, struct token_buf *buf)
{
    struct token_word words[64];
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(row, "words"), i, word) words[i] =
        (struct token_word){json_string_value(word), json_string_length(word)};
    struct snug_err e = {0};
    int64_t most = json_integer_value(json_object_get(row, "max_length"));
    assert_int_equal(tokenizer_encode_words(t, words, json_array_size(json_object_get(row, "words")), most, buf, &e),
                     0);
    if (!same(json_object_get(row, "ids"), buf->ids, buf->n) ||
        !same(json_object_get(row, "first"), buf->words, buf->n))
        fail_msg("%s: %zu tokens", json_dumps(row, JSON_COMPACT), buf->n);
}

static void words_are_those_of_the_library(void **state)
{
    char path[4096], line[65536];
    struct tokenizer *t = NULL;
    struct token_buf buf = {0};
    struct snug_err e;
    char family[64] = "";
    int rows = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/words.jsonl", getenv("SNUG_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); rows++) {
        json_t *row = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(row, "family"));
        if (strcmp(name, family)) {
            tokenizer_close(t);
            snprintf(family, sizeof family, "%s", name);
            snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/families/%s", getenv("SNUG_SOURCE"), name);
            assert_int_equal(tokenizer_open(&io_posix, path, &t, &e), 0);
        }
        check(t, row, &buf);
        json_decref(row);
    }
    assert_int_equal(rows, 80);
    fclose(f);
    tokenizer_close(t);
    token_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_those_of_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
