/* node_time.h: the time of a program from the times of single nodes, which were measured in a smaller program with the
 * same kinds of nodes: of a model with fewer layers, at fewer tokens. A node takes the time of the one that is most like
 * it, times the ratio of what they have to do; where that was measured at two sizes, the time on the line through both. */
#ifndef RUN_NODE_TIME_H
#define RUN_NODE_TIME_H

#include "run/run.h"

/* What a node's time is in proportion to: floating-point operations of matrix products and attention, bytes read and
 * written of everything else. */
bool node_bound_by_operations(enum op op);
double node_work(const struct program *g, const struct node *n, struct dims dims);

struct node_time; /* of one node */
struct node_times {
    struct node_time *all;
    size_t n, cap;
};

/* Adds the nodes of g at `dims`; seconds[i] is the time of node i. */
int node_times_add(struct node_times *t, const struct program *g, struct dims dims, const double *seconds,
                   struct snug_err *err);
void node_times_free(struct node_times *t);
double node_times_sum(const struct node_times *t); /* of all that was added */

/* Seconds of program g at `dims`. `attention`: how much more there is to do in attention than with sequences of equal
 * length, which is what its operations are counted for (the mean of the squared lengths over the square of their mean).
 */
double node_times_of(const struct node_times *t, const struct program *g, struct dims dims, double attention);

#endif
