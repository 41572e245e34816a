#include "pass/node_list.h"
#include "pass/owners.h"

#include <string.h>

/* Whether a gradient is added up as one: in shards each tensor by itself, else what lies in one value at once. */
static bool is_summed(const struct graph *g, int id, const int *owner)
{
    const struct value *v = graph_value(g, id);
    bool named = v->kin == KIN_GRADIENT || v->kin == KIN_PART, in_shards = named && owner[v->of] == ALL_OWN;
    return v->role == ROLE_GRADIENT && named && !v->shards && (in_shards ? !v->group : !v->base);
}

static struct op_all_reduce sum_of(const struct graph *g, const struct pass_settings *s, int id, int owner)
{
    if (owner != ALL_OWN)
        return (struct op_all_reduce){.g = id, .to = owner};
    return (struct op_all_reduce){.g = id, .chunk = shard_chunk(g, s, id, graph_value(g, id)->of)};
}

/* ---- At the update: what all micro-batches have added up. ---- */

static void reduce_all(struct graph *g, const struct pass_settings *s, const int *owner)
{
    for (int i = 1, n = g->n_values; i < n && !g->err.code; i++) {
        if (!is_summed(g, i, owner))
            continue;
        struct op_all_reduce sum = sum_of(g, s, i, owner[graph_value(g, i)->of]);
        g->layer = graph_value(g, i)->layer;
        emit_all_reduce(g, &sum);
    }
}

/* ---- In the backward pass: what each micro-batch has made. ---- */

/* What a rank has of a gradient, and the sum that its owner keeps, or each its shard of; 0: it is the sum, when ranks have added up. */
struct part {
    int local, sum, owner;
    int seen;    /* of the local one, beside the sum */
    int written; /* the last node that writes to it */
    bool gone;   /* its sum stands already */
};

struct parts {
    struct part *of; /* (n) */
    int n;
    int *written;   /* by value, where that is no slice: the last node that writes to it */
    int *ends;      /* by layer: the last node that writes to a part, where that is of the layer */
    int64_t *bytes; /* (ranks + 1) of what each adds up; 0: of what all do */
};

/* The sum on the owner, with a slice for each part of a group that is trained; or in shards. */
static int add_sum(struct graph *g, int local, int owner, const struct pass_settings *settings)
{
    const struct value v = *graph_value(g, local);
    int sum = graph_add_kin(g, KIN_GRADIENT, v.of, v.dtype, v.ndim, v.shape);
    if (g->err.code)
        return 0;
    struct value *s = graph_value(g, sum);
    s->group = v.group;
    s->rank = owner > 0 ? owner : 0;
    s->shards = owner > 0 ? 0 : settings->ranks;
    s->chunk = owner > 0 ? 0 : shard_chunk(g, settings, local, v.of);
    s->live_in = settings->program == PROGRAM_NEXT;
    s->persists = s->live_out = true;
    for (int i = local + 1; i < sum && owner > 0 && !g->err.code; i++) {
        const struct value *slice = graph_value(g, i);
        if (slice->base == local && slice->kin == KIN_PART)
            graph_value(g, graph_add_kin_slice(g, KIN_GRADIENT, slice->of, sum))->live_out = true;
    }
    return sum;
}

static void add_part(struct graph *g, struct parts *p, int local, int owner, const struct pass_settings *s)
{
    int sum = graph_value(g, local)->kin == KIN_PART ? add_sum(g, local, owner, s) : 0;
    int64_t chunk = sum ? graph_value(g, sum)->chunk : 0;
    int seen = chunk && !g->err.code ? graph_add_view(g, local, s->ranks, chunk) : local;
    p->of[p->n++] = (struct part){.local = local, .sum = sum, .owner = owner, .seen = seen};
}

static void find_parts(struct graph *g, const int *owner, const struct pass_settings *s, struct parts *p)
{
    int n_values = g->n_values;
    for (int i = 1; i < n_values && !g->err.code; i++)
        if (is_summed(g, i, owner))
            add_part(g, p, i, owner[graph_value(g, i)->of], s);
    for (int k = 1; k < g->n_nodes && !g->err.code; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++)
            if (node_writes(&g->nodes[k], i))
                p->written[value_root(g, g->nodes[k].u.slot[i])] = k;
    for (int i = 0; i < p->n; i++) {
        int k = p->of[i].written = p->written[value_root(g, p->of[i].local)], layer = g->nodes[k].layer;
        p->ends[layer] = k > p->ends[layer] ? k : p->ends[layer];
    }
}

static bool is_there(const struct part *p, int k)
{
    return !p->gone && p->written && p->written <= k;
}

