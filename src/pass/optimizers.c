/* How each optimizer updates a weight: its op, the states that it keeps, its own values of arguments that are not given. */
#include "pass/optimizers.h"

#include "op/optimizer/adafactor.h"
#include "op/optimizer/dynamic_map.h"

#include <math.h>

#define PROTOTYPE(x, id, word, how, bits)                                                                              \
    static void update_with_##how(struct graph *g, const struct update *u, const struct weight_update *w);
OPTIMIZERS(PROTOTYPE, )
#undef PROTOTYPE

/* Those of a weight in shards. */
static void make_factored_sums(struct graph *g, const struct update *u, struct weight_update *w);
static void share_factored_sums(struct graph *g, const struct update *u, struct weight_update *w);
static void make_factored_squares(struct graph *g, const struct update *u, struct weight_update *w);
static void share_factored_squares(struct graph *g, const struct update *u, struct weight_update *w);
static void apply_factored(struct graph *g, const struct update *u, struct weight_update *w);

static void (*const adafactor_parts[])(struct graph *g, const struct update *u, struct weight_update *w) = {
    make_factored_sums, share_factored_sums, make_factored_squares, share_factored_squares, apply_factored};

static const struct row {
    void (*emit)(struct graph *g, const struct update *u, const struct weight_update *w);
    int bits;
} rows[OPTIM_COUNT] = {
#define ROW(x, id, word, how, bits) [id] = {update_with_##how, bits},
    OPTIMIZERS(ROW, )
#undef ROW
};

bool optimizer_is_8bit(enum optimizer o)
{
    return rows[o].bits == 8;
}

bool optimizer_of_matrices(enum optimizer o)
{
    return o == OPTIM_MUON;
}

bool optimizer_averages(enum optimizer o)
{
    return o == OPTIM_SCHEDULE_FREE_ADAMW || o == OPTIM_SCHEDULE_FREE_RADAM || o == OPTIM_SCHEDULE_FREE_SGD;
}

bool optimizer_by_tile(enum optimizer o)
{
    return o == OPTIM_ADAFACTOR || o == OPTIM_ADALOMO;
}

bool optimizer_in_shards(enum optimizer o)
{
    return o != OPTIM_STABLE_ADAMW && o != OPTIM_MUON;
}

bool optimizer_by_layer(enum optimizer o)
{
    return o == OPTIM_LOMO || o == OPTIM_ADALOMO;
}

enum dtype optimizer_state_type(const struct update *u)
{
    return u->rounds && u->state_type == DT_F32 ? DT_BF16 : u->state_type;
}

int optimizer_parts(enum optimizer o)
{
    return optimizer_by_tile(o) ? (int)(sizeof adafactor_parts / sizeof *adafactor_parts) : 1;
}

void optimizer_update(struct graph *g, const struct update *u, struct weight_update *w, int part)
{
    if (optimizer_by_tile(u->optimizer) && w->shards)
        adafactor_parts[part](g, u, w);
    else
        rows[u->optimizer].emit(g, u, w);
}

/* The slots that all updates have. */
#define COMMON(w)                                                                                                      \
    .p = (w)->weight, .g = (w)->gradient, .step = (w)->step, .coef = (w)->coef, .copy = (w)->copy,                     \
    .weight_decay = (w)->weight_decay, .noise = (w)->noise

