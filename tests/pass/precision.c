/* pass_precision, pass_materialize and pass_keep_mask. */
#include "apply.h"

/* ---- Precision. */

static void f64_changes_nothing_but_types(void **state)
{
    (void)state;
    becomes("%1 input I32[T] \"input_ids\" layer=0 in keep\n"
            "%2 weight F32[9,4] \"table\" layer=0 in keep\n"
            "%3 activation F32[T,4] layer=0 out\n"
            "embed(ids=%1 table=%2 y=%3) still=0 layer=0\n",
            F64,
            "%1 input I32[T] \"input_ids\" layer=0 in keep\n"
            "%2 weight F64[9,4] \"table\" layer=0 in keep\n"
            "%3 activation F64[T,4] layer=0 out\n"
            "embed(ids=%1 table=%2 y=%3) still=0 layer=0\n");
}

/* Activations over tokens are narrow. A product's weight is cast for each of its uses; a table, a bias, labels and the
 * loss are not. The gradient of the product's weight is narrow where it may be; that of bias and table is not. */
#define NARROW_FORWARD                                                                                                 \
    "%8 activation BF16[T,4] layer=0\n"                                                                                \
    "embed(ids=%1 table=%5 y=%8) still=0 layer=0\n"                                                                    \
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
    "embed_bwd(ids=%1 dy=%15 cu=%2 dtable=%11) still=0 layer=0 backward\n"

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
    "embed(ids=%1 table=%5 y=%8) still=0 layer=0\n"                                                                    \
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

/* Weights that are bf16 are read as they are by products and tables; what wants F32 gets it for each use, and there is no
 * copy in anything that stays. */
#define NARROW_WEIGHTS                                                                                                 \
    "%5 weight BF16[9,4] \"table\" layer=0 in keep\n"                                                                  \
    "%6 weight BF16[2,4] \"proj.weight\" layer=1 in keep\n"                                                            \
    "%7 weight BF16[2] \"proj.bias\" layer=1 in keep\n"
#define PURE_FORWARD(cast, b)                                                                                          \
    "%8 activation BF16[T,4] layer=0\n"                                                                                \
    "embed(ids=%1 table=%5 y=%8) still=0 layer=0\n" cast "%9 activation BF16[T,2] layer=1\n"                           \
    "linear(x=%8 w=%6 b=" b " y=%9) act=none in_out=0 layer=1\n"                                                       \
    "%10 activation F32[1] \"loss\" layer=2 exact out\n"                                                               \
    "mse(logits=%9 labels=%3 step=%4 loss=%10) layer=2\n"

static void pure_bf16_stores_weights_once(void **state)
{
    (void)state;
    becomes(INPUTS WEIGHTS FORWARD, PURE,
            INPUTS NARROW_WEIGHTS PURE_FORWARD("%11 activation F32[2] layer=1 exact\n"
                                               "cast(x=%7 y=%11) layer=1\n",
                                               "%11"));
    becomes(INPUTS WEIGHTS FORWARD, PURE_BIAS, INPUTS NARROW_WEIGHTS PURE_FORWARD("", "%7"));
}

/* Norms go by F32, and so does a head over sequences. */
static void pure_bf16_widens_for_norms_and_heads(void **state)
{
    (void)state;
    becomes("%1 input F32[B,4] \"x\" layer=0 in keep\n"
            "%2 weight F32[4] \"gamma\" layer=1 in keep\n"
            "%3 weight F32[2,4] \"w\" layer=2 in keep\n"
            "%4 activation F32[B,4] layer=1\n"
            "%5 activation F32[B] layer=1 exact\n"
            "rms_norm(x=%1 gamma=%2 y=%4 rstd=%5) eps=0.125 one_plus=0 layer=1\n"
            "%6 activation F32[B,2] layer=2 out\n"
            "linear(x=%4 w=%3 y=%6) act=none in_out=0 layer=2\n",
            PURE,
            "%1 input F32[B,4] \"x\" layer=0 in keep\n"
            "%2 weight BF16[4] \"gamma\" layer=1 in keep\n"
            "%3 weight BF16[2,4] \"w\" layer=2 in keep\n"
            "%7 activation F32[4] layer=1 exact\n"
            "cast(x=%2 y=%7) layer=1\n"
            "%4 activation F32[B,4] layer=1\n"
            "%5 activation F32[B] layer=1 exact\n"
            "rms_norm(x=%1 gamma=%7 y=%4 rstd=%5) eps=0.125 one_plus=0 layer=1\n"
            "%8 activation F32[2,4] layer=2 exact\n"
            "cast(x=%3 y=%8) layer=2\n"
            "%6 activation F32[B,2] layer=2 out\n"
            "linear(x=%4 w=%8 y=%6) act=none in_out=0 layer=2\n");
}

