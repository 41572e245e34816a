#include "train/trainer.h"

#include "base/seconds.h"
#include "train/evaluation/evaluate.h"
#include "train/output_dir.h"
#include "train/rate_search.h"
#include "train/session/batches.h"
#include "train/session/processes/distant.h"
#include "train/session/processes/processes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int64_t train_step_rows(const struct options *o)
{
    return o->per_device_train_batch_size * o->gradient_accumulation_steps * o->ranks;
}

int64_t train_drop_below(const struct options *o)
{
    return o->dataloader_drop_last ? o->per_device_train_batch_size * o->ranks : 0;
}

struct position train_position(const struct session *s, const struct origin *from)
{
    const struct options *o = s->o;
    return (struct position){.n_rows = s->train.n_rows,
                             .step_rows = train_step_rows(o),
                             .drop_below = train_drop_below(o),
                             .from = from ? *from : (struct origin){0}};
}

int64_t train_total(const struct session *s, const struct position *p)
{
    return s->o->max_steps > 0 ? s->o->max_steps : position_total(p, s->o->num_train_epochs);
}

void train_steps(const struct session *s, int64_t *total, int64_t *per_epoch)
{
    struct position p = train_position(s, NULL);
    *per_epoch = position_steps_per_epoch(&p);
    *total = train_total(s, &p);
}

int64_t train_evaluations(const struct session *s, int64_t total)
{
    struct position p = train_position(s, NULL);
    return s->has_data ? due_evaluations(s->o, &p, total) : 0;
}

struct moment trainer_moment(const struct trainer *t, bool ends_epoch)
{
    return (struct moment){.step = t->state.step, .total = t->total, .ends_epoch = ends_epoch};
}

/* ---- starting ---- */

int train_open_order(const struct session *s, int64_t step_rows, struct order *order, struct snug_err *err)
{
    uint64_t seed = option_given(s->o, data_seed) ? s->o->data_seed : s->o->seed;
    return order_open(order, (enum order_kind)s->o->train_sampling_strategy, s->train.n_rows, seed, s->train.offsets,
                      step_rows, err);
}

int train_open_loader(struct session *s, const struct origin *from, int64_t first, int64_t total, struct order *order,
                      struct loader **loader, struct snug_err *err)
{
    const struct options *o = s->o;
    int64_t rows = train_step_rows(o);
    TRY(train_open_order(s, from && from->order_rows ? from->order_rows : rows, order, err));
    struct loader_options l = {.data = &s->train,
                               .order = order,
                               .batch_size = (int32_t)s->micro_rows,
                               .accumulation = (int32_t)(s->micro_batches * o->ranks),
                               .ranks = (int32_t)o->ranks,
                               .max_tokens = o->max_tokens_per_batch,
                               .drop_below = train_drop_below(o),
                               .start_step = first,
                               .from_step = from ? from->step : 0,
                               .from_epoch = from ? from->epoch : 0,
                               .from_row = from ? from->row : 0,
                               .end_step = total,
                               .seed = o->seed,
                               .masking = batches_masking(s)};
    return loader_open(&l, loader, err);
}

/* Whether each word of what was typed is in the name, as those of f1_weighted are in weighted_f1; the beginning of one will
 * do. */
static bool has_words(const char *name, const char *typed)
{
    while (*typed) {
        size_t n = strcspn(typed, "_- ");
        const char *word = name;
        while (word && strncasecmp(word, typed, n) != 0)
            word = (word = strchr(word, '_')) ? word + 1 : NULL;
        if (!word || !n)
            return false;
        typed += n + (typed[n] != 0);
    }
    return true;
}

/* The metric that was meant, or NULL; and the names that there are, for a message. */
static const char *list_metrics(const struct metrics_setup *setup, const char *typed, struct str *names)
{
    const struct metric *row;
    const char *meant = NULL;
    typed += strncmp(typed, "eval_", 5) == 0 ? 5 : 0;
    for (int i = 0; (row = metric_at(setup->kind, setup->width, i)); i++) {
        str_printf(names, "%s%s", i ? ", " : "", row->name);
        if (!meant && has_words(row->name, typed))
            meant = row->name;
    }
    return meant;
}

