/* plan/: what persists and what lives together has its place, worked out by hand; the proof finds planted faults. */
#include "by_hand.h"
#include "compile.h"
#include "graph/lanes.h"

#include <string.h>

static void programs_share_what_persists(void **state)
{
    (void)state;
    struct pair q;
    make_pair(&q);
    /* ids take 20 * 4 bytes, the larger of the two, w 400: 128 + 448 */
    assert_int_equal(q.p.persistent_bytes, 576);
    assert_int_equal(q.training->at[q.ids], 0);
    assert_int_equal(q.training->at[q.w], 128);
    assert_int_equal(q.training->at[q.part], 128 + 16 * 4);
    assert_int_equal(q.evaluation->at[q.eval_ids], 0);
    assert_int_equal(q.evaluation->at[q.eval_w], 128);
    /* a and b live at once, then b and c; d alone */
    assert_int_equal(q.training->lower_bound_bytes, 256);
    assert_int_equal(q.training->peak_bytes, 256);
    assert_int_equal(q.evaluation->peak_bytes, 192);
    assert_int_equal(q.p.arena_bytes, 576 + 256);
    assert_int_equal(q.p.lower_bound_bytes, 576 + 256);
    assert_int_equal(q.p.largest, 0);
    assert_int_equal(q.training->at[q.a], q.training->at[q.c]);
    assert_int_equal(q.evaluation->at[q.d], 576);
    assert_int_equal(q.evaluation->last[q.d], 3); /* wanted after the last node */
    plan_free(&q.p);
}

static void workspaces_live_with_their_node(void **state)
{
    (void)state;
    struct plan p = {0};
    struct program *g = add_program(&p, "workspaces", (struct dims){0});
    int w[3], x = bytes_value(g, 64);
    for (int i = 0; i < 3; i++) {
        w[i] = graph_add_value(&g->graph, NULL, ROLE_WORKSPACE, DT_U8, 1, &DIM(1000 + i));
        touch(g, i ? 0 : x, i ? x : 0);
        g->graph.nodes[i + 1].workspace = w[i];
    }
    pack(&p);
    assert_int_equal(p.arena_bytes, 64 + 1024);
    for (int i = 0; i < 3; i++)
        assert_true(g->first[w[i]] == i + 1 && g->last[w[i]] == i + 1 && g->at[w[i]] == g->at[w[0]]);
    plan_free(&p);
}

static int64_t some_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)b, (void)args, (void)threads;
    return op == OP_cast ? 100 : op == OP_clip ? 40 : 0;
}

static bool clips_run_together(enum op op)
{
    return op == OP_clip;
}

static bool casts_run_together(enum op op)
{
    return op == OP_cast;
}

/* Nodes that run at the same time have one workspace, with room for all of them, from the first to the last of them. */
static void a_shared_workspace_has_room_for_all(void **state)
{
    (void)state;
    struct backend b = {.workspace_bytes = some_bytes, .together = clips_run_together};
    struct plan p = {0};
    struct snug_err err;
    struct program *g = add_program(&p, "shared", (struct dims){0});
    int x = bytes_value(g, 64);
    touch(g, x, 0);
    for (int i = 0; i < 3; i++) {
        touch(g, 0, x);
        g->graph.nodes[i + 2].op = OP_clip;
    }
    touch(g, 0, x);
    assert_int_equal(compile_for_backend(&b, 1, g, &err), SNUG_OK);
    const struct node *n = g->graph.nodes;
    assert_true(n[1].workspace != n[5].workspace && n[1].workspace && n[5].workspace);
    assert_true(n[2].workspace && n[2].workspace == n[3].workspace && n[2].workspace == n[4].workspace);
    assert_int_equal(value_bytes(graph_value(&g->graph, n[1].workspace), g->max), 100);
    assert_int_equal(value_bytes(graph_value(&g->graph, n[2].workspace), g->max), 120);
    pack(&p);
    assert_true(g->first[n[2].workspace] == 2 && g->last[n[2].workspace] == 4);
    plan_free(&p);
}

