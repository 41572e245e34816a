/* log.h: OUT/log.jsonl, an object per logged step or evaluation. A log that cannot be written never stops training: a
 * line that fails waits, and is tried again with the next one. */
#ifndef OUTPUT_LOG_H
#define OUTPUT_LOG_H

#include "base/io.h"
#include "base/str.h"

#define LOG_NAME "log.jsonl"

struct run_log {
    const struct io *io;
    char *path;
    int fd;             /* -1: not open */
    int64_t bytes;      /* written so far: a checkpoint records it, so that a resumed log has no gap and no repeat */
    struct str waiting; /* whole lines that could not be written yet */
    int64_t missing;    /* lines that are not in the file: those that wait, and those that there was no room to keep */
    void (*note)(void *ctx, const char *line);
    void *ctx;
    bool said; /* that a line could not be written */
};

/* Opens for going on behind the first `keep` bytes, or behind the last whole line in them; the rest, written after the
 * checkpoint that is resumed, goes. A file that has less than `keep` has a gap, which is noted. note may be NULL. */
int log_open(struct run_log *l, const struct io *io, const char *dir, int64_t keep,
             void (*note)(void *ctx, const char *line), void *ctx, struct snug_err *err);
void log_line(struct run_log *l, const char *json);
/* Tries once more to write what waits; what is then still missing was noted. */
void log_flush(struct run_log *l);
void log_close(struct run_log *l);
bool log_is_there(const struct io *io, const char *dir); /* a run has written in that folder */
void log_remove(struct run_log *l);                      /* closes, and the file goes: nothing has happened */

/* Whether the file, which is there, is one that snug wrote, by its first line; an empty one is. */
bool log_is_ours(const struct io *io, const char *path);

/* Members of an object: log_number(&s, "loss", x) appends `"loss": x` with a comma where needed; numbers that are not
 * finite become strings, "NaN" or "Infinity", so that the line stays JSON. */
void log_number(struct str *s, const char *name, double value);

#endif
