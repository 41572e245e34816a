/* pass_update and pass_share with several ranks that have states of their own, text in and text out. */
#include "text.h"

static void update(struct graph *g, int ranks)
{
    struct pass_settings s = {.ranks = ranks,
                              .zero_stage = 1,
                              .update = {.optimizer = OPTIM_SGD, .momentum = 0.5, .state_type = DT_F32},
                              .precision.narrow = DT_F32,
                              .choices.updates_at_end = true};
    pass_update(g, &s);
    pass_share(g, &s);
}

#define VALUES                                                                                                         \
    "%1 input F64[8] \"step\" layer=0 in keep\n"                                                                       \
    "%2 weight F32[3,4] \"group\" layer=1 in keep group\n"                                                             \
    "%3 weight F32[2,4] \"query\" layer=1 slice=%2+0 in keep\n"                                                        \
    "%4 weight F32[1,4] \"key\" layer=1 slice=%2+8 in keep\n"                                                          \
    "%5 weight F32[5] \"bias\" layer=2 in keep\n"                                                                      \
    "%6 gradient F32[3,4] \"grad.group\" layer=1 of=grad:%2 in out group\n"                                            \
    "%7 gradient F32[2,4] \"grad.query\" layer=1 slice=%6+0 of=grad:%3 in out\n"                                       \
    "%8 gradient F32[1,4] \"grad.key\" layer=1 slice=%6+8 of=grad:%4 in out\n"                                         \
    "%9 gradient F32[5] \"grad.bias\" layer=2 of=grad:%5 in out\n"                                                     \
    "%11 copy BF16[5] \"copy.bias\" layer=2 of=copy:%5 in keep\n"

#define HYPER " momentum=0.5 dampening=0 weight_decay=0 nesterov=0 noise=0"

/* Sums of squares and updates are their owners', as are states; what the norm is made of goes to all, and then the weights do: a group's
 * parts together, and the copy that an update has written. */
static void nodes_and_states_have_a_rank(void **state)
{
    (void)state;
    text_becomes(VALUES, update, 2,
                 VALUES "%12 scalar F64[3] layer=0 in\n"
                        "%13 scalar F64[1] layer=0 slice=%12+0\n"
                        "%14 scalar F64[1] layer=0 slice=%12+1\n"
                        "%15 scalar F64[1] layer=0 slice=%12+2\n"
                        "%18 state F32[2,4] \"momentum_buffer.query\" layer=1 of=momentum_buffer:%3 rank=1 in keep\n"
                        "%19 state F32[1,4] \"momentum_buffer.key\" layer=1 of=momentum_buffer:%4 rank=1 in keep\n"
                        "%20 state F32[5] \"momentum_buffer.bias\" layer=2 of=momentum_buffer:%5 rank=2 in keep\n"
                        "sumsq(g=%8 partials=%12) at=1 rank=1 layer=1\n"
                        "sumsq(g=%7 partials=%12) at=0 rank=1 layer=1\n"
                        "sumsq(g=%9 partials=%12) at=2 rank=2 layer=2\n"
                        "broadcast(x=%13) from=1 chunk=0 layer=1\n"
                        "broadcast(x=%14) from=1 chunk=0 layer=1\n"
                        "broadcast(x=%15) from=2 chunk=0 layer=2\n"
                        "%16 activation F32[1] \"grad_norm\" layer=2 exact out\n"
                        "%17 activation F32[1] layer=2 exact\n"
                        "clip(partials=%12 norm=%16 coef=%17) max_norm=0 layer=2\n"
                        "sgd(p=%3 g=%7 buf=%18 step=%1 coef=%17)" HYPER " rank=1 layer=1\n"
                        "sgd(p=%4 g=%8 buf=%19 step=%1 coef=%17)" HYPER " rank=1 layer=1\n"
                        "sgd(p=%5 g=%9 buf=%20 step=%1 coef=%17 copy=%11)" HYPER " rank=2 layer=2\n"
                        "broadcast(x=%2) from=1 chunk=0 layer=1\n"
                        "broadcast(x=%5) from=2 chunk=0 layer=2\n"
                        "broadcast(x=%11) from=2 chunk=0 layer=2\n");
}

/* With one rank they have none. */
static void one_rank_has_all(void **state)
{
    (void)state;
    struct graph g;
    struct snug_err err;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    assert_int_equal(graph_parse(&g, VALUES, &err), SNUG_OK);
    update(&g, 1);
    assert_int_equal(graph_check(&g, "update", &err), SNUG_OK);
    for (int k = 1; k < g.n_nodes; k++)
        assert_true(!g.nodes[k].rank && !op_exchanges(g.nodes[k].op));
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_and_states_have_a_rank),
                                       cmocka_unit_test(one_rank_has_all)};
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
