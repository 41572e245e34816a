#include "pass/owners.h"

#include "op/optimizer/adafactor.h"

#include <math.h>
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

static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Elements of a chunk of a weight's shards, which begin where partial sums of a norm do, and of Adafactor, too: these then are the same for
 * any number of ranks, or for none. Of codes of 8 bits they begin where rows do, so that a rank has the scales of what it has. */
static int64_t weight_chunk(const struct value *v, const struct pass_settings *s)
{
    if (v->dtype == DT_F8_E4M3)
        return least_common_multiple(SUMSQ_CHUNK, v->shape[v->ndim - 1].c);
    if (v->frozen || !optimizer_by_tile(s->update.optimizer))
        return SUMSQ_CHUNK;
    int64_t columns = v->shape[v->ndim - 1].c, rows = v->ndim > 2 ? v->shape[v->ndim - 2].c : ADAFACTOR_ROWS;
    return least_common_multiple(SUMSQ_CHUNK, rows * columns);
}

/* Whether no rank has much more than others of what is cut into chunks that may be large. */
static bool comes_out_even(int64_t elements, int64_t chunk, int ranks)
{
    const double at_most = 1.25; /* times the mean */
    double chunks = (double)(elements / chunk);
    return chunk == SUMSQ_CHUNK || ceil(chunks / ranks) * ranks <= at_most * chunks;
}

/* What is on disk is saved from there, tensor by tensor. */
static bool is_for_all(const struct value *v, const struct pass_settings *s)
{
    int64_t elements = value_elements(v, (struct dims){0});
    return v->ndim > 1 && !v->pitch && !s->choices.states_on_disk && elements > SUMSQ_CHUNK &&
           (v->frozen || optimizer_in_shards(s->update.optimizer)) &&
           comes_out_even(elements, weight_chunk(v, s), s->ranks);
}

/* Those of one owner each, of those that somebody updates, or that no rank has whole. owner: by value. */
static int list_wholes(const struct graph *g, const struct pass_settings *s, struct whole *out, int *owner)
{
    int n = 0;
    const struct dims none = {0};
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role != ROLE_WEIGHT || v->base || (v->frozen && !weight_leaves(v, s)))
            continue;
        if (v->shards || is_for_all(v, s))
            owner[i] = ALL_OWN;
        else
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

int64_t shard_chunk(const struct graph *g, const struct pass_settings *s, int id, int of)
{
    const struct dims none = {0};
    const struct value *weight = graph_value(g, of);
    int64_t elements = value_elements(weight, none), fewer = value_elements(graph_value(g, id), none);
    int64_t each = (elements + fewer - 1) / fewer; /* of the weight's: 256 of a block in codes, or a row */
    return weight_chunk(weight, s) / each;
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
        deal(wholes, list_wholes(g, s, wholes, owner), s->ranks, load, owner);
    for (int i = 1; there && i < g->n_values; i++)
        owner[i] = graph_value(g, i)->role == ROLE_WEIGHT ? owner[value_root(g, i)] : 0;
    mem_free(wholes);
    mem_free(load);
    if (!there)
        mem_free(owner);
    return there ? owner : NULL;
}
