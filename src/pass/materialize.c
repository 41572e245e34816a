#include "graph/uses.h"
#include "pass/node_list.h"
#include "pass/optimizers.h"
#include "pass/pass.h"

/* How a weight comes to a slot. */
enum way {
    RESIDENT, /* as it is stored */
    CAST,     /* to the node's type, for this use */
    WIDEN,    /* to F32, for this use */
    DECODE,   /* the numbers of its codes, for this use */
    COPY      /* the copy in that type, which stays */
};

/* The type of the activations that a node computes with; `stored` for one without any. */
static enum dtype node_type(const struct graph *g, const struct node *n, enum dtype stored)
{
    for (int i = 0; i < node_op(n)->n_slots; i++) {
        const struct value *v = graph_value(g, n->u.slot[i]);
        if (n->u.slot[i] && v->role == ROLE_ACTIVATION && !v->exact)
            return v->dtype;
    }
    return stored;
}

/* Of a weight that is stored in the narrow type. A norm's weights are small and a bias is smaller, so a cast costs little. */
static enum way choose_pure(const struct graph *g, const struct node *n, int slot, const struct pass_settings *s)
{
    bool takes =
        op_slot_is(n->op, slot, SLOT_NODE_TYPE) || (op_slot_is(n->op, slot, SLOT_EITHER_TYPE) && s->narrow_bias);
    bool any = op_slot_is(n->op, slot, SLOT_STORED_TYPE) || op_slot_is(n->op, slot, SLOT_ANY_TYPE);
    return any || (takes && node_type(g, n, DT_F32) == s->precision.narrow) ? RESIDENT : WIDEN;
}

/* Whether updates keep 16-bit copies, which then stay. With products of 8 bits the training programs read few of them. */
static bool keeps_copies(const struct pass_settings *s)
{
    return s->choices.copies && (!s->precision.fp8 || 1 << s->program & HAS_BACKWARD);
}

/* Whether it reads codes of 8 bits as they are. */
static bool multiplies_8bit(enum op op)
{
    return op == OP_quantize_fp8 || op == OP_linear_fp8;
}

static enum way choose_way(const struct graph *g, const struct node *n, int slot, const struct pass_settings *s)
{
    const struct value *v = graph_value(g, n->u.slot[slot]);
    bool copies = keeps_copies(s), pure = s->precision.pure;
    if (v->role == ROLE_WEIGHT && value_is_coded(v))
        return v->dtype == DT_F8_E4M3 && multiplies_8bit(n->op) ? RESIDENT : DECODE;
    if (pure && v->role == ROLE_WEIGHT && v->dtype == s->precision.narrow)
        return choose_pure(g, n, slot, s);
    if (v->role != ROLE_WEIGHT || node_type(g, n, v->dtype) == v->dtype)
        return RESIDENT;
    if (op_slot_is(n->op, slot, SLOT_NODE_TYPE))
        return copies ? COPY : CAST;
    return op_slot_is(n->op, slot, SLOT_EITHER_TYPE) && copies && s->narrow_bias ? COPY : RESIDENT;
}

/* What lasts beside weights: copies that stay, states ahead of them, what codes are multiplied with. */
struct beside {
    struct slices parts; /* of the weights */
    int *copy, *ahead;   /* by weight, so far */
    int *absmax, *nested, *scale;
};

/* That of weight `id`, with its parts where it is made of named weights, or the whole where it is such a part. */
static int weight_copy(struct graph *g, struct beside *c, int id, enum dtype type)
{
    const struct value w = *graph_value(g, id);
    if (!c->copy[id] && w.base) /* with the whole of which it is a part */
        weight_copy(g, c, value_root(g, id), type);
    if (c->copy[id])
        return c->copy[id];
    c->copy[id] = graph_add_kin(g, KIN_COPY, id, type, w.ndim, w.shape);
    graph_value(g, c->copy[id])->live_out = true;
    for (int i = c->parts.from[id]; i < c->parts.from[id + 1] && !g->err.code; i++) {
        int part = c->parts.at[i];
        c->copy[part] = graph_add_kin_slice(g, KIN_COPY, part, c->copy[graph_value(g, part)->base]);
        graph_value(g, c->copy[part])->live_out = true;
    }
    return c->copy[id];
}

