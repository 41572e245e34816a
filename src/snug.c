/* The public functions: each a few lines over the engine. */
#include "snug/snug.h"

#include "base/machine.h"
#include "base/size.h"
#include "plan/report.h"
#include "schedule/schedule.h"
#include "train/evaluate.h"
#include "train/predict.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- process ---- */

const char *snug_version(void)
{
    return SNUG_VERSION;
}

void snug_free(void *p)
{
    mem_free(p);
}

void snug_set_allocator(const struct snug_allocator *a)
{
    static struct mem_ops ops; /* a copy, so that the caller's may go; part of the one process-wide switch in mem.c */
    if (a)
        ops = (struct mem_ops){.realloc = a->realloc, .free = a->free, .ctx = a->ctx, .not_pieces = true};
    mem_set_ops(a ? &ops : NULL);
}

/* ---- options ---- */

int snug_options_new(const char *command, snug_options **out, struct snug_err *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } rows[] = {{"train", CMD_TRAIN}, {"eval", CMD_EVAL}, {"predict", CMD_PREDICT}, {"plan", CMD_PLAN}};
    *out = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, command))
            continue;
        *out = mem_alloc(sizeof **out);
        if (!*out)
            return err_no_memory(err, sizeof **out);
        options_init(&(*out)->o, rows[i].bit);
        return SNUG_OK;
    }
    return err_set(err, SNUG_ERR_USAGE, "%s: no such command; use train, eval, predict or plan", command);
}

int snug_options_set(snug_options *o, const char *name, const char *value, struct snug_err *err)
{
    return options_set(&o->o, name, value, err);
}

int snug_options_read(snug_options *o, const char *path, struct snug_err *err)
{
    return options_read_config(&o->o, &io_posix, path, err);
}

void snug_options_free(snug_options *o)
{
    if (o)
        options_free(&o->o);
    mem_free(o);
}

/* ---- stopping ---- */

struct snug_stop {
    struct stop_flag flag;
    bool installed;
};

int snug_stop_new(snug_stop **out, struct snug_err *err)
{
    *out = mem_alloc(sizeof **out);
    return *out ? SNUG_OK : err_no_memory(err, sizeof **out);
}

void snug_stop_ask(snug_stop *s, int signal_number)
{
    if (s->flag.signal == signal_number)
        s->flag.again = signal_number;
    else if (!s->flag.signal)
        s->flag.signal = signal_number;
}

int snug_stop_on_signals(snug_stop *s, struct snug_err *err)
{
    TRY(signals_install(&s->flag, err));
    s->installed = true;
    return SNUG_OK;
}

int snug_stop_exit_code(const snug_stop *s)
{
    return stop_exit_code(&s->flag);
}

void snug_stop_free(snug_stop *s)
{
    if (s && s->installed)
        signals_restore();
    mem_free(s);
}

/* ---- sessions ---- */

struct snug_session {
    struct session s;
    struct snug_events events;
    bool trained;           /* or tried to */
    struct metrics metrics; /* of the last snug_evaluate */
    bool evaluated;

    /* own loop */
    struct order order;
    struct loader *loader;
    struct schedule schedule;
    const struct window *window; /* NULL: none, or its update is made */
    int32_t done;                /* micro-batches of it */
    double loss;                 /* of those */
    int64_t steps, updates;
};

int snug_open(snug_options *o, enum snug_use use, const struct snug_events *events, snug_session **out,
              struct snug_err *err)
{
    *out = NULL;
    TRY(options_check(&o->o, err));
    snug_session *s = mem_alloc(sizeof *s);
    if (!s)
        return err_no_memory(err, sizeof *s);
    if (events)
        s->events = *events;
    struct session_events e = {.note = s->events.note, .dump = s->events.dump, .ctx = s->events.ctx};
    const struct stop_flag *stop = s->events.stop ? &s->events.stop->flag : NULL;
    int code = session_open(&s->s, &io_posix, &o->o, use == SNUG_OWN_LOOP, e, stop, err);
    if (code) {
        snug_close(s);
        return code;
    }
    *out = s;
    return SNUG_OK;
}

void snug_close(snug_session *s)
{
    if (!s)
        return;
    loader_close(s->loader);
    order_close(&s->order);
    metrics_close(&s->metrics);
    session_close(&s->s);
    mem_free(s);
}

/* ---- plan ---- */

int64_t snug_peak_bytes(const snug_session *s)
{
    return s->s.run.plan.arena_bytes;
}

int64_t snug_lower_bound_bytes(const snug_session *s)
{
    return s->s.run.plan.lower_bound_bytes;
}