/* Known before the first step: a run is not lost over a misspelt name. */
static int check_best_metric(const struct trainer *t, struct snug_err *err)
{
    const char *wanted = t->o->metric_for_best_model;
    struct metrics_setup setup = evaluate_setup(t->s);
    const struct metric *row;
    if (!wanted || !t->s->has_data)
        return SNUG_OK;
    for (int i = 0; (row = metric_at(setup.kind, setup.width, i)); i++)
        if (!strcmp(wanted, row->name) || (!strncmp(wanted, "eval_", 5) && !strcmp(wanted + 5, row->name)))
            return SNUG_OK;
    struct str names = {0};
    const char *meant = list_metrics(&setup, wanted, &names);
    int code =
        meant ? err_set(err, SNUG_ERR_USAGE, "--metric-for-best-model %s: is unknown; did you mean %s?", wanted, meant)
              : err_set(err, SNUG_ERR_USAGE, "--metric-for-best-model %s: is not one of %s", wanted, str_text(&names));
    str_free(&names);
    return code;
}

/* How long the run is, which also depends on where it is resumed. */
static void settle_length(struct trainer *t)
{
    t->position = train_position(t->s, &t->state.origin);
    t->total = train_total(t->s, &t->position);
    t->schedule = schedule_of(t->o, t->total);
    t->averaging = average_rule_of(t->o, t->total);
}

/* The files of the run. */
static int open_files(struct trainer *t, struct snug_err *err)
{
    TRY(ckpt_folder_check(t->s->output.folder, err));
    struct ckpt_notes notes = session_notes(t->s);
    TRY(log_open(&t->log, t->s->output.io, t->o->output_dir, t->s->output_use == CKPT_RESUME ? t->state.log_bytes : 0,
                 notes.fn, notes.ctx, err));
    TRY(trainer_open_board(t, err));
    struct ckpt_config c = {.io = t->s->output.io,
                            .folder = t->s->output.folder,
                            .output_dir = t->o->output_dir,
                            .synced_file = LOG_NAME,
                            .total_limit = t->o->save_total_limit,
                            .stop = t->s->stop,
                            .notes = notes};
    return ckpt_saver_new(&c, &t->saver, err);
}

/* Before anything changes: a run that cannot be looked at as asked is refused. */
static int open_live(struct trainer *t, struct snug_err *err)
{
    if (!t->o->live || t->s->follows)
        return SNUG_OK;
    TRY(live_open(t->s->output.io, t->o->output_dir, (int)t->o->live_port, &t->live, err));
    session_note(t->s, "the page of this run: %s", live_address(t->live));
    return SNUG_OK;
}

/* A run of several processes begins only where all are at the same point of the same run. */
static int compare_processes(struct trainer *t, struct snug_err *err)
{
    json_t *doc = NULL;
    bool stop = false;
    if (!t->s->processes)
        return SNUG_OK;
    int code = state_to_json(t->s, &t->state, false, &doc, err);
    if (!code)
        code = processes_compare(t->s, doc, err);
    json_decref(doc);
    return code ? code : processes_share(t->s, &stop, sizeof stop, err);
}

