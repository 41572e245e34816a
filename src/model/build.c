#include "model/build.h"

#include <math.h>

double build_p(const struct build *b, double p)
{
    return b->settings.dropout ? p : 0;
}

double build_p_classifier(const struct build *b)
{
    return build_p(b, b->c->dropout_classifier < 0 ? b->c->dropout_hidden : b->c->dropout_classifier);
}

int build_weight(struct build *b, struct init init, const char *name, int ndim, const struct dim *shape)
{
    int id = graph_find(b->g, name);
    if (id)
        return id;
    id = graph_add_value(b->g, name, ROLE_WEIGHT, DT_F32, ndim, shape);
    if (id)
        graph_value(b->g, id)->init = init;
    return id;
}

int build_dropout(struct build *b, int v, int coords, double p)
{
    if (p <= 0)
        return v;
    struct op_dropout d = {.x = v, .coords = coords, .rng = b->in.rng, .p = p, .site = b->site++};
    emit_dropout(b->g, &d);
    return d.y;
}

int build_linear(struct build *b, int x, const char *prefix, int64_t in, int64_t out, struct layer_options o)
{
    struct op_linear n = {.x = x, .act = o.act, .in_out = o.in_out};
    n.w = o.in_out ? WEIGHT(b, o.weight, graph_name(b->g, "%s.weight", prefix), DIM(in), DIM(out))
                   : WEIGHT(b, o.weight, graph_name(b->g, "%s.weight", prefix), DIM(out), DIM(in));
    if (!o.no_bias)
        n.b = WEIGHT(b, o.bias, graph_name(b->g, "%s.bias", prefix), DIM(out));
    emit_linear(b->g, &n);
    return n.y;
}

/* Rows [at, at + out) of weight `whole`, under its own name. */
static void add_part(struct build *b, const char *name, int whole, int64_t at, int ndim, const struct dim *shape,
                     struct init init)
{
    if (graph_find(b->g, name))
        return;
    int id = graph_add_slice(b->g, name, whole, at, ndim, shape);
    if (id)
        graph_value(b->g, id)->init = init;
}

/* A part of a bias that is 0 and stays so. */
static void add_nothing(struct build *b, const char *name, int whole, int64_t at, int64_t size)
{
    const struct init nothing = {.kind = INIT_ZERO, .zero_row = -1, .constant = true};
    add_part(b, name, whole, at, SHAPE(DIM(size)), nothing);
    if (graph_find(b->g, name))
        graph_value(b->g, graph_find(b->g, name))->frozen = true;
}

int build_bias(struct build *b, const char *whole, const struct bias_part *parts, int n, struct init init)
{
    int64_t all = 0, at = 0;
    for (int i = 0; i < n; i++)
        all += parts[i].size;
    int bias = WEIGHT(b, init, whole, DIM(all));
    for (int i = 0; i < n && bias; at += parts[i++].size)
        if (parts[i].none)
            add_nothing(b, parts[i].name, bias, at, parts[i].size);
        else
            add_part(b, parts[i].name, bias, at, SHAPE(DIM(parts[i].size)), init);
    if (bias)
        graph_value(b->g, bias)->group = true;
    return bias;
}

int build_parts(struct build *b, int x, const char *whole, int64_t in, const struct part *parts, int n,
                struct layer_options o)
{
    struct graph *g = b->g;
    int64_t all = 0;
    for (int i = 0; i < n; i++)
        all += parts[i].out;
    int w = WEIGHT(b, o.weight, graph_name(g, "%s.weight", whole), DIM(all), DIM(in));
    int bias = o.no_bias ? 0 : WEIGHT(b, o.bias, graph_name(g, "%s.bias", whole), DIM(all));
    for (int64_t i = 0, at = 0; i < n && w; at += parts[i++].out) {
        add_part(b, graph_name(g, "%s.weight", parts[i].prefix), w, at * in, SHAPE(DIM(parts[i].out), DIM(in)),
                 o.weight);
        if (bias && o.unbiased_from && i >= o.unbiased_from)
            add_nothing(b, graph_name(g, "%s.bias", parts[i].prefix), bias, at, parts[i].out);
        else if (bias)
            add_part(b, graph_name(g, "%s.bias", parts[i].prefix), bias, at, SHAPE(DIM(parts[i].out)), o.bias);
    }
    if (w)
        graph_value(g, w)->group = true;
    if (bias)
        graph_value(g, bias)->group = true;
    struct op_linear l = {.x = x, .w = w, .b = bias, .act = o.act};
    emit_linear(g, &l);
    return l.y;
}

