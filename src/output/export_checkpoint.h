/* export_checkpoint.h: a Hugging Face model folder of a checkpoint, without its data and without running anything. */
#ifndef OUTPUT_EXPORT_CHECKPOINT_H
#define OUTPUT_EXPORT_CHECKPOINT_H

#include "checkpoint/checkpoint.h"
#include "options/options.h"

/* `from` is a step folder or an output folder, whose newest good checkpoint it is. Writes config.json, the weights in
 * --dtype and the tokenizer's files into --output-dir, as training does at its end; *step: which one's. config.json and
 * the tokenizer are those that the checkpoint recorded; of one from before they were recorded, those of the output
 * folder that it lies in, or of --model.
 * SNUG_ERR_CHECKPOINT: no good checkpoint. SNUG_ERR_USAGE: the folder holds what is not replaced without
 * --overwrite-output-dir; the tokenizer is not found; a weight is beyond fp16. */
int export_checkpoint(const struct io *io, const struct options *o, const char *from, struct ckpt_notes notes,
                      int64_t *step, struct snug_err *err);

#endif
