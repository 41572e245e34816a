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
    int id = graph_add_value(b->g, name, ROLE_WEIGHT, DT_F32, ndim, shape);
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
    n.b = WEIGHT(b, o.bias, graph_name(b->g, "%s.bias", prefix), DIM(out));
    emit_linear(b->g, &n);
    return n.y;
}

int build_head_linear(struct build *b, int x, const char *prefix, int64_t in, int64_t out, enum act act)
{
    struct layer_options o = {.weight = b->normal, .bias = b->zero, .act = act};
    o.weight.head = o.bias.head = true;
    return build_linear(b, x, prefix, in, out, o);
}

struct op_norm build_norm(struct build *b, int x, const char *prefix, struct norm_options o)
{
    const struct init one = {.kind = INIT_ONE, .head = o.head, .zero_row = -1};
    const struct init zero = {.kind = INIT_ZERO, .head = o.head, .zero_row = -1};
    const struct dim width = DIM(b->c->hidden_size);
    struct op_norm n = {.x = x,
                        .res = o.res,
                        .gamma = WEIGHT(b, one, graph_name(b->g, "%s.weight", prefix), width),
                        .beta = WEIGHT(b, zero, graph_name(b->g, "%s.bias", prefix), width),
                        .coords = o.p > 0 ? o.coords : 0,
                        .rng = o.p > 0 ? b->in.rng : 0,
                        .eps = o.eps,
                        .p = o.p,
                        .site = o.site};
    emit_norm(b->g, &n);
    if (!b->g->err.code)
        graph_value(b->g, n.gamma)->norm = graph_value(b->g, n.beta)->norm = true;
    return n;
}

int build_attention(struct build *b, int qkv, bool causal, int64_t queries)
{
    const struct model_config *c = b->c;
    double p = build_p(b, c->dropout_attention);
    struct op_attention a = {.qkv = qkv,
                             .cu = b->in.cu_seqlens,
                             .coords = p > 0 ? b->in.coords : 0,
                             .rng = p > 0 ? b->in.rng : 0,
                             .heads = c->heads,
                             .kv_heads = c->heads,
                             .causal = causal,
                             .scale = 1 / sqrt((double)(c->hidden_size / c->heads)),
                             .p = p,
                             .site = b->site++,
                             .longest = c->longest,
                             .queries = queries};
    emit_attention(b->g, &a);
    return a.o;
}

int build_first_rows(struct build *b, int v)
{
    struct op_gather first = {.x = v, .cu = b->in.cu_seqlens};
    emit_gather(b->g, &first);
    return first.y;
}