int64_t snug_weights(const snug_session *s)
{
    struct run_value *w;
    size_t n;
    int64_t total = 0;
    if (run_list(&s->s.run, 1u << ROLE_WEIGHT, &w, &n, NULL))
        return 0;
    for (size_t i = 0; i < n; i++)
        total += w[i].elements;
    mem_free(w);
    return total;
}

/* The text of `out` becomes the caller's. */
static int hand_out(struct str *out, char **text, struct snug_err *err)
{
    int code = str_check(out, err);
    *text = code ? NULL : mem_strdup(str_text(out));
    str_free(out);
    return code ? code : *text ? SNUG_OK : err_no_memory(err, out->n + 1);
}

struct snug_forecast snug_forecast(const snug_session *s)
{
    const struct forecast *f = &s->s.forecast;
    if (!f->known)
        return (struct snug_forecast){0};
    return (struct snug_forecast){.step_seconds = f->step_seconds,
                                  .samples_per_second = f->samples / f->step_seconds,
                                  .tokens_per_second = f->tokens / f->step_seconds,
                                  .evaluation_seconds = f->evaluation_seconds,
                                  .steps = f->steps,
                                  .evaluations = f->evaluations,
                                  .run_seconds = f->run_seconds,
                                  .measured = f->measured,
                                  .disturbed = f->disturbed};
}

/* 0.42 s, 42.0 s, 4 min 20 s, 4 h 20 min */
static void put_duration(struct str *out, double seconds)
{
    long long s = (long long)(seconds + 0.5);
    if (seconds < 60)
        str_printf(out, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        str_printf(out, "%lld min %lld s", s / 60, s % 60);
    else
        str_printf(out, "%lld h %lld min", s / 3600, s / 60 % 60);
}

/* Three digits, and all of them before the point. */
static void put_number(struct str *out, double x)
{
    str_printf(out, x < 999.5 ? "%.3g" : "%.0f", x);
}

static void put_forecast(struct str *out, const struct snug_forecast *f)
{
    bool short_step = f->step_seconds < 1;
    const char *basis = f->measured    ? "measured"
                        : f->disturbed ? "a guess: other programs have the processors"
                                       : "estimated";
    str_append(out, "time     ");
    if (f->steps) {
        put_duration(out, f->run_seconds);
        str_printf(out, " for %lld step%s", (long long)f->steps, f->steps == 1 ? "" : "s");
        if (f->evaluations) {
            str_printf(out, " and %lld evaluation%s of ", (long long)f->evaluations, f->evaluations == 1 ? "" : "s");
            put_duration(out, f->evaluation_seconds);
        }
        str_printf(out, ", %s\n", basis);
    }
    str_printf(out, "%s", f->steps ? "         " : "");
    put_number(out, (short_step ? 1e3 : 1) * f->step_seconds);
    str_printf(out, " %s a step, ", short_step ? "ms" : "s");
    put_number(out, f->samples_per_second);
    str_printf(out, " samples/s, %.0f tokens/s%s%s\n", f->tokens_per_second, f->steps ? "" : ", ",
               f->steps ? "" : basis);
}

/* Bytes of the gradients that micro-steps add up, in `type`. */
static int64_t accumulated_bytes(const struct session *s, enum dtype type)
{
    int64_t bytes = 0;
    const struct graph *g = &s->run.plan.programs[s->run.where.first].graph;
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        bytes += v->role == ROLE_GRADIENT && v->persists && !v->base && v->dtype == type
                     ? value_bytes(v, (struct dims){0})
                     : 0;
    }
    return bytes;
}

/* "12.3 MiB in BF16 and 56 B in F32" */
static void put_accumulated(struct str *out, const struct session *s)
{
    const struct precision *p = &s->compile.precision;
    int64_t narrow = p->narrow == p->wide ? 0 : accumulated_bytes(s, p->narrow), wide = accumulated_bytes(s, p->wide);
    char size[SIZE_TEXT_MAX];
    str_printf(out, "step     %lld micro-batches; gradients added up: ", (long long)s->choices.accumulation);
    if (narrow)
        str_printf(out, "%s in %s and ", size_text(narrow, size), dtype_name(p->narrow));
    str_printf(out, "%s in %s\n", size_text(wide, size), dtype_name(p->wide));
}

/* 5091, 22.7 million, 1.24 billion */
static void put_count(struct str *out, int64_t n)
{
    if (n < 1000000)
        str_printf(out, "%lld", (long long)n);
    else if (n < 1000000000)
        str_printf(out, "%.3g million", (double)n / 1e6);
    else
        str_printf(out, "%.3g billion", (double)n / 1e9);
}

