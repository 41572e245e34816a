/* stream.h: prediction of texts, which are read as they come instead of before. */
#ifndef TRAIN_SESSION_STREAM_H
#define TRAIN_SESSION_STREAM_H

#include "train/session/session.h"

/* Whether the options ask for it: a table, the standard input, or texts of the command line. */
bool stream_is_wanted(const struct io *io, const struct options *o);
int stream_open(struct session *s, struct snug_err *err);

/* Sets the sizes of batches, and of the program for them. Where all rows are there already, as many as they need; else
 * whatever a batch may have. */
int stream_size(struct session *s, struct snug_err *err);

#endif
