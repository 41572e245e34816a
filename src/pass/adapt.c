#include "graph/uses.h"
#include "pass/node_list.h"
#include "pass/pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A program that is adapted. */
struct adapting {
    struct graph *g;
    const struct adapters *a;
    double dropout;      /* of this program */
    struct slices parts; /* of the weights */
    struct node_list l;
    int *dropped; /* by value: what dropout made of it, for all adapters that read it; 0: nothing yet */
    int n_values; /* at the start */
    int64_t site; /* of the next dropout */
};

/* ---- names ---- */

size_t adapter_module_length(const char *weight_name)
{
    size_t n = strlen(weight_name), end = strlen(".weight");
    return n > end && !strcmp(weight_name + n - end, ".weight") ? n - end : 0;
}

/* By the first n bytes of a name. */
static const struct adapter *find(const struct adapters *a, const char *name, size_t n)
{
    size_t low = 0, high = a->n;
    while (n && low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(name, a->list[middle].module, n);
        order = order ? order : a->list[middle].module[n] ? -1 : 0;
        if (!order)
            return &a->list[middle];
        *(order < 0 ? &high : &low) = order < 0 ? middle : middle + 1;
    }
    return NULL;
}

const struct adapter *adapters_find(const struct adapters *a, const char *weight_name)
{
    return find(a, weight_name, adapter_module_length(weight_name));
}

const struct adapter *adapters_find_experts(const struct adapters *a, const char *name)
{
    return find(a, name, strlen(name));
}

bool adapters_save(const struct adapters *a, const char *weight_name)
{
    for (size_t i = 0; i < a->n_saved; i++) {
        size_t n = strlen(a->saved[i]);
        if (!strncmp(weight_name, a->saved[i], n) && weight_name[n] == '.')
            return true;
    }
    return false;
}

/* ---- one layer ---- */

/* Takes over the nodes that were emitted behind the first `n` of the graph. */
static void take_emitted(struct adapting *d, int n)
{
    for (int k = n; k < d->g->n_nodes; k++)
        node_list_append(d->g, &d->l, &d->g->nodes[k]);
    d->g->n_nodes = n;
}

static const struct adapter *adapter_of(const struct adapting *d, int weight)
{
    const struct value *w = graph_value(d->g, weight);
    return w->table || w->group || !w->name ? NULL : adapters_find(d->a, w->name);
}

static const struct adapter *adapter_of_experts(const struct adapting *d, int weight)
{
    const struct value *w = graph_value(d->g, weight);
    return w->name ? adapters_find_experts(d->a, w->name) : NULL;
}

/* A weight of an adapter; the same in each node that uses the layer. */
static int weight(struct adapting *d, const char *name, int ndim, const struct dim *shape, struct init init)
{
    int id = graph_find(d->g, name);
    if (id)
        return id;
    id = graph_add_value(d->g, name, ROLE_WEIGHT, DT_F32, ndim, shape);
    if (id)
        graph_value(d->g, id)->init = init;
    return id;
}

/* How many matrices one of an adapter's weights has. */
static int64_t matrices(const struct adapter *a)
{
    return a->experts ? a->experts : 1;
}

/* A (r,I) of a layer that reads I values. */
static int factor_a(struct adapting *d, const struct adapter *a, int64_t in)
{
    struct init uniform = {.kind = INIT_UNIFORM, .head = true, .std = 1 / sqrt((double)in), .zero_row = -1};
    const char *name = graph_name(d->g, "%s.lora_A.weight", a->path);
    return weight(d, name, 2, (const struct dim[]){DIM(a->r * matrices(a)), DIM(in)}, uniform);
}

/* B (O,r) of a layer that makes O values. */
static int factor_b(struct adapting *d, const struct adapter *a, int64_t out)
{
    struct init zero = {.kind = INIT_ZERO, .head = true, .zero_row = -1};
    const char *name = graph_name(d->g, "%s.lora_B.weight", a->path);
    return weight(d, name, 2, (const struct dim[]){DIM(out), DIM(a->r * matrices(a))}, zero);
}