/* Nodes of a lane run one after another: all have one workspace, with room for those that run at the same time. */
static void a_lane_has_one_workspace(void **state)
{
    (void)state;
    struct backend b = {.workspace_bytes = some_bytes, .together = clips_run_together};
    struct plan p = {0};
    struct snug_err err;
    struct program *g = add_program(&p, "lane", (struct dims){0});
    int x = bytes_value(g, 64);
    touch(g, x, 0);
    for (int i = 0; i < 5; i++) {
        touch(g, 0, x);
        g->graph.nodes[i + 2].op = i == 2 ? OP_cast : OP_clip; /* of LANE_COMPUTE between two launches of the lane */
        g->graph.nodes[i + 2].lane = i == 2 ? LANE_COMPUTE : LANE_SUMS;
    }
    touch(g, 0, x);
    g->graph.nodes[6].joins = false;
    assert_int_equal(compile_for_backend(&b, 1, g, &err), SNUG_OK);
    const struct node *n = g->graph.nodes;
    assert_true(n[2].workspace && n[2].workspace == n[3].workspace && n[2].workspace == n[5].workspace &&
                n[2].workspace == n[6].workspace);
    assert_true(n[4].workspace && n[4].workspace != n[2].workspace && n[7].workspace != n[4].workspace);
    assert_int_equal(value_bytes(graph_value(&g->graph, n[2].workspace), g->max), 80);
    pack(&p);
    assert_true(g->first[n[2].workspace] == 2 && g->last[n[2].workspace] == g->graph.n_nodes);
    plan_free(&p);
}

/* Clips 4 … 7 could run at the same time, but 6 waits for a later sum than 4 and 5 do; 7 waits for none that 6 does not wait for. */
static void who_waits_longer_joins_nobody(void **state)
{
    (void)state;
    struct backend b = {.together = clips_run_together};
    struct plan p = {0};
    struct snug_err err;
    struct program *g = add_program(&p, "waits", (struct dims){0});
    int x[3];
    for (int k = 0; k < 3; k++)
        touch(g, x[k] = bytes_value(g, 64), 0);
    for (int k = 0; k < 4; k++)
        touch(g, 0, x[k == 3 ? 0 : k]);
    for (int k = 4; k < 8; k++)
        g->graph.nodes[k].op = OP_clip;
    g->graph.nodes[2].lane = g->graph.nodes[3].lane = LANE_SUMS;
    g->graph.nodes[5].u.slot[0] = g->graph.nodes[4].u.slot[0]; /* of x[0], which no lane makes */
    assert_int_equal(compile_for_backend(&b, 1, g, &err), SNUG_OK);
    const struct node *n = g->graph.nodes;
    assert_true(!n[4].joins && n[5].joins && !n[6].joins && n[7].joins);
    assert_true(n[4].after[LANE_SUMS] == 0 && n[6].after[LANE_SUMS] == 3);
    plan_free(&p);
}

/* Casts 4 … 6 run at the same time: none's output takes the place of what another one reads. 7 needs the result of 6. */
static void nodes_that_run_together_share_no_place(void **state)
{
    (void)state;
    struct backend b = {.workspace_bytes = some_bytes, .together = casts_run_together};
    for (int i = 0; i < 2; i++) {
        struct plan p = {0};
        struct snug_err err;
        struct program *g = add_program(&p, "together", (struct dims){0});
        int x[3], y[4];
        for (int k = 0; k < 3; k++)
            touch(g, x[k] = bytes_value(g, 128), 0);
        for (int k = 0; k < 3; k++)
            touch(g, y[k] = bytes_value(g, 128), x[k]);
        touch(g, y[3] = bytes_value(g, 128), y[2]);
        for (int k = 1; k < 4; k++)
            g->graph.nodes[k].op = OP_clip;
        assert_int_equal(compile_for_backend(&b, 1, g, &err), SNUG_OK);
        for (int k = 1; k < 8; k++) {
            assert_int_equal(g->graph.nodes[k].joins, k == 5 || k == 6);
            g->graph.nodes[k].joins &= i == 0;
            g->graph.nodes[k].workspace = 0;
        }
        pack(&p);
        int last = i ? 4 : 6; /* without joins one place after another is free */
        assert_true(g->last[x[0]] == last && g->first[y[2]] == (i ? 6 : 4) && g->last[y[2]] == 7 &&
                    g->first[y[3]] == 7);
        assert_int_equal(g->lower_bound_bytes, (i ? 4 : 6) * 128);
        plan_free(&p);
    }
}

