#include "pass/pass.h"

/* "NAME.k" of the k-th node: keys or values of all sequences. They last from one call of the program to the next, and are nothing
 * to other programs, which may have the same bytes once the texts have ended. */
static int add_state(struct graph *g, const char *name, int k, int qkv, int64_t rows, int64_t width)
{
    enum dtype type = graph_value(g, qkv)->dtype;
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

static int find_past(struct graph *g)
{
    int id = graph_find(g, "past");
    if (!id && (id = graph_add_value(g, "past", ROLE_INPUT, DT_I32, 1, &DIM_B)))
        graph_value(g, id)->layer = 0;
    return id;
}

void pass_cache(struct graph *g, struct pass_settings *s)
{
    for (int k = 1; k < g->n_nodes && !g->err.code; k++) {
        const struct op_attention a = g->nodes[k].u.attention;
        if (g->nodes[k].op != OP_attention)
            continue;
        if (!a.causal || a.p > 0)
            graph_fail(g, SNUG_ERR_INPUT, "graph: attention that looks ahead, or drops, has no cache");
        int64_t D = graph_value(g, a.qkv)->shape[1].c / (a.heads + 2 * a.kv_heads);
        struct op_attention_cached n = {.qkv = a.qkv,
                                        .cu = a.cu,
                                        .past = find_past(g),
                                        .keys = add_state(g, "keys", k, a.qkv, s->cache_rows, a.kv_heads * D),
                                        .values = add_state(g, "values", k, a.qkv, s->cache_rows, a.kv_heads * D),
                                        .o = a.o,
                                        .heads = a.heads,
                                        .kv_heads = a.kv_heads,
                                        .scale = a.scale,
                                        .window = a.window,
                                        .softcap = a.softcap};
        g->nodes[k].op = OP_attention_cached;
        g->nodes[k].u = (union op_any){.attention_cached = n};
    }
}
