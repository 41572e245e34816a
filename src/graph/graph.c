#include "graph/graph.h"

#include "base/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int graph_init(struct graph *g, struct snug_err *err)
{
    *g = (struct graph){0};
    if (!MEM_GROW(g->values, g->cap_values, 64) || !MEM_GROW(g->nodes, g->cap_nodes, 64)) {
        graph_free(g);
        return err_no_memory(err, 64 * sizeof(struct node));
    }
    g->values[0] = (struct value){0};
    g->nodes[0] = (struct node){0};
    g->n_values = g->n_nodes = 1;
    return SNUG_OK;
}

void graph_free(struct graph *g)
{
    arena_free(&g->arena);
    mem_free(g->values);
    mem_free(g->nodes);
    mem_free(g->by_name);
    *g = (struct graph){0};
}

int graph_ok(const struct graph *g, struct snug_err *err)
{
    if (g->err.code && err)
        *err = g->err;
    return g->err.code;
}

void graph_fail(struct graph *g, int code, const char *format, ...)
{
    if (g->err.code)
        return;
    char text[SNUG_ERR_TEXT];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    err_set(&g->err, code, "%s", text);
}

static bool fail_no_memory(struct graph *g)
{
    if (!g->err.code)
        err_no_memory(&g->err, (g->cap_values + g->cap_nodes) * 2 * sizeof(struct node));
    return false;
}

int graph_add_value(struct graph *g, const char *name, enum role role, enum dtype dtype, int ndim,
                    const struct dim *shape)
{
    if (g->err.code)
        return 0;
    if (!MEM_GROW(g->values, g->cap_values, (size_t)g->n_values + 1))
        return fail_no_memory(g);
    struct value *v = &g->values[g->n_values];
    bool lasting = role == ROLE_INPUT || role == ROLE_WEIGHT || role == ROLE_STATE || role == ROLE_COPY;
    *v = (struct value){
        .dtype = dtype, .role = role, .ndim = ndim, .layer = g->layer, .live_in = lasting, .persists = lasting};
    v->rank = role == ROLE_STATE ? g->rank : 0;
    memcpy(v->shape, shape, (size_t)ndim * sizeof *shape);
    int id = g->n_values++;
    if (name)
        graph_set_name(g, id, name);
    return g->err.code ? 0 : id;
}

int graph_add_slice(struct graph *g, const char *name, int base, int64_t at, int ndim, const struct dim *shape)
{
    if (g->err.code)
        return 0;
    const struct value b = *graph_value(g, base);
    int id = graph_add_value(g, name, b.role, b.dtype, ndim, shape);
    if (id) {
        struct value *v = graph_value(g, id);
        v->base = base;
        v->at = at;
        v->live_in = b.live_in;
        v->persists = b.persists;
        v->rank = b.rank;
        v->memory = b.memory;
        v->layer = b.layer;
    }
    return id;
}

int graph_add_view(struct graph *g, int base, int shards, int64_t chunk)
{
    const struct value b = *graph_value(g, base);
    int id = graph_add_slice(g, NULL, base, 0, b.ndim, b.shape);
    if (id) {
        struct value *v = graph_value(g, id);
        v->shards = shards;
        v->chunk = chunk;
        v->view = true;
    }
    return id;
}

void graph_place_columns(struct graph *g, int id, int base, int64_t from)
{
    if (g->err.code)
        return;
    const struct value *b = graph_value(g, base);
    struct value *v = graph_value(g, id);
    v->base = base;
    v->at = from;
    v->pitch = b->pitch ? b->pitch : b->shape[1].c;
}

int graph_add_columns(struct graph *g, int base, int64_t from, int64_t n)
{
    if (g->err.code)
        return 0;
    struct dim rows = graph_value(g, base)->shape[0];
    int id = graph_add_slice(g, NULL, base, from, SHAPE(rows, DIM(n)));
    graph_place_columns(g, id, base, from);
    return id;
}

