/* pass_update, and where pass_order puts its nodes; as pass.c. */
#include "text.h"

enum pass { ADAMW, EARLY, SCALED, ADAFACTOR, ADAFACTOR_BETA1, EIGHT_BIT, EIGHT_BIT_ALL, SGD, ORDER };

static void apply(struct graph *g, int p)
{
    bool factored = p == ADAFACTOR || p == ADAFACTOR_BETA1;
    struct update u = {.optimizer = p == SGD                               ? OPTIM_SGD
                                    : factored                             ? OPTIM_ADAFACTOR
                                    : p == EIGHT_BIT || p == EIGHT_BIT_ALL ? OPTIM_ADAMW_8BIT
                                                                           : OPTIM_ADAMW,
                       .min_8bit_size = 300,
                       .embeddings_8bit = p == EIGHT_BIT_ALL,
                       .adafactor = {.eps1 = 0.5,
                                     .eps2 = 0.25,
                                     .clip_threshold = 2,
                                     .decay_rate = -0.5,
                                     .beta1 = p == ADAFACTOR ? -1 : 0.75,
                                     .scale_parameter = true,
                                     .warmup_init = true},
                       .beta1 = 0.5,
                       .beta2 = 0.75,
                       .eps = 0.125,
                       .momentum = 0.5,
                       .weight_decay = 0.25,
                       .max_grad_norm = p == ADAMW ? 2 : 0,
                       .state_type = DT_F32};
    struct pass_settings s = {
        .update = u, .precision.narrow = p == SCALED ? DT_F16 : DT_F32, .choices.updates_at_end = p == SGD};
    if (p == ORDER)
        pass_order(g, &s);
    else
        pass_update(g, &s);
}

static void becomes(const char *before, enum pass p, const char *after)
{
    text_becomes(before, apply, p, after);
}

#define PARTIALS(flags) "%16 scalar F64[3] layer=0 in" flags "\n"
#define STATES                                                                                                         \
    "%19 state F32[9,4] \"exp_avg.table\" layer=0 of=exp_avg:%5 in keep\n"                                             \
    "%20 state F32[9,4] \"exp_avg_sq.table\" layer=0 of=exp_avg_sq:%5 in keep\n"                                       \
    "%21 state F32[2,4] \"exp_avg.proj.weight\" layer=1 of=exp_avg:%6 in keep\n"                                       \
    "%22 state F32[2,4] \"exp_avg_sq.proj.weight\" layer=1 of=exp_avg_sq:%6 in keep\n"                                 \
    "%23 state F32[2] \"exp_avg.proj.bias\" layer=1 of=exp_avg:%7 in keep\n"                                           \
    "%24 state F32[2] \"exp_avg_sq.proj.bias\" layer=1 of=exp_avg_sq:%7 in keep\n"
#define SUM_TABLE "sumsq(g=%11 partials=%16) at=0 layer=0\n"
#define SUM_PROJ "sumsq(g=%13 partials=%16) at=2 layer=1\nsumsq(g=%12 partials=%16) at=1 layer=1\n"
#define CLIP(norm)                                                                                                     \
    "%17 activation F32[1] \"grad_norm\" layer=1 exact out\n"                                                          \
    "%18 activation F32[1] layer=1 exact\n"                                                                            \
    "clip(partials=%16 norm=%17 coef=%18) max_norm=" norm " layer=1\n"
#define HYPER " beta1=0.5 beta2=0.75 eps=0.125 weight_decay="
#define UPDATE_TABLE(coef) "adamw(p=%5 g=%11 m=%19 v=%20 step=%4" coef ")" HYPER "0.25 decay_last=0 noise=0 layer=0\n"
#define UPDATE_PROJ(coef)                                                                                              \
    "adamw(p=%6 g=%12 m=%21 v=%22 step=%4" coef ")" HYPER "0.25 decay_last=0 noise=0 layer=1\n"                        \
    "adamw(p=%7 g=%13 m=%23 v=%24 step=%4" coef ")" HYPER "0 decay_last=0 noise=0 layer=1\n"
