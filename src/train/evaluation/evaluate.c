#include "train/evaluation/evaluate.h"

#include "base/mem.h"
#include "base/seconds.h"
#include "data/questions/questions.h"
#include "metrics/squad.h"
#include "train/evaluation/eval_pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A pass over the data. */
struct evaluation {
    struct session *s;
    struct eval_loader *loader;
    const char *path;        /* of the rows, for messages, */
    int64_t first;           /* and what they call the first of them */
    struct metrics *metrics; /* NULL: nobody wants them */
    double *logits;          /* likewise */
    bool words;              /* a language model's: the output is a prediction for each token, else logits */
    bool per_token;          /* the logits have a row for each token, else for each row of the data */
    const int64_t *offsets;  /* of the data's rows, where logits are wanted and have a row for each token */
    int32_t *guesses;        /* (T of a batch): classes of tokens */
    double *values;          /* the logits of a batch */
};

struct metrics_setup evaluate_setup(const struct session *s)
{
    const struct model_config *c = &s->model;
    enum metrics_kind kind = s->o->predict_with_generate ? METRICS_TEXTS : task_metrics(c->task, c->problem);
    if (kind == METRICS_ANSWERS)
        return (struct metrics_setup){
            .kind = kind, .rows = s->data.questions ? s->data.n_tokens : 0, .width = c->num_labels};
    if (kind == METRICS_TOKENS || kind == METRICS_TEXTS)
        return (struct metrics_setup){.kind = kind, .width = c->vocab_size};
    if (kind == METRICS_ENTITIES)
        return (struct metrics_setup){
            .kind = kind, .width = c->num_labels, .names = s->labels.n ? (const char *const *)s->labels.names : NULL};
    return (struct metrics_setup){.kind = kind,
                                  .rows = s->data.n_rows,
                                  .width = c->num_labels,
                                  .threshold = s->o->threshold,
                                  .smoothing = s->o->label_smoothing_factor};
}

int evaluate_metrics(const struct session *s, struct metrics *m, struct snug_err *err)
{
    struct metrics_setup setup = evaluate_setup(s);
    return metrics_open(m, &setup, err);
}

static int open_evaluation(struct evaluation *p, struct snug_err *err)
{
    struct run_value most = eval_output(&p->s->run, &p->s->model, p->s->compile.eval_max);
    p->values = mem_alloc(p->words ? 1 : (size_t)most.elements * sizeof *p->values);
    p->guesses = mem_alloc(p->per_token ? (size_t)most.shape[0] * sizeof *p->guesses : 1);
    if (!p->values || !p->guesses)
        return err_no_memory(err, (unsigned long long)most.elements * sizeof *p->values);
    return SNUG_OK;
}

static void add_to_metrics(struct evaluation *p, const struct eval_result *r)
{
    const struct batch *b = r->batch;
    double loss = r->loss;
    int64_t width = p->s->model.num_labels;
    for (int32_t t = 0; p->per_token && !p->words && t < b->T; t++)
        p->guesses[t] = (int32_t)metrics_argmax(p->values + t * width, width);
    if (p->words)
        metrics_add_tokens(p->metrics, r->output, b->targets, b->T, loss);
    else if (p->metrics->setup.kind == METRICS_ANSWERS)
        metrics_add_rows(p->metrics, b->B, loss);
    else if (p->metrics->setup.kind == METRICS_ENTITIES)
        metrics_add_tags(p->metrics, p->guesses, b->targets, b->cu_seqlens, b->B, loss);
    else if (b->classes)
        metrics_add_classes(p->metrics, b->rows, p->values, b->classes, b->B);
    else
        metrics_add_values(p->metrics, b->rows, p->values, b->values, b->B);
}

/* Where the logits of row i of the batch begin; i == B: where they end. */
static int64_t first_value(const struct evaluation *p, const struct batch *b, int32_t i)
{
    return p->per_token ? b->cu_seqlens[i] : i;
}

/* The first row whose logits are not all finite, -1 where all are; of a language model, whose logits stay on the device,
 * row 0 where the loss is not. */
static int32_t bad_row(const struct evaluation *p, const struct batch *b, double loss)
{
    int64_t width = p->s->model.num_labels;
    if (p->words)
        return isfinite(loss) ? -1 : 0;
    for (int32_t i = 0; i < b->B; i++)
        for (int64_t k = first_value(p, b, i) * width; k < first_value(p, b, i + 1) * width; k++)
            if (!isfinite(p->values[k]))
                return i;
    return -1;
}

/* Row i of batch b, which is computed once more, node by node, to name the first tensor that is not finite. */
static int not_finite(struct evaluation *p, const struct batch *b, int32_t i, struct snug_err *err)
{
    struct session *s = p->s;
    const struct backend *backend = s->compile.backend;
    char where[160];
    double loss;
    struct dims dims;
    TRY(backend->arena->sync(backend, err)); /* the batch behind it */
    TRY(stepper_forward(&s->stepper, s->run.where.eval, b, &(struct step_inputs){.n = 1}, &loss, &dims, err));
    if (!run_first_not_finite(&s->run, s->run.where.eval, dims, where, sizeof where))
        snprintf(where, sizeof where, "the result (every single value is finite)");
    if (p->words)
        return err_set(err, SNUG_ERR_NUMERIC, "%s: the loss is not finite, first in %s; check the weights", p->path,
                       where);
    return err_set(err, SNUG_ERR_NUMERIC, "%s: row %lld: its logits are not finite, first in %s; check the weights",
                   p->path, (long long)(p->first + b->rows[i]), where);
}

