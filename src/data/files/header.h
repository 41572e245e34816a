/* header.h: what a CSV file has in the place of its header, and what to do about it. */
#ifndef DATA_FILES_HEADER_H
#define DATA_FILES_HEADER_H

#include "data/files/columns.h"
#include "data/files/csv.h"

/* SNUG_ERR_INPUT where the line that was just read is "sep=;", which Excel writes in front of a header. */
int header_refuse_separator(const struct csv *c, struct snug_err *err);

/* SNUG_ERR_INPUT where the names of the columns, none of which is a usual one, look like a row of data: a number, a
 * sentence, or a text that later rows have in the same column. Reads on, but for a stream, which is not waited for. */
int header_refuse_row(struct csv *c, const struct columns *columns, struct snug_err *err);

#endif