#define STEP INPUTS WEIGHTS GRADIENTS("") FORWARD BACKWARD("")

static void update_adds_norm_and_states(void **state)
{
    (void)state;
    becomes(STEP, ADAMW,
            INPUTS WEIGHTS GRADIENTS("") PARTIALS("") STATES FORWARD BACKWARD("") SUM_PROJ SUM_TABLE CLIP("2")
                UPDATE_TABLE(" coef=%18") UPDATE_PROJ(" coef=%18"));
    /* nothing is clipped, and a bad step ends the run: no update waits for the norm */
    becomes(STEP, EARLY,
            INPUTS WEIGHTS GRADIENTS("") PARTIALS(" out") STATES FORWARD BACKWARD("") SUM_PROJ SUM_TABLE CLIP("0")
                UPDATE_TABLE("") UPDATE_PROJ(""));
    /* nothing is clipped, but a bad step is to be skipped: they do */
    becomes(STEP, SGD,
            INPUTS WEIGHTS GRADIENTS("") PARTIALS(
                "") "%19 state F32[9,4] \"momentum_buffer.table\" layer=0 of=momentum_buffer:%5 in keep\n"
                    "%20 state F32[2,4] \"momentum_buffer.proj.weight\" layer=1 of=momentum_buffer:%6 in keep\n"
                    "%21 state F32[2] \"momentum_buffer.proj.bias\" layer=1 of=momentum_buffer:%7 in keep\n" FORWARD
                        BACKWARD("")
                            SUM_PROJ SUM_TABLE CLIP("0") "sgd(p=%5 g=%11 buf=%19 step=%4 coef=%18) momentum=0.5 "
                                                         "dampening=0 weight_decay=0.25 nesterov=0 noise=0 layer=0\n"
                                                         "sgd(p=%6 g=%12 buf=%20 step=%4 coef=%18) momentum=0.5 "
                                                         "dampening=0 weight_decay=0.25 nesterov=0 noise=0 layer=1\n"
                                                         "sgd(p=%7 g=%13 buf=%21 step=%4 coef=%18) momentum=0.5 "
                                                         "dampening=0 weight_decay=0 nesterov=0 noise=0 layer=1\n");
}

/* Under loss scaling the updates wait for the norm although nothing is clipped.
 * A copy of a weight is written with it. */
static void update_under_loss_scaling(void **state)
{
    (void)state;
    becomes("%1 input F64[8] \"step\" layer=0 in keep\n"
            "%2 weight F32[2,4] \"w\" layer=1 in keep\n"
            "%3 activation BF16[2,4] \"copy.w\" layer=1 of=copy:%2 in keep\n"
            "%4 gradient F32[2,4] \"grad.w\" layer=1 of=grad:%2 in keep\n",
            SCALED,
            "%1 input F64[8] \"step\" layer=0 in keep\n"
            "%2 weight F32[2,4] \"w\" layer=1 in keep\n"
            "%4 gradient F32[2,4] \"grad.w\" layer=1 of=grad:%2 in keep\n"
            "%5 scalar F64[1] layer=0 in\n"
            "%6 state F64[4] \"loss_scaler\" layer=0 init=first:65536:-1 in keep\n"
            "%9 state F32[2,4] \"exp_avg.w\" layer=1 of=exp_avg:%2 in keep\n"
            "%10 state F32[2,4] \"exp_avg_sq.w\" layer=1 of=exp_avg_sq:%2 in keep\n"
            "sumsq(g=%4 partials=%5) at=0 layer=1\n"
            "%7 activation F32[1] \"grad_norm\" layer=1 exact out\n"
            "%8 activation F32[1] layer=1 exact\n"
            "clip(partials=%5 scaler=%6 norm=%7 coef=%8) max_norm=0 layer=1\n"
            "%3 activation BF16[2,4] \"copy.w\" layer=1 of=copy:%2 in keep\n"
            "adamw(p=%2 g=%4 m=%9 v=%10 step=%1 coef=%8 copy=%3)" HYPER "0.25 decay_last=0 noise=0 layer=1\n");
}

