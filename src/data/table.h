/* table.h: a CSV, TSV, JSON or JSON Lines file as rows of text, second text and label, whatever the columns are called.
 */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include "data/csv.h"
#include "data/dataset.h"
#include "data/jsonl.h"

/* What a path's ending says about the format; all but the last two are tables. */
enum data_format { FORMAT_CSV, FORMAT_TSV, FORMAT_JSON, FORMAT_JSONL, FORMAT_SAFETENSORS, FORMAT_SYNTHETIC };
int data_format_of(const struct io *io, const char *path, enum data_format *format, struct snug_err *err);

struct table {
    const char *path;
    bool is_csv, pending; /* pending: the first row is read but not yet given out */
    struct csv csv;
    struct jsonl json;
    char **columns; /* (n_columns) of the header, or of the first object */
    int n_columns;
    int text, pair, label; /* indices of columns; -1: there is none */
    struct arena arena;

    /* The row that table_next has read; the texts live until the next call. */
    bool ended;
    struct place place;
    const char *row_text, *row_pair; /* row_pair NULL without a pair; each has a 0 byte behind it */
    size_t text_bytes, pair_bytes;
    const char *label_text; /* CSV */
    json_t *label_json;     /* JSON; borrowed */
};

/* Finds the columns: those named in `o`, or else the usual ones; the label's as `labels` says. Errors name the columns
 * there are, and a delimiter that would fit better. */
enum table_labels { TABLE_NO_LABELS, TABLE_LABELS, TABLE_LABELS_IF_ANY };
int table_open(const struct io *io, const struct dataset_options *o, enum data_format format, enum table_labels labels,
               struct table *t, struct snug_err *err);
int table_next(struct table *t, struct snug_err *err); /* sets `ended`, or the row */
struct hash128 table_hash(const struct table *t);      /* of the file, when ended */
void table_close(struct table *t);

#endif