/* Values that lie in the host's memory: one after another in an arena of their own, at one place in all programs. */
static void make_far(struct plan *p, int m[2], int v[2])
{
    *p = (struct plan){0};
    for (int k = 0; k < 2; k++) {
        struct program *g = add_program(p, k ? "update" : "step", (struct dims){0});
        m[k] = graph_add_value(&g->graph, k ? "v" : "m", ROLE_STATE, DT_F32, 1, &DIM(25));
        v[k] = graph_add_value(&g->graph, k ? "m" : "v", ROLE_STATE, DT_F32, 1, &DIM(25));
        graph_value(&g->graph, m[k])->memory = graph_value(&g->graph, v[k])->memory = MEMORY_HOST;
        touch(g, bytes_value(g, 128), m[k]);
        touch(g, v[k], 0);
    }
    pack(p);
}

static void the_host_has_an_arena_of_its_own(void **state)
{
    (void)state;
    struct plan p;
    struct snug_err err;
    int m[2], v[2];
    make_far(&p, m, v);
    assert_true(p.host_bytes == 256 && p.persistent_bytes == 0 && p.arena_bytes == 128);
    assert_true(p.programs[0].at[m[0]] == 0 && p.programs[0].at[v[0]] == 128);
    assert_true(p.programs[1].at[m[1]] == 128 && p.programs[1].at[v[1]] == 0);
    p.programs[0].at[v[0]] = 64;
    assert_int_equal(plan_check(&p, &err), SNUG_ERR_ENV);
    assert_non_null(strstr(err.text, "share bytes"));
    p.programs[0].at[v[0]] = 192;
    assert_int_equal(plan_check(&p, &err), SNUG_ERR_ENV);
    assert_non_null(strstr(err.text, "outside its part"));
    plan_free(&p);
}

/* So has what lies in a file, of which one rank may have more than another. */
static void the_disk_has_an_arena_of_its_own(void **state)
{
    (void)state;
    struct plan p = {0};
    struct snug_err err;
    struct program *g = add_program(&p, "step", (struct dims){0});
    int v[3];
    for (int i = 0; i < 3; i++) {
        v[i] = graph_add_value(&g->graph, i == 0 ? "a" : i == 1 ? "b" : "c", ROLE_STATE, DT_F32, 1, &DIM(25));
        graph_value(&g->graph, v[i])->memory = MEMORY_DISK;
        graph_value(&g->graph, v[i])->rank = i;
    }
    touch(g, bytes_value(g, 128), v[0]);
    touch(g, v[1], v[2]);
    pack(&p);
    assert_true(p.disk_bytes == 256 && p.host_bytes == 0 && p.persistent_bytes == 0 && p.arena_bytes == 128);
    assert_true(p.owned_at[MEMORY_DISK] == 128 && g->at[v[0]] == 0 && g->at[v[1]] == 128 && g->at[v[2]] == 128);
    g->at[v[1]] = 256;
    assert_int_equal(plan_check(&p, &err), SNUG_ERR_ENV);
    assert_non_null(strstr(err.text, "outside its part"));
    plan_free(&p);
}

/* A plan of one program. */
static struct program *parsed(struct plan *p, const char *text, bool trails)
{
    struct snug_err err;
    struct program *g = add_program(p, "step", (struct dims){0});
    if (graph_parse(&g->graph, text, &err))
        fail_msg("%s", err.text);
    lanes_find(&g->graph);
    g->trails = trails;
    pack(p);
    return g;
}

/* A state comes to a buffer and goes back. What goes back still runs when the next run of the program begins, so the buffer lives on
 * there as far as it has room below the peak, at node 3, and shares no byte with what lives then. */
