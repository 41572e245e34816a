/* chat.h: what a session knows about conversations, and what it says about data that hold some. */
#ifndef TRAIN_SESSION_CHAT_H
#define TRAIN_SESSION_CHAT_H

#include "train/session/session.h"

/* Sets s->chat from the model folder and the options; a template that cannot be read is an error only for data that need
 * it. After the task and the tokenizer. */
int chat_open(struct session *s, struct snug_err *err);
void chat_close(struct session *s);

/* Of data to train on: says how much is learned. SNUG_ERR_INPUT where no end of an answer is, because such a model would
 * never stop. `path` is for messages. */
int chat_check_data(struct session *s, const struct dataset *d, const char *path, struct snug_err *err);

/* --show-sample: notes with the tokens of the first row, and which are learned. */
int chat_show_sample(struct session *s, struct snug_err *err);

/* Whether the loss counts token i (of all tokens) of a causal language model's data. */
bool chat_is_learned(const struct dataset *d, int64_t i);

#endif
