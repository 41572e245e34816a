/* token_rows.h: tokenizing many rows on several threads into growing arrays. */
#ifndef DATA_TOKEN_ROWS_H
#define DATA_TOKEN_ROWS_H

#include "data/chat_rows.h"
#include "data/files/source.h"
#include "tokenizer/tokenizer.h"

/* Rows of ids one after another, as in struct dataset. */
struct token_rows {
    int64_t n_rows, n_tokens;
    int64_t *offsets; /* (n_rows + 1) */
    int32_t *ids;     /* (n_tokens) */
    uint8_t *types;   /* (n_tokens) */
    size_t offsets_cap, ids_cap, types_cap;
    uint8_t *loss_mask; /* (n_tokens), of rows that came with one; NULL: none did */
    size_t loss_mask_cap;
    /* (n_tokens), of rows of words: which word's first token it is, else -1; or what such rows become, the targets of rows that came with
     * them. NULL: none did. */
    int32_t *words;
    size_t words_cap;
    int32_t *sources; /* (n_rows), of rows of a source and a target: tokens of the source; NULL: none were */
    size_t sources_cap;
    int64_t no_target; /* rows that were left out, because their mask leaves nothing to learn */
    bool any_type;     /* some type is not 0 */
    int64_t truncated;
};

/* Texts waiting to be tokenized. */
struct text_row {
    struct place place;
    size_t text, text_bytes; /* place in `texts` */
    size_t pair, pair_bytes;
    json_t *object; /* a conversation instead of texts; its reference is the block's */
};
struct text_block {
    struct text_row *rows; /* (n_rows) */
    size_t n_rows, rows_cap;
    char *texts;
    size_t n_texts, texts_cap;
    bool has_pair;
    bool seq2seq; /* the pair is a target, which is tokenised by itself, */
    int64_t max_target_length;
    const struct chat_setup *chat; /* for conversations, */
    const struct columns *columns; /* which say what they are */
    const char *words;             /* objects are rows of words, which this member lists; NULL: conversations */
};

int text_block_add(struct text_block *b, struct place p, const char *text, size_t text_bytes, const char *pair,
                   size_t pair_bytes, struct snug_err *err);
int text_block_add_object(struct text_block *b, struct place p, json_t *object, struct snug_err *err);
bool text_block_full(const struct text_block *b); /* enough for all threads to have work, little enough to hold */
void text_block_free(struct text_block *b);

/* Appends the block's rows to *t, in order, and empties the block. The threads share out pieces of the block; neither
 * ids nor errors depend on their number (the first bad row is reported). When `stop` asks for it they leave the rest out;
 * the caller sees that too. */
int token_rows_encode(struct token_rows *t, const struct tokenizer *tokenizer, int64_t max_length, int threads,
                      const struct stop_flag *stop, struct text_block *b, struct snug_err *err);
/* One row of n ids; types NULL: all 0. */
int token_rows_add(struct token_rows *t, const int32_t *ids, const int32_t *types, size_t n, struct snug_err *err);
/* The same with a mask of n, or words of n, which all rows have or none. */
int token_rows_add_masked(struct token_rows *t, const int32_t *ids, const uint8_t *loss_mask, size_t n,
                          struct snug_err *err);
/* A row of a source and a target. */
int token_rows_add_pair(struct token_rows *t, const int32_t *source, size_t n_source, const int32_t *target,
                        size_t n_target, struct snug_err *err);
int token_rows_add_words(struct token_rows *t, const struct token_buf *row, struct snug_err *err);
/* All rows of another; without types they are 0. */
int token_rows_append(struct token_rows *t, const struct token_rows *more, struct snug_err *err);
void token_rows_free(struct token_rows *t);

/* CPUs that this process may run on, for threads = 0. */
int token_threads(int asked);

#endif