static double given_or(double x, double otherwise)
{
    return isnan(x) ? otherwise : x;
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

/* Of the weight's shape: in codes, or rounded as weights are. The reference rounds its doubles instead. */
static int add_state(struct graph *g, const struct update *u, const struct weight_update *w, enum kin kin)
{
    return add_part(g, kin, w->weight, -1, w->codes ? DT_U8 : optimizer_state_type(u));
}

/* The largest magnitudes of a state in codes. */
static int add_absmax(struct graph *g, const struct update *u, const struct weight_update *w, enum kin kin)
{
    int64_t n = value_elements(graph_value(g, w->weight), (struct dims){0});
    return graph_add_kin(g, kin, w->weight, u->state_type, 1, &DIM((n + MAP_BLOCK - 1) / MAP_BLOCK));
}

/* With 8 bits asked for, tensors that keep 32 have the same order of decay. */
static void update_with_adamw(struct graph *g, const struct update *u, const struct weight_update *w)
{
    int m = add_state(g, u, w, KIN_EXP_AVG), v = add_state(g, u, w, KIN_EXP_AVG_SQ);
    struct op_adamw n = {COMMON(w),
                         .m = m,
                         .v = v,
                         .beta1 = u->beta1,
                         .beta2 = u->beta2,
                         .eps = u->eps,
                         .decay_last = u->optimizer == OPTIM_ADAMW_8BIT};
    if (!w->codes) {
        emit_adamw(g, &n);
        return;
    }
    struct op_adamw8bit n8 = {COMMON(w),
                              .m = m,
                              .v = v,
                              .absmax_m = add_absmax(g, u, w, KIN_EXP_AVG_ABSMAX),
                              .absmax_v = add_absmax(g, u, w, KIN_EXP_AVG_SQ_ABSMAX),
                              .beta1 = u->beta1,
                              .beta2 = u->beta2,
                              .eps = u->eps};
    emit_adamw8bit(g, &n8);
}

static void update_with_stable_adamw(struct graph *g, const struct update *u, const struct weight_update *w)
{
    struct op_stable_adamw n = {COMMON(w),
                                .m = add_state(g, u, w, KIN_EXP_AVG),
                                .v = add_state(g, u, w, KIN_EXP_AVG_SQ),
                                .beta1 = u->beta1,
                                .beta2 = u->beta2,
                                .eps = u->eps};
    emit_stable_adamw(g, &n);
}

/* ---- Muon ---- */

/* What an op made after the passes that give types. */
static int typed(struct graph *g, int id, enum dtype type)
{
    graph_value(g, id)->dtype = type;
    return id;
}

/* x w^T, or x w. */
static int product(struct graph *g, int x, int w, bool in_out, enum dtype type)
{
    struct op_linear n = {.x = x, .w = w, .in_out = in_out};
    emit_linear(g, &n);
    typed(g, n.slope, type);
    return typed(g, n.y, type);
}

/* x^T x of a matrix that is tall, else x x^T: the smaller one. */
static int gram(struct graph *g, int x, bool tall, enum dtype type)
{
    struct dim columns = graph_value(g, x)->shape[1];
    if (!tall)
        return product(g, x, x, false, type);
    struct op_linear_dw n = {
        .dy = x, .x = x, .dw = graph_add_value(g, NULL, ROLE_ACTIVATION, type, SHAPE(columns, columns))};
    emit_linear_dw(g, &n);
    return n.dw;
}

static int blend(struct graph *g, int x, int z, double s, double t, enum dtype type)
{
    struct op_blend n = {.x = x, .z = z, .s = s, .t = t};
    emit_blend(g, &n);
    return typed(g, n.y, type);
}

/* u over its norm: its singular values are then at most 1. */
static int to_unit(struct graph *g, int u, double eps, enum dtype type)
{
    int64_t n = value_elements(graph_value(g, u), (struct dims){0});
    int partials = graph_add_value(g, NULL, ROLE_SCALAR, DT_F64, 1, &DIM((n + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK));
    struct op_sumsq s = {.g = u, .partials = partials};
    struct op_unit x = {.x = u, .partials = partials, .eps = eps};
    if (!g->err.code)
        graph_value(g, partials)->live_in = true; /* each chunk is written before unit reads all of them */
    emit_sumsq(g, &s);
    emit_unit(g, &x);
    return typed(g, x.y, type);
}

/* Iterations of Newton and Schulz, X = a X + (b G + c G^2) X with G = X X^T, bring singular values near 1. */
static int orthogonal(struct graph *g, int x, int64_t steps, enum dtype type)
{
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    const struct value *v = graph_value(g, x);
    bool tall = v->shape[0].c > v->shape[1].c;
    for (int64_t i = 0; i < steps && !g->err.code; i++) {
        int first = gram(g, x, tall, type), square = product(g, first, first, false, type);
        int by = blend(g, first, square, b, c, type);
        int y = tall ? product(g, x, by, false, type) : product(g, by, x, true, type);
        x = blend(g, x, y, a, 1, type);
    }
    return x;
}

/* Products compute in the narrow type of the run, as torch's do in bf16. */
static void update_with_muon(struct graph *g, const struct update *u, const struct weight_update *w)
{
    if (!w->matrix) {
        update_with_adamw(g, u, w);
        return;
    }
    const struct value *p = graph_value(g, w->weight);
    double r = (double)p->shape[0].c, c = (double)p->shape[1].c;
    double factor = u->muon_rate == MUON_ORIGINAL ? sqrt(fmax(1, r / c)) : 0.2 * sqrt(fmax(r, c));
    struct op_muon_momentum m = {.buf = add_state(g, u, w, KIN_MOMENTUM_BUFFER),
                                 .g = w->gradient,
                                 .step = w->step,
                                 .coef = w->coef,
                                 .momentum = given_or(u->momentum, 0.95),
                                 .noise = w->noise};
    emit_muon_momentum(g, &m);
    int x = to_unit(g, typed(g, m.u, w->products), given_or(u->own_eps, 1e-7), w->products);
    struct op_muon n = {.p = w->weight,
                        .o = orthogonal(g, x, u->ns_steps, w->products),
                        .step = w->step,
                        .coef = w->coef,
                        .copy = w->copy,
                        .factor = factor,
                        .weight_decay = w->weight_decay,
                        .noise = w->noise};
    emit_muon(g, &n);
}

/* LOMO is SGD without momentum: its decay, which is decoupled, then comes to the same. */
static void update_with_sgd(struct graph *g, const struct update *u, const struct weight_update *w)
{
    double momentum = given_or(u->momentum, 0);
    struct op_sgd n = {COMMON(w), .buf = momentum != 0 ? add_state(g, u, w, KIN_MOMENTUM_BUFFER) : 0,
                       .momentum = momentum, .dampening = u->dampening, .nesterov = u->nesterov};
    emit_sgd(g, &n);
}

static struct adafactor_shape shape_of(const struct value *weight)
{
    struct tensor t = {.ndim = (int8_t)weight->ndim};
    for (int i = 0; i < weight->ndim; i++)
        t.shape[i] = weight->shape[i].c;
    return adafactor_shape(&t);
}

static bool scales_parameter(const struct update *u)
{
    return u->adafactor.scale_parameter || u->optimizer == OPTIM_ADALOMO;
}

/* A matrix keeps the means of its rows and of its columns, anything else its second moment itself; these are few, and stay
 * exact. AdaLomo is Adafactor whose rate is relative to the size of the tensor. */
static void update_with_adafactor(struct graph *g, const struct update *u, const struct weight_update *w)
{
    int ndim = graph_value(g, w->weight)->ndim;
    struct op_adafactor n = {COMMON(w),
                             .eps1 = u->adafactor.eps1,
                             .eps2 = u->adafactor.eps2,
                             .clip_threshold = u->adafactor.clip_threshold,
                             .decay_rate = u->adafactor.decay_rate,
                             .beta1 = u->adafactor.beta1,
                             .scale_parameter = scales_parameter(u),
                             .relative_step = u->adafactor.relative_step,
                             .warmup_init = u->adafactor.warmup_init};
    if (ndim >= 2) {
        n.row = add_part(g, KIN_EXP_AVG_SQ_ROW, n.p, ndim - 1, u->state_type);
        n.col = add_part(g, KIN_EXP_AVG_SQ_COL, n.p, ndim - 2, u->state_type);
    } else
        n.v = add_part(g, KIN_EXP_AVG_SQ, n.p, -1, u->state_type);
    if (u->adafactor.beta1 >= 0)
        n.m = add_state(g, u, w, KIN_EXP_AVG);
    emit_adafactor(g, &n);
}

/* Of each row of tiles n elements, all of which each rank gets; *mine: those of its shard. */
static int add_sums(struct graph *g, const struct weight_update *w, enum dtype type, int64_t n, int *mine)
{
    struct adafactor_shape s = shape_of(graph_value(g, w->weight));
    int64_t tiles = adafactor_row_tiles(s.rows);
    int64_t in_chunk = s.lead > 1 ? w->chunk / (s.rows * s.columns) * tiles : w->chunk / (ADAFACTOR_ROWS * s.columns);
    int all = graph_add_value(g, NULL, ROLE_SCALAR, type, 1, &DIM(s.lead * tiles * n));
    if (g->err.code)
        return 0;
    graph_value(g, all)->live_in = true; /* each rank writes its own, and gets the others' */
    *mine = graph_add_view(g, all, w->shards, in_chunk * n);
    return all;
}

static void make_factored_sums(struct graph *g, const struct update *u, struct weight_update *w)
{
    struct adafactor_shape s = shape_of(graph_value(g, w->weight));
    int ndim = graph_value(g, w->weight)->ndim;
    int64_t wide = adafactor_column_tiles(s.columns);
    w->factored.row = add_part(g, KIN_EXP_AVG_SQ_ROW, w->weight, ndim - 1, u->state_type);
    w->factored.col = add_part(g, KIN_EXP_AVG_SQ_COL, w->weight, ndim - 2, u->state_type);
    w->factored.m = u->adafactor.beta1 >= 0 ? add_state(g, u, w, KIN_EXP_AVG) : 0;
    w->factored.col_sums.all = add_sums(g, w, u->state_type, s.columns, &w->factored.col_sums.mine);
    w->factored.row_sums.all = add_sums(g, w, DT_F64, 1, &w->factored.row_sums.mine);
    w->factored.squares.all = add_sums(g, w, DT_F64, wide, &w->factored.squares.mine);
    if (scales_parameter(u))
        w->factored.weight_sums.all = add_sums(g, w, DT_F64, wide, &w->factored.weight_sums.mine);
    struct op_adafactor_sums n = {.row = w->factored.row,
                                  .g = w->gradient,
                                  .p = scales_parameter(u) ? w->weight : 0,
                                  .col_sums = w->factored.col_sums.mine,
                                  .row_sums = w->factored.row_sums.mine,
                                  .weight_sums = w->factored.weight_sums.mine,
                                  .step = w->step,
                                  .coef = w->coef,
                                  .eps1 = u->adafactor.eps1,
                                  .decay_rate = u->adafactor.decay_rate,
                                  .rows = s.rows,
                                  .columns = s.columns};
    emit_adafactor_sums(g, &n);
}

static void share(struct graph *g, int all, int mine)
{
    if (all && !g->err.code)
        emit_broadcast(g, &(struct op_broadcast){.x = all, .chunk = graph_value(g, mine)->chunk});
}

static void share_factored_sums(struct graph *g, const struct update *u, struct weight_update *w)
{
    (void)u;
    share(g, w->factored.col_sums.all, w->factored.col_sums.mine);
    share(g, w->factored.row_sums.all, w->factored.row_sums.mine);
    share(g, w->factored.weight_sums.all, w->factored.weight_sums.mine);
}

static void make_factored_squares(struct graph *g, const struct update *u, struct weight_update *w)
{
    struct op_adafactor_squares n = {.col = w->factored.col,
                                     .g = w->gradient,
                                     .row = w->factored.row,
                                     .col_sums = w->factored.col_sums.all,
                                     .row_sums = w->factored.row_sums.all,
                                     .squares = w->factored.squares.mine,
                                     .step = w->step,
                                     .coef = w->coef,
                                     .eps1 = u->adafactor.eps1,
                                     .decay_rate = u->adafactor.decay_rate,
                                     .rows = shape_of(graph_value(g, w->weight)).rows};
    emit_adafactor_squares(g, &n);
}

static void share_factored_squares(struct graph *g, const struct update *u, struct weight_update *w)
{
    (void)u;
    share(g, w->factored.squares.all, w->factored.squares.mine);
}

static void apply_factored(struct graph *g, const struct update *u, struct weight_update *w)
{
    struct op_adafactor_apply n = {COMMON(w),
                                   .row = w->factored.row,
                                   .col = w->factored.col,
                                   .row_sums = w->factored.row_sums.all,
                                   .weight_sums = w->factored.weight_sums.all,
                                   .squares = w->factored.squares.all,
                                   .m = w->factored.m,
                                   .eps2 = u->adafactor.eps2,
                                   .clip_threshold = u->adafactor.clip_threshold,
                                   .beta1 = u->adafactor.beta1,
                                   .scale_parameter = scales_parameter(u),
                                   .relative_step = u->adafactor.relative_step,
                                   .warmup_init = u->adafactor.warmup_init,
                                   .rows = shape_of(graph_value(g, w->weight)).rows};
    emit_adafactor_apply(g, &n);
}

static void update_with_rmsprop(struct graph *g, const struct update *u, const struct weight_update *w)
{
    double alpha = given_or(u->alpha, 0.99), eps = given_or(u->own_eps, 1e-8), momentum = given_or(u->momentum, 0);
    int v = add_state(g, u, w, KIN_EXP_AVG_SQ);
    if (w->codes) {
        struct op_rmsprop8bit n8 = {COMMON(w), .v = v, .absmax_v = add_absmax(g, u, w, KIN_EXP_AVG_SQ_ABSMAX),
                                    .alpha = alpha, .eps = eps};
        emit_rmsprop8bit(g, &n8);
        return;
    }
    struct op_rmsprop n = {COMMON(w),
                           .v = v,
                           .mean_g = u->centered ? add_state(g, u, w, KIN_GRAD_AVG) : 0,
                           .buf = momentum != 0 ? add_state(g, u, w, KIN_MOMENTUM_BUFFER) : 0,
                           .alpha = alpha,
                           .eps = eps,
                           .momentum = momentum};
    emit_rmsprop(g, &n);
}

static void update_with_adagrad(struct graph *g, const struct update *u, const struct weight_update *w)
{
    struct op_adagrad n = {COMMON(w), .sum = add_state(g, u, w, KIN_SUM), .lr_decay = u->lr_decay,
                           .eps = given_or(u->own_eps, 1e-10)};
    emit_adagrad(g, &n);
}

static void update_with_lion(struct graph *g, const struct update *u, const struct weight_update *w)
{
    int m = add_state(g, u, w, KIN_EXP_AVG);
    if (w->codes) {
        struct op_lion8bit n8 = {COMMON(w), .m = m, .absmax_m = add_absmax(g, u, w, KIN_EXP_AVG_ABSMAX),
                                 .beta1 = u->beta1, .beta2 = u->beta2};
        emit_lion8bit(g, &n8);
        return;
    }
    struct op_lion n = {COMMON(w), .m = m, .beta1 = u->beta1, .beta2 = u->beta2};
    emit_lion(g, &n);
}

static void update_with_ademamix(struct graph *g, const struct update *u, const struct weight_update *w)
{
    int m = add_state(g, u, w, KIN_EXP_AVG), slow = add_state(g, u, w, KIN_EXP_AVG_SLOW);
    int v = add_state(g, u, w, KIN_EXP_AVG_SQ);
#define FACTORS                                                                                                        \
    .beta1 = u->beta1, .beta2 = u->beta2, .beta3 = u->beta3, .alpha = given_or(u->alpha, 5), .t_alpha = u->t_alpha,    \
    .t_beta3 = u->t_beta3, .eps = given_or(u->own_eps, u->eps)
    if (w->codes) {
        struct op_ademamix8bit n8 = {COMMON(w),
                                     .m = m,
                                     .slow = slow,
                                     .v = v,
                                     .absmax_m = add_absmax(g, u, w, KIN_EXP_AVG_ABSMAX),
                                     .absmax_slow = add_absmax(g, u, w, KIN_EXP_AVG_SLOW_ABSMAX),
                                     .absmax_v = add_absmax(g, u, w, KIN_EXP_AVG_SQ_ABSMAX),
                                     FACTORS};
        emit_ademamix8bit(g, &n8);
        return;
    }
    struct op_ademamix n = {COMMON(w), .m = m, .slow = slow, .v = v, FACTORS};
    emit_ademamix(g, &n);
#undef FACTORS
}

/* ---- schedule-free ---- */

static double averaging_beta(const struct update *u)
{
    return u->optimizer == OPTIM_SCHEDULE_FREE_SGD ? given_or(u->momentum, 0.9) : u->beta1;
}

double optimizer_ahead(const struct update *u)
{
    return 1 - averaging_beta(u);
}

static int add_ahead(struct graph *g, const struct update *u, const struct weight_update *w)
{
    return w->ahead ? w->ahead : add_state(g, u, w, KIN_AHEAD);
}

static void update_with_schedule_free_adamw(struct graph *g, const struct update *u, const struct weight_update *w)
{
    struct op_schedule_free_adamw n = {COMMON(w),
                                       .d = add_ahead(g, u, w),
                                       .v = add_state(g, u, w, KIN_EXP_AVG_SQ),
                                       .beta1 = averaging_beta(u),
                                       .beta2 = u->beta2,
                                       .eps = u->eps};
    emit_schedule_free_adamw(g, &n);
}

static void update_with_schedule_free_sgd(struct graph *g, const struct update *u, const struct weight_update *w)
{
    struct op_schedule_free_sgd n = {COMMON(w), .d = add_ahead(g, u, w), .momentum = averaging_beta(u)};
    emit_schedule_free_sgd(g, &n);
}
