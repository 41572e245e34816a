#include "train/train.h"

#include "base/machine.h"
#include "base/seconds.h"
#include "train/evaluate.h"
#include "train/export.h"
#include "train/log.h"
#include "train/output.h"
#include "train/schedule.h"
#include "train/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One run. */
struct trainer {
    struct session *s;
    const struct options *o;
    struct train_events events;
    struct train_state state;
    struct schedule schedule;
    int64_t total, per_epoch;
    struct order order;
    struct loader *loader;
    struct ckpt_saver *saver;
    struct run_log log;
    struct metrics metrics;
    double started, trained_since; /* seconds on the monotonic clock; the second without loading */
    double evaluating;             /* seconds spent in evaluations */
    double data_wait; /* seconds from asking for a step's data until they were on their way to the device */
    int64_t first_step, first_samples, first_tokens;
    int64_t saved_step; /* whose whole state is in the output folder, or being written; -1: none */
    double grad_norm, learning_rate;
    int64_t memory_bytes; /* in use when somebody looked last */
    double looked;        /* when that was */
};

void train_steps(const struct session *s, int64_t *total, int64_t *per_epoch)
{
    const struct options *o = s->o;
    *per_epoch = loader_steps_per_epoch(s->train.n_rows, (int32_t)o->per_device_train_batch_size,
                                        (int32_t)o->gradient_accumulation_steps, o->dataloader_drop_last);
    *total = o->max_steps > 0 ? o->max_steps : (int64_t)ceil(o->num_train_epochs * (double)*per_epoch);
}

/* ---- starting ---- */

struct schedule train_schedule(const struct session *s, int64_t total)
{
    static const enum schedule_kind kinds[] = {[OPT_SCHEDULE_LINEAR] = SCHEDULE_LINEAR,
                                               [OPT_SCHEDULE_COSINE] = SCHEDULE_COSINE,
                                               [OPT_SCHEDULE_CONSTANT] = SCHEDULE_CONSTANT,
                                               [OPT_SCHEDULE_CONSTANT_WITH_WARMUP] = SCHEDULE_CONSTANT_WITH_WARMUP};
    return (struct schedule){.kind = kinds[s->o->lr_scheduler_type],
                             .learning_rate = s->o->learning_rate,
                             .warmup = opt_steps_of(s->o->warmup_steps, total),
                             .total = total,
                             .cycles = s->o->lr_scheduler_kwargs_num_cycles};
}

int train_open_loader(struct session *s, int64_t first, int64_t total, struct order *order, struct loader **loader,
                      struct snug_err *err)
{
    const struct options *o = s->o;
    static const enum order_kind kinds[] = {[OPT_SAMPLING_RANDOM] = ORDER_RANDOM,
                                            [OPT_SAMPLING_SEQUENTIAL] = ORDER_SEQUENTIAL,
                                            [OPT_SAMPLING_GROUP_BY_LENGTH] = ORDER_BY_LENGTH};
    int64_t rows = o->per_device_train_batch_size * o->gradient_accumulation_steps;
    uint64_t seed = option_given(o, data_seed) ? o->data_seed : o->seed;
    TRY(order_open(order, kinds[o->train_sampling_strategy], s->train.n_rows, seed, s->train.offsets, rows, err));
    struct loader_options l = {.data = &s->train,
                               .order = order,
                               .batch_size = (int32_t)o->per_device_train_batch_size,
                               .accumulation = (int32_t)o->gradient_accumulation_steps,
                               .drop_last = o->dataloader_drop_last,
                               .start_step = first,
                               .end_step = total,
                               .seed = o->seed,
                               .masking = session_masking(s)};
    return loader_open(&l, loader, err);
}

struct metric_search {
    const char *wanted;
    struct str names;
    bool found;
};

static void compare_name(void *ctx, const char *name, double value)
{
    struct metric_search *m = ctx;
    (void)value;
    m->found |= !strcmp(m->wanted, name) || (!strncmp(m->wanted, "eval_", 5) && !strcmp(m->wanted + 5, name));
    str_printf(&m->names, "%s%s", m->names.n ? ", " : "", name);
}

/* Known before the first step: a run is not lost over a misspelt name. */
static int check_best_metric(const struct trainer *t, struct snug_err *err)
{
    struct metric_search m = {.wanted = t->o->metric_for_best_model};
    if (!m.wanted || !t->s->has_data)
        return SNUG_OK;
    metrics_report(&t->metrics, compare_name, &m);
    int code = m.found ? SNUG_OK
                       : err_set(err, SNUG_ERR_USAGE, "--metric-for-best-model %s: is not one of %s; use one of them",
                                 m.wanted, str_text(&m.names));
    str_free(&m.names);
    return code;
}

