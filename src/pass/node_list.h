/* node_list.h: the new list of nodes that a pass makes which inserts some. */
#ifndef PASS_NODE_LIST_H
#define PASS_NODE_LIST_H

#include "graph/graph.h"

struct node_list {
    struct node *nodes;
    size_t cap;
    int n;
};
void node_list_append(struct graph *g, struct node_list *l, const struct node *n);
/* Appends y = cast(x) in the layer and pass of `beside`; y 0: made in `type`. Gives y. */
int node_list_cast(struct graph *g, struct node_list *l, const struct node *beside, int x, int y, enum dtype type);
void node_list_finish(struct graph *g, struct node_list *l); /* makes it the graph's, and frees it */

#endif
