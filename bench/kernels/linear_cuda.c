/* bench-linear-cuda: the matrix products of BERT-large on this GPU: each with the first algorithm that cuBLASLt's heuristic proposes and
 * the best that the tuning step finds, then the whole nodes as a program runs them.
 *
 * usage: bench-linear-cuda [T] [fp32|tf32|bf16|fp16]      T tokens, by default 16384; by default bf16 */
#include "cuda/kernels.h"
#include "cuda/products/products.h"
#include "cuda/products/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct layer {
    const char *name;
    int64_t I, O;
    enum act act;
} layers[] = {{"qkv", 1024, 3072, ACT_none},
              {"output", 1024, 1024, ACT_none},
              {"ffn1", 1024, 4096, ACT_gelu},
              {"ffn2", 4096, 1024, ACT_none},
              {"ffn1 tanh", 1024, 4096, ACT_gelu_tanh}};
enum { LAYERS = sizeof layers / sizeof *layers, BERT_LAYERS = 4, MAX_NODES = LAYERS * 12 };

static struct tensor matrix(enum dtype t, int64_t rows, int64_t columns, bool add)
{
    return (struct tensor){.shape = {rows, columns}, .ndim = 2, .dtype = t, .add = add};
}

static struct tensor vector(enum dtype t, int64_t n)
{
    return (struct tensor){.shape = {n}, .ndim = 1, .dtype = t};
}

static struct cuda_product_node forward(const struct layer *l, int64_t T, enum dtype t, enum dtype bias)
{
    struct cuda_product_node n = {.op = OP_linear};
    struct args_linear *a = &n.args.linear;
    a->x = matrix(t, T, l->I, false);
    a->w = matrix(t, l->O, l->I, false);
    a->y = matrix(t, T, l->O, false);
    if (bias != DT_U8)
        a->b = vector(bias, l->O);
    if (l->act)
        a->slope = a->y;
    a->act = l->act;
    return n;
}

static struct cuda_product_node input_gradient(const struct layer *l, int64_t T, enum dtype t, bool add)
{
    struct cuda_product_node n = {.op = OP_linear_dx};
    n.args.linear_dx.dy = matrix(t, T, l->O, false);
    n.args.linear_dx.w = matrix(t, l->O, l->I, false);
    n.args.linear_dx.dx = matrix(t, T, l->I, add);
    return n;
}

/* Back through an activation that made the layer's x. */
static struct cuda_product_node through_activation(const struct layer *l, int64_t T, enum dtype t)
{
    struct cuda_product_node n = {.op = OP_linear_dx_act};
    struct args_linear_dx_act *a = &n.args.linear_dx_act;
    a->dy = matrix(t, T, l->O, false);
    a->w = matrix(t, l->O, l->I, false);
    a->slope = a->du = matrix(t, T, l->I, false);
    a->dbias = vector(DT_F32, l->I);
    return n;
}

static struct cuda_product_node weight_gradient(const struct layer *l, int64_t T, enum dtype t, enum dtype wide,
                                                bool add, bool db)
{
    struct cuda_product_node n = {.op = OP_linear_dw};
    n.args.linear_dw.dy = matrix(t, T, l->O, false);
    n.args.linear_dw.x = matrix(t, T, l->I, false);
    n.args.linear_dw.dw = matrix(wide, l->O, l->I, add);
    if (db)
        n.args.linear_dw.db = vector(DT_F32, l->O);
    return n;
}

static void tell(void *ctx, const struct cuda_product *p, int candidates, const double us[2])
{
    (void)ctx;
    char name[128];
    double tera = 2e-6 * (double)p->N * (double)p->I * (double)p->O;
    cuda_product_name(p, name);
    printf("%-52s %3d  first %8.2f us %5.0f TFLOP/s   best %8.2f us %5.0f TFLOP/s  %+5.1f%%\n", name, candidates, us[0],
           tera / us[0], us[1], tera / us[1], 100 * (us[0] / us[1] - 1));
    fflush(stdout);
}

