/* lanes.h: what runs at the same time, and how long values live because of that.
 *
 * A node, with those that join it, begins when
 * - those before it of its own lane are over;
 * - those before it of other lanes that it conflicts with are over (node_conflicts), and that which wrote what it `waits` for;
 * - and, where it is of another lane than LANE_COMPUTE, all those before it of LANE_COMPUTE are over.
 * Because of the last one, what a lane writes may lie where values lay that have died before its place in the program. What a lane
 * uses lives until a node of LANE_COMPUTE has waited for it, or until the end of the program, which waits for all lanes. */
#ifndef GRAPH_LANES_H
#define GRAPH_LANES_H

#include "graph/graph.h"

/* Sets `after` of all nodes; of those that run at the same time the first has it for all. Call it when it is known which nodes join
 * others. Failure is in the graph. */
void lanes_find(struct graph *g);

/* By root: the first and the last node of a value's life; 0: nothing uses it. The first writes it and the last reads it, or they run
 * at the same time as nodes that do. Arrays of n_values, zeroed. */
void lives_find(const struct graph *g, int *first, int *last);

/* By root: whether a lane uses it that no node of LANE_COMPUTE waits for any more. An array of n_values, zeroed. */
void lives_trailing(const struct graph *g, bool *trails);

/* Bytes of the values without a lasting place that live at each node, 1 … n_nodes (what lives on), at sizes `max`. mem_free'd by the
 * caller; NULL: no memory. */
int64_t *lives_bytes(const struct graph *g, struct dims max);

/* The node behind those that run at the same time as `k`, which is the first of them. */
int lanes_end(const struct graph *g, int k);

/* Seconds of a program whose node k takes seconds[k], of those that run at the same time together; all lanes side by side. settle: of a
 * program that is run again and again, the node before which lanes of the run before are waited for; 0: its end waits. */
double lanes_seconds(const struct graph *g, const double *seconds, int settle);

#endif
