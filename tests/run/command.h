/* command.h: runs the snug command as a user does, and reads what it leaves behind: logs, weights, messages. */
#ifndef TESTS_RUN_COMMAND_H
#define TESTS_RUN_COMMAND_H

#include "../folder.h"
#include "../sanitized.h"
#include "base/seconds.h"
#include "format/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>
#include <jansson.h>

const char *said(void); /* folder/said: where a test has a command write what it says */

/* What every test of whole runs repeats for each of: the reference, and the CPU in both of its precisions. With
 * SNUG_TEST_DEVICE=cuda a GPU in each of its own instead, with cuda:bf16 in one. */
struct device {
    const char *name, *dtype;
    double gradient_error;         /* norm-wise relative, against double precision: the acceptance bounds */
    double loss_error, norm_error; /* of every step of a run, against the Trainer in fp32 */
    double cut_error;              /* of every step's loss, between batches cut differently */
    double probability_error;      /* absolute, of numbers printed with 6 digits */
};
int n_devices(void);
const struct device *device(int i);    /* 0 <= i < n_devices() */
const struct device *one_device(void); /* where one will do: the CPU in fp32, or the only one that is tested */
bool is_fp32(const struct device *on);
bool is_host(const struct device *on); /* computes in host memory */
/* Whether a recorded model runs there. GPUs take no heads of 4 elements, which starcoder2 has; a line says so. */
bool takes_model(const struct device *on, const char *name);

/* How often a loop over random moments is run: n times, or the percentage of it in SNUG_TEST_LOOPS, once at least. */
int loops(int n);

/* Arguments: lists that end in NULL. */
#define ARGS(...)                                                                                                      \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

/* `args`, perhaps what this gave before, and more of them; until it is called again. */
static inline const char *const *and_more(const char *const *args, const char *const *more)
{
    static const char *all[64];
    size_t n = 0;
    for (; *args; args++)
        all[n++] = *args;
    for (; *more; more++)
        all[n++] = *more;
    all[n] = NULL;
    return all;
}

/* `snug` with the arguments of `first`, then of `second` (may be NULL); stdout and stderr go into the file `said`. */
pid_t start_snug(const char *said, const char *const *first, const char *const *second);
/* The same, which its parent traces: it stops when the program begins. */
pid_t start_snug_traced(const char *said, const char *const *first, const char *const *second);
int end_of(pid_t pid); /* the exit status, or 128 + the signal that killed it */
int snug(const char *said, const char *const *first, const char *const *second);

/* As snug, and asserts the exit status; on failure what was said is printed. */
void expect_snug(int status, const char *said, const char *const *first, const char *const *second);

bool file_has(const char *path, const char *part);

/* The object that a command with --json wrote into said(), where notes stand around it; fails the test where there is none. New
 * reference. */
json_t *said_object(void);

/* PATH below tests/ of the source tree, in the arena of the test program. */
const char *fixture(const char *path);
const char *join(const char *dir, const char *name); /* likewise */

/* A tensor's elements as doubles (F64 F32 BF16), free'd by the caller; fails the test where it is not there. */
void open_tensors(const char *path, struct st_file *f);
double *read_tensor(const struct st_file *f, const char *name, int64_t *n);
double norm(const double *x, int64_t n);
double distance(const double *x, const double *y, int64_t n);
/* Norm-wise relative, for every tensor of `expected` whose name begins with the prefix. A gradient that is zero by mathematics (that of
 * a key's bias: softmax does not see what all its arguments have in common) is rounding noise there, below 1e-9, and here. */
void compare_tensors(const char *got, const char *expected, const char *prefix, double bound, double zero_bound);

/* OUT/log.jsonl as an array of objects; read_log without the members that are times or memory. New reference. */
json_t *read_whole_log(const char *out);
json_t *read_log(const char *out);

/* Something to train on, written into the existing folder `dir`: `rows` rows of 1 to `length` tokens below 37, and if
 * wanted a label (0 to 2) that follows from the first one; in length and content the rows differ. Gives the file. */
const char *make_rows(const char *dir, int64_t rows, int64_t length, uint32_t seed, bool labels);

/* A folder DIR/NAME with the config.json of the fixture `model` and another number of layers, for --init-from-config.
 */
const char *make_deeper(const char *dir, const char *model, int layers);

#endif
