/* token_store.h: the rows of a dataset while they are made. They stay in memory while they are few; more go to scratch files, an array
 * each, which are mapped in the end. What comes out is the same.
 *     token_store_open ; (token_rows_encode into .rows ; token_store_settle) ... ; token_store_finish ; token_store_close          */
#ifndef DATA_TOKEN_STORE_H
#define DATA_TOKEN_STORE_H

#include "data/dataset.h"
#include "data/tokens/token_rows.h"

enum { STORE_OFFSETS, STORE_IDS, STORE_TYPES, STORE_LOSS_MASK, STORE_WORDS, STORE_SOURCES, STORE_ARRAYS };

struct token_store_options {
    const struct io *io;
    const char *dir;    /* the folder for files; NULL: everything stays in memory */
    int64_t in_memory;  /* bytes that stay there at most, where there is a folder */
    bool drop_empty;    /* rows without tokens are left out */
    int32_t block_size; /* rows are one text, which is cut into rows of so many tokens; 0: they are not */
    int32_t end_id;     /* stands behind each row of that text which does not end so; below 0: nothing does */
};

struct token_store {
    struct token_store_options o;
    struct token_rows rows;             /* those that are not in files; truncated and no_target are of all */
    struct scratch files[STORE_ARRAYS]; /* those that are open have something */
    int64_t n_rows, n_tokens;           /* in files */
    int32_t *rest;                      /* (n_rest): what does not fill a block yet */
    size_t n_rest, rest_cap;
    bool any, any_type; /* a row was added, left out or not; some type in files is not 0 */
};

void token_store_open(struct token_store *s, const struct token_store_options *o);
/* To be called now and then: rows that are too many for memory go to files. *no_folder: files cannot be made, `why` says it, and
 * everything stays in memory. SNUG_ERR_IO: a file cannot be written. */
int token_store_settle(struct token_store *s, bool *no_folder, struct snug_err *why, struct snug_err *err);
/* Of what belongs to the rows, data behind the first `before` bytes of a file of the caller's, which is opened where it is not. SNUG_ERR_IO: it
 * cannot be written. */
int token_store_append(const struct token_store *s, struct scratch *file, int64_t before, const void *data,
                       int64_t bytes, struct snug_err *err);
/* Gives the arrays to *d, with n_rows, n_tokens, truncated and no_target. */
int token_store_finish(struct token_store *s, struct dataset *d, struct snug_err *err);
void token_store_close(struct token_store *s);

#endif
