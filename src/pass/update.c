#include "pass/pass.h"

#include "base/hash.h"
#include "pass/optimizers.h"
#include "pass/owners.h"

#include <ctype.h>
#include <string.h>

/* The Trainer's rule (transformers, get_decay_parameter_names): no decay for parameters of norms, and for names with
 * `bias`, `layernorm`, `rmsnorm`, or `norm` as a word of its own or behind an underscore. */
static bool decays_by_name(const char *weight_name)
{
    char name[512];
    size_t n = 0;
    for (; weight_name[n] && n < sizeof name - 1; n++)
        name[n] = (char)tolower((unsigned char)weight_name[n]);
    name[n] = 0;
    if (strstr(name, "bias") || strstr(name, "layernorm") || strstr(name, "rmsnorm"))
        return false;
    char *rest;
    for (char *word = strtok_r(name, ".", &rest); word; word = strtok_r(NULL, ".", &rest)) {
        size_t len = strlen(word);
        if (!strcmp(word, "norm") || (len > 5 && !strcmp(word + len - 5, "_norm")))
            return false;
    }
    return true;
}

bool update_decays(const struct value *weight)
{
    return !weight->norm && decays_by_name(weight->name);
}

static int64_t count(const struct value *v)
{
    return value_elements(v, (struct dims){0});
}

bool update_is_8bit(const struct update *u, const struct value *weight)
{
    return optimizer_is_8bit(u->optimizer) && count(weight) >= u->min_8bit_size &&
           (!weight->table || u->embeddings_8bit);
}

/* The number of the last layer, which is the head. */
static int head_layer(const struct graph *g)
{
    int last = 0;
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].role == ROLE_WEIGHT && g->values[i].layer > last)
            last = g->values[i].layer;
    return last;
}

/* The weights that Muon takes: matrices of layers, neither tables of embeddings nor those of the head. A graph without layers has no
 * head. */
static bool is_matrix_of_layer(const struct value *w, int head)
{
    return w->ndim == 2 && !w->table && (!head || w->layer != head);
}

/* In which type products of an update compute: never in fp16, which momenta are too small for. */
static enum dtype products_of(const struct pass_settings *s)
{
    bool narrow = s->precision.narrow == DT_BF16 || s->precision.narrow == DT_F16;
    return s->update.state_type == DT_F64 ? DT_F64 : narrow ? DT_BF16 : DT_F32;
}

int pass_loss_scaler(struct graph *g)
{
    int id = graph_find(g, "loss_scaler");
    if (id || !(id = graph_add_value(g, "loss_scaler", ROLE_STATE, DT_F64, 1, &DIM(SCALER_SCALARS))))
        return id;
    graph_value(g, id)->layer = 0;
    graph_value(g, id)->init = (struct init){.kind = INIT_FIRST, .std = LOSS_SCALE_START, .zero_row = -1};
    return id;
}

/* The number of a weight's noise: by its name, so that no plan changes it. Never 0. */
static int64_t noise_of(const struct value *weight)
{
    return (int64_t)(uint32_t)hash_bytes(weight->name, strlen(weight->name)).low | 1;
}

/* Whether an optimizer that has ops of two kinds updates a weight by its own: with states in codes, or as a matrix. */
static bool has_own_op(const struct update *u, const struct value *w, int head)
{
    return update_is_8bit(u, w) || (optimizer_of_matrices(u->optimizer) && is_matrix_of_layer(w, head));
}

/* n: with all but what follows from the weight. */
static void describe_update(const struct graph *g, const struct update *u, struct weight_update *n, bool own)
{
    const struct value *w = graph_value(g, n->weight);
    n->weight_decay = u->decay_all || update_decays(w) ? u->weight_decay : 0;
    n->noise = u->rounds ? noise_of(w) : 0;
    n->codes = own && optimizer_is_8bit(u->optimizer);
    n->matrix = own && optimizer_of_matrices(u->optimizer);
}

