/* tolerance.h: how far a kernel may be from the reference on the same inputs; the only place with such numbers.
 *
 * A sum of K terms, each operation rounding with unit u, is off by about u sqrt(K) times the size of its terms. The
 * result's own size stands for that: |y|, or the root mean square of its row or tensor where y happens to be small. To
 * this is added one rounding of the result to its type, and, where an op rounds to 16 bits inside, that rounding some
 * times over.
 */
#ifndef TEST_OP_TOLERANCE_H
#define TEST_OP_TOLERANCE_H

#include "graph/op.h"

#include <math.h>
#include <stddef.h>

static const double UNIT_F64 = 0x1p-53, UNIT_F32 = 0x1p-24, UNIT_BF16 = 0x1p-8, UNIT_F16 = 0x1p-11;
static const double SMALLEST_F16 = 0x1p-24; /* below 2^-14 numbers are apart by this */
static const double UNITS = 8;              /* operations beside the sums, polynomials, the largest of many elements */

/* Roundings to the policy's type of what an op adds up (attention: the weights P, and dS) or derives its result from
 * (linear, and dora with an activation: y and slope from u; linear_dx_act: du from dx, where a backend leaves that in memory). A product
 * that is added to a gradient of 16 bits may be rounded by itself first: every algorithm of cuBLASLt does so (and so do frameworks that add
 * two tensors). */
static inline double inner_roundings(enum op op, const union args_any *a)
{
    switch (op) {
    case OP_attention:
    case OP_attention_bwd:
    case OP_attention_general:
    case OP_attention_general_bwd:
    case OP_attention_disentangled:
    case OP_linear_dx_act:
        return 4; /* independent: more than five times their standard deviation */
    case OP_attention_disentangled_bwd:
        return 6; /* besides these the products of contents and positions, their gradients, and dqkv before each is added to it */
    case OP_linear: /* a square is twice as far off */
        return a->linear.act == ACT_relu2 ? 3 : 1.5;
    case OP_linear_fp8: /* a GPU's sums have 14 bits of the largest of their terms: in F16 that is several times the result's rounding */
        return 6;
    case OP_dora:
        return a->dora.act ? 1.5 : 0;
    case OP_activation: /* none: for 16 bits a kernel may compute to 9e-5 of the size (cuda/kernels/act.cuh) */
        return 0.2;
    case OP_rms_norm: /* h, and rstd of it */
        return a->rms_norm.res.ndim ? 2 : 0;
    case OP_linear_dx:
        return a->linear_dx.dx.add ? 1.5 : 0;
    case OP_linear_cross_entropy: /* of logits, the largest of 300,000 5 sqrt(H): so much of itself its exponential is off by */
        return 5 * sqrt((double)a->linear_cross_entropy.x.shape[1]);
    case OP_linear_dw:
        return a->linear_dw.dw.add && a->linear_dw.dw.dtype != DT_F32 ? 1.5 : 0;
    default:
        return 0;
    }
}

#define SLOT(op, name) ((int)(offsetof(struct args_##op, name) / sizeof(struct tensor)))

/* The slot that has the size of the sums which a result is derived from: of a slope that is y, of the same u; of the gradients of
 * relative positions dqkv, which the same differences dP - delta make: these cancel where a query sees one key. */
static inline int sized_as(enum op op, int slot)
{
    if (op == OP_linear && slot == SLOT(linear, slope))
        return SLOT(linear, y);
    if (op == OP_dora && slot == SLOT(dora, slope))
        return SLOT(dora, y);
    if (op == OP_activation && slot == SLOT(activation, slope))
        return SLOT(activation, y);
    bool relative = op == OP_attention_disentangled_bwd && slot == SLOT(attention_disentangled_bwd, drelative);
    return relative ? SLOT(attention_disentangled_bwd, dqkv) : slot;
}

