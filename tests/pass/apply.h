/* apply.h: the passes that tests name, over programs in text. The expected texts were derived by hand from the contracts in
 * pass/pass.h and the gradient rules of the ops; the programs of whole models are tested by what they compute (tests/run). */
#ifndef TEST_PASS_APPLY_H
#define TEST_PASS_APPLY_H

#include "text.h"

enum pass {
    FREEZE,
    GRAD,
    ACCUMULATE,
    FOLD_BIAS,
    FOLD_ACT,
    BF16,
    BF16_WIDE_GRADS,
    F64,
    BF16_COPIES,
    BF16_BIAS_COPIES,
    PURE,
    PURE_BIAS,
    PURE_TEXT,
    KEEP_MASK,
    KEEP_MASK_OF_3,
    KEEP_NO_MASK,
    EVERY_1,
    EVERY_2,
    EVERY_3,
    PAD,
    ORDER
};

static inline bool heads_of_2(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return n->heads == 2 && head_size == 2 && type == DT_F32;
}

static inline bool heads_of_3(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return n->heads == 2 && head_size == 3 && type == DT_F32;
}

static inline void apply(struct graph *g, int p)
{
    bool copies = p == BF16_COPIES || p == BF16_BIAS_COPIES, pure = p == PURE || p == PURE_BIAS || p == PURE_TEXT;
    struct pass_settings s = {
        .program = p == ACCUMULATE  ? PROGRAM_NEXT
                   : p == PURE_TEXT ? PROGRAM_GENERATION
                                    : PROGRAM_STEP,
        .loss = graph_find(g, "loss"),
        .freeze = "proj.weight,*.quer[xyz].weight,table",
        .precision = {.wide = p == F64 ? DT_F64 : DT_F32,
                      .narrow = p == F64 ? DT_F64 : DT_BF16,
                      .pure = pure,
                      .narrow_grads = p == BF16 || p == F64 || pure},
        .choices = {.keep_masks = true, .copies = copies, .recompute_every_n = p - EVERY_1 + 1},
        .reads_mask = p == KEEP_MASK        ? heads_of_2
                      : p == KEEP_MASK_OF_3 ? heads_of_3
                                            : NULL,
        .narrow_bias = p == BF16_BIAS_COPIES || p == PURE_BIAS,
        .product_sizes = 64,
    };
    switch (p) {
    case FREEZE:
        pass_freeze(g, &s);
        break;
    case GRAD:
    case ACCUMULATE:
        pass_grad(g, &s);
        break;
    case FOLD_BIAS:
        pass_fold_bias(g, &s);
        break;
    case FOLD_ACT:
        pass_fold_act(g, &s);
        break;
    case BF16:
    case BF16_WIDE_GRADS:
    case BF16_COPIES:
    case BF16_BIAS_COPIES:
    case PURE:
    case PURE_BIAS:
    case PURE_TEXT:
    case F64:
        pass_precision(g, &s);
        pass_materialize(g, &s);
        break;
    case KEEP_MASK:
    case KEEP_MASK_OF_3:
    case KEEP_NO_MASK:
        pass_keep_mask(g, &s);
        break;
    case EVERY_1:
    case EVERY_2:
    case EVERY_3:
        pass_recompute(g, &s);
        break;
    case PAD:
        pass_pad(g, &s);
        break;
    case ORDER:
        pass_order(g, &s);
    }
}

static inline void becomes(const char *before, enum pass p, const char *after)
{
    text_becomes(before, apply, p, after);
}

#endif
