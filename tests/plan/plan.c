/* plan/: places against a brute-force packer and a checker of their own; the proof finds planted faults; what is
 * reported adds up. */
#include "plan/plan.h"
#include "base/philox.h"
#include "compile.h"
#include "plan/anatomy.h"
#include "plan/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static struct program *add_program(struct plan *p, const char *name, struct dims max)
{
    struct snug_err err;
    struct program *g = plan_add(p, name, max, &err);
    assert_non_null(g);
    return g;
}

static int bytes_value(struct program *g, int64_t bytes)
{
    return graph_add_value(&g->graph, NULL, ROLE_ACTIVATION, DT_U8, 1, &DIM(bytes));
}

/* A node that writes one value and reads another; either may be 0. */
static void touch(struct program *g, int writes, int reads)
{
    struct node n = {.op = OP_cast};
    n.u.cast = (struct op_cast){.x = reads, .y = writes};
    assert_true(MEM_GROW(g->graph.nodes, g->graph.cap_nodes, (size_t)g->graph.n_nodes + 1));
    g->graph.nodes[g->graph.n_nodes++] = n;
}

static void pack(struct plan *p)
{
    struct snug_err err;
    if (plan_pack(p, &err))
        fail_msg("%s", err.text);
}

/* ---- Against brute force. */

enum { MOST = 7 };

struct interval {
    int first, last; /* nodes */
    int64_t bytes, at;
};

static bool meet(const struct interval *a, const struct interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place that is free beside what was placed before. */
static int64_t lowest(const struct interval *v, const int *order, int k)
{
    const struct interval *x = &v[order[k]];
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < k; j++) {
            const struct interval *y = &v[order[j]];
            if (meet(x, y) && at < y->at + y->bytes && y->at < at + x->bytes) {
                at = y->at + y->bytes;
                moved = true;
            }
        }
    }
    return at;
}

/* The smallest arena. Some order of placing each value as low as it goes reaches it: that of the places in an arena
 * where everything has sunk as low as it can. */
static int64_t smallest(struct interval *v, int *order, int k, int n, int64_t end, int64_t best)
{
    if (end >= best)
        return best;
    if (k == n)
        return end;
    for (int i = k; i < n; i++) {
        int swap = order[k];
        order[k] = order[i], order[i] = swap;
        struct interval *x = &v[order[k]];
        x->at = lowest(v, order, k);
        int64_t top = x->at + x->bytes;
        best = smallest(v, order, k + 1, n, top > end ? top : end, best);
        swap = order[k];
        order[k] = order[i], order[i] = swap;
    }
    return best;
}

static int64_t most_at_once(const struct interval *v, int n, int nodes)
{
    int64_t most = 0;
    for (int t = 1; t <= nodes; t++) {
        int64_t live = 0;
        for (int i = 0; i < n; i++)
            live += v[i].first <= t && t <= v[i].last ? v[i].bytes : 0;
        most = live > most ? live : most;
    }
    return most;
}

