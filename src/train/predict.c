#include "train/predict.h"

#include "train/evaluate.h"
#include "train/session/batches.h"
#include "train/session/datasets.h"

#include <math.h>

/* A prediction on its way. */
struct prediction {
    struct session *s;
    predict_fn *row;
    void *ctx;
    double *logits; /* (room, num_labels) */
    size_t room;
};

/* In place: logits become probabilities; a regression's stay what they are. */
static void to_probabilities(const struct model_config *c, double *x)
{
    double max = x[metrics_argmax(x, c->num_labels)], sum = 0;
    for (int64_t i = 0; i < c->num_labels; i++) {
        if (c->problem == PROBLEM_MULTI_LABEL)
            x[i] = metrics_probability(x[i]);
        else if (c->problem == PROBLEM_SINGLE_LABEL)
            sum += x[i] = exp(x[i] - max);
    }
    for (int64_t i = 0; c->problem == PROBLEM_SINGLE_LABEL && i < c->num_labels; i++)
        x[i] /= sum;
}

static int predict_rows(struct prediction *p, struct eval_loader *loader, int64_t first, int64_t rows,
                        struct snug_err *err)
{
    const struct model_config *c = &p->s->model;
    size_t n = (size_t)(rows * c->num_labels);
    if (!MEM_GROW(p->logits, p->room, n))
        return err_no_memory(err, n * sizeof *p->logits);
    TRY(evaluate_logits(p->s, loader, first, p->logits, err));
    for (int64_t r = 0; r < rows; r++) {
        double *values = p->logits + r * c->num_labels;
        to_probabilities(c, values);
        p->s->row = r;
        TRY(p->row(p->ctx, first + r, values));
    }
    return SNUG_OK;
}

static int predict_block(void *ctx, const struct row_block *b, struct snug_err *err)
{
    struct prediction *p = ctx;
    struct session *s = p->s;
    struct eval_loader *loader;
    TRY(datasets_check_ids(&s->model, &b->data, b->data.path, err));
    TRY(batches_open_eval(s, &b->data, &loader, err));
    int code = predict_rows(p, loader, b->first, b->data.n_rows, err);
    eval_close(loader);
    return code;
}

int predict_run(struct session *s, predict_fn *row, void *ctx, struct snug_err *err)
{
    struct prediction p = {.s = s, .row = row, .ctx = ctx};
    int code = s->stream ? row_stream_run(s->stream, predict_block, &p, err)
                         : predict_rows(&p, s->eval, 0, s->data.n_rows, err);
    mem_free(p.logits);
    return code;
}
