/* What a run reports: lines of the log, evaluations, progress. */
#include "train/trainer.h"

#include "base/machine.h"
#include "base/seconds.h"
#include "output/evaluation.h"
#include "output/own_json.h"
#include "report/report.h"
#include "train/environment.h"
#include "train/evaluation/evaluate.h"
#include "train/session/processes/distant.h"
#include "train/session/processes/processes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REPORT_SHARE = 100 }; /* at evaluations a page may take one part in so many of the time since the last */

/* Of the device if there is one, else of this process. */
int64_t trainer_memory(const struct trainer *t)
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
    return t->memory_bytes = trainer_memory(t);
}

void trainer_begin_line(const struct trainer *t, struct str *line)
{
    str_append(line, "{");
    str_printf(line, "\"step\": %lld", (long long)t->state.step);
    log_number(line, "epoch", position_epochs(&t->position, t->state.step));
}

/* A run that goes on has its event files in one folder, whatever the output folder is now. */
int trainer_open_board(struct trainer *t, struct snug_err *err)
{
    struct str dir = {0};
    double time = tensorboard_time();
    if (!options_report_to(t->o, "tensorboard") || t->state.step == t->total)
        return SNUG_OK;
    if (t->o->logging_dir)
        str_append(&dir, t->o->logging_dir);
    else {
        if (!*t->state.run_name || strchr(t->state.run_name, '/'))
            tensorboard_run_name(time, t->state.run_name);
        str_printf(&dir, "%s/runs/%s", t->o->output_dir, t->state.run_name);
    }
    int code = str_check(&dir, err);
    struct ckpt_notes notes = session_notes(t->s);
    if (!code)
        code = tensorboard_open(&t->board, t->s->output.io, dir.s, time, t->state.step ? t->state.step + 1 : -1,
                                notes.fn, notes.ctx, err);
    str_free(&dir);
    return code;
}

/* What the Trainer logs when all is done. */
void trainer_log_summary(struct trainer *t, const struct snug_summary *s)
{
    struct str line = {0};
    trainer_begin_line(t, &line);
    log_number(&line, "train_runtime", s->seconds);
    log_number(&line, "train_samples_per_second", s->samples_per_second);
    log_number(&line, "train_steps_per_second", (double)s->steps / s->seconds);
    str_append(&line, "}");
    if (!line.failed)
        tensorboard_line(&t->board, tensorboard_time(), str_text(&line));
    str_free(&line);
}

void trainer_end_line(struct trainer *t, struct str *line)
{
    str_append(line, "}\n");
    if (line->failed)
        return;
    log_line(&t->log, str_text(line));
    if (t->events.logged)
        t->events.logged(t->events.ctx, str_text(line));
}

/* A line of numbers, which the board has too. */
static void write_log(struct trainer *t, struct str *line)
{
    trainer_end_line(t, line);
    if (!line->failed)
        tensorboard_line(&t->board, tensorboard_time(), str_text(line));
}

double trainer_seconds(const struct trainer *t)
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
    TRY(state_tensors(t->s, &t->s->run, t->o->save_only_model, &tensors, &n, err));
    int code = state_to_json(t->s, &t->state, t->o->save_only_model, &doc, err);
    if (!code)
        code = ckpt_state_hash(tensors, n, doc, &hash, err);
    if (!code)
        code = distant_end(t->s, t->o->save_only_model, err);
    if (!code) {
        hash_hex(hash, hex);
        str_printf(line, ", \"state_hash\": \"%s\"", hex);
    }
    json_decref(doc);
    mem_free(tensors);
    return code;
}

/* Of a process that follows: it writes no line, but the first one's hash is of its states, too. */
int trainer_follow_log(struct trainer *t, struct snug_err *err)
{
    return t->o->log_hash ? distant_give(t->s, t->o->save_only_model, err) : SNUG_OK;
}

/* The mean loss since the line before, the norm and rate of the last step. */
int trainer_log_step(struct trainer *t, struct snug_err *err)
{
    struct str line = {0};
    double seconds = trainer_seconds(t);
    TRY(ckpt_folder_check(t->s->output.folder, err));
    trainer_begin_line(t, &line);
    log_number(&line, "loss", t->state.loss_sum / (double)(t->state.loss_steps ? t->state.loss_steps : 1));
    log_number(&line, "grad_norm", t->grad_norm);
    log_number(&line, "learning_rate", t->learning_rate);
    if (t->expert_shares[0] > 0) {
        log_number(&line, "expert_share_max", t->expert_shares[0]);
        log_number(&line, "expert_share_min", t->expert_shares[1]);
    }
    log_number(&line, "samples_per_second", (double)(t->state.samples - t->first_samples) / seconds);
    log_number(&line, "tokens_per_second", (double)(t->state.tokens - t->first_tokens) / seconds);
    log_number(&line, "data_wait", t->data_wait / seconds);
    log_number(&line, "memory", (double)trainer_memory(t));
    t->state.loss_sum = 0;
    t->state.loss_steps = 0;
    int code = t->o->log_hash ? add_state_hash(t, &line, err) : SNUG_OK;
    write_log(t, &line);
    str_free(&line);
    return code;
}

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
int trainer_evaluate(struct trainer *t, double *value, struct snug_err *err)
{
    struct eval_line e = {.wanted = t->o->metric_for_best_model, .value = NAN};
    double seconds, rows = (double)t->s->data.n_rows;
    t->metrics_step = -1;
    struct generated_rows samples = trainer_samples(t);
    if (t->s->follows) {
        TRY(evaluate(t->s, &t->metrics, NULL, &seconds, err));
        t->state.evaluated_step = t->state.step;
        TRY(trainer_answer_samples(t, err));
        return processes_share(t->s, value, sizeof *value, err);
    }
    TRY(evaluate(t->s, &t->metrics, &samples, &seconds, err));
    t->evaluating += seconds;
    t->state.evaluated_step = t->metrics_step = t->state.step;
    trainer_begin_line(t, &e.line);
    metrics_report(&t->metrics, add_metric, &e);
    log_number(&e.line, "eval_runtime", seconds);
    log_number(&e.line, "eval_samples_per_second", rows / seconds);
    write_log(t, &e.line);
    str_free(&e.line);
    *value = e.value;
    int code = trainer_answer_samples(t, err);
    trainer_report(t, false);
    if (code && code != SNUG_STOPPED) /* then the evaluation is whole, and the caller looks for signals */
        return code;
    return processes_share(t->s, value, sizeof *value, err);
}

