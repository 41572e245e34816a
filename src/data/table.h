/* table.h: CSV, TSV, JSON, JSON Lines or text files as rows of text, second text and label, whatever the columns are
 * called. Several files of one kind are one table. */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include "data/columns.h"
#include "data/csv.h"
#include "data/jsonl.h"
#include "data/lines.h"

/* What a path's ending says about the format; all but the last two are tables. */
enum data_format {
    FORMAT_CSV,
    FORMAT_TSV,
    FORMAT_JSON,
    FORMAT_JSONL,
    FORMAT_LINES,
    FORMAT_SAFETENSORS,
    FORMAT_SYNTHETIC
};
int data_format_of(const struct io *io, const char *path, enum data_format *format, struct snug_err *err);

enum table_labels { TABLE_NO_LABELS, TABLE_LABELS, TABLE_LABELS_IF_ANY };

struct table {
    const struct io *io;
    const struct dataset_options *o;
    enum data_format format;
    struct columns columns; /* of the first file: of its header, or of its first object; "text" of a text file */

    const char *path; /* the file that is open, and which of o->path and o->more_paths it is */
    size_t file;
    struct csv csv; /* one of the three, by the format */
    struct jsonl json;
    struct lines lines;
    bool pending;        /* the first row is read but not yet given out */
    int *places;         /* CSV: (columns.n) where the columns of the first file stand in this one */
    struct hash128 hash; /* of the files before this one */
    bool closed;         /* no file is open */

    /* The row that table_next has read; the texts live until the next call. */
    bool ended;
    struct place place;
    const char *row_text, *row_pair; /* row_pair NULL without a pair; each has a 0 byte behind it */
    size_t text_bytes, pair_bytes;
    const char **label_texts; /* CSV: (columns.n_labels) */
    json_t **label_jsons;     /* JSON: (columns.n_labels); borrowed */
};

/* Finds the columns, see columns.h. A text is needed, a label if `labels` says so; the error names the columns there are,
 * and a delimiter that would fit better. */
int table_open(const struct io *io, const struct dataset_options *o, enum data_format format, enum table_labels labels,
               struct table *t, struct snug_err *err);
int table_next(struct table *t, struct snug_err *err); /* sets `ended`, or the row */
struct hash128 table_hash(const struct table *t);      /* of the files' bytes, when ended */
void table_close(struct table *t);

/* The hash that table_hash gives in the end, without a look at the rows. */
int table_hash_files(const struct io *io, const struct dataset_options *o, struct hash128 *hash, struct snug_err *err);

#endif
