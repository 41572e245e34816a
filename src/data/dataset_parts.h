/* dataset_parts.h: what the sources of datasets share. Not for users of a dataset. */
#ifndef DATA_DATASET_PARTS_H
#define DATA_DATASET_PARTS_H

#include "data/dataset.h"
#include "data/tokens/token_store.h"

/* Each source fills a zeroed dataset, all but `fingerprint`, and gives the hash of everything that its rows come from.
 * On failure dataset_close frees what there is. */
struct dataset_origin {
    struct hash128 content, columns;
};

/* Text in two steps, for a look into the token cache between them: the file is opened and its columns are found; then
 * all of it is read. text_reading_close after both. */
struct text_reading;
int text_reading_open(const struct io *io, const struct dataset_options *o, struct text_reading **r,
                      struct snug_err *err);
enum data_task text_reading_task(const struct text_reading *r); /* TASK_AUTO is decided */
const struct columns *text_reading_columns(const struct text_reading *r);
/* A hash of the names of the columns that are read. */
int text_reading_hash_columns(const struct text_reading *r, struct hash128 *h, struct snug_err *err);
/* `dir`, here and below: where files may be made for what is too large for memory; NULL: nowhere. */
int text_reading_finish(struct text_reading *r, const struct io *io, const char *dir, struct dataset *d,
                        struct dataset_origin *origin, struct snug_err *err);
void text_reading_close(struct text_reading *r); /* NULL is fine */

int dataset_read_safetensors(const struct io *io, const struct dataset_options *o, const char *dir, struct dataset *d,
                             struct dataset_origin *origin, struct snug_err *err);
int dataset_make_synthetic(const struct dataset_options *o, struct dataset *d, struct dataset_origin *origin,
                           struct snug_err *err);

/* Sets longest, max_id and max_type, and checks what every dataset promises: at least one row, and a token in each. */
int dataset_measure(struct dataset *d, const char *path, struct snug_err *err);

/* Whoever goes through all tokens does it in stretches of so many, with dataset_release behind each. */
enum { DATASET_STRETCH = 1 << 22 };

/* How rows are stored while they are made, and token_store_settle, which says so where no file can be made. */
struct token_store_options dataset_store(const struct io *io, const struct dataset_options *o, const char *dir);
int dataset_settle(const struct dataset_options *o, struct token_store *s, struct snug_err *err);

void dataset_note(const struct dataset_options *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool task_has_label(enum data_task task) /* per row */
{
    return task == TASK_CLASS || task == TASK_REGRESSION || task == TASK_MULTI_LABEL;
}

static inline bool task_is_lm(enum data_task task)
{
    return task == TASK_MASKED_LM || task == TASK_CAUSAL_LM || task == TASK_SEQ2SEQ;
}

static inline bool task_has_classes(enum data_task task) /* per row or word */
{
    return task_has_label(task) || task == TASK_TOKEN_CLASS;
}

static inline bool task_has_targets(enum data_task task) /* per token */
{
    return task_is_lm(task) || task == TASK_TOKEN_CLASS || task == TASK_SPAN;
}

/* Notes how many rows are empty, cut or left out. */
void dataset_note_rows(const struct dataset_options *o, const struct dataset *d);

#endif
