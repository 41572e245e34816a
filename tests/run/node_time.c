/* Times of programs from times of nodes: which node is taken for which, and in what proportion. Work and seconds are
 * written out by hand. */
#include "run/node_time.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct plan small, large;

static struct program *add(struct plan *p, struct dims max)
{
    struct snug_err err;
    struct program *g = plan_add(p, "program", max, &err);
    assert_non_null(g);
    return g;
}

static int rows(struct program *g, int64_t width)
{
    return graph_add_value(&g->graph, NULL, ROLE_ACTIVATION, DT_F32, 2, (struct dim[]){DIM_T, DIM(width)});
}

static void linear(struct program *g, int64_t in, int64_t out)
{
    struct op_linear l = {.x = rows(g, in)};
    l.w = graph_add_value(&g->graph, NULL, ROLE_WEIGHT, DT_F32, 2, (struct dim[]){DIM(out), DIM(in)});
    emit_linear(&g->graph, &l);
}

static void cast(struct program *g, int64_t width)
{
    struct op_cast c = {.x = rows(g, width)};
    emit_cast(&g->graph, &c);
    graph_value(&g->graph, c.y)->dtype = DT_BF16;
}

static void attention(struct program *g, int64_t width)
{
    struct op_attention a = {.qkv = rows(g, 3 * width), .heads = 1, .kv_heads = 1, .scale = 1};
    a.cu = graph_add_value(&g->graph, NULL, ROLE_INPUT, DT_I32, 1, &(struct dim){.times.B = 1, .c = 1});
    emit_attention(&g->graph, &a);
}

static void dropout(struct program *g, int64_t width)
{
    struct op_dropout d = {.x = rows(g, width), .p = 0.5};
    d.coords = graph_add_value(&g->graph, NULL, ROLE_INPUT, DT_I32, 2, (struct dim[]){DIM_T, DIM(2)});
    d.rng = graph_add_value(&g->graph, NULL, ROLE_INPUT, DT_I32, 1, &DIM(4));
    emit_dropout(&g->graph, &d);
}

static void close_to(double x, double y)
{
    if (!(fabs(x - y) <= 1e-12 * fabs(y)))
        fail_msg("%.17g, not %.17g", x, y);
}

static int tear_down(void **state)
{
    (void)state;
    plan_free(&small);
    plan_free(&large);
    return 0;
}

static void measured(struct node_times *t, const struct program *g, struct dims dims, const double *seconds)
{
    struct snug_err err;
    if (graph_ok(&g->graph, &err) || node_times_add(t, g, dims, seconds, &err))
        fail_msg("%s", err.text);
}

static void work_is_counted(void **state)
{
    (void)state;
    struct program *g = add(&small, (struct dims){.T = 10, .B = 2});
    linear(g, 4, 3);
    cast(g, 8);
    attention(g, 16);
    close_to(node_work(g, &g->graph.nodes[1], g->max), 2 * 10 * 4 * 3);
    close_to(node_work(g, &g->graph.nodes[2], g->max), 10 * 8 * (4 + 2));
    close_to(node_work(g, &g->graph.nodes[3], g->max), 4.0 * 2 * 5 * 5 * 16); /* two sequences of five */
}

static void nodes_take_the_time_of_their_like(void **state)
{
    (void)state;
    struct node_times t = {0};
    struct program *s = add(&small, (struct dims){.T = 10, .B = 2});
    linear(s, 4, 3);
    linear(s, 4, 6);
    cast(s, 8);
    attention(s, 16);
    measured(&t, s, s->max, (double[]){0, 3e-6, 1e-6, 2e-6, 7e-6});

    close_to(node_times_sum(&t), 13e-6);

    struct program *l = add(&large, (struct dims){.T = 100, .B = 4});
    linear(l, 4, 6); /* 10 times the tokens: the second, not the first */
    close_to(node_times_of(&t, l, l->max, 1), 1e-5);
    linear(l, 4, 5); /* as none is: the one with most nearly as many operations, 2*10*4*6 */
    close_to(node_times_of(&t, l, l->max, 1), 1e-5 + 1e-6 * (2 * 100 * 4 * 5) / (2 * 10 * 4 * 6));
    close_to(node_times_of(&t, l, (struct dims){.T = 10, .B = 1}, 1), 1e-6 + 1e-6 * 5 / 6);
    node_times_free(&t);
}