/* Where text is written the head takes its weight as it is: of 16 bits in, logits of 32 come out. Not what an adapter adds to one. */
static void pure_bf16_reads_the_head_of_a_text(void **state)
{
    (void)state;
#define LAST_ROW(type, logits)                                                                                         \
    "%1 input I32[T] \"input_ids\" layer=0 in keep\n"                                                                  \
    "%2 input I32[B+1] \"cu_seqlens\" layer=0 in keep\n"                                                               \
    "%3 weight " type "[9,4] \"table\" layer=0 in keep\n"                                                              \
    "%4 activation " type "[T,4] layer=0\n"                                                                            \
    "embed(ids=%1 table=%3 y=%4) still=0 layer=0\n"                                                                    \
    "%5 activation " type "[B,4] layer=2\n"                                                                            \
    "gather(x=%4 cu=%2 y=%5) last=1 layer=2\n"                                                                         \
    "%6 activation F32[B,9] \"logits\" layer=2 " logits "\n"                                                           \
    "linear(x=%5 w=%3 y=%6) act=none in_out=0 layer=2\n"
    becomes(LAST_ROW("F32", "out"), PURE_TEXT, LAST_ROW("BF16", "exact out"));
    becomes("%1 input F32[B,4] \"x\" layer=0 in keep\n"
            "%2 weight F32[2,4] \"a\" layer=2 in keep\n"
            "%3 weight F32[9,2] \"b\" layer=2 in keep\n"
            "%4 weight F32[9,4] \"w\" layer=2 in keep\n"
            "%5 activation F32[B,2] layer=2\n"
            "linear(x=%1 w=%2 y=%5) act=none in_out=0 layer=2\n"
            "%6 activation F32[B,9] layer=2\n"
            "linear(x=%5 w=%3 y=%6) act=none in_out=0 layer=2\n"
            "%7 activation F32[B,9] \"logits\" layer=2 out\n"
            "linear(x=%1 w=%4 add=%6 y=%7) act=none in_out=0 layer=2\n",
            PURE_TEXT,
            "%1 input F32[B,4] \"x\" layer=0 in keep\n"
            "%2 weight BF16[2,4] \"a\" layer=2 in keep\n"
            "%3 weight BF16[9,2] \"b\" layer=2 in keep\n"
            "%4 weight BF16[9,4] \"w\" layer=2 in keep\n"
            "%8 activation F32[2,4] layer=2 exact\n"
            "cast(x=%2 y=%8) layer=2\n"
            "%5 activation F32[B,2] layer=2\n"
            "linear(x=%1 w=%8 y=%5) act=none in_out=0 layer=2\n"
            "%9 activation F32[9,2] layer=2 exact\n"
            "cast(x=%3 y=%9) layer=2\n"
            "%6 activation F32[B,9] layer=2\n"
            "linear(x=%5 w=%9 y=%6) act=none in_out=0 layer=2\n"
            "%10 activation F32[9,4] layer=2 exact\n"
            "cast(x=%4 y=%10) layer=2\n"
            "%7 activation F32[B,9] \"logits\" layer=2 out\n"
            "linear(x=%1 w=%10 add=%6 y=%7) act=none in_out=0 layer=2\n");
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
            "embed(ids=%1 table=%3 y=%5) still=0 layer=0\n"
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
            "embed(ids=%1 table=%3 y=%5) still=0 layer=0\n"
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
#define ATTRIBUTES                                                                                                     \
    " heads=2 kv_heads=2 causal=0 scale=0.5 p=0.25 site=1 longest=100 queries=0 window=0 softcap=0 layer=1"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_changes_nothing_but_types),
        cmocka_unit_test(bf16_narrows_what_lies_between_ops),
        cmocka_unit_test(bf16_casts_between_tokens_and_sequences),
        cmocka_unit_test(bf16_keeps_copies),
        cmocka_unit_test(pure_bf16_stores_weights_once),
        cmocka_unit_test(pure_bf16_widens_for_norms_and_heads),
        cmocka_unit_test(pure_bf16_reads_the_head_of_a_text),
        cmocka_unit_test(a_mask_is_kept_for_who_reads_it),
    };
    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
