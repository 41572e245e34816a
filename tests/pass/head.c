/* pass_fold_head. */
#include "text.h"

enum { CHUNKS_OF_2, LARGE_ONES };

static void apply_head(struct graph *g, int p)
{
    struct pass_settings s = {.head_chunk = 2, .head_vocabulary = p == LARGE_ONES ? 6 : 0};
    pass_fold_head(g, &s);
}

#define HEAD_INPUTS                                                                                                    \
    "%1 input I32[T] \"labels\" layer=0 in keep\n"                                                                     \
    "%2 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%3 input F32[T,4] \"x\" layer=0 in keep\n"                                                                        \
    "%4 weight F32[5,4] \"w\" layer=3 in keep\n"                                                                       \
    "%5 weight F32[5] \"b\" layer=3 in keep\n"
#define HEAD_GRADIENTS                                                                                                 \
    "%6 gradient F32[5,4] \"grad.w\" layer=3 of=grad:%4 out\n"                                                         \
    "%7 gradient F32[5] \"grad.b\" layer=3 of=grad:%5 out\n"
#define LOGITS                                                                                                         \
    "%8 activation F32[T,5] layer=3\n"                                                                                 \
    "linear(x=%3 w=%4 b=%5 y=%8) act=none in_out=0 layer=3\n"                                                          \
    "%9 activation F32[T,5] layer=3\n"                                                                                 \
    "softcap(x=%8 y=%9) cap=30 layer=3\n"                                                                              \
    "%10 activation F32[1] \"loss\" layer=3 exact out\n"                                                               \
    "%11 activation F32[T] layer=3 exact\n"                                                                            \
    "cross_entropy(logits=%9 labels=%1 step=%2 loss=%10 lse=%11) smoothing=0.25 layer=3\n"
#define BACK                                                                                                           \
    "%12 activation F32[T,5] layer=3\n"                                                                                \
    "cross_entropy_bwd(logits=%9 labels=%1 lse=%11 step=%2 dlogits=%12) smoothing=0.25 layer=3 backward\n"             \
    "%13 activation F32[T,5] layer=3\n"                                                                                \
    "softcap_bwd(y=%9 dy=%12 dx=%13) cap=30 layer=3 backward\n"                                                        \
    "linear_dw(dy=%13 x=%3 dw=%6 db=%7) in_out=0 layer=3 backward\n"                                                   \
    "%14 activation F32[T,4] layer=3 out\n"                                                                            \
    "linear_dx(dy=%13 w=%4 dx=%14) in_out=0 layer=3 backward\n"

/* All that touches logits is one node, which stands where the last of them stood. */
static void head_is_one_node(void **state)
{
    (void)state;
    text_becomes(HEAD_INPUTS HEAD_GRADIENTS LOGITS BACK, apply_head, CHUNKS_OF_2,
                 HEAD_INPUTS HEAD_GRADIENTS
                 "%10 activation F32[1] \"loss\" layer=3 exact out\n"
                 "%14 activation F32[T,4] layer=3 out\n"
                 "linear_cross_entropy(x=%3 w=%4 b=%5 labels=%1 step=%2 loss=%10 dx=%14 dw=%6 db=%7) smoothing=0.25 "
                 "softcap=30 chunk=2 layer=3 backward\n");
}

static void evaluation_has_the_best_words(void **state)
{
    (void)state;
    text_becomes(HEAD_INPUTS LOGITS "%12 activation I32[T] \"predictions\" layer=3 exact out\n"
                                    "argmax(logits=%9 labels=%1 best=%12) layer=3\n",
                 apply_head, CHUNKS_OF_2,
                 HEAD_INPUTS
                 "%10 activation F32[1] \"loss\" layer=3 exact out\n"
                 "%12 activation I32[T] \"predictions\" layer=3 exact out\n"
                 "linear_cross_entropy(x=%3 w=%4 b=%5 labels=%1 step=%2 loss=%10 best=%12) smoothing=0.25 softcap=30 "
                 "chunk=2 layer=3\n");
}

/* Logits that others read, or that are wanted, and a head that is small. */
static void other_heads_stay(void **state)
{
    (void)state;
#define STAYS(text, pass) text_becomes(text, apply_head, pass, text)
    STAYS(HEAD_INPUTS HEAD_GRADIENTS LOGITS BACK, LARGE_ONES);
    STAYS(HEAD_INPUTS LOGITS "%12 activation F32[T,5] layer=3 out\n"
                             "add(a=%9 b=%9 y=%12) layer=3\n",
          CHUNKS_OF_2);
    STAYS(HEAD_INPUTS "%8 activation F32[T,5] layer=3 out\n"
                      "linear(x=%3 w=%4 b=%5 y=%8) act=none in_out=0 layer=3\n"
                      "%9 activation F32[1] \"loss\" layer=3 exact out\n"
                      "%10 activation F32[T] layer=3 exact\n"
                      "cross_entropy(logits=%8 labels=%1 step=%2 loss=%9 lse=%10) smoothing=0 layer=3\n",
          CHUNKS_OF_2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_is_one_node),
        cmocka_unit_test(evaluation_has_the_best_words),
        cmocka_unit_test(other_heads_stay),
    };
    return cmocka_run_group_tests_name("pass head", tests, NULL, NULL);
}
