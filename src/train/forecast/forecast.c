#include "train/forecast/forecast.h"

#include "base/hash.h"
#include "base/machine.h"
#include "base/seconds.h"
#include "run/known_nodes.h"
#include "search/rates.h"
#include "train/forecast/exchange.h"
#include "train/forecast/rehearsal.h"
#include "train/forecast/workload.h"
#include "train/session/batches.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- from nodes that the device's profile knows ---- */

static void add_program(struct known_time *sum, const struct known_nodes *known, const struct run *r, int k,
                        int64_t times, const struct batch *b, double unevenness, struct op_times *ops)
{
    if (k < 0 || times <= 0)
        return;
    struct dims dims = batch_dims(r->backend, b);
    struct known_time t = known_nodes_by_op(known, &r->plan.programs[k], dims, unevenness, times, ops);
    sum->seconds += (double)times * t.seconds;
    sum->unlike += (double)times * t.unlike;
    sum->unknown += t.unknown;
}

static struct known_time step_sum(const struct known_nodes *known, const struct run *r, const struct workload *w,
                                  struct op_times *ops)
{
    struct known_time sum = {0};
    const struct programs *p = &r->where;
    const int once[] = {p->step, p->first, p->update};
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        add_program(&sum, known, r, once[i], 1, &w->step.batch, w->lengths.unevenness, ops);
    add_program(&sum, known, r, p->next, w->accumulation - 1, &w->step.batch, w->lengths.unevenness, ops);
    return sum;
}

/* Where next to nothing else would have to be guessed; out->measured stays false. */
static int reckon_by_nodes(const struct session *s, const struct workload *w, struct forecast *out, bool *done,
                           struct snug_err *err)
{
    const double share = 0.5; /* of a step's time, in nodes of forms that were not measured */
    struct known_nodes known;
    struct op_times ops = {0};
    int code = known_nodes_open(&known, s->compile.backend, err);
    *done = false;
    if (!code) {
        struct known_time step = step_sum(&known, &s->run, w, &ops), eval = {0};
        if (workload_evaluates(w))
            add_program(&eval, &known, &s->run, s->run.where.eval, 1, &w->evaluation.batch, w->eval_lengths.unevenness,
                        &ops);
        *done = step.seconds > 0 && !step.unknown && !eval.unknown && step.unlike <= share * step.seconds &&
                !workload_answers(w);
        out->step_seconds = known_nodes_step(&known, &step);
        out->evaluation_seconds = known_nodes_step(&known, &eval);
    }
    known_nodes_close(&known);
    return code;
}

/* ---- measured ---- */

enum subject { STEP, EVALUATION, ANSWERS };

static enum subject subject_of(const struct session *s, int program)
{
    return program == s->run.where.eval ? EVALUATION : program == s->run.where.generate ? ANSWERS : STEP;
}

/* What a measured time is of: the graphs of a step's programs, of the evaluation's or of generation's; sizes, lengths, how often. Which
 * algorithms products use is not in it: those of one measurement are as fast as those of another. */
static int key_of(const struct session *s, enum subject what, const struct batch *b, int32_t times, char key[64],
                  struct snug_err *err)
{
    static const char *const words[] = {"step", "evaluation", "answers"};
    struct arena arena = {0};
    struct hash_state *h = hash_new();
    char hex[33];
    int code = h ? SNUG_OK : err_no_memory(err, 1024);
    for (int k = 0; k < s->run.plan.n_programs && !code; k++) {
        char *text;
        if (subject_of(s, k) != what)
            continue;
        code = graph_print(&s->run.plan.programs[k].graph, &arena, &text, err);
        if (!code)
            hash_add(h, text, strlen(text));
    }
    if (!code) {
        hash_add(h, b->cu_seqlens, ((size_t)b->B + 1) * sizeof *b->cu_seqlens);
        hash_add(h, &times, sizeof times);
        hash_add(h, &s->o->dtype, sizeof s->o->dtype);
        hash_hex(hash_now(h), hex);
        snprintf(key, 64, "%s %s", words[what], hex);
    }
    if (h)
        hash_end(h);
    arena_free(&arena);
    return code;
}

