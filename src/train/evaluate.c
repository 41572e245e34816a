#include "train/evaluate.h"

#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int evaluate_metrics(const struct session *s, struct metrics *m, struct snug_err *err)
{
    if (s->model.task != MODEL_SEQUENCE_CLASSIFICATION)
        return metrics_open(m, METRICS_TOKENS, s->model.vocab_size, err);
    enum metrics_kind kind = s->model.problem == PROBLEM_REGRESSION    ? METRICS_REGRESSION
                             : s->model.problem == PROBLEM_MULTI_LABEL ? METRICS_MULTI_LABEL
                                                                       : METRICS_SINGLE_LABEL;
    return metrics_open(m, kind, s->model.num_labels, err);
}

static void add_to_metrics(struct metrics *m, const struct batch *b, const double *logits)
{
    if (b->targets)
        metrics_add_classes(m, logits, b->targets, b->T);
    else if (b->classes)
        metrics_add_classes(m, logits, b->classes, b->B);
    else
        metrics_add_values(m, logits, b->values, b->B);
}

static int one_batch(struct session *s, const struct batch *b, struct metrics *m, double *host, double *logits,
                     struct snug_err *err)
{
    double loss;
    struct dims dims;
    struct run_value v;
    int k = s->run.where.eval;
    TRY(stepper_forward(&s->stepper, k, b, &(struct step_inputs){.n = 1}, &loss, &dims, err));
    run_output(&s->run, k, "logits", dims, &v);
    TRY(run_read(&s->run, &v, host, DT_F64, err));
    if (m) {
        add_to_metrics(m, b, host);
        metrics_add_loss(m, loss);
    }
    int64_t width = s->model.num_labels;
    for (int32_t i = 0; logits && i < b->B; i++)
        memcpy(logits + b->rows[i] * width, host + i * width, (size_t)width * sizeof *host);
    return SNUG_OK;
}

int evaluate(struct session *s, struct metrics *m, double *logits, double *seconds, struct snug_err *err)
{
    const struct program *g = &s->run.plan.programs[s->run.where.eval];
    int64_t most = value_elements(graph_value(&g->graph, graph_find(&g->graph, "logits")), g->max);
    double start = now(), *host = mem_realloc(NULL, (size_t)most * sizeof *host);
    int code = SNUG_OK;
    if (!host)
        return err_no_memory(err, (unsigned long long)most * sizeof *host);
    eval_rewind(s->eval);
    for (const struct batch *b; !code && (b = eval_next(s->eval));)
        code = stop_asked(s->stop) ? err_set(err, SNUG_STOPPED, "stopped by a signal during the evaluation")
                                   : one_batch(s, b, m, host, logits, err);
    mem_free(host);
    if (seconds)
        *seconds = now() - start;
    return code;
}
