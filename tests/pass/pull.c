/* pass_pull, text in and text out: which weights lie on one rank alone, and how nodes come to them. */
#include "text.h"

static void apply(struct graph *g, int ranks)
{
    pass_pull(g, &(struct pass_settings){.ranks = ranks, .zero_stage = 3, .precision.narrow = DT_BF16});
}

static void apply_beside(struct graph *g, int ranks)
{
    pass_pull(
        g, &(struct pass_settings){.ranks = ranks, .zero_stage = 3, .precision.narrow = DT_BF16, .pulls_beside = true});
}

/* A table that is frozen, a group of two weights with the copies of both, a vector, a head. */
#define VALUES(of_group, of_head, of_table)                                                                            \
    "%1 input I32[T] \"ids\" layer=0 in keep\n"                                                                        \
    "%2 weight F32[9,4] \"table\" layer=0" of_table " in keep table frozen\n"                                          \
    "%3 weight F32[6,4] \"group\" layer=1" of_group " in keep group\n"                                                 \
    "%4 weight F32[2,4] \"query\" layer=1 slice=%3+0" of_group " in keep\n"                                            \
    "%5 weight F32[4,4] \"key\" layer=1 slice=%3+8" of_group " in keep\n"                                              \
    "%6 weight F32[4] \"bias\" layer=1 in keep\n"                                                                      \
    "%7 weight F32[3,4] \"head\" layer=2" of_head " in keep\n"                                                         \
    "%8 copy BF16[6,4] \"copy.group\" layer=1 of=copy:%3" of_group " in out keep\n"                                    \
    "%9 copy BF16[2,4] \"copy.query\" layer=1 slice=%8+0 of=copy:%4" of_group " in out keep\n"                         \
    "%10 copy BF16[4,4] \"copy.key\" layer=1 slice=%8+8 of=copy:%5" of_group " in out keep\n"                          \
    "%11 gradient F32[3,4] \"grad.head\" layer=2 of=grad:%7 rank=1 in out keep\n"

#define EMBED(table)                                                                                                   \
    "%12 activation F32[T,4] layer=0\n"                                                                                \
    "embed(ids=%1 table=" table " y=%12) still=0 layer=0\n"
#define LAYER(query, key)                                                                                              \
    "%13 activation BF16[T,4] layer=1\n"                                                                               \
    "cast(x=%12 y=%13) layer=1\n"                                                                                      \
    "%14 activation BF16[T,2] layer=1\n"                                                                               \
    "linear(x=%13 w=" query " y=%14) act=none in_out=0 layer=1\n"                                                      \
    "%15 activation BF16[T,4] layer=1\n"                                                                               \
    "linear(x=%13 w=" key " b=%6 y=%15) act=none in_out=0 layer=1\n"
#define HEAD(head)                                                                                                     \
    "%16 activation F32[T,4] layer=2\n"                                                                                \
    "cast(x=%15 y=%16) layer=2\n"                                                                                      \
    "%17 activation F32[T,3] layer=2\n"                                                                                \
    "linear(x=%16 w=" head " y=%17) act=none in_out=0 layer=2\n"
#define HEAD_BACK(head)                                                                                                \
    "%18 activation F32[T,4] layer=2\n"                                                                                \
    "linear_dx(dy=%17 w=" head " dx=%18) in_out=0 layer=2 backward\n"
#define LAYER_BACK(query, key)                                                                                         \
    "%19 activation BF16[T,4] layer=1\n"                                                                               \
    "cast(x=%18 y=%19) layer=1 backward\n"                                                                             \
    "%20 activation BF16[T,4] layer=1\n"                                                                               \
    "linear(x=%13 w=" key " y=%20) act=none in_out=0 layer=1 backward\n"                                               \
    "linear_dx(dy=%14 w=" query " dx+=%20) in_out=0 layer=1 backward\n"                                                \
    "linear_dx(dy=%19 w=" key " dx+=%20) in_out=0 layer=1 backward\n"

/* The group, which is largest, is the first rank's; the head the second one's; so is the table, which nobody trains and which comes last.
 * The bias, a vector, stays on both. Weights that several nodes of a layer read come once for all of them, and once more going back. */
static void weights_come_by_layer(void **state)
{
    (void)state;
    text_becomes(
        VALUES("", "", "") EMBED("%2") LAYER("%9", "%10") HEAD("%7") HEAD_BACK("%7") LAYER_BACK("%9", "%10"), apply, 2,
        VALUES(
            " rank=1", " rank=2",
            " rank=2") "%21 activation F32[9,4] layer=0 exact table\n"
                       "pull(x=%2 y=%21) from=2 chunk=0 layer=0\n" EMBED(
                           "%21") "%22 activation BF16[2,4] layer=1\n"
                                  "pull(x=%9 y=%22) from=1 chunk=0 layer=1\n"
                                  "%23 activation BF16[4,4] layer=1\n"
                                  "pull(x=%10 y=%23) from=1 chunk=0 layer=1\n" LAYER(
                                      "%22",
                                      "%23") "%24 activation F32[3,4] layer=2 exact\n"
                                             "pull(x=%7 y=%24) from=2 chunk=0 layer=2\n" HEAD(
                                                 "%24") "%25 activation F32[3,4] layer=2 exact\n"
                                                        "pull(x=%7 y=%25) from=2 chunk=0 layer=2 backward\n" HEAD_BACK(
                                                            "%25") "%26 activation BF16[4,4] layer=1\n"
                                                                   "pull(x=%10 y=%26) from=1 chunk=0 layer=1 backward\n"
                                                                   "%27 activation BF16[2,4] layer=1\n"
                                                                   "pull(x=%9 y=%27) from=1 chunk=0 layer=1 "
                                                                   "backward\n" LAYER_BACK("%27", "%26"));
}

/* On a device those of the next layer come while one computes. */
static void weights_come_a_layer_ahead(void **state)
{
    (void)state;
    text_becomes(VALUES("", "", "") EMBED("%2") LAYER("%9", "%10") HEAD("%7"), apply_beside, 2,
                 VALUES(" rank=1", " rank=2",
                        " rank=2") "%18 activation F32[9,4] layer=0 exact table\n"
                                   "pull(x=%2 y=%18) from=2 chunk=0 lane=in layer=0\n"
                                   "%19 activation BF16[2,4] layer=1\n"
                                   "pull(x=%9 y=%19) from=1 chunk=0 lane=in layer=1\n"
                                   "%20 activation BF16[4,4] layer=1\n"
                                   "pull(x=%10 y=%20) from=1 chunk=0 lane=in layer=1\n" EMBED(
                                       "%18") "%21 activation F32[3,4] layer=2 exact\n"
                                              "pull(x=%7 y=%21) from=2 chunk=0 lane=in layer=2\n" LAYER("%19", "%20")
                                                  HEAD("%21"));
}

/* With one rank nothing moves. */
static void one_rank_has_all(void **state)
{
    (void)state;
    text_becomes(VALUES("", "", "") EMBED("%2") LAYER("%9", "%10") HEAD("%7"), apply, 1,
                 VALUES("", "", "") EMBED("%2") LAYER("%9", "%10") HEAD("%7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_come_by_layer),
                                       cmocka_unit_test(weights_come_a_layer_ahead),
                                       cmocka_unit_test(one_rank_has_all)};
    return cmocka_run_group_tests_name("pull", tests, NULL, NULL);
}