/* Seconds for which a GPU has to work until its clocks have settled, and then for which it is measured; for a run that
 * is short a tenth of it will do. Ten steps or fewer are worth no more than a first look. */
static double lasting(const struct session *s, double step_seconds)
{
    const double settled = 0.4;
    int64_t steps, per_epoch;
    if (!s->has_train)
        return settled;
    train_steps(s, &steps, &per_epoch);
    return fmin(settled, 0.1 * (double)steps * step_seconds);
}

static int measure_answers(struct rehearsal *r, const struct workload *w, double lasting, struct forecast *out,
                           struct snug_err *err)
{
    double call[ANSWER_CALLS];
    for (int i = 0; i < ANSWER_CALLS; i++)
        TRY(rehearsal_answers(r, &w->answers.batch[i], lasting, &call[i], err));
    out->answer_seconds = workload_answer_seconds(w, call);
    return SNUG_OK;
}

/* Under which names times are kept; "": there is nothing to measure. */
struct keys {
    char step[64], evaluation[64], answers[64];
};

static int open_keys(struct keys *k, const struct session *s, const struct workload *w, struct snug_err *err)
{
    const struct batch *longest = &w->answers.batch[ANSWERS_READ];
    *k = (struct keys){0};
    TRY(key_of(s, STEP, &w->step.batch, w->accumulation, k->step, err));
    if (workload_evaluates(w))
        TRY(key_of(s, EVALUATION, &w->evaluation.batch, 1, k->evaluation, err));
    return workload_answers(w) ? key_of(s, ANSWERS, longest, (int32_t)w->answers.calls[ANSWERS_WRITE], k->answers, err)
                               : SNUG_OK;
}

/* Keeps the times of the nodes of a step, and of the evaluation, as far as they are not known yet. */
static int keep_nodes_of(struct rehearsal *r, const struct workload *w, struct snug_err *err)
{
    const struct backend *b = r->run.backend;
    const struct programs *p = &r->run.where;
    const int programs[] = {p->step, p->first, p->next, p->update, p->eval};
    struct known_nodes known = {0};
    int code = SNUG_OK;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && !code; i++) {
        bool step = programs[i] != p->eval;
        const struct batch *batch = step ? &w->step.batch : &w->evaluation.batch;
        if (programs[i] < 0)
            continue;
        code = known_nodes_open(&known, b, err); /* with those of the programs before */
        if (!code)
            code = known_nodes_measure(&known, &r->run, programs[i], batch_dims(b, batch),
                                       step ? w->lengths.unevenness : w->eval_lengths.unevenness, err);
        known_nodes_close(&known);
    }
    return code;
}

/* And how they go together in a step. */
static int keep_nodes(struct rehearsal *r, const struct workload *w, double step_seconds, struct snug_err *err)
{
    struct known_nodes known = {0};
    struct op_times ops = {0};
    TRY(keep_nodes_of(r, w, err));
    int code = known_nodes_open(&known, r->run.backend, err);
    struct known_time nodes = step_sum(&known, &r->run, w, &ops);
    if (!code)
        code = known_nodes_keep_step(r->run.backend, &nodes, step_seconds, err);
    known_nodes_close(&known);
    return code;
}

static int keep_time(const struct backend *b, const char *key, double seconds, struct snug_err *err)
{
    return b->profile->keep(b, &(struct backend_time){key, seconds}, 1, err);
}