static const char *precision_words(const struct session *s)
{
    enum dtype narrow = s->compile.precision.narrow;
    return s->o->dtype == OPT_DTYPE_TF32 ? "tf32"
           : narrow == DT_BF16           ? "bf16 with fp32 master weights"
           : narrow == DT_F16            ? "fp16 with fp32 master weights"
           : narrow == DT_F32            ? "fp32"
           : narrow == DT_F64            ? "double precision"
                                         : dtype_name(narrow);
}

static void put_batch(struct str *out, const struct session *s)
{
    const struct choices *c = &s->choices;
    const struct plan *p = &s->run.plan;
    int k = s->run.where.step >= 0 ? s->run.where.step : s->run.where.first;
    if (k < 0)
        return;
    str_printf(out, "batch    %lld sequence%s, at most %lld tokens together: %.3g GFLOP\n", (long long)c->micro.B,
               c->micro.B == 1 ? "" : "s", (long long)c->micro.T, run_flops(&s->run, k, c->micro) / 1e9);
    if (c->accumulation > 1 && s->run.where.first >= 0)
        put_accumulated(out, s);
    if (c->recompute_every_n)
        str_printf(out, "         activations of %d of %lld layers are computed again in the backward pass\n",
                   p->programs[k].recomputed_layers, (long long)s->model.layers);
}

int snug_plan_summary(const snug_session *s, char **text, struct snug_err *err)
{
    const struct session *e = &s->s;
    const struct compile_settings *c = &e->compile;
    const struct plan *p = &e->run.plan;
    char size[SIZE_TEXT_MAX];
    struct str out = {0};
    str_append(&out, "model    ");
    str_escape(&out, e->o->model);
    str_printf(&out, ": %s, ", model_class(&e->model));
    put_count(&out, snug_weights(s));
    str_printf(&out, " weights\ndevice   %s, %d thread%s, %s\n", c->backend->name, c->threads,
               c->threads == 1 ? "" : "s", precision_words(e));
    put_batch(&out, e);
    str_printf(&out, "memory   %s", size_text(p->arena_bytes, size));
    if (p->checkpoint_bytes)
        str_printf(&out, ", and %s more while a checkpoint is written", size_text(p->checkpoint_bytes, size));
    if (p->metrics_bytes > 1 << 20) /* less is not worth saying */
        str_printf(&out, ", and %s for an evaluation's metrics", size_text(p->metrics_bytes, size));
    str_append(&out, "\n");
    struct snug_forecast f = snug_forecast(s);
    if (f.step_seconds > 0)
        put_forecast(&out, &f);
    return hand_out(&out, text, err);
}

int snug_plan_text(const snug_session *s, char **text, struct snug_err *err)
{
    struct str out = {0};
    plan_report_text(&s->s.run.plan, &out);
    return hand_out(&out, text, err);
}

int snug_plan_json(const snug_session *s, char **text, struct snug_err *err)
{
    const struct compile_settings *c = &s->s.compile;
    struct str out = {0}, plan = {0};
    plan_report_json(&s->s.run.plan, &plan);
    str_append(&out, "{\"model\":");
    str_json_printed(&out, s->s.o->model);
    str_printf(&out, ",\"class\":\"%s\",\"weights\":%lld,\"dtype\":\"%s\",\"device\":\"%s\",\"threads\":%d,",
               model_class(&s->s.model), (long long)snug_weights(s), dtype_name(c->precision.narrow), c->backend->name,
               c->threads);
    struct snug_forecast f = snug_forecast(s);
    if (f.step_seconds > 0)
        str_printf(&out,
                   "\"time\":{\"step_seconds\":%.6g,\"samples_per_second\":%.6g,\"tokens_per_second\":%.6g,"
                   "\"steps\":%lld,\"evaluations\":%lld,\"evaluation_seconds\":%.6g,\"run_seconds\":%.6g,"
                   "\"basis\":\"%s\",\"disturbed\":%s},",
                   f.step_seconds, f.samples_per_second, f.tokens_per_second, (long long)f.steps,
                   (long long)f.evaluations, f.evaluation_seconds, f.run_seconds, f.measured ? "measured" : "estimated",
                   f.disturbed ? "true" : "false");
    if (s->s.choices.accumulation > 1 && s->s.run.where.first >= 0) {
        str_append(&out, "\"accumulated_gradients\":{");
        if (c->precision.narrow != c->precision.wide)
            str_printf(&out, "\"%s\":%lld,", dtype_name(c->precision.narrow),
                       (long long)accumulated_bytes(&s->s, c->precision.narrow));
        str_printf(&out, "\"%s\":%lld},", dtype_name(c->precision.wide),
                   (long long)accumulated_bytes(&s->s, c->precision.wide));
    }
    str_append(&out, plan.n ? plan.s + 1 : ""); /* behind its { */
    out.failed |= plan.failed;
    str_free(&plan);
    return hand_out(&out, text, err);
}

