/* log.h: OUT/log.jsonl, an object per logged step or evaluation. A log that cannot be written never stops training. */
#ifndef TRAIN_LOG_H
#define TRAIN_LOG_H

#include "base/io.h"
#include "base/str.h"

struct run_log {
    const struct io *io;
    char *path;
    int fd;        /* -1: not open, or given up after a failed write */
    int64_t bytes; /* written so far: a checkpoint records it, so that a resumed log has no gap and no repeat */
};

/* Opens for appending behind the first `keep` bytes; the rest, written after the checkpoint that is resumed, goes. */
int log_open(struct run_log *l, const struct io *io, const char *dir, int64_t keep, struct snug_err *err);
void log_line(struct run_log *l, const char *json, void (*note)(void *ctx, const char *line), void *ctx);
void log_close(struct run_log *l);
void log_remove(struct run_log *l); /* closes, and the file goes: nothing has happened */

/* Members of an object: log_number(&s, "loss", x) appends `"loss": x` with a comma where needed; numbers that are not
 * finite become strings, "NaN" or "Infinity", so that the line stays JSON. */
void log_number(struct str *s, const char *name, double value);

#endif
