/* uses.h: where values are used, and what a node must not pass: indices that a pass makes once, so that it need not look
 * through all nodes for each value. */
#ifndef GRAPH_USES_H
#define GRAPH_USES_H

#include "graph/graph.h"

struct use {
    int node, slot;
};

/* By root: every slot that refers to a value or to a slice of it, in the order of the nodes. As the graph was when it was
 * made. Those of `root` are at[from[root]] … at[from[root + 1] - 1]. */
struct uses {
    int *from;
    struct use *at;
};
bool uses_open(struct uses *u, struct graph *g); /* false: no memory, and the graph has failed */
void uses_close(struct uses *u);                 /* also after a failure */
static inline int uses_count(const struct uses *u, int root)
{
    return u->from[root + 1] - u->from[root];
}

/* By root: its slices and theirs, in the order of their ids, as at[from[root]] … at[from[root + 1] - 1]. */
struct slices {
    int *from, *at;
};
bool slices_open(struct slices *s, struct graph *g); /* false: no memory, and the graph has failed */
void slices_close(struct slices *s);

/* The latest node before another that it must not be moved across (node_conflicts), among those that were added so far, in
 * the order in which they run. */
struct hazards {
    struct access *accesses;
    int *last, *last_write; /* by root: the latest access, and the latest that writes; 0 for none */
    int n;
};
bool hazards_open(struct hazards *h, struct graph *g); /* false: no memory, and the graph has failed */
void hazards_close(struct hazards *h);
void hazards_add(struct hazards *h, const struct graph *g, int node);
int hazards_find(const struct hazards *h, const struct graph *g, const struct node *n); /* 0: there is none */
int hazards_writer(const struct hazards *h, const struct graph *g,
                   int id); /* the latest that writes it; 0: there is none */

#endif