static int step_folder(const struct trainer *t, int64_t step, struct str *path, struct snug_err *err)
{
    str_printf(path, "%s/step-%08lld", t->o->output_dir, (long long)step);
    return str_check(path, err);
}

/* Whether the output folder has a checkpoint of that step: one that was resumed, or is the best so far, may lie in
 * another folder, or be gone. */
static bool is_here(const struct trainer *t, int64_t step)
{
    struct str path = {0};
    struct ckpt_found found = {0};
    bool here = !step_folder(t, step, &path, NULL) &&
                !ckpt_find(t->s->io, str_text(&path), CKPT_QUICK, (struct ckpt_notes){0}, &found, NULL);
    ckpt_found_free(&found);
    str_free(&path);
    return here;
}

static int start(struct trainer *t, struct snug_err *err)
{
    t->state.best_step = t->state.evaluated_step = -1;
    t->saved_step = -1;
    train_steps(t->s, &t->total, &t->per_epoch);
    t->schedule = train_schedule(t->s, t->total);
    if (t->s->has_data)
        TRY(evaluate_metrics(t->s, &t->metrics, err));
    TRY(check_best_metric(t, err));
    TRY(output_claim(t->s, err));
    TRY(session_load(t->s, err));
    if (output_resumes(t->o))
        TRY(state_resume(t->s, output_resume_source(t->o), output_resume_auto(t->o) ? CKPT_AUTO : 0, false, t->total,
                         session_notes(t->s), &t->state, err));
    if (t->state.step > t->total)
        return SNUG_OK;
    TRY(output_ready(t->s, t->state.step, err));
    if (is_here(t, t->state.step))
        t->saved_step = t->state.step;
    if (t->state.best_step >= 0 && !is_here(t, t->state.best_step))
        t->state.best_step = -1;
    t->first_step = t->state.step, t->first_samples = t->state.samples, t->first_tokens = t->state.tokens;
    if (t->state.step < t->total)
        TRY(train_open_loader(t->s, t->state.step, t->total, &t->order, &t->loader, err));
    TRY(log_open(&t->log, t->s->io, t->o->output_dir, t->state.log_bytes, err));
    struct ckpt_config c = {.io = t->s->io,
                            .output_dir = t->o->output_dir,
                            .total_limit = t->o->save_total_limit,
                            .stop = t->s->stop,
                            .notes = session_notes(t->s)};
    return ckpt_saver_new(&c, &t->saver, err);
}

/* ---- logging ---- */

/* Of the device if there is one, else of this process. */
static int64_t memory_in_use(const struct trainer *t)
{
    const struct backend *b = t->s->compile.backend;
    struct backend_memory m;
    if (!b->memory)
        return machine_memory_resident();
    b->memory(b, &m);
    return m.used_bytes;
}

/* For whoever asks at every step: looked at ten times a second. */
static int64_t recent_memory(struct trainer *t)
{
    double time = seconds_now();
    if (time - t->looked < 0.1)
        return t->memory_bytes;
    t->looked = time;
    return t->memory_bytes = memory_in_use(t);
}

static void write_log(struct trainer *t, struct str *line)
{
    str_append(line, "}\n");
    if (line->failed)
        return;
    log_line(&t->log, str_text(line), session_notes(t->s).fn, t->s);
    if (t->events.logged)
        t->events.logged(t->events.ctx, str_text(line));
}

static void begin_line(struct trainer *t, struct str *line)
{
    str_append(line, "{");
    str_printf(line, "\"step\": %lld", (long long)t->state.step);
    log_number(line, "epoch", (double)t->state.step / (double)t->per_epoch);
}

static double training_seconds(const struct trainer *t)
{
    double seconds = seconds_now() - t->trained_since - t->evaluating;
    return seconds > 1e-9 ? seconds : 1e-9;
}

static int add_state_hash(struct trainer *t, struct str *line, struct snug_err *err)
{
    struct ckpt_tensor *tensors;
    size_t n;
    json_t *doc = NULL;
    struct hash128 hash;
    char hex[33];
    TRY(state_tensors(t->s, t->o->save_only_model, &tensors, &n, err));
    int code = state_to_json(t->s, &t->state, t->o->save_only_model, &doc, err);
    if (!code)
        code = ckpt_state_hash(tensors, n, doc, &hash, err);
    if (!code) {
        hash_hex(hash, hex);
        str_printf(line, ", \"state_hash\": \"%s\"", hex);
    }
    json_decref(doc);
    mem_free(tensors);
    return code;
}