/* A matrix has a state for its rows and one for its columns, a vector one of its own shape; with beta1 both have a first
 * moment. */
static void adafactor_factors_matrices(void **state)
{
    (void)state;
#define BEFORE                                                                                                         \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[2,3,4] \"w\" layer=1 in keep\n"                                                                     \
    "%3 weight F32[4] \"bias\" layer=1 in keep\n"                                                                      \
    "%4 gradient F32[2,3,4] \"grad.w\" layer=1 of=grad:%2 in keep\n"                                                   \
    "%5 gradient F32[4] \"grad.bias\" layer=1 of=grad:%3 in keep\n"
#define NORM                                                                                                           \
    "sumsq(g=%5 partials=%6) at=1 layer=1\n"                                                                           \
    "sumsq(g=%4 partials=%6) at=0 layer=1\n"                                                                           \
    "%7 activation F32[1] \"grad_norm\" layer=1 exact out\n"                                                           \
    "%8 activation F32[1] layer=1 exact\n"                                                                             \
    "clip(partials=%6 norm=%7 coef=%8) max_norm=0 layer=1\n"
#define FACTORS(beta1, decay)                                                                                          \
    " eps1=0.5 eps2=0.25 clip_threshold=2 decay_rate=-0.5 beta1=" beta1 " weight_decay=" decay                         \
    " scale_parameter=1 relative_step=0 warmup_init=1 noise=0 layer=1\n"
    becomes(BEFORE, ADAFACTOR,
            BEFORE "%6 scalar F64[2] layer=0 in out\n"
                   "%9 state F32[2,3] \"exp_avg_sq_row.w\" layer=1 of=exp_avg_sq_row:%2 in keep\n"
                   "%10 state F32[2,4] \"exp_avg_sq_col.w\" layer=1 of=exp_avg_sq_col:%2 in keep\n"
                   "%11 state F32[4] \"exp_avg_sq.bias\" layer=1 of=exp_avg_sq:%3 in keep\n" NORM
                   "adafactor(p=%2 g=%4 row=%9 col=%10 step=%1)" FACTORS(
                       "-1", "0.25") "adafactor(p=%3 g=%5 v=%11 step=%1)" FACTORS("-1", "0"));
    becomes(BEFORE, ADAFACTOR_BETA1,
            BEFORE "%6 scalar F64[2] layer=0 in out\n"
                   "%9 state F32[2,3] \"exp_avg_sq_row.w\" layer=1 of=exp_avg_sq_row:%2 in keep\n"
                   "%10 state F32[2,4] \"exp_avg_sq_col.w\" layer=1 of=exp_avg_sq_col:%2 in keep\n"
                   "%11 state F32[2,3,4] \"exp_avg.w\" layer=1 of=exp_avg:%2 in keep\n"
                   "%12 state F32[4] \"exp_avg_sq.bias\" layer=1 of=exp_avg_sq:%3 in keep\n"
                   "%13 state F32[4] \"exp_avg.bias\" layer=1 of=exp_avg:%3 in keep\n" NORM
                   "adafactor(p=%2 g=%4 row=%9 col=%10 m=%11 step=%1)" FACTORS(
                       "0.75", "0.25") "adafactor(p=%3 g=%5 v=%12 m=%13 step=%1)" FACTORS("0.75", "0"));
#undef BEFORE
#undef NORM
#undef FACTORS
}

/* Large tensors have states of 8 bits and a largest magnitude for each 256 elements; small ones, and embeddings unless
 * they are to, have the usual states, and all of them decay last. */
