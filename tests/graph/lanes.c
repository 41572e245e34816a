/* graph/lanes.h: what waits for what, how long values live because of that, how long a program takes with it. */
#include "graph/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Two states pass through one buffer: 1 comes, 2 updates, 3 goes; 4 and 5 compute; 6 comes, 7 updates, 8 goes. */
static const char *const turns =
    "%1 state F32[8] \"a\" layer=0 memory=host in keep\n%2 state F32[8] \"b\" layer=0 memory=host in keep\n"
    "%3 workspace F32[8] layer=0\n%4 workspace F32[8] layer=0 slice=%3+0\n%5 workspace F32[8] layer=0 slice=%3+0\n"
    "%6 weight F32[8] \"p\" layer=0 in keep\n%7 gradient F32[8] \"g\" layer=0 in\n%8 scalar F64[8] \"step\" layer=0 "
    "in\n"
    "%9 activation F32[8,1] layer=0 in\n%10 activation F32[8,1] layer=0\n%11 activation F32[8,1] layer=0 out\n"
    "move(x=%1 y=%4) lane=in layer=0\n"
    "sgd(p=%6 g=%7 buf=%4 step=%8) momentum=1 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=0\n"
    "move(x=%4 y=%1) lane=out layer=0\n"
    "scale(x=%9 y=%10) by=2 layer=0\n"
    "scale(x=%10 y=%11) by=2 layer=0\n"
    "move(x=%2 y=%5) lane=in layer=0\n"
    "sgd(p=%6 g=%7 buf=%5 step=%8) momentum=1 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=0\n"
    "move(x=%5 y=%2) lane=out layer=0\n";

/* Two results go to the host, and a later node reads one of them there. */
static const char *const stores =
    "%1 state F32[8,1] \"a\" layer=0 memory=host in keep\n%2 state F32[8,1] \"b\" layer=0 memory=host in keep\n"
    "%3 activation F32[8,1] layer=0 in\n%4 activation F32[8,1] layer=0\n%5 activation F32[8,1] layer=0\n"
    "%6 activation F32[8,1] layer=0 out\n%7 activation F32[8,1] layer=0 out\n"
    "scale(x=%3 y=%4) by=2 layer=0\n"
    "scale(x=%3 y=%5) by=3 layer=0\n"
    "move(x=%4 y=%1) lane=out layer=0\n"
    "move(x=%5 y=%2) lane=out layer=0\n"
    "scale(x=%3 y=%6) by=4 layer=0\n"
    "scale(x=%1 y=%7) by=5 layer=0\n";

/* An activation leaves and comes back. Node 4 begins when it has left. */
static const char *const leaving =
    "%1 activation F32[8,1] layer=0 in\n%2 activation F32[8,1] layer=0\n%3 activation F32[8,1] layer=0 memory=host\n"
    "%4 activation F32[8,1] layer=0\n%5 activation F32[8,1] layer=0\n%6 activation F32[8,1] layer=0\n"
    "%7 activation F32[8,1] layer=0\n%8 activation F32[8,1] layer=0 out\n"
    "scale(x=%1 y=%2) by=2 layer=0\n"
    "move(x=%2 y=%3) lane=out layer=0\n"
    "scale(x=%1 y=%5) by=3 layer=0\n"
    "scale(x=%5 y=%6) by=4 waits=%3 layer=0\n"
    "scale(x=%6 y=%7) by=5 layer=0\n"
    "move(x=%3 y=%4) lane=in layer=0\n"
    "scale(x=%4 y=%8) by=6 layer=0\n";

static struct graph parsed(const char *text)
{
    struct graph g;
    struct snug_err err;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    if (graph_parse(&g, text, &err))
        fail_msg("%s", err.text);
    lanes_find(&g);
    assert_int_equal(graph_ok(&g, &err), SNUG_OK);
    return g;
}

static void a_node_waits_for_what_it_conflicts_with(void **state)
{
    (void)state;
    struct graph g = parsed(turns);
    /* by node: the latest it waits for of compute, in, out */
    static const int after[][LANE_COUNT] = {{0}, {0}, {0, 1, 0}, {2, 1, 0}, {0}, {0}, {5, 0, 3}, {0, 6, 3}, {7, 6, 0}};
    for (int k = 1; k < g.n_nodes; k++)
        assert_memory_equal(g.nodes[k].after, after[k], sizeof after[k]);
    graph_free(&g);
}

/* What a copy reads lives until a node of LANE_COMPUTE has waited for the copy, here for the place that it goes to; else to the end. */
static void values_live_until_others_have_waited(void **state)
{
    (void)state;
    struct graph g = parsed(stores);
    int first[8] = {0}, last[8] = {0};
    lives_find(&g, first, last);
    assert_true(first[4] == 1 && last[4] == 5);
    assert_true(first[5] == 2 && last[5] == g.n_nodes);
    assert_true(first[3] == 1 && last[3] == 5 && first[6] == 5 && last[6] == g.n_nodes);
    int64_t *bytes = lives_bytes(&g, (struct dims){0});
    static const int64_t live[] = {0, 2, 3, 3, 3, 4, 3, 3};
    for (int k = 1; k <= g.n_nodes; k++)
        assert_int_equal(bytes[k], 32 * live[k]);
    mem_free(bytes);
    graph_free(&g);
}

static void a_node_waits_for_what_it_does_not_use(void **state)
{
    (void)state;
    struct graph g = parsed(leaving);
    static const int after[][LANE_COUNT] = {{0}, {0}, {1, 0, 0}, {0}, {0, 0, 2}, {0}, {5, 0, 2}, {0, 6, 0}};
    int first[9] = {0}, last[9] = {0};
    for (int k = 1; k < g.n_nodes; k++)
        assert_memory_equal(g.nodes[k].after, after[k], sizeof after[k]);
    lives_find(&g, first, last);
    assert_true(first[2] == 1 && last[2] == 3 && first[4] == 6 && last[4] == 7);
    graph_free(&g);
}

static void lanes_take_as_long_as_the_longest_way(void **state)
{
    (void)state;
    struct graph g = parsed(turns);
    /* in 3, update 1, out 5 beside 2 + 2, then in 3, behind both: 9, update, out */
    const double seconds[] = {0, 3, 1, 5, 2, 2, 3, 1, 5};
    assert_true(lanes_seconds(&g, seconds, 0) == 3 + 1 + 5 + 3 + 1 + 5);
    const double quick_copies[] = {0, 3, 1, 1, 2, 2, 3, 1, 5};
    assert_true(lanes_seconds(&g, quick_copies, 0) == 3 + 1 + 2 + 2 + 3 + 1 + 5);
    graph_free(&g);
    /* Computing takes 1 2 5 6, and the copies 3 and 20: the next run waits for them before its node 2, this one at its end. */
    g = parsed(stores);
    const double long_copies[] = {0, 1, 2, 3, 20, 5, 6};
    assert_true(lanes_seconds(&g, long_copies, 0) == 1 + 2 + 3 + 20);
    assert_true(lanes_seconds(&g, long_copies, 2) == 12 + 2 + 5 + 6);
    bool trails[8] = {0};
    lives_trailing(&g, trails);
    static const bool expected[8] = {[2] = true, [5] = true};
    assert_memory_equal(trails, expected, sizeof trails);
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_node_waits_for_what_it_conflicts_with),
                                       cmocka_unit_test(values_live_until_others_have_waited),
                                       cmocka_unit_test(a_node_waits_for_what_it_does_not_use),
                                       cmocka_unit_test(lanes_take_as_long_as_the_longest_way)};
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