static int start(struct trainer *t, struct snug_err *err)
{
    t->state.best_step = t->state.evaluated_step = -1;
    t->saved_step = t->metrics_step = -1;
    settle_length(t);
    plateau_start(&t->state.plateau, &t->schedule);
    TRY(check_best_metric(t, err));
    if (t->s->has_data)
        TRY(evaluate_metrics(t->s, &t->metrics, err));
    if (!t->s->follows)
        TRY(output_dir_claim(t->s, err));
    if (!t->s->processes) {
        TRY(session_alloc(t->s, err));
        TRY(team_open(t->s, err));
    }
    TRY(session_load(t->s, err));
    if (output_dir_resumes(t->o))
        TRY(state_resume(t->s, output_dir_resume_source(t->o), output_dir_resume_auto(t->o) ? CKPT_AUTO : 0, false,
                         session_notes(t->s), &t->state, err));
    settle_length(t);
    if (t->state.step > t->total)
        return SNUG_OK;
    if (stopping_is_due(&t->state.stopping, t->o))
        t->total = t->state.step;
    if (!t->o->lr_find && !t->s->follows)
        TRY(output_dir_ready(t->s, t->state.step, err));
    if (trainer_has_step(t, t->state.step))
        t->saved_step = t->state.step;
    if (t->state.best_step >= 0 && !trainer_has_step(t, t->state.best_step))
        t->state.best_step = -1;
    TRY(processes_share(t->s, &t->saved_step, sizeof t->saved_step, err)); /* of the first one's folder */
    TRY(processes_share(t->s, &t->state.best_step, sizeof t->state.best_step, err));
    t->first_step = t->state.step, t->first_samples = t->state.samples, t->first_tokens = t->state.tokens;
    if (t->state.step < t->total)
        TRY(train_open_loader(t->s, &t->state.origin, t->state.step, t->total, &t->order, &t->loader, err));
    TRY(compare_processes(t, err));
    TRY(team_open(t->s, err));
    TRY(team_share(t->s, err));
    return t->purpose->start(t, err);
}

/* ---- the loop ---- */

enum { TIMED_STEPS = 10 }; /* op by op, behind the first, which is slower */

static double scheduled_rate(const struct trainer *t)
{
    return schedule_follows_metric(t->o) ? t->state.plateau.rate : schedule_rate(&t->schedule, t->state.updates);
}

static bool evaluation_due(const struct trainer *t, bool ends_epoch)
{
    struct moment now = trainer_moment(t, ends_epoch);
    return t->s->has_data && due_evaluation(t->o, &t->position, &now);
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

/* `asked`: when the window was. `loss`: of the step. */
static int one_step(struct trainer *t, const struct window *w, double asked, double *loss, struct snug_err *err)
{
    struct step_result r;
    t->learning_rate = t->purpose->rate(t);
    struct average_step average =
        average_next(&t->averaging, &t->state.average, t->learning_rate, t->state.updates + 1);
    struct step_inputs in = {.step = t->state.step,
                             .update = t->state.updates + 1,
                             .learning_rate = average.rate,
                             .average = average.share,
                             .n = stepper_targets(&t->s->stepper, w),
                             .scaled = precision_scales(&t->s->compile.precision)};
    bool timed = t->state.step > t->first_step && t->op_times.steps < TIMED_STEPS;
    t->s->run.times = timed ? &t->op_times : NULL;
    t->op_times.steps += timed;
    TRY(team_step(t->s, w, &in, &r, err));
    t->s->run.times = NULL;
    if (!r.finite && !(in.scaled && isfinite(r.loss)))
        TRY(t->purpose->not_finite(t, &r, err));
    t->data_wait += r.sent - asked;
    t->grad_norm = r.grad_norm;
    memcpy(t->expert_shares, r.expert_shares, sizeof t->expert_shares);
    t->state.updates += r.finite;
    t->state.average = r.finite ? average.after : t->state.average;
    t->state.step++;
    t->state.samples += w->n_samples;
    t->state.tokens += w->n_tokens;
    t->state.loss_sum += r.loss;
    t->state.loss_steps++;
    trainer_progress(t, r.loss);
    *loss = r.loss;
    return SNUG_OK;
}

/* What an evaluation decides: the rate of the next update, and whether this step is the last. */
static void go_by(struct trainer *t, double value)
{
    plateau_step(&t->state.plateau, &t->schedule, value);
    stopping_count(&t->state.stopping, t->o, value);
    if (!stopping_is_due(&t->state.stopping, t->o) || t->state.step == t->total)
        return;
    t->total = t->state.step;
    session_note(t->s, "stopped early, after step %lld: no better %s than %g in %lld evaluation%s",
                 (long long)t->state.step, t->o->metric_for_best_model, t->state.stopping.best,
                 (long long)t->state.stopping.failed, t->state.stopping.failed == 1 ? "" : "s");
}

static int evaluate_and_save(struct trainer *t, bool ends_epoch, struct snug_err *err)
{
    double value = NAN;
    bool due = evaluation_due(t, ends_epoch);
    int code = due ? trainer_evaluate(t, &value, err) : SNUG_OK;
    if (code != SNUG_STOPPED)
        TRY(code);
    if (due && !code)
        go_by(t, value);
    trainer_keep_best(t, value, ends_epoch);
    if (processes_stop(t->s))
        return trainer_stop(t, err);
    return trainer_save_due(t, ends_epoch) && t->saved_step != t->state.step ? trainer_save(t, false, err) : SNUG_OK;
}

static bool log_is_due(const struct trainer *t, bool ends_epoch)
{
    struct moment now = trainer_moment(t, ends_epoch);
    bool first = t->o->logging_first_step && t->state.step == 1, last = t->state.step == t->total;
    return first || last || due(t->o->logging_strategy, t->o->logging_steps, &now);
}

/* What is due at a step boundary, in the Trainer's order: log, evaluate, save. After the last step everything is, so
 * that its checkpoint lacks nothing but the exported folder. */
static int after_step(struct trainer *t, double loss, bool ends_epoch, struct snug_err *err)
{
    (void)loss;
    if (log_is_due(t, ends_epoch))
        TRY(trainer_log_step(t, err));
    return evaluate_and_save(t, ends_epoch, err);
}

/* Before the first step there is nothing to save, so this one is never the best. */
static int evaluate_at_start(struct trainer *t, struct snug_err *err)
{
    double value;
    int code = trainer_evaluate(t, &value, err);
    return code == SNUG_STOPPED ? trainer_stop(t, err) : code;
}

/* An evaluation that was due at the step of the checkpoint, and that a signal cut short. */
static int catch_up(struct trainer *t, struct snug_err *err)
{
    bool ends_epoch = position_ends_epoch(&t->position, t->state.step);
    bool missed = t->state.step > 0 && t->state.evaluated_step != t->state.step && evaluation_due(t, ends_epoch);
    return missed ? evaluate_and_save(t, ends_epoch, err) : SNUG_OK;
}

/* A run in which every update was skipped leaves the model as it was, which is no result. */
static int check_learned(const struct trainer *t, struct snug_err *err)
{
    if (t->state.step == 0 || t->state.updates > 0)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_NUMERIC,
                   "all %lld updates were skipped, so nothing is learned; lower --learning-rate, or check the data and "
                   "weights",
                   (long long)t->state.step);
}

