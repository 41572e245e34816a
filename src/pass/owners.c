#include "pass/owners.h"

#include <stdlib.h>
#include <string.h>

/* A value that weights lie in. */
struct whole {
    const char *name;
    int id;
    int64_t elements;
};

static int largest_first(const void *a, const void *b)
{
    const struct whole *x = a, *y = b;
    return x->elements != y->elements ? (x->elements < y->elements) - (x->elements > y->elements)
                                      : strcmp(x->name, y->name);
}

/* Those of which at least a part has a gradient. */
static int list_wholes(const struct graph *g, const int *gradient, bool *seen, struct whole *out)
{
    int n = 0;
    for (int i = 1; i < g->n_values; i++) {
        int id = gradient[i] ? value_root(g, i) : 0;
        const struct value *v = graph_value(g, id);
        if (!id || seen[id])
            continue;
        seen[id] = true;
        struct dims none = {0};
        out[n++] = (struct whole){v->name, id, value_elements(v, none)};
    }
    return n;
}

/* owner: by value that weights lie in. */
static void deal(struct whole *wholes, int n, int ranks, int64_t *load, int *owner)
{
    if (n)
        qsort(wholes, (size_t)n, sizeof *wholes, largest_first);
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
    int *owner = mem_alloc(n * sizeof *owner), *gradient = graph_kin(g, KIN_GRADIENT), *part = graph_kin(g, KIN_PART);
    bool *seen = mem_alloc(n);
    struct whole *wholes = mem_alloc(n * sizeof *wholes);
    int64_t *load = mem_alloc((size_t)(s->ranks > 1 ? s->ranks : 1) * sizeof *load);
    bool there = owner && gradient && part && seen && wholes && load;
    if (!there && !g->err.code)
        err_no_memory(&g->err, n * sizeof *wholes);
    for (size_t i = 1; there && i < n; i++)
        gradient[i] = gradient[i] ? gradient[i] : part[i];
    if (there && has_owners(s))
        deal(wholes, list_wholes(g, gradient, seen, wholes), s->ranks, load, owner);
    for (int i = g->n_values - 1; there && i > 0; i--) /* a part stands behind its whole */
        owner[i] = gradient[i] ? owner[value_root(g, i)] : 0;
    mem_free(gradient);
    mem_free(part);
    mem_free(seen);
    mem_free(wholes);
    mem_free(load);
    if (!there)
        mem_free(owner);
    return there ? owner : NULL;
}
