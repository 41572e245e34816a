/* all_reduce.h: what the reference and the CPU's kernels do alike of what ranks exchange: they move bytes. */
#ifndef OP_ALL_REDUCE_H
#define OP_ALL_REDUCE_H

#include "graph/graph.h"
#include "ranks/ranks.h"

/* pull with a chunk, and broadcast: as op/all_reduce.c says. */
void pull_shards(const struct args_pull *a, const struct call *c);
void broadcast_over(const struct rank *r, const struct args_broadcast *a);

#endif
