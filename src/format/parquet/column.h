/* column.h: one column of a group of rows, a page at a time: values with their levels. */
#ifndef FORMAT_PARQUET_COLUMN_H
#define FORMAT_PARQUET_COLUMN_H

#include "format/parquet/codec.h"
#include "format/parquet/schema.h"
#include "format/parquet/values.h"

/* What columns are read from; outlives them. */
struct parquet_input {
    const struct io *io;
    int fd;
    const char *path;
    int64_t data_end; /* offset behind the last page */
};

struct parquet_column {
    const struct parquet_input *input;
    const struct parquet_leaf *leaf;
    const struct parquet_codec *codec;
    int64_t group;                            /* for messages */
    int64_t at, end;                          /* offsets of the next page and behind the chunk */
    int64_t n_chunk;                          /* values that are left in the pages to come */
    int64_t n_page;                           /* those of this page */
    uint8_t *stored, *page, *dictionary_page; /* as in the file; as it was before it was compressed */
    size_t stored_cap, page_cap, dictionary_page_cap;
    struct parquet_value *dictionary;
    size_t dictionary_cap;
    struct hybrid reps, defs;
    struct parquet_values values;

    /* What stands first among what is left. The value is one where def is the leaf's max_def; it lives until the next call. */
    bool ended;
    int rep, def;
    struct parquet_value value;
};

/* Begins with the chunk of a group, and reads the first value. Buffers of an earlier chunk are used again. SNUG_ERR_INPUT: what is
 * damaged or not read, by name. */
int parquet_column_start(struct parquet_column *c, const struct parquet_input *input, const struct parquet_leaf *leaf,
                         const struct parquet_chunk *chunk, int64_t group, struct snug_err *err);
int parquet_column_next(struct parquet_column *c, struct snug_err *err);
void parquet_column_free(struct parquet_column *c);

/* As err_set, with "path: row group n, column 'name': " before it. */
int parquet_column_err(const struct parquet_column *c, struct snug_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
