/* plan/anatomy.c, report.c: what is reported of a plan adds up, by component, layer, node and maker. */
#include "plan/anatomy.h"
#include "by_hand.h"
#include "plan/report.h"

#include <string.h>

#include <jansson.h>

static void the_anatomy_adds_up(void **state)
{
    (void)state;
    struct pair q;
    struct anatomy a;
    int64_t by_layer[3];
    make_pair(&q);
    memset(by_layer, 0, sizeof by_layer);
    plan_anatomy(&q.p, 0, q.training->peak_node, &a, by_layer, 3);
    assert_int_equal(q.training->peak_node, 2);
    assert_int_equal(a.by_component[COMPONENT_INPUTS], 128);
    assert_int_equal(a.by_component[COMPONENT_WEIGHTS], 448);
    assert_int_equal(a.by_component[COMPONENT_ACTIVATIONS], 256);
    assert_int_equal(a.total, 576 + 256);
    assert_int_equal(by_layer[0], 128);
    assert_int_equal(by_layer[1], 448 + 256);
    assert_int_equal(by_layer[2], 0);
    plan_anatomy(&q.p, 0, 3, &a, NULL, 0);
    assert_int_equal(a.total, 576 + 256);
    plan_anatomy(&q.p, 0, 5, &a, NULL, 0);
    assert_int_equal(a.total, 576 + 128);
    plan_anatomy(&q.p, 1, 1, &a, NULL, 0);
    assert_int_equal(a.total, 576 + 192);
    plan_free(&q.p);
}

/* What another program keeps is there too. */
static void what_others_keep_counts(void **state)
{
    (void)state;
    struct pair q;
    struct anatomy a;
    int64_t by_layer[4] = {0};
    make_pair(&q);
    struct plan p = {0};
    struct program *first = add_program(&p, "first", (struct dims){.T = 8, .B = 2});
    int w = graph_add_value(&first->graph, "w", ROLE_WEIGHT, DT_F32, 1, &DIM(100));
    touch(first, 0, w);
    struct program *second = add_program(&p, "second", (struct dims){.T = 8, .B = 2});
    second->graph.layer = 3;
    int m = graph_add_value(&second->graph, "m", ROLE_STATE, DT_F32, 1, &DIM(10));
    touch(second, 0, m);
    pack(&p);
    plan_anatomy(&p, 0, 1, &a, by_layer, 4);
    assert_int_equal(a.by_component[COMPONENT_STATES], 64);
    assert_int_equal(a.total, 448 + 64);
    assert_int_equal(by_layer[3], 64);
    plan_anatomy(&p, 1, 1, &a, NULL, 0);
    assert_int_equal(a.total, 448 + 64);
    plan_free(&p);
    plan_free(&q.p);
}

/* What is there at each node, with the activations of three layers in two bands: a and b are of layer 1, c is of layer 2. */
static void the_timeline_has_every_node(void **state)
{
    (void)state;
    static const int64_t first[] = {0, 128, 256, 128, 128, 0}, second[] = {0, 0, 0, 128, 128, 128};
    struct pair q;
    struct timeline t;
    make_pair(&q);
    assert_true(timeline_make(&q.p, 0, 2, &t));
    assert_int_equal(t.n_nodes, 6);
    assert_int_equal(t.groups, 2);
    for (int k = 1; k <= 5; k++) {
        const int64_t *bands = t.bands + k * t.n_bands;
        assert_int_equal(bands[COMPONENT_WEIGHTS], 448);
        assert_int_equal(bands[COMPONENT_INPUTS], 128);
        assert_int_equal(bands[timeline_band(&t, COMPONENT_ACTIVATIONS, 1)], first[k]);
        assert_int_equal(bands[timeline_band(&t, COMPONENT_ACTIVATIONS, 2)], second[k]);
        assert_int_equal(timeline_total(&t, k), 576 + first[k] + second[k]);
    }
    timeline_free(&t);
    plan_free(&q.p);
}

/* What holds something is told by what makes it: here casts, but for a workspace, which is of an op. */
static void shares_are_by_maker(void **state)
{
    (void)state;
    struct pair q;
    struct shares s;
    make_pair(&q);
    plan_shares(&q.p, 0, 3, &s);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.of[0].maker, "weights");
    assert_int_equal(s.of[0].bytes, 448);
    assert_string_equal(s.of[1].maker, "cast.y");
    assert_true(s.of[1].bytes == 256 && s.of[1].n == 2 && s.of[1].first_layer == 1 && s.of[1].last_layer == 2);
    assert_string_equal(s.of[2].maker, "inputs");
    assert_int_equal(s.of[2].bytes, 128);
    shares_free(&s);
    plan_free(&q.p);
}

/* The weights of experts lie together in three dimensions; files have the parts, which states belong to. */
static void experts_are_told_from_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *maker;
        int64_t bytes;
    } wanted[] = {
        {"weights of experts", 4 * 128}, {"exp_avg of experts", 4 * 64}, {"weights", 4 * 48}, {"exp_avg", 4 * 32}};
    struct plan p = {0};
    struct shares s;
    struct program *g = add_program(&p, "step", (struct dims){.T = 8, .B = 2});
    int all = graph_add_value(&g->graph, "experts", ROLE_WEIGHT, DT_F32, SHAPE(DIM(2), DIM(4), DIM(16)));
    int part = graph_add_slice(&g->graph, "experts.1", all, 64, SHAPE(DIM(4), DIM(16)));
    int plain = graph_add_value(&g->graph, "plain", ROLE_WEIGHT, DT_F32, SHAPE(DIM(3), DIM(16)));
    int states[] = {graph_add_kin(&g->graph, KIN_EXP_AVG, part, DT_F32, SHAPE(DIM(4), DIM(16))),
                    graph_add_kin(&g->graph, KIN_EXP_AVG, plain, DT_F32, SHAPE(DIM(32)))};
    touch(g, 0, all);
    touch(g, 0, plain);
    touch(g, 0, states[0]);
    touch(g, 0, states[1]);
    pack(&p);
    plan_shares(&p, 0, 1, &s);
    assert_int_equal(s.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(s.of[i].maker, wanted[i].maker);
        assert_int_equal(s.of[i].bytes, wanted[i].bytes);
    }
    shares_free(&s);
    plan_free(&p);
}

static void the_report_adds_up(void **state)
{
    (void)state;
    struct pair q;
    struct str out = {0};
    make_pair(&q);
    plan_report_json(&q.p, &out);
    json_t *o = json_loads(str_text(&out), 0, NULL), *part;
    assert_non_null(o);
    const char *name;
    json_int_t components = 0, layers = 0, arena = json_integer_value(json_object_get(o, "arena_bytes"));
    size_t i;
    json_object_foreach(json_object_get(o, "components"), name, part) components += json_integer_value(part);
    json_array_foreach(json_object_get(o, "layers"), i, part) layers +=
        json_integer_value(json_object_get(part, "bytes"));
    assert_int_equal(arena, 832);
    assert_int_equal(components, 832);
    assert_int_equal(layers, 832);
    assert_int_equal(json_integer_value(json_object_get(o, "gap_bytes")), 0);
    json_decref(o);
    str_free(&out);
    plan_free(&q.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_anatomy_adds_up),
        cmocka_unit_test(what_others_keep_counts),
        cmocka_unit_test(the_timeline_has_every_node),
        cmocka_unit_test(shares_are_by_maker),
        cmocka_unit_test(experts_are_told_from_the_rest),
        cmocka_unit_test(the_report_adds_up),
    };
    return cmocka_run_group_tests_name("anatomy", tests, NULL, NULL);
}
