/* by_hand.h: programs that a test puts together value by value, so that their places are known. */
#ifndef TESTS_PLAN_BY_HAND_H
#define TESTS_PLAN_BY_HAND_H

#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct program *add_program(struct plan *p, const char *name, struct dims max);
int bytes_value(struct program *g, int64_t bytes); /* an activation of so many bytes */

/* Adds a node that writes one value and reads another; either may be 0. */
void touch(struct program *g, int writes, int reads);

/* Gives everything its place; fails the test where that fails. */
void pack(struct plan *p);

/* Two programs of a run:
 *   training    (T 8, B 2)  ids (T) in;  w (100) and its part (10 from 16 on);  a, b, c of 100 bytes: a and c in turn
 *   evaluation  (T 20, B 1) ids (T) in;  w;  d of 150 bytes
 * In training w, a and b are of layer 1, c of layer 2. plan_free(&q->p) frees both. */
struct pair {
    struct plan p;
    struct program *training, *evaluation;
    int ids, w, part, a, b, c, eval_ids, eval_w, d;
};

void make_pair(struct pair *q);

#endif
