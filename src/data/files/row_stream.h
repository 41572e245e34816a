/* row_stream.h: the rows of a table for prediction, a block at a time: in constant memory, and as they come. What comes
 * from a pipe is handed on before the next row is waited for. */
#ifndef DATA_FILES_ROW_STREAM_H
#define DATA_FILES_ROW_STREAM_H

#include "data/files/table.h"

struct row_stream;

/* Some rows, valid within the call that hands them over. */
struct row_block {
    struct dataset data; /* TASK_UNLABELED */
    int64_t first;       /* the index of its first row among all, from 0 */
};

struct row_stream_options {
    const struct dataset_options *data;      /* path, tokenizer and columns, how texts are read; outlives the stream */
    const char *const *texts, *const *pairs; /* (n_texts) instead of a file; pairs NULL: there are none */
    size_t n_texts;
    enum data_format format; /* FORMAT_UNKNOWN: by the file's ending; of the standard input, by its first line */
    int64_t most_rows;       /* of a block; 0: as many as are read at a time */
};

/* Errors as dataset_open. */
int row_stream_open(const struct io *io, const struct row_stream_options *o, struct row_stream **out,
                    struct snug_err *err);

/* Reads the first block ahead, but not from a pipe, which may have to be waited for. *whole: these are all rows, and
 * `first` is filled, valid until row_stream_run. */
int row_stream_peek(struct row_stream *s, struct row_block *first, bool *whole, struct snug_err *err);

/* Calls `take` for each block, in order, until the end or a failure, which is passed on. Once per stream. Errors as
 * dataset_open; what was taken before stands. In the end notes say how many rows were empty or cut. */
typedef int row_block_fn(void *ctx, const struct row_block *b, struct snug_err *err);
int row_stream_run(struct row_stream *s, row_block_fn *take, void *ctx, struct snug_err *err);

/* The columns of the input, and what a row of the block that is being taken has in them, as text. An object's numbers
 * and the like are as in JSON; a key that it lacks is "". */
int row_stream_columns(const struct row_stream *s);
const char *row_stream_column(const struct row_stream *s, int column);
const char *row_stream_cell(const struct row_stream *s, int64_t row, int column);
const char *row_stream_object(const struct row_stream *s, int64_t row); /* the whole row as JSON; NULL: it was none */

/* The words of a row, where rows are words. */
int64_t row_stream_words(const struct row_stream *s, int64_t row);
const char *row_stream_word(const struct row_stream *s, int64_t row, int64_t word);

void row_stream_close(struct row_stream *s); /* NULL is fine */

#endif