int build_activation(struct build *b, int v, enum act act)
{
    struct op_activation n = {.x = v, .act = act};
    emit_activation(b->g, &n);
    return n.y;
}

/* The product's matrix is the weight as it lies in the file, which has more dimensions. */
int build_convolution(struct build *b, int x, const char *prefix, int64_t in, int64_t out, int64_t width,
                      struct layer_options o)
{
    struct graph *g = b->g;
    struct op_neighbours rows = {.x = x, .cu = b->in.cu_seqlens, .width = width};
    struct op_linear l = {.act = o.act,
                          .w = WEIGHT(b, o.weight, graph_name(g, "%s.matrix", prefix), DIM(out), DIM(in * width))};
    emit_neighbours(g, &rows);
    if (l.w) {
        add_part(b, graph_name(g, "%s.weight", prefix), l.w, 0, SHAPE(DIM(out), DIM(in), DIM(width)), o.weight);
        graph_value(g, l.w)->group = true;
    }
    l.x = rows.y;
    l.b = WEIGHT(b, o.bias, graph_name(g, "%s.bias", prefix), DIM(out));
    emit_linear(g, &l);
    return l.y;
}

struct layer_options build_product(const struct build *b, bool bias)
{
    return (struct layer_options){.weight = b->normal, .bias = b->zero, .no_bias = !bias};
}

int build_score(struct build *b, int x, int64_t in)
{
    struct layer_options o = build_product(b, false);
    o.weight.head = true;
    return build_linear(b, x, "score", in, b->c->num_labels, o);
}

int build_head_linear(struct build *b, int x, const char *prefix, int64_t in, int64_t out, enum act act)
{
    struct layer_options o = build_product(b, true);
    o.act = act;
    o.weight.head = o.bias.head = true;
    return build_linear(b, x, prefix, in, out, o);
}

struct op_norm build_norm(struct build *b, int x, const char *prefix, struct norm_options o)
{
    const struct init one = {
        .kind = o.one_plus ? INIT_ZERO : INIT_ONE, .head = o.head, .zero_row = -1, .constant = o.ones};
    const struct init zero = {.kind = INIT_ZERO, .head = o.head, .zero_row = -1};
    const struct dim width = DIM(o.width ? o.width : b->c->hidden_size);
    struct op_norm n = {.x = x,
                        .res = o.res,
                        .gamma = WEIGHT(b, one, graph_name(b->g, "%s.weight", prefix), width),
                        .beta = o.no_bias ? 0 : WEIGHT(b, zero, graph_name(b->g, "%s.bias", prefix), width),
                        .coords = o.p > 0 ? o.coords : 0,
                        .rng = o.p > 0 ? b->in.rng : 0,
                        .eps = o.eps,
                        .p = o.p,
                        .site = o.site,
                        .one_plus = o.one_plus};
    emit_norm(b->g, &n);
    if (!b->g->err.code)
        graph_value(b->g, n.gamma)->norm = true, graph_value(b->g, n.gamma)->frozen = o.ones;
    if (!b->g->err.code && n.beta)
        graph_value(b->g, n.beta)->norm = true;
    return n;
}

int build_norm_scale(struct build *b, const char *name, int64_t size, bool one_plus)
{
    const struct init one = {.kind = one_plus ? INIT_ZERO : INIT_ONE, .zero_row = -1};
    int id = WEIGHT(b, one, name, DIM(size));
    if (id)
        graph_value(b->g, id)->norm = true;
    return id;
}