/* What is measured for a long run is kept for all. */
static int measure(const struct session *s, const struct workload *w, const struct keys *k, struct forecast *out,
                   struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    struct rehearsal r;
    double seconds = 0;
    int code = rehearsal_open(&r, &s->compile, &s->choices, &(struct rehearsal_limits){.bytes = INT64_MAX}, err);
    if (!code)
        code = rehearsal_step(&r, &w->step.batch, w->accumulation, 0, &out->step_seconds, err);
    if (!code)
        seconds = lasting(s, out->step_seconds);
    if (!code && seconds > out->step_seconds)
        code = rehearsal_step(&r, &w->step.batch, w->accumulation, seconds, &out->step_seconds, err);
    if (!code && workload_evaluates(w))
        code = rehearsal_evaluation(&r, &w->evaluation.batch, seconds / 4, &out->evaluation_seconds, err);
    if (!code && workload_answers(w))
        code = measure_answers(&r, w, seconds / 8, out, err);
    bool lasts = seconds >= lasting(s, INFINITY);
    if (!code && lasts)
        code = keep_nodes(&r, w, out->step_seconds, err);
    rehearsal_close(&r);
    if (code || !lasts)
        return code;
    TRY(keep_time(b, k->step, out->step_seconds, err));
    if (workload_evaluates(w))
        TRY(keep_time(b, k->evaluation, out->evaluation_seconds, err));
    return workload_answers(w) ? keep_time(b, k->answers, out->answer_seconds, err) : SNUG_OK;
}

/* As it was measured before, or now where there is room. */
static int recall_or_measure(const struct session *s, const struct workload *w, struct forecast *out,
                             struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    struct keys k;
    TRY(open_keys(&k, s, w, err));
    out->step_seconds = b->profile->recall(b, k.step);
    if (workload_evaluates(w))
        out->evaluation_seconds = b->profile->recall(b, k.evaluation);
    if (workload_answers(w))
        out->answer_seconds = b->profile->recall(b, k.answers);
    out->measured = out->step_seconds >= 0 && out->evaluation_seconds >= 0 && out->answer_seconds >= 0;
    if (out->measured || !backend_tunes(b) || s->run.plan.arena_bytes > b->arena->available(b))
        return SNUG_OK;
    out->measured = true;
    return measure(s, w, &k, out, err);
}

/* ---- estimated ---- */

/* How much is tried first. With few tokens a node takes longer for each, on a GPU many times as long as with enough of them
 * to keep it busy. */
static double small_tokens(const struct backend *b, double flops_per_token)
{
    return b->facts.host_memory ? fmin(384, fmax(64, 1e10 / flops_per_token)) : fmax(1024, 2e12 / flops_per_token);
}

/* A model with two layers, since the last one of a classifier may be computed for few rows only, and so few tokens
 * that it takes no time. */
static int open_small(struct typical *t, struct model_config *m, struct compile_settings *c, struct choices *choices,
                      const struct session *s, const struct workload *w, double times, struct snug_err *err)
{
    enum { VOCABULARY = 4096 };
    int k = s->run.where.step >= 0 ? s->run.where.step : s->run.where.first;
    struct dims one = {.T = w->step.batch.T, .B = w->step.batch.B, .S = w->step.batch.S};
    double all = (double)(one.T + one.S), per_layer = run_flops(&s->run, k, one) / (all * (double)s->model.layers);
    double tokens = fmin(all, times * small_tokens(s->compile.backend, per_layer));
    int32_t length = (int32_t)fmin(ceil(w->lengths.mean), fmax(tokens, one.S ? 2 : 1));
    int64_t rows = (int64_t)tokens / length > 0 ? (int64_t)tokens / length : 1;
    const struct dims any = {.T = rows * length, .B = rows, .S = rows * length};
    *m = s->model;
    m->layers = m->layers < 2 ? m->layers : 2;
    m->stack_layers = m->stack_layers ? 1 : 0;
    m->vocab_size = m->vocab_size < VOCABULARY ? m->vocab_size : VOCABULARY;
    *c = s->compile;
    c->model = m;
    *choices = s->choices;
    choices->accumulation = choices->accumulation > 1 ? 2 : 1;
    TRY(typical_open(t, m, NULL, length, w->source_share, rows, any, err));
    choices->micro = batch_dims(c->backend, &t->batch);
    c->eval_max = c->eval_max.B > 0 ? choices->micro : c->eval_max;
    return SNUG_OK;
}

static double estimate_program(const struct session *s, const struct node_times *t, int k, const struct batch *b,
                               double unevenness)
{
    struct dims dims = batch_dims(s->compile.backend, b);
    return k < 0 ? 0 : node_times_of(t, &s->run.plan.programs[k], dims, unevenness);
}