static void small_tensors_and_embeddings_keep_32_bits(void **state)
{
    (void)state;
#define BEFORE                                                                                                         \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[20,16] \"table\" layer=0 in keep table\n"                                                           \
    "%3 weight F32[20,15] \"w\" layer=1 in keep\n"                                                                     \
    "%4 weight F32[299] \"bias\" layer=1 in keep\n"                                                                    \
    "%5 gradient F32[20,16] \"grad.table\" layer=0 of=grad:%2 in keep\n"                                               \
    "%6 gradient F32[20,15] \"grad.w\" layer=1 of=grad:%3 in keep\n"                                                   \
    "%7 gradient F32[299] \"grad.bias\" layer=1 of=grad:%4 in keep\n"
#define NORM                                                                                                           \
    "sumsq(g=%7 partials=%8) at=2 layer=1\n"                                                                           \
    "sumsq(g=%6 partials=%8) at=1 layer=1\n"                                                                           \
    "sumsq(g=%5 partials=%8) at=0 layer=0\n"                                                                           \
    "%9 activation F32[1] \"grad_norm\" layer=1 exact out\n"                                                           \
    "%10 activation F32[1] layer=1 exact\n"                                                                            \
    "clip(partials=%8 norm=%9 coef=%10) max_norm=0 layer=1\n"
    becomes(BEFORE, EIGHT_BIT,
            BEFORE "%8 scalar F64[3] layer=0 in out\n"
                   "%11 state U8[20,15] \"exp_avg.w\" layer=1 of=exp_avg:%3 in keep\n"
                   "%12 state U8[20,15] \"exp_avg_sq.w\" layer=1 of=exp_avg_sq:%3 in keep\n"
                   "%13 state F32[2] \"exp_avg_absmax.w\" layer=1 of=exp_avg_absmax:%3 in keep\n"
                   "%14 state F32[2] \"exp_avg_sq_absmax.w\" layer=1 of=exp_avg_sq_absmax:%3 in keep\n"
                   "%15 state F32[20,16] \"exp_avg.table\" layer=0 of=exp_avg:%2 in keep\n"
                   "%16 state F32[20,16] \"exp_avg_sq.table\" layer=0 of=exp_avg_sq:%2 in keep\n"
                   "%17 state F32[299] \"exp_avg.bias\" layer=1 of=exp_avg:%4 in keep\n"
                   "%18 state F32[299] \"exp_avg_sq.bias\" layer=1 of=exp_avg_sq:%4 in keep\n" NORM
                   "adamw8bit(p=%3 g=%6 m=%11 v=%12 absmax_m=%13 absmax_v=%14 step=%1)" HYPER "0.25 noise=0 layer=1\n"
                   "adamw(p=%2 g=%5 m=%15 v=%16 step=%1)" HYPER "0.25 decay_last=1 noise=0 layer=0\n"
                   "adamw(p=%4 g=%7 m=%17 v=%18 step=%1)" HYPER "0 decay_last=1 noise=0 layer=1\n");
    becomes(BEFORE, EIGHT_BIT_ALL,
            BEFORE "%8 scalar F64[3] layer=0 in out\n"
                   "%11 state U8[20,16] \"exp_avg.table\" layer=0 of=exp_avg:%2 in keep\n"
                   "%12 state U8[20,16] \"exp_avg_sq.table\" layer=0 of=exp_avg_sq:%2 in keep\n"
                   "%13 state F32[2] \"exp_avg_absmax.table\" layer=0 of=exp_avg_absmax:%2 in keep\n"
                   "%14 state F32[2] \"exp_avg_sq_absmax.table\" layer=0 of=exp_avg_sq_absmax:%2 in keep\n"
                   "%15 state U8[20,15] \"exp_avg.w\" layer=1 of=exp_avg:%3 in keep\n"
                   "%16 state U8[20,15] \"exp_avg_sq.w\" layer=1 of=exp_avg_sq:%3 in keep\n"
                   "%17 state F32[2] \"exp_avg_absmax.w\" layer=1 of=exp_avg_absmax:%3 in keep\n"
                   "%18 state F32[2] \"exp_avg_sq_absmax.w\" layer=1 of=exp_avg_sq_absmax:%3 in keep\n"
                   "%19 state F32[299] \"exp_avg.bias\" layer=1 of=exp_avg:%4 in keep\n"
                   "%20 state F32[299] \"exp_avg_sq.bias\" layer=1 of=exp_avg_sq:%4 in keep\n" NORM
                   "adamw8bit(p=%2 g=%5 m=%11 v=%12 absmax_m=%13 absmax_v=%14 step=%1)" HYPER "0.25 noise=0 layer=0\n"
                   "adamw8bit(p=%3 g=%6 m=%15 v=%16 absmax_m=%17 absmax_v=%18 step=%1)" HYPER "0.25 noise=0 layer=1\n"
                   "adamw(p=%4 g=%7 m=%19 v=%20 step=%1)" HYPER "0 decay_last=1 noise=0 layer=1\n");
#undef BEFORE
#undef NORM
}

