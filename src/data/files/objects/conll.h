/* conll.h: sentences in columns, as CoNLL-2003 and its like have them: a line a word, its tag in the last column, a blank line
 * between sentences. Columns are separated by tabs, or else by blanks. A line -DOCSTART- and lines of comments (# id = 5) are
 * skipped. */
#ifndef DATA_FILES_CONLL_H
#define DATA_FILES_CONLL_H

#include "data/files/lines.h"

#include <jansson.h>

struct conll {
    struct lines lines;
    int columns; /* of every line; 0: none was read yet */

    /* The sentence that conll_next has read. */
    json_t *row; /* {"tokens": […], "tags": […]}, without tags where there is one column; NULL: there are no more */
    struct place place;
};

int conll_open(const struct io *io, const char *path, struct conll *c, struct snug_err *err);
/* The same of a source that is open, which is conll_close's from then on. */
void conll_open_source(struct source *source, struct conll *c);
int conll_next(struct conll *c, struct snug_err *err); /* SNUG_ERR_INPUT: lines of unequal numbers of columns */
void conll_close(struct conll *c);

#endif
