#include "op/codes/quantize.h"
#include "graph/uses.h"
#include "pass/pass.h"

/* Whether the slot gets a weight as numbers where that is in codes: those of products, and what looks at such weights. */
static bool is_of_product(const struct use *u, const struct node *n)
{
    return (n->op == OP_linear && u->slot == OP_SLOT(linear, w)) ||
           (n->op == OP_linear_experts && u->slot == OP_SLOT(linear_experts, w)) ||
           (n->op == OP_dora_norm && u->slot == OP_SLOT(dora_norm, w));
}

/* Whether only products of layers read it: no embeddings, and no head. */
static bool is_of_layers(const struct graph *g, const struct uses *u, int root, int head)
{
    bool all = uses_count(u, root) > 0;
    for (int i = u->from[root]; all && i < u->from[root + 1]; i++) {
        const struct node *n = &g->nodes[u->at[i].node];
        const struct value *read = graph_value(g, n->u.slot[u->at[i].slot]);
        all = is_of_product(&u->at[i], n) && n->layer > 0 && n->layer < head && (read->name || read->group);
    }
    return all;
}

/* A tensor of whole blocks, or of rows as wide as those of `whole`, that is wanted so. */
static bool fits(const struct value *v, const struct value *whole, const struct quantization *q)
{
    bool blocks = q->bits == 8 ? dim_equal(v->shape[v->ndim - 1], whole->shape[whole->ndim - 1])
                               : value_elements(v, (struct dims){0}) % QUANT_BLOCK == 0;
    return v->name && !v->group && v->ndim > 1 && blocks && (!q->of || q->of(q->ctx, v->name));
}

/* Itself, or the tensors that it is made of. */
static bool all_fit(const struct graph *g, const struct slices *parts, int root, const struct quantization *q)
{
    const struct value *v = graph_value(g, root);
    bool all = v->group || fits(v, v, q);
    for (int i = parts->from[root]; v->group && all && i < parts->from[root + 1]; i++) {
        const struct value *part = graph_value(g, parts->at[i]);
        all = part->base == root && fits(part, v, q);
    }
    return all;
}

static void add_absmax(struct graph *g, int id, bool nested)
{
    int64_t blocks = quant_blocks(value_elements(graph_value(g, id), (struct dims){0}));
    graph_add_kin(g, KIN_ABSMAX, id, nested ? DT_U8 : DT_F32, 1, &DIM(blocks));
    if (nested)
        graph_add_kin(g, KIN_NESTED_ABSMAX, id, DT_F32, 1, &DIM(quant_nested_floats(blocks)));
}

static void code_in_4_bits(struct graph *g, const struct slices *parts, int id, bool nested)
{
    graph_value(g, id)->dtype = DT_F4;
    for (int k = parts->from[id]; k < parts->from[id + 1]; k++) {
        graph_value(g, parts->at[k])->dtype = DT_F4;
        if (graph_value(g, id)->group)
            add_absmax(g, parts->at[k], nested);
    }
    if (!graph_value(g, id)->group)
        add_absmax(g, id, nested);
}

static void code_in_8_bits(struct graph *g, const struct slices *parts, int id)
{
    int scale = graph_add_kin(g, KIN_SCALE, id, DT_F32, 1, &DIM(value_rows(graph_value(g, id))));
    graph_value(g, id)->dtype = DT_F8_E4M3;
    for (int k = parts->from[id]; k < parts->from[id + 1] && !g->err.code; k++) {
        graph_value(g, parts->at[k])->dtype = DT_F8_E4M3;
        if (graph_value(g, id)->group)
            graph_add_kin_of_rows(g, KIN_SCALE, parts->at[k], scale);
    }
}

void pass_quantize(struct graph *g, struct pass_settings *s)
{
    struct uses u = {0};
    struct slices parts = {0};
    int head = graph_last_layer(g), n = g->n_values;
    bool opened = !g->err.code && s->quantization.bits && uses_open(&u, g) && slices_open(&parts, g);
    for (int i = 1; opened && i < n && !g->err.code; i++) {
        const struct value v = *graph_value(g, i);
        if (v.role != ROLE_WEIGHT || v.base || v.table || (s->adapters && !v.frozen) || !is_of_layers(g, &u, i, head) ||
            !all_fit(g, &parts, i, &s->quantization))
            continue;
        if (s->quantization.bits == 8)
            code_in_8_bits(g, &parts, i);
        else
            code_in_4_bits(g, &parts, i, s->quantization.nested);
    }
    slices_close(&parts);
    uses_close(&u);
}
