/* checkpoint_help.h: a file table that misbehaves on order, a tiny "training" whose every step depends on the one
 * before. */
#ifndef TESTS_CHECKPOINT_HELP_H
#define TESTS_CHECKPOINT_HELP_H

#include "../folder.h"
#include "checkpoint/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Files. fsync does nothing but count: what a killed process loses does not depend on it. */

enum fault { FAULT_NONE, FAULT_ERROR, FAULT_SHORT, FAULT_KILL };

struct faulty {
    struct io io; /* first: io is &f->io */
    atomic_long calls;
    long at; /* the call that fails, from 1 */
    enum fault kind;
    bool for_ever;
    int errnum;
    char hit[32];      /* the name of the first call that failed */
    atomic_bool hangs; /* lstat and fsync do not return as long as it is set */
    long fs_type;      /* statfs says so, 0: the truth */
    int64_t fs_free;   /* and so many bytes, -1: the truth */
    int flock_errnum;
    int close_errnum;  /* of files that were written */
    off_t close_below; /* only of those smaller than this; 0: of all */
    ino_t unsyncable;  /* fsync fails with EIO for this inode */
    bool rename_lies;  /* renames happen and then fail with ENOENT, as over NFS */
};
void faulty_init(struct faulty *f);

/* ---- Notes. */

struct lines {
    char text[200][400];
    int n;
};
void collect(void *ctx, const char *line);
struct ckpt_notes notes_of(struct lines *l);
const char *line_with(const struct lines *l, const char *part); /* NULL if none */
int count_lines(const struct lines *l, const char *part);

/* ---- Training. */

enum { TINY_TENSORS = 6 };

struct tiny {
    int64_t step;
    float weight[8][24], bias[24];
    uint16_t moment[8][24]; /* bf16 */
    uint8_t codes[33];
    double loss_scale;
};
void tiny_start(struct tiny *t);
void tiny_step(struct tiny *t);                      /* t->step + 1 */
void tiny_run_to(struct tiny *t, int64_t last_step); /* from the start */
void tiny_tensors(struct tiny *t, struct ckpt_tensor tensors[TINY_TENSORS]);
json_t *tiny_state(const struct tiny *t); /* new reference */
void tiny_hash(struct tiny *t, char hex[33]);

/* Loads, and asserts that it is exactly what training to that step gives. */
void assert_loads(const struct ckpt_found *found);

int save_tiny(const struct io *io, const char *dir, int64_t step, struct ckpt_notes notes, struct snug_err *err);

#endif
