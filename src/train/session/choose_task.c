#include "train/session/choose_task.h"

#include <stdio.h>
#include <string.h>

void choose_columns(const struct options *o, struct dataset_options *p)
{
    p->text_column = o->text_column;
    p->text_pair_column = o->text_pair_column;
    p->label_column = o->label_column;
    p->target_column = o->target_column;
    p->delimiter = o->delimiter;
    p->ignore_label = o->ignore_label;
}

const char *deciding_path(const struct options *o)
{
    return o->train_data.first ? o->train_data.first : o->data ? o->data : o->eval_data.first;
}

/* The first task that the architecture has of a language model's, or of those with a prediction per row. */
static enum model_task first_task(const struct session *s, bool language)
{
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (model_has_task(&s->model, (enum model_task)t) && model_tasks[t].tied == language &&
            model_tasks[t].per_token == language)
            return (enum model_task)t;
    return MODEL_AUTO;
}

/* The task whose labels the data show, where only one task has such. */
static enum model_task task_of_labels(const struct session *s)
{
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (!model_tasks[t].tied && model_tasks[t].labels != TASK_AUTO && model_tasks[t].labels == s->look.labels &&
            model_has_task(&s->model, (enum model_task)t))
            return (enum model_task)t;
    return MODEL_AUTO;
}

/* The task that writes text, where the architecture has one. */
static enum model_task task_of_text(const struct session *s)
{
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (model_tasks[t].generates && model_has_task(&s->model, (enum model_task)t))
            return (enum model_task)t;
    return MODEL_AUTO;
}

static bool fits_options(const struct session *s, enum model_task t)
{
    return options_idle(s->o, OPTION_task, model_task_names[t]) < 0;
}

/* Whether it is for sources and targets, unless labels speak against it. */
static bool makes_targets(const struct session *s)
{
    enum model_task stated = s->model.task;
    return model_has_task(&s->model, MODEL_SEQ2SEQ_LM) && (!stated || model_tasks[stated].labels == TASK_SEQ2SEQ);
}

/* Tags of words are for one task alone. Else what the folder's own head is for stands, unless that is a language model's and
 * there is something to say about rows: labels, or a prediction. A bare base model is for rows first. An encoder-decoder is for
 * targets, unless there are labels. Then options that are of no use to that task, but all to another one, are a wish for it. */
static enum model_task wanted_task(const struct session *s)
{
    if (s->o->command == CMD_GENERATE)
        return task_of_text(s);
    enum model_task stated = s->model.task, rows = first_task(s, false), t = stated;
    if (task_of_labels(s))
        return task_of_labels(s);
    if (stated && !model_tasks[stated].tied &&
        (model_tasks[stated].labels == TASK_AUTO || s->look.labels == TASK_UNLABELED))
        return stated;
    bool asks = !makes_targets(s) && (!stated || s->o->command == CMD_PREDICT);
    if (rows && (asks || s->look.labels != TASK_UNLABELED))
        t = rows;
    if (!t)
        t = first_task(s, true);
    for (int other = MODEL_AUTO + 1; other < MODEL_COUNT && !fits_options(s, t); other++)
        if (model_has_task(&s->model, (enum model_task)other) && fits_options(s, (enum model_task)other))
            t = (enum model_task)other;
    return t;
}

/* What only another task has a use for. Where --task is given, options_check has said so. */
static int check_options(const struct session *s, struct snug_err *err)
{
    char flag[OPTION_NAME_MAX];
    const struct options *o = s->o;
    int idle = options_idle(o, OPTION_task, model_task_names[s->model.task]);
    if (idle >= 0)
        return err_set(err, SNUG_ERR_USAGE, "%s: no effect on %s; leave it out, or give another --task",
                       option_flag(option_rows[idle].name, flag), model_class(&s->model));
    if (o->num_labels && !s->head_is_new && o->num_labels != s->model.num_labels)
        return err_set(err, SNUG_ERR_USAGE,
                       "--num-labels %lld: the model's trained head has %lld; leave it out, or give "
                       "--ignore-mismatched-sizes for a new head",
                       (long long)o->num_labels, (long long)s->model.num_labels);
    return SNUG_OK;
}

static bool finds_head(const struct session *s)
{
    const char *weight = model_head_weight(&s->model);
    return !weight || weights_find(&s->dir, &s->model, weight) || session_adapter_tensor(s, weight);
}

static int check_head(const struct session *s, enum model_task stated, struct snug_err *err)
{
    const struct options *o = s->o;
    const char *weight = model_head_weight(&s->model);
    if (!s->head_is_new || !(o->command & (CMD_EVAL | CMD_PREDICT | CMD_GENERATE)) || o->allow_new_head ||
        o->init_from_config)
        return SNUG_OK;
    bool other = o->command == CMD_EVAL && stated && stated != s->model.task;
    if (o->command == CMD_PREDICT && model_tasks[stated].generates)
        return err_set(
            err, SNUG_ERR_USAGE,
            "%s: a language model without a trained head for labels; 'snug generate' writes its text, and data with "
            "labels train a head (--allow-new-head predicts with a random one)",
            o->model);
    return err_set(
        err, SNUG_ERR_USAGE,
        "%s: the head of %s was never trained, %s is not there; train it first%s%s, or give --allow-new-head", o->model,
        model_class(&s->model), weight, other ? ", give --task " : "", other ? model_task_names[stated] : "");
}

