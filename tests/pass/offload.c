/* pass_offload, text in and text out: activations of the first layers are in the host's memory between the passes. */
#include "text.h"

/* Four layers and a head, each y = cap tanh(x / cap), whose gradient reads y. The backward pass goes through them from the last to the
 * first. An activation has 64 KiB. */
#define VALUES "%1 input F32[16384,1] \"x\" layer=0 in keep\n%7 input F32[16384,1] \"dy\" layer=5 in keep\n"
#define MADE(id, layer) "%" id " activation F32[16384,1] layer=" layer "\n"
#define FORWARD_OF(x, y, layer, waits) "softcap(x=%" x " y=%" y ") cap=2" waits " layer=" layer "\n"
#define BACKWARD_OF(y, dy, dx, layer) "softcap_bwd(y=%" y " dy=%" dy " dx=%" dx ") cap=2 layer=" layer " backward\n"
#define FAR(id, layer) "%" id " activation F32[16384,1] layer=" layer " memory=host\n"
#define LEAVES(near, far, layer) FAR(far, layer) "move(x=%" near " y=%" far ") lane=out layer=" layer "\n"
#define COMES(far, back, layer) MADE(back, layer) "move(x=%" far " y=%" back ") lane=in layer=" layer " backward\n"

#define FIRST MADE("2", "1") FORWARD_OF("1", "2", "1", "")
#define LAST_BACKWARD(waits)                                                                                           \
    MADE("8", "5")                                                                                                     \
    "softcap_bwd(y=%6 dy=%7 dx=%8) cap=2" waits " layer=5 backward\n"
#define BEFORE                                                                                                         \
    VALUES FIRST MADE("3", "2") FORWARD_OF("2", "3", "2", "") MADE("4", "3") FORWARD_OF("3", "4", "3", "")             \
        MADE("5", "4") FORWARD_OF("4", "5", "4", "") MADE("6", "5") FORWARD_OF("5", "6", "5", "") LAST_BACKWARD("")    \
            MADE("9", "4") BACKWARD_OF("5", "8", "9", "4") MADE("10", "3") BACKWARD_OF("4", "9", "10", "3")            \
                MADE("11", "2")                                                                                        \
                    BACKWARD_OF("3", "10", "11",                                                                       \
                                "2") "%12 activation F32[16384,1] layer=1 out\n" BACKWARD_OF("2", "11", "12", "1")

static void apply(struct graph *g, int layers)
{
    pass_offload(g, &(struct pass_settings){.choices.host_activations = layers});
}

static void apply_late(struct graph *g, int layers)
{
    pass_offload(g, &(struct pass_settings){.choices.host_activations = layers, .choices.prefetch = true});
}

static void apply_there(struct graph *g, int layers)
{
    pass_offload(g, &(struct pass_settings){.choices.host_activations = layers, .in_host_memory = true});
}

/* The set of layer 2 sends; the others do not. */
static void apply_sets(struct graph *g, int layer)
{
    struct recompute_set sets[6] = {{0}};
    sets[layer].sent = true;
    pass_offload(g, &(struct pass_settings){.choices.recompute = sets});
}

static void what_is_not_sent_stays(void **state)
{
    (void)state;
    text_becomes(BEFORE, apply, 0, BEFORE);
    text_becomes(BEFORE, apply, 1, BEFORE); /* the embeddings, which this program has none of */
    text_becomes(BEFORE, apply_there, 6, BEFORE);
}

/* That of the first layer is copied while the second and the third run, before which the fourth waits, and back beside layer 2. */
static void one_layer_leaves(void **state)
{
    (void)state;
    text_becomes(BEFORE, apply, 2,
                 VALUES FIRST LEAVES("2", "13", "1") MADE("3", "2") FORWARD_OF("2", "3", "2", "") MADE("4", "3")
                     FORWARD_OF("3", "4", "3", "") MADE("5", "4") FORWARD_OF("4", "5", "4", " waits=%13") MADE("6", "5")
                         FORWARD_OF("5", "6", "5", "") LAST_BACKWARD("") MADE("9", "4") BACKWARD_OF("5", "8", "9", "4")
                             MADE("10", "3") BACKWARD_OF("4", "9", "10", "3") COMES("13", "14", "1") MADE("11", "2")
                                 BACKWARD_OF("3", "10", "11",
                                             "2") "%12 activation F32[16384,1] layer=1 out\n" BACKWARD_OF("14", "11",
                                                                                                          "12", "1"));
}

