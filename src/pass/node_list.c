#include "pass/node_list.h"

void node_list_append(struct graph *g, struct node_list *l, const struct node *n)
{
    if (g->err.code)
        return;
    if (!MEM_GROW(l->nodes, l->cap, (size_t)l->n + 1)) {
        err_no_memory(&g->err, l->cap * 2 * sizeof *n);
        return;
    }
    l->nodes[l->n++] = *n;
}

int node_list_cast(struct graph *g, struct node_list *l, const struct node *beside, int x, int y, enum dtype type)
{
    struct value v = *graph_value(g, x);
    if (!y) {
        y = graph_add_value(g, NULL, ROLE_ACTIVATION, type, v.ndim, v.shape);
        graph_value(g, y)->layer = beside->layer;
    }
    struct node cast = {.op = OP_cast, .layer = beside->layer, .backward = beside->backward};
    cast.u.cast = (struct op_cast){.x = x, .y = y};
    node_list_append(g, l, &cast);
    return y;
}

void node_list_finish(struct graph *g, struct node_list *l)
{
    graph_set_nodes(g, l->nodes, l->n);
    mem_free(l->nodes);
    *l = (struct node_list){0};
}
