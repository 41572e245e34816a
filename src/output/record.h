/* record.h: OUT/training_args.json, the options of the run that made a result. `snug train --config` reads it back. */
#ifndef OUTPUT_RECORD_H
#define OUTPUT_RECORD_H

#include "base/str.h"
#include "options/options.h"

#define RECORD_NAME "training_args.json"

/* Every option of the command with its value, null where it is unset. What says how a run was started or gone on with,
 * such as resume_from_checkpoint, is left as if it had not been given: the file describes the run from its first step. */
int record_text(const struct options *o, struct str *out, struct snug_err *err);

/* The command line that gives what is not as by default, for a shell: "snug train --model m …". */
int record_command(const struct options *o, struct str *out, struct snug_err *err);

/* `text` as one word of a shell's command line, in quotes where it needs them. */
void record_word(struct str *out, const char *text);

/* Whether the file, which is there, is such a record. */
bool record_is_ours(const struct io *io, const char *path);

#endif