/* Labels that nobody learns are always said; prediction has no use for any. */
static void note_choice(const struct session *s, enum model_task stated)
{
    const char *path = deciding_path(s->o), *name = model_task_names[s->model.task], *kind = "";
    bool found = !s->model.problem && s->head_is_new; /* the labels decide on the problem */
    if (found && task_problem(s->look.labels) > PROBLEM_SINGLE_LABEL)
        kind = model_problem_names[task_problem(s->look.labels)];
    if (s->o->command & (CMD_PREDICT | CMD_GENERATE))
        return;
    if (model_task(&s->model)->tied && !s->look.column[0] && s->look.others[0] && first_task(s, false))
        session_note(s,
                     "%s: %s uses the texts, not the columns: %s; name the one that holds labels with --label-column",
                     path, name, s->look.others);
    if (!s->look.column[0])
        return;
    bool learnable =
        first_task(s, false) && s->look.labels != TASK_UNLABELED; /* beside conversations there is no text */
    char where[sizeof s->look.column + 8] = "";                   /* where it was guessed, reading says it */
    if (!s->look.guessed)
        snprintf(where, sizeof where, " in '%s'", s->look.column);
    if (model_task(&s->model)->labels == TASK_SEQ2SEQ) /* which of the columns are its, reading says */
        return;
    if (model_task(&s->model)->tied)
        session_note(s, "%s: the labels in '%s' are not used by %s%s%s", path, s->look.column, name,
                     learnable ? "; to learn them give --task " : "",
                     learnable ? model_task_names[first_task(s, false)] : "");
    else if (stated != s->model.task && stated && !s->o->task)
        session_note(s, "%s: has labels%s, so the task is %s (%s%s%s)%s; --task %s %s", path, where, name,
                     model_class(&s->model), *kind ? ", " : "", kind, s->head_is_new ? " with a new head" : "",
                     model_task_names[stated],
                     model_tasks[stated].labels == TASK_SEQ2SEQ ? "is for sources and targets" : "leaves them out");
    else if (*kind)
        session_note(s, "%s: the labels%s show the problem type: %s", path, where, kind);
}

void choose_new_head(struct session *s)
{
    s->head_replaced = !s->head_is_new;
    s->head_is_new = true;
    s->model.problem = (enum problem)s->o->problem_type;
    label_map_free(&s->labels);
}

/* The head in the folder is of another task, which calls its weight the same. */
static bool is_another_tasks(const struct session *s, enum model_task stated)
{
    const char *own = model_head_weight(&s->model), *other = stated ? s->model.arch->heads[stated].weight : NULL;
    return stated && stated != s->model.task && own && other && !strcmp(own, other);
}

/* Rows of questions are looked for where the model can answer them, and nobody has said that they are texts. */
static bool may_be_questions(const struct session *s)
{
    enum model_task asked = (enum model_task)s->o->task;
    if (s->o->text_column || (asked && model_tasks[asked].labels != TASK_SPAN))
        return false;
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (model_tasks[t].labels == TASK_SPAN && model_has_task(&s->model, (enum model_task)t))
            return true;
    return false;
}

/* Not where a model that makes targets of sources finds such. */
static bool may_have_labels(const struct session *s, const struct dataset_options *columns)
{
    return !makes_targets(s) || (first_task(s, false) && !dataset_has_targets(s->io, columns));
}

/* What is neither labels nor targets, reading targets says. */
static int look_at_labels(struct session *s, const struct dataset_options *columns, struct snug_err *err)
{
    struct snug_err why;
    int code = dataset_look(s->io, columns, &s->look, &why);
    if (!code || makes_targets(s))
        return SNUG_OK;
    return err_set(err, code, "%s", why.text);
}

int choose_task(struct session *s, struct snug_err *err)
{
    enum model_task stated = s->model.task;
    const char *path = s->o->command == CMD_GENERATE ? NULL : deciding_path(s->o);
    struct dataset_options columns = {.path = path};
    choose_columns(s->o, &columns);
    if (may_be_questions(s))
        columns.questions = &s->questions;
    s->look = (struct dataset_look){.labels = TASK_UNLABELED};
    if (path && s->o->command != CMD_PREDICT && may_have_labels(s, &columns))
        TRY(look_at_labels(s, &columns, err));
    if (s->o->command == CMD_GENERATE && !task_of_text(s))
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: a %s model generates no text; give a causal language model or an encoder-decoder",
                       s->o->model, s->model.arch->model_type);
    TRY(model_set_task(&s->model, s->o->task ? (enum model_task)s->o->task : wanted_task(s), s->dir.config_path, err));
    if (s->o->problem_type)
        s->model.problem = (enum problem)s->o->problem_type;
    s->head_is_new = !finds_head(s);
    if (!s->head_is_new && is_another_tasks(s, stated))
        choose_new_head(s);
    if (s->o->ignore_mismatched_sizes && s->o->num_labels && s->o->num_labels != s->model.num_labels)
        choose_new_head(s);
    TRY(check_options(s, err));
    TRY(check_head(s, stated, err));
    note_choice(s, stated);
    return SNUG_OK;
}