static int loop(struct trainer *t, struct snug_summary *out, struct snug_err *err)
{
    const struct window *w;
    if (t->events.started && t->state.step < t->total)
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
        if (processes_stop(t->s))
            return t->purpose->stop(t, err);
        bool ends_epoch = w->ends_epoch;
        double loss;
        TRY(one_step(t, w, asked, &loss, err));
        if (!out->first_step_seconds)
            out->first_step_seconds = seconds_now() - t->started;
        TRY(t->purpose->after_step(t, loss, ends_epoch, err));
    }
    return SNUG_OK;
}

/* ---- finishing ---- */

/* The weights of the result, of all processes that have some alone: what is saved can be read when the first one is here. */
static int load_result(struct trainer *t, struct snug_err *err)
{
    bool saved = true;
    if (distant_are(t->s, true))
        TRY(processes_share(t->s, &saved, sizeof saved, err));
    return trainer_load_best(t, err);
}

static int finish(struct trainer *t, struct snug_summary *out, struct snug_err *err)
{
    TRY(check_learned(t, err));
    trainer_log_summary(t, out);
    log_flush(&t->log);
    TRY(ckpt_save_wait(t->saver, err));
    TRY(ckpt_folder_check(t->s->output.folder, err));
    ckpt_saver_retain(t->saver, t->state.step, t->state.best_step);
    TRY(load_result(t, err));
    if (t->o->discard_model)
        return SNUG_OK;
    TRY(ckpt_folder_check(t->s->output.folder, err));
    TRY(train_export(t->s, t->s->output.io, t->o->output_dir, trainer_result_step(t), err));
    TRY(distant_end(t->s, true, err));
    TRY(ckpt_folder_check(t->s->output.folder, err)); /* it lies where the summary says */
    out->exported = 1;
    trainer_report(t, true);
    return SNUG_OK;
}

