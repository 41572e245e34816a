#include "pass/node_list.h"
#include "pass/owners.h"

#include <string.h>

/* ---- At the update: what all micro-batches have added up. ---- */

static void reduce_all(struct graph *g, const int *owner)
{
    for (int i = 1, n = g->n_values; i < n && !g->err.code; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role != ROLE_GRADIENT || v->base) /* a group's parts come with it */
            continue;
        g->layer = v->layer;
        emit_all_reduce(g, &(struct op_all_reduce){.g = i, .to = owner[v->of]});
    }
}

/* ---- In the backward pass: what each micro-batch has made. ---- */

/* What a rank has of a gradient, and the sum that its owner keeps; 0: it is the sum, when ranks have added up. */
struct part {
    int local, sum, owner;
    int written; /* the last node that writes to it */
    bool gone;   /* its sum stands already */
};

struct parts {
    struct part *of; /* (n) */
    int n;
    int *by_value;  /* by local value: its place in `of`, counted from 1 */
    int *ends;      /* by layer: the last node that writes to a part, where that is of the layer */
    int64_t *bytes; /* (ranks + 1) of what each adds up; 0: of what all do */
};

/* The sum on the owner, with a slice for each part of a group that is trained. */
static int add_sum(struct graph *g, int local, int owner, enum program_kind program)
{
    const struct value v = *graph_value(g, local);
    int sum = graph_add_kin(g, KIN_GRADIENT, v.of, v.dtype, v.ndim, v.shape);
    if (g->err.code)
        return 0;
    struct value *s = graph_value(g, sum);
    s->group = v.group;
    s->rank = owner;
    s->live_in = program == PROGRAM_NEXT;
    s->persists = s->live_out = true;
    for (int i = local + 1; i < sum && !g->err.code; i++) {
        const struct value *slice = graph_value(g, i);
        if (slice->base == local && slice->kin == KIN_PART)
            graph_value(g, graph_add_kin_slice(g, KIN_GRADIENT, slice->of, sum))->live_out = true;
    }
    return sum;
}

static void find_parts(struct graph *g, const int *owner, enum program_kind program, struct parts *p)
{
    for (int i = 1, n = g->n_values; i < n && !g->err.code; i++) {
        const struct value *v = graph_value(g, i);
        if (v->role != ROLE_GRADIENT || v->base)
            continue;
        int to = owner[v->of], sum = v->kin == KIN_PART ? add_sum(g, i, to, program) : 0;
        p->of[p->n] = (struct part){.local = i, .sum = sum, .owner = to};
        p->by_value[i] = ++p->n;
    }
    for (int k = 1; k < g->n_nodes && !g->err.code; k++)
        for (int i = 0; i < node_op(&g->nodes[k])->n_slots; i++) {
            int part = p->by_value[value_root(g, g->nodes[k].u.slot[i])];
            if (part && node_writes(&g->nodes[k], i))
                p->of[part - 1].written = k;
        }
    for (int i = 0; i < p->n; i++) {
        int k = p->of[i].written, layer = g->nodes[k].layer;
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
        double now = (double)(p->bytes[p->of[i].owner] += bytes);
        most = p->of[i].owner && now > most ? now : most;
        all += (double)bytes;
    }
    return most <= at_most * all / ranks;
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
                n.u.add_bwd = (struct op_add_bwd){.dy = part->local, .da = part->sum};
                n.add = s->program == PROGRAM_NEXT ? 1u << OP_SLOT(add_bwd, da) : 0;
                n.rank = part->owner;
            } else {
                n.u.all_reduce = (struct op_all_reduce){.g = part->local, .to = part->owner};
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
                      .by_value = mem_alloc(2 * n_values * sizeof *p.by_value), /* sums come to it */
                      .ends = mem_alloc((size_t)count_layers(g) * sizeof *p.ends),
                      .bytes = mem_alloc((size_t)(s->ranks + 1) * sizeof *p.bytes)};
    if (!p.of || !p.by_value || !p.ends || !p.bytes)
        err_no_memory(&g->err, n_values * sizeof *p.of);
    else
        find_parts(g, owner, s->program, &p);
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
    mem_free(p.by_value);
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
        reduce_all(g, owner);
    mem_free(owner);
}