/* ---- whole runs ---- */

int snug_train(snug_session *s, struct snug_summary *out, struct snug_err *err)
{
    struct snug_summary ignored;
    struct train_events e = {
        .started = s->events.started, .progress = s->events.progress, .logged = s->events.logged, .ctx = s->events.ctx};
    if (s->trained)
        return err_set(err, SNUG_ERR_USAGE,
                       "a session trains once; open another, with resume_from_checkpoint to go on from a checkpoint");
    s->trained = true;
    return train_run(&s->s, e, out ? out : &ignored, err);
}

int snug_evaluate(snug_session *s, void (*metric)(void *ctx, const char *name, double value), void *ctx,
                  struct snug_err *err)
{
    double seconds = 0;
    if (!s->s.has_data)
        return err_set(err, SNUG_ERR_USAGE, "there is no data to evaluate on; set the option data or eval_data");
    TRY(session_load(&s->s, err));
    s->evaluated = false;
    if (!s->metrics.block)
        TRY(evaluate_metrics(&s->s, &s->metrics, err));
    TRY(evaluate(&s->s, &s->metrics, &seconds, err));
    s->evaluated = true;
    metrics_report(&s->metrics, metric, ctx);
    metric(ctx, "rows", (double)s->s.data.n_rows);
    metric(ctx, "seconds", seconds);
    metric(ctx, "samples_per_second", (double)s->s.data.n_rows / seconds);
    return SNUG_OK;
}

static int check_evaluated(const snug_session *s, struct snug_err *err)
{
    return s->evaluated ? SNUG_OK : err_set(err, SNUG_ERR_USAGE, "nothing is evaluated yet; call snug_evaluate first");
}

int snug_evaluated_label(const snug_session *s, int64_t id, void (*metric)(void *ctx, const char *name, double value),
                         void *ctx, struct snug_err *err)
{
    TRY(check_evaluated(s, err));
    if (id < 0 || id >= snug_num_labels(s))
        return err_set(err, SNUG_ERR_USAGE, "label %lld: there are %lld, numbered from 0", (long long)id,
                       (long long)snug_num_labels(s));
    metrics_report_label(&s->metrics, id, metric, ctx);
    return SNUG_OK;
}

int snug_evaluated_confusions(const snug_session *s,
                              void (*cell)(void *ctx, int64_t actual, int64_t predicted, int64_t rows), void *ctx,
                              struct snug_err *err)
{
    struct confusion *cells;
    size_t n;
    TRY(check_evaluated(s, err));
    TRY(metrics_confusions(&s->metrics, &cells, &n, err));
    for (size_t i = 0; i < n; i++)
        cell(ctx, cells[i].actual, cells[i].predicted, cells[i].rows);
    mem_free(cells);
    return SNUG_OK;
}

int snug_predict(snug_session *s, int (*row)(void *ctx, int64_t index, const double *values), void *ctx,
                 struct snug_err *err)
{
    const struct model_config *c = &s->s.model;
    if (model_task(c)->per_token)
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: %s gives no prediction per row; use a model for sequence classification", s->s.o->model,
                       model_class(c));
    if (!s->s.has_data && !s->s.stream)
        return err_set(err, SNUG_ERR_USAGE,
                       "there is no data to predict; set the option data, or open another session");
    TRY(session_load(&s->s, err));
    return predict_run(&s->s, row, ctx, err);
}

int snug_columns(const snug_session *s)
{
    return s->s.stream ? row_stream_columns(s->s.stream) : 0;
}

const char *snug_column(const snug_session *s, int column)
{
    return column >= 0 && column < snug_columns(s) ? row_stream_column(s->s.stream, column) : NULL;
}

const char *snug_cell(const snug_session *s, int column)
{
    return column >= 0 && column < snug_columns(s) ? row_stream_cell(s->s.stream, s->s.row, column) : NULL;
}

const char *snug_row_json(const snug_session *s)
{
    return s->s.stream ? row_stream_object(s->s.stream, s->s.row) : NULL;
}

/* ORDER problem */
enum snug_problem snug_problem_type(const snug_session *s)
{
    return (enum snug_problem)s->s.model.problem;
}

