/* pass_reduce, text in and text out: which gradients ranks add up. */
#include "text.h"

static void apply(struct graph *g, int ranks)
{
    pass_reduce(g, &(struct pass_settings){.ranks = ranks, .program = PROGRAM_UPDATE});
}

static void to_owners(struct graph *g, int ranks)
{
    pass_reduce(g, &(struct pass_settings){.ranks = ranks, .zero_stage = 1, .program = PROGRAM_UPDATE});
}

#define VALUES                                                                                                         \
    "%1 weight F32[6,4] \"group\" layer=1 in keep group\n"                                                             \
    "%2 weight F32[2,4] \"query\" layer=1 slice=%1+0 in keep\n"                                                        \
    "%3 weight F32[5] \"bias\" layer=2 in keep\n"                                                                      \
    "%4 gradient F32[6,4] \"grad.group\" layer=1 of=grad:%1 in out group\n"                                            \
    "%5 gradient F32[2,4] \"grad.query\" layer=1 slice=%4+0 of=grad:%2 in out\n"                                       \
    "%6 gradient BF16[5] \"grad.bias\" layer=2 of=grad:%3 in out\n"

#define MORE                                                                                                           \
    "%7 weight F32[6] \"b\" layer=2 in keep\n"                                                                         \
    "%8 weight F32[6] \"a\" layer=2 in keep\n"                                                                         \
    "%9 gradient F32[6] \"grad.b\" layer=2 of=grad:%7 in out\n"                                                        \
    "%10 gradient F32[6] \"grad.a\" layer=2 of=grad:%8 in out\n"

/* Those of groups whole, their parts with them; with one rank nothing is exchanged. */
static void each_gradient_once(void **state)
{
    (void)state;
    text_becomes(VALUES, apply, 1, VALUES);
    text_becomes(VALUES, apply, 2,
                 VALUES "all_reduce(g=%4) to=0 chunk=0 layer=1\nall_reduce(g=%6) to=0 chunk=0 layer=2\n");
}

/* The largest weights come first, each to the rank that has least: the group, then the bias. */
static void owners_have_the_sums(void **state)
{
    (void)state;
    text_becomes(VALUES, to_owners, 1, VALUES);
    text_becomes(VALUES, to_owners, 2,
                 VALUES "all_reduce(g=%4) to=1 chunk=0 layer=1\nall_reduce(g=%6) to=2 chunk=0 layer=2\n");
    text_becomes(VALUES MORE, to_owners, 2,
                 VALUES MORE "all_reduce(g=%4) to=1 chunk=0 layer=1\nall_reduce(g=%6) to=2 chunk=0 layer=2\n"
                             "all_reduce(g=%9) to=2 chunk=0 layer=2\nall_reduce(g=%10) to=2 chunk=0 layer=2\n");
}

/* program: of two ranks that keep the sums of their own weights alone. */
static void by_layer(struct graph *g, int program)
{
    pass_reduce(g, &(struct pass_settings){.ranks = 2, .zero_stage = 2, .program = (enum program_kind)program});
}

#define STEP                                                                                                           \
    "%1 input F32[T,5] \"dy\" layer=2 in keep\n"                                                                       \
    "%2 input F32[T,6] \"h\" layer=2 in keep\n"                                                                        \
    "%3 input F32[T,4] \"x\" layer=1 in keep\n"                                                                        \
    "%4 weight F32[6,4] \"group\" layer=1 in keep group\n"                                                             \
    "%5 weight F32[2,4] \"query\" layer=1 slice=%4+0 in keep\n"                                                        \
    "%6 weight F32[6] \"bias\" layer=1 in keep\n"                                                                      \
    "%7 weight F32[5,6] \"head\" layer=2 in keep\n"                                                                    \
    "%8 gradient F32[6,4] \"grad_part.group\" layer=1 of=grad_part:%4 group\n"                                         \
    "%9 gradient F32[2,4] \"grad_part.query\" layer=1 slice=%8+0 of=grad_part:%5\n"                                    \
    "%10 gradient F32[6] \"grad_part.bias\" layer=1 of=grad_part:%6\n"                                                 \
    "%11 gradient F32[5,6] \"grad_part.head\" layer=2 of=grad_part:%7\n"
#define HEAD "linear_dw(dy=%1 x=%2 dw=%11) in_out=0 layer=2 backward\n"
#define LAYER                                                                                                          \
    "%12 activation F32[T,6] layer=2\n"                                                                                \
    "linear_dx(dy=%1 w=%7 dx=%12) in_out=0 layer=2 backward\n"                                                         \
    "linear_dw(dy=%12 x=%3 dw=%8 db=%10) in_out=0 layer=1 backward\n"