int graph_instead(struct graph *g, int id, int *instead)
{
    int root = value_root(g, id);
    const struct value v = *graph_value(g, id);
    if (!instead[id] && instead[root]) {
        instead[id] = v.pitch ? graph_add_columns(g, instead[root], value_at(g, id), v.shape[1].c)
                              : graph_add_slice(g, NULL, instead[root], value_at(g, id), v.ndim, v.shape);
        graph_value(g, instead[id])->dtype = v.dtype;
        graph_value(g, instead[id])->exact = v.exact;
    }
    return instead[id] ? instead[id] : id;
}

/* ORDER kin */
const char *const kin_names[KIN_COUNT] = {"",
                                          "grad",
                                          "copy",
                                          "absmax",
                                          "nested_absmax",
                                          "scale",
                                          "exp_avg",
                                          "exp_avg_sq",
                                          "exp_avg_sq_row",
                                          "exp_avg_sq_col",
                                          "exp_avg_absmax",
                                          "exp_avg_sq_absmax",
                                          "momentum_buffer",
                                          "exp_avg_slow",
                                          "exp_avg_slow_absmax",
                                          "grad_avg",
                                          "sum",
                                          "ahead",
                                          "grad_part"};

/* ---- what is of a weight ---- */

/* In a buffer of the caller's: most names are short; longer ones are made in the graph's arena. */
static const char *kin_name(struct graph *g, enum kin kin, int weight, char *buf, size_t room)
{
    const char *of = graph_value(g, weight)->name;
    int n = snprintf(buf, room, "%s.%s", kin_names[kin], of);
    return n >= 0 && (size_t)n < room ? buf : graph_name(g, "%s.%s", kin_names[kin], of);
}

static void set_kin(struct graph *g, int id, enum kin kin, int weight)
{
    graph_value(g, id)->kin = kin;
    graph_value(g, id)->of = weight;
}

int graph_add_kin(struct graph *g, enum kin kin, int weight, enum dtype dtype, int ndim, const struct dim *shape)
{
    char buf[256];
    bool gradient = kin == KIN_GRADIENT || kin == KIN_PART;
    bool copy = kin == KIN_COPY || kin_is_of_codes(kin);
    enum role role = gradient ? ROLE_GRADIENT : copy ? ROLE_COPY : ROLE_STATE;
    if (g->err.code)
        return 0;
    int id = graph_add_value(g, kin_name(g, kin, weight, buf, sizeof buf), role, dtype, ndim, shape);
    if (id) {
        set_kin(g, id, kin, weight);
        graph_value(g, id)->layer = graph_value(g, weight)->layer;
    }
    return id;
}

static int add_kin_part(struct graph *g, enum kin kin, int weight, int base, int64_t at, int ndim,
                        const struct dim *shape)
{
    char buf[256];
    int id = graph_add_slice(g, kin_name(g, kin, weight, buf, sizeof buf), base, at, ndim, shape);
    if (id) {
        set_kin(g, id, kin, weight);
        graph_value(g, id)->group = graph_value(g, weight)->group;
    }
    return id;
}

int graph_add_kin_slice(struct graph *g, enum kin kin, int weight, int base)
{
    if (g->err.code)
        return 0;
    const struct value w = *graph_value(g, weight);
    return add_kin_part(g, kin, weight, base, w.at, w.ndim, w.shape);
}

int graph_add_kin_of_rows(struct graph *g, enum kin kin, int weight, int base)
{
    if (g->err.code)
        return 0;
    const struct value w = *graph_value(g, weight);
    return add_kin_part(g, kin, weight, base, w.at / w.shape[w.ndim - 1].c, 1, &DIM(value_rows(&w)));
}

int *graph_kin(struct graph *g, enum kin kin)
{
    int *of = mem_alloc((size_t)g->n_values * sizeof *of);
    if (!of && !g->err.code)
        err_no_memory(&g->err, (unsigned long long)g->n_values * sizeof *of);
    for (int i = g->n_values - 1; i > 0 && of; i--)
        if (g->values[i].kin == kin)
            of[g->values[i].of] = i;
    return of;
}

