/* The pipeline: build, then the passes in their order, then workspaces and the plan. */
#include "compile.h"

#include "graph/lanes.h"
#include "graph/uses.h"

#include <string.h>

/* A tensor of all elements becomes a vector of those of rank `me`. */
static void see_shard(struct tensor *t, const struct value *v, int me)
{
    struct shard s = value_shard(v, me);
    *t =
        (struct tensor){.data = t->data, .shape = {s.n}, .first = s.first, .dtype = t->dtype, .ndim = 1, .add = t->add};
    if (t->data && v->view)
        t->data = (char *)t->data + dtype_bytes(t->dtype, s.first);
}

void compile_args(const struct program *g, const struct node *n, struct dims dims, const struct arenas *arenas, int me,
                  union args_any *out)
{
    const struct op_info *op = node_op(n);
    for (int i = 0; i < op->n_slots; i++) {
        struct tensor *t = &out->slot[i];
        *t = (struct tensor){0};
        int id = n->u.slot[i];
        if (!id)
            continue;
        const struct value *v = graph_value(&g->graph, id);
        t->data = arenas ? arenas->of[v->memory] + g->at[id] : NULL;
        t->dtype = v->dtype;
        t->ndim = (int8_t)v->ndim;
        t->add = n->add >> i & 1;
        t->pitch = v->pitch;
        t->pad_rows = v->pad_rows;
        t->columns = value_is_columns(v);
        for (int d = 0; d < v->ndim; d++)
            t->shape[d] = dim_size(v->shape[d], dims);
        if (v->shards)
            see_shard(t, v, me);
    }
    memcpy(&out->slot[op->n_slots], (const char *)&n->u + op->attr_offset, 8 * (size_t)op->n_attrs);
}

double compile_bytes(const struct program *g, const struct node *n, const union args_any *args, enum memory memory)
{
    double bytes = 0;
    for (int i = 0; i < node_op(n)->n_slots; i++) {
        const struct value *v = graph_value(&g->graph, n->u.slot[i]);
        bool few = n->op == OP_embed &&
                   v->table; /* of whose rows it reads a few: one for each of y, fast in the device's memory */
        if (!n->u.slot[i] || v->memory != memory || (few && memory == MEMORY_DEVICE))
            continue;
        const struct tensor *like = few ? &args->embed.y : &args->slot[i];
        bytes += (double)dtype_bytes(args->slot[i].dtype, tensor_elements(like));
    }
    return bytes;
}

/* A node joins those before it, of the same ranks, where it needs none of them, and does not wait for a later sum over ranks than they do. */
static void join_nodes(const struct backend *b, struct graph *g)
{
    struct hazards all, sums;
    bool opened = hazards_open(&all, g), found = hazards_open(&sums, g);
    for (int k = 1, first = 1, waited = 0; k < g->n_nodes && opened && found; k++) {
        struct node *n = &g->nodes[k];
        int sum = n->lane == LANE_COMPUTE ? hazards_find(&sums, g, n) : 0;
        n->joins = k > 1 && n->op == n[-1].op && n->rank == n[-1].rank && n->lane == n[-1].lane && sum <= waited &&
                   backend_together(b, n->op) && hazards_find(&all, g, n) < first;
        if (!n->joins)
            first = k;
        waited = sum > waited ? sum : waited;
        hazards_add(&all, g, k);
        if (n->lane == LANE_SUMS)
            hazards_add(&sums, g, k);
    }
    hazards_close(&all);
    hazards_close(&sums);
}

/* What nodes share that run at the same time: of a lane also those that follow, since one is over before the next begins. */
struct workspaces {
    int shared;       /* value; 0: none yet */
    int64_t together; /* bytes of the nodes that run at the same time */
    int of[LANE_COUNT];
};

static void begin_launch(struct workspaces *w, const struct node *n)
{
    w->shared = w->of[n->lane];
    w->together = 0;
}

static int share_workspace(const struct backend *b, struct workspaces *w, struct graph *g, const struct node *n,
                           int64_t bytes)
{
    int64_t all = w->together + bytes, most = b->workspace_most ? b->workspace_most(b, n->op) : INT64_MAX;
    w->together = all < most ? all : most;
    if (!w->shared) {
        w->shared = graph_add_value(g, NULL, ROLE_WORKSPACE, DT_U8, 1, &DIM(0));
        graph_value(g, w->shared)->layer = n->layer;
        w->of[n->lane] = n->lane == LANE_COMPUTE ? 0 : w->shared;
    }
    int64_t *size = &graph_value(g, w->shared)->shape[0].c;
    *size = w->together > *size ? w->together : *size;
    return w->shared;
}

int compile_for_backend(const struct backend *b, int threads, struct program *g, struct snug_err *err)
{
    struct workspaces w = {0};
    join_nodes(b, &g->graph);
    for (int k = 1; k < g->graph.n_nodes; k++) {
        struct node *n = &g->graph.nodes[k];
        union args_any args;
        compile_args(g, n, g->max, NULL, -1, &args);
        if (b->takes)
            TRY(b->takes(n->op, &args, err));
        int64_t bytes = backend_workspace_bytes(b, n->op, &args, threads);
        if (!n->joins)
            begin_launch(&w, n);
        if (bytes > 0)
            n->workspace = share_workspace(b, &w, &g->graph, n, bytes);
    }
    lanes_find(&g->graph);
    return graph_ok(&g->graph, err);
}

