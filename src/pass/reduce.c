#include "pass/owners.h"

void pass_reduce(struct graph *g, struct pass_settings *s)
{
    int *owner = s->ranks > 1 ? weight_owners(g, s) : NULL;
    for (int i = 1, n = g->n_values; i < n && owner && !g->err.code; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role != ROLE_GRADIENT || v->base) /* a group's parts come with it */
            continue;
        g->layer = v->layer;
        emit_all_reduce(g, &(struct op_all_reduce){.g = i, .to = owner[v->of]});
    }
    mem_free(owner);
}