/* A file for the page. */
static int write_own(const struct trainer *t, const char *name, const struct str *text, struct snug_err *err)
{
    const char *dir = t->o->output_dir;
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/%s", dir, name), *tmp = ckpt_temporary(&a, dir, name);
    int code = path && tmp ? SNUG_OK : err_no_memory(err, strlen(dir));
    if (!code)
        code = own_json_write(t->s->output.io, path, tmp, text, err);
    arena_free(&a);
    return code;
}

enum { ROW_TOKENS = 200 }; /* of a row that the page shows */

/* What the model has read of a row. */
static int put_row_text(void *ctx, int64_t row, struct str *out, struct snug_err *err)
{
    const struct session *s = ctx;
    const struct dataset *d = &s->data;
    int64_t first = d->offsets[row], n = d->offsets[row + 1] - first;
    if (!s->tokenizer)
        return SNUG_OK;
    TRY(tokenizer_decode(s->tokenizer, d->ids + first, (size_t)(n < ROW_TOKENS ? n : ROW_TOKENS), true, out, err));
    str_append(out, n > ROW_TOKENS ? " …" : "");
    return SNUG_OK;
}

/* What the page shows of each class and of the worst rows. */
static int write_evaluation(const struct trainer *t, struct snug_err *err)
{
    const struct metrics *m = &t->metrics;
    const struct label_map *labels = &t->s->labels;
    const char *const *names = NULL;
    struct str text = {0};
    if (t->metrics_step < 0 || !evaluation_has_parts(m))
        return SNUG_OK;
    if (m->types || labels->n == m->n_labels)
        names = m->types ? (const char *const *)m->types : (const char *const *)labels->names;
    struct row_texts texts = {.put = put_row_text, .ctx = t->s};
    int code = evaluation_text(m, names, &texts, t->metrics_step, &text, err);
    if (!code)
        code = write_own(t, EVALUATION_NAME, &text, err);
    str_free(&text);
    return code;
}

static int write_environment(const struct trainer *t, struct snug_err *err)
{
    struct str text = {0};
    int code = environment_text(t->s, &t->op_times, &text, err);
    if (!code)
        code = write_own(t, ENVIRONMENT_NAME, &text, err);
    str_free(&text);
    return code;
}

/* That the page lacks something is told once: what is in the way of its file stays there. */
static void note_lack(struct trainer *t, bool *told, const char *what, const struct snug_err *err)
{
    if (!*told)
        session_note(t->s, "the report does not show %s: %s", what, err->text);
    *told = true;
}

/* Its failure is a note: a run is not lost over a page. */
static void write_report(struct trainer *t)
{
    const char *dir = t->o->output_dir;
    struct arena a = {0};
    struct snug_err err;
    double began = seconds_now();
    char *path = arena_printf(&a, "%s/" REPORT_NAME, dir);
    char *tmp = ckpt_temporary(&a, dir, REPORT_NAME);
    int code = path && tmp ? SNUG_OK : err_no_memory(&err, strlen(dir));
    if (!code)
        code = ckpt_folder_check(t->s->output.folder, &err);
    if (!code && write_environment(t, &err))
        note_lack(t, &t->lacks_environment, "the environment", &err);
    if (!code && write_evaluation(t, &err))
        note_lack(t, &t->lacks_evaluation, "classes and mistakes", &err);
    if (!code)
        code = report_write(t->s->output.io, &dir, 1, path, tmp, &err);
    if (code)
        session_note(t->s, "no report is written: %s", err.text);
    arena_free(&a);
    t->reported = seconds_now();
    t->report_seconds = code ? INFINITY : t->reported - began; /* then it is tried once more, at the end */
}

void trainer_report(struct trainer *t, bool last)
{
    bool wanted = !t->o->no_report && !t->o->discard_model;
    if (wanted && (last || seconds_now() - t->reported >= REPORT_SHARE * t->report_seconds))
        write_report(t);
}

void trainer_progress(struct trainer *t, double loss)
{
    double seconds = trainer_seconds(t), done = (double)(t->state.step - t->first_step);
    double left = seconds / done * (double)(t->total - t->state.step);
    if (t->live)
        live_progress(t->live, t->state.step, t->total, left);
    if (!t->events.progress)
        return;
    struct snug_progress p = {.step = t->state.step,
                              .steps = t->total,
                              .epoch = position_epochs(&t->position, t->state.step),
                              .epochs = position_epochs(&t->position, t->total),
                              .loss = loss,
                              .grad_norm = t->grad_norm,
                              .learning_rate = t->learning_rate,
                              .seconds = seconds,
                              .seconds_left = left,
                              .samples_per_second = (double)(t->state.samples - t->first_samples) / seconds,
                              .tokens_per_second = (double)(t->state.tokens - t->first_tokens) / seconds,
                              .memory_bytes = recent_memory(t)};
    t->events.progress(t->events.ctx, &p);
}
