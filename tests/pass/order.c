/* pass_order, pass_recompute and pass_pad. */
#include "apply.h"

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
    becomes(WORDS("", "", "", ""), PAD, WORDS(" pad_rows=51", " pad_rows=51", " pad_rows=51", " pitch=1152"));
    /* rows not where something else sees them, but the weight, which is the same in all programs */
#define SCALED_ROWS "%12 activation F32[T,1101] layer=2 out\nact_bwd(slope=%7 dy=%10 du=%12) layer=2 backward\n"
    becomes(WORDS("", "", "", "") SCALED_ROWS, PAD,
            WORDS(" pad_rows=51", " pad_rows=51", " pad_rows=51", "") SCALED_ROWS);
    becomes(WORDS("", "", "", " out"), PAD, WORDS(" pad_rows=51", " pad_rows=51", " pad_rows=51", " out"));
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
        cmocka_unit_test(order_drops_what_nobody_needs),
        cmocka_unit_test(recompute_repeats_segments),
        cmocka_unit_test(a_vocabulary_is_padded),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
