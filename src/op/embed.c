/* Embedding lookups, up to three tables summed (words, positions, token types):
 *     y[n,h] = table[ids[n],h] + table2[ids2[n],h] + table3[ids3[n],h]        ids (N), tables (V,H), y (N,H)
 *     dtable[ids[n],h] += dy[n,h]                                             real rows n < cu[B] in order */
#include "graph/graph.h"

static bool table_fits(struct graph *g, int ids, int table, int first_table)
{
    const struct value *i = graph_value(g, ids), *t = graph_value(g, table), *f = graph_value(g, first_table);
    return shape_require(g, !ids == !table, "embed", "ids and table come in pairs") &&
           (!ids ||
            shape_require(g, i->ndim == 1 && i->dtype == DT_I32 && t->ndim == 2 && dim_equal(t->shape[1], f->shape[1]),
                          "embed", "ids must be (N) I32, tables (V,H) of one H"));
}

void shape_embed(struct graph *g, struct op_embed *n)
{
    if (!table_fits(g, n->ids, n->table, n->table) || !table_fits(g, n->ids2, n->table2, n->table) ||
        !table_fits(g, n->ids3, n->table3, n->table))
        return;
    const int tables[] = {n->table, n->table2, n->table3};
    for (int i = 0; i < 3; i++)
        if (tables[i] && graph_value(g, tables[i])->role == ROLE_WEIGHT)
            graph_value(g, tables[i])->table = true;
    n->y = shape_out(g, SHAPE(graph_value(g, n->ids)->shape[0], graph_value(g, n->table)->shape[1]));
}

void shape_embed_bwd(struct graph *g, struct op_embed_bwd *n)
{
    const struct value *dy = graph_value(g, n->dy), *t = graph_value(g, n->dtable);
    shape_require(g, dy->ndim == 2 && t->ndim == 2 && dim_equal(dy->shape[1], t->shape[1]), "embed_bwd",
                  "dy must be (N,H), dtable (V,H)");
}

void grad_embed(struct grads *d, const struct op_embed *n)
{
    const int ids[] = {n->ids, n->ids2, n->ids3}, tables[] = {n->table, n->table2, n->table3};
    for (int i = 0; i < 3; i++) {
        int dtable = grad_target(d, tables[i]);
        if (!dtable)
            continue;
        struct op_embed_bwd b = {.ids = ids[i],
                                 .dy = grad_of(d, n->y),
                                 .cu = grad_cu(d, ids[i]),
                                 .dtable = dtable,
                                 .still = i == 0 ? n->still : 0};
        emit_embed_bwd(d->g, &b);
    }
}

double flops_embed(const struct args_embed *a)
{
    return 2.0 * (double)a->y.shape[0] * (double)a->y.shape[1];
}

double flops_embed_bwd(const struct args_embed_bwd *a)
{
    return (double)a->dy.shape[0] * (double)a->dy.shape[1];
}

static void add_rows(const struct args_embed *a, const struct tensor *ids, const struct tensor *table)
{
    const int32_t *id = ids->data;
    const double *from = table->data;
    double *y = a->y.data;
    int64_t N = a->y.shape[0], H = a->y.shape[1];
    if (!id)
        return;
    for (int64_t n = 0; n < N; n++)
        for (int64_t h = 0; h < H; h++)
            y[n * H + h] += from[id[n] * H + h];
}

void ref_embed(const struct args_embed *a, const struct call *c)
{
    (void)c;
    double *y = a->y.data;
    for (int64_t i = 0; i < a->y.shape[0] * a->y.shape[1]; i++)
        y[i] = 0;
    add_rows(a, &a->ids, &a->table);
    add_rows(a, &a->ids2, &a->table2);
    add_rows(a, &a->ids3, &a->table3);
}

void ref_embed_bwd(const struct args_embed_bwd *a, const struct call *c)
{
    (void)c;
    const int32_t *id = a->ids.data, *cu = a->cu.data;
    const double *dy = a->dy.data;
    double *dt = a->dtable.data;
    int64_t H = a->dy.shape[1];
    if (!a->dtable.add)
        for (int64_t i = 0; i < a->dtable.shape[0] * H; i++)
            dt[i] = 0;
    for (int64_t n = 0; n < cu[a->cu.shape[0] - 1]; n++)
        for (int64_t h = 0; h < H && id[n] != a->still - 1; h++)
            dt[id[n] * H + h] += dy[n * H + h];
}
