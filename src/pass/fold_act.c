#include "graph/uses.h"
#include "pass/pass.h"

/* Whether `a` makes a gradient that only `b` reads: that of an activation's result, of which b makes that of its input. */
static bool is_pair(const struct graph *g, const struct uses *u, const struct node *a, const struct node *b)
{
    int dx = a->op == OP_linear_dx ? a->u.linear_dx.dx : 0;
    return dx && b->op == OP_act_bwd && b->u.act_bwd.dy == dx && !a->add && !graph_value(g, dx)->base &&
           uses_count(u, dx) == 2 && !graph_value(g, dx)->live_out;
}

static struct node join(const struct node *a, const struct node *b)
{
    struct node n = *b;
    n.op = OP_linear_dx_act;
    n.add = (b->add >> OP_SLOT(act_bwd, dbias) & 1) << OP_SLOT(linear_dx_act, dbias);
    n.u.linear_dx_act = (struct op_linear_dx_act){.dy = a->u.linear_dx.dy,
                                                  .w = a->u.linear_dx.w,
                                                  .slope = b->u.act_bwd.slope,
                                                  .du = b->u.act_bwd.du,
                                                  .dbias = b->u.act_bwd.dbias,
                                                  .in_out = a->u.linear_dx.in_out};
    return n;
}

void pass_fold_act(struct graph *g, struct pass_settings *s)
{
    (void)s;
    struct uses u = {0};
    int n = 1;
    if (!g->err.code && uses_open(&u, g)) {
        for (int k = 1; k < g->n_nodes; k++) {
            bool pair = k + 1 < g->n_nodes && is_pair(g, &u, &g->nodes[k], &g->nodes[k + 1]);
            g->nodes[n++] = pair ? join(&g->nodes[k], &g->nodes[k + 1]) : g->nodes[k];
            k += pair;
        }
        g->n_nodes = n;
    }
    uses_close(&u);
}