/* ---- passes ---- */

static const struct pass {
    const char *name;
    void (*run)(struct graph *g, struct pass_settings *s);
    unsigned programs;
} passes[] = {
#define PASS(x, name, programs) {#name, pass_##name, programs},
    PASSES(PASS, )
#undef PASS
};

/* A run that is compiled: what was asked for, what is chosen, where it goes. */
struct job {
    const struct compile_settings *s;
    const struct choices *choices;
    struct plan *plan;
    int64_t beside_bytes; /* of the update: as struct pass_settings has it */
};

static int after_pass(const struct job *j, struct program *g, const char *pass, struct snug_err *err)
{
    TRY(j->s->trial ? graph_ok(&g->graph, err) : graph_check(&g->graph, pass, err));
    TRY(plan_check_stop(j->plan, err));
    if (!j->s->dump)
        return SNUG_OK;
    char *text;
    TRY(graph_print(&g->graph, &g->graph.arena, &text, err));
    j->s->dump(j->s->dump_ctx, pass, g->name, text);
    return SNUG_OK;
}

/* Whether ranks can add up gradients while nodes compute. */
static bool sums_beside(const struct compile_settings *s)
{
    return !s->backend->facts.host_memory && !s->in_turn;
}

/* Whether gradients are there when a program ends, for the next micro-batch to add to or for somebody to look at. What the sum over ranks
 * of a single micro-batch leaves for the update is not meant: it is the same however the step is cut into programs. */
static bool gradients_last(const struct job *j)
{
    return j->choices->accumulation > 1 || j->s->keep_grads || j->s->separate;
}

static struct pass_settings settings_of(const struct job *j, enum program_kind kind, int loss)
{
    const struct compile_settings *s = j->s;
    struct pass_settings p = {.program = kind,
                              .loss = loss,
                              .adapters = s->adapters,
                              .quantization = s->quantization,
                              .freeze = s->freeze,
                              .precision = s->precision,
                              .update = s->update,
                              .choices = *j->choices,
                              .head_chunk = j->choices->whole_logits ? 0 : s->head_chunk,
                              .head_vocabulary = s->head_vocabulary,
                              .cache_rows = s->cache_rows,
                              .source_rows = s->source_rows,
                              .beams = s->beams,
                              .reads_mask = s->backend->reads_mask,
                              .product_sizes = s->backend->facts.product_sizes,
                              .narrow_bias = s->backend->facts.narrow_bias,
                              .in_host_memory = s->backend->facts.host_memory,
                              .pulls_beside = !s->backend->facts.host_memory && !s->in_turn,
                              .sums_beside = sums_beside(s),
                              .beside_bytes = j->beside_bytes,
                              .ranks = s->ranks,
                              .zero_stage = s->zero_stage};
    /* In an update all gradients are there, and stay. Updates of layers would wait for other ranks in the backward pass. */
    if (kind == PROGRAM_UPDATE || s->ranks > 1)
        p.choices.updates_at_end = true;
    if (gradients_last(j))
        p.precision.narrow_grads &= s->precision.narrow_sums && !s->keep_grads;
    return p;
}

/* All passes that the program is for, then what the backend decides. */
static int run_passes(const struct job *j, struct program *g, enum program_kind kind, int loss, struct snug_err *err)
{
    struct pass_settings settings = settings_of(j, kind, loss);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (!(passes[i].programs >> kind & 1))
            continue;
        passes[i].run(&g->graph, &settings);
        TRY(after_pass(j, g, passes[i].name, err));
    }
    g->recomputed_layers = settings.recomputed_layers;
    return compile_for_backend(j->s->backend, j->s->threads, g, err);
}

/* ---- programs ---- */

static int add_program(const struct job *j, const char *name, struct dims max, struct program **g, int *where,
                       struct snug_err *err)
{
    if (!(*g = plan_add(j->plan, name, max, err)))
        return SNUG_ERR_ENV;
    *where = j->plan->n_programs - 1;
    return SNUG_OK;
}

