/* option_change.h: a resumed run with other options than its checkpoint (--allow-option-change). */
#ifndef TRAIN_OPTION_CHANGE_H
#define TRAIN_OPTION_CHANGE_H

#include "train/session/session.h"
#include "train/state.h"

/* What may change without the results of the steps before being another run's: recorded, for saying what changed. */
int option_change_record(const struct options *o, json_t **out, struct snug_err *err);

/* A checkpoint's document with the options that its version of snug did not have yet, as they are where they are not given, for a run
 * with the options o. New reference. */
int option_change_complete(const struct options *o, const json_t *saved, json_t **out, struct snug_err *err);

/* Whether --allow-option-change would do: options differ between the documents, but none that it does not let change. */
bool option_change_allowed(const struct session *s, const json_t *saved, const json_t *now);

/* `saved`: the checkpoint's document. Notes what differs, option by option, adds it to session->option_changes, and makes
 * the options in `saved` the run's. Where the rows of a step are others, t->origin is where they change. */
int option_change_apply(struct session *s, json_t *saved, struct train_state *t, struct snug_err *err);

#endif