/* ---- names: open addressing, at most half full ---- */

/* Where the value of that name is in the table, or where it would be. */
static size_t name_slot(const struct graph *g, const char *name)
{
    size_t i = hash_bytes(name, strlen(name)).low & (g->cap_names - 1);
    while (g->by_name[i] && strcmp(g->values[g->by_name[i]].name, name) != 0)
        i = (i + 1) & (g->cap_names - 1);
    return i;
}

static bool grow_names(struct graph *g)
{
    size_t before = g->cap_names;
    int *old = g->by_name, *table = mem_alloc((before ? 2 * before : 64) * sizeof *table);
    if (!table)
        return false;
    g->by_name = table;
    g->cap_names = before ? 2 * before : 64;
    for (size_t i = 0; i < before; i++)
        if (old[i])
            g->by_name[name_slot(g, g->values[old[i]].name)] = old[i];
    mem_free(old);
    return true;
}

void graph_set_name(struct graph *g, int id, const char *name)
{
    if (g->err.code)
        return;
    char *own = arena_strdup(&g->arena, name);
    if (!own || (2 * (size_t)(g->n_names + 1) > g->cap_names && !grow_names(g))) {
        fail_no_memory(g);
        return;
    }
    g->values[id].name = own;
    size_t i = name_slot(g, own);
    if (g->by_name[i])
        return; /* the first one of that name is found */
    g->by_name[i] = id;
    g->n_names++;
}

int graph_last_layer(const struct graph *g)
{
    int last = 0;
    for (int k = 1; k < g->n_nodes; k++)
        last = g->nodes[k].layer > last ? g->nodes[k].layer : last;
    return last;
}

int graph_find(const struct graph *g, const char *name)
{
    return name && g->cap_names ? g->by_name[name_slot(g, name)] : 0;
}

const char *graph_name(struct graph *g, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *name = arena_vprintf(&g->arena, format, ap);
    va_end(ap);
    if (!name && !g->err.code)
        err_no_memory(&g->err, strlen(format));
    return name ? name : "";
}

int64_t value_elements(const struct value *v, struct dims n)
{
    int64_t elements = 1;
    for (int i = 0; i < v->ndim; i++)
        elements *= dim_size(v->shape[i], n);
    return elements;
}

struct shard value_shard(const struct value *v, int me)
{
    int64_t elements = value_elements(v, (struct dims){0});
    return shard_of(elements, v->chunk, v->shards, me < 0 ? shard_largest(elements, v->chunk, v->shards) : me);
}

/* That of the last rank is as large as any, but for its last chunk. */
static int64_t shard_room(const struct value *v, int64_t room)
{
    int64_t elements = value_elements(v, (struct dims){0});
    int64_t last = shard_of_room(elements, room, v->chunk, v->shards, v->shards - 1).n, most = value_shard(v, -1).n;
    return last > most ? last : most;
}

int64_t value_bytes(const struct value *v, struct dims n)
{
    int64_t elements = 1;
    if (v->pitch) {
        int64_t rows = dim_size(v->shape[0], n), last = v->base ? dim_size(v->shape[1], n) : v->pitch;
        elements = rows > 0 ? (rows - 1) * v->pitch + last : 0;
    }
    for (int i = 0; i < v->ndim && !v->pitch; i++)
        elements *= dim_size(v->shape[i], n) + (i == 0 ? v->pad_rows : 0);
    return dtype_bytes(v->dtype, v->shards ? shard_room(v, elements) : elements);
}

int shape_out(struct graph *g, int ndim, const struct dim *shape)
{
    return graph_add_value(g, NULL, ROLE_ACTIVATION, DT_F32, ndim, shape);
}

int shape_stat(struct graph *g, int ndim, const struct dim *shape)
{
    int id = shape_out(g, ndim, shape);
    graph_value(g, id)->exact = true;
    return id;
}

bool shape_require(struct graph *g, bool holds, const char *op, const char *what)
{
    if (!holds)
        graph_fail(g, SNUG_ERR_INPUT, "graph: %s: %s", op, what);
    return holds;
}

