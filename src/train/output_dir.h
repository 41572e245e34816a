/* output_dir.h: the output folder of a training run: whose it is, and whether a run goes on there. */
#ifndef TRAIN_OUTPUT_DIR_H
#define TRAIN_OUTPUT_DIR_H

#include "train/session/session.h"

bool output_dir_resumes(const struct options *o);
const char *
output_dir_resume_source(const struct options *o); /* --resume-from-checkpoint true, auto: the output folder */
bool output_dir_resume_auto(const struct options *o);

/* Takes session->output with its lock, unless that is done: see ckpt_dir_open. Early, before anything that takes long. */
int output_dir_claim(struct session *s, struct snug_err *err);

/* When it is sure that a run goes on from `step`: whether the disk has room for the checkpoints; then, with
 * --overwrite-output-dir, those of the run before are deleted. */
int output_dir_ready(struct session *s, int64_t step, struct snug_err *err);

void output_dir_release(struct session *s); /* also where none was taken */

#endif