struct op_rms_norm build_rms_norm(struct build *b, int x, int res, const char *prefix, double eps, bool one_plus)
{
    const char *name = graph_name(b->g, "%s.weight", prefix);
    struct op_rms_norm n = {.x = x,
                            .res = res,
                            .gamma = build_norm_scale(b, name, b->c->hidden_size, one_plus),
                            .eps = eps,
                            .one_plus = one_plus};
    emit_rms_norm(b->g, &n);
    return n;
}

int build_attention(struct build *b, int qkv, struct attention_options o)
{
    const struct model_config *c = b->c;
    int64_t longest = b->settings.longest;
    double p = build_p(b, c->dropout_attention);
    struct op_attention a = {.qkv = qkv,
                             .cu = o.cu ? o.cu : b->in.cu_seqlens,
                             .coords = p <= 0     ? 0
                                       : o.coords ? o.coords
                                                  : b->in.coords,
                             .rng = p > 0 ? b->in.rng : 0,
                             .sinks = o.sinks,
                             .heads = c->heads,
                             .kv_heads = o.kv_heads ? o.kv_heads : c->heads,
                             .causal = o.causal,
                             .scale = o.scale > 0 ? o.scale : 1 / sqrt((double)o.head_size),
                             .p = p,
                             .site = b->site++,
                             .longest = longest && longest < c->longest ? longest : c->longest,
                             .queries = o.queries,
                             .window = o.window,
                             .softcap = o.cap};
    emit_attention(b->g, &a);
    return a.o;
}

int build_general_attention(struct build *b, int q, struct general_options o)
{
    double p = build_p(b, b->c->dropout_attention);
    struct op_attention_general a = {.q = q,
                                     .kv = o.kv,
                                     .table = o.table,
                                     .cu = o.cu,
                                     .kv_cu = o.kv_cu,
                                     .coords = p > 0 ? o.coords : 0,
                                     .rng = p > 0 ? b->in.rng : 0,
                                     .heads = b->c->heads,
                                     .furthest = o.furthest,
                                     .causal = o.causal,
                                     .scale = o.scale,
                                     .p = p,
                                     .site = b->site++};
    emit_attention_general(b->g, &a);
    return a.o;
}

int build_disentangled_attention(struct build *b, int qkv, int relative, struct disentangled_options o)
{
    double p = build_p(b, b->c->dropout_attention);
    struct op_attention_disentangled a = {.qkv = qkv,
                                          .relative = relative,
                                          .rows = b->in.relative_rows,
                                          .cu = b->in.cu_seqlens,
                                          .coords = p > 0 ? b->in.coords : 0,
                                          .rng = p > 0 ? b->in.rng : 0,
                                          .heads = b->c->heads,
                                          .queries = o.queries,
                                          .keys = o.keys,
                                          .scale = o.scale,
                                          .p = p,
                                          .site = b->site++};
    emit_attention_disentangled(b->g, &a);
    return a.o;
}

static int some_rows(struct build *b, int v, int cu, bool last)
{
    struct op_gather rows = {.x = v, .cu = cu, .last = last};
    emit_gather(b->g, &rows);
    return rows.y;
}

int build_first_rows(struct build *b, int v)
{
    return some_rows(b, v, b->in.cu_seqlens, false);
}

int build_last_rows(struct build *b, int v)
{
    return some_rows(b, v, b->in.cu_seqlens, true);
}

int build_end_rows(struct build *b, int v)
{
    return some_rows(b, v, b->in.ends, true);
}

int build_mean_rows(struct build *b, int v)
{
    struct op_pool mean = {.x = v, .cu = b->in.cu_seqlens};
    emit_pool(b->g, &mean);
    return mean.y;
}

int build_rotary_table(struct build *b, int kind)
{
    struct op_rotary_table t = {
        .positions = b->in.positions, .frequencies = b->in.rotary[kind], .factor = b->c->rotary[kind].factor};
    emit_rotary_table(b->g, &t);
    return t.table;
}
