/* parquet.h: the rows of a Parquet file as JSON objects, read a page of each column at a time.
 *
 * Texts are strings, lists arrays, structs objects, maps arrays of objects with "key" and "value"; what is null, or a number that is not
 * finite, is null. A number that the datasets library calls a class (in the footer's "huggingface") is the name of the class.
 * Columns with bytes in them, as images and sounds are, are left out. */
#ifndef DATA_FILES_PARQUET_H
#define DATA_FILES_PARQUET_H

#include "data/files/source.h"
#include "format/parquet/column.h"

#include <jansson.h>

struct parquet {
    struct parquet_input input;
    int64_t size;
    struct timespec mtime;
    struct parquet_footer footer;
    struct parquet_schema schema;
    struct parquet_column *columns; /* (schema.n_leaves) */
    size_t group;                   /* the next one */
    int64_t left;                   /* rows of this one */
    size_t row_bytes;
    struct hash128 hash;

    /* The row that parquet_next has read. */
    json_t *row; /* an object; NULL: there are no more */
    struct place place;
};

int parquet_open(const struct io *io, const char *path, struct parquet *p, struct snug_err *err);
int parquet_next(struct parquet *p, struct snug_err *err);
struct hash128 parquet_hash(const struct parquet *p); /* of the file, once the last row is read */
void parquet_close(struct parquet *p);

/* The names of the classes in a column, or in the lists of one, in the order of their numbers: (*n). NULL: it has no classes. */
const char *const *parquet_classes(const struct parquet *p, const char *column, size_t *n);

/* parquet_classes.c: gives the nodes of `schema` the names of classes. Metadata that are not understood are passed over. */
int parquet_find_classes(struct parquet_footer *f, struct parquet_schema *schema, struct snug_err *err);

#endif