/* Adds the times of a small model's nodes, at so many times the fewest tokens; *all: as many as the run's. */
static int time_small(const struct session *s, const struct workload *w, double times, struct node_times *t, bool *all,
                      struct snug_err *err)
{
    struct typical small = {0};
    struct model_config model;
    struct compile_settings settings;
    struct choices choices;
    struct rehearsal r = {0};
    /* The layers of larger models take seconds, and many where other programs have the processors or the memory must be
     * brought first. */
    const struct rehearsal_limits limits = {.bytes = INT64_C(4) << 30, .large_bytes = INT64_C(1) << 30, .seconds = 3};
    int code = open_small(&small, &model, &settings, &choices, s, w, times, err);
    if (!code)
        code = rehearsal_open(&r, &settings, &choices, &limits, err);
    if (!code)
        code = rehearsal_nodes(&r, &small.batch, t, err);
    for (int i = 0; !code && times == 1 && workload_answers(w) && i < ANSWER_CALLS; i++)
        code = rehearsal_answer_nodes(&r, &w->answers.batch[i], t, err);
    *all = code || 2 * (small.batch.T + small.batch.S) > w->step.batch.T + w->step.batch.S;
    rehearsal_close(&r);
    typical_close(&small);
    return code;
}

/* How many times as many tokens are tried after few, which took so long: a node's time at a third size follows from two. */
static double more_tokens(double seconds)
{
    return seconds < 0.2 ? 4 : seconds < 0.8 ? 2 : 1;
}

static int time_nodes(const struct session *s, const struct workload *w, struct node_times *t, struct snug_err *err)
{
    bool all = false;
    TRY(time_small(s, w, 1, t, &all, err));
    double times = more_tokens(node_times_sum(t));
    if (!s->compile.backend->facts.host_memory || all || times == 1)
        return SNUG_OK;
    struct snug_err ignored; /* no room for more: what is known will do */
    time_small(s, w, times, t, &all, &ignored);
    return SNUG_OK;
}

static int estimate(const struct session *s, const struct workload *w, struct forecast *out, struct snug_err *err)
{
    const double share = 0.05; /* of the threads' time, spent waiting for a processor */
    struct node_times t = {0};
    const struct programs *p = &s->run.where;
    double start = seconds_now(), waited = machine_waited_seconds();
    int code = time_nodes(s, w, &t, err);
    waited = machine_waited_seconds() - waited;
    out->disturbed =
        s->compile.backend->facts.host_memory && waited > share * s->compile.threads * (seconds_now() - start);
    if (!code) {
        const struct batch *b = &w->step.batch;
        double uneven = w->lengths.unevenness;
        out->step_seconds = estimate_program(s, &t, p->step, b, uneven) + estimate_program(s, &t, p->first, b, uneven) +
                            (w->accumulation - 1) * estimate_program(s, &t, p->next, b, uneven) +
                            estimate_program(s, &t, p->update, b, uneven);
        out->evaluation_seconds = estimate_program(s, &t, p->eval, &w->evaluation.batch, w->eval_lengths.unevenness);
        double call[ANSWER_CALLS] = {0};
        for (int i = 0; workload_answers(w) && i < ANSWER_CALLS; i++)
            call[i] = estimate_program(s, &t, p->generate, &w->answers.batch[i], 1);
        out->answer_seconds = workload_answer_seconds(w, call);
    }
    node_times_free(&t);
    return code;
}

/* ---- the run ---- */

/* Steps of full size that take as long as all of the run's. */
static double full_steps(const struct session *s, int64_t steps, int64_t per_epoch, double rows_per_step)
{
    struct position p = train_position(s, NULL);
    double epochs = (double)(steps / per_epoch), in_epoch = (double)position_rows_per_epoch(&p) / rows_per_step;
    in_epoch = fmin(in_epoch, (double)per_epoch);
    return epochs * in_epoch + fmin((double)(steps % per_epoch), in_epoch);
}