/* x as the adapters that read it have it. */
static int dropped(struct adapting *d, int x)
{
    struct graph *g = d->g;
    if (d->dropout <= 0 || g->err.code)
        return x;
    if (!d->dropped[x]) {
        struct dim rows = graph_value(g, x)->shape[0];
        const char *coords = dim_has_tokens(rows) ? "coords" : dim_is_constant(rows) ? "relative_coords" : "samples";
        struct op_dropout n = {
            .x = x, .coords = graph_find(g, coords), .rng = graph_find(g, "rng"), .p = d->dropout, .site = d->site++};
        emit_dropout(g, &n);
        d->dropped[x] = n.y;
    }
    return d->dropped[x];
}

/* scale (x A^T) B^T, of a weight (O,I) or (I,O). */
static int low_rank(struct adapting *d, const struct adapter *a, int x, int64_t in, int64_t out)
{
    struct graph *g = d->g;
    struct op_linear down = {.x = dropped(d, x), .w = factor_a(d, a, in)};
    emit_linear(g, &down);
    struct op_scale scaled = {.x = down.y, .by = a->scale};
    if (a->scale != 1)
        emit_scale(g, &scaled);
    struct op_linear up = {.x = a->scale != 1 ? scaled.y : down.y, .w = factor_b(d, a, out)};
    emit_linear(g, &up);
    return up.y;
}

/* What gives the rows of the layer's weight their lengths (DoRA), which takes over the layer's bias and activation. The layer's product
 * gets another result. */
static struct op_dora decompose(struct adapting *d, struct op_linear *l, const struct adapter *a)
{
    struct graph *g = d->g;
    const struct value w = *graph_value(g, l->w), y = *graph_value(g, l->y);
    struct dim out = w.shape[l->in_out ? 1 : 0], in = w.shape[l->in_out ? 0 : 1];
    struct init lengths = {.kind = INIT_LENGTHS, .head = true, .std = l->in_out ? 1 : 0, .zero_row = -1};
    struct op_dora_norm norm = {
        .w = l->w, .a = factor_a(d, a, in.c), .b = factor_b(d, a, out.c), .scale = a->scale, .in_out = l->in_out};
    emit_dora_norm(g, &norm);
    struct op_dora n = {.z = graph_add_value(g, NULL, ROLE_ACTIVATION, DT_F32, y.ndim, y.shape),
                        .m = weight(d, graph_name(g, "%s.lora_magnitude_vector", a->path), 1, &out, lengths),
                        .norm = norm.norm,
                        .bias = l->b,
                        .y = l->y,
                        .slope = l->slope,
                        .act = l->act};
    *l = (struct op_linear){.x = l->x, .w = l->w, .add = l->add, .y = n.z, .in_out = l->in_out};
    return n;
}

/* Behind the nodes that the adapter needs before it. */
static void adapt_layer(struct adapting *d, struct node n, const struct adapter *a)
{
    struct op_linear *l = &n.u.linear;
    const struct value w = *graph_value(d->g, l->w);
    int out = l->in_out ? 1 : 0, first = d->g->n_nodes;
    struct node behind = {.op = OP_dora, .layer = n.layer};
    l->add = low_rank(d, a, l->x, w.shape[1 - out].c, w.shape[out].c);
    if (d->a->dora)
        behind.u.dora = decompose(d, l, a);
    take_emitted(d, first);
    node_list_append(d->g, &d->l, &n);
    if (d->a->dora)
        node_list_append(d->g, &d->l, &behind);
}

/* ---- experts ---- */

/* x times the matrices of an adapter's weight, by expert. */
static int by_expert(struct adapting *d, const struct adapter *a, int x, int weight, bool columns, int offsets)
{
    struct op_split_experts split = {.w = weight, .experts = a->experts, .columns = columns};
    emit_split_experts(d->g, &split);
    struct op_linear_experts n = {.x = x, .w = split.y, .offsets = offsets};
    emit_linear_experts(d->g, &n);
    return n.y;
}

