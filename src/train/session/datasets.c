#include "train/session/datasets.h"

#include "data/split.h"
#include "train/session/batches.h"
#include "train/session/chat.h"
#include "train/session/choose_task.h"
#include "train/session/class_names.h"
#include "train/session/model_folder.h"
#include "train/session/prompts.h"
#include "train/session/stream.h"
#include "train/train.h"

#include <string.h>

static enum data_task wanted_labels(const struct session *s)
{
    if (s->o->command == CMD_PREDICT)
        return TASK_UNLABELED;
    enum data_task labels = task_labels(s->model.task, s->model.problem);
    if (labels != TASK_AUTO)
        return labels;
    if (s->head_is_new)
        return s->look.labels == TASK_UNLABELED ? TASK_AUTO : s->look.labels;
    return s->model.num_labels == 1 ? TASK_REGRESSION : TASK_AUTO; /* as transformers has it */
}

/* How many labels the data must have: those of the names, of a trained head, or what the user says; 0: as many as it
 * has. */
static int32_t wanted_number(const struct session *s, const struct label_map *labels)
{
    if (labels && labels->n)
        return labels->n;
    if (model_task(&s->model)->classes && !s->head_is_new)
        return (int32_t)s->model.num_labels;
    return (int32_t)s->o->num_labels;
}

int datasets_check_ids(const struct model_config *m, const struct dataset *d, const char *path, struct snug_err *err)
{
    if (d->max_id >= m->vocab_size)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: token id %d is not below vocab_size %lld; use the model's own tokenizer", path, d->max_id,
                       (long long)m->vocab_size);
    if (m->type_vocab_size && d->max_type >= m->type_vocab_size)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: token type %d is not below type_vocab_size %lld; use data and a tokenizer of this model",
                       path, d->max_type, (long long)m->type_vocab_size);
    return SNUG_OK;
}

struct dataset_options datasets_options(struct session *s, struct opt_paths paths, const struct label_map *labels)
{
    const struct options *o = s->o;
    s->questions = (struct question_options){.doc_stride = option_given(o, doc_stride) ? o->doc_stride : -1,
                                             .texts = o->text.items,
                                             .contexts = o->text_pair.items,
                                             .n_texts = o->command == CMD_PREDICT ? o->text.n : 0};
    struct dataset_options p = {.path = paths.first,
                                .more_paths = paths.more,
                                .n_more_paths = paths.n_more,
                                .task = wanted_labels(s),
                                .tokenizer = s->tokenizer,
                                .max_length = s->max_length,
                                .vocab_size = (int32_t)s->model.vocab_size,
                                .empty_is_error = o->empty == OPT_EMPTY_ERROR,
                                .labels = labels && labels->n ? labels : NULL,
                                .num_labels = wanted_number(s, labels),
                                .sources = prompts_are_predicted(s),
                                .words = model_task(&s->model)->labels == TASK_TOKEN_CLASS,
                                .chat = model_task(&s->model)->converses ? &s->chat : NULL,
                                .questions = model_task(&s->model)->labels == TASK_SPAN ? &s->questions : NULL,
                                .source_prefix = o->source_prefix,
                                .max_target_length = s->max_target_length,
                                .start_id = (int32_t)s->model.start_id,
                                .block_size = (int32_t)o->block_size,
                                .misfit = model_folder_head_may_go(s) ? "give --ignore-mismatched-sizes for a new head"
                                                                      : NULL,
                                .seed = o->seed,
                                .threads = s->compile.threads,
                                .cache_dir = o->cache_dir,
                                .in_memory = o->in_memory_max_size,
                                .stop = s->stop,
                                .note = session_note_line,
                                .note_ctx = s};
    choose_columns(o, &p);
    return p;
}

static int open_data(struct session *s, struct opt_paths paths, const struct label_map *labels, struct dataset *d,
                     struct snug_err *err)
{
    struct dataset_options p = datasets_options(s, paths, labels);
    TRY(dataset_open(s->io, &p, d, err));
    int code = datasets_check_ids(&s->model, d, paths.first, err);
    if (code)
        dataset_close(d);
    return code;
}

/* As the loaders will find it. */
static int check_masking(struct session *s, const struct dataset *d, struct snug_err *err)
{
    struct masking masking = batches_masking(s);
    struct masker m;
    TRY(masking_open(&m, d, &masking, 0, err));
    masking_close(&m);
    return SNUG_OK;
}

/* The head follows the training data where it is new; a trained head must fit them. */
static int fit_head(struct session *s, const struct dataset *d, const char *path, struct snug_err *err)
{
    if (!model_task(&s->model)->classes)
        return SNUG_OK;
    if (d->task == TASK_UNLABELED && s->o->command != CMD_PREDICT)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no labels; training and evaluation need them", path);
    if (d->task != TASK_UNLABELED && !model_task(&s->model)->per_token)
        s->model.problem = task_problem(d->task);
    if (d->task == TASK_UNLABELED || d->num_labels == s->model.num_labels)
        return SNUG_OK;
    if (!s->head_is_new)
        return err_set(err, SNUG_ERR_INPUT, "%s: has %d labels but the model's head has %lld; use matching data, or %s",
                       path, d->num_labels, (long long)s->model.num_labels,
                       s->o->command == CMD_EVAL ? "another model" : "give --ignore-mismatched-sizes for a new head");
    s->model.num_labels = d->num_labels;
    return SNUG_OK;
}

