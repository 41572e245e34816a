/* prompts.h: what generation begins with, from --prompt, --chat or --data. */
#ifndef TRAIN_SESSION_PROMPTS_H
#define TRAIN_SESSION_PROMPTS_H

#include "train/session/session.h"

/* Reads and tokenizes the prompts. A row of --data has "prompt" (a text, or a list of messages), "messages", or "input_ids".
 * SNUG_ERR_INPUT with path and line for a row that is none of them, or longer than the model can take. */
int prompts_open(struct session *s, struct snug_err *err);
void prompts_close(struct session *s);

/* --eval-samples: prompts that rows of the evaluation data begin with, spread evenly over them. --predict-with-generate: all rows. A
 * prompt ends where the last answer of its row begins: the last tokens that are learned. A row that is learned from its beginning is
 * cut in the middle. A source is a prompt. Nothing where none are asked for; SNUG_ERR_USAGE where there are no such rows, or no
 * tokenizer. */
int prompts_of_data(struct session *s, struct snug_err *err);
/* The tokens that are expected of prompt i: (*n) behind (*n_before) with which they make a text. */
const int32_t *prompts_expected(const struct session *s, size_t i, size_t *n_before, size_t *n);
/* Whether --eval-samples shows this row of the evaluation data. */
bool prompts_is_sample(const struct session *s, int64_t row);

/* Whether `snug predict` writes texts: of a model that makes them of sources. */
bool prompts_are_predicted(const struct session *s);
/* Makes the rows of `d`, sources without targets, the prompts, instead of those that there were. `first`: what messages call the first. */
int prompts_of_sources(struct session *s, const struct dataset *d, int64_t first, struct snug_err *err);

/* The largest call of the program for `n` prompts of `longest` tokens at most: how many run at once, how many of their tokens it
 * reads, how long they get. */
void prompts_size(struct session *s, int64_t n, int64_t longest);

#endif