static void what_trails_lives_on_in_the_next_run(void **state)
{
    (void)state;
    static const char *const text =
        "%1 state F32[64] \"s\" layer=0 memory=host in keep\n%2 weight F32[64] \"p\" layer=0 in keep\n"
        "%3 scalar F64[8] \"step\" layer=0 in keep\n%4 input F32[64,1] \"x\" layer=0 in keep\n"
        "%5 activation F32[64,1] layer=0\n%6 activation F32[64,1] layer=0\n%7 activation F32[64,1] layer=0\n"
        "%8 gradient F32[64] \"g\" layer=0 in keep\n%9 workspace F32[64] layer=0\n%10 workspace F32[64] layer=0 "
        "slice=%9+0\n"
        "scale(x=%4 y=%5) by=2 layer=0\n"
        "scale(x=%5 y=%6) by=2 layer=0\n"
        "add(a=%5 b=%6 y=%7) layer=0\n"
        "move(x=%1 y=%10) lane=in layer=0\n"
        "sgd(p=%2 g=%8 buf=%10 step=%3) momentum=1 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=0\n"
        "move(x=%10 y=%1) lane=out layer=0\n";
    for (int trails = 0; trails < 2; trails++) {
        struct plan p = {0};
        struct snug_err err;
        struct program *g = parsed(&p, text, trails);
        assert_true(g->first[9] == 4 && g->last[9] == 7);
        assert_true(g->settle == (trails ? 3 : 0) && g->again[9] == (trails ? 2 : 0));
        assert_true(p.arena_bytes == p.persistent_bytes + 3 * 256 && g->lower_bound_bytes == 3 * 256);
        g->at[9] = g->at[5];
        assert_int_equal(plan_check(&p, &err), trails ? SNUG_ERR_ENV : SNUG_OK);
        plan_free(&p);
    }
}

/* The buffer of the first group of updates does not trail, but the copy into it may not begin while another lane is at work. */
static void no_lane_begins_before_the_others_are_waited_for(void **state)
{
    (void)state;
    static const char *const text =
        "%1 state F32[64] \"s\" layer=0 memory=host in keep\n%2 weight F32[64] \"p\" layer=0 in keep\n"
        "%3 scalar F64[8] \"step\" layer=0 in keep\n%4 input F32[64,1] \"x\" layer=0 in keep\n"
        "%5 activation F32[256,1] layer=0\n%6 activation F32[64,1] layer=0\n%7 gradient F32[64] \"g\" layer=0 in keep\n"
        "%8 workspace F32[64] layer=0\n%9 workspace F32[64] layer=0\n"
        "%10 state F32[64] \"t\" layer=0 memory=host in keep\n%11 weight F32[64] \"q\" layer=0 in keep\n"
        "%12 input F32[256,1] \"z\" layer=0 in keep\n%13 activation F32[64,1] layer=0\n"
        "scale(x=%4 y=%6) by=2 layer=0\n"
        "move(x=%1 y=%8) lane=in layer=0\n"
        "scale(x=%4 y=%13) by=2 layer=0\n"
        "sgd(p=%2 g=%7 buf=%8 step=%3) momentum=1 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=0\n"
        "move(x=%8 y=%1) lane=out layer=0\n"
        "scale(x=%12 y=%5) by=2 waits=%1 layer=0\n"
        "move(x=%10 y=%9) lane=in layer=0\n"
        "sgd(p=%11 g=%7 buf=%9 step=%3) momentum=1 dampening=0 weight_decay=0 nesterov=0 noise=0 layer=0\n"
        "move(x=%9 y=%10) lane=out layer=0\n";
    struct plan p = {0};
    assert_int_equal(parsed(&p, text, true)->settle, 2);
    plan_free(&p);
}

/* ---- The proof. */

static void broken_by(struct pair *q, const char *part)
{
    struct snug_err err;
    if (plan_check(&q->p, &err) != SNUG_ERR_ENV || !strstr(err.text, part))
        fail_msg("\"%s\" was not found", part);
    plan_free(&q->p);
}

