#include "data/words/word_rows.h"

#include "base/mem.h"
#include "format/json.h"

#include <string.h>

void word_buf_free(struct word_buf *b)
{
    token_buf_free(&b->tokens);
    mem_free(b->words);
    *b = (struct word_buf){0};
}

int word_row_check(json_t *row, const char *key, const char *tags_key, struct place p, struct snug_err *err)
{
    json_t *words = json_object_get(row, key), *tags = tags_key ? json_object_get(row, tags_key) : NULL, *word;
    char shown[64];
    size_t i;
    if (!json_is_array(words))
        return err_at(err, SNUG_ERR_INPUT, p, "'%s' is %s; write the words of the row as a list of strings", key,
                      json_value_text(words, shown));
    json_array_foreach(words, i, word) if (!json_is_string(word)) return err_at(
        err, SNUG_ERR_INPUT, p, "word %zu of '%s' is %s; write each word as a string", i, key,
        json_value_text(word, shown));
    if (!tags_key)
        return SNUG_OK;
    if (!json_is_array(tags))
        return err_at(err, SNUG_ERR_INPUT, p, "'%s' is %s; write the tags of the row as a list, one for each word",
                      tags_key, json_value_text(tags, shown));
    if (json_array_size(tags) != json_array_size(words))
        return err_at(err, SNUG_ERR_INPUT, p, "%zu words in '%s' but %zu tags in '%s'; each word needs one",
                      json_array_size(words), key, json_array_size(tags), tags_key);
    return SNUG_OK;
}

int word_row_encode(const struct tokenizer *t, int64_t max_length, json_t *row, const char *key, struct word_buf *b,
                    struct snug_err *err)
{
    json_t *words = json_object_get(row, key), *word;
    size_t n = json_array_size(words), i;
    if (!MEM_GROW(b->words, b->words_cap, n + 1))
        return err_no_memory(err, (n + 1) * sizeof *b->words);
    json_array_foreach(words, i, word) b->words[i] =
        (struct token_word){json_string_value(word), json_string_length(word)};
    return tokenizer_encode_words(t, b->words, n, max_length, &b->tokens, err);
}

json_t *word_row_of_text(const char *text, size_t bytes, const char *key)
{
    static const char blanks[] = " \t\r\n\f\v";
    json_t *words = json_array();
    for (size_t i = 0; words && i < bytes;) {
        size_t from = i;
        while (i < bytes && !memchr(blanks, text[i], sizeof blanks - 1))
            i++;
        if (i > from)
            json_array_append_new(words, json_stringn(text + from, i - from));
        i += i < bytes;
    }
    return words ? json_pack("{s:o}", key, words) : NULL;
}
