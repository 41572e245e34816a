#include "train/forecast/workload.h"

#include "train/session/batches.h"

bool workload_evaluates(const struct workload *w)
{
    return w->evaluation.batch.B > 0;
}

void workload_close(struct workload *w)
{
    typical_close(&w->step);
    typical_close(&w->evaluation);
    answers_close(&w->answers);
}

bool workload_answers(const struct workload *w)
{
    return w->answers.calls[ANSWERS_READ] > 0;
}

double workload_answer_seconds(const struct workload *w, const double call[ANSWER_CALLS])
{
    double seconds = 0;
    for (int i = 0; i < ANSWER_CALLS; i++)
        seconds += w->answers.calls[i] > 0 ? w->answers.calls[i] * call[i] : 0;
    return seconds;
}

int workload_open(struct workload *w, const struct session *s, struct snug_err *err)
{
    const struct compile_settings *c = &s->compile;
    const struct choices *choices = &s->choices;
    int32_t longest = s->max_length + s->max_target_length;
    const struct typical_lengths even = {.mean = longest, .unevenness = 1};
    *w = (struct workload){.lengths = s->has_train ? typical_lengths_of(&s->train) : even,
                           .eval_lengths = s->has_data ? typical_lengths_of(&s->data) : even,
                           .accumulation = (int32_t)choices->accumulation};
    w->source_share = s->has_train           ? typical_share(&s->train)
                      : s->max_target_length ? (double)s->max_length / longest
                                             : 0;
    int64_t B = batches_cut_by_tokens(s, choices->micro.B)
                    ? loader_usual_rows(&s->train, (int32_t)choices->micro.B, s->o->max_tokens_per_batch)
                    : choices->micro.B;
    TRY(typical_open(&w->step, &s->model, s->has_train ? &s->train : NULL, longest, w->source_share, B, choices->micro,
                     err));
    TRY(answers_open(&w->answers, s, err));
    if (s->run.where.eval < 0)
        return SNUG_OK;
    int64_t rows = (int64_t)((double)(c->eval_max.T + c->eval_max.S) / w->eval_lengths.mean);
    rows = rows < 1 ? 1 : rows > c->eval_max.B ? c->eval_max.B : rows;
    return typical_open(&w->evaluation, &s->model, &s->data, 0, typical_share(&s->data), rows, c->eval_max, err);
}