static void a_set_sends_its_layer(void **state)
{
    (void)state;
    text_becomes(
        BEFORE, apply_sets, 2,
        VALUES FIRST MADE("3", "2") FORWARD_OF("2", "3", "2", "") LEAVES("3", "13", "2") MADE("4", "3")
            FORWARD_OF("3", "4", "3", "") MADE("5", "4") FORWARD_OF("4", "5", "4", "") MADE("6", "5")
                FORWARD_OF("5", "6", "5", " waits=%13") LAST_BACKWARD("") MADE("9", "4") BACKWARD_OF("5", "8", "9", "4")
                    COMES("13", "14", "2") MADE("10", "3") BACKWARD_OF("4", "9", "10", "3") MADE("11", "2")
                        BACKWARD_OF("14", "10", "11",
                                    "2") "%12 activation F32[16384,1] layer=1 out\n" BACKWARD_OF("2", "11", "12", "1"));
}

/* All may leave. That of layer 4 would be back at once, and stays, as the head's does. */
static void what_is_back_at_once_stays(void **state)
{
    (void)state;
    text_becomes(
        BEFORE, apply, 6,
        VALUES FIRST LEAVES("2", "13", "1") MADE("3", "2") FORWARD_OF("2", "3", "2", "") LEAVES("3", "15", "2")
            MADE("4", "3") FORWARD_OF("3", "4", "3", "") LEAVES("4", "17", "3") MADE("5", "4")
                FORWARD_OF("4", "5", "4", " waits=%13") MADE("6", "5") FORWARD_OF("5", "6", "5", " waits=%15")
                    LAST_BACKWARD(" waits=%17") COMES("17", "18", "3") MADE("9", "4") BACKWARD_OF("5", "8", "9", "4")
                        COMES("15", "16", "2") MADE("10", "3") BACKWARD_OF("18", "9", "10", "3") COMES("13", "14", "1")
                            MADE("11", "2")
                                BACKWARD_OF("16", "10", "11", "2") "%12 activation F32[16384,1] layer=1 out\n" /* */
        BACKWARD_OF("14", "11", "12", "1"));
}

/* At the peak, where the first backward nodes run, five values live without that of the first layer. Where four do, it is there, too. */
static void room_below_the_peak_is_used(void **state)
{
    (void)state;
    text_becomes(
        BEFORE, apply_late, 2,
        VALUES FIRST LEAVES("2", "13", "1") MADE("3", "2") FORWARD_OF("2", "3", "2", "") MADE("4", "3")
            FORWARD_OF("3", "4", "3", "") MADE("5", "4") FORWARD_OF("4", "5", "4", "") MADE("6", "5")
                FORWARD_OF("5", "6", "5", "") LAST_BACKWARD(" waits=%13") MADE("9", "4") BACKWARD_OF("5", "8", "9", "4")
                    COMES("13", "14", "1") MADE("10", "3") BACKWARD_OF("4", "9", "10", "3") MADE("11", "2")
                        BACKWARD_OF("3", "10", "11", "2") "%12 activation F32[16384,1] layer=1 out\n" BACKWARD_OF(
                            "14", "11", "12", "1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_sent_stays),      cmocka_unit_test(one_layer_leaves),
        cmocka_unit_test(a_set_sends_its_layer),       cmocka_unit_test(what_is_back_at_once_stays),
        cmocka_unit_test(room_below_the_peak_is_used),
    };
    return cmocka_run_group_tests_name("pass: offload", tests, NULL, NULL);
}
