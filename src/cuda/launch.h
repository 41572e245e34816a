/* launch.h: nodes by their launchers (kernels.h). */
#ifndef CUDA_LAUNCH_H
#define CUDA_LAUNCH_H

#include "backend/backend.h"
#include "cuda/kernels.h"
#include "cuda/lanes.h"

/* Nodes of one launch at most: those that run at the same time. */
enum { CUDA_LAUNCH_MANY = 512 };

/* One node. */
int cuda_launch(enum op op, const union args_any *args, const struct cuda_call *c);
int64_t cuda_launch_workspace(enum op op, const union args_any *args, const struct cuda_call *c); /* bytes */

/* Whether nodes of this op that run at the same time (`joins`) are one launch. */
bool cuda_launch_together(enum op op);

/* Enqueues n nodes, each with its own workspace and in its lane. Capturable. */
int cuda_launch_nodes(const struct cuda_call *c, struct cuda_lanes *lanes, const struct work *work, int n,
                      struct snug_err *err);
/* All on the stream of c, one after another. */
int cuda_launch_in_turn(const struct cuda_call *c, const struct work *work, int n, struct snug_err *err);
/* In lanes that have begun, as run_on of struct backend. */
int cuda_launch_on(const struct cuda_call *c, struct cuda_lanes *lanes, const struct work *work, int n,
                   struct snug_err *err);

#endif
