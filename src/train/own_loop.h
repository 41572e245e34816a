/* own_loop.h: training by a loop of the caller's, a micro-batch and an update at a time (SNUG_OWN_LOOP in snug.h). */
#ifndef TRAIN_OWN_LOOP_H
#define TRAIN_OWN_LOOP_H

#include "schedule/average.h"
#include "schedule/schedule.h"
#include "train/session/session.h"

/* All zero: nothing is taken yet. */
struct own_loop {
    struct order order;
    struct loader *loader;
    struct schedule schedule;
    struct average_rule averaging;
    struct average average;
    const struct window *window; /* NULL: none, or its update is made */
    int32_t done;                /* micro-batches of it */
    double loss;                 /* of those */
    int64_t steps, updates;
};

/* The contracts of snug_next, snug_forward_backward and snug_update. */
int own_loop_next(struct own_loop *l, struct session *s, struct snug_window *w, struct snug_err *err);
int own_loop_forward_backward(struct own_loop *l, struct session *s, int i, double *loss, struct snug_err *err);
int own_loop_update(struct own_loop *l, struct session *s, double learning_rate, double *grad_norm,
                    struct snug_err *err);
void own_loop_close(struct own_loop *l);

#endif
