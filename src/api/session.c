/* Sessions: the functions of snug.h that open, run and save, each a few lines over the engine. */
#include "snug/snug.h"

#include "api/handles.h"
#include "plan/report.h"
#include "train/evaluation/evaluate.h"
#include "train/evaluation/predict.h"
#include "train/generate/generate.h"
#include "train/own_loop.h"
#include "train/session/describe.h"
#include "train/session/processes/processes.h"
#include "train/session/prompts.h"
#include "train/team.h"
#include "train/train.h"

struct snug_session {
    struct session s;
    struct snug_events events;
    bool trained;           /* or tried to */
    struct metrics metrics; /* of the last snug_evaluate */
    bool evaluated;
    struct own_loop loop;
};

int snug_open(snug_options *o, enum snug_use use, const struct snug_events *events, snug_session **out,
              struct snug_err *err)
{
    *out = NULL;
    TRY(options_read_deepspeed(&o->o, &io_posix, err));
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
    own_loop_close(&s->loop);
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
    return describe_weights(&s->s);
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
    return describe_forecast(&s->s);
}

int snug_plan_summary(const snug_session *s, char **text, struct snug_err *err)
{
    struct str out = {0};
    describe_plan(&s->s, &out);
    return hand_out(&out, text, err);
}

int snug_plan_text(const snug_session *s, char **text, struct snug_err *err)
{
    struct str out = {0};
    plan_report_text(&s->s.run.plan, &out);
    return hand_out(&out, text, err);
}

int snug_plan_anatomy(const snug_session *s, char **text, struct snug_err *err)
{
    struct str out = {0};
    plan_anatomy_text(&s->s.run.plan, &out);
    return hand_out(&out, text, err);
}

int snug_plan_picture(const snug_session *s, char **svg, struct snug_err *err)
{
    struct str out = {0}, title = {0};
    describe_title(&s->s, &title);
    out.failed = title.failed;
    plan_picture(&s->s.run.plan, str_text(&title), &out);
    str_free(&title);
    return hand_out(&out, svg, err);
}

int snug_plan_json(const snug_session *s, char **text, struct snug_err *err)
{
    struct str out = {0};
    describe_plan_json(&s->s, &out);
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
    int code = processes_compare(&s->s, NULL, err);
    if (!code)
        code = team_open(&s->s, err);
    if (!code)
        code = team_share(&s->s, err);
    if (!code)
        code = evaluate(&s->s, &s->metrics, NULL, &seconds, err);
    team_close(&s->s);
    TRY(processes_end(&s->s, code, err));
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

int64_t snug_evaluated_labels(const snug_session *s)
{
    return !s->evaluated ? 0 : s->metrics.types ? s->metrics.n_labels : snug_num_labels(s);
}

const char *snug_evaluated_name(const snug_session *s, int64_t id)
{
    if (id < 0 || id >= snug_evaluated_labels(s))
        return NULL;
    return s->metrics.types ? s->metrics.types[id] : snug_label(s, id);
}

int snug_evaluated_label(const snug_session *s, int64_t id, void (*metric)(void *ctx, const char *name, double value),
                         void *ctx, struct snug_err *err)
{
    TRY(check_evaluated(s, err));
    if (id < 0 || id >= snug_evaluated_labels(s))
        return err_set(err, SNUG_ERR_USAGE, "label %lld: there are %lld, numbered from 0", (long long)id,
                       (long long)snug_evaluated_labels(s));
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
    if (model_task(c)->tied && !prompts_are_predicted(&s->s))
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: %s gives no prediction per row; use a model for sequence or token classification",
                       s->s.o->model, model_class(c));
    if (!s->s.has_data && !s->s.stream)
        return err_set(err, SNUG_ERR_USAGE,
                       "there is no data to predict; set the option data, or open another session");
    TRY(session_load(&s->s, err));
    return predict_run(&s->s, row, ctx, err);
}

int snug_generate(snug_session *s, int (*piece)(void *ctx, const struct snug_piece *p), void *ctx, struct snug_err *err)
{
    if (s->s.o->command != CMD_GENERATE)
        return err_set(err, SNUG_ERR_USAGE, "there are no prompts; open a session with the options of generate");
    generate_describe(&s->s);
    TRY(session_load(&s->s, err));
    return generate_run(&s->s, piece, ctx, err);
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
    return model_task(&s->s.model)->classes ? s->s.model.num_labels : 0;
}

int64_t snug_words(const snug_session *s)
{
    return model_task(&s->s.model)->labels == TASK_TOKEN_CLASS ? s->s.row_words : -1;
}

const char *snug_word(const snug_session *s, int64_t word)
{
    bool known = s->s.stream && word >= 0 && word < snug_words(s);
    return known ? row_stream_word(s->s.stream, s->s.row, word) : NULL;
}

const char *snug_text(const snug_session *s)
{
    return !prompts_are_predicted(&s->s) ? NULL : s->s.row_text ? s->s.row_text : "";
}

int snug_answers(const snug_session *s)
{
    return model_task(&s->s.model)->labels == TASK_SPAN ? s->s.n_answers : -1;
}

struct snug_answer snug_answer(const snug_session *s, int i)
{
    if (i < 0 || i >= s->s.n_answers)
        return (struct snug_answer){.text = ""};
    const struct answer *a = &s->s.answers[i];
    return (struct snug_answer){.text = a->text, .bytes = a->bytes, .probability = a->probability};
}

const char *snug_question(const snug_session *s)
{
    return s->s.n_answers ? s->s.data.questions->list[s->s.row].text : NULL;
}

const char *snug_question_id(const snug_session *s)
{
    return s->s.n_answers ? s->s.data.questions->list[s->s.row].id : NULL;
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

int snug_next(snug_session *s, struct snug_window *w, struct snug_err *err)
{
    return own_loop_next(&s->loop, &s->s, w, err);
}

int snug_forward_backward(snug_session *s, int i, double *loss, struct snug_err *err)
{
    return own_loop_forward_backward(&s->loop, &s->s, i, loss, err);
}

int snug_update(snug_session *s, double learning_rate, double *grad_norm, struct snug_err *err)
{
    return own_loop_update(&s->loop, &s->s, learning_rate, grad_norm, err);
}

/* ---- results ---- */

int snug_save(snug_session *s, const char *dir, struct snug_err *err)
{
    if (!s->s.loaded || !s->s.run.arenas.of[MEMORY_DEVICE])
        return err_set(err, SNUG_ERR_USAGE, "%s: there is nothing to save; load or train first", dir);
    TRY(io_make_dirs(s->s.io, dir, err));
    return train_export(&s->s, s->s.io, dir, -1, err);
}
