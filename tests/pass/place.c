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

static void apply_to_disk(struct graph *g, int on_disk)
{
    pass_place(g, &(struct pass_settings){.choices.states_on_disk = on_disk, .choices.host_layers = on_disk});
}

/* States of 16 KiB and more are in the file; smaller ones stay on the device, whatever layer they are of, and what nodes of the forward pass
 * read. */
static void large_states_go_to_a_file(void **state)
{
    (void)state;
#define LARGE(where)                                                                                                   \
    "%1 weight F32[64,64] \"w\" layer=0 in keep\n"                                                                     \
    "%2 weight F32[64,63] \"v\" layer=0 in keep\n"                                                                     \
    "%3 state F32[64,64] \"exp_avg.w\" layer=0 of=exp_avg:%1" where " in keep\n"                                       \
    "%4 state F32[64,63] \"exp_avg.v\" layer=0 of=exp_avg:%2 in keep\n"                                                \
    "%5 state F32[64,64] \"ahead.w\" layer=0 of=ahead:%1 in keep\n"
    text_becomes(LARGE(""), apply_to_disk, 0, LARGE(""));
    text_becomes(LARGE(""), apply_to_disk, 1, LARGE(" memory=disk"));
}

static void apply_to_weights(struct graph *g, int host_weights)
{
    pass_place(g, &(struct pass_settings){.choices.host_weights = host_weights});
}

#define WITH_COPIES(of_table, of_layer)                                                                                \
    "%1 input I32[T] \"ids\" layer=0 in keep\n"                                                                        \
    "%2 weight F32[9,4] \"table\" layer=0" of_table " in keep table\n"                                                 \
    "%3 weight F32[4,4] \"w\" layer=1" of_layer " in keep\n"                                                           \
    "%4 weight F32[4] \"b\" layer=1 in keep\n"                                                                         \
    "%5 copy BF16[4,4] \"copy.w\" layer=1 of=copy:%3 in out keep\n"                                                    \
    "%6 copy BF16[4] \"copy.b\" layer=1 of=copy:%4 in out keep\n"                                                      \
    "%7 weight F32[4,4] \"head\" layer=2 in keep\n"                                                                    \
    "%11 gradient F32[4,4] \"grad.w\" layer=1 of=grad:%3 in\n"                                                         \
    "%12 scalar F32[4] \"step\" layer=1 in\n"                                                                          \
    "%8 activation F32[T,4] layer=0\n"                                                                                 \
    "embed(ids=%1 table=%2 y=%8) still=0 layer=0\n"                                                                    \
    "%9 activation BF16[T,4] layer=1\n"                                                                                \
    "cast(x=%8 y=%9) layer=1\n"                                                                                        \
    "%10 activation BF16[T,4] layer=1\n"                                                                               \
    "linear(x=%9 w=%5 b=%4 y=%10) act=none in_out=0 layer=1\n"                                                         \
    "sgd(p=%3 g=%11 step=%12 copy=%5) momentum=0 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=1\n"

/* A table, of which a few rows are read, and what only updates read beside its copy; neither what a node reads as it is stored, though
 * there is a copy, nor what has none. */
static void weights_go_whose_copies_are_read(void **state)
{
    (void)state;
    text_becomes(WITH_COPIES("", ""), apply_to_weights, 0, WITH_COPIES("", ""));
    text_becomes(WITH_COPIES("", ""), apply_to_weights, 1, WITH_COPIES(HOST, ""));
    text_becomes(WITH_COPIES("", ""), apply_to_weights, 3, WITH_COPIES(HOST, HOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(states_go_by_layer),
                                       cmocka_unit_test(large_states_go_to_a_file),
                                       cmocka_unit_test(weights_go_whose_copies_are_read)};
    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