static int open_fitting(struct session *s, struct opt_paths paths, struct dataset *d, struct snug_err *err)
{
    TRY(open_data(s, paths, &s->labels, d, err));
    int code = fit_head(s, d, paths.first, err);
    if (code)
        dataset_close(d);
    return code;
}

/* Data that a trained head refuses may be those that a new one takes. */
static int open_train_data(struct session *s, struct snug_err *err)
{
    struct snug_err why = {0};
    bool replaceable = s->o->ignore_mismatched_sizes && model_folder_head_may_go(s);
    int code = open_fitting(s, s->o->train_data, &s->train, replaceable ? &why : err);
    if (replaceable && code == SNUG_ERR_INPUT) {
        choose_new_head(s);
        code = open_fitting(s, s->o->train_data, &s->train, err);
        if (!code)
            session_note(s, "%.*s; so the trained head is replaced by a new one", (int)strcspn(why.text, ";"),
                         why.text);
    } else if (code && replaceable) {
        *err = why;
    }
    s->has_train = !code;
    return code;
}

static int hold_out(struct session *s, struct snug_err *err)
{
    long long all = (long long)s->train.n_rows;
    if (!option_given(s->o, eval_split))
        return SNUG_OK;
    if (s->train.questions)
        return err_set(err, SNUG_ERR_USAGE,
                       "--eval-split: questions have several rows each, which are not divided; give --eval-data");
    TRY(dataset_split(&s->train, s->o->eval_split, s->o->data_seed, &s->data, err));
    s->has_data = true;
    session_note(s, "%s: %lld of %lld rows are held out to evaluate on (--eval-split), %s", s->o->train_data.first,
                 (long long)s->data.n_rows, all, s->data.classes ? "of each label in proportion" : "at random");
    return SNUG_OK;
}

/* Questions to predict are read at once, for each has rows of its own. */
static int check_questions(const struct options *o, struct opt_paths *from, struct snug_err *err)
{
    if (o->text.n != o->text_pair.n)
        return err_set(err, SNUG_ERR_USAGE,
                       "--text: %zu questions and %zu contexts; give each --text, a question, the --text-pair in which "
                       "its answer stands",
                       o->text.n, o->text_pair.n);
    if (o->data && !strcmp(o->data, "-"))
        return err_set(err, SNUG_ERR_USAGE, "--data -: questions are read from a file; write them to a .jsonl");
    if (o->text.n)
        *from = (struct opt_paths){.first = "--text"};
    return SNUG_OK;
}

int datasets_open(struct session *s, struct snug_err *err)
{
    struct opt_paths held_out = s->o->data ? (struct opt_paths){.first = s->o->data} : s->o->eval_data;
    bool questions = model_task(&s->model)->labels == TASK_SPAN;
    if (questions && s->o->command == CMD_PREDICT)
        TRY(check_questions(s->o, &held_out, err));
    if (s->o->train_data.first) {
        TRY(open_train_data(s, err));
        TRY(hold_out(s, err));
        TRY(loader_check(&s->train, s->o->per_device_train_batch_size, s->o->gradient_accumulation_steps * s->o->ranks,
                         train_drop_below(s->o), err));
        TRY(loader_check_max_tokens(&s->train, s->o->max_tokens_per_batch, err));
        TRY(check_masking(s, &s->train, err));
        TRY(chat_check_data(s, &s->train, s->o->train_data.first, err));
        TRY(class_names_of_data(s, &s->train, err));
    }
    if (!questions && stream_is_wanted(s->io, s->o)) {
        TRY(stream_open(s, err));
    } else if (held_out.first) {
        TRY(open_data(s, held_out, &s->labels, &s->data, err));
        s->has_data = true;
        TRY(fit_head(s, &s->data, held_out.first, err));
        TRY(check_masking(s, &s->data, err));
        TRY(class_names_of_data(s, &s->data, err));
    }
    bool per_row = !model_task(&s->model)->per_token;
    if (per_row && s->model.problem == PROBLEM_AUTO)
        s->model.problem = s->model.num_labels == 1 ? PROBLEM_REGRESSION : PROBLEM_SINGLE_LABEL;
    if (option_asks(s->o, OPTION_threshold) && (!per_row || s->model.problem != PROBLEM_MULTI_LABEL))
        return err_set(err, SNUG_ERR_USAGE, "--threshold: no effect without several labels to a row (%s); leave it out",
                       model_problem_names[PROBLEM_MULTI_LABEL]);
    if (s->o->label_smoothing_factor > 0 && per_row && s->model.problem != PROBLEM_SINGLE_LABEL)
        return err_set(err, SNUG_ERR_USAGE, "--label-smoothing-factor: no effect on %s; leave it out",
                       model_problem_names[s->model.problem]);
    if (s->o->label_smoothing_factor > 0 && model_task(&s->model)->labels == TASK_SPAN)
        return err_set(err, SNUG_ERR_USAGE,
                       "--label-smoothing-factor: no effect on %s, nor has it any in the Trainer; leave it out",
                       model_task_names[s->model.task]);
    return SNUG_OK;
}
