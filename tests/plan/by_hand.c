#include "by_hand.h"

struct program *add_program(struct plan *p, const char *name, struct dims max)
{
    struct snug_err err;
    struct program *g = plan_add(p, name, max, &err);
    assert_non_null(g);
    return g;
}

int bytes_value(struct program *g, int64_t bytes)
{
    return graph_add_value(&g->graph, NULL, ROLE_ACTIVATION, DT_U8, 1, &DIM(bytes));
}

void touch(struct program *g, int writes, int reads)
{
    struct node n = {.op = OP_cast};
    n.u.cast = (struct op_cast){.x = reads, .y = writes};
    assert_true(MEM_GROW(g->graph.nodes, g->graph.cap_nodes, (size_t)g->graph.n_nodes + 1));
    g->graph.nodes[g->graph.n_nodes++] = n;
}

void pack(struct plan *p)
{
    struct snug_err err;
    if (plan_pack(p, &err))
        fail_msg("%s", err.text);
}

void make_pair(struct pair *q)
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
