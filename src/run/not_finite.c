/* Which value of a step is not finite: its nodes once more, one by one, with a look at what each reads and writes. */
#include "ranks/ranks.h"
#include "run/nodes.h"

#include <math.h>
#include <stdio.h>

/* *bad: the first element that is not finite, padding included, which is 0; -1 if all are. Of columns only they count.
 * Integers are finite. `host` has room for the tensor's bytes. */
static int find_not_finite(const struct run *r, const struct tensor *t, void *host, int64_t *bad, struct snug_err *err)
{
    int64_t n = tensor_room(t);
    *bad = -1;
    if (t->dtype != DT_F64 && t->dtype != DT_F32 && t->dtype != DT_BF16 && t->dtype != DT_F16)
        return SNUG_OK;
    TRY(r->backend->arena->download(r->backend, host, t->data, dtype_bytes(t->dtype, n), err));
    for (int64_t i = 0; i < n && *bad < 0; i++) {
        double x = t->dtype == DT_F64    ? ((const double *)host)[i]
                   : t->dtype == DT_F32  ? (double)((const float *)host)[i]
                   : t->dtype == DT_BF16 ? (double)bf16_to_float(((const uint16_t *)host)[i])
                                         : (double)fp16_to_float(((const uint16_t *)host)[i]);
        *bad = isfinite(x) || (t->columns && i % t->pitch >= t->shape[1]) ? -1 : i;
    }
    return SNUG_OK;
}

/* The name of value `id`, or of the weight that it is of; of a group, that of the part in which element `at` lies. */
static const char *name_at(const struct graph *g, int id, int64_t at)
{
    for (int i = g->n_values - 1; i > 0; i--) { /* a part of a part stands behind it */
        const struct value *v = graph_value(g, i);
        int64_t first = value_root(g, i) == id ? value_at(g, i) : -1;
        if (v->base && first >= 0 && at >= first && at < first + value_elements(v, (struct dims){0})) {
            id = i;
            break;
        }
    }
    const struct value *v = graph_value(g, id);
    return v->kin ? graph_value(g, v->of)->name : v->name;
}

/* `at`: the element in question, -1 where it is not known. A weight, its gradient and its 16-bit copy are called what the
 * file calls the weight. */
static void describe_slot(const struct program *g, const struct node *n, int slot, int64_t at, char *text, size_t room)
{
    static const char *const kinds[ROLE_COUNT] = {
        [ROLE_WEIGHT] = "weight", [ROLE_COPY] = "weight", [ROLE_GRADIENT] = "gradient"};
    int id = n->u.slot[slot];
    enum role role = graph_value(&g->graph, id)->role;
    const char *name = name_at(&g->graph, id, at);
    if (name && kinds[role])
        snprintf(text, room, "%s %s", kinds[role], name);
    else
        snprintf(text, room, "activation %s of %s in layer %d%s", node_op(n)->slots[slot].name, node_op(n)->name,
                 n->layer, n->backward ? " (backward)" : "");
}

/* The largest tensor of the program, in bytes. */
static int64_t largest_bytes(const struct program *g)
{
    int64_t most = 0;
    for (int i = 1; i < g->graph.n_values; i++) {
        int64_t bytes = value_bytes(graph_value(&g->graph, i), g->max);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Executes a node and looks first at what it reads, so that a bad weight is named itself, then at what it made. */
static int look_at_node(struct run *r, const struct program *g, const struct node *n, struct dims dims, void *host,
                        int *bad_slot, int64_t *bad, struct snug_err *err)
{
    run_fill_work(r, g, n, dims, r->work);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            TRY(r->backend->run(r->backend, r->work, 1, err));
        for (int s = 0; s < node_op(n)->n_slots; s++) {
            if (!n->u.slot[s] || (pass == 0 ? !node_reads(n, s) : !node_writes(n, s)))
                continue;
            TRY(find_not_finite(r, &r->work->args.slot[s], host, bad, err));
            if (*bad >= 0) {
                *bad_slot = s;
                return SNUG_OK;
            }
        }
    }
    return SNUG_OK;
}

/* Whether what its nodes read has come from other processes, which do not give it again. */
static bool has_pulled(const struct run *r, const struct program *g)
{
    bool found = false;
    for (int i = 1; i < g->graph.n_nodes && r->rank && !ranks_share_memory(r->rank); i++)
        found |= g->graph.nodes[i].op == OP_pull;
    return found;
}

bool run_first_not_finite(struct run *r, int k, struct dims dims, char *text, size_t room)
{
    const struct program *g = &r->plan.programs[k];
    if (has_pulled(r, g)) {
        snprintf(text, room, "the forward or backward pass of rank %d (--zero-stage 2 can tell where)", r->rank->me);
        return true;
    }
    void *host = mem_alloc((size_t)largest_bytes(g) + 1);
    int slot = -1, code = host ? SNUG_OK : SNUG_ERR_ENV;
    int64_t bad = -1;
    code = code ? code : run_settle(r, NULL);
    for (int i = 1, end = run_first_update(g); i < end && slot < 0 && !code; i++) {
        if (!run_executes(r, &g->graph.nodes[i]) ||
            op_exchanges(g->graph.nodes[i].op)) /* other ranks do not run nodes again */
            continue;
        code = look_at_node(r, g, &g->graph.nodes[i], dims, host, &slot, &bad, NULL);
        if (slot >= 0)
            describe_slot(g, &g->graph.nodes[i], slot, bad, text, room);
    }
    mem_free(host);
    return slot >= 0;
}

bool run_gradient_not_finite(struct run *r, int k, char *text, size_t room)
{
    const struct program *g = &r->plan.programs[k];
    struct work w;
    int64_t bad = -1;
    for (int i = 1; i < g->graph.n_nodes; i++) {
        const struct node *n = &g->graph.nodes[i];
        if (n->op != OP_sumsq)
            continue;
        run_fill_work(r, g, n, g->max, &w);
        const struct value *whole = graph_value(&g->graph, n->u.sumsq.g);
        int64_t chunks = (value_elements(whole, g->max) + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
        struct tensor sums = w.args.sumsq.partials;
        sums.data = (double *)sums.data + w.args.sumsq.at;
        sums.shape[0] = chunks;
        void *host = mem_alloc((size_t)chunks * sizeof(double) + 1);
        int code = host ? find_not_finite(r, &sums, host, &bad, NULL) : SNUG_ERR_ENV;
        mem_free(host);
        if (code)
            return false;
        if (bad >= 0) {
            describe_slot(g, n, 0, -1, text, room);
            return true;
        }
    }
    return false;
}