/* Of attention_general: over keys, and over the head's elements. */
static inline double general_sums(const struct tensor *q, const struct tensor *kv)
{
    return (double)((kv->ndim && kv->shape[0] > q->shape[0] ? kv->shape[0] : q->shape[0]) + q->shape[1]);
}

/* The length of the longest sum. */
static inline double sum_length(enum op op, const union args_any *a)
{
    switch (op) {
    case OP_linear:
        return (double)a->linear.x.shape[1];
    case OP_linear_fp8:
        return (double)a->linear_fp8.x.shape[1];
    case OP_linear_dx:
        return (double)a->linear_dx.dy.shape[1];
    case OP_linear_dw:
        return (double)a->linear_dw.dy.shape[0];
    case OP_linear_dx_act:
        return (double)(a->linear_dx_act.dy.shape[1] + a->linear_dx_act.dy.shape[0]);
    case OP_attention:
        return (double)(a->attention.qkv.shape[0] + a->attention.qkv.shape[1]);
    case OP_attention_bwd:
        return (double)(a->attention_bwd.qkv.shape[0] + a->attention_bwd.qkv.shape[1]);
    case OP_attention_general:
        return general_sums(&a->attention_general.q, &a->attention_general.kv);
    case OP_attention_general_bwd: /* an entry of the table: over queries and keys */
        return general_sums(&a->attention_general_bwd.q, &a->attention_general_bwd.kv) *
               (a->attention_general_bwd.table.ndim ? (double)a->attention_general_bwd.q.shape[0] : 1);
    case OP_attention_disentangled: /* a score: of three products */
        return (double)(a->attention_disentangled.qkv.shape[0] + 2 * a->attention_disentangled.qkv.shape[1]);
    case OP_attention_disentangled_bwd: /* a row of relative: over queries and keys */
        return (double)(a->attention_disentangled_bwd.qkv.shape[0] * a->attention_disentangled_bwd.qkv.shape[0] +
                        2 * a->attention_disentangled_bwd.qkv.shape[1]);
    case OP_attention_cached:
        return (double)(a->attention_cached.keys.shape[1] + a->attention_cached.keys.shape[2]);
    case OP_route:
        return (double)a->route.logits.shape[1];
    case OP_route_bwd:
        return (double)a->route_bwd.logits.shape[1];
    case OP_expert_use:
        return (double)(a->expert_use.logits.shape[0] + a->expert_use.logits.shape[1]);
    case OP_expert_use_bwd:
        return (double)a->expert_use_bwd.logits.shape[1];
    case OP_balance_loss:
        return (double)a->balance_loss.counts.shape[0];
    case OP_take_bwd:
        return (double)a->take_bwd.k;
    case OP_combine:
        return (double)a->combine.gates.shape[1];
    case OP_combine_bwd: /* of a gate */
        return (double)a->combine_bwd.x.shape[1];
    case OP_gate_rows_bwd: /* of a logit */
        return (double)a->gate_rows_bwd.x.shape[1];
    case OP_linear_experts:
        return (double)a->linear_experts.x.shape[1];
    case OP_linear_experts_dx:
        return (double)a->linear_experts_dx.dy.shape[1];
    case OP_linear_experts_dw:
        return (double)a->linear_experts_dw.dy.shape[0];
    case OP_attention_sinks_bwd:
        return (double)(a->attention_sinks_bwd.o.shape[0] + a->attention_sinks_bwd.o.shape[1]);
    case OP_expert_bias_bwd:
        return (double)a->expert_bias_bwd.dy.shape[0];
    case OP_short_conv:
        return (double)a->short_conv.w.shape[2];
    case OP_short_conv_cached:
        return (double)a->short_conv_cached.w.shape[2];
    case OP_short_conv_bwd: /* of a weight: over rows */
        return (double)(a->short_conv_bwd.dy.shape[0] + a->short_conv_bwd.w.shape[2]);
    case OP_act_bwd:
        return a->act_bwd.dbias.ndim ? (double)a->act_bwd.slope.shape[0] : 4;
    case OP_norm:
        return (double)a->norm.x.shape[1];
    case OP_norm_bwd:
        return (double)(a->norm_bwd.dy.shape[0] + a->norm_bwd.dy.shape[1]);
    case OP_rms_norm:
        return (double)a->rms_norm.x.shape[1];
    case OP_rms_norm_bwd:
        return (double)(a->rms_norm_bwd.dy.shape[0] + a->rms_norm_bwd.dy.shape[1]);
    case OP_rotary:
        return a->rotary.q_gamma.ndim ? (double)a->rotary.q_gamma.shape[0] : 4;
    case OP_rotary_bwd: /* of a gamma: over rows, and over heads */
        return a->rotary_bwd.q_gamma.ndim
                   ? (double)(a->rotary_bwd.dy.shape[0] * a->rotary_bwd.heads) + (double)a->rotary_bwd.q_gamma.shape[0]
                   : 4;
    case OP_dora_norm:
        return (double)(a->dora_norm.a.shape[0] + a->dora_norm.a.shape[1]);
    case OP_dora_bwd:
        return (double)a->dora_bwd.z.shape[0];
    case OP_pool:
        return (double)a->pool.x.shape[0];
    case OP_embed_bwd:
        return (double)a->embed_bwd.dy.shape[0];
    case OP_cross_entropy:
        return (double)(a->cross_entropy.logits.shape[0] + a->cross_entropy.logits.shape[1]);
    case OP_cross_entropy_bwd:
        return (double)a->cross_entropy_bwd.logits.shape[1];
    case OP_span_loss:
        return (double)a->span_loss.logits.shape[0];
    case OP_span_loss_bwd:
        return (double)a->span_loss_bwd.logits.shape[0];
    case OP_sumsq:
        return SUMSQ_CHUNK;
    case OP_adafactor: /* of a row, a column, or the sum of U^2 */
        return (double)(a->adafactor.p.shape[0] + a->adafactor.p.shape[a->adafactor.p.ndim - 1]);
    case OP_adafactor_sums:
        return (double)(a->adafactor_sums.rows + a->adafactor_sums.columns);
    case OP_adafactor_squares:
        return (double)(a->adafactor_squares.rows + tensor_elements(&a->adafactor_squares.col));
    case OP_stable_adamw: /* the mean of g^2 / v */
        return (double)tensor_elements(&a->stable_adamw.p);
    case OP_linear_cross_entropy:
        return (double)(a->linear_cross_entropy.x.shape[0] + a->linear_cross_entropy.x.shape[1] +
                        a->linear_cross_entropy.w.shape[0]);
    case OP_mse:
    case OP_bce:
        return (double)(a->mse.logits.shape[0] * a->mse.logits.shape[1]);
    default:
        return 4;
    }
}

/* Of a type of 16 bits; rounding to F32 is among the UNITS. */
static inline double rounding(enum dtype t)
{
    return t == DT_BF16 ? UNIT_BF16 : t == DT_F16 ? UNIT_F16 : 0;
}

/* Allowed |y - reference|. `rms`: of the row or of the whole tensor, the larger; `narrow`: the policy's type. */
static inline double tolerance(enum op op, const union args_any *a, enum dtype type, enum dtype narrow,
                               double reference, double rms)
{
    double size = fmax(fabs(reference), rms);
    bool of_floats = op == OP_adafactor_sums || op == OP_adafactor_squares; /* what they sum is rounded to F32 */
    double unit = type == DT_F64 && !of_floats ? UNIT_F64 : UNIT_F32;
    double t = UNITS * unit * sqrt(sum_length(op, a) + 1) * size;
    t += 1.001 * rounding(type) * fabs(reference) + inner_roundings(op, a) * rounding(narrow) * size;
    if (type == DT_F16 || narrow == DT_F16)
        t += SMALLEST_F16;
    return t;
}

/* Gradient rules against central differences, both in F64: relative to the largest element. */
static const double GRADIENT_TOLERANCE = 1e-7;

#endif
