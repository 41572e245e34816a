/* The pipeline: build, then the passes in their order, then workspaces and the plan. */
#include "compile.h"

#include "graph/uses.h"

#include <string.h>

void compile_args(const struct program *g, const struct node *n, struct dims dims, char *arena, union args_any *out)
{
    const struct op_info *op = node_op(n);
    for (int i = 0; i < op->n_slots; i++) {
        struct tensor *t = &out->slot[i];
        *t = (struct tensor){0};
        int id = n->u.slot[i];
        if (!id)
            continue;
        const struct value *v = graph_value(&g->graph, id);
        t->data = arena ? arena + g->at[id] : NULL;
        t->dtype = v->dtype;
        t->ndim = (int8_t)v->ndim;
        t->add = n->add >> i & 1;
        memcpy(t->pad, v->pad, sizeof t->pad);
        for (int d = 0; d < v->ndim; d++)
            t->shape[d] = dim_size(v->shape[d], dims);
    }
    memcpy(&out->slot[op->n_slots], (const char *)&n->u + op->attr_offset, 8 * (size_t)op->n_attrs);
}

static int after_pass(const struct compile_settings *s, const struct plan *plan, struct program *g, const char *pass,
                      struct snug_err *err)
{
    TRY(graph_check(&g->graph, pass, err));
    TRY(plan_check_stop(plan, err));
    if (!s->dump)
        return SNUG_OK;
    char *text;
    TRY(graph_print(&g->graph, &g->graph.arena, &text, err));
    s->dump(s->dump_ctx, pass, g->name, text);
    return SNUG_OK;
}

/* A node joins those before it where it needs none of them. */
static void join_nodes(const struct backend *b, struct graph *g)
{
    struct hazards h;
    bool opened = hazards_open(&h, g);
    for (int k = 1, first = 1; k < g->n_nodes && opened; k++) {
        struct node *n = &g->nodes[k];
        n->joins = k > 1 && n->op == n[-1].op && b->together && b->together(n->op) && hazards_find(&h, g, n) < first;
        if (!n->joins)
            first = k;
        hazards_add(&h, g, k);
    }
    hazards_close(&h);
}

int compile_for_backend(const struct backend *b, int threads, struct program *g, struct snug_err *err)
{
    int shared = 0; /* the workspace of nodes that run at the same time */
    join_nodes(b, &g->graph);
    for (int k = 1; k < g->graph.n_nodes; k++) {
        struct node *n = &g->graph.nodes[k];
        union args_any args;
        compile_args(g, n, g->max, NULL, &args);
        if (b->takes)
            TRY(b->takes(n->op, &args, err));
        int64_t bytes = b->workspace_bytes(b, n->op, &args, threads);
        if (!n->joins)
            shared = 0;
        if (bytes <= 0)
            continue;
        if (shared)
            graph_value(&g->graph, shared)->shape[0].c += bytes;
        else {
            shared = graph_add_value(&g->graph, NULL, ROLE_WORKSPACE, DT_U8, 1, &DIM(bytes));
            graph_value(&g->graph, shared)->layer = n->layer;
        }
        n->workspace = shared;
    }
    return graph_ok(&g->graph, err);
}

/* Whether forward, backward and update are one program, in which a gradient lives only until its update. */
static bool is_fused(const struct compile_settings *s)
{
    return s->accumulation <= 1 && !s->keep_grads && !s->separate;
}

enum kind { KIND_STEP, KIND_FIRST, KIND_NEXT, KIND_EVAL };

/* A program with a forward pass: the whole step, a micro-step, or the evaluation. */
static int compile_forward(const struct compile_settings *s, struct plan *plan, const char *name, enum kind kind,
                           int *where, struct snug_err *err)
{
    struct built built;
    struct program *g = plan_add(plan, name, kind == KIND_EVAL ? s->eval_max : s->train_max, err);
    if (!g)
        return SNUG_ERR_ENV;
    *where = plan->n_programs - 1;
    bool training = kind != KIND_EVAL, updates = kind == KIND_STEP;
    TRY(model_build(s->model, training && s->dropout, training ? s->smoothing : 0, &g->graph, &built, err));
    if (!training && model_task(s->model)->per_token)
        TRY(model_predict(&g->graph, &built, err));
    pass_freeze(&g->graph, s->freeze);
    TRY(after_pass(s, plan, g, "build", err));
    if (training) {
        pass_grad(&g->graph, built.loss, kind == KIND_NEXT);
        TRY(after_pass(s, plan, g, "grad", err));
        pass_fold_bias(&g->graph);
        TRY(after_pass(s, plan, g, "fold_bias", err));
        pass_fold_act(&g->graph);
        TRY(after_pass(s, plan, g, "fold_act", err));
    }
    if (training && !updates) /* what the micro-step leaves for the update */
        for (int i = 1; i < g->graph.n_values; i++)
            if (g->graph.values[i].role == ROLE_GRADIENT)
                g->graph.values[i].persists = g->graph.values[i].live_out = true;
    struct precision precision = s->precision;
    precision.narrow_grads &= updates || (precision.narrow_sums && !s->keep_grads);
    pass_precision(&g->graph, &precision);
    TRY(after_pass(s, plan, g, "precision", err));
    if (training) {
        pass_keep_mask(&g->graph, s->keep_masks ? s->backend->reads_mask : NULL);
        TRY(after_pass(s, plan, g, "keep_mask", err));
    }
    if (updates) {
        struct update u = s->update;
        u.scaled = s->precision.narrow == DT_F16;
        pass_update(&g->graph, &u);
        TRY(after_pass(s, plan, g, "update", err));
    }
    if (training)
        g->recomputed_layers = pass_recompute(&g->graph, s->recompute_every_n);
    TRY(after_pass(s, plan, g, "recompute", err));
    if (training && !updates)
        graph_value(&g->graph, built.logits)->live_out = s->keep_grads;
    else if (training)
        graph_value(&g->graph, built.logits)->live_out = false;
    pass_pad(&g->graph, s->backend->product_sizes);
    TRY(after_pass(s, plan, g, "pad", err));
    pass_order(&g->graph);
    TRY(after_pass(s, plan, g, "order", err));
    return compile_for_backend(s->backend, s->threads, g, err);
}

