#include "pass/pass.h"

void pass_reduce(struct graph *g, struct pass_settings *s)
{
    for (int i = 1, n = g->n_values; i < n && s->ranks > 1 && !g->err.code; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role != ROLE_GRADIENT || v->base) /* a group's parts come with it */
            continue;
        g->layer = v->layer;
        emit_all_reduce(g, &(struct op_all_reduce){.g = i});
    }
}