/* Whether ranks have about as much to add up of what is there behind node k: where each has weights of its own, those of one layer are
 * a few ranks' alone, for which the others would wait. */
static bool are_balanced(const struct graph *g, const struct parts *p, int k, int ranks)
{
    const double at_most = 1.5; /* times the mean */
    double all = 0, most = 0;
    memset(p->bytes, 0, (size_t)(ranks + 1) * sizeof *p->bytes);
    for (int i = 0; i < p->n; i++) {
        int64_t bytes = is_there(&p->of[i], k) ? value_bytes(graph_value(g, p->of[i].local), (struct dims){0}) : 0;
        int owner = p->of[i].owner > 0 ? p->of[i].owner : 0;
        double now = (double)(p->bytes[owner] += bytes);
        most = owner && now > most ? now : most;
        all += (double)bytes;
    }
    return most + (double)p->bytes[0] / ranks <= at_most * all / ranks;
}

/* Behind node k: the sums of what is there go to the owners, or to all, one launch on a GPU, and there to what micro-batches before have
 * left. The value that is written last; 0: none. */
static int append_sums(struct graph *g, struct node_list *l, const struct parts *p, int k,
                       const struct pass_settings *s)
{
    int written = 0;
    for (int keeps = 0; keeps < 2; keeps++)
        for (int i = 0; i < p->n && !g->err.code; i++) {
            struct part *part = &p->of[i];
            struct node n = {.op = keeps ? OP_add_bwd : OP_all_reduce,
                             .layer = g->nodes[part->written].layer,
                             .backward = true,
                             .lane = s->sums_beside ? LANE_SUMS : LANE_COMPUTE};
            if (!is_there(part, k) || (keeps && !part->sum))
                continue;
            if (keeps) {
                n.u.add_bwd = (struct op_add_bwd){.dy = part->seen, .da = part->sum};
                n.add = s->program == PROGRAM_NEXT ? 1u << OP_SLOT(add_bwd, da) : 0;
                n.rank = part->owner > 0 ? part->owner : 0;
            } else {
                n.u.all_reduce = sum_of(g, s, part->local, part->owner);
            }
            node_list_append(g, l, &n);
            written = keeps ? part->sum : part->local;
        }
    for (int i = 0; i < p->n; i++)
        p->of[i].gone |= is_there(&p->of[i], k);
    return written;
}

static int count_layers(const struct graph *g)
{
    int last = 0;
    for (int k = 1; k < g->n_nodes; k++)
        last = g->nodes[k].layer > last ? g->nodes[k].layer : last;
    return last + 1;
}

static void reduce_by_layer(struct graph *g, const int *owner, const struct pass_settings *s)
{
    size_t n_values = (size_t)g->n_values;
    struct node_list l = {0};
    struct parts p = {.of = mem_alloc(n_values * sizeof *p.of),
                      .written = mem_alloc(n_values * sizeof *p.written),
                      .ends = mem_alloc((size_t)count_layers(g) * sizeof *p.ends),
                      .bytes = mem_alloc((size_t)(s->ranks + 1) * sizeof *p.bytes)};
    if (!p.of || !p.written || !p.ends || !p.bytes)
        err_no_memory(&g->err, n_values * sizeof *p.of);
    else
        find_parts(g, owner, s, &p);
    /* What a rank has of a layer's gradients makes room when they have left; the layer behind the next one waits for that. */
    int leaving = 0, left = 0;
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        bool last = k + 1 == g->n_nodes, ends = p.ends[g->nodes[k].layer] == k;
        g->nodes[k].waits = left;
        left = 0;
        node_list_append(g, &l, &g->nodes[k]);
        if (!last && !(ends && (gradients_leave(s) || are_balanced(g, &p, k, s->ranks))))
            continue;
        left = gradients_leave(s) && s->sums_beside ? leaving : 0;
        leaving = append_sums(g, &l, &p, k, s);
    }
    node_list_finish(g, &l);
    mem_free(p.of);
    mem_free(p.written);
    mem_free(p.ends);
    mem_free(p.bytes);
}

/* Whether there is a sum of each micro-batch, and not of what several have added up. */
static bool sums_of_micro_batches(const struct pass_settings *s)
{
    return gradients_leave(s) || (s->sums_beside && s->choices.accumulation <= 1);
}

void pass_reduce(struct graph *g, struct pass_settings *s)
{
    int *owner = s->ranks > 1 && !g->err.code ? weight_owners(g, s) : NULL;
    if (owner && sums_of_micro_batches(s) && s->program != PROGRAM_UPDATE)
        reduce_by_layer(g, owner, s);
    if (owner && !sums_of_micro_batches(s) && s->program == PROGRAM_UPDATE)
        reduce_all(g, s, owner);
    mem_free(owner);
}