/* A program with a forward pass: the whole step, a micro-step, the evaluation, or generation. */
static int compile_forward(const struct job *j, const char *name, enum program_kind kind, int *where,
                           struct snug_err *err)
{
    const struct compile_settings *s = j->s;
    bool evaluates = kind == PROGRAM_EVALUATION, generates = kind == PROGRAM_GENERATION;
    bool training = !evaluates && !generates;
    struct dims max = generates ? s->generate_max : evaluates ? s->eval_max : j->choices->micro;
    struct built built;
    struct program *g;
    TRY(add_program(j, name, max, &g, where, err));
    g->trails = kind == PROGRAM_STEP && j->choices->prefetch && !s->backend->facts.host_memory;
    struct build_settings settings = {.mode = generates   ? BUILD_GENERATE
                                              : evaluates ? BUILD_EVALUATE
                                                          : BUILD_TRAIN,
                                      .longest = generates ? 0 : s->longest,
                                      .dropout = s->dropout,
                                      .smoothing = s->smoothing,
                                      .class_weights = s->class_weights};
    TRY(model_build(s->model, settings, &g->graph, &built, err));
    if (training) /* own loops look at the logits of a micro-step, if there are any */
        graph_value(&g->graph, built.logits)->live_out =
            kind != PROGRAM_STEP && s->keep_grads && (j->choices->whole_logits || !s->head_chunk);
    TRY(after_pass(j, g, "build", err));
    return run_passes(j, g, kind, built.loss, err);
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

static int find_peak(const struct program *g, int64_t *peak, struct snug_err *err)
{
    int64_t *bytes = lives_bytes(&g->graph, g->max);
    if (!bytes)
        return err_no_memory(err, (unsigned long long)g->graph.n_nodes * sizeof *bytes);
    for (int k = 1; k <= g->graph.n_nodes; k++)
        *peak = bytes[k] > *peak ? bytes[k] : *peak;
    mem_free(bytes);
    return SNUG_OK;
}

/* The update of accumulated gradients: no forward pass, only what the micro-step leaves behind. */
static int compile_update(const struct job *j, int micro, int *where, struct snug_err *err)
{
    struct program *g;
    struct job update = *j;
    TRY(find_peak(&j->plan->programs[micro], &update.beside_bytes, err));
    TRY(add_program(j, "update", j->choices->micro, &g, where, err));
    TRY(copy_persistent(&j->plan->programs[micro].graph, &g->graph, err));
    return run_passes(&update, g, PROGRAM_UPDATE, 0, err);
}

/* The 16-bit copies of weights that other programs keep, made from the weights. */
static int compile_copies(const struct job *j, int *where, struct snug_err *err)
{
    const struct graph *from = &j->plan->programs[0].graph;
    struct program *g;
    TRY(add_program(j, "copies", (struct dims){0}, &g, where, err));
    for (int i = 1; i < from->n_values && !g->graph.err.code; i++) {
        const struct value *c = &from->values[i];
        if (c->kin != KIN_COPY || c->base || !c->persists)
            continue;
        g->graph.rank = c->rank;
        const struct value *w = graph_value(from, c->of);
        g->graph.layer = c->layer;
        struct op_cast cast = {.x = graph_add_value(&g->graph, w->name, ROLE_WEIGHT, w->dtype, w->ndim, w->shape)};
        emit_cast(&g->graph, &cast);
        if (g->graph.err.code)
            break;
        struct value *x = graph_value(&g->graph, cast.x), *y = graph_value(&g->graph, cast.y);
        x->group = w->group;
        x->pad_rows = w->pad_rows;
        x->memory = w->memory;
        x->rank = w->rank;
        y->rank = c->rank;
        x->shards = y->shards = w->shards;
        x->chunk = y->chunk = w->chunk;
        y->pad_rows = c->pad_rows;
        graph_set_name(&g->graph, cast.y, c->name);
        y->kin = KIN_COPY;
        y->of = cast.x;
        y->role = ROLE_COPY;
        y->dtype = c->dtype;
        y->persists = y->live_in = y->live_out = true;
    }
    g->graph.rank = 0;
    return run_passes(j, g, PROGRAM_COPIES, 0, err);
}

/* Whether forward, backward and update are one program, in which a gradient lives only until its update. Several ranks add up their
 * gradients between the two, or beside the backward pass; a sum that one of them keeps alone lasts. */
static bool is_fused(const struct job *j)
{
    bool alone = j->s->ranks <= 1 || (sums_beside(j->s) && j->s->zero_stage < 2);
    return alone && !gradients_last(j);
}

int compile_run(const struct compile_settings *s, const struct choices *choices, struct plan *plan,
                struct programs *where, struct snug_err *err)
{
    const struct job j = {.s = s, .choices = choices, .plan = plan};
    *where = (struct programs){-1, -1, -1, -1, -1, -1, -1};
    plan->align = s->backend->facts.align;
    plan->staging = s->backend->facts.staging;
    plan->stop = s->stop;
    plan->trial = s->trial;
    plan->trial_most = s->trial_most;
    if (s->train && is_fused(&j))
        TRY(compile_forward(&j, "step", PROGRAM_STEP, &where->step, err));
    else if (s->train) {
        TRY(compile_forward(&j, "first micro-step", PROGRAM_FIRST, &where->first, err));
        if (choices->accumulation > 1)
            TRY(compile_forward(&j, "next micro-step", PROGRAM_NEXT, &where->next, err));
        if (!s->keep_grads)
            TRY(compile_update(&j, where->first, &where->update, err));
    }
    if (s->eval_max.B > 0)
        TRY(compile_forward(&j, "evaluation", PROGRAM_EVALUATION, &where->eval, err));
    if (s->generate_max.B > 0)
        TRY(compile_forward(&j, "generation", PROGRAM_GENERATION, &where->generate, err));
    if (choices->copies && s->precision.narrow != s->precision.wide)
        TRY(compile_copies(&j, &where->copies, err));
    return plan_pack(plan, err);
}