int64_t snug_num_labels(const snug_session *s)
{
    return model_task(&s->s.model)->per_token ? 0 : s->s.model.num_labels;
}

const char *snug_label(const snug_session *s, int64_t id)
{
    return id >= 0 && id < s->s.labels.n ? s->s.labels.names[id] : NULL;
}

int64_t snug_rows(const snug_session *s)
{
    return s->s.has_data ? s->s.data.n_rows : 0;
}

/* ---- own loop ---- */

int snug_load(snug_session *s, struct snug_err *err)
{
    return session_load(&s->s, err);
}

static int start_loop(snug_session *s, struct snug_err *err)
{
    int64_t per_epoch;
    if (!s->s.has_train || s->s.run.where.first < 0)
        return err_set(err, SNUG_ERR_USAGE, "there is nothing to train; open a session of train with SNUG_OWN_LOOP");
    if (!s->s.loaded)
        return err_set(err, SNUG_ERR_USAGE, "the weights are not there; call snug_load first");
    train_steps(&s->s, &s->steps, &per_epoch);
    s->schedule = schedule_of(s->s.o, s->steps);
    if (schedule_follows_metric(s->s.o))
        return err_set(err, SNUG_ERR_USAGE,
                       "--lr-scheduler-type: in an own loop nobody evaluates for it; take one that goes by steps, or "
                       "choose the rate yourself");
    return train_open_loader(&s->s, NULL, 0, s->steps, &s->order, &s->loader, err);
}

int snug_next(snug_session *s, struct snug_window *w, struct snug_err *err)
{
    *w = (struct snug_window){0};
    if (!s->loader)
        TRY(start_loop(s, err));
    TRY(loader_next(s->loader, &s->window, err));
    s->done = 0;
    s->loss = 0;
    if (s->window)
        *w = (struct snug_window){.step = s->window->step,
                                  .steps = s->steps,
                                  .epoch = s->window->epoch,
                                  .n_micro = s->window->n_micro,
                                  .samples = s->window->n_samples,
                                  .tokens = s->window->n_tokens,
                                  .learning_rate = schedule_rate(&s->schedule, s->updates)};
    return SNUG_OK;
}

static int no_window(struct snug_err *err)
{
    return err_set(err, SNUG_ERR_USAGE, "there is no window, or its update is made; call snug_next first");
}

static struct step_inputs inputs_of(const snug_session *s, double learning_rate)
{
    return (struct step_inputs){.step = s->window->step,
                                .update = s->updates + 1,
                                .learning_rate = learning_rate,
                                .n = stepper_targets(&s->s.stepper, s->window),
                                .scaled = precision_scales(&s->s.compile.precision) && isfinite(s->loss)};
}

int snug_forward_backward(snug_session *s, int i, double *loss, struct snug_err *err)
{
    if (!s->window)
        return no_window(err);
    if (i != s->done || i >= s->window->n_micro)
        return err_set(err, SNUG_ERR_USAGE, "micro-batch %d: %d of %d are done; take each once, in order, from 0", i,
                       s->done, s->window->n_micro);
    struct step_inputs in = inputs_of(s, 0);
    TRY(stepper_micro(&s->s.stepper, s->window, i, &in, loss, err));
    s->done++;
    s->loss += *loss;
    return SNUG_OK;
}

int snug_update(snug_session *s, double learning_rate, double *grad_norm, struct snug_err *err)
{
    if (!s->window)
        return no_window(err);
    if (s->done < s->window->n_micro)
        return err_set(err, SNUG_ERR_USAGE,
                       "only %d of the window's %d micro-batches are done; call snug_forward_backward for the others",
                       s->done, s->window->n_micro);
    struct step_result r;
    struct step_inputs in = inputs_of(s, learning_rate);
    long long step = s->window->step + 1;
    s->window = NULL;
    TRY(stepper_update(&s->s.stepper, &in, &r, err));
    if (grad_norm)
        *grad_norm = r.grad_norm;
    if (!r.finite && !in.scaled)
        return err_set(err, SNUG_ERR_NUMERIC,
                       "step %lld: the gradient norm is %g, first in %s; lower the learning rate", step, r.grad_norm,
                       r.where);
    s->updates += r.finite;
    return SNUG_OK;
}

/* ---- results ---- */

int snug_save(snug_session *s, const char *dir, struct snug_err *err)
{
    if (!s->s.loaded || !s->s.run.arena)
        return err_set(err, SNUG_ERR_USAGE, "%s: there is nothing to save; load or train first", dir);
    TRY(io_make_dirs(s->s.io, dir, err));
    return train_export(&s->s, s->s.io, dir, -1, err);
}