#define SUMS(flags)                                                                                                    \
    "%13 gradient F32[6,4] \"grad.group\" layer=1 of=grad:%4 rank=2" flags " group\n"                                  \
    "%14 gradient F32[2,4] \"grad.query\" layer=1 slice=%13+0 of=grad:%5 rank=2" flags "\n"                            \
    "%15 gradient F32[6] \"grad.bias\" layer=1 of=grad:%6 rank=2" flags "\n"                                           \
    "%16 gradient F32[5,6] \"grad.head\" layer=2 of=grad:%7 rank=1" flags "\n"
#define HEAD_SUMS(put)                                                                                                 \
    "all_reduce(g=%11) to=1 chunk=0 layer=2 backward\n"                                                                \
    "add_bwd(dy=%11 da" put "%16) rank=1 layer=2 backward\n"
#define LAYER_SUMS(put)                                                                                                \
    "all_reduce(g=%8) to=2 chunk=0 layer=1 backward\n"                                                                 \
    "all_reduce(g=%10) to=2 chunk=0 layer=1 backward\n"                                                                \
    "add_bwd(dy=%8 da" put "%13) rank=2 layer=1 backward\n"                                                            \
    "add_bwd(dy=%10 da" put "%15) rank=2 layer=1 backward\n"

/* Behind the last node of a layer that makes gradients these are added up, and the owner puts the sums to what it has: of the first
 * micro-step it is that. */
static void sums_leave_by_layer(void **state)
{
    (void)state;
    text_becomes(STEP HEAD LAYER, by_layer, PROGRAM_FIRST,
                 STEP SUMS(" out keep") HEAD HEAD_SUMS("=") LAYER LAYER_SUMS("="));
    text_becomes(STEP HEAD LAYER, by_layer, PROGRAM_NEXT,
                 STEP SUMS(" in out keep") HEAD HEAD_SUMS("+=") LAYER LAYER_SUMS("+="));
}

/* Of ranks that can add up while nodes compute, with so many micro-batches for each update. */
static void beside(struct graph *g, int micro_batches)
{
    pass_reduce(g, &(struct pass_settings){.ranks = 2,
                                           .sums_beside = true,
                                           .choices.accumulation = micro_batches,
                                           .program = micro_batches > 1 ? PROGRAM_FIRST : PROGRAM_STEP});
}

static void beside_to_owners(struct graph *g, int program)
{
    pass_reduce(g, &(struct pass_settings){.ranks = 2,
                                           .zero_stage = 1,
                                           .sums_beside = true,
                                           .choices.accumulation = 1,
                                           .program = (enum program_kind)program});
}

#define WHOLE_STEP                                                                                                     \
    "%1 input F32[T,5] \"dy\" layer=2 in keep\n"                                                                       \
    "%2 input F32[T,6] \"h\" layer=2 in keep\n"                                                                        \
    "%3 input F32[T,4] \"x\" layer=1 in keep\n"                                                                        \
    "%4 weight F32[6,4] \"w\" layer=1 in keep\n"                                                                       \
    "%5 weight F32[6] \"bias\" layer=1 in keep\n"                                                                      \
    "%6 weight F32[5,6] \"head\" layer=2 in keep\n"                                                                    \
    "%7 gradient F32[6,4] \"grad.w\" layer=1 of=grad:%4\n"                                                             \
    "%8 gradient F32[6] \"grad.bias\" layer=1 of=grad:%5\n"                                                            \
    "%9 gradient F32[5,6] \"grad.head\" layer=2 of=grad:%6\n"
#define WHOLE_HEAD                                                                                                     \
    "linear_dw(dy=%1 x=%2 dw=%9) in_out=0 layer=2 backward\n"                                                          \
    "%10 activation F32[T,6] layer=2\n"                                                                                \
    "linear_dx(dy=%1 w=%6 dx=%10) in_out=0 layer=2 backward\n"
#define WHOLE_LAYER "linear_dw(dy=%10 x=%3 dw=%7 db=%8) in_out=0 layer=1 backward\n"

/* Without accumulation: behind the last node of a layer that makes gradients, and beside what follows. The gradient becomes the sum. What
 * owners add up waits until each has about as much: the head is the first one's, the layer the second one's. */
