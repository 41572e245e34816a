/* jsonl.h: rows of a JSON Lines file (one object a line, blank lines skipped) or of a .json file that is an array of
 * objects. */
#ifndef DATA_FILES_JSONL_H
#define DATA_FILES_JSONL_H

#include "data/files/source.h"

#include <jansson.h>

struct jsonl {
    struct source source;
    const char *path;
    bool array_allowed, is_array;
    char *text; /* of the row being read */
    size_t n_text, text_cap;

    /* Of an array: */
    bool ended;
    int64_t item;                   /* the next one, from 0 */
    int64_t line_at;                /* of the text's bytes, the first of the line in which source.i is */
    int64_t from_line, from_column; /* where the row begins */

    /* The row that jsonl_next has read. */
    json_t *row; /* an object; NULL: there are no more */
    struct place place;
};

/* `array_allowed` for .json: a file whose first character is '[' is then an array. It is read row by row, as lines are. */
int jsonl_open(const struct io *io, const char *path, bool array_allowed, struct jsonl *j, struct snug_err *err);
/* The same of a source that is open, which is jsonl_close's from then on, also after a failure. */
int jsonl_open_source(struct source *source, bool array_allowed, struct jsonl *j, struct snug_err *err);
int jsonl_next(struct jsonl *j, struct snug_err *err); /* SNUG_ERR_INPUT with line and column for what is no object */
struct hash128 jsonl_hash(const struct jsonl *j);      /* of the file, once the last row is read */
void jsonl_close(struct jsonl *j);

#endif