/* The mean loss since the line before, the norm and rate of the last step. */
static int log_step(struct trainer *t, struct snug_err *err)
{
    struct str line = {0};
    double seconds = training_seconds(t);
    begin_line(t, &line);
    log_number(&line, "loss", t->state.loss_sum / (double)(t->state.loss_steps ? t->state.loss_steps : 1));
    log_number(&line, "grad_norm", t->grad_norm);
    log_number(&line, "learning_rate", t->learning_rate);
    log_number(&line, "samples_per_second", (double)(t->state.samples - t->first_samples) / seconds);
    log_number(&line, "tokens_per_second", (double)(t->state.tokens - t->first_tokens) / seconds);
    log_number(&line, "data_wait", t->data_wait / seconds);
    log_number(&line, "memory", (double)memory_in_use(t));
    t->state.loss_sum = 0;
    t->state.loss_steps = 0;
    int code = t->o->log_hash ? add_state_hash(t, &line, err) : SNUG_OK;
    write_log(t, &line);
    str_free(&line);
    return code;
}

/* ---- evaluating ---- */

struct eval_line {
    struct str line;
    const char *wanted; /* the metric for the best model, with or without eval_ in front */
    double value;
};

static void add_metric(void *ctx, const char *name, double value)
{
    struct eval_line *e = ctx;
    char member[64];
    snprintf(member, sizeof member, "eval_%s", name);
    log_number(&e->line, member, value);
    if (e->wanted && (!strcmp(e->wanted, name) || !strcmp(e->wanted, member)))
        e->value = value;
}

/* `value`: of the metric for the best model. */
static int evaluate_now(struct trainer *t, double *value, struct snug_err *err)
{
    struct eval_line e = {.wanted = t->o->metric_for_best_model, .value = NAN};
    double seconds, rows = (double)t->s->data.n_rows;
    metrics_close(&t->metrics);
    TRY(evaluate_metrics(t->s, &t->metrics, err));
    TRY(evaluate(t->s, &t->metrics, NULL, &seconds, err));
    t->evaluating += seconds;
    t->state.evaluated_step = t->state.step;
    begin_line(t, &e.line);
    metrics_report(&t->metrics, add_metric, &e);
    log_number(&e.line, "eval_runtime", seconds);
    log_number(&e.line, "eval_samples_per_second", rows / seconds);
    write_log(t, &e.line);
    str_free(&e.line);
    *value = e.value;
    return SNUG_OK;
}

/* ---- saving ---- */

/* When stopping, whatever it takes to go on is saved. Nothing comes after that, so it is written from where it lies:
 * there may be no memory planned for a copy. */
static int save_now(struct trainer *t, bool stopping, struct snug_err *err)
{
    struct ckpt_tensor *tensors;
    size_t n;
    json_t *doc = NULL;
    bool only_weights = t->o->save_only_model && !stopping;
    t->state.log_bytes = t->log.bytes;
    TRY(state_tensors(t->s, only_weights, &tensors, &n, err));
    int code = state_to_json(t->s, &t->state, only_weights, &doc, err);
    if (!code)
        code = (stopping ? ckpt_save_in_place : ckpt_save_begin)(t->saver, t->state.step, t->state.best_step, tensors,
                                                                 n, doc, err);
    if (code == SNUG_STOPPED && stopping)
        t->s->run.arena = NULL; /* left to the writer that was given up, until the process ends */
    if (!code && !only_weights)
        t->saved_step = t->state.step;
    json_decref(doc);
    mem_free(tensors);
    return code;
}

/* A signal: the state is saved unless it is already, and the run ends with SNUG_STOPPED. */
static int stop_now(struct trainer *t, struct snug_err *err)
{
    if (t->state.step == 0 && t->s->output.created)
        log_remove(&t->log);
    if (t->state.step == 0)
        return err_set(err, SNUG_STOPPED, "stopped by a signal before the first step; there is nothing to save");
    if (t->saved_step != t->state.step)
        TRY(save_now(t, true, err));
    TRY(ckpt_save_wait(t->saver, err));
    return err_set(err, SNUG_STOPPED,
                   "stopped by a signal after step %lld, which is saved; go on with --resume-from-checkpoint %s",
                   (long long)t->state.step, t->o->output_dir);
}

/* ---- the loop ---- */

