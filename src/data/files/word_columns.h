/* word_columns.h: whether the rows of a table are words, and which columns hold them and their tags. */
#ifndef DATA_FILES_WORD_COLUMNS_H
#define DATA_FILES_WORD_COLUMNS_H

#include "data/files/table.h"

/* Rows are words where that is asked for, and where the first row shows words with their tags. Then the form of t->columns is
 * ROWS_WORDS. SNUG_ERR_INPUT: words are asked for, and there are none, or no tags where `labels` needs them. */
int word_columns_find(struct table *t, enum table_labels labels, struct snug_err *err);

#endif
