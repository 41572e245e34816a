#include "model/experts.h"

const struct expert_names experts_of_qwen = {.block = "mlp", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
const struct expert_names experts_of_granite = {.block = "block_sparse_moe",
                                                .gate = "input_linear",
                                                .down = "output_linear",
                                                .router = "router.layer",
                                                .shared = "shared_mlp"};

int experts_config(json_t *o, const char *path, const char *key, struct experts_config *e, struct snug_err *err)
{
    TRY(json_get_int(o, path, "num_local_experts", false, 1, 1 << 14, &e->n, err));
    TRY(json_get_int(o, path, key, false, 1, 1 << 14, &e->n, err));
    TRY(json_get_int(o, path, "num_experts_per_tok", false, 1, 1 << 14, &e->chosen, err));
    if (e->chosen > e->n)
        return err_set(err, SNUG_ERR_INPUT, "%s: num_experts_per_tok %lld is more than the %lld experts; correct one",
                       path, (long long)e->chosen, (long long)e->n);
    bool balanced = false;
    double coef = e->balance > 0 ? e->balance : 0.001;
    TRY(json_get_bool(o, path, "output_router_logits", false, &balanced, err));
    TRY(json_get_real(o, path, "router_aux_loss_coef", false, 0, 1e6, &coef, err));
    e->balance = balanced ? coef : 0;
    return SNUG_OK;
}

/* The weights of all experts as one, (E,O,I), of which files have the parts, or the whole under a name of its own. Its name is that of
 * transformers' modules, by which PEFT adapts it. */
struct stacked {
    const char *name;
    const char *in_files; /* of the whole; NULL: of the parts */
    int64_t out, in;
    struct {
        const char *name;
        int64_t out;
    } part[2]; /* of an expert's rows; the second may be absent */
};

static void add_part(struct build *b, const char *name, int whole, int64_t at, int ndim, const struct dim *shape)
{
    int id = graph_add_slice(b->g, name, whole, at, ndim, shape);
    if (id)
        graph_value(b->g, id)->init = b->normal;
}

static int stacked_weight(struct build *b, const char *block, int64_t experts, struct stacked s)
{
    struct graph *g = b->g;
    int w = WEIGHT(b, b->normal, s.name, DIM(experts), DIM(s.out), DIM(s.in));
    int64_t at = 0;
    if (s.in_files && w)
        add_part(b, s.in_files, w, 0, SHAPE(DIM(experts), DIM(s.out), DIM(s.in)));
    for (int64_t e = 0; e < experts && w && !s.in_files; e++)
        for (int k = 0; k < 2 && s.part[k].name && !g->err.code; at += s.part[k++].out * s.in)
            add_part(b, graph_name(g, "%s.experts.%lld.%s.weight", block, (long long)e, s.part[k].name), w, at,
                     SHAPE(DIM(s.part[k].out), DIM(s.in)));
    if (w)
        graph_value(g, w)->group = true;
    return w;
}

static void add_shares(struct build *b, const struct op_route *r)
{
    struct op_expert_shares n = {
        .places = r->places, .offsets = r->offsets, .cu = b->in.cu_seqlens, .before = b->expert_shares, .k = r->k};
    emit_expert_shares(b->g, &n);
    b->expert_shares = n.y;
}

/* What this layer's router has chosen, together with those before it. */
static void add_use(struct build *b, const struct op_route *r)
{
    struct op_expert_use n = {.logits = r->logits,
                              .places = r->places,
                              .offsets = r->offsets,
                              .cu = b->in.cu_seqlens,
                              .counted = b->expert_counts,
                              .before = b->expert_sums};
    emit_expert_use(b->g, &n);
    b->expert_counts = n.counts;
    b->expert_sums = n.y;
    b->expert_layers++;
}

int build_balance_loss(struct build *b, const struct experts_config *e)
{
    struct op_balance_loss n = {.counts = b->expert_counts,
                                .sums = b->expert_sums,
                                .cu = b->in.cu_seqlens,
                                .labels = b->in.labels,
                                .step = b->in.step,
                                .coef = e->balance,
                                .layers = b->expert_layers};
    if (!n.layers)
        return 0;
    emit_balance_loss(b->g, &n);
    return n.loss;
}

/* A gated block for all rows, by the sigmoid of a product of its own. */
static int shared_expert(struct build *b, const char *block, int v, int64_t size, enum act act)
{
    struct graph *g = b->g;
    int64_t H = b->c->hidden_size;
    const char *prefix = graph_name(g, "%s.shared_expert", block);
    struct layer_options plain = build_product(b, false);
    const struct part parts[] = {{graph_name(g, "%s.gate_proj", prefix), size},
                                 {graph_name(g, "%s.up_proj", prefix), size}};
    struct op_glu gate = {.x = build_parts(b, v, graph_name(g, "%s.gate_up_proj", prefix), H, parts, 2, plain),
                          .act = act};
    emit_glu(g, &gate);
    struct op_gate_rows n = {.x = build_linear(b, gate.y, graph_name(g, "%s.down_proj", prefix), size, H, plain),
                             .logits = build_linear(b, v, graph_name(g, "%s_gate", prefix), H, 1, plain)};
    emit_gate_rows(g, &n);
    return n.y;
}

/* A gated block for all rows, whose gates and ups files have as one. */
static int shared_block(struct build *b, const char *prefix, int v, int64_t size, enum act act)
{
    int64_t H = b->c->hidden_size;
    struct layer_options plain = build_product(b, false);
    struct op_glu gate = {.x = build_linear(b, v, graph_name(b->g, "%s.input_linear", prefix), H, 2 * size, plain),
                          .act = act};
    emit_glu(b->g, &gate);
    return build_linear(b, gate.y, graph_name(b->g, "%s.output_linear", prefix), size, H, plain);
}

/* A product of rows that are sorted by expert; the weight lies as the files have it. */
static int product(struct build *b, int rows, int weight, bool in_out, int offsets)
{
    struct op_linear_experts n = {.x = rows, .w = weight, .offsets = offsets, .in_out = in_out};
    emit_linear_experts(b->g, &n);
    return n.y;
}

/* The same with the weight NAME and the bias NAME_bias of all experts. */
static int whole_layer(struct build *b, int rows, const char *name, int64_t experts, int64_t in, int64_t out,
                       int offsets)
{
    int weight = WEIGHT(b, b->normal, name, DIM(experts), DIM(in), DIM(out));
    struct op_expert_bias n = {.x = product(b, rows, weight, true, offsets),
                               .b = WEIGHT(b, b->zero, graph_name(b->g, "%s_bias", name), DIM(experts), DIM(out)),
                               .offsets = offsets};
    emit_expert_bias(b->g, &n);
    return n.y;
}

/* The experts' blocks on rows of files that have all experts' weights as one. */
static int whole_blocks(struct build *b, const char *block, int rows, const struct experts_config *e, int offsets)
{
    int64_t H = b->c->hidden_size, F = e->intermediate_size;
    const char *up = graph_name(b->g, "%s.experts.gate_up_proj", block);
    const char *down = graph_name(b->g, "%s.experts.down_proj", block);
    struct op_glu_clamped gate = {
        .x = whole_layer(b, rows, up, e->n, H, 2 * F, offsets), .alpha = e->alpha, .limit = e->limit};
    emit_glu_clamped(b->g, &gate);
    return whole_layer(b, gate.y, down, e->n, F, H, offsets);
}

/* The same of files that have each expert's layers, or two layers of all experts (E,O,I). */
static int stacked_blocks(struct build *b, const char *prefix, const char *block, int rows,
                          const struct experts_config *e, enum act act, int offsets)
{
    const struct expert_names *names = e->names;
    int64_t H = b->c->hidden_size, F = e->intermediate_size;
    struct stacked up = {.out = 2 * F, .in = H, .part = {{names->gate, F}, {names->up, F}}};
    struct stacked down = {.out = H, .in = F, .part = {{names->down, H}}};
    up.name = graph_name(b->g, "%s%s.experts.gate_up_proj", prefix, names->up ? "mlp" : names->block);
    down.name = graph_name(b->g, "%s%s.experts.down_proj", prefix, names->up ? "mlp" : names->block);
    if (!names->up) {
        up.in_files = graph_name(b->g, "%s.%s.weight", block, names->gate);
        down.in_files = graph_name(b->g, "%s.%s.weight", block, names->down);
    }
    struct op_glu gate = {.x = product(b, rows, stacked_weight(b, block, e->n, up), false, offsets), .act = act};
    emit_glu(b->g, &gate);
    return product(b, gate.y, stacked_weight(b, block, e->n, down), false, offsets);
}

/* The experts' logits of rows v. transformers has a router of files that have all experts' layers as one under another name. */
static int route(struct build *b, const char *block, int v, const struct experts_config *e)
{
    const struct expert_names *names = e->names;
    struct layer_options o = {.weight = b->normal, .bias = b->normal, .no_bias = !e->whole};
    const struct part part = {graph_name(b->g, "%s.%s", block, names->router ? names->router : "gate"), e->n};
    int64_t H = b->c->hidden_size;
    if (names->up || e->whole)
        return build_linear(b, v, part.prefix, H, e->n, o);
    return build_parts(b, v, graph_name(b->g, "%s.router", block), H, &part, 1, o);
}

int build_experts(struct build *b, const char *prefix, int v, const struct experts_config *e, enum act act)
{
    struct graph *g = b->g;
    const struct expert_names *names = e->names;
    const char *block = graph_name(g, "%s%s", prefix, names->block);
    struct op_route r = {.logits = route(b, block, v, e), .k = e->chosen, .normalized = e->normalized};
    emit_route(g, &r);
    if (b->settings.mode == BUILD_TRAIN && dim_has_tokens(graph_value(g, v)->shape[0]))
        add_shares(b, &r);
    if (e->balance > 0 && b->c->task == MODEL_CAUSAL_LM &&
        (b->settings.mode == BUILD_TRAIN || b->settings.mode == BUILD_EVALUATE))
        add_use(b, &r);
    struct op_take rows = {.x = v, .places = r.places, .k = e->chosen};
    emit_take(g, &rows);
    int y = e->whole ? whole_blocks(b, block, rows.y, e, r.offsets)
                     : stacked_blocks(b, prefix, block, rows.y, e, act, r.offsets);
    struct op_combine sum = {.x = y, .gates = r.gates, .places = r.places};
    emit_combine(g, &sum);
    if (!e->shared_size)
        return sum.y;
    struct op_add both = {
        .a = sum.y,
        .b = names->shared ? shared_block(b, graph_name(g, "%s%s", prefix, names->shared), v, e->shared_size, act)
                           : shared_expert(b, block, v, e->shared_size, act)};
    emit_add(g, &both);
    return both.y;
}
