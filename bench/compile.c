/* bench-compile: how long a large program takes from its forward pass to the plan. Compiles a generated model, at a
 * quarter, at half and at the whole of 50,000 weights and somewhat more than 100,000 nodes, and prints a line for each:
 * nodes, weights, seconds of one core, microseconds a node. Those stay the same where time grows with size. Arguments:
 * fp32 or bf16 (fp32), weights (50000). */
#include "compile.h"
#include "model/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A block as a mixture of experts has it: a product whose weight is made of many named ones, and a norm. */
enum { WIDTH = 64, PARTS = 16, WEIGHTS_OF_BLOCK = PARTS + 3 };

static int add_block(struct build *b, int x, int block)
{
    struct graph *g = b->g;
    struct op_linear n = {.x = x};
    n.w = WEIGHT(b, b->normal, graph_name(g, "blocks.%d.experts", block), DIM(WIDTH), DIM(WIDTH));
    n.b = WEIGHT(b, b->zero, graph_name(g, "blocks.%d.bias", block), DIM(WIDTH));
    for (int i = 0; i < PARTS; i++)
        graph_add_slice(g, graph_name(g, "blocks.%d.experts.%d.weight", block, i), n.w, i * WIDTH * WIDTH / PARTS,
                        SHAPE(DIM(WIDTH / PARTS), DIM(WIDTH)));
    emit_linear(g, &n);
    if (!g->err.code)
        graph_value(g, n.w)->group = true;
    return build_norm(b, n.y, graph_name(g, "blocks.%d.norm", block), (struct norm_options){.res = x, .eps = 1e-12}).y;
}

static int body(struct build *b)
{
    struct op_embed e = {.ids = b->in.ids,
                         .table = WEIGHT(b, b->normal, "embeddings", DIM(b->c->vocab_size), DIM(WIDTH))};
    emit_embed(b->g, &e);
    int x = e.y;
    for (int i = 0; i < b->c->layers; i++) {
        b->g->layer = i + 1;
        x = add_block(b, x, i);
    }
    return x;
}

static int classifier(struct build *b, int v)
{
    return build_head_linear(b, build_first_rows(b, v), "classifier", WIDTH, b->c->num_labels, ACT_none);
}

static int compile(int64_t weights, enum dtype narrow, struct snug_err *err)
{
    static const struct model_head heads[MODEL_COUNT] = {
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "Generated", .logits = classifier}};
    const struct model_arch arch = {.model_type = "generated", .heads = heads, .body = body};
    const struct model_config model = {.arch = &arch,
                                       .task = MODEL_SEQUENCE_CLASSIFICATION,
                                       .problem = PROBLEM_SINGLE_LABEL,
                                       .layers = weights / WEIGHTS_OF_BLOCK,
                                       .vocab_size = 1000,
                                       .hidden_size = WIDTH,
                                       .init_std = 0.02,
                                       .num_labels = 2};
    struct compile_settings s = {.model = &model,
                                 .backend = backend_cpu(),
                                 .threads = 1,
                                 .precision = {.wide = DT_F32, .narrow = narrow, .narrow_grads = true},
                                 .train = true,
                                 .update = {.optimizer = OPTIM_ADAMW,
                                            .beta1 = 0.9,
                                            .beta2 = 0.999,
                                            .eps = 1e-8,
                                            .max_grad_norm = 1,
                                            .state_type = DT_F32}};
    const struct choices choices = {.micro = {.T = 4096, .B = 32}, .accumulation = 1, .copies = true};
    struct plan plan = {0};
    struct programs where;
    clock_t start = clock();
    int code = compile_run(&s, &choices, &plan, &where, err);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (!code) {
        int nodes = 0;
        for (int k = 0; k < plan.n_programs; k++)
            nodes += plan.programs[k].graph.n_nodes - 1;
        printf("%8d nodes %8lld weights %8.3f s %8.2f us/node   arena %.3f %% above the bound\n", nodes,
               (long long)weights, seconds, seconds / nodes * 1e6,
               100.0 * ((double)plan.arena_bytes / (double)plan.lower_bound_bytes - 1));
    }
    plan_free(&plan);
    return code;
}

int main(int argc, char **argv)
{
    enum dtype narrow = argc > 1 && !strcmp(argv[1], "bf16") ? DT_BF16 : DT_F32;
    int64_t weights = argc > 2 ? atoll(argv[2]) : 50000;
    for (int part = 4; part > 0; part /= 2) {
        struct snug_err err;
        if (compile(weights / part, narrow, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
    }
    return 0;
}
