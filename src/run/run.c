#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int run_open(struct run *r, const struct compile_settings *s, struct snug_err *err)
{
    *r = (struct run){.backend = s->backend, .threads = s->threads};
    return compile_run(s, &r->plan, &r->where, err);
}

int run_alloc(struct run *r, struct snug_err *err)
{
    void *p;
    TRY(r->backend->alloc(r->backend, r->plan.arena_bytes, &p, err));
    r->arena = p;
    return SNUG_OK;
}

void run_close(struct run *r)
{
    if (r->arena)
        r->backend->free(r->backend, r->arena, r->plan.arena_bytes);
    plan_free(&r->plan);
    *r = (struct run){0};
}

static struct run_value describe(const struct run *r, const struct program *g, int id, struct dims dims)
{
    const struct value *v = graph_value(&g->graph, id);
    struct run_value out = {.name = v->name,
                            .data = r->arena && g->at[id] >= 0 ? r->arena + g->at[id] : NULL,
                            .dtype = v->dtype,
                            .role = v->role,
                            .ndim = v->ndim,
                            .elements = value_elements(v, dims),
                            .init = v->init};
    for (int d = 0; d < v->ndim; d++)
        out.shape[d] = dim_size(v->shape[d], dims);
    return out;
}

bool run_output(const struct run *r, int k, const char *name, struct dims dims, struct run_value *out)
{
    const struct program *g = &r->plan.programs[k];
    int id = graph_find(&g->graph, name);
    if (id)
        *out = describe(r, g, id, dims);
    return id && g->at[id] >= 0;
}

bool run_find(const struct run *r, const char *name, struct run_value *out)
{
    for (int k = 0; k < r->plan.n_programs; k++) {
        const struct program *g = &r->plan.programs[k];
        int id = graph_find(&g->graph, name);
        if (id && g->graph.values[id].persists) {
            *out = describe(r, g, id, g->max);
            return true;
        }
    }
    return false;
}

static bool known_before(const struct run *r, int k, const char *name)
{
    for (int i = 0; i < k; i++) {
        int id = graph_find(&r->plan.programs[i].graph, name);
        if (id && r->plan.programs[i].graph.values[id].persists)
            return true;
    }
    return false;
}

int run_list(const struct run *r, unsigned roles, struct run_value **values, size_t *n, struct snug_err *err)
{
    size_t cap = 0;
    *values = NULL;
    *n = 0;
    for (int k = 0; k < r->plan.n_programs; k++) {
        const struct program *g = &r->plan.programs[k];
        for (int i = 1; i < g->graph.n_values; i++) {
            const struct value *v = graph_value(&g->graph, i);
            if (!v->persists || v->group || !v->name || !(roles >> v->role & 1) || known_before(r, k, v->name))
                continue;
            if (!MEM_GROW(*values, cap, *n + 1)) {
                mem_free(*values);
                *values = NULL;
                return err_no_memory(err, cap * 2 * sizeof **values);
            }
            (*values)[(*n)++] = describe(r, g, i, g->max);
        }
    }
    return SNUG_OK;
}

static int run_node(struct run *r, const struct program *g, int k, struct dims dims, struct snug_err *err)
{
    const struct node *n = &g->graph.nodes[k];
    union args_any args;
    compile_args(g, n, dims, r->arena, &args);
    struct call call = {.workspace = n->workspace ? r->arena + g->at[n->workspace] : NULL, .threads = r->threads};
    return r->backend->run(r->backend, n->op, &args, &call, err);
}

/* The first node that changes a weight or a state; n_nodes if none does. */
static int first_update(const struct program *g)
{
    int k = 1;
    while (k < g->graph.n_nodes && g->graph.nodes[k].op != OP_adamw && g->graph.nodes[k].op != OP_sgd)
        k++;
    return k;
}

int run_program(struct run *r, int k, struct dims dims, bool (*may_update)(void *ctx, bool has_norm), void *ctx,
                struct snug_err *err)
{
    const struct program *g = &r->plan.programs[k];
    int update = first_update(g);
    bool has_norm = false;
    for (int i = 1; i < g->graph.n_nodes; i++) {
        if (i == update && may_update && !may_update(ctx, has_norm))
            return SNUG_OK;
        TRY(run_node(r, g, i, dims, err));
        has_norm |= g->graph.nodes[i].op == OP_clip;
    }
    return SNUG_OK;
}

