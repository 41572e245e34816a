/* objects.h: files whose rows are JSON objects, whatever the file is: JSON, JSON lines, Parquet, CoNLL columns. */
#ifndef DATA_FILES_OBJECTS_H
#define DATA_FILES_OBJECTS_H

#include "data/files/format.h"
#include "data/files/objects/conll.h"
#include "data/files/objects/jsonl.h"
#include "data/files/objects/parquet.h"

struct objects {
    const struct object_kind *kind; /* NULL: no file is open */
    union {
        struct jsonl json;
        struct conll conll;
        struct parquet parquet;
    };

    /* The row that objects_next has read; lives until the next call. */
    json_t *row; /* an object; NULL: there are no more */
    struct place place;
};

bool format_has_objects(enum data_format format);

int objects_open(const struct io *io, const char *path, enum data_format format, struct objects *o,
                 struct snug_err *err);
/* The same of a source that is open, which is objects_close's from then on, also after a failure. Parquet cannot be read so. */
int objects_open_source(struct source *source, enum data_format format, struct objects *o, struct snug_err *err);
int objects_next(struct objects *o, struct snug_err *err);
struct hash128 objects_hash(const struct objects *o); /* of the file, once the last row is read */
/* The names of the classes in a column, in the order of their numbers: (*n). NULL: the file does not say. */
const char *const *objects_classes(const struct objects *o, const char *column, size_t *n);
const char *objects_called(const struct objects *o); /* "sentences", for messages */
struct source *objects_source(struct objects *o);    /* NULL: it is not read from front to back */
void objects_close(struct objects *o);

/* What a filter of jq that goes through the rows begins with; NULL: jq does not read them. */
const char *objects_jq(const struct objects *o);
/* JSON lines: whether no row follows. The row that was read is gone afterwards. */
bool objects_was_only_row(struct objects *o);

#endif