static const struct purpose learning = {open_files, scheduled_rate, not_finite, after_step, trainer_stop, finish};

/* ---- following: a process beside the first one, which writes nothing ---- */

static int follow_start(struct trainer *t, struct snug_err *err)
{
    (void)t, (void)err;
    return SNUG_OK;
}

static int follow_step(struct trainer *t, double loss, bool ends_epoch, struct snug_err *err)
{
    (void)loss;
    if (log_is_due(t, ends_epoch))
        TRY(trainer_follow_log(t, err));
    return evaluate_and_save(t, ends_epoch, err);
}

static int follow_finish(struct trainer *t, struct snug_summary *out, struct snug_err *err)
{
    (void)out;
    TRY(check_learned(t, err));
    if (!distant_are(t->s, true))
        return SNUG_OK;
    TRY(load_result(t, err));
    return t->o->discard_model ? SNUG_OK : distant_give(t->s, true, err);
}

static const struct purpose following = {follow_start, scheduled_rate, not_finite,
                                         follow_step,  trainer_stop,   follow_finish};

static void summarize(const struct trainer *t, struct snug_summary *out)
{
    out->steps = t->state.step - t->first_step;
    out->first_step = t->first_step;
    out->seconds = trainer_seconds(t);
    out->data_wait_seconds = t->data_wait;
    out->samples_per_second = (double)(t->state.samples - t->first_samples) / out->seconds;
    out->tokens_per_second = (double)(t->state.tokens - t->first_tokens) / out->seconds;
    out->memory_bytes = trainer_memory(t);
    out->host_bytes = t->s->run.plan.host_bytes;
    out->disk_bytes = t->s->run.plan.disk_bytes;
    out->checkpoint_bytes = t->s->run.plan.checkpoint_bytes;
    const struct backend *b = t->s->compile.backend;
    struct backend_memory m;
    if (!b->memory)
        return;
    b->memory(b, &m);
    out->gpu = 1;
    out->before_bytes = m.before_bytes;
    out->connected_bytes = m.connected_bytes;
    out->graphs = m.recorded;
    out->graphs_bytes = m.recorded_bytes;
    out->graphs_seconds = m.recorded_seconds;
}

int train_run(struct session *s, struct train_events events, struct snug_summary *out, struct snug_err *err)
{
    struct trainer t = {.purpose = s->follows      ? &following
                                   : s->o->lr_find ? &rate_search
                                                   : &learning,
                        .s = s,
                        .o = s->o,
                        .events = events,
                        .started = seconds_now(),
                        .log = {.fd = -1},
                        .board = {.fd = -1}};
    *out = (struct snug_summary){0};
    int code = open_live(&t, err);
    if (!code)
        code = start(&t, err);
    bool went_further = !code && t.state.step > t.total;
    if (!code && !went_further)
        code = loop(&t, out, err);
    if ((code == SNUG_ERR_CHECKPOINT || code == SNUG_ERR_ENV || code == SNUG_ERR_PEER) && t.saver)
        code = trainer_device_lost(&t, code, err);
    if (went_further)
        out->first_step = t.state.step;
    else if (!code) {
        summarize(&t, out);
        code = t.purpose->finish(&t, out, err);
        out->log_lines_missing = t.log.missing;
    }
    live_close(t.live, !code);
    if (code == SNUG_ERR_IO)
        ckpt_folder_check(s->output.folder, err); /* where the folder has gone, that is what to say */
    team_close(s);
    s->loaded &= s->compile.ranks == 1 || s->compile.zero_stage < 3; /* those of other ranks have gone with them */
    loader_close(t.loader);
    order_close(&t.order);
    metrics_close(&t.metrics);
    mem_free(t.rates);
    if (t.saver)
        ckpt_saver_free(t.saver);
    log_close(&t.log);
    tensorboard_close(&t.board);
    output_dir_release(s);
    return processes_end(s, code, err);
}
