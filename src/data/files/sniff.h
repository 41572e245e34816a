/* sniff.h: what the rows of the standard input are, which has no name whose ending would say it. */
#ifndef DATA_FILES_SNIFF_H
#define DATA_FILES_SNIFF_H

#include "data/files/table.h"

/* By the first line: one that begins with { is JSON lines; a header with a column for the text (that `o` names, or with a
 * usual name) is CSV, or TSV; all else is lines of text. Nothing is used up. */
int sniff_format(struct source *s, const struct dataset_options *o, enum data_format *format, struct snug_err *err);

#endif