/* From the times of a step of one rank and of a batch of the evaluation. */
static void add_up(const struct session *s, const struct workload *w, struct forecast *out)
{
    int64_t per_epoch;
    out->exchange = exchange_of(s);
    out->step_seconds += out->exchange.seconds;
    out->samples = (double)w->step.batch.B * w->accumulation * s->compile.ranks;
    out->tokens = (double)(w->step.batch.T + w->step.batch.S) * w->accumulation * s->compile.ranks;
    const struct batch *e = &w->evaluation.batch;
    double batches = workload_evaluates(w) ? (double)s->data.n_tokens / (double)(e->T + e->S) : 0;
    out->evaluation_seconds *= batches / fmax(1, fmin(batches, s->compile.ranks));
    out->evaluation_seconds += out->answer_seconds;
    if (!s->has_train)
        return;
    train_steps(s, &out->steps, &per_epoch);
    out->evaluations = train_evaluations(s, out->steps);
    out->run_seconds = full_steps(s, out->steps, per_epoch, out->samples) * out->step_seconds +
                       (double)out->evaluations * out->evaluation_seconds;
}

/* By what the device's data sheet says: nothing can be tried. */
static void reckon(const struct session *s, const struct workload *w, struct forecast *out)
{
    const struct compile_settings *c = &s->compile;
    const struct programs *where = &s->run.where;
    const struct batch *b = &w->step.batch, *e = &w->evaluation.batch;
    struct rates r = rates_of(c->backend, &c->precision, c->threads, batch_dims(c->backend, b));
    out->step_seconds = rates_step(&r, &s->run.plan, where, w->accumulation);
    r.sizes = batch_dims(c->backend, e);
    out->evaluation_seconds = where->eval < 0 ? 0 : rates_program(&r, &s->run.plan.programs[where->eval]);
    double call[ANSWER_CALLS] = {0};
    for (int i = 0; workload_answers(w) && i < ANSWER_CALLS; i++) {
        const struct batch *a = &w->answers.batch[i];
        r.sizes = batch_dims(c->backend, a);
        call[i] = rates_program(&r, &s->run.plan.programs[where->generate]);
    }
    out->answer_seconds = workload_answer_seconds(w, call);
}

/* Where nothing is known from before: small models are tried, or, where the device is not there or has no room for them, its data sheet
 * says it. */
static int estimate_or_reckon(const struct session *s, const struct workload *w, struct forecast *out,
                              struct snug_err *err)
{
    const struct backend *b = s->compile.backend;
    bool sheet = b->rates.bytes > 0;
    int code = b->profile || !sheet ? estimate(s, w, out, err) : SNUG_ERR_ENV;
    if (code != SNUG_ERR_ENV || !sheet)
        return code;
    reckon(s, w, out);
    return SNUG_OK;
}

int forecast_run(const struct session *s, struct forecast *out, struct snug_err *err)
{
    const struct compile_settings *c = &s->compile;
    struct workload w;
    *out = (struct forecast){0};
    if (!c->train || c->separate || c->keep_grads || c->backend->facts.float_type != DT_F32)
        return SNUG_OK;
    bool reckoned = false;
    int code = workload_open(&w, s, err);
    if (!code && c->backend->profile)
        code = recall_or_measure(s, &w, out, err);
    if (!code && c->backend->profile && !out->measured)
        code = reckon_by_nodes(s, &w, out, &reckoned, err);
    if (!code && !out->measured && !reckoned)
        code = estimate_or_reckon(s, &w, out, err);
    if (!code) {
        out->known = true;
        add_up(s, &w, out);
    }
    workload_close(&w);
    if (code == SNUG_ERR_ENV) { /* no room to try anything: a plan is made for larger machines too */
        *out = (struct forecast){0};
        code = SNUG_OK;
    }
    return code;
}

int forecast_ops(const struct session *s, struct op_times *out, struct snug_err *err)
{
    struct known_nodes known = {0};
    struct workload w;
    *out = (struct op_times){0};
    if (!s->compile.backend->profile)
        return SNUG_OK;
    int code = workload_open(&w, s, err);
    if (!code)
        code = known_nodes_open(&known, s->compile.backend, err);
    if (!code) {
        struct known_time t = step_sum(&known, &s->run, &w, out);
        out->steps = t.seconds > 0 && !t.unknown;
    }
    known_nodes_close(&known);
    workload_close(&w);
    return code;
}
