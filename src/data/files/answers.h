/* answers.h: questions and answers that are not yet the prompts and completions of docs/chat.md. */
#ifndef DATA_FILES_ANSWERS_H
#define DATA_FILES_ANSWERS_H

#include "data/files/table.h"

/* For what may be a causal language model, with columns that no option names. SNUG_ERR_INPUT with a line that converts
 * the file, where its columns are a question and an answer by their names and no other column is the text; else
 * SNUG_OK. */
int answers_refuse(const struct table *t, struct snug_err *err);

#endif
