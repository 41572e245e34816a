#include "pass/pass.h"

#include "base/hash.h"
#include "op/dynamic_map.h"

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

/* A state of the weight's shape without dimension `less` (-1: of its whole shape). */
static int add_part(struct graph *g, enum kin kin, int weight, int less, enum dtype type)
{
    struct value w = *graph_value(g, weight);
    for (int i = less; less >= 0 && i + 1 < w.ndim; i++)
        w.shape[i] = w.shape[i + 1];
    w.ndim -= less >= 0;
    return graph_add_kin(g, kin, weight, type, w.ndim, w.shape);
}

static int add_state(struct graph *g, enum kin kin, int weight, enum dtype type)
{
    return add_part(g, kin, weight, -1, type);
}

/* Of states of the weight's shape. The reference rounds its doubles instead. */
static enum dtype moment_type(const struct update *u)
{
    return u->rounds && u->state_type == DT_F32 ? DT_BF16 : u->state_type;
}

/* A matrix keeps the means of its rows and of its columns, anything else its second moment itself. These are few, and stay exact. */
static void emit_update_adafactor(struct graph *g, const struct update *u, struct op_adafactor n)
{
    int ndim = graph_value(g, n.p)->ndim;
    if (ndim >= 2) {
        n.row = add_part(g, KIN_EXP_AVG_SQ_ROW, n.p, ndim - 1, u->state_type);
        n.col = add_part(g, KIN_EXP_AVG_SQ_COL, n.p, ndim - 2, u->state_type);
    } else
        n.v = add_state(g, KIN_EXP_AVG_SQ, n.p, u->state_type);
    if (u->adafactor.beta1 >= 0)
        n.m = add_state(g, KIN_EXP_AVG, n.p, moment_type(u));
    n.eps1 = u->adafactor.eps1;
    n.eps2 = u->adafactor.eps2;
    n.clip_threshold = u->adafactor.clip_threshold;
    n.decay_rate = u->adafactor.decay_rate;
    n.beta1 = u->adafactor.beta1;
    n.scale_parameter = u->adafactor.scale_parameter;
    n.relative_step = u->adafactor.relative_step;
    n.warmup_init = u->adafactor.warmup_init;
    emit_adafactor(g, &n);
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

/* States of 8 bits for the tensors that are large enough; embeddings and the others have the same AdamW with states of
 * the usual type, decay after the update included. */
bool update_is_8bit(const struct update *u, const struct value *weight)
{
    return u->optimizer == OPTIM_ADAMW_8BIT && count(weight) >= u->min_8bit_size &&
           (!weight->table || u->embeddings_8bit);
}

static int add_absmax(struct graph *g, enum kin kin, int weight, enum dtype type)
{
    return graph_add_kin(g, kin, weight, type, 1, &DIM((count(graph_value(g, weight)) + MAP_BLOCK - 1) / MAP_BLOCK));
}

static void emit_update_8bit(struct graph *g, const struct update *u, struct op_adamw8bit n)
{
    n.m = add_state(g, KIN_EXP_AVG, n.p, DT_U8);
    n.v = add_state(g, KIN_EXP_AVG_SQ, n.p, DT_U8);
    n.absmax_m = add_absmax(g, KIN_EXP_AVG_ABSMAX, n.p, u->state_type);
    n.absmax_v = add_absmax(g, KIN_EXP_AVG_SQ_ABSMAX, n.p, u->state_type);
    n.beta1 = u->beta1;
    n.beta2 = u->beta2;
    n.eps = u->eps;
    emit_adamw8bit(g, &n);
}

/* The number of a weight's noise: by its name, so that no plan changes it. Never 0. */
static int64_t noise_of(const struct value *weight)
{
    return (int64_t)(uint32_t)hash_bytes(weight->name, strlen(weight->name)).low | 1;
}

/* copy: of the weight, 0 for none. */
static void emit_update(struct graph *g, const struct update *u, int weight, int gradient, int copy, int step, int coef)
{
    int64_t noise = u->rounds ? noise_of(graph_value(g, weight)) : 0;
    double decay = u->decay_all || update_decays(&g->values[weight]) ? u->weight_decay : 0;
    if (update_is_8bit(u, graph_value(g, weight))) {
        struct op_adamw8bit n = {.p = weight,
                                 .g = gradient,
                                 .step = step,
                                 .coef = coef,
                                 .copy = copy,
                                 .weight_decay = decay,
                                 .noise = noise};
        emit_update_8bit(g, u, n);
    } else if (u->optimizer == OPTIM_ADAMW || u->optimizer == OPTIM_ADAMW_8BIT) {
        struct op_adamw n = {.p = weight,
                             .g = gradient,
                             .m = add_state(g, KIN_EXP_AVG, weight, moment_type(u)),
                             .v = add_state(g, KIN_EXP_AVG_SQ, weight, moment_type(u)),
                             .step = step,
                             .coef = coef,
                             .copy = copy,
                             .beta1 = u->beta1,
                             .beta2 = u->beta2,
                             .eps = u->eps,
                             .weight_decay = decay,
                             .decay_last = u->optimizer == OPTIM_ADAMW_8BIT,
                             .noise = noise};
        emit_adamw(g, &n);
    } else if (u->optimizer == OPTIM_ADAFACTOR) {
        struct op_adafactor n = {.p = weight,
                                 .g = gradient,
                                 .step = step,
                                 .coef = coef,
                                 .copy = copy,
                                 .weight_decay = decay,
                                 .noise = noise};
        emit_update_adafactor(g, u, n);
    } else {
        struct op_sgd n = {.p = weight,
                           .g = gradient,
                           .buf = u->momentum != 0 ? add_state(g, KIN_MOMENTUM_BUFFER, weight, moment_type(u)) : 0,
                           .step = step,
                           .coef = coef,
                           .copy = copy,
                           .momentum = u->momentum,
                           .dampening = u->dampening,
                           .weight_decay = decay,
                           .nesterov = u->nesterov,
                           .noise = noise};
        emit_sgd(g, &n);
    }
}

void pass_update(struct graph *g, struct pass_settings *s)
{
    const struct update *u = &s->update;
    bool scaled = precision_scales(&s->precision);
    int step = graph_find(g, "step"), n_values = g->n_values;
    int64_t chunks = 0;
    int *gradient = graph_kin(g, KIN_GRADIENT), *copy = graph_kin(g, KIN_COPY);
    for (int i = 1; i < n_values && !g->err.code; i++) {
        const struct value *w = graph_value(g, i);
        if (w->group) /* its parts have gradients of their own */
            gradient[i] = 0;
        if (gradient[i])
            chunks += (count(w) + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
    }
    int partials = graph_add_value(g, NULL, ROLE_SCALAR, DT_F64, 1, &DIM(chunks));
    int64_t at = 0;
    for (int i = 1; i < n_values && !g->err.code; i++) {
        if (!gradient[i])
            continue;
        g->layer = g->values[i].layer;
        struct op_sumsq n = {.g = gradient[i], .partials = partials, .at = at};
        emit_sumsq(g, &n);
        at += (count(graph_value(g, i)) + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
    }
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
    /* those of one op one after another: one launch on a GPU */
    for (int eight = 1; eight >= 0; eight--)
        for (int i = 1; i < n_values && !g->err.code; i++) {
            g->layer = g->values[i].layer;
            if (gradient[i] && update_is_8bit(u, graph_value(g, i)) == (eight == 1))
                emit_update(g, u, i, gradient[i], copy[i], step, waits ? c.coef : 0);
        }
    mem_free(gradient);
    mem_free(copy);
}
