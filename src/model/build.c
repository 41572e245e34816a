/* Pieces that the architectures share. */
#include "model/model.h"

static int add_input(struct graph *g, const char *name, enum dtype dtype, int ndim, const struct dim *shape)
{
    return graph_add_value(g, name, ROLE_INPUT, dtype, ndim, shape);
}

void model_add_inputs(struct graph *g, const struct model_config *c, struct inputs *in)
{
    const struct dim b1 = {.times.B = 1, .c = 1};
    *in = (struct inputs){
        .ids = add_input(g, "input_ids", DT_I32, SHAPE(DIM_T)),
        .positions = add_input(g, "positions", DT_I32, SHAPE(DIM_T)),
        .types = c->type_vocab_size ? add_input(g, "token_type_ids", DT_I32, SHAPE(DIM_T)) : 0,
        .cu_seqlens = add_input(g, "cu_seqlens", DT_I32, SHAPE(b1)),
        .coords = add_input(g, "coords", DT_I32, SHAPE(DIM_T, DIM(2))),
        .samples = add_input(g, "samples", DT_I32, SHAPE(DIM_B, DIM(2))),
        .rng = add_input(g, "rng", DT_I32, SHAPE(DIM(4))),
        .step = add_input(g, "step", DT_F64, SHAPE(DIM(STEP_SCALARS))),
    };
    if (model_task(c)->per_token)
        in->labels = add_input(g, "labels", DT_I32, SHAPE(DIM_T));
    else if (c->problem == PROBLEM_SINGLE_LABEL)
        in->labels = add_input(g, "labels", DT_I32, SHAPE(DIM_B));
    else
        in->labels = add_input(g, "labels", DT_F32, SHAPE(DIM_B, DIM(c->num_labels)));
}

int model_weight(struct graph *g, struct init init, const char *name, int ndim, const struct dim *shape)
{
    int id = graph_add_value(g, name, ROLE_WEIGHT, DT_F32, ndim, shape);
    if (id)
        graph_value(g, id)->init = init;
    return id;
}

int model_linear(struct graph *g, int x, const char *prefix, int64_t in, int64_t out, struct layer_options o)
{
    struct op_linear n = {.x = x, .act = o.act, .in_out = o.in_out};
    n.w = o.in_out ? WEIGHT(g, o.weight, graph_name(g, "%s.weight", prefix), DIM(in), DIM(out))
                   : WEIGHT(g, o.weight, graph_name(g, "%s.weight", prefix), DIM(out), DIM(in));
    n.b = WEIGHT(g, o.bias, graph_name(g, "%s.bias", prefix), DIM(out));
    emit_linear(g, &n);
    return n.y;
}

struct op_norm model_norm(struct graph *g, const struct inputs *in, int x, int res, const char *prefix, int64_t width,
                          double eps, double p, int64_t site)
{
    const struct init one = {.kind = INIT_ONE, .zero_row = -1}, zero = {.kind = INIT_ZERO, .zero_row = -1};
    struct op_norm n = {.x = x,
                        .res = res,
                        .gamma = WEIGHT(g, one, graph_name(g, "%s.weight", prefix), DIM(width)),
                        .beta = WEIGHT(g, zero, graph_name(g, "%s.bias", prefix), DIM(width)),
                        .coords = p > 0 ? in->coords : 0,
                        .rng = p > 0 ? in->rng : 0,
                        .eps = eps,
                        .p = p,
                        .site = site};
    emit_norm(g, &n);
    return n;
}

int model_loss(struct graph *g, const struct model_config *c, const struct inputs *in, int logits,
               struct loss_settings loss)
{
    int weights = loss.class_weights ? add_input(g, "class_weights", DT_F32, SHAPE(DIM(c->num_labels))) : 0;
    enum data_task labels = task_labels(c->task, c->problem);
    if (labels == TASK_REGRESSION) {
        struct op_mse n = {.logits = logits, .labels = in->labels, .step = in->step};
        emit_mse(g, &n);
        return n.loss;
    }
    if (labels == TASK_MULTI_LABEL) {
        struct op_bce n = {.logits = logits, .labels = in->labels, .step = in->step, .weights = weights};
        emit_bce(g, &n);
        return n.loss;
    }
    struct op_cross_entropy n = {
        .logits = logits, .labels = in->labels, .step = in->step, .weights = weights, .smoothing = loss.smoothing};
    emit_cross_entropy(g, &n);
    return n.loss;
}