static void planted_faults_are_found(void **state)
{
    (void)state;
    struct pair q;
    struct snug_err err;
    make_pair(&q);
    assert_int_equal(plan_check(&q.p, &err), SNUG_OK);
    q.training->at[q.b] = q.training->at[q.a]; /* live at once */
    broken_by(&q, "live at once and share bytes");
    make_pair(&q);
    q.training->at[q.b] = q.training->at[q.c] + 64 < 832 - 64 ? q.training->at[q.c] + 64 : q.training->at[q.c] - 64;
    broken_by(&q, "live at once and share bytes");
    make_pair(&q);
    q.training->at[q.a] += 4;
    broken_by(&q, "outside its part of the arena");
    make_pair(&q);
    q.training->at[q.a] = q.p.arena_bytes;
    broken_by(&q, "outside its part of the arena");
    make_pair(&q);
    q.training->at[q.a] = 448; /* among what persists */
    broken_by(&q, "share bytes");
    make_pair(&q);
    q.training->at[q.w] = 576;
    broken_by(&q, "outside its part of the arena");
    make_pair(&q);
    q.training->at[q.w] = q.evaluation->at[q.eval_w] = 64; /* the longer ids of the evaluation reach that far */
    broken_by(&q, "share bytes");
    make_pair(&q);
    q.evaluation->at[q.eval_w] = 64;
    broken_by(&q, "share bytes");
    make_pair(&q);
    q.evaluation->at[q.eval_w] = 0, q.evaluation->at[q.eval_ids] = 448;
    broken_by(&q, "persists at two places");
    make_pair(&q);
    q.training->at[q.c] = -1;
    broken_by(&q, "has no place");
}

/* What is of one rank begins behind what all have, at the same place for each: the largest takes the room. */
static void ranks_have_values_of_their_own(void **state)
{
    (void)state;
    static const int64_t sizes[] = {100, 300, 64, 40};
    static const int of[] = {0, 1, 2, 2};
    struct plan p = {0};
    struct snug_err err;
    struct program *g = add_program(&p, "training", (struct dims){0});
    int id[4], x = bytes_value(g, 64);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "state%d", i);
        id[i] = graph_add_value(&g->graph, name, ROLE_STATE, DT_U8, 1, &DIM(sizes[i]));
        graph_value(&g->graph, id[i])->rank = of[i];
    }
    touch(g, x, id[0]);
    touch(g, 0, x);
    pack(&p);
    /* 128 of all; 320 of rank 1; 64 + 64 of rank 2 */
    assert_int_equal(p.owned_at[MEMORY_DEVICE], 128);
    assert_true(g->at[id[0]] == 0 && g->at[id[1]] == 128 && g->at[id[2]] == 128 && g->at[id[3]] == 192);
    assert_true(p.persistent_bytes == 128 + 320 && p.least_bytes == 128 + 128 && p.fullest == 1);
    assert_int_equal(p.arena_bytes, 128 + 320 + 64);
    g->at[id[3]] = 128;
    assert_int_equal(plan_check(&p, &err), SNUG_ERR_ENV);
    assert_non_null(strstr(err.text, "are of one rank and share bytes"));
    g->at[id[3]] = 448;
    assert_int_equal(plan_check(&p, &err), SNUG_ERR_ENV);
    assert_non_null(strstr(err.text, "lies outside its part of the arena"));
    plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_values_of_their_own),
        cmocka_unit_test(programs_share_what_persists),
        cmocka_unit_test(workspaces_live_with_their_node),
        cmocka_unit_test(a_shared_workspace_has_room_for_all),
        cmocka_unit_test(a_lane_has_one_workspace),
        cmocka_unit_test(who_waits_longer_joins_nobody),
        cmocka_unit_test(nodes_that_run_together_share_no_place),
        cmocka_unit_test(the_host_has_an_arena_of_its_own),
        cmocka_unit_test(the_disk_has_an_arena_of_its_own),
        cmocka_unit_test(what_trails_lives_on_in_the_next_run),
        cmocka_unit_test(no_lane_begins_before_the_others_are_waited_for),
        cmocka_unit_test(planted_faults_are_found),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