/* Likewise; those of a whole are no tensor of their own, as with weights. */
static int weight_ahead(struct graph *g, struct beside *c, int id, enum dtype type)
{
    const struct value w = *graph_value(g, id);
    if (!c->ahead[id] && w.base)
        weight_ahead(g, c, value_root(g, id), type);
    if (c->ahead[id] || g->err.code)
        return c->ahead[id];
    c->ahead[id] = graph_add_kin(g, KIN_AHEAD, id, type, w.ndim, w.shape);
    graph_value(g, c->ahead[id])->group = w.group;
    for (int i = c->parts.from[id]; i < c->parts.from[id + 1] && !g->err.code; i++) {
        int part = c->parts.at[i];
        c->ahead[part] = graph_add_kin_slice(g, KIN_AHEAD, part, c->ahead[graph_value(g, part)->base]);
        graph_value(g, c->ahead[part])->group = graph_value(g, part)->group;
    }
    return c->ahead[id];
}

/* The type in which a weight comes to a slot. */
static enum dtype type_by(const struct graph *g, const struct node *n, int id, enum way way,
                          const struct pass_settings *s)
{
    return way == RESIDENT ? graph_value(g, id)->dtype : way == WIDEN ? s->precision.wide : node_type(g, n, DT_F32);
}

/* What `beside` reads in place of a weight. */
static int made_of_weight(struct graph *g, const struct node *beside, int id, enum dtype type,
                          const struct pass_settings *s)
{
    const struct value w = *graph_value(g, id);
    int y = graph_add_value(g, NULL, ROLE_ACTIVATION, type, w.ndim, w.shape);
    if (y) {
        graph_value(g, y)->layer = beside->layer;
        graph_value(g, y)->exact = type != s->precision.narrow; /* beside activations of another type */
    }
    return y;
}

/* y = weight + by state, before `beside`. */
static int bring_ahead(struct graph *g, struct node_list *l, struct beside *c, const struct node *beside, int id,
                       enum dtype type, const struct pass_settings *s)
{
    int d = weight_ahead(g, c, id, optimizer_state_type(&s->update));
    int y = made_of_weight(g, beside, id, type, s);
    struct node n = {.op = OP_ahead, .layer = beside->layer, .backward = beside->backward};
    if (g->err.code)
        return 0;
    n.u.ahead = (struct op_ahead){.p = id, .d = d, .y = y, .by = optimizer_ahead(&s->update)};
    node_list_append(g, l, &n);
    return y;
}

/* What the codes of `id` are multiplied with; 0: those of its parts have their own. */
static int times(const struct beside *c, int id)
{
    return c->absmax[id] ? c->absmax[id] : c->scale[id];
}

/* y = the numbers of tensor `id`, before `beside`. */
static void decode_tensor(struct graph *g, struct node_list *l, const struct beside *c, const struct node *beside,
                          int id, int y, const struct pass_settings *s)
{
    struct node n = {.op = OP_dequantize, .layer = beside->layer, .backward = beside->backward};
    n.u.dequantize = (struct op_dequantize){
        .w = id, .absmax = times(c, id), .nested = c->nested[id], .y = y, .table = s->quantization.type};
    node_list_append(g, l, &n);
}

/* Those of a group come tensor by tensor to their places in one value. */
static int bring_decoded(struct graph *g, struct node_list *l, const struct beside *c, const struct node *beside,
                         int id, enum dtype type, const struct pass_settings *s)
{
    int y = made_of_weight(g, beside, id, type, s);
    if (g->err.code)
        return 0;
    if (times(c, id))
        decode_tensor(g, l, c, beside, id, y, s);
    for (int i = c->parts.from[id]; i < c->parts.from[id + 1] && !times(c, id) && !g->err.code; i++) {
        const struct value part = *graph_value(g, c->parts.at[i]);
        int place = graph_add_slice(g, NULL, y, part.at, part.ndim, part.shape);
        if (place)
            graph_value(g, place)->exact = graph_value(g, y)->exact;
        decode_tensor(g, l, c, beside, c->parts.at[i], place, s);
    }
    return y;
}

/* Whether this program takes the gradient of a weight ahead of it. */
static bool is_ahead(const struct graph *g, int id, const struct pass_settings *s)
{
    const struct value *v = graph_value(g, id);
    return v->role == ROLE_WEIGHT && !v->frozen && optimizer_averages(s->update.optimizer) &&
           (1 << s->program & HAS_BACKWARD);
}