/* What the updates of a program need to know of its weights, by id. */
struct weights {
    int *gradient, *copy, *ahead; /* 0: none */
    int *owner;                   /* 0: every rank updates it; ALL_OWN: its shard */
    int *view;   /* by value that all ranks have whole: the shard of it that an update sees; 0: none is made yet */
    int64_t *at; /* the first of the partial sums of its gradient */
    struct weight_update *update;
    int n;
    const struct pass_settings *settings;
};

static int64_t chunks_of(const struct graph *g, int weight)
{
    return (count(graph_value(g, weight)) + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
}

/* Gives how many partial sums there are. */
static int64_t find_weights(struct graph *g, const struct pass_settings *s, struct weights *w)
{
    int64_t chunks = 0;
    *w = (struct weights){.gradient = graph_kin(g, KIN_GRADIENT),
                          .copy = graph_kin(g, KIN_COPY),
                          .ahead = graph_kin(g, KIN_AHEAD),
                          .owner = weight_owners(g, s),
                          .view = mem_alloc((size_t)g->n_values * sizeof *w->view),
                          .at = mem_alloc((size_t)g->n_values * sizeof *w->at),
                          .update = mem_alloc((size_t)g->n_values * sizeof *w->update),
                          .n = g->n_values,
                          .settings = s};
    if ((!w->at || !w->view || !w->update) && !g->err.code)
        err_no_memory(&g->err, (unsigned long long)g->n_values * sizeof *w->update);
    for (int i = 1; i < w->n && !g->err.code; i++) {
        if (graph_value(g, i)->group) /* its parts have gradients of their own */
            w->gradient[i] = 0;
        w->at[i] = chunks;
        chunks += w->gradient[i] ? chunks_of(g, i) : 0;
    }
    return chunks;
}

static void free_weights(struct weights *w)
{
    mem_free(w->gradient);
    mem_free(w->copy);
    mem_free(w->ahead);
    mem_free(w->owner);
    mem_free(w->view);
    mem_free(w->at);
    mem_free(w->update);
}

/* Of rank g->rank, or of all ranks. */
static bool is_mine(const struct graph *g, const struct weights *w, int weight)
{
    bool mine = g->rank ? w->owner[weight] == g->rank : w->owner[weight] <= 0;
    return w->gradient[weight] && mine;
}

/* What an update sees of `id`, which is the weight or something of it that stands for each of its elements. */
static int seen(struct graph *g, struct weights *w, int weight, int id)
{
    if (!id || g->err.code || w->owner[weight] != ALL_OWN || graph_value(g, id)->shards)
        return id;
    if (!w->view[id])
        w->view[id] = graph_add_view(g, id, w->settings->ranks, shard_chunk(g, w->settings, id, weight));
    return w->view[id];
}

/* From the last weight on: in the order in which the backward pass makes their gradients. */
static void emit_sums(struct graph *g, struct weights *w, int partials)
{
    int last = g->layer; /* of the weights: the norm's */
    for (int i = w->n - 1, n = 0; i > 0 && !g->err.code; i--) {
        if (!is_mine(g, w, i))
            continue;
        g->layer = g->values[i].layer;
        last = n++ ? last : g->layer;
        int mine = seen(g, w, i, w->gradient[i]);
        emit_sumsq(g, &(struct op_sumsq){.g = mine, .partials = partials, .at = w->at[i]});
    }
    g->layer = last;
}

/* Partial sums go from their owners to all. */
static void share_sums(struct graph *g, const struct weights *w, int partials)
{
    for (int i = 1; i < w->n && !g->err.code; i++) {
        if (!w->gradient[i] || !w->owner[i])
            continue;
        g->layer = g->values[i].layer;
        int part = graph_add_slice(g, NULL, partials, w->at[i], 1, &DIM(chunks_of(g, i)));
        struct op_broadcast n = {.x = part, .from = w->owner[i]};
        if (w->owner[i] == ALL_OWN)
            n = (struct op_broadcast){.x = part, .chunk = shard_chunk(g, w->settings, i, i) / SUMSQ_CHUNK};
        emit_broadcast(g, &n);
    }
}

/* What an update of the weight has added: its states are in shards, and it sees those of all else. Means over all rows are of no shard. */
static void see_shards(struct graph *g, struct weights *w, int weight, int node, int value)
{
    for (int i = value, end = g->n_values; i < end; i++) {
        struct value *v = graph_value(g, i);
        if (v->role != ROLE_STATE || v->kin == KIN_EXP_AVG_SQ_COL)
            continue;
        v->shards = w->settings->ranks;
        v->chunk = shard_chunk(g, w->settings, i, weight);
    }
    for (; node < g->n_nodes; node++)
        for (int i = 0; i < node_op(&g->nodes[node])->n_slots; i++) {
            int id = g->nodes[node].u.slot[i];
            bool of = id == weight || (id && id < w->n && graph_value(g, id)->of == weight);
            if (of)
                g->nodes[node].u.slot[i] = seen(g, w, weight, id);
        }
}

static void describe_updates(struct graph *g, struct weights *w, int step, int coef)
{
    const struct pass_settings *s = w->settings;
    int head = head_layer(g);
    for (int i = 1; i < w->n; i++) {
        bool in_shards = w->owner[i] == ALL_OWN;
        w->update[i] = (struct weight_update){.weight = i,
                                              .gradient = w->gradient[i],
                                              .copy = w->copy[i],
                                              .ahead = w->ahead[i],
                                              .step = step,
                                              .coef = coef,
                                              .products = products_of(s),
                                              .shards = in_shards ? s->ranks : 0,
                                              .chunk = in_shards ? shard_chunk(g, s, i, i) : 0};
        if (w->gradient[i])
            describe_update(g, &s->update, &w->update[i], has_own_op(&s->update, graph_value(g, i), head));
    }
}

static void emit_part(struct graph *g, struct weights *w, int weight, int part)
{
    int node = g->n_nodes, value = g->n_values;
    g->layer = g->values[weight].layer;
    optimizer_update(g, &w->settings->update, &w->update[weight], part);
    if (w->owner[weight] == ALL_OWN && !g->err.code)
        see_shards(g, w, weight, node, value);
}

/* Those of one op one after another: one launch on a GPU. */
static void emit_updates(struct graph *g, struct weights *w)
{
    for (int own = 1; own >= 0; own--)
        for (int part = 0; part < optimizer_parts(w->settings->update.optimizer); part++)
            for (int i = 1; i < w->n && !g->err.code; i++) {
                const struct weight_update *n = &w->update[i];
                if (is_mine(g, w, i) && (n->codes || n->matrix) == (own == 1) && (!part || n->shards))
                    emit_part(g, w, i, part);
            }
}

void pass_update(struct graph *g, struct pass_settings *s)
{
    const struct update *u = &s->update;
    const int last = has_owners(s) ? s->ranks : 0; /* 0: what is of all */
    bool scaled = precision_scales(&s->precision);
    int step = graph_find(g, "step");
    struct weights w;
    int64_t chunks = find_weights(g, s, &w);
    int partials = graph_add_value(g, NULL, ROLE_SCALAR, DT_F64, 1, &DIM(chunks));
    for (g->rank = 0; g->rank <= last && !g->err.code; g->rank++)
        emit_sums(g, &w, partials);
    g->rank = 0;
    share_sums(g, &w, partials);
    struct op_clip c = {.partials = partials, .scaler = scaled ? pass_loss_scaler(g) : 0, .max_norm = u->max_grad_norm};
    emit_clip(g, &c);
    bool waits = u->max_grad_norm > 0 || s->choices.updates_at_end || scaled;
    if (!g->err.code) {
        graph_value(g, partials)->live_in = true;    /* each chunk is written before clip reads all of them */
        graph_value(g, partials)->live_out = !waits; /* to tell which gradient was not finite */
        graph_set_name(g, c.norm, "grad_norm");
        graph_value(g, c.norm)->live_out = true;
        graph_value(g, c.norm)->dtype = graph_value(g, c.coef)->dtype = u->state_type == DT_F64 ? DT_F64 : DT_F32;
    }
    if (!g->err.code)
        describe_updates(g, &w, step, waits ? c.coef : 0);
    for (g->rank = 0; g->rank <= last && !g->err.code; g->rank++)
        emit_updates(g, &w);
    g->rank = 0;
    free_weights(&w);
}
