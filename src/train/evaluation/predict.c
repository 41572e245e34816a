#include "train/evaluation/predict.h"

#include "train/evaluation/evaluate.h"
#include "train/generate/generate.h"
#include "train/session/batches.h"
#include "train/session/datasets.h"
#include "train/session/prompts.h"
#include "train/team.h"

#include <math.h>
#include <string.h>

/* A prediction on its way. */
struct prediction {
    struct session *s;
    predict_fn *row;
    void *ctx;
    double *logits; /* (rows or tokens, num_labels) */
    size_t room;
    double *words; /* (words of a row, num_labels) */
    size_t words_room;
    int64_t first;   /* row of the block whose texts are being written, */
    struct str text; /* and what there is of one */
    struct snug_err *err;
};

/* In place: logits become probabilities; a regression's stay what they are. */
static void to_probabilities(const struct model_config *c, double *x)
{
    bool one_of_all = c->problem == PROBLEM_SINGLE_LABEL || model_task(c)->per_token;
    double max = x[metrics_argmax(x, c->num_labels)], sum = 0;
    for (int64_t i = 0; i < c->num_labels; i++) {
        if (one_of_all)
            sum += x[i] = exp(x[i] - max);
        else if (c->problem == PROBLEM_MULTI_LABEL)
            x[i] = metrics_probability(x[i]);
    }
    for (int64_t i = 0; one_of_all && i < c->num_labels; i++)
        x[i] /= sum;
}

static int one_row(struct prediction *p, int64_t first, int64_t row)
{
    int64_t width = p->s->model.num_labels;
    to_probabilities(&p->s->model, p->logits + row * width);
    return p->row(p->ctx, first + row, p->logits + row * width);
}

/* Of token ids each token is a word. */
static int64_t words_of(const struct session *s, const struct dataset *d, int64_t row)
{
    return d->words && s->stream ? row_stream_words(s->stream, row) : dataset_length(d, row);
}

/* What each word's first token says; NaN for a word that was cut away, or has no token. */
static int one_row_of_words(struct prediction *p, const struct dataset *d, int64_t first, int64_t row,
                            struct snug_err *err)
{
    int64_t width = p->s->model.num_labels, n = words_of(p->s, d, row), from = d->offsets[row];
    if (!MEM_GROW(p->words, p->words_room, (size_t)(n * width) + 1))
        return err_no_memory(err, (size_t)(n * width) * sizeof *p->words);
    for (int64_t i = 0; i < n * width; i++)
        p->words[i] = NAN;
    for (int64_t i = from; i < d->offsets[row + 1]; i++) {
        int64_t word = d->words ? d->words[i] : i - from;
        double *logits = p->logits + i * width;
        if (word < 0)
            continue;
        to_probabilities(&p->s->model, logits);
        memcpy(p->words + word * width, logits, (size_t)width * sizeof *logits);
    }
    p->s->row_words = n;
    return p->row(p->ctx, first + row, p->words);
}

static int predict_rows(struct prediction *p, struct eval_loader *loader, const struct dataset *d, int64_t first,
                        struct snug_err *err)
{
    const struct model_config *c = &p->s->model;
    bool words = model_task(c)->per_token;
    size_t n = (size_t)((words ? d->n_tokens : d->n_rows) * c->num_labels);
    if (!MEM_GROW(p->logits, p->room, n))
        return err_no_memory(err, n * sizeof *p->logits);
    TRY(evaluate_logits(p->s, loader, d, first, p->logits, err));
    for (int64_t r = 0; r < d->n_rows; r++) {
        p->s->row = r;
        TRY(words ? one_row_of_words(p, d, first, r, err) : one_row(p, first, r));
    }
    return SNUG_OK;
}

/* ---- texts ---- */

static int take_piece(void *ctx, const struct snug_piece *piece)
{
    struct prediction *p = ctx;
    str_append_n(&p->text, piece->text, piece->text_bytes);
    if (!piece->ended)
        return SNUG_OK;
    TRY(str_check(&p->text, p->err));
    p->s->row = piece->prompt;
    p->s->row_text = str_text(&p->text);
    int code = p->row(p->ctx, p->first + piece->prompt, NULL);
    p->s->row_text = NULL;
    str_free(&p->text);
    return code;
}

static int predict_texts(struct prediction *p, const struct dataset *d, int64_t first, struct snug_err *err)
{
    p->first = first;
    p->err = err;
    TRY(prompts_of_sources(p->s, d, first, err));
    return generate_run(p->s, take_piece, p, err);
}

/* ---- blocks ---- */

static int predict_block(void *ctx, const struct row_block *b, struct snug_err *err)
{
    struct prediction *p = ctx;
    struct session *s = p->s;
    struct eval_loader *loader;
    TRY(datasets_check_ids(&s->model, &b->data, b->data.path, err));
    if (prompts_are_predicted(s))
        return predict_texts(p, &b->data, b->first, err);
    TRY(batches_open_eval(s, &b->data, &loader, err));
    int code = predict_rows(p, loader, &b->data, b->first, err);
    eval_close(loader);
    return code;
}

/* The answers to each question. */
static int predict_answers(struct prediction *p, const struct dataset *d, struct snug_err *err)
{
    struct session *s = p->s;
    struct answer_settings settings = evaluate_answer_settings(s);
    struct answer answers[ANSWERS_MOST + 1];
    double probabilities[ANSWERS_MOST + 1];
    size_t n = (size_t)(d->n_tokens * s->model.num_labels);
    if (!d->questions)
        return err_set(err, SNUG_ERR_INPUT, "%s: has tokens, but answers are texts; give .json, .jsonl or .parquet",
                       d->path);
    if (!MEM_GROW(p->logits, p->room, n))
        return err_no_memory(err, n * sizeof *p->logits);
    TRY(evaluate_logits(s, s->eval, d, 0, p->logits, err));
    s->answers = answers;
    for (int64_t i = 0; i < d->questions->n; i++) {
        s->row = i;
        TRY(answers_find(d, i, p->logits, &settings, answers, &s->n_answers, err));
        for (int k = 0; k < s->n_answers; k++)
            probabilities[k] = answers[k].probability;
        TRY(p->row(p->ctx, i, probabilities));
    }
    return SNUG_OK;
}

static int predict(struct prediction *p, struct snug_err *err)
{
    struct session *s = p->s;
    if (prompts_are_predicted(s)) /* by the first rank alone */
        return s->stream ? row_stream_run(s->stream, predict_block, p, err) : predict_texts(p, &s->data, 0, err);
    TRY(team_open(s, err));
    TRY(team_share(s, err));
    if (model_task(&s->model)->labels == TASK_SPAN)
        return predict_answers(p, &s->data, err);
    return s->stream ? row_stream_run(s->stream, predict_block, p, err) : predict_rows(p, s->eval, &s->data, 0, err);
}

int predict_run(struct session *s, predict_fn *row, void *ctx, struct snug_err *err)
{
    struct prediction p = {.s = s, .row = row, .ctx = ctx};
    int code = predict(&p, err);
    team_close(s);
    mem_free(p.logits);
    mem_free(p.words);
    str_free(&p.text);
    s->answers = NULL;
    s->n_answers = 0;
    return code;
}
