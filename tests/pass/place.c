/* pass_place, text in and text out: which values lie in the host's memory. */
#include "text.h"

static void apply(struct graph *g, int host_layers)
{
    pass_place(g, &(struct pass_settings){.choices.host_layers = host_layers});
}

#define TENSORS                                                                                                        \
    "%1 weight F32[9,4] \"table\" layer=0 in keep\n"                                                                   \
    "%2 weight F32[6,4] \"group\" layer=1 in keep group\n"                                                             \
    "%3 weight F32[2,4] \"query\" layer=1 slice=%2+0 in keep\n"                                                        \
    "%4 weight F32[4,4] \"key\" layer=1 slice=%2+8 in keep\n"                                                          \
    "%5 state F64[3] \"loss_scaler\" layer=0 in keep\n"
#define STATES(of_table, of_group)                                                                                     \
    "%6 state F32[9,4] \"exp_avg.table\" layer=0 of=exp_avg:%1" of_table " in keep\n"                                  \
    "%7 state F32[6,4] \"exp_avg.group\" layer=1 of=exp_avg:%2" of_group " in keep group\n"                            \
    "%8 state F32[4,4] \"exp_avg.key\" layer=1 slice=%7+8 of=exp_avg:%4" of_group " in keep\n"
#define HOST " memory=host"

/* States of weights, with their parts; neither weights nor what belongs to none. */
static void states_go_by_layer(void **state)
{
    (void)state;
    text_becomes(TENSORS STATES("", ""), apply, 0, TENSORS STATES("", ""));
    text_becomes(TENSORS STATES("", ""), apply, 1, TENSORS STATES(HOST, ""));
    text_becomes(TENSORS STATES("", ""), apply, 2, TENSORS STATES(HOST, HOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(states_go_by_layer)};
    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
