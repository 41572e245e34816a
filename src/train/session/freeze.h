/* freeze.h: --freeze held against the weights of the model. */
#ifndef TRAIN_SESSION_FREEZE_H
#define TRAIN_SESSION_FREEZE_H

#include "train/session/session.h"

/* Every pattern of --freeze matches a weight, and some weight is left to train; a note says how many are frozen.
 * SNUG_ERR_USAGE with a name that is near. Does nothing without --freeze. */
int freeze_check(const struct session *s, struct snug_err *err);

#endif
