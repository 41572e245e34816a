/* chat_rows.h: conversations, and prompts with their completions, as token ids with a mask of what is learned. */
#ifndef DATA_CHAT_ROWS_H
#define DATA_CHAT_ROWS_H

#include "chat/template.h"
#include "data/files/columns.h"
#include "tokenizer/tokenizer.h"

enum { CHAT_ENDS = 16, CHAT_VARIABLES = 16 };

/* What a session knows about the model's chats. */
struct chat_setup {
    const struct chat_template *template; /* NULL: the model has none, and messages are refused */
    struct snug_err why;                  /* why not, where there is one that cannot be read */
    const char *model;                    /* its folder, for messages */
    struct chat_variable tokens[TOKEN_SPECIALS];
    size_t n_tokens;
    int32_t ends[CHAT_ENDS]; /* (n_ends): tokens that end an answer; the first is the tokenizer's EOS */
    int n_ends;
    bool assistant_only, completion_only; /* what is learned: TRL's assistant_only_loss, completion_only_loss */
    int64_t now;                          /* as chat_input has it */
};

/* Where chat_row_encode puts its result. Start with {0} and use it for many rows; one per thread. */
struct chat_buf {
    const int32_t *ids; /* (n) */
    uint8_t *mask;      /* (n): 1 where the token is learned */
    size_t n;
    bool truncated;
    bool has_target; /* a token that is learned stands behind another one */

    /* working memory */
    struct {
        const char *names[CHAT_VARIABLES];
        json_t *values[CHAT_VARIABLES];
        size_t n;
    } variables; /* of the template, besides the messages: what a row has of them */
    json_t *tools;
    size_t mask_cap;
    struct chat_rendering whole, part;
    struct token_buf tokens, prefix;
};
void chat_buf_free(struct chat_buf *b);

/* The row's object, of the form that `columns` says, in at most max_length tokens (0: any number). What is wrong with the
 * row is SNUG_ERR_INPUT, without its place. */
int chat_row_encode(const struct chat_setup *c, const struct tokenizer *t, int64_t max_length,
                    const struct columns *columns, json_t *row, struct chat_buf *b, struct snug_err *err);

/* Messages as a prompt: with what the template writes before the assistant speaks. `row`: the object that they are of, with its other
 * variables for the template; NULL: none. The ids are *ids (n), in b's memory. */
int chat_prompt_encode(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, json_t *row,
                       struct chat_buf *b, const int32_t **ids, size_t *n, struct snug_err *err);

/* Appends what decides about ids and mask: for hashes. */
void chat_setup_describe(const struct chat_setup *c, struct str *s);

#endif