static void another_shape_is_nearer_than_another_dtype(void **state)
{
    (void)state;
    struct node_times t = {0};
    struct program *s = add(&small, (struct dims){.T = 10, .B = 2});
    linear(s, 4, 6);
    for (int i = 1; i < s->graph.n_values; i++)
        graph_value(&s->graph, i)->dtype = DT_BF16;
    linear(s, 4, 3);
    measured(&t, s, s->max, (double[]){0, 1e-6, 3e-6});

    struct program *l = add(&large, (struct dims){.T = 100, .B = 4});
    linear(l, 4, 6);
    close_to(node_times_of(&t, l, l->max, 1), 3e-6 * (2 * 100 * 4 * 6) / (2 * 10 * 4 * 3));
    node_times_free(&t);
}

static void attention_grows_with_the_squares(void **state)
{
    (void)state;
    struct node_times t = {0};
    struct program *s = add(&small, (struct dims){.T = 10, .B = 2});
    attention(s, 16);
    measured(&t, s, s->max, (double[]){0, 1e-6});
    struct program *l = add(&large, (struct dims){.T = 100, .B = 4});
    attention(l, 16);
    close_to(node_times_of(&t, l, l->max, 1), 1e-6 * (4 * 25 * 25) / (2 * 5 * 5));
    close_to(node_times_of(&t, l, l->max, 1.25), 1.25e-6 * (4 * 25 * 25) / (2 * 5 * 5));
    node_times_free(&t);
}

/* Of a product at 10 tokens and at 40: 2e-6 s and 1e-7 s a token. */
static void two_sizes_give_a_line(void **state)
{
    (void)state;
    struct node_times t = {0};
    struct program *s = add(&small, (struct dims){.T = 40, .B = 2}), *l = add(&large, (struct dims){.T = 100, .B = 4});
    linear(s, 4, 6);
    linear(l, 4, 6);
    measured(&t, s, (struct dims){.T = 10, .B = 2}, (double[]){0, 3e-6});
    close_to(node_times_of(&t, l, l->max, 1), 30e-6);
    measured(&t, s, (struct dims){.T = 40, .B = 2}, (double[]){0, 6e-6});
    close_to(node_times_of(&t, l, l->max, 1), 12e-6);
    close_to(node_times_of(&t, l, (struct dims){.T = 20, .B = 2}, 1), 4e-6);
    close_to(node_times_of(&t, l, (struct dims){.T = 5, .B = 2}, 1), 2.5e-6);
    node_times_free(&t);
}

/* Where the larger one was quicker, by chance, more tokens take no less; where it was slower than in proportion, no more than that. */
static void a_line_is_between_constant_and_proportional(void **state)
{
    (void)state;
    struct node_times t = {0};
    struct program *s = add(&small, (struct dims){.T = 40, .B = 2}), *l = add(&large, (struct dims){.T = 100, .B = 4});
    linear(s, 4, 6);
    linear(l, 4, 6);
    measured(&t, s, (struct dims){.T = 10, .B = 2}, (double[]){0, 3e-6});
    measured(&t, s, (struct dims){.T = 40, .B = 2}, (double[]){0, 2e-6});
    close_to(node_times_of(&t, l, l->max, 1), 2e-6);
    measured(&t, s, (struct dims){.T = 50, .B = 2}, (double[]){0, 20e-6}); /* the nearest to 100, beside 10 */
    close_to(node_times_of(&t, l, l->max, 1), 40e-6);
    node_times_free(&t);
}

/* An op that was not measured moves its bytes as fast as others do. */
static void unknown_ops_are_bytes(void **state)
{
    (void)state;
    struct node_times t = {0};
    struct program *s = add(&small, (struct dims){.T = 10, .B = 2});
    linear(s, 4, 3);
    cast(s, 8);
    measured(&t, s, s->max, (double[]){0, 1, 4.8e-6}); /* 480 bytes */
    struct program *l = add(&large, (struct dims){.T = 100, .B = 4});
    dropout(l, 32);
    close_to(node_times_of(&t, l, l->max, 1), 1e-8 * (2 * 100 * 32 * 4 + 100 * 2 * 4 + 4 * 4));
    node_times_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(work_is_counted, tear_down),
        cmocka_unit_test_teardown(nodes_take_the_time_of_their_like, tear_down),
        cmocka_unit_test_teardown(another_shape_is_nearer_than_another_dtype, tear_down),
        cmocka_unit_test_teardown(attention_grows_with_the_squares, tear_down),
        cmocka_unit_test_teardown(two_sizes_give_a_line, tear_down),
        cmocka_unit_test_teardown(a_line_is_between_constant_and_proportional, tear_down),
        cmocka_unit_test_teardown(unknown_ops_are_bytes, tear_down),
    };
    return cmocka_run_group_tests_name("node_time", tests, NULL, NULL);
}