/* Whatever the optimizer, the 16-bit copy of a weight is written by the node that updates it. */
static void every_update_writes_the_copy(void **state)
{
    (void)state;
#define BEFORE                                                                                                         \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[20,15] \"w\" layer=1 in keep\n"                                                                     \
    "%3 copy BF16[20,15] \"copy.w\" layer=1 of=copy:%2 in out keep\n"                                                  \
    "%4 gradient F32[20,15] \"grad.w\" layer=1 of=grad:%2 in keep\n"
#define NORM                                                                                                           \
    "sumsq(g=%4 partials=%5) at=0 layer=1\n"                                                                           \
    "%6 activation F32[1] \"grad_norm\" layer=1 exact out\n"                                                           \
    "%7 activation F32[1] layer=1 exact\n"                                                                             \
    "clip(partials=%5 norm=%6 coef=%7) max_norm=0 layer=1\n"
    becomes(BEFORE, EIGHT_BIT,
            BEFORE "%5 scalar F64[1] layer=0 in out\n"
                   "%8 state U8[20,15] \"exp_avg.w\" layer=1 of=exp_avg:%2 in keep\n"
                   "%9 state U8[20,15] \"exp_avg_sq.w\" layer=1 of=exp_avg_sq:%2 in keep\n"
                   "%10 state F32[2] \"exp_avg_absmax.w\" layer=1 of=exp_avg_absmax:%2 in keep\n"
                   "%11 state F32[2] \"exp_avg_sq_absmax.w\" layer=1 of=exp_avg_sq_absmax:%2 in keep\n" NORM
                   "adamw8bit(p=%2 g=%4 m=%8 v=%9 absmax_m=%10 absmax_v=%11 step=%1 copy=%3)" HYPER
                   "0.25 noise=0 layer=1\n");
    becomes(
        BEFORE, ADAFACTOR,
        BEFORE
        "%5 scalar F64[1] layer=0 in out\n"
        "%8 state F32[20] \"exp_avg_sq_row.w\" layer=1 of=exp_avg_sq_row:%2 in keep\n"
        "%9 state F32[15] \"exp_avg_sq_col.w\" layer=1 of=exp_avg_sq_col:%2 in keep\n" NORM
        "adafactor(p=%2 g=%4 row=%8 col=%9 step=%1 copy=%3) eps1=0.5 eps2=0.25 clip_threshold=2 "
        "decay_rate=-0.5 beta1=-1 weight_decay=0.25 scale_parameter=1 relative_step=0 warmup_init=1 noise=0 layer=1\n");
    becomes(
        BEFORE, SGD,
        BEFORE
        "%5 scalar F64[1] layer=0 in\n"
        "%8 state F32[20,15] \"momentum_buffer.w\" layer=1 of=momentum_buffer:%2 in keep\n" NORM
        "sgd(p=%2 g=%4 buf=%8 step=%1 coef=%7 copy=%3) momentum=0.5 dampening=0 weight_decay=0.25 nesterov=0 noise=0 "
        "layer=1\n");
#undef BEFORE
#undef NORM
}

static bool decays(const char *name, bool norm)
{
    return update_decays(&(struct value){.name = name, .norm = norm});
}

/* What transformers' get_decay_parameter_names leaves out: parameters of LayerNorm modules, and names that match
 * bias, layernorm, rmsnorm, (?:^|\.)norm(?:$|\.), _norm(?:$|\.). */
