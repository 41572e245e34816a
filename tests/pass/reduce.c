/* pass_reduce, text in and text out: which gradients ranks add up. */
#include "text.h"

static void apply(struct graph *g, int ranks)
{
    pass_reduce(g, &(struct pass_settings){.ranks = ranks});
}

#define VALUES                                                                                                         \
    "%1 weight F32[6,4] \"group\" layer=1 in keep group\n"                                                             \
    "%2 weight F32[2,4] \"query\" layer=1 slice=%1+0 in keep\n"                                                        \
    "%3 weight F32[5] \"bias\" layer=2 in keep\n"                                                                      \
    "%4 gradient F32[6,4] \"grad.group\" layer=1 of=grad:%1 in out group\n"                                            \
    "%5 gradient F32[2,4] \"grad.query\" layer=1 slice=%4+0 of=grad:%2 in out\n"                                       \
    "%6 gradient BF16[5] \"grad.bias\" layer=2 of=grad:%3 in out\n"

/* Those of groups whole, their parts with them; with one rank nothing is exchanged. */
static void each_gradient_once(void **state)
{
    (void)state;
    text_becomes(VALUES, apply, 1, VALUES);
    text_becomes(VALUES, apply, 2, VALUES "all_reduce(g=%4) layer=1\nall_reduce(g=%6) layer=2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_gradient_once)};
    return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