/* All nodes of a layer, behind the n that there are; returns how many there are then. */
static int add_nodes(struct cuda_product_node *nodes, int n, const struct layer *l, int64_t T, enum dtype t)
{
    nodes[n++] = forward(l, T, t, DT_F32);
    if (t != DT_F32)
        nodes[n++] = forward(l, T, t, t);
    if (l->I > l->O)
        nodes[n++] = through_activation(l, T, t);
    if (l - layers >= BERT_LAYERS)
        return n;
    nodes[n++] = forward(l, T, t, DT_U8);
    nodes[n++] = input_gradient(l, T, t, false);
    nodes[n++] = input_gradient(l, T, t, true);
    nodes[n++] = weight_gradient(l, T, t, DT_F32, false, false);
    nodes[n++] = weight_gradient(l, T, t, DT_F32, true, false);
    nodes[n++] = weight_gradient(l, T, t, DT_F32, false, true);
    if (t != DT_F32) {
        nodes[n++] = weight_gradient(l, T, t, t, false, false);
        nodes[n++] = weight_gradient(l, T, t, t, false, true);
    }
    return n;
}

static void print_node(const char *layer, const struct cuda_product_node *n, double before, double after)
{
    const struct tensor *b = &n->args.linear.b, *dw = &n->args.linear_dw.dw;
    printf("%-10s %-13s ", layer, op_table[n->op].name);
    if (n->op == OP_linear)
        printf("b %-4s          ", b->ndim ? dtype_name(b->dtype) : "none");
    else if (n->op == OP_linear_dx)
        printf("%-16s", n->args.linear_dx.dx.add ? "add" : "");
    else if (n->op == OP_linear_dx_act)
        printf("%-16s", "gelu");
    else
        printf("%-4s %-3s %-7s", dtype_name(dw->dtype), dw->add ? "add" : "", n->args.linear_dw.db.ndim ? "db" : "");
    printf(" %8.2f us  %8.2f us  %+5.1f%%\n", before, after, 100 * (before / after - 1));
}

/* Times each node, tunes all of them and times them again. */
static int race(struct cuda_products *p, const struct cuda_product_node *nodes, const char *const *names, int n,
                bool tf32, struct snug_err *err)
{
    double before[MAX_NODES], after;
    struct cuda_tuning tuning = {.tell = tell};
    printf("cuBLASLt %lld\n-- products\n", (long long)cuda_products_version(p));
    for (int i = 0; i < n; i++)
        TRY(cuda_products_time_node(p, &nodes[i], tf32, &before[i], err));
    TRY(cuda_products_tune(p, nodes, n, tf32, &tuning, err));
    printf("-- nodes: as the heuristic has it, and tuned\n");
    for (int i = 0; i < n; i++) {
        TRY(cuda_products_time_node(p, &nodes[i], tf32, &after, err));
        print_node(names[i], &nodes[i], before[i], after);
    }
    return SNUG_OK;
}

int main(int argc, char **argv)
{
    int64_t T = 16384;
    enum dtype t = DT_BF16;
    bool tf32 = false;
    for (int i = 1; i < argc; i++) {
        if (atoi(argv[i]) > 0)
            T = atoi(argv[i]);
        else if (!strcmp(argv[i], "fp32") || !strcmp(argv[i], "tf32"))
            t = DT_F32;
        else if (!strcmp(argv[i], "fp16"))
            t = DT_F16;
        tf32 = tf32 || !strcmp(argv[i], "tf32");
    }
    struct snug_err err = {0};
    struct cuda_products *p;
    struct cuda_product_node nodes[MAX_NODES];
    const char *names[MAX_NODES];
    int n = 0;
    for (int i = 0; i < LAYERS; i++) {
        int first = n;
        n = add_nodes(nodes, n, &layers[i], T, t);
        for (int k = first; k < n; k++)
            names[k] = layers[i].name;
    }
    int code = cuda_products_open(&p, false, &err);
    if (!code) {
        code = race(p, nodes, names, n, tf32, &err);
        cuda_products_close(p);
    }
    if (code)
        fprintf(stderr, "%s\n", err.text);
    return code;
}