/* Behind the products of the experts' own weights, to whose result it is added. */
static void adapt_experts(struct adapting *d, struct node n, const struct adapter *a)
{
    struct graph *g = d->g;
    struct op_linear_experts *l = &n.u.linear_experts;
    const struct value w = *graph_value(g, l->w), y = *graph_value(g, l->y);
    struct node behind = {.op = OP_add, .layer = n.layer, .u.add.y = l->y};
    int first = g->n_nodes, out = l->in_out ? 2 : 1, in = l->in_out ? 1 : 2;
    int down = by_expert(d, a, l->x, factor_a(d, a, w.shape[in].c), false, l->offsets);
    struct op_scale scaled = {.x = down, .by = a->scale};
    if (a->scale != 1)
        emit_scale(g, &scaled);
    int factor = factor_b(d, a, w.shape[out].c);
    behind.u.add.b = by_expert(d, a, a->scale != 1 ? scaled.y : down, factor, true, l->offsets);
    behind.u.add.a = l->y = graph_add_value(g, NULL, ROLE_ACTIVATION, DT_F32, y.ndim, y.shape);
    take_emitted(d, first);
    node_list_append(g, &d->l, &n);
    node_list_append(g, &d->l, &behind);
}

/* ---- a product whose weight is made of several layers' ---- */

/* The part of the bias that goes with rows [from, from + n) of the weight; 0 where there is none. */
static int bias_part(const struct adapting *d, int bias, int64_t from, int64_t n)
{
    for (int i = d->parts.from[bias]; i < d->parts.from[bias + 1]; i++) {
        const struct value *b = graph_value(d->g, d->parts.at[i]);
        if (b->base == bias && b->at == from && b->shape[0].c == n)
            return d->parts.at[i];
    }
    return 0;
}

/* The sum that all layers' adapters make beside the product: each writes its columns of one value. */
static void adapt_whole(struct adapting *d, struct node n)
{
    struct graph *g = d->g;
    struct op_linear *l = &n.u.linear;
    const struct value y = *graph_value(g, l->y);
    int first = g->n_nodes;
    l->add = graph_add_value(g, NULL, ROLE_ACTIVATION, DT_F32, y.ndim, y.shape);
    for (int i = d->parts.from[l->w]; i < d->parts.from[l->w + 1] && !g->err.code; i++) {
        const struct value w = *graph_value(g, d->parts.at[i]);
        int add = low_rank(d, adapter_of(d, d->parts.at[i]), l->x, w.shape[1].c, w.shape[0].c);
        graph_place_columns(g, add, l->add, w.at / w.shape[1].c);
    }
    take_emitted(d, first);
    node_list_append(g, &d->l, &n);
}

/* A product for each layer, which writes its columns of the result; those with an adapter add theirs. */
static void adapt_split(struct adapting *d, const struct node *n)
{
    struct graph *g = d->g;
    const struct op_linear whole = n->u.linear;
    const struct dim rows = graph_value(g, whole.y)->shape[0];
    for (int i = d->parts.from[whole.w]; i < d->parts.from[whole.w + 1] && !g->err.code; i++) {
        const struct value w = *graph_value(g, d->parts.at[i]);
        int64_t out = w.shape[0].c, from = w.at / w.shape[1].c;
        const struct adapter *a = adapter_of(d, d->parts.at[i]);
        struct op_linear part = {.x = whole.x, .w = d->parts.at[i]};
        part.b = whole.b ? bias_part(d, whole.b, from, out) : 0;
        if (whole.b && !part.b)
            graph_fail(g, SNUG_ERR_INPUT, "graph: value %d has no part of the bias beside it", part.w);
        part.y = graph_add_value(g, NULL, ROLE_ACTIVATION, DT_F32, 2, (const struct dim[]){rows, w.shape[0]});
        graph_place_columns(g, part.y, whole.y, from);
        struct node layer = {.op = OP_linear, .layer = n->layer, .u.linear = part};
        if (a)
            adapt_layer(d, layer, a);
        else
            node_list_append(g, &d->l, &layer);
    }
}

