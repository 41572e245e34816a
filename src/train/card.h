/* card.h: OUT/README.md, the model card of a result, with the header that the Hugging Face hub reads. */
#ifndef TRAIN_CARD_H
#define TRAIN_CARD_H

#include "train/session/session.h"

#define CARD_NAME "README.md"

/* The card of the model of step `step`, whose evaluation and the history before it are in dir/log.jsonl. */
int card_text(const struct session *s, const struct io *io, const char *dir, int64_t step, struct str *out,
              struct snug_err *err);

/* Whether a card may be written to dir/README.md: there is none, or one that nobody has edited since card_text made it. */
bool card_is_free(const struct io *io, const char *dir);

#endif