bool shape_same(struct graph *g, int a, int b, const char *op)
{
    const struct value *x = graph_value(g, a), *y = graph_value(g, b);
    bool same = x->ndim == y->ndim;
    for (int i = 0; same && i < x->ndim; i++)
        same = dim_equal(x->shape[i], y->shape[i]);
    return shape_require(g, same, op, "two inputs that must have one shape differ");
}

/* Inputs that the row requires are there, and every id is a value of this graph. */
static bool slots_are_sound(struct graph *g, const struct op_info *op, const int *slot)
{
    for (int i = 0; i < op->n_slots; i++) {
        enum slot_kind k = op->slots[i].kind;
        bool required = k == SLOT_IN || k == SLOT_INOUT, made = k == SLOT_OUT || k == SLOT_MAYBE || k == SLOT_F32;
        if (slot[i] < 0 || slot[i] >= g->n_values || (required && !slot[i]) || (made && slot[i])) {
            graph_fail(g, SNUG_ERR_INPUT, "graph: %s: slot %s refers to value %d", op->name, op->slots[i].name,
                       slot[i]);
            return false;
        }
    }
    return true;
}

void graph_emit(struct graph *g, enum op op, void *n)
{
    const struct op_info *info = &op_table[op];
    int *slot = n;
    if (g->err.code || !slots_are_sound(g, info, slot))
        return;
    info->shape(g, n);
    if (g->err.code)
        return;
    if (!MEM_GROW(g->nodes, g->cap_nodes, (size_t)g->n_nodes + 1)) {
        fail_no_memory(g);
        return;
    }
    struct node *node = &g->nodes[g->n_nodes++];
    *node = (struct node){.op = op, .layer = g->layer, .backward = g->backward, .rank = g->rank};
    memcpy(&node->u, n, info->node_bytes);
    for (int i = 0; i < info->n_slots; i++) {
        if (!slot[i] || !slot_writes(info->slots[i].kind))
            continue;
        struct value *v = graph_value(g, slot[i]), *root = graph_value(g, value_root(g, slot[i]));
        if (info->slots[i].kind == SLOT_ACC && (v->written || root->written || root->live_in))
            node->add |= 1u << i;
        (value_is_columns(v) ? v : root)->written = true;
    }
}

/* Slices are columns, or of weights and gradients, whose sizes are those of the model alone. */
static bool share_elements(const struct graph *g, int a, int b)
{
    if (!a || !b || value_root(g, a) != value_root(g, b))
        return false;
    const struct value *x = graph_value(g, a), *y = graph_value(g, b);
    if (!x->base || !y->base)
        return true;
    int64_t x_at = value_at(g, a), y_at = value_at(g, b);
    if (value_is_columns(x) && value_is_columns(y))
        return x_at < y_at + y->shape[1].c && y_at < x_at + x->shape[1].c;
    return value_is_columns(x) || value_is_columns(y) ||
           (x_at < y_at + value_elements(y, (struct dims){0}) && y_at < x_at + value_elements(x, (struct dims){0}));
}

bool node_conflicts(const struct graph *g, const struct node *a, const struct node *b)
{
    if (a->op == OP_sumsq && b->op == OP_sumsq) /* each writes a part of its own of the partials */
        return false;
    for (int i = 0; i < node_op(a)->n_slots; i++)
        for (int j = 0; j < node_op(b)->n_slots; j++)
            if ((node_writes(a, i) || node_writes(b, j)) && share_elements(g, a->u.slot[i], b->u.slot[j]))
                return true;
    return false;
}

void graph_set_nodes(struct graph *g, const struct node *nodes, int n)
{
    if (g->err.code)
        return;
    if (!MEM_GROW(g->nodes, g->cap_nodes, (size_t)n + 1)) {
        fail_no_memory(g);
        return;
    }
    memcpy(g->nodes + 1, nodes, (size_t)n * sizeof *nodes);
    g->n_nodes = n + 1;
}
