#include "graph/uses.h"
#include "pass/owners.h"

static bool is_state_of_optimizer(const struct value *v)
{
    return v->role == ROLE_STATE && v->kin;
}

/* Whether only updates use it, so that a device gets it from a file (pass_stage), and a copy is worth it. */
static bool may_page(const struct value *v)
{
    return v->kin != KIN_AHEAD && dtype_bytes(v->dtype, value_elements(v, (struct dims){0})) >= COPY_LEAST_BYTES;
}

/* An update reads and writes a weight in any memory, and embed reads a few of its rows. */
static bool reads_from_afar(const struct use *u, const struct node *n)
{
    return op_is_update(n->op) || (n->op == OP_embed && u->slot != 0);
}

/* Weights that nothing else reads as they are stored, by root: the nodes read the copies that stay, or they are tables. Where weights are
 * of one rank alone, only those: they are of no other's host, and a table is pulled whole. */
static void place_weights(struct graph *g, const struct pass_settings *s)
{
    const int layers = s->choices.host_weights;
    struct uses u = {0};
    int *copy = graph_kin(g, KIN_COPY);
    bool opened = copy && uses_open(&u, g);
    for (int i = 1; opened && i < g->n_values; i++) {
        struct value *v = graph_value(g, i);
        bool far = v->role == ROLE_WEIGHT && !v->base && v->layer < layers && (copy[i] || v->table);
        far = far && (!has_owners(s) || (weight_leaves(v, s) && copy[i]));
        for (int k = far ? u.from[i] : 0; far && k < u.from[i + 1]; k++)
            far = reads_from_afar(&u.at[k], &g->nodes[u.at[k].node]);
        if (far)
            v->memory = MEMORY_HOST;
    }
    uses_close(&u);
    mem_free(copy);
}

void pass_place(struct graph *g, struct pass_settings *s)
{
    if (s->choices.host_weights && 1 << s->program & HAS_FORWARD && !g->err.code)
        place_weights(g, s);
    for (int i = 1; i < g->n_values && !g->err.code; i++) {
        struct value *v = graph_value(g, i);
        if (v->base)
            v->memory = graph_value(g, v->base)->memory;
        else if (is_state_of_optimizer(v) && s->choices.states_on_disk)
            v->memory = may_page(v) ? MEMORY_DISK : MEMORY_DEVICE;
        else if (is_state_of_optimizer(v) && v->layer < s->choices.host_layers)
            v->memory = MEMORY_HOST;
    }
}
