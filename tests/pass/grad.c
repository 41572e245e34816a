/* pass_freeze, pass_grad, and the folding of gradients behind it. */
#include "apply.h"

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
#define FOLDED_NORM(to, sums)                                                                                          \
    "norm_bwd(dy=%1 h=%2 gamma=%4 mean=%5 rstd=%5 " to sums ") p=0 site=0 one_plus=0 layer=1 backward\n"
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
    ") heads=1 kv_heads=1 causal=0 scale=1 p=0 site=0 longest=0 queries=0 window=0 softcap=0 layer=1 backward\n"

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
    };
    return cmocka_run_group_tests_name("grad", tests, NULL, NULL);
}
