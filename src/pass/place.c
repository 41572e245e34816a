#include "pass/pass.h"

static bool is_state_of_optimizer(const struct value *v)
{
    return v->role == ROLE_STATE && v->kin;
}

void pass_place(struct graph *g, struct pass_settings *s)
{
    for (int i = 1; i < g->n_values && !g->err.code; i++) {
        struct value *v = graph_value(g, i);
        if (v->base)
            v->memory = graph_value(g, v->base)->memory;
        else if (is_state_of_optimizer(v) && v->layer < s->choices.host_layers)
            v->memory = MEMORY_HOST;
    }
}
