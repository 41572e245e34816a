/* prompts.h: what generation begins with, from --prompt, --chat or --data. */
#ifndef TRAIN_SESSION_PROMPTS_H
#define TRAIN_SESSION_PROMPTS_H

#include "train/session/session.h"

/* Reads and tokenizes the prompts. A row of --data has "prompt" (a text, or a list of messages), "messages", or "input_ids".
 * SNUG_ERR_INPUT with path and line for a row that is none of them, or longer than the model can take. */
int prompts_open(struct session *s, struct snug_err *err);
void prompts_close(struct session *s);

/* --eval-samples: prompts that rows of the evaluation data begin with, spread evenly over them. A prompt ends where the last answer of
 * its row begins: the last tokens that are learned. A row that is learned from its beginning is cut in the middle. Nothing where none
 * are asked for; SNUG_ERR_USAGE where there are no such rows, or no tokenizer. */
int prompts_of_data(struct session *s, struct snug_err *err);
/* The tokens behind prompt i in its row, up to the end of the answer: (*n). */
const int32_t *prompts_expected(const struct session *s, size_t i, size_t *n);

/* The largest call of the program: how many prompts run at once, how many of their tokens it reads, how long they get. */
void prompts_size(struct session *s);

#endif