static bool due(int when, struct opt_steps every, const struct trainer *t, bool ends_epoch)
{
    int64_t steps = opt_steps_of(every, t->total);
    if (when == OPT_WHEN_EPOCH)
        return ends_epoch;
    return when == OPT_WHEN_STEPS && steps > 0 && t->state.step % steps == 0;
}

static bool evaluation_due(const struct trainer *t, bool ends_epoch)
{
    double at =
        t->o->eval_strategy == OPT_WHEN_EPOCH ? (double)t->state.step / (double)t->per_epoch : (double)t->state.step;
    bool asked = at >= t->o->eval_delay && due(t->o->eval_strategy, t->o->eval_steps, t, ends_epoch);
    return t->s->has_data && (asked || t->state.step == t->total);
}

int64_t train_evaluations(const struct session *s, int64_t total, int64_t per_epoch)
{
    struct trainer t = {.s = (struct session *)s, .o = s->o, .total = total, .per_epoch = per_epoch};
    int64_t steps = s->o->eval_strategy == OPT_WHEN_STEPS ? opt_steps_of(s->o->eval_steps, total) : per_epoch;
    int64_t n = s->o->eval_on_start && s->has_data;
    for (t.state.step = steps; steps > 0 && t.state.step < total; t.state.step += steps) /* the others have none */
        n += evaluation_due(&t, t.state.step % per_epoch == 0);
    t.state.step = total;
    return n + evaluation_due(&t, true);
}

static bool save_due(const struct trainer *t, bool ends_epoch)
{
    bool last = t->state.step == t->total;
    switch (t->o->save_strategy) {
    case OPT_SAVE_STEPS:
        return last || due(OPT_WHEN_STEPS, t->o->save_steps, t, ends_epoch);
    case OPT_SAVE_EPOCH:
        return last || ends_epoch;
    case OPT_SAVE_BEST:
        return t->state.best_step == t->state.step;
    default:
        return false;
    }
}

/* An evaluation counts only where its weights can be had again: at a step that is saved. */
static void keep_best(struct trainer *t, double value, bool ends_epoch)
{
    bool saved = t->o->save_strategy == OPT_SAVE_BEST || save_due(t, ends_epoch);
    bool better = t->o->greater_is_better ? value > t->state.best : value < t->state.best;
    if (saved && isfinite(value) && (t->state.best_step < 0 || better)) {
        t->state.best = value;
        t->state.best_step = t->state.step;
    }
}

static void report_progress(struct trainer *t, double loss)
{
    if (!t->events.progress)
        return;
    double seconds = training_seconds(t), done = (double)(t->state.step - t->first_step);
    struct snug_progress p = {.step = t->state.step,
                              .steps = t->total,
                              .epoch = (double)t->state.step / (double)t->per_epoch,
                              .epochs = (double)t->total / (double)t->per_epoch,
                              .loss = loss,
                              .grad_norm = t->grad_norm,
                              .learning_rate = t->learning_rate,
                              .seconds = seconds,
                              .seconds_left = seconds / done * (double)(t->total - t->state.step),
                              .samples_per_second = (double)(t->state.samples - t->first_samples) / seconds,
                              .tokens_per_second = (double)(t->state.tokens - t->first_tokens) / seconds,
                              .memory_bytes = recent_memory(t)};
    t->events.progress(t->events.ctx, &p);
}

static int not_finite(struct trainer *t, const struct step_result *r, struct snug_err *err)
{
    const char *what = isfinite(r->loss) ? "gradient norm" : "loss";
    double value = isfinite(r->loss) ? r->grad_norm : r->loss;
    if (isnan(value))
        value = fabs(value); /* the sign of a NaN says nothing */
    if (t->o->nan_policy == OPT_NAN_SKIP && !isfinite(r->grad_norm)) {
        session_note(t->s, "step %lld: %s is %g (first: %s); its update is skipped", (long long)t->state.step + 1, what,
                     value, r->where);
        return SNUG_OK;
    }
    return err_set(err, SNUG_ERR_NUMERIC,
                   "step %lld: %s is %g, first in %s; lower --learning-rate, or check the data and weights",
                   (long long)t->state.step + 1, what, value, r->where);
}

