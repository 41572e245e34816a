/* csv.h: rows of a CSV file (RFC 4180), read as Python's csv.reader(strict=True) reads them. A quote opens a quoted
 * field only at its start, and "" in it is a quote. CR, LF and CRLF end a row outside quotes and belong to the field
 * inside. Blank lines are skipped. */
#ifndef DATA_FILES_CSV_H
#define DATA_FILES_CSV_H

#include "data/files/source.h"

struct csv {
    struct source source;
    char delimiter;
    bool after_cr; /* an LF now belongs to the row before */

    /* The row that csv_next has read. */
    int64_t line;    /* where it starts, from 1 */
    size_t n_fields; /* 0: there are no more rows */
    char *text;      /* the fields, each with a 0 byte behind it */
    size_t n_text, text_cap;
    size_t *starts; /* (n_fields + 1): of each field in `text` */
    size_t starts_cap;
};

/* Two ways in: a file by its path; or a source that is open, which is csv_close's from then on, also after a failure.
 * `delimiter` is any ASCII character but quote, CR, LF and NUL, else SNUG_ERR_USAGE. */
int csv_open(const struct io *io, const char *path, char delimiter, struct csv *c, struct snug_err *err);
/* SNUG_ERR_INPUT: text behind a closing quote, a quote never closed, a row over SOURCE_ROW_BYTES, or as source_fill. */
int csv_open_source(struct source *source, char delimiter, struct csv *c, struct snug_err *err);
int csv_next(struct csv *c, struct snug_err *err);
const char *csv_field(const struct csv *c, size_t i, size_t *bytes); /* valid until the next csv_next */
void csv_close(struct csv *c);

#endif
