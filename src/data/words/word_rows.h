/* word_rows.h: rows of words, which token classification gives tags. */
#ifndef DATA_WORDS_WORD_ROWS_H
#define DATA_WORDS_WORD_ROWS_H

#include "data/files/source.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>

/* Working memory; of one thread. Start with {0}. */
struct word_buf {
    struct token_buf tokens; /* the result: ids, and which word each begins */
    struct token_word *words;
    size_t words_cap;
};
void word_buf_free(struct word_buf *b);

/* SNUG_ERR_INPUT unless the member `key` of a row is a list of strings, and, where `tags_key` is not NULL, that member a list
 * of as many tags. */
int word_row_check(json_t *row, const char *key, const char *tags_key, struct place p, struct snug_err *err);

/* The tokens of a row that was checked, max_length at most (0: any number). */
int word_row_encode(const struct tokenizer *t, int64_t max_length, json_t *row, const char *key, struct word_buf *b,
                    struct snug_err *err);

/* A text as a row: the words are what stands between white space. NULL: no memory. */
json_t *word_row_of_text(const char *text, size_t bytes, const char *key);

#endif