static int take(void *ctx, const struct eval_result *r, struct snug_err *err)
{
    struct evaluation *p = ctx;
    const struct batch *b = r->batch;
    int64_t width = p->s->model.num_labels;
    if (!p->words)
        dtype_convert(p->values, DT_F64, r->output, r->shape.dtype, r->shape.elements);
    int32_t bad = p->s->o->nan_policy == OPT_NAN_STOP ? bad_row(p, b, r->loss) : -1;
    if (bad >= 0)
        return not_finite(p, b, bad, err);
    if (p->metrics)
        add_to_metrics(p, r);
    for (int32_t i = 0; p->logits && i < b->B; i++) {
        int64_t row = b->rows[i], from = first_value(p, b, i), n = first_value(p, b, i + 1) - from;
        memcpy(p->logits + (p->offsets ? p->offsets[row] : row) * width, p->values + from * width,
               (size_t)(n * width) * sizeof *p->values);
    }
    return SNUG_OK;
}

static int run_evaluation(struct evaluation *p, struct snug_err *err)
{
    p->words = model_task(&p->s->model)->tied;
    p->per_token = model_task(&p->s->model)->per_token;
    int code = open_evaluation(p, err);
    if (!code)
        code = eval_pass(p->s, p->loader, take, p, err);
    mem_free(p->values);
    mem_free(p->guesses);
    return code;
}

struct answer_settings evaluate_answer_settings(const struct session *s)
{
    const struct options *o = s->o;
    bool unanswered = s->has_data && s->data.questions && s->data.questions->unanswered;
    return (struct answer_settings){.most = ANSWERS_MOST,
                                    .longest = o->max_answer_length,
                                    .may_be_none = o->version_2_with_negative || unanswered,
                                    .none_above = o->null_score_diff_threshold};
}

/* The answer to each question against the right ones. */
static int compare_answers(struct evaluation *p, const struct dataset *d, struct snug_err *err)
{
    struct answer_settings settings = evaluate_answer_settings(p->s);
    struct answer answers[ANSWERS_MOST + 1];
    for (int64_t i = 0; i < d->questions->n; i++) {
        const struct question *q = &d->questions->list[i];
        struct squad_score score;
        int n;
        TRY(answers_find(d, i, p->logits, &settings, answers, &n, err));
        TRY(squad_score(answers[0].text, answers[0].bytes, q->answers, q->n_answers, &score, err));
        metrics_add_answer(p->metrics, score.exact, score.f1);
    }
    return SNUG_OK;
}

static int evaluate_answers(struct evaluation *p, const struct dataset *d, struct snug_err *err)
{
    p->offsets = d->offsets;
    p->logits = p->metrics->logits;
    TRY(run_evaluation(p, err));
    return p->s->follows ? SNUG_OK : compare_answers(p, d, err);
}

/* ---- generated texts ---- */

struct comparing {
    struct metrics *metrics;
    const struct generated_rows *also;
};

static int compare_row(void *ctx, const struct generated_row *row, struct snug_err *err)
{
    struct comparing *c = ctx;
    TRY(metrics_add_text(c->metrics, row->text, row->bytes, row->expected, row->expected_bytes, err));
    return c->also ? c->also->take(c->also->ctx, row, err) : SNUG_OK;
}

static int compare_texts(struct session *s, struct metrics *m, const struct generated_rows *also, struct snug_err *err)
{
    struct comparing c = {.metrics = m, .also = also};
    return generate_rows(s, &(struct generated_rows){.take = compare_row, .ctx = &c}, err);
}

int evaluate(struct session *s, struct metrics *m, const struct generated_rows *also, double *seconds,
             struct snug_err *err)
{
    struct evaluation p = {.s = s, .loader = s->eval, .path = s->data.path, .metrics = m};
    double start = seconds_now();
    metrics_reset(m);
    TRY(s->data.questions ? evaluate_answers(&p, &s->data, err) : run_evaluation(&p, err));
    if (m->setup.kind == METRICS_TEXTS && (!s->follows || run_exchanges(&s->run, s->run.where.generate)))
        TRY(compare_texts(s, m, also, err));
    if (!s->follows) /* the first process has counted what all have found */
        metrics_finish(m);
    *seconds = seconds_now() - start;
    return SNUG_OK;
}

int evaluate_logits(struct session *s, struct eval_loader *loader, const struct dataset *d, int64_t first,
                    double *logits, struct snug_err *err)
{
    const char *path = s->stream ? s->stream_data.path : s->data.path;
    struct evaluation p = {.s = s, .loader = loader, .path = path, .first = first, .logits = logits};
    p.offsets = model_task(&s->model)->per_token ? d->offsets : NULL;
    return run_evaluation(&p, err);
}
