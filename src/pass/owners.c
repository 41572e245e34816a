#include "pass/owners.h"

#include <stdlib.h>
#include <string.h>

/* A value that weights lie in. */
struct whole {
    const char *name;
    int id;
    int64_t elements;
    bool frozen;
};

static int in_turn(const void *a, const void *b)
{
    const struct whole *x = a, *y = b;
    if (x->frozen != y->frozen)
        return x->frozen - y->frozen;
    return x->elements != y->elements ? (x->elements < y->elements) - (x->elements > y->elements)
                                      : strcmp(x->name, y->name);
}

/* Those that somebody updates, or that lie on one rank alone. */
static int list_wholes(const struct graph *g, const struct pass_settings *s, struct whole *out)
{
    int n = 0;
    const struct dims none = {0};
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role == ROLE_WEIGHT && !v->base && (!v->frozen || weight_leaves(v, s)))
            out[n++] = (struct whole){v->name, i, value_elements(v, none), v->frozen};
    }
    return n;
}

/* owner: by value that weights lie in. */
static void deal(struct whole *wholes, int n, int ranks, int64_t *load, int *owner)
{
    if (n)
        qsort(wholes, (size_t)n, sizeof *wholes, in_turn);
    for (int i = 0; i < n; i++) {
        int least = 0;
        for (int r = 1; r < ranks; r++)
            least = load[r] < load[least] ? r : least;
        load[least] += wholes[i].elements;
        owner[wholes[i].id] = least + 1;
    }
}

int *weight_owners(struct graph *g, const struct pass_settings *s)
{
    size_t n = (size_t)g->n_values;
    int *owner = mem_alloc(n * sizeof *owner);
    struct whole *wholes = mem_alloc(n * sizeof *wholes);
    int64_t *load = mem_alloc((size_t)(s->ranks > 1 ? s->ranks : 1) * sizeof *load);
    bool there = owner && wholes && load;
    if (!there && !g->err.code)
        err_no_memory(&g->err, n * sizeof *wholes);
    if (there && has_owners(s))
        deal(wholes, list_wholes(g, s, wholes), s->ranks, load, owner);
    for (int i = 1; there && i < g->n_values; i++)
        owner[i] = graph_value(g, i)->role == ROLE_WEIGHT ? owner[value_root(g, i)] : 0;
    mem_free(wholes);
    mem_free(load);
    if (!there)
        mem_free(owner);
    return there ? owner : NULL;
}
