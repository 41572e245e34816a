/* advice.h: what would make a training run fit that is too large: each choice that takes less, and how much. */
#ifndef TRAIN_FIT_ADVICE_H
#define TRAIN_FIT_ADVICE_H

#include "train/session/session.h"

enum { ADVICE_MAX = 192 };

/* Plans each change by itself and, where none is enough, more and more of them together; notes what each gives, and names the
 * first two that fit `limit` bytes. */
int advise(const struct session *s, int64_t limit, char advice[ADVICE_MAX], struct snug_err *err);

#endif
