/* The passes but for pass_update (update.c), text in, text out. The expected texts were derived by hand from the contracts in
 * pass/pass.h and the gradient rules of the ops; the programs of whole models are tested by what they compute (tests/run). */
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
    KEEP_MASK,
    KEEP_MASK_OF_3,
    KEEP_NO_MASK,
    EVERY_1,
    EVERY_2,
    EVERY_3,
    PAD,
    ORDER
};

static bool heads_of_2(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return n->heads == 2 && head_size == 2 && type == DT_F32;
}

static bool heads_of_3(const struct op_attention_bwd *n, int64_t head_size, enum dtype type)
{
    return n->heads == 2 && head_size == 3 && type == DT_F32;
}

static void apply(struct graph *g, int p)
{
    bool copies = p == BF16_COPIES || p == BF16_BIAS_COPIES;
    struct pass_settings s = {
        .program = p == ACCUMULATE ? PROGRAM_NEXT : PROGRAM_STEP,
        .loss = graph_find(g, "loss"),
        .freeze = "proj.weight,*.quer[xyz].weight,table",
        .precision = {.wide = p == F64 ? DT_F64 : DT_F32,
                      .narrow = p == F64 ? DT_F64 : DT_BF16,
                      .narrow_grads = p == BF16 || p == F64},
        .choices = {.keep_masks = true, .copies = copies, .recompute_every_n = p - EVERY_1 + 1},
        .reads_mask = p == KEEP_MASK        ? heads_of_2
                      : p == KEEP_MASK_OF_3 ? heads_of_3
                                            : NULL,
        .narrow_bias = p == BF16_BIAS_COPIES,
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

static void becomes(const char *before, enum pass p, const char *after)
{
    text_becomes(before, apply, p, after);
}

/* ---- The backward pass. */

static void grad_emits_the_backward_pass(void **state)
{
    (void)state;
    becomes(INPUTS WEIGHTS FORWARD, GRAD, INPUTS WEIGHTS GRADIENTS("") FORWARD BACKWARD(""));
    becomes(INPUTS WEIGHTS FORWARD, ACCUMULATE, INPUTS WEIGHTS GRADIENTS(" in out keep") FORWARD BACKWARD("+"));
}

/* One weight twice, and a value that two nodes read: the second contribution is added. The parts of a group have their
 * gradients in the group's. A weight that nobody reads has none. */
static void grad_adds_contributions(void **state)
{
    (void)state;
    becomes("%1 input F32[T,2] \"x\" layer=0 in keep\n"
            "%2 input F32[T,2] \"labels\" layer=0 in keep\n"
            "%3 input F64[8] \"step\" layer=0 in keep\n"
            "%4 weight F32[4,2] \"pair\" layer=1 in keep group\n"
            "%5 weight F32[2,2] \"a\" layer=1 slice=%4+0 in keep\n"
            "%6 weight F32[2,2] \"b\" layer=1 slice=%4+4 in keep\n"
            "%7 weight F32[2,2] \"twice\" layer=1 in keep\n"
            "%8 weight F32[2,2] \"unread\" layer=1 in keep\n"
            "%9 activation F32[T,2] layer=1\n"
            "linear(x=%1 w=%7 y=%9) act=none in_out=0 layer=1\n"
            "%10 activation F32[T,4] layer=1\n"
            "linear(x=%9 w=%4 y=%10) act=none in_out=0 layer=1\n"
            "%11 activation F32[T,2] layer=1\n"
            "linear(x=%9 w=%7 y=%11) act=none in_out=0 layer=1\n"
            "%12 activation F32[1] \"loss\" layer=2 exact out\n"
            "mse(logits=%11 labels=%2 step=%3 loss=%12) layer=2\n",
            GRAD,
            "%1 input F32[T,2] \"x\" layer=0 in keep\n"
            "%2 input F32[T,2] \"labels\" layer=0 in keep\n"
            "%3 input F64[8] \"step\" layer=0 in keep\n"
            "%4 weight F32[4,2] \"pair\" layer=1 in keep group\n"
            "%5 weight F32[2,2] \"a\" layer=1 slice=%4+0 in keep\n"
            "%6 weight F32[2,2] \"b\" layer=1 slice=%4+4 in keep\n"
            "%7 weight F32[2,2] \"twice\" layer=1 in keep\n"
            "%8 weight F32[2,2] \"unread\" layer=1 in keep\n"
            "%13 gradient F32[4,2] \"grad.pair\" layer=1 of=grad:%4 group\n"
            "%14 gradient F32[2,2] \"grad.a\" layer=1 slice=%13+0 of=grad:%5\n"
            "%15 gradient F32[2,2] \"grad.b\" layer=1 slice=%13+4 of=grad:%6\n"
            "%16 gradient F32[2,2] \"grad.twice\" layer=1 of=grad:%7\n"
            "%9 activation F32[T,2] layer=1\n"
            "linear(x=%1 w=%7 y=%9) act=none in_out=0 layer=1\n"
            "%10 activation F32[T,4] layer=1\n"
            "linear(x=%9 w=%4 y=%10) act=none in_out=0 layer=1\n"
            "%11 activation F32[T,2] layer=1\n"
            "linear(x=%9 w=%7 y=%11) act=none in_out=0 layer=1\n"
            "%12 activation F32[1] \"loss\" layer=2 exact out\n"
            "mse(logits=%11 labels=%2 step=%3 loss=%12) layer=2\n"
            "%17 activation F32[T,2] layer=2\n"
            "mse_bwd(logits=%11 labels=%2 step=%3 dlogits=%17) layer=2 backward\n"
            "linear_dw(dy=%17 x=%9 dw=%16) in_out=0 layer=1 backward\n"
            "%18 activation F32[T,2] layer=1\n"
            "linear_dx(dy=%17 w=%7 dx=%18) in_out=0 layer=1 backward\n"
            /* nothing of the loss comes through %10; what reaches %9 is all there */
            "linear_dw(dy=%18 x=%1 dw+=%16) in_out=0 layer=1 backward\n");
}

/* ---- Weights that are not trained. */

#define WEIGHTS_ALONE(flag)                                                                                            \
    "%1 weight F32[9,4] \"table\" layer=0 in keep" flag "\n%2 weight F32[2,4] \"proj.weight\" layer=1 in keep" flag    \
    "\n%3 weight F32[2] \"proj.bias\" layer=1 in keep\n"
#define FROZEN_WEIGHTS                                                                                                 \
    "%5 weight F32[9,4] \"table\" layer=0 in keep frozen\n"                                                            \
    "%6 weight F32[2,4] \"proj.weight\" layer=1 in keep frozen\n"                                                      \
    "%7 weight F32[2] \"proj.bias\" layer=1 in keep\n"

static void what_matches_is_frozen(void **state)
{
    (void)state;
#define GROUP(a, b, c)                                                                                                 \
    "%1 weight F32[4,2] \"l.both.weight\" layer=0 in keep group" a                                                     \
    "\n%2 weight F32[2,2] \"l.query.weight\" layer=0 slice=%1+0 in keep" b                                             \
    "\n%3 weight F32[2,2] \"l.key.weight\" layer=0 slice=%1+4 in keep" c "\n"
    becomes(WEIGHTS_ALONE(""), FREEZE, WEIGHTS_ALONE(" frozen"));
    becomes(GROUP("", "", ""), FREEZE, GROUP("", " frozen", ""));
#define WHOLE(flag)                                                                                                    \
    "%1 weight F32[4,2] \"all\" layer=0 in keep group" flag                                                            \
    "\n%2 weight F32[4,2] \"a.b.query.weight\" layer=0 slice=%1+0 in keep" flag "\n"
    becomes(WHOLE(""), FREEZE, WHOLE(" frozen"));
}

/* Of the three weights only the bias of the product is trained: its gradient is all there is of the backward pass. */
static void frozen_weights_have_no_backward_pass(void **state)
{
    (void)state;
    becomes(INPUTS FROZEN_WEIGHTS FORWARD, GRAD,
            INPUTS FROZEN_WEIGHTS "%11 gradient F32[2] \"grad.proj.bias\" layer=1 of=grad:%7\n" FORWARD
                                  "%12 activation F32[T,2] layer=2\n"
                                  "mse_bwd(logits=%9 labels=%3 step=%4 dlogits=%12) layer=2 backward\n"
                                  "linear_dw(dy=%12 x=%8 db=%11) in_out=0 layer=1 backward\n");
}

/* A part of a part: its gradient lies in that of the part. */
static void gradients_have_the_slices_of_their_weights(void **state)
{
    (void)state;
#define NESTED                                                                                                         \
    "%1 input F32[T,2] \"x\" layer=0 in keep\n"                                                                        \
    "%2 input F32[T,6] \"labels\" layer=0 in keep\n"                                                                   \
    "%3 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%4 weight F32[6,2] \"all\" layer=1 in keep group\n"                                                               \
    "%5 weight F32[4,2] \"pair\" layer=1 slice=%4+4 in keep group\n"                                                   \
    "%6 weight F32[2,2] \"b\" layer=1 slice=%5+4 in keep\n"
#define NESTED_FORWARD                                                                                                 \
    "%7 activation F32[T,6] layer=1\n"                                                                                 \
    "linear(x=%1 w=%4 y=%7) act=none in_out=0 layer=1\n"                                                               \
    "%8 activation F32[1] \"loss\" layer=2 exact out\n"                                                                \
    "mse(logits=%7 labels=%2 step=%3 loss=%8) layer=2\n"
    becomes(NESTED NESTED_FORWARD, GRAD,
            NESTED "%9 gradient F32[6,2] \"grad.all\" layer=1 of=grad:%4 group\n"
                   "%10 gradient F32[4,2] \"grad.pair\" layer=1 slice=%9+4 of=grad:%5 group\n"
                   "%11 gradient F32[2,2] \"grad.b\" layer=1 slice=%10+4 of=grad:%6\n" NESTED_FORWARD
                   "%12 activation F32[T,6] layer=2\n"
                   "mse_bwd(logits=%7 labels=%2 step=%3 dlogits=%12) layer=2 backward\n"
                   "linear_dw(dy=%12 x=%1 dw=%9) in_out=0 layer=1 backward\n");
}

/* ---- Bias gradients. */

#define FOLD_VALUES                                                                                                    \
    "%1 input F32[T,4] \"slope\" layer=0 in keep\n"                                                                    \
    "%2 input F32[T,4] \"dy\" layer=0 in keep\n"                                                                       \
    "%3 input F32[T,2] \"x\" layer=0 in keep\n"                                                                        \
    "%4 input F32[4] \"gamma\" layer=0 in keep\n"                                                                      \
    "%5 input F32[T] \"mean\" layer=0 in keep\n"                                                                       \
    "%6 gradient F32[4,2] \"grad.w\" layer=1 out\n"                                                                    \
    "%7 gradient F32[4] \"grad.b\" layer=1"
#define FOLDED_ACT(sums) "act_bwd(slope=%1 dy=%2 du=%8" sums ") layer=1 backward\n"
#define FOLDED_NORM(to, sums) "norm_bwd(dy=%1 h=%2 gamma=%4 mean=%5 rstd=%5 " to sums ") p=0 site=0 layer=1 backward\n"
#define DW(dy, sums) "linear_dw(dy=" dy " x=%3 dw=%6" sums ") in_out=0 layer=1 backward\n"
#define OUT_8 "%8 activation F32[T,4] layer=1\n"

static void a_bias_gradient_moves_to_the_writer_of_its_rows(void **state)
{
    (void)state;
    becomes(FOLD_VALUES " out\n" OUT_8 FOLDED_ACT("") DW("%8", " db=%7"), FOLD_BIAS,
            FOLD_VALUES " out\n" OUT_8 FOLDED_ACT(" dbias=%7") DW("%8", ""));
    becomes(FOLD_VALUES " out\n" OUT_8 FOLDED_NORM("dx=%8", "") DW("%8", " db=%7"), FOLD_BIAS,
            FOLD_VALUES " out\n" OUT_8 FOLDED_NORM("dx=%8", " dbias=%7") DW("%8", ""));
    /* accumulated: so it is there */
    becomes(FOLD_VALUES " in out keep\n" OUT_8 FOLDED_ACT("") DW("%8", " db+=%7"), FOLD_BIAS,
            FOLD_VALUES " in out keep\n" OUT_8 FOLDED_ACT(" dbias+=%7") DW("%8", ""));
}

#define QKV_VALUES                                                                                                     \
    "%1 input F32[T,6] \"qkv\" layer=0 in keep\n"                                                                      \
    "%2 input F32[T,2] \"o\" layer=0 in keep\n"                                                                        \
    "%3 input F32[1,T] \"lse\" layer=0 in keep\n"                                                                      \
    "%4 input I32[B+1] \"cu\" layer=0 in keep\n"                                                                       \
    "%5 gradient F32[6,2] \"grad.w\" layer=1 out\n"                                                                    \
    "%6 gradient F32[6] \"grad.b\" layer=1 out\n"                                                                      \
    "%7 activation F32[T,6] layer=1\n"
#define ATTENTION_BWD(sums)                                                                                            \
    "attention_bwd(qkv=%1 o=%2 lse=%3 dout=%2 cu=%4 dqkv=%7" sums                                                      \
    ") heads=1 kv_heads=1 causal=0 scale=1 p=0 site=0 longest=0 queries=0 layer=1 backward\n"

static void so_does_that_of_query_key_and_value(void **state)
{
    (void)state;
    becomes(QKV_VALUES ATTENTION_BWD("") "linear_dw(dy=%7 x=%2 dw=%5 db=%6) in_out=0 layer=1 backward\n", FOLD_BIAS,
            QKV_VALUES ATTENTION_BWD(" dbias=%6") "linear_dw(dy=%7 x=%2 dw=%5) in_out=0 layer=1 backward\n");
}

static void a_bias_gradient_stays_where_its_rows_are_not_one_nodes(void **state)
{
    (void)state;
    static const char *const same[] = {
        /* the gradient of what bypasses the dropout is not that of the product */
        FOLD_VALUES " out\n" OUT_8 FOLDED_NORM("dres=%8", "") DW("%8", " db=%7"),
        /* another node adds to dy */
        FOLD_VALUES " out\n" OUT_8 FOLDED_NORM("dx=%8", "") FOLDED_NORM("dx+=%8", "") DW("%8", " db=%7"),
        /* dy comes from outside */
        FOLD_VALUES " out\n" DW("%1", " db=%7"),
        /* something in between writes the same gradient */
        FOLD_VALUES
        " out\n" OUT_8 FOLDED_ACT("") "linear_dw(dy=%1 x=%3 db=%7) in_out=0 layer=1 backward\n" DW("%8", " db+=%7"),
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        becomes(same[i], FOLD_BIAS, same[i]);
}

/* ---- The gradient of an activation. */

#define ACT_VALUES                                                                                                     \
    "%1 input F32[T,3] \"dy\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[3,4] \"w\" layer=2 in keep\n"                                                                       \
    "%3 input F32[T,4] \"slope\" layer=0 in keep\n"                                                                    \
    "%4 gradient F32[4] \"grad.b\" layer=1 in out keep\n"
#define OF_PRODUCT "%6 activation F32[T,4] layer=2\nlinear_dx(dy=%1 w=%2 dx=%6) in_out=0 layer=2 backward\n"
#define DU "%5 activation F32[T,4] layer=1 out\n"
#define OF_ACT(sums) DU "act_bwd(slope=%3 dy=%6 du=%5" sums ") layer=1 backward\n"

static void a_product_and_the_gradient_of_an_activation_become_one(void **state)
{
    (void)state;
    becomes(ACT_VALUES OF_PRODUCT OF_ACT(" dbias+=%4"), FOLD_ACT,
            ACT_VALUES DU "linear_dx_act(dy=%1 w=%2 slope=%3 du=%5 dbias+=%4) in_out=0 layer=1 backward\n");
    /* the gradient between them is read or made elsewhere too, or wanted */
    static const char *const same[] = {
        ACT_VALUES OF_PRODUCT OF_ACT("") "%7 activation F32[T,4] layer=1 out\n"
                                         "act_bwd(slope=%3 dy=%6 du=%7) layer=1 backward\n",
        ACT_VALUES OF_PRODUCT "linear_dx(dy=%1 w=%2 dx+=%6) in_out=0 layer=2 backward\n" OF_ACT(""),
        ACT_VALUES "%6 activation F32[T,4] layer=2 out\n"
                   "linear_dx(dy=%1 w=%2 dx=%6) in_out=0 layer=2 backward\n" OF_ACT(""),
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        becomes(same[i], FOLD_ACT, same[i]);
}

/* ---- Precision. */

static void f64_changes_nothing_but_types(void **state)
{
    (void)state;
    becomes("%1 input I32[T] \"input_ids\" layer=0 in keep\n"
            "%2 weight F32[9,4] \"table\" layer=0 in keep\n"
            "%3 activation F32[T,4] layer=0 out\n"
            "embed(ids=%1 table=%2 y=%3) layer=0\n",
            F64,
            "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
            "%2 weight F64[9,4] \"table\" layer=0 in keep\n"
            "%3 activation F64[T,4] layer=0 out\n"
            "embed(ids=%1 table=%2 y=%3) layer=0\n");
}

/* Activations over tokens are narrow. A product's weight is cast for each of its uses; a table, a bias, labels and the
 * loss are not. The gradient of the product's weight is narrow where it may be; that of bias and table is not. */
#define NARROW_FORWARD                                                                                                 \
    "%8 activation BF16[T,4] layer=0\n"                                                                                \
    "embed(ids=%1 table=%5 y=%8) layer=0\n"                                                                            \
    "%16 activation BF16[2,4] layer=1\n"                                                                               \
    "cast(x=%6 y=%16) layer=1\n"                                                                                       \
    "%9 activation BF16[T,2] layer=1\n"                                                                                \
    "linear(x=%8 w=%16 b=%7 y=%9) act=none in_out=0 layer=1\n"                                                         \
    "%10 activation F32[1] \"loss\" layer=2 exact out\n"                                                               \
    "mse(logits=%9 labels=%3 step=%4 loss=%10) layer=2\n"
#define NARROW_BACKWARD                                                                                                \
    "%14 activation BF16[T,2] layer=2\n"                                                                               \
    "mse_bwd(logits=%9 labels=%3 step=%4 dlogits=%14) layer=2 backward\n"                                              \
    "linear_dw(dy=%14 x=%8 dw=%12 db=%13) in_out=0 layer=1 backward\n"                                                 \
    "%17 activation BF16[2,4] layer=1\n"                                                                               \
    "cast(x=%6 y=%17) layer=1 backward\n"                                                                              \
    "%15 activation BF16[T,4] layer=1\n"                                                                               \
    "linear_dx(dy=%14 w=%17 dx=%15) in_out=0 layer=1 backward\n"                                                       \
    "embed_bwd(ids=%1 dy=%15 cu=%2 dtable=%11) layer=0 backward\n"

static void bf16_narrows_what_lies_between_ops(void **state)
{
    (void)state;
    becomes(INPUTS WEIGHTS GRADIENTS("") FORWARD BACKWARD(""), BF16,
            INPUTS WEIGHTS
            "%11 gradient F32[9,4] \"grad.table\" layer=0 of=grad:%5\n"
            "%12 gradient BF16[2,4] \"grad.proj.weight\" layer=1 of=grad:%6\n"
            "%13 gradient F32[2] \"grad.proj.bias\" layer=1 of=grad:%7\n" NARROW_FORWARD NARROW_BACKWARD);
    becomes(INPUTS WEIGHTS GRADIENTS("") FORWARD BACKWARD(""), BF16_WIDE_GRADS,
            INPUTS WEIGHTS GRADIENTS("") NARROW_FORWARD NARROW_BACKWARD);
}

/* Copies that are kept stand in the place of those casts; and one of the bias, where the backend takes it. */
#define COPY_OF_WEIGHT "%11 copy BF16[2,4] \"copy.proj.weight\" layer=1 of=copy:%6 in out keep\n"
#define COPY_OF_BIAS "%12 copy BF16[2] \"copy.proj.bias\" layer=1 of=copy:%7 in out keep\n"
#define WITH_COPIES(b)                                                                                                 \
    "%8 activation BF16[T,4] layer=0\n"                                                                                \
    "embed(ids=%1 table=%5 y=%8) layer=0\n"                                                                            \
    "%9 activation BF16[T,2] layer=1\n"                                                                                \
    "linear(x=%8 w=%11 b=" b " y=%9) act=none in_out=0 layer=1\n"                                                      \
    "%10 activation F32[1] \"loss\" layer=2 exact out\n"                                                               \
    "mse(logits=%9 labels=%3 step=%4 loss=%10) layer=2\n"

static void bf16_keeps_copies(void **state)
{
    (void)state;
    becomes(INPUTS WEIGHTS FORWARD, BF16_COPIES, INPUTS WEIGHTS COPY_OF_WEIGHT WITH_COPIES("%7"));
    becomes(INPUTS WEIGHTS FORWARD, BF16_BIAS_COPIES, INPUTS WEIGHTS COPY_OF_WEIGHT COPY_OF_BIAS WITH_COPIES("%12"));
}

/* Over sequences nothing is narrow: casts stand where the two meet. A gradient with two writers stays wide. */
static void bf16_casts_between_tokens_and_sequences(void **state)
{
    (void)state;
    becomes("%1 input I32[T] \"input_ids\" layer=0 in keep\n"
            "%2 input I32[B+1] \"cu_seqlens\" layer=0 in keep\n"
            "%3 weight F32[9,4] \"table\" layer=0 in keep\n"
            "%4 gradient F32[4,4] \"grad.w\" layer=2 out\n"
            "%5 activation F32[T,4] layer=0\n"
            "embed(ids=%1 table=%3 y=%5) layer=0\n"
            "%6 activation F32[B,4] layer=2\n"
            "gather(x=%5 cu=%2 y=%6) last=0 layer=2\n"
            "%7 activation F32[T,4] layer=2\n"
            "gather_bwd(dy=%6 cu=%2 dx=%7) last=0 layer=2 backward\n"
            "linear_dw(dy=%7 x=%5 dw=%4) in_out=0 layer=2 backward\n"
            "linear_dw(dy=%5 x=%7 dw+=%4) in_out=0 layer=2 backward\n",
            BF16,
            "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
            "%2 input I32[B+1] \"cu_seqlens\" layer=0 in keep\n"
            "%3 weight F32[9,4] \"table\" layer=0 in keep\n"
            "%4 gradient F32[4,4] \"grad.w\" layer=2 out\n"
            "%5 activation BF16[T,4] layer=0\n"
            "embed(ids=%1 table=%3 y=%5) layer=0\n"
            "%8 activation BF16[B,4] layer=2\n"
            "gather(x=%5 cu=%2 y=%8) last=0 layer=2\n"
            "%6 activation F32[B,4] layer=2\n"
            "cast(x=%8 y=%6) layer=2\n"
            "%9 activation BF16[B,4] layer=2\n"
            "cast(x=%6 y=%9) layer=2 backward\n"
            "%7 activation BF16[T,4] layer=2\n"
            "gather_bwd(dy=%9 cu=%2 dx=%7) last=0 layer=2 backward\n"
            "linear_dw(dy=%7 x=%5 dw=%4) in_out=0 layer=2 backward\n"
            "linear_dw(dy=%5 x=%7 dw+=%4) in_out=0 layer=2 backward\n");
}

/* ---- Kept dropout masks. */

/* The room for it is there from the start; where nobody reads it, `order` takes it away. */
static void a_mask_is_kept_for_who_reads_it(void **state)
{
    (void)state;
#define ATTRIBUTES " heads=2 kv_heads=2 causal=0 scale=0.5 p=0.25 site=1 longest=100 queries=0 layer=1"
#define ROOM "%8 activation U8[T+15B,32] layer=1 exact\n"
#define ATTENTION(room, written, read)                                                                                 \
    "%1 input I32[B+1] \"cu_seqlens\" layer=0 in keep\n"                                                               \
    "%2 input I32[T,2] \"coords\" layer=0 in keep\n"                                                                   \
    "%3 input I32[4] \"rng\" layer=0 in keep\n"                                                                        \
    "%4 input F32[T,12] \"qkv\" layer=0 in keep\n"                                                                     \
    "%5 input F32[T,4] \"dout\" layer=0 in keep\n"                                                                     \
    "%6 activation F32[T,4] layer=1\n"                                                                                 \
    "%7 activation F32[2,T] layer=1 exact\n" room "attention(qkv=%4 cu=%1 coords=%2 rng=%3 o=%6 lse=%7" written        \
    ")" ATTRIBUTES "\n"                                                                                                \
    "%9 activation F32[T,12] layer=1 out\n"                                                                            \
    "attention_bwd(qkv=%4 o=%6 lse=%7 dout=%5 cu=%1 coords=%2 rng=%3" read " dqkv=%9)" ATTRIBUTES " backward\n"
    becomes(ATTENTION(ROOM, " mask=%8", " mask=%8"), KEEP_MASK, ATTENTION(ROOM, " mask=%8", " mask=%8"));
    becomes(ATTENTION(ROOM, " mask=%8", " mask=%8"), KEEP_MASK_OF_3, ATTENTION(ROOM, " mask=%8", ""));
    becomes(ATTENTION(ROOM, " mask=%8", " mask=%8"), KEEP_NO_MASK, ATTENTION(ROOM, " mask=%8", ""));
    becomes(ATTENTION(ROOM, " mask=%8", ""), ORDER, ATTENTION("", "", ""));
}

/* ---- Order. */

/* What leads to nothing goes, and so does an output that may be left out. */
static void order_drops_what_nobody_needs(void **state)
{
    (void)state;
    becomes("%1 input F32[T,4] \"x\" layer=0 in keep\n"
            "%2 weight F32[4,4] \"w\" layer=0 in keep\n"
            "%3 activation F32[T,4] layer=0 out\n"
            "%4 activation F32[T,4] layer=0\n"
            "linear(x=%1 w=%2 y=%3 slope=%4) act=relu in_out=0 layer=0\n"
            "%5 activation F32[T,4] layer=0\n"
            "linear(x=%3 w=%2 y=%5) act=none in_out=0 layer=0\n"
            "%6 activation F32[T,4] layer=0\n"
            "linear(x=%5 w=%2 y=%6) act=none in_out=0 layer=0\n",
            ORDER,
            "%1 input F32[T,4] \"x\" layer=0 in keep\n"
            "%2 weight F32[4,4] \"w\" layer=0 in keep\n"
            "%3 activation F32[T,4] layer=0 out\n"
            "linear(x=%1 w=%2 y=%3) act=relu in_out=0 layer=0\n");
    /* the slope is read by a node that stays: so does the slope */
#define KEPT                                                                                                           \
    "%1 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%2 weight F32[4,4] \"w\" layer=0 in keep\n"                                                                       \
    "%3 activation F32[T,4] layer=0\n"                                                                                 \
    "%4 activation F32[T,4] layer=0\n"                                                                                 \
    "linear(x=%1 w=%2 y=%3 slope=%4) act=relu in_out=0 layer=0\n"                                                      \
    "%5 activation F32[T,4] layer=0 out\n"                                                                             \
    "act_bwd(slope=%4 dy=%1 du=%5) layer=0 backward\n"
    becomes(KEPT, ORDER, KEPT);
}

/* ---- Recomputation: three layers, each a product with an activation, and the head. */

#define L_INPUTS                                                                                                       \
    "%1 input F32[T,2] \"labels\" layer=0 in keep\n"                                                                   \
    "%2 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%3 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%4 weight F32[4,4] \"a\" layer=1 in keep\n"                                                                       \
    "%5 weight F32[4,4] \"b\" layer=2 in keep\n"                                                                       \
    "%6 weight F32[2,4] \"c\" layer=3 in keep\n"                                                                       \
    "%7 gradient F32[4,4] \"grad.a\" layer=1 of=grad:%4 out\n"                                                         \
    "%8 gradient F32[4,4] \"grad.b\" layer=2 of=grad:%5 out\n"                                                         \
    "%9 gradient F32[2,4] \"grad.c\" layer=3 of=grad:%6 out\n"
#define L_FORWARD                                                                                                      \
    "%10 activation F32[T,4] layer=1\n"                                                                                \
    "%11 activation F32[T,4] layer=1\n"                                                                                \
    "linear(x=%3 w=%4 y=%10 slope=%11) act=gelu in_out=0 layer=1\n"                                                    \
    "%12 activation F32[T,4] layer=2\n"                                                                                \
    "%13 activation F32[T,4] layer=2\n"                                                                                \
    "linear(x=%10 w=%5 y=%12 slope=%13) act=gelu in_out=0 layer=2\n"                                                   \
    "%14 activation F32[T,2] layer=3\n"                                                                                \
    "linear(x=%12 w=%6 y=%14) act=none in_out=0 layer=3\n"                                                             \
    "%15 activation F32[1] \"loss\" layer=4 exact out\n"                                                               \
    "mse(logits=%14 labels=%1 step=%2 loss=%15) layer=4\n"
#define L_HEAD L_LOSS_BACK L_C_BACK("%12")
#define L_LOSS_BACK                                                                                                    \
    "%16 activation F32[T,2] layer=4\n"                                                                                \
    "mse_bwd(logits=%14 labels=%1 step=%2 dlogits=%16) layer=4 backward\n"
#define L_C_BACK(x)                                                                                                    \
    "linear_dw(dy=%16 x=" x " dw=%9) in_out=0 layer=3 backward\n"                                                      \
    "%17 activation F32[T,4] layer=3\n"                                                                                \
    "linear_dx(dy=%16 w=%6 dx=%17) in_out=0 layer=3 backward\n"
#define L_BACK_2(slope, x)                                                                                             \
    "%18 activation F32[T,4] layer=2\n"                                                                                \
    "act_bwd(slope=" slope " dy=%17 du=%18) layer=2 backward\n"                                                        \
    "linear_dw(dy=%18 x=" x " dw=%8) in_out=0 layer=2 backward\n"                                                      \
    "%19 activation F32[T,4] layer=2\n"                                                                                \
    "linear_dx(dy=%18 w=%5 dx=%19) in_out=0 layer=2 backward\n"
#define L_BACK_1(slope)                                                                                                \
    "%20 activation F32[T,4] layer=1\n"                                                                                \
    "act_bwd(slope=" slope " dy=%19 du=%20) layer=1 backward\n"                                                        \
    "linear_dw(dy=%20 x=%3 dw=%7) in_out=0 layer=1 backward\n"

static void recompute_repeats_segments(void **state)
{
    (void)state;
    const char *step = L_INPUTS L_FORWARD L_HEAD L_BACK_2("%13", "%10") L_BACK_1("%11");
    /* layers 2 and 1 by themselves; each begins with what the layer before gave, which is kept */
    becomes(step, EVERY_1,
            L_INPUTS L_FORWARD L_HEAD
            "%21 activation F32[T,4] layer=2\n"
            "%22 activation F32[T,4] layer=2\n"
            "linear(x=%10 w=%5 y=%21 slope=%22) act=gelu in_out=0 layer=2 backward\n" L_BACK_2(
                "%22", "%10") "%23 activation F32[T,4] layer=1\n"
                              "%24 activation F32[T,4] layer=1\n"
                              "linear(x=%3 w=%4 y=%23 slope=%24) act=gelu in_out=0 layer=1 backward\n" L_BACK_1("%24"));
    /* layers 1 and 2 together: not even what passes between them is kept */
    becomes(step, EVERY_2,
            L_INPUTS L_FORWARD L_HEAD
            "%21 activation F32[T,4] layer=1\n"
            "%22 activation F32[T,4] layer=1\n"
            "linear(x=%3 w=%4 y=%21 slope=%22) act=gelu in_out=0 layer=1 backward\n"
            "%23 activation F32[T,4] layer=2\n"
            "%24 activation F32[T,4] layer=2\n"
            "linear(x=%21 w=%5 y=%23 slope=%24) act=gelu in_out=0 layer=2 backward\n" L_BACK_2("%24", "%21")
                L_BACK_1("%22"));
    /* all in one segment: what follows works on tokens, so that its memory is wanted before the backward pass is there */
    becomes(step, EVERY_3,
            L_INPUTS L_FORWARD L_LOSS_BACK
            "%21 activation F32[T,4] layer=1\n"
            "%22 activation F32[T,4] layer=1\n"
            "linear(x=%3 w=%4 y=%21 slope=%22) act=gelu in_out=0 layer=1 backward\n"
            "%23 activation F32[T,4] layer=2\n"
            "%24 activation F32[T,4] layer=2\n"
            "linear(x=%21 w=%5 y=%23 slope=%24) act=gelu in_out=0 layer=2 backward\n" L_C_BACK("%23")
                L_BACK_2("%24", "%21") L_BACK_1("%22"));
    /* the same over sequences: the backward pass follows at once */
    char sequences[] = L_INPUTS L_FORWARD L_HEAD L_BACK_2("%13", "%10") L_BACK_1("%11");
    for (char *t = sequences; (t = strstr(t, "[T,"));)
        t[1] = 'B';
    becomes(sequences, EVERY_3, sequences);
}

/* ---- Padding: the head of a language model, 1101 words, and its backward pass. */

#define WORDS(w_pad, b_pad, dw_pad, pad)                                                                               \
    "%1 input I32[T] \"labels\" layer=0 in keep\n"                                                                     \
    "%2 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%3 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%4 weight F32[1101,4] \"w\" layer=1" w_pad " in keep\n"                                                           \
    "%5 weight F32[1101] \"b\" layer=1" b_pad " in keep\n"                                                             \
    "%6 gradient F32[1101,4] \"grad.w\" layer=1 of=grad:%4" dw_pad " out\n"                                            \
    "%7 activation F32[T,1101] layer=1" pad "\n"                                                                       \
    "linear(x=%3 w=%4 b=%5 y=%7) act=none in_out=0 layer=1\n"                                                          \
    "%8 activation F32[1] \"loss\" layer=2 exact out\n"                                                                \
    "%9 activation F32[T] layer=2 exact\n"                                                                             \
    "cross_entropy(logits=%7 labels=%1 step=%2 loss=%8 lse=%9) smoothing=0 layer=2\n"                                  \
    "%10 activation F32[T,1101] layer=2" pad "\n"                                                                      \
    "cross_entropy_bwd(logits=%7 labels=%1 lse=%9 step=%2 dlogits=%10) smoothing=0 layer=2 backward\n"                 \
    "linear_dw(dy=%10 x=%3 dw=%6) in_out=0 layer=1 backward\n"                                                         \
    "%11 activation F32[T,4] layer=1 out\n"                                                                            \
    "linear_dx(dy=%10 w=%4 dx=%11) in_out=0 layer=1 backward\n"

static void a_vocabulary_is_padded(void **state)
{
    (void)state;
    becomes(WORDS("", "", "", ""), PAD, WORDS(" pad=51:0", " pad=51:0", " pad=51:0", " pad=0:51"));
    /* rows not where something else sees them, but the weight, which is the same in all programs */
#define SCALED_ROWS "%12 activation F32[T,1101] layer=2 out\nact_bwd(slope=%7 dy=%10 du=%12) layer=2 backward\n"
    becomes(WORDS("", "", "", "") SCALED_ROWS, PAD, WORDS(" pad=51:0", " pad=51:0", " pad=51:0", "") SCALED_ROWS);
    becomes(WORDS("", "", "", " out"), PAD, WORDS(" pad=51:0", " pad=51:0", " pad=51:0", " out"));
    /* nothing where the weight is a part of another */
#define PART                                                                                                           \
    "%1 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%2 weight F32[2202,4] \"all\" layer=1 in keep group\n"                                                            \
    "%3 weight F32[1101,4] \"half\" layer=1 slice=%2+0 in keep\n"                                                      \
    "%4 activation F32[T,1101] layer=1\n"                                                                              \
    "linear(x=%1 w=%3 y=%4) act=none in_out=0 layer=1\n"
    becomes(PART, PAD, PART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_matches_is_frozen),
        cmocka_unit_test(frozen_weights_have_no_backward_pass),
        cmocka_unit_test(grad_emits_the_backward_pass),
        cmocka_unit_test(gradients_have_the_slices_of_their_weights),
        cmocka_unit_test(grad_adds_contributions),
        cmocka_unit_test(a_bias_gradient_moves_to_the_writer_of_its_rows),
        cmocka_unit_test(so_does_that_of_query_key_and_value),
        cmocka_unit_test(a_bias_gradient_stays_where_its_rows_are_not_one_nodes),
        cmocka_unit_test(a_product_and_the_gradient_of_an_activation_become_one),
        cmocka_unit_test(f64_changes_nothing_but_types),
        cmocka_unit_test(bf16_narrows_what_lies_between_ops),
        cmocka_unit_test(bf16_casts_between_tokens_and_sequences),
        cmocka_unit_test(bf16_keeps_copies),
        cmocka_unit_test(a_mask_is_kept_for_who_reads_it),
        cmocka_unit_test(order_drops_what_nobody_needs),
        cmocka_unit_test(recompute_repeats_segments),
        cmocka_unit_test(a_vocabulary_is_padded),
    };
    return cmocka_run_group_tests_name("pass", tests, NULL, NULL);
}