/* Whether the parts of a weight are rows of it, one behind the other, so that each is a layer of its own; and how many of them have
 * an adapter. */
static bool parts_are_layers(const struct adapting *d, int weight, int *adapted, int *n)
{
    const struct value *w = graph_value(d->g, weight);
    int64_t at = 0;
    *adapted = 0;
    *n = d->parts.from[weight + 1] - d->parts.from[weight];
    for (int i = d->parts.from[weight]; i < d->parts.from[weight + 1]; i++) {
        const struct value *p = graph_value(d->g, d->parts.at[i]);
        if (p->base != weight || p->at != at || p->ndim != 2 || !dim_equal(p->shape[1], w->shape[1]))
            return false;
        at += p->shape[0].c * p->shape[1].c;
        *adapted += adapter_of(d, d->parts.at[i]) != NULL;
    }
    return at == value_elements(w, (struct dims){0});
}

/* ---- the program ---- */

static void adapt_node(struct adapting *d, struct node n)
{
    const struct op_linear *l = &n.u.linear;
    const struct adapter *a = n.op == OP_linear ? adapter_of(d, l->w) : NULL;
    const struct adapter *experts = n.op == OP_linear_experts ? adapter_of_experts(d, n.u.linear_experts.w) : NULL;
    int adapted, parts;
    d->g->layer = n.layer;
    if (a)
        adapt_layer(d, n, a);
    else if (experts)
        adapt_experts(d, n, experts);
    else if (n.op == OP_linear && graph_value(d->g, l->w)->group && !l->in_out &&
             parts_are_layers(d, l->w, &adapted, &parts) && adapted) {
        bool whole = adapted == parts && !d->a->dora;
        if (!whole && l->act)
            graph_fail(d->g, SNUG_ERR_INPUT, "graph: an adapter of a part of a layer with an activation");
        else if (whole)
            adapt_whole(d, n);
        else
            adapt_split(d, &n);
    } else
        node_list_append(d->g, &d->l, &n);
}

static void freeze_base(struct adapting *d)
{
    struct graph *g = d->g;
    for (int i = 1; i < g->n_values; i++) {
        struct value *v = graph_value(g, i);
        v->frozen = v->role == ROLE_WEIGHT && (v->group || !v->name || !adapters_save(d->a, v->name));
    }
    for (int i = g->n_values - 1; i > 0; i--) /* a group is trained as soon as one of its parts is */
        if (g->values[i].role == ROLE_WEIGHT && g->values[i].base && !g->values[i].frozen)
            g->values[g->values[i].base].frozen = false;
}

/* Behind those of the model. */
static int64_t next_site(const struct graph *g)
{
    int64_t next = 0;
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        int64_t site = n->op == OP_dropout                  ? n->u.dropout.site
                       : n->op == OP_norm                   ? n->u.norm.site
                       : n->op == OP_attention              ? n->u.attention.site
                       : n->op == OP_attention_general      ? n->u.attention_general.site
                       : n->op == OP_attention_disentangled ? n->u.attention_disentangled.site
                                                            : -1;
        next = site >= next ? site + 1 : next;
    }
    return next;
}

void pass_adapt(struct graph *g, struct pass_settings *s)
{
    if (g->err.code || !s->adapters)
        return;
    struct adapting d = {.g = g,
                         .a = s->adapters,
                         .dropout = HAS_BACKWARD >> s->program & 1 ? s->adapters->dropout : 0,
                         .n_values = g->n_values,
                         .site = next_site(g)};
    d.dropped = mem_alloc((size_t)g->n_values * sizeof *d.dropped);
    if (!d.dropped)
        err_no_memory(&g->err, (unsigned long long)g->n_values * sizeof *d.dropped);
    if (!g->err.code && slices_open(&d.parts, g)) {
        freeze_base(&d);
        int n = g->n_nodes;
        for (int k = 1; k < n && !g->err.code; k++)
            adapt_node(&d, g->nodes[k]);
        node_list_finish(g, &d.l);
    }
    slices_close(&d.parts);
    mem_free(d.dropped);
}
