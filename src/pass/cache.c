#include "pass/pass.h"

/* "NAME.k" of the k-th node: keys or values of all sequences, or the rows of a convolution. They last from one call of the program to the
 * next, and are nothing to other programs, which may have the same bytes once the texts have ended. */
static int add_state(struct graph *g, const char *name, int k, enum dtype type, int64_t rows, int64_t width)
{
    int id = graph_add_value(g, graph_name(g, "%s.%d", name, k), ROLE_STATE, type, 3,
                             (const struct dim[]){DIM_B, DIM(rows), DIM(width)});
    if (!id)
        return 0;
    struct value *v = graph_value(g, id);
    v->layer = g->nodes[k].layer;
    v->persists = false;
    v->live_out = true;
    return id;
}

static int find_input(struct graph *g, const char *name)
{
    int id = graph_find(g, name);
    if (!id && (id = graph_add_value(g, name, ROLE_INPUT, DT_I32, 1, &DIM_B)))
        graph_value(g, id)->layer = 0;
    return id;
}

/* Where the rows of a sequence are, of beams: they share what they have in common. */
static int find_places(struct graph *g, const struct pass_settings *s, bool source)
{
    const char *name = source ? "source_at" : "cache_at";
    int id = s->beams > 1 ? graph_find(g, name) : 0;
    if (!id && s->beams > 1 &&
        (id = graph_add_value(g, name, ROLE_INPUT, DT_I32, source ? 1 : 2,
                              (const struct dim[]){DIM_B, DIM(s->cache_rows)})))
        graph_value(g, id)->layer = 0;
    return id;
}

/* Rows of the first of two stacks: they come once, all of a sequence in one call. */
static bool are_sources(const struct graph *g, int rows)
{
    return graph_value(g, rows)->shape[0].times.S != 0;
}

/* The node `c` for node k, with its caches. Of a source the beams have one together. */
static void replace(struct graph *g, int k, struct op_attention_cached c, const struct pass_settings *s, int64_t width)
{
    int64_t together = s->beams > 1 ? s->beams : 1;
    int64_t rows = c.kv ? (s->source_rows + together - 1) / together : s->cache_rows;
    c.past = find_input(g, c.kv ? "source_rows" : "past");
    c.at = find_places(g, s, c.kv);
    enum dtype type = graph_value(g, c.qkv)->dtype;
    c.keys = add_state(g, c.kv ? "source_keys" : "keys", k, type, rows, width);
    c.values = add_state(g, c.kv ? "source_values" : "values", k, type, rows, width);
    g->nodes[k].op = OP_attention_cached;
    g->nodes[k].u = (union op_any){.attention_cached = c};
}

static void cache_attention(struct graph *g, int k, const struct pass_settings *s)
{
    const struct op_attention a = g->nodes[k].u.attention;
    if (are_sources(g, a.qkv))
        return;
    if (!a.causal || a.p > 0)
        graph_fail(g, SNUG_ERR_INPUT, "graph: attention that looks ahead, or drops, has no cache");
    int64_t D = graph_value(g, a.qkv)->shape[1].c / (a.heads + 2 * a.kv_heads);
    struct op_attention_cached n = {.qkv = a.qkv,
                                    .sinks = a.sinks,
                                    .cu = a.cu,
                                    .o = a.o,
                                    .heads = a.heads,
                                    .kv_heads = a.kv_heads,
                                    .scale = a.scale,
                                    .window = a.window,
                                    .softcap = a.softcap};
    replace(g, k, n, s, a.kv_heads * D);
}

static void cache_general(struct graph *g, int k, const struct pass_settings *s)
{
    const struct op_attention_general a = g->nodes[k].u.attention_general;
    if (are_sources(g, a.q))
        return;
    if (a.kv ? a.causal || a.table || !are_sources(g, a.kv) : !a.causal || a.p > 0)
        graph_fail(g, SNUG_ERR_INPUT, "graph: attention that looks ahead, or drops, has no cache");
    struct op_attention_cached n = {.qkv = a.q,
                                    .kv = a.kv,
                                    .kv_cu = a.kv_cu,
                                    .table = a.table,
                                    .cu = a.cu,
                                    .o = a.o,
                                    .heads = a.heads,
                                    .kv_heads = a.heads,
                                    .furthest = a.furthest,
                                    .scale = a.scale};
    replace(g, k, n, s, graph_value(g, a.o)->shape[1].c);
}

/* Its rows are few, and stay wide: a prompt gives the same in pieces as at once. */
static void cache_convolution(struct graph *g, int k, const struct pass_settings *s)
{
    const struct op_short_conv a = g->nodes[k].u.short_conv;
    const struct value w = *graph_value(g, a.w);
    struct op_short_conv_cached n = {.bcx = a.bcx,
                                     .w = a.w,
                                     .b = a.b,
                                     .cu = a.cu,
                                     .past = find_input(g, "past"),
                                     .at = find_places(g, s, false),
                                     .rows = add_state(g, "rows", k, s->precision.wide, w.shape[2].c, w.shape[0].c),
                                     .y = a.y};
    g->nodes[k].op = OP_short_conv_cached;
    g->nodes[k].u = (union op_any){.short_conv_cached = n};
}

void pass_cache(struct graph *g, struct pass_settings *s)
{
    for (int k = 1; k < g->n_nodes && !g->err.code; k++)
        if (g->nodes[k].op == OP_attention)
            cache_attention(g, k, s);
        else if (g->nodes[k].op == OP_attention_general)
            cache_general(g, k, s);
        else if (g->nodes[k].op == OP_short_conv)
            cache_convolution(g, k, s);
}
