/* fit.h: whether what a run takes is there; what would make it fit says advice.h. Parts of session_open and session_load. */
#ifndef TRAIN_FIT_FIT_H
#define TRAIN_FIT_FIT_H

#include "train/session/session.h"

/* Compiles and plans s->compile with s->choices into s->run, with room for the copy of a checkpoint. Where the plan is too much for
 * --memory-budget, it is the fastest way that fits (ways.h). There may be none, or no budget and too little free memory on the device.
 * Then choices that the options leave open give up time for room, which a note says: first logits of all tokens at once, then kept
 * dropout masks, then updates that wait for all gradients, then 16-bit copies of weights that stay, then optimizer states on the device.
 * SNUG_ERR_ENV: the plan is over --memory-budget; notes say what each choice that takes less would take. */
int fit_plan(struct session *s, struct snug_err *err);

/* Has a device measure how it runs the plan best (run_tune). Only where the plan's memory is free: of a batch that is far
 * too large it would take minutes. Where it is not free, fit_room's error, unless a plan is all that is wanted. */
int fit_tune(struct session *s, struct snug_err *err);

/* That the plan's memory is free at present, before any of it is taken: a process that swaps, or is killed half-way,
 * helps nobody. SNUG_ERR_ENV, with the same notes. */
int fit_room(struct session *s, struct snug_err *err);

#endif