static void sums_go_beside(void **state)
{
    (void)state;
    text_becomes(WHOLE_STEP WHOLE_HEAD WHOLE_LAYER, beside, 1,
                 WHOLE_STEP "linear_dw(dy=%1 x=%2 dw=%9) in_out=0 layer=2 backward\n"
                            "all_reduce(g=%9) to=0 chunk=0 lane=sums layer=2 backward\n"
                            "%10 activation F32[T,6] layer=2\n"
                            "linear_dx(dy=%1 w=%6 dx=%10) in_out=0 layer=2 backward\n" WHOLE_LAYER
                            "all_reduce(g=%7) to=0 chunk=0 lane=sums layer=1 backward\n"
                            "all_reduce(g=%8) to=0 chunk=0 lane=sums layer=1 backward\n");
    text_becomes(WHOLE_STEP WHOLE_HEAD WHOLE_LAYER, beside, 2, WHOLE_STEP WHOLE_HEAD WHOLE_LAYER);
    text_becomes(WHOLE_STEP WHOLE_HEAD WHOLE_LAYER, beside_to_owners, PROGRAM_STEP,
                 WHOLE_STEP WHOLE_HEAD WHOLE_LAYER "all_reduce(g=%7) to=2 chunk=0 lane=sums layer=1 backward\n"
                                                   "all_reduce(g=%8) to=2 chunk=0 lane=sums layer=1 backward\n"
                                                   "all_reduce(g=%9) to=1 chunk=0 lane=sums layer=2 backward\n");
}

static void beside_by_layer(struct graph *g, int program)
{
    pass_reduce(g, &(struct pass_settings){
                       .ranks = 2, .zero_stage = 2, .sums_beside = true, .program = (enum program_kind)program});
}

#define FAR_STEP                                                                                                       \
    "%1 input F32[T,4] \"dy\" layer=3 in keep\n"                                                                       \
    "%2 input F32[T,4] \"x\" layer=1 in keep\n"                                                                        \
    "%3 weight F32[4,4] \"w1\" layer=1 in keep\n"                                                                      \
    "%4 weight F32[4,4] \"w2\" layer=2 in keep\n"                                                                      \
    "%5 weight F32[4,4] \"w3\" layer=3 in keep\n"                                                                      \
    "%6 gradient F32[4,4] \"grad_part.w1\" layer=1 of=grad_part:%3\n"                                                  \
    "%7 gradient F32[4,4] \"grad_part.w2\" layer=2 of=grad_part:%4\n"                                                  \
    "%8 gradient F32[4,4] \"grad_part.w3\" layer=3 of=grad_part:%5\n"
#define FAR_SUMS                                                                                                       \
    "%9 gradient F32[4,4] \"grad.w1\" layer=1 of=grad:%3 rank=1 out keep\n"                                            \
    "%10 gradient F32[4,4] \"grad.w2\" layer=2 of=grad:%4 rank=2 out keep\n"                                           \
    "%11 gradient F32[4,4] \"grad.w3\" layer=3 of=grad:%5 rank=1 out keep\n"

/* What a rank keeps is added up beside the backward pass, too. The layer behind the next one waits until a layer's gradients have left:
 * then they make room. */
static void sums_leave_beside(void **state)
{
    (void)state;
    text_becomes(FAR_STEP "linear_dw(dy=%1 x=%2 dw=%8) in_out=0 layer=3 backward\n"
                          "linear_dw(dy=%1 x=%2 dw=%7) in_out=0 layer=2 backward\n"
                          "linear_dw(dy=%1 x=%2 dw=%6) in_out=0 layer=1 backward\n",
                 beside_by_layer, PROGRAM_FIRST,
                 FAR_STEP FAR_SUMS "linear_dw(dy=%1 x=%2 dw=%8) in_out=0 layer=3 backward\n"
                                   "all_reduce(g=%8) to=1 chunk=0 lane=sums layer=3 backward\n"
                                   "add_bwd(dy=%8 da=%11) rank=1 lane=sums layer=3 backward\n"
                                   "linear_dw(dy=%1 x=%2 dw=%7) in_out=0 layer=2 backward\n"
                                   "all_reduce(g=%7) to=2 chunk=0 lane=sums layer=2 backward\n"
                                   "add_bwd(dy=%7 da=%10) rank=2 lane=sums layer=2 backward\n"
                                   "linear_dw(dy=%1 x=%2 dw=%6) in_out=0 waits=%11 layer=1 backward\n"
                                   "all_reduce(g=%6) to=1 chunk=0 lane=sums layer=1 backward\n"
                                   "add_bwd(dy=%6 da=%9) rank=1 lane=sums layer=1 backward\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_gradient_once), cmocka_unit_test(owners_have_the_sums),
                                       cmocka_unit_test(sums_leave_by_layer), cmocka_unit_test(sums_go_beside),
                                       cmocka_unit_test(sums_leave_beside)};
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
