/* pass_reduce, text in and text out: which gradients ranks add up. */
#include "text.h"

static void apply(struct graph *g, int ranks)
{
    pass_reduce(g, &(struct pass_settings){.ranks = ranks});
}

static void to_owners(struct graph *g, int ranks)
{
    pass_reduce(g, &(struct pass_settings){.ranks = ranks, .zero_stage = 1});
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
    text_becomes(VALUES, apply, 2, VALUES "all_reduce(g=%4) to=0 layer=1\nall_reduce(g=%6) to=0 layer=2\n");
}

/* The largest weights come first, each to the rank that has least: the group, then the bias. */
static void owners_have_the_sums(void **state)
{
    (void)state;
    text_becomes(VALUES, to_owners, 1, VALUES);
    text_becomes(VALUES, to_owners, 2, VALUES "all_reduce(g=%4) to=1 layer=1\nall_reduce(g=%6) to=2 layer=2\n");
    text_becomes(VALUES MORE, to_owners, 2,
                 VALUES MORE "all_reduce(g=%4) to=1 layer=1\nall_reduce(g=%6) to=2 layer=2\n"
                             "all_reduce(g=%9) to=2 layer=2\nall_reduce(g=%10) to=2 layer=2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_gradient_once), cmocka_unit_test(owners_have_the_sums)};
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
