/* prompts.h: what generation begins with, from --prompt, --chat or --data. */
#ifndef TRAIN_SESSION_PROMPTS_H
#define TRAIN_SESSION_PROMPTS_H

#include "train/session/session.h"

/* Reads and tokenizes the prompts. A row of --data has "prompt" (a text, or a list of messages), "messages", or "input_ids".
 * SNUG_ERR_INPUT with path and line for a row that is none of them, or longer than the model can take. */
int prompts_open(struct session *s, struct snug_err *err);
void prompts_close(struct session *s);

/* The largest call of the program: how many prompts run at once, how many of their tokens it reads, how long they get. */
void prompts_size(struct session *s);

#endif
