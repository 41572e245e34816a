/* tensorboard.h: the log as an event file of TensorBoard: scalars with the Trainer's tags (train/loss, eval/accuracy, …). Like
 * log.jsonl, one that cannot be written never stops training: what fails waits, and is tried again with the next line. */
#ifndef OUTPUT_TENSORBOARD_H
#define OUTPUT_TENSORBOARD_H

#include "base/io.h"
#include "base/str.h"

struct tensorboard {
    const struct io *io;
    char *path;
    int fd;             /* -1: not open */
    int64_t bytes;      /* written so far */
    struct str waiting; /* records that could not be written yet */
    void (*note)(void *ctx, const char *line);
    void *ctx;
    bool said; /* that something could not be written */
};

/* A new event file in the folder `dir`, which is made. from_step >= 0: what is there already of steps from that one on is
 * taken back, as a run that is resumed makes it again. `time`: seconds since 1970. note may be NULL. */
int tensorboard_open(struct tensorboard *t, const struct io *io, const char *dir, double time, int64_t from_step,
                     void (*note)(void *ctx, const char *line), void *ctx, struct snug_err *err);

/* A line of log.jsonl: every number in it but the step. */
void tensorboard_line(struct tensorboard *t, double time, const char *json);

void tensorboard_close(struct tensorboard *t);  /* tries once more to write what waits */
void tensorboard_remove(struct tensorboard *t); /* closes, and the file goes */

/* "Nov22_10-31-07_HOST", as the Trainer names the folder of a run. */
void tensorboard_run_name(double time, char name[80]);

double tensorboard_time(void); /* now */

#endif