static bool all_finite(const struct tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= t->shape[d];
    for (int64_t i = 0; i < n; i++) {
        double x = t->dtype == DT_F64    ? ((const double *)t->data)[i]
                   : t->dtype == DT_F32  ? (double)((const float *)t->data)[i]
                   : t->dtype == DT_BF16 ? (double)bf16_to_float(((const uint16_t *)t->data)[i])
                                         : 0;
        if (!isfinite(x))
            return false;
    }
    return true;
}

static void describe_slot(const struct program *g, const struct node *n, int slot, char *text, size_t room)
{
    const struct value *v = graph_value(&g->graph, n->u.slot[slot]);
    const char *kind = v->role == ROLE_GRADIENT ? "gradient" : v->role == ROLE_WEIGHT ? "weight" : "activation";
    if (v->name && (v->role == ROLE_GRADIENT || v->role == ROLE_WEIGHT))
        snprintf(text, room, "%s %s", kind, v->role == ROLE_GRADIENT ? v->name + strlen("grad.") : v->name);
    else
        snprintf(text, room, "%s %s of %s in layer %d%s", kind, node_op(n)->slots[slot].name, node_op(n)->name,
                 n->layer, n->backward ? " (backward)" : "");
}

bool run_first_not_finite(struct run *r, int k, struct dims dims, char *text, size_t room)
{
    const struct program *g = &r->plan.programs[k];
    for (int i = 1, end = first_update(g); i < end; i++) {
        const struct node *n = &g->graph.nodes[i];
        union args_any args;
        compile_args(g, n, dims, r->arena, &args);
        for (int pass = 0; pass < 2;
             pass++) { /* first what it reads, so that a bad weight is named itself; then what it made */
            if (pass == 1 && run_node(r, g, i, dims, NULL))
                return false;
            for (int s = 0; s < node_op(n)->n_slots; s++) {
                if (!n->u.slot[s] || (pass == 0 ? !node_reads(n, s) : !node_writes(n, s)) || all_finite(&args.slot[s]))
                    continue;
                describe_slot(g, n, s, text, room);
                return true;
            }
        }
    }
    return false;
}

bool run_gradient_not_finite(struct run *r, int k, char *text, size_t room)
{
    const struct program *g = &r->plan.programs[k];
    for (int i = 1; i < g->graph.n_nodes; i++) {
        const struct node *n = &g->graph.nodes[i];
        if (n->op != OP_sumsq)
            continue;
        const struct value *v = graph_value(&g->graph, n->u.sumsq.g);
        const double *partials = (const double *)(r->arena + g->at[n->u.sumsq.partials]) + n->u.sumsq.at;
        int64_t chunks = (value_elements(v, g->max) + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
        for (int64_t c = 0; c < chunks; c++)
            if (!isfinite(partials[c])) {
                describe_slot(g, n, 0, text, room);
                return true;
            }
    }
    return false;
}

double run_flops(const struct run *r, int k, struct dims dims)
{
    const struct program *g = &r->plan.programs[k];
    double flops = 0;
    for (int i = 1; i < g->graph.n_nodes; i++) {
        union args_any args;
        compile_args(g, &g->graph.nodes[i], dims, NULL, &args);
        flops += node_op(&g->graph.nodes[i])->flops(&args);
    }
    return flops;
}

int run_read_f64(const struct run *r, const struct run_value *v, double *to, struct snug_err *err)
{
    size_t bytes = (size_t)dtype_bytes(v->dtype, v->elements);
    void *raw = mem_alloc(bytes);
    if (!raw)
        return err_no_memory(err, bytes);
    int code = r->backend->download(r->backend, raw, v->data, (int64_t)bytes, err);
    if (!code)
        dtype_convert(to, DT_F64, raw, v->dtype, v->elements);
    mem_free(raw);
    return code;
}

int run_write(const struct run *r, const struct run_value *v, const void *from, enum dtype type, int64_t elements,
              struct snug_err *err)
{
    int64_t bytes = dtype_bytes(v->dtype, elements);
    if (v->dtype == type)
        return r->backend->upload(r->backend, v->data, from, bytes, err);
    void *raw = mem_alloc((size_t)bytes);
    if (!raw)
        return err_no_memory(err, (unsigned long long)bytes);
    dtype_convert(raw, v->dtype, from, type, elements);
    int code = r->backend->upload(r->backend, v->data, raw, bytes, err);
    mem_free(raw);
    return code;
}