/* Of a weight in codes, for a node without activations of the policy's type. What is rounded to 8 bits at once needs no more than 16. */
static enum dtype decoded_type(const struct node *n, const struct pass_settings *s)
{
    return n->op == OP_quantize_fp8 ? s->precision.narrow : s->precision.wide;
}

/* Appends the node behind what brings its weights. */
static void append_with_weights(struct graph *g, struct node_list *l, struct beside *c, struct node n,
                                const struct pass_settings *s)
{
    for (int i = 0; i < node_op(&n)->n_slots && !g->err.code; i++) {
        int id = n.u.slot[i];
        enum way way = id ? choose_way(g, &n, i, s) : RESIDENT;
        if (id && is_ahead(g, id, s)) {
            n.u.slot[i] = bring_ahead(g, l, c, &n, id, type_by(g, &n, id, way, s), s);
            continue;
        }
        if (way == DECODE)
            n.u.slot[i] = bring_decoded(g, l, c, &n, id, node_type(g, &n, decoded_type(&n, s)), s);
        else if (way == COPY)
            n.u.slot[i] = weight_copy(g, c, id, node_type(g, &n, DT_F32));
        else if (way == CAST)
            n.u.slot[i] = node_list_cast(g, l, &n, id, 0, node_type(g, &n, DT_F32));
        else if (way == WIDEN) {
            n.u.slot[i] = node_list_cast(g, l, &n, id, 0, s->precision.wide);
            graph_value(g, n.u.slot[i])->exact = true; /* beside activations of another type */
        }
    }
    node_list_append(g, l, &n);
}

/* Whether a node makes the same of the weight in the narrow type. A row of one table is rounded to the type of the activations anyway. */
static bool reads_narrow(const struct graph *g, const struct node *n, int slot, const struct pass_settings *s)
{
    const struct value *w = graph_value(g, n->u.slot[slot]);
    bool alone = n->op == OP_embed && slot == OP_SLOT(embed, table) && !n->u.embed.table2;
    return op_slot_is(n->op, slot, SLOT_ANY_TYPE) ||
           ((alone || op_slot_is(n->op, slot, SLOT_NODE_TYPE)) && node_type(g, n, w->dtype) == s->precision.narrow);
}

/* A weight of an adapter's base never changes, and is in no checkpoint: it is stored in the narrow type where all who read it want that. */
static void narrow_base(struct graph *g, const struct pass_settings *s)
{
    struct uses u = {0};
    bool looks = s->adapters && !s->precision.pure && uses_open(&u, g);
    for (int i = 1; looks && i < g->n_values; i++) {
        struct value *v = graph_value(g, i);
        if (v->role != ROLE_WEIGHT || value_is_coded(v))
            continue;
        bool narrow = !v->base && v->frozen && uses_count(&u, i) > 0;
        for (int k = u.from[i]; narrow && k < u.from[i + 1]; k++)
            narrow = reads_narrow(g, &g->nodes[u.at[k].node], u.at[k].slot, s);
        if (narrow || v->base)
            v->dtype = narrow ? s->precision.narrow : g->values[v->base].dtype;
    }
    uses_close(&u);
}

void pass_materialize(struct graph *g, struct pass_settings *s)
{
    bool as_stored = s->precision.narrow == s->precision.wide && !optimizer_averages(s->update.optimizer);
    if (g->err.code || (as_stored && !s->quantization.bits))
        return;
    narrow_base(g, s);
    struct node_list l = {0};
    struct beside c = {.copy = graph_kin(g, KIN_COPY),
                       .ahead = graph_kin(g, KIN_AHEAD),
                       .absmax = graph_kin(g, KIN_ABSMAX),
                       .nested = graph_kin(g, KIN_NESTED_ABSMAX),
                       .scale = graph_kin(g, KIN_SCALE)};
    if (slices_open(&c.parts, g))
        for (int k = 1; k < g->n_nodes && !g->err.code; k++)
            append_with_weights(g, &l, &c, g->nodes[k], s);
    node_list_finish(g, &l);
    slices_close(&c.parts);
    mem_free(c.copy);
    mem_free(c.ahead);
    mem_free(c.absmax);
    mem_free(c.nested);
    mem_free(c.scale);
}