static void decay_leaves_out_norms_and_biases(void **state)
{
    (void)state;
    static const char *const decayed[] = {
        "bert.embeddings.word_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight",
        "bert.encoder.layer.0.attention.self.query.weight",
        "classifier.weight",
        "transformer.wte.weight",
        "transformer.h.11.attn.c_attn.weight",
        "transformer.h.0.mlp.c_proj.weight",
        "normal.weight",
        "encoder.normalizer.weight",
        "encoder.abnorm.weight",
    };
    static const char *const kept[] = {
        "bert.embeddings.LayerNorm.weight",
        "bert.embeddings.LayerNorm.bias",
        "bert.encoder.layer.3.output.dense.bias",
        "cls.predictions.bias",
        "cls.predictions.transform.LayerNorm.weight",
        "model.norm.weight",
        "norm.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.q_norm.weight",
        "block.RMSNorm.weight",
        "encoder.norm",
    };
    for (size_t i = 0; i < sizeof decayed / sizeof *decayed; i++)
        if (!decays(decayed[i], false))
            fail_msg("%s", decayed[i]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (decays(kept[i], false))
            fail_msg("%s", kept[i]);
    assert_false(decays("transformer.h.0.ln_1.weight", true));
    /* it keeps nothing between calls, which sessions in other threads would see: a strtok under way goes on */
    char words[] = "a.b";
    assert_string_equal(strtok(words, "."), "a");
    decays("model.norm.weight", false);
    assert_string_equal(strtok(NULL, "."), "b");
}

/* Sums of squares stand together before the norm, and clipped updates behind it. Where an update need not wait, both
 * stand behind their layer's backward nodes. */
static void order_lets_gradients_die_early(void **state)
{
    (void)state;
#define UNTIL_DW                                                                                                       \
    "%14 activation F32[T,2] layer=2\n"                                                                                \
    "mse_bwd(logits=%9 labels=%3 step=%4 dlogits=%14) layer=2 backward\n"                                              \
    "linear_dw(dy=%14 x=%8 dw=%12 db=%13) in_out=0 layer=1 backward\n"
#define DX                                                                                                             \
    "%15 activation F32[T,4] layer=1\n"                                                                                \
    "linear_dx(dy=%14 w=%6 dx=%15) in_out=0 layer=1 backward\n"
#define EMBED_BWD "embed_bwd(ids=%1 dy=%15 cu=%2 dtable=%11) still=0 layer=0 backward\n"
    becomes(INPUTS WEIGHTS GRADIENTS("") PARTIALS("") STATES FORWARD BACKWARD("") SUM_PROJ SUM_TABLE CLIP("2")
                UPDATE_TABLE(" coef=%18") UPDATE_PROJ(" coef=%18"),
            ORDER,
            INPUTS WEIGHTS GRADIENTS("") PARTIALS("") STATES FORWARD UNTIL_DW DX EMBED_BWD SUM_PROJ SUM_TABLE CLIP("2")
                UPDATE_TABLE(" coef=%18") UPDATE_PROJ(" coef=%18"));
    becomes(INPUTS WEIGHTS GRADIENTS("") PARTIALS(" out") STATES FORWARD BACKWARD("") SUM_PROJ SUM_TABLE CLIP("0")
                UPDATE_TABLE("") UPDATE_PROJ(""),
            ORDER,
            INPUTS WEIGHTS GRADIENTS("") PARTIALS(" out") STATES FORWARD UNTIL_DW DX SUM_PROJ UPDATE_PROJ("")
                EMBED_BWD SUM_TABLE UPDATE_TABLE("") CLIP("0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_adds_norm_and_states),    cmocka_unit_test(update_under_loss_scaling),
        cmocka_unit_test(adafactor_factors_matrices),     cmocka_unit_test(small_tensors_and_embeddings_keep_32_bits),
        cmocka_unit_test(every_update_writes_the_copy),   cmocka_unit_test(decay_leaves_out_norms_and_biases),
        cmocka_unit_test(order_lets_gradients_die_early),
    };
    return cmocka_run_group_tests_name("update", tests, NULL, NULL);
}