/* `asked`: when the window was. */
static int one_step(struct trainer *t, const struct window *w, double asked, struct snug_err *err)
{
    struct step_result r;
    t->learning_rate = schedule_rate(&t->schedule, t->state.updates);
    struct step_inputs in = {.step = t->state.step,
                             .update = t->state.updates + 1,
                             .learning_rate = t->learning_rate,
                             .n = w->n_targets,
                             .scaled = t->s->compile.precision.narrow == DT_F16};
    TRY(stepper_step(&t->s->stepper, w, &in, &r, err));
    if (!r.finite && !(in.scaled && isfinite(r.loss)))
        TRY(not_finite(t, &r, err));
    t->data_wait += r.sent - asked;
    t->grad_norm = r.grad_norm;
    t->state.updates += r.finite;
    t->state.step++;
    t->state.samples += w->n_samples;
    t->state.tokens += w->n_tokens;
    t->state.loss_sum += r.loss;
    t->state.loss_steps++;
    report_progress(t, r.loss);
    return SNUG_OK;
}

static int evaluate_and_save(struct trainer *t, bool ends_epoch, struct snug_err *err)
{
    double value = NAN;
    int code = evaluation_due(t, ends_epoch) ? evaluate_now(t, &value, err) : SNUG_OK;
    if (code != SNUG_STOPPED)
        TRY(code);
    keep_best(t, value, ends_epoch);
    if (stop_asked(t->s->stop))
        return stop_now(t, err);
    return save_due(t, ends_epoch) && t->saved_step != t->state.step ? save_now(t, false, err) : SNUG_OK;
}

/* What is due at a step boundary, in the Trainer's order: log, evaluate, save. After the last step everything is, so
 * that its checkpoint lacks nothing but the exported folder. */
static int after_step(struct trainer *t, bool ends_epoch, struct snug_err *err)
{
    bool first = t->o->logging_first_step && t->state.step == 1, last = t->state.step == t->total;
    if (first || last || due(t->o->logging_strategy, t->o->logging_steps, t, ends_epoch))
        TRY(log_step(t, err));
    return evaluate_and_save(t, ends_epoch, err);
}

/* Before the first step there is nothing to save, so this one is never the best. */
static int evaluate_at_start(struct trainer *t, struct snug_err *err)
{
    double value;
    int code = evaluate_now(t, &value, err);
    return code == SNUG_STOPPED ? stop_now(t, err) : code;
}

/* An evaluation that was due at the step of the checkpoint, and that a signal cut short. */
static int catch_up(struct trainer *t, struct snug_err *err)
{
    bool ends_epoch = t->state.step % t->per_epoch == 0;
    bool missed = t->state.step > 0 && t->state.evaluated_step != t->state.step && evaluation_due(t, ends_epoch);
    return missed ? evaluate_and_save(t, ends_epoch, err) : SNUG_OK;
}

/* The device or its memory is gone; what is left is on disk. */
static int device_lost(struct trainer *t, int code, struct snug_err *err)
{
    struct snug_err why = err ? *err : (struct snug_err){0};
    const char *from = output_resumes(t->o) ? output_resume_source(t->o) : NULL;
    int64_t step = t->first_step;
    ckpt_save_wait(t->saver, NULL); /* one that is being written was copied before */
    if (!t->o->save_only_model && ckpt_saved_step(t->saver) > step) {
        step = ckpt_saved_step(t->saver);
        from = t->o->output_dir;
    }
    if (!step)
        return err_set(err, code, "step %lld: %s; there is no checkpoint to go on from, so start again",
                       (long long)t->state.step + 1, why.text);
    return err_set(err, code, "step %lld: %s; go on from step %lld, --resume-from-checkpoint %s",
                   (long long)t->state.step + 1, why.text, (long long)step, from);
}

static int loop(struct trainer *t, struct snug_summary *out, struct snug_err *err)
{
    const struct window *w;
    if (t->events.started)
        t->events.started(t->events.ctx);
    t->trained_since = seconds_now();
    if (t->o->eval_on_start && t->s->has_data && t->state.step == 0)
        TRY(evaluate_at_start(t, err));
    TRY(catch_up(t, err));
    while (t->state.step < t->total) {
        double asked = seconds_now();
        TRY(loader_next(t->loader, &w, err));
        if (!w)
            break;
        if (stop_asked(t->s->stop))
            return stop_now(t, err);
        bool ends_epoch = w->ends_epoch;
        TRY(one_step(t, w, asked, err));
        if (!out->first_step_seconds)
            out->first_step_seconds = seconds_now() - t->started;
        TRY(after_step(t, ends_epoch, err));
    }
    return SNUG_OK;
}

/* ---- finishing ---- */

struct export_source {
    const struct run *run;
    struct run_value *values;
    size_t n;
};

