/* Attention, (batch, heads, length, head size) a piece. That only the first rows of a sequence ask (`queries`) is of no concern: the
 * others are then computed and not read. */
#include "output/onnx/lower.h"

#include <math.h>

struct heads {
    const char *q, *k, *v; /* (batch, heads, length, D) */
    int64_t heads, D;
};

static const int64_t SWAP[] = {0, 2, 1, 3}, LAST_TWO[] = {0, 1, 3, 2};

static struct heads split_heads(struct onnx *x, int qkv, int64_t heads)
{
    int64_t D = graph_value(x->g, qkv)->shape[1].c / (3 * heads);
    const char *part[ONNX_PARTS], *shape = ONNX_INTS(x, 0, 0, heads, D);
    onnx_parts(x, qkv, 3, part);
    for (int i = 0; i < 3; i++)
        part[i] = onnx_transpose(x, onnx_node(x, "Reshape", ONNX_IN(part[i], shape)), 4, SWAP);
    return (struct heads){.q = part[0], .k = part[1], .v = part[2], .heads = heads, .D = D};
}

static const char *products(struct onnx *x, const char *q, const struct heads *h)
{
    return onnx_node(x, "MatMul", ONNX_IN(q, onnx_transpose(x, h->k, 4, LAST_TWO)));
}

/* The usual scale stands behind the product, where programs that know attention expect it; any other one before it, since those
 * programs would take it for the usual one. */
static const char *scores_of(struct onnx *x, const struct heads *h, double scale)
{
    double root = sqrt((double)h->D);
    if (fabs(scale * root - 1) < 1e-12)
        return onnx_node(x, "Div", ONNX_IN(products(x, h->q, h), onnx_real(x, root)));
    return products(x, onnx_node(x, "Mul", ONNX_IN(h->q, onnx_real(x, scale))), h);
}

static const char *weigh(struct onnx *x, const struct heads *h, const char *scores)
{
    const char *p = onnx_node_with(x, "Softmax", ONNX_IN(scores), ONNX_AXIS(-1));
    const char *o = onnx_transpose(x, onnx_node(x, "MatMul", ONNX_IN(p, h->v)), 4, SWAP);
    return onnx_node(x, "Reshape", ONNX_IN(o, ONNX_INTS(x, 0, 0, h->heads * h->D)));
}

static void refuse(struct onnx *x, bool refused, const char *what)
{
    if (refused)
        onnx_fail(x, SNUG_ERR_USAGE, "%s models: no ONNX file is written of %s", x->c->arch->model_type, what);
}

void onnx_lower_attention(struct onnx *x, const struct op_attention *n)
{
    refuse(x, n->causal, "attention that is causal");
    refuse(x, n->kv_heads != n->heads, "attention with fewer keys than queries");
    refuse(x, n->softcap > 0, "attention with capped scores");
    struct heads h = split_heads(x, n->qkv, n->heads);
    const char *scores = scores_of(x, &h, n->scale);
    scores = onnx_node(x, "Add", ONNX_IN(scores, onnx_seen(x, n->window)));
    onnx_set(x, n->o, weigh(x, &h, scores));
}

void onnx_lower_attention_general(struct onnx *x, const struct op_attention_general *n)
{
    refuse(x, n->causal, "attention that is causal");
    refuse(x, n->kv, "attention to another sequence");
    struct heads h = split_heads(x, n->q, n->heads);
    const char *bias = n->table ? onnx_distance_bias(x, n->table, n->furthest) : onnx_seen(x, 0);
    const char *scores = onnx_node(x, "Add", ONNX_IN(scores_of(x, &h, n->scale), bias));
    onnx_set(x, n->o, weigh(x, &h, scores));
}

/* ---- disentangled ---- */

/* (batch, heads, length, length): which row of the relative positions each query and key have, or key and query. */
static const char *rows_of(struct onnx *x, const struct op_attention_disentangled *n, bool by_key)
{
    const char *what = onnx_name(x, "rows %d", by_key), *made = onnx_made(x, what);
    if (made)
        return made;
    int64_t size = graph_value(x->g, n->rows)->shape[0].c;
    const char *apart = onnx_distances(x);
    if (by_key)
        apart = onnx_transpose(x, apart, 2, (const int64_t[]){1, 0});
    apart = onnx_node(x, "Add", ONNX_IN(apart, onnx_int(x, (size - 1) / 2)));
    const char *rows = onnx_node(x, "Gather", ONNX_IN(onnx_use(x, n->rows), apart));
    const char *batch = onnx_node(x, "Gather", ONNX_IN(onnx_sizes(x), ONNX_INTS(x, 0)));
    const char *shape = onnx_node_with(x, "Concat", ONNX_IN(batch, ONNX_INTS(x, n->heads, 1, 1)), ONNX_AXIS(0));
    return onnx_keep(x, what, onnx_node(x, "Expand", ONNX_IN(rows, shape)));
}

/* Part i of the relative positions, for products: (heads, D, R). */
static const char *part_of(struct onnx *x, const struct op_attention_disentangled *n, int64_t D, int64_t i)
{
    int64_t parts = graph_value(x->g, n->relative)->shape[1].c / (n->heads * D);
    const char *part[ONNX_PARTS];
    refuse(x, parts > ONNX_PARTS, "relative positions in so many parts");
    if (x->err.code)
        return "";
    onnx_parts(x, n->relative, (int)parts, part);
    const char *rows = onnx_node(x, "Reshape", ONNX_IN(part[i - 1], ONNX_INTS(x, 0, n->heads, D)));
    return onnx_transpose(x, rows, 3, (const int64_t[]){1, 2, 0});
}

