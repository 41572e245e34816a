/* nodes.h: what the executor knows of a program's nodes, for those who go through them as it does. */
#ifndef RUN_NODES_H
#define RUN_NODES_H

#include "run/run.h"

/* Whether this rank does. */
bool run_executes(const struct run *r, const struct node *n);

/* The first node that changes a weight or a state; n_nodes if none does. */
int run_first_update(const struct program *g);

#endif