/* What persists of one program, and its slices, for another that begins with it. */
static int copy_persistent(const struct graph *from, struct graph *to, struct snug_err *err)
{
    int *now = mem_alloc((size_t)from->n_values * sizeof *now); /* by id in `from` */
    if (!now)
        return err_no_memory(err, (unsigned long long)from->n_values * sizeof *now);
    for (int i = 1; i < from->n_values && !to->err.code; i++) {
        struct value v = from->values[i];
        if (!from->values[value_root(from, i)].persists)
            continue;
        now[i] = graph_add_value(to, v.name, v.role, v.dtype, v.ndim, v.shape);
        if (!now[i])
            break;
        v.name = graph_value(to, now[i])->name;
        v.base = now[v.base];
        v.live_in = v.live_out = v.persists = true;
        v.written = false;
        *graph_value(to, now[i]) = v;
    }
    for (int i = 1; i < from->n_values; i++) /* a weight may stand behind what is of it */
        if (now[i])
            graph_value(to, now[i])->of = now[from->values[i].of];
    mem_free(now);
    return graph_ok(to, err);
}

/* The update of accumulated gradients: no forward pass, only what the micro-step leaves behind. */
static int compile_update(const struct compile_settings *s, struct plan *plan, int micro, int *where,
                          struct snug_err *err)
{
    struct program *g = plan_add(plan, "update", s->train_max, err);
    if (!g)
        return SNUG_ERR_ENV;
    *where = plan->n_programs - 1;
    TRY(copy_persistent(&plan->programs[micro].graph, &g->graph, err));
    struct update u = s->update;
    u.scaled = s->precision.narrow == DT_F16;
    u.at_end = true; /* all gradients are there, and stay */
    pass_update(&g->graph, &u);
    TRY(after_pass(s, plan, g, "update", err));
    pass_order(&g->graph);
    TRY(after_pass(s, plan, g, "order", err));
    return compile_for_backend(s->backend, s->threads, g, err);
}

/* The 16-bit copies of weights that other programs keep, made from the weights. */
static int compile_copies(const struct compile_settings *s, struct plan *plan, int *where, struct snug_err *err)
{
    const struct graph *from = &plan->programs[0].graph;
    struct program *g = plan_add(plan, "copies", (struct dims){0}, err);
    if (!g)
        return SNUG_ERR_ENV;
    *where = plan->n_programs - 1;
    for (int i = 1; i < from->n_values && !g->graph.err.code; i++) {
        const struct value *c = &from->values[i];
        if (c->role != ROLE_COPY || c->base)
            continue;
        const struct value *w = graph_value(from, c->of);
        g->graph.layer = c->layer;
        struct op_cast cast = {.x = graph_add_value(&g->graph, w->name, ROLE_WEIGHT, w->dtype, w->ndim, w->shape)};
        emit_cast(&g->graph, &cast);
        if (g->graph.err.code)
            break;
        struct value *x = graph_value(&g->graph, cast.x), *y = graph_value(&g->graph, cast.y);
        x->group = w->group;
        memcpy(x->pad, w->pad, sizeof x->pad);
        memcpy(y->pad, c->pad, sizeof y->pad);
        graph_set_name(&g->graph, cast.y, c->name);
        y->kin = KIN_COPY;
        y->of = cast.x;
        y->role = ROLE_COPY;
        y->dtype = c->dtype;
        y->persists = y->live_in = y->live_out = true;
    }
    TRY(after_pass(s, plan, g, "order", err));
    return compile_for_backend(s->backend, s->threads, g, err);
}

int compile_run(const struct compile_settings *s, struct plan *plan, struct programs *where, struct snug_err *err)
{
    *where = (struct programs){-1, -1, -1, -1, -1, -1};
    plan->align = s->backend->align;
    plan->staging = s->backend->staging;
    plan->stop = s->stop;
    if (s->train && is_fused(s))
        TRY(compile_forward(s, plan, "step", KIND_STEP, &where->step, err));
    else if (s->train) {
        TRY(compile_forward(s, plan, "first micro-step", KIND_FIRST, &where->first, err));
        if (s->accumulation > 1)
            TRY(compile_forward(s, plan, "next micro-step", KIND_NEXT, &where->next, err));
        if (!s->keep_grads)
            TRY(compile_update(s, plan, where->first, &where->update, err));
    }
    if (s->eval_max.B > 0)
        TRY(compile_forward(s, plan, "evaluation", KIND_EVAL, &where->eval, err));
    if (s->precision.copies)
        TRY(compile_copies(s, plan, &where->copies, err));
    return plan_pack(plan, err);
}