static void packing_is_sound_and_near_the_best(void **state)
{
    (void)state;
    enum { CASES = 400, SEED = 20261121 };
    int best = 0;
    for (uint32_t c = 0; c < CASES; c++) {
        uint32_t drawn = 0;
#define DRAW(below) ((int)(philox4x32((struct philox){{c, drawn++, 0, 0}}, SEED, 0).w[0] % (uint32_t)(below)))
        struct plan p = {0};
        struct program *g = add_program(&p, "random", (struct dims){0});
        struct interval v[MOST];
        int n = 2 + DRAW(MOST - 1), id[MOST], begun[MOST], n_begun = 0, order[MOST];
        for (int i = 0; i < n; i++) {
            int64_t bytes = 1 + DRAW(600);
            id[i] = bytes_value(g, bytes);
            v[i] = (struct interval){.bytes = (bytes + 63) / 64 * 64};
            order[i] = i;
        }
        for (int made = 0, node = 1; made < n || n_begun; node++) { /* one begins, or one ends */
            if (made < n && (!n_begun || DRAW(2))) {
                touch(g, id[made], 0);
                v[made].first = node;
                begun[n_begun++] = made++;
            } else {
                int which = DRAW(n_begun), i = begun[which];
                touch(g, 0, id[i]);
                v[i].last = node;
                begun[which] = begun[--n_begun];
            }
        }
        pack(&p);
        int nodes = g->graph.n_nodes - 1;
        int64_t bound = most_at_once(v, n, nodes), least = smallest(v, order, 0, n, 0, INT64_MAX);
        assert_int_equal(g->lower_bound_bytes, bound);
        assert_int_equal(p.arena_bytes, g->peak_bytes);
        assert_true(bound <= least && least <= g->peak_bytes);
        assert_true(4 * g->peak_bytes <= 5 * least);
        best += g->peak_bytes == least;
        for (int i = 0; i < n; i++) {
            int64_t at = g->at[id[i]];
            assert_true(at >= 0 && at % 64 == 0 && at + v[i].bytes <= p.arena_bytes);
            assert_true(g->first[id[i]] == v[i].first && g->last[id[i]] == v[i].last);
            for (int j = 0; j < i; j++)
                assert_true(!meet(&v[i], &v[j]) || at >= g->at[id[j]] + v[j].bytes || g->at[id[j]] >= at + v[i].bytes);
        }
        plan_free(&p);
    }
    print_message("%d of %d packings are the best there is\n", best, CASES);
    assert_true(best >= CASES * 9 / 10);
}

/* ---- Two programs of a run, by hand.
 *   training    (T 8, B 2)  ids (T) in;  w (100) and its part (10 from 16 on);  a, b, c of 100 bytes: a and c in turn
 *   evaluation  (T 20, B 1) ids (T) in;  w;  d of 150 bytes */

struct pair {
    struct plan p;
    struct program *training, *evaluation;
    int ids, w, part, a, b, c, eval_ids, eval_w, d;
};

static void make_pair(struct pair *q)
{
    *q = (struct pair){0};
    struct program *t = q->training = add_program(&q->p, "training", (struct dims){.T = 8, .B = 2});
    q->ids = graph_add_value(&t->graph, "ids", ROLE_INPUT, DT_I32, 1, &DIM_T);
    t->graph.layer = 1;
    q->w = graph_add_value(&t->graph, "w", ROLE_WEIGHT, DT_F32, 1, &DIM(100));
    q->part = graph_add_slice(&t->graph, "part", q->w, 16, 1, &DIM(10));
    q->a = bytes_value(t, 100);
    q->b = bytes_value(t, 100);
    t->graph.layer = 2;
    q->c = bytes_value(t, 100);
    touch(t, q->a, q->ids);  /* 1 */
    touch(t, q->b, q->a);    /* 2: a and b */
    touch(t, q->c, q->part); /* 3: b and c */
    touch(t, 0, q->b);       /* 4 */
    touch(t, 0, q->c);       /* 5 */
    struct program *e = q->evaluation = add_program(&q->p, "evaluation", (struct dims){.T = 20, .B = 1});
    q->training = &q->p.programs[0];
    q->eval_w = graph_add_value(&e->graph, "w", ROLE_WEIGHT, DT_F32, 1, &DIM(100));
    q->eval_ids = graph_add_value(&e->graph, "ids", ROLE_INPUT, DT_I32, 1, &DIM_T);
    q->d = bytes_value(e, 150);
    graph_value(&e->graph, q->d)->live_out = true;
    touch(e, q->d, q->eval_ids);
    touch(e, 0, q->eval_w);
    pack(&q->p);
}

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

/* ---- Anatomy. */

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
        cmocka_unit_test(packing_is_sound_and_near_the_best),
        cmocka_unit_test(programs_share_what_persists),
        cmocka_unit_test(workspaces_live_with_their_node),
        cmocka_unit_test(a_shared_workspace_has_room_for_all),
        cmocka_unit_test(nodes_that_run_together_share_no_place),
        cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(the_anatomy_adds_up),
        cmocka_unit_test(what_others_keep_counts),
        cmocka_unit_test(the_timeline_has_every_node),
        cmocka_unit_test(shares_are_by_maker),
        cmocka_unit_test(the_report_adds_up),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
