/* lines.h: a text file, a line a text. LF, CRLF and a lone CR end a line, as for Python's open(); what stands behind the
 * last of them is a line if it is not empty. */
#ifndef DATA_FILES_LINES_H
#define DATA_FILES_LINES_H

#include "data/files/source.h"

struct lines {
    struct source source;
    bool after_cr; /* an LF now belongs to the line before */

    /* The line that lines_next has read. */
    bool ended;   /* there was none */
    int64_t line; /* from 1 */
    char *text;   /* (n_text), with a 0 byte behind it */
    size_t n_text, text_cap;
};

int lines_open(const struct io *io, const char *path, struct lines *l, struct snug_err *err);
/* The same of a source that is open, which is lines_close's from then on. */
void lines_open_source(struct source *source, struct lines *l);
int lines_next(struct lines *l, struct snug_err *err); /* SNUG_ERR_INPUT: over SOURCE_ROW_BYTES, or as source_fill */
void lines_close(struct lines *l);

#endif
