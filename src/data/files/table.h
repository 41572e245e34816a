/* table.h: CSV, TSV, JSON, JSON Lines, Parquet, CoNLL or text files as rows of text, second text and label, whatever the columns are
 * called. Several files of one kind are one table. */
#ifndef DATA_FILES_TABLE_H
#define DATA_FILES_TABLE_H

#include "data/files/columns.h"
#include "data/files/csv.h"
#include "data/files/lines.h"
#include "data/files/objects/objects.h"

enum table_labels { TABLE_NO_LABELS, TABLE_LABELS, TABLE_LABELS_IF_ANY };

struct table {
    const struct io *io;
    const struct dataset_options *o;
    enum data_format format;
    struct columns columns; /* of the first file: of its header, or of its first object; "text" of a text file */

    const char *path; /* the file that is open, and which of o->path and o->more_paths it is */
    size_t file;
    struct csv csv; /* one of the three, by the format */
    struct objects objects;
    struct lines lines;
    json_t *object;       /* the row, where it is one; borrowed */
    struct source *input; /* while the standard input is opened: what takes it over */
    bool pending;         /* the first row is read but not yet given out */
    int *places;          /* CSV: (columns.n) where the columns of the first file stand in this one */
    struct hash128 hash;  /* of the files before this one */
    bool closed;          /* no file is open */

    /* The row that table_next has read; the texts live until the next call. */
    bool ended;
    struct place place;
    const char *row_text, *row_pair; /* row_pair NULL without a pair; each has a 0 byte behind it */
    size_t text_bytes, pair_bytes;
    const char **label_texts; /* CSV: (columns.n_labels) */
    json_t **label_jsons;     /* objects: (columns.n_labels); borrowed */
};

/* Finds the columns, see columns.h. A text is needed, a label if `labels` says so; the error names the columns there
 * are, and a delimiter that would fit better. Of the standard input (o->standard_input) a note says what kind it is,
 * where `format` is FORMAT_UNKNOWN. */
int table_open(const struct io *io, const struct dataset_options *o, enum data_format format, enum table_labels labels,
               struct table *t, struct snug_err *err);
int table_next(struct table *t, struct snug_err *err); /* sets `ended`, or the row */

/* What the row has in a column of the first file. table_object: the row, where it is an object; NULL otherwise. */
const char *table_cell(const struct table *t, int column, size_t *bytes);
json_t *table_object(const struct table *t); /* borrowed */
bool table_has_objects(const struct table *t);

/* Whether it is a stream (source.h), and what is called before its rows have to be waited for. */
bool table_is_stream(const struct table *t);
void table_before_waiting(struct table *t, int (*fn)(void *ctx, struct snug_err *err), void *ctx);

struct hash128 table_hash(const struct table *t); /* of the files' bytes, when ended */
void table_close(struct table *t);

/* The hash that table_hash gives in the end, without a look at the rows. */
int table_hash_files(const struct io *io, const struct dataset_options *o, struct hash128 *hash, struct snug_err *err);

/* word_columns.c: rows are words where that is asked for, and where the first row shows words with their tags. Then the form of
 * t->columns is ROWS_WORDS. SNUG_ERR_INPUT: words are asked for, and there are none, or no tags where `labels` needs them. */
int word_columns_find(struct table *t, enum table_labels labels, struct snug_err *err);

#endif