static int read_weight(void *ctx, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                       struct snug_err *err)
{
    struct export_source *e = ctx;
    for (size_t i = 0; i < e->n; i++) {
        struct run_value part = e->values[i];
        if (strcmp(part.name, t->name))
            continue;
        part.data = (char *)part.data + dtype_bytes(part.dtype, offset / 4);
        part.elements = (int64_t)bytes / 4;
        return run_read(e->run, &part, to, DT_F32, err);
    }
    return err_set(err, SNUG_ERR_IO, "%s: no such weight", t->name);
}

/* The output folder becomes a Hugging Face folder. */
int train_export(struct session *s, const char *dir, struct snug_err *err)
{
    struct export_source source = {.run = &s->run};
    char *config = NULL;
    TRY(run_list(&s->run, 1u << ROLE_WEIGHT, &source.values, &source.n, err));
    struct st_tensor *tensors = mem_alloc(source.n * sizeof *tensors);
    int code = tensors ? session_config_text(s, &config, err) : err_no_memory(err, source.n * sizeof *tensors);
    for (size_t i = 0; !code && i < source.n; i++) {
        tensors[i] = (struct st_tensor){.name = source.values[i].name, .dtype = DT_F32, .ndim = source.values[i].ndim};
        memcpy(tensors[i].shape, source.values[i].shape, sizeof source.values[i].shape);
    }
    struct export_model m = {.tensors = tensors,
                             .n_tensors = source.n,
                             .read = read_weight,
                             .ctx = &source,
                             .config = config,
                             .source_dir = s->dir.path,
                             .files = s->dir.copies,
                             .n_files = s->dir.n_copies};
    if (!code)
        code = export_folder(s->io, dir, &m, err);
    mem_free(config);
    mem_free(tensors);
    mem_free(source.values);
    return code;
}

static int load_best(struct trainer *t, struct snug_err *err)
{
    struct str path = {0};
    struct train_state ignored;
    if (!t->o->load_best_model_at_end || t->state.best_step < 0 || t->state.best_step == t->state.step)
        return SNUG_OK;
    int code = step_folder(t, t->state.best_step, &path, err);
    if (!code)
        code = state_resume(t->s, str_text(&path), 0, true, INT64_MAX, session_notes(t->s), &ignored, err);
    str_free(&path);
    return code;
}

static int finish(struct trainer *t, struct snug_summary *out, struct snug_err *err)
{
    TRY(ckpt_save_wait(t->saver, err));
    TRY(load_best(t, err));
    if (t->o->discard_model)
        return SNUG_OK;
    TRY(train_export(t->s, t->o->output_dir, err));
    out->exported = 1;
    return SNUG_OK;
}

static void summarize(const struct trainer *t, struct snug_summary *out)
{
    out->steps = t->state.step - t->first_step;
    out->first_step = t->first_step;
    out->seconds = training_seconds(t);
    out->data_wait_seconds = t->data_wait;
    out->samples_per_second = (double)(t->state.samples - t->first_samples) / out->seconds;
    out->tokens_per_second = (double)(t->state.tokens - t->first_tokens) / out->seconds;
    out->memory_bytes = memory_in_use(t);
    out->checkpoint_bytes = t->s->run.plan.checkpoint_bytes;
    const struct backend *b = t->s->compile.backend;
    struct backend_memory m;
    if (!b->memory)
        return;
    b->memory(b, &m);
    out->gpu = 1;
    out->before_bytes = m.before_bytes;
    out->graphs = m.recorded;
    out->graphs_bytes = m.recorded_bytes;
    out->graphs_seconds = m.recorded_seconds;
}

int train_run(struct session *s, struct train_events events, struct snug_summary *out, struct snug_err *err)
{
    struct trainer t = {.s = s, .o = s->o, .events = events, .started = seconds_now(), .log = {.fd = -1}};
    *out = (struct snug_summary){0};
    int code = start(&t, err);
    bool went_further = !code && t.state.step > t.total;
    if (!code && !went_further)
        code = loop(&t, out, err);
    if ((code == SNUG_ERR_CHECKPOINT || code == SNUG_ERR_ENV) && t.saver)
        code = device_lost(&t, code, err);
    if (went_further)
        out->first_step = t.state.step;
    else if (!code) {
        summarize(&t, out);
        code = finish(&t, out, err);
    }
    loader_close(t.loader);
    order_close(&t.order);
    metrics_close(&t.metrics);
    if (t.saver)
        ckpt_saver_free(t.saver);
    log_close(&t.log);
    output_release(s);
    return code;
}
