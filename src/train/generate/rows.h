/* rows.h: what a model writes for rows of the evaluation data, beside what it should have written. */
#ifndef TRAIN_GENERATE_ROWS_H
#define TRAIN_GENERATE_ROWS_H

#include "train/session/session.h"

struct generated_row {
    int64_t row;           /* of the data */
    const int32_t *prompt; /* (n_prompt) tokens that the model has read */
    size_t n_prompt;
    const char *expected, *text; /* without special tokens */
    size_t expected_bytes, bytes;
    bool stopped; /* by an end token, else it is as long as it may get */
};

struct generated_rows {
    int (*take)(void *ctx, const struct generated_row *row, struct snug_err *err);
    void *ctx;
};

/* Gives the rows of the session's prompts, in their order. SNUG_STOPPED when a signal came. */
int generate_rows(struct session *s, const struct generated_rows *to, struct snug_err *err);

#endif