/* The product of the heads' queries or keys with a part, at the rows of their distances. */
static const char *term(struct onnx *x, const struct op_attention_disentangled *n, int64_t D, const char *heads,
                        int64_t part, bool by_key)
{
    const char *all = onnx_node(x, "MatMul", ONNX_IN(heads, part_of(x, n, D, part)));
    const char *picked = onnx_node_with(x, "GatherElements", ONNX_IN(all, rows_of(x, n, by_key)), ONNX_AXIS(3));
    return by_key ? onnx_transpose(x, picked, 4, LAST_TWO) : picked;
}

void onnx_lower_attention_disentangled(struct onnx *x, const struct op_attention_disentangled *n)
{
    struct heads h = split_heads(x, n->qkv, n->heads);
    const char *scores = products(x, h.q, &h);
    if (n->keys)
        scores = onnx_node(x, "Add", ONNX_IN(scores, term(x, n, h.D, h.q, n->keys, false)));
    if (n->queries)
        scores = onnx_node(x, "Add", ONNX_IN(scores, term(x, n, h.D, h.k, n->queries, true)));
    scores = onnx_node(x, "Mul", ONNX_IN(scores, onnx_real(x, n->scale)));
    scores = onnx_node(x, "Add", ONNX_IN(scores, onnx_seen(x, 0)));
    onnx_set(x, n->o, weigh(x, &h, scores));
}

/* ---- rotary positions ---- */

/* (1, length, 1, R) */
void onnx_lower_rotary_table(struct onnx *x, const struct op_rotary_table *n)
{
    const struct onnx_attr to_float = {.name = "to", .kind = ONNX_ATTR_INT, .x = {ONNX_FLOAT}};
    const char *p = onnx_node_with(x, "Cast", ONNX_IN(onnx_use(x, n->positions)), to_float);
    p = onnx_node(x, "Unsqueeze", ONNX_IN(p, ONNX_INTS(x, 2, 3)));
    const char *angle = onnx_node(x, "Mul", ONNX_IN(p, onnx_use(x, n->frequencies)));
    const char *table[2] = {onnx_node(x, "Cos", ONNX_IN(angle)), onnx_node(x, "Sin", ONNX_IN(angle))};
    for (int i = 0; i < 2; i++)
        x->of[n->table].part[i] =
            n->factor < 1 || n->factor > 1 ? onnx_node(x, "Mul", ONNX_IN(table[i], onnx_real(x, n->factor))) : table[i];
}

static const char *turn(struct onnx *x, const char *in, const struct onnx_value *table, int64_t heads, int64_t D)
{
    const char *half[2], *v = onnx_node(x, "Reshape", ONNX_IN(in, ONNX_INTS(x, 0, 0, heads, D)));
    onnx_split(x, v, 3, 2, (const int64_t[]){D / 2, D / 2}, half);
    const char *first = onnx_node(x, "Sub",
                                  ONNX_IN(onnx_node(x, "Mul", ONNX_IN(half[0], table->part[0])),
                                          onnx_node(x, "Mul", ONNX_IN(half[1], table->part[1]))));
    const char *second = onnx_node(x, "Add",
                                   ONNX_IN(onnx_node(x, "Mul", ONNX_IN(half[1], table->part[0])),
                                           onnx_node(x, "Mul", ONNX_IN(half[0], table->part[1]))));
    v = onnx_node_with(x, "Concat", ONNX_IN(first, second), ONNX_AXIS(3));
    return onnx_node(x, "Reshape", ONNX_IN(v, ONNX_INTS(x, 0, 0, heads * D)));
}

/* Queries, keys and values of all heads, of a matrix that has them head by head. */
static void part_heads(struct onnx *x, const struct op_rotary *n, int64_t D, struct onnx_value *y)
{
    const int64_t width[] = {1, 1, 1};
    const char *heads = onnx_node(x, "Reshape", ONNX_IN(onnx_use(x, n->qkv), ONNX_INTS(x, 0, 0, n->heads, 3, D)));
    onnx_split(x, heads, 3, 3, width, y->part);
    for (int i = 0; i < 3; i++)
        y->part[i] = onnx_node(x, "Reshape", ONNX_IN(y->part[i], ONNX_INTS(x, 0, 0, n->heads * D)));
}

void onnx_lower_rotary(struct onnx *x, const struct op_rotary *n)
{
    const struct onnx_value *table = &x->of[n->table];
    int64_t D = graph_value(x->g, n->qkv)->shape[1].c / (n->heads + 2 * n->kv_heads);
    struct onnx_value *y = &x->of[n->y];
    refuse(x, n->kv_heads != n->heads, "attention with fewer keys than queries");
    refuse(x, n->q_gamma, "heads that are normalised");
    refuse(x, n->interleaved, "heads that turn in pairs of neighbours");
    refuse(x, n->table && graph_value(x->g, n->table)->shape[1].c != D, "heads that turn in part");
    if (x->err.code || !(n->table || n->by_group))
        return;
    if (n->by_group)
        part_heads(x, n, D, y);
    else
        onnx_parts(x, n->qkv, 3, y->part);
    if (!n->table)
        return;
    y->part[0] = turn(x, y->part[0], table, n->heads, D);
    y->part[1] = turn(x, y->part[1], table, n->heads, D);
}
