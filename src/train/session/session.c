#include "train/session/session.h"

#include "data/split.h"
#include "output/log.h"
#include "train/output.h"
#include "train/session/choose_task.h"
#include "train/session/class_weights.h"
#include "train/session/fit.h"
#include "train/session/freeze.h"
#include "train/session/stream.h"
#include "train/state.h"

#include "base/machine.h"
#include "base/str.h"
#include "base/threads.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void session_note(const struct session *s, const char *format, ...)
{
    char raw[512], line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    text_escape(line, sizeof line, raw);
    if (s->events.note)
        s->events.note(s->events.ctx, line);
}

static void pass_note(void *ctx, const char *line)
{
    session_note(ctx, "%s", line);
}

struct ckpt_notes session_notes(struct session *s)
{
    return (struct ckpt_notes){.fn = pass_note, .ctx = s};
}

/* ---- model ---- */

static int open_folder(struct session *s, struct snug_err *err)
{
    s->dir = (struct model_dir){.weights_optional = s->o->init_from_config || s->o->command == CMD_PLAN,
                                .check_finite = s->o->check_finite,
                                .note = pass_note,
                                .note_ctx = s};
    TRY(model_dir_open(s->io, s->o->model, &s->dir, err));
    s->opened_dir = true;
    return SNUG_OK;
}

static void override_dropout(struct session *s)
{
    const struct options *o = s->o;
    if (option_given(o, hidden_dropout_prob)) {
        if (s->model.dropout_classifier == s->model.dropout_hidden)
            s->model.dropout_classifier = o->hidden_dropout_prob;
        s->model.dropout_hidden = s->model.dropout_embedding = o->hidden_dropout_prob;
    }
    if (option_given(o, attention_probs_dropout_prob))
        s->model.dropout_attention = o->attention_probs_dropout_prob;
    if (option_given(o, classifier_dropout))
        s->model.dropout_classifier = o->classifier_dropout;
}

/* What is not used never changes: it is told by the run that the folder is taken for, not by the commands around it, and
 * not of a folder that an earlier run has written. */
static int open_tokenizer(struct session *s, struct snug_err *err)
{
    struct snug_err why;
    int code = tokenizer_open(s->io, s->o->model, &s->tokenizer, &why);
    const char *path = deciding_path(s->o);
    bool text = s->o->text.n || (path && !strstr(path, ".safetensors") && strncmp(path, "synthetic:", 10));
    if (code && text) {
        *err = why;
        return code;
    }
    if (code)
        s->tokenizer = NULL;
    else if (tokenizer_vocab_size(s->tokenizer) > s->model.vocab_size && text)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: the tokenizer has %d tokens but config.json says vocab_size %lld; take both from one model",
                       s->o->model, tokenizer_vocab_size(s->tokenizer), (long long)s->model.vocab_size);
    for (size_t i = 0; text && tokenizer_note(s->tokenizer, i); i++)
        session_note(s, "%s", tokenizer_note(s->tokenizer, i));
    if (text && tokenizer_unused(s->tokenizer) && s->o->command == CMD_TRAIN && !log_is_there(s->io, s->o->model))
        session_note(s, "%s", tokenizer_unused(s->tokenizer));
    return SNUG_OK;
}

static int choose_max_length(struct session *s, struct snug_err *err)
{
    int64_t most = s->model.max_positions, stated = s->tokenizer ? tokenizer_max_length(s->tokenizer) : 0;
    if (option_given(s->o, max_length) && s->o->max_length > most)
        return err_set(err, SNUG_ERR_USAGE, "--max-length %lld: config.json has %s %lld; use at most that",
                       (long long)s->o->max_length, s->model.arch->positions_key, (long long)most);
    most = stated > 0 && stated < most ? stated : most;
    s->max_length = (int32_t)(option_given(s->o, max_length) ? s->o->max_length : most);
    return SNUG_OK;
}

/* Whether the trained head could be replaced by one that fits the data. */
static bool has_choice(const struct session *s)
{
    return s->o->command & (CMD_TRAIN | CMD_PLAN) && !s->head_is_new && !s->has_train;
}

/* Whether all names are those that transformers gives classes without names; then names in the data take their place. */
static bool are_defaults(json_t *names)
{
    const char *id;
    json_t *name;
    json_object_foreach(names, id, name)
    {
        const char *text = json_string_value(name);
        if (!text || strncmp(text, "LABEL_", 6) || strcmp(text + 6, id))
            return false;
    }
    return true;
}

/* The class names that config.json gives the model's own head. */
static int read_model_labels(struct session *s, struct snug_err *err)
{
    json_t *names = json_object_get(s->dir.config, "id2label");
    if (model_task(&s->model)->per_token || s->head_is_new || !json_is_object(names))
        return SNUG_OK;
    if (has_choice(s) && s->look.names && are_defaults(names))
        return SNUG_OK;
    const char **list = mem_alloc((size_t)s->model.num_labels * sizeof *list);
    if (!list)
        return err_no_memory(err, (unsigned long long)s->model.num_labels * sizeof *list);
    for (int64_t i = 0; i < s->model.num_labels; i++) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)i);
        list[i] = json_string_value(json_object_get(names, key));
    }
    int code = label_map_init(&s->labels, list, (int32_t)s->model.num_labels, s->dir.config_path, err);
    mem_free(list);
    return code;
}

/* ---- data ---- */

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
    if (!model_task(&s->model)->per_token && !s->head_is_new)
        return (int32_t)s->model.num_labels;
    return (int32_t)s->o->num_labels;
}

int session_check_ids(const struct model_config *m, const struct dataset *d, const char *path, struct snug_err *err)
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

struct dataset_options session_data_options(struct session *s, struct opt_paths paths, const struct label_map *labels)
{
    const struct options *o = s->o;
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
                                .misfit = has_choice(s) ? "give --ignore-mismatched-sizes for a new head" : NULL,
                                .seed = o->seed,
                                .threads = s->compile.threads,
                                .cache_dir = o->cache_dir,
                                .stop = s->stop,
                                .note = pass_note,
                                .note_ctx = s};
    choose_columns(o, &p);
    return p;
}

static int open_data(struct session *s, struct opt_paths paths, const struct label_map *labels, struct dataset *d,
                     struct snug_err *err)
{
    struct dataset_options p = session_data_options(s, paths, labels);
    TRY(dataset_open(s->io, &p, d, err));
    int code = session_check_ids(&s->model, d, paths.first, err);
    if (code)
        dataset_close(d);
    return code;
}

/* As the loaders will find it. */
static int check_masking(struct session *s, const struct dataset *d, struct snug_err *err)
{
    struct masking masking = session_masking(s);
    struct masker m;
    TRY(masking_open(&m, d, &masking, 0, err));
    masking_close(&m);
    return SNUG_OK;
}

/* The head follows the training data where it is new; a trained head must fit them. */
static int fit_head(struct session *s, const struct dataset *d, const char *path, struct snug_err *err)
{
    if (model_task(&s->model)->per_token)
        return SNUG_OK;
    if (d->task == TASK_UNLABELED && s->o->command != CMD_PREDICT)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no labels; training and evaluation need them", path);
    if (d->task != TASK_UNLABELED)
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

static int keep_labels(struct session *s, const struct dataset *d, struct snug_err *err)
{
    if (s->labels.n || !d->labels.n)
        return SNUG_OK;
    TRY(label_map_init(&s->labels, (const char *const *)d->labels.names, d->labels.n, "labels", err));
    s->labels.from_data = d->labels.from_data;
    s->labels.numbers = d->labels.numbers;
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
    bool replaceable = s->o->ignore_mismatched_sizes && has_choice(s);
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
    TRY(dataset_split(&s->train, s->o->eval_split, s->o->data_seed, &s->data, err));
    s->has_data = true;
    session_note(s, "%s: %lld of %lld rows are held out to evaluate on (--eval-split), %s", s->o->train_data.first,
                 (long long)s->data.n_rows, all, s->data.classes ? "of each label in proportion" : "at random");
    return SNUG_OK;
}

static int open_all_data(struct session *s, struct snug_err *err)
{
    struct opt_paths held_out = s->o->data ? (struct opt_paths){.first = s->o->data} : s->o->eval_data;
    if (s->o->train_data.first) {
        TRY(open_train_data(s, err));
        TRY(hold_out(s, err));
        TRY(loader_check(&s->train, s->o->per_device_train_batch_size, s->o->gradient_accumulation_steps,
                         s->o->dataloader_drop_last, err));
        TRY(check_masking(s, &s->train, err));
        TRY(keep_labels(s, &s->train, err));
    }
    if (stream_is_wanted(s->io, s->o)) {
        TRY(stream_open(s, err));
    } else if (held_out.first) {
        TRY(open_data(s, held_out, &s->labels, &s->data, err));
        s->has_data = true;
        TRY(fit_head(s, &s->data, held_out.first, err));
        TRY(check_masking(s, &s->data, err));
        TRY(keep_labels(s, &s->data, err));
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
    return SNUG_OK;
}

static bool only_synthetic(const struct options *o)
{
    const char *paths[] = {o->train_data.first, o->eval_data.first, o->data};
    bool yes = true;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        yes &= !paths[i] || !strncmp(paths[i], "synthetic:", 10);
    return yes;
}

struct masking session_masking(struct session *s)
{
    struct masking m = {.probability = (float)s->o->mlm_probability,
                        .mask_id = -1,
                        .vocab_size = (int32_t)s->model.vocab_size,
                        .special_ids = s->special_ids};
    for (int t = 0; s->tokenizer && t < TOKEN_SPECIALS; t++) {
        int32_t id = tokenizer_special(s->tokenizer, (enum special_token)t);
        if (id >= 0)
            s->special_ids[m.n_special++] = id;
    }
    if (s->tokenizer)
        m.mask_id = tokenizer_special(s->tokenizer, TOKEN_MASK);
    if (m.mask_id < 0 && only_synthetic(s->o)) /* any id will do: the last */
        m.mask_id = (int32_t)s->model.vocab_size - 1;
    return m;
}

/* ---- programs ---- */

/* Evaluation batches are cut by tokens: of short rows there are more in one. Metrics and predictions do not depend on
 * it. */
int64_t session_eval_tokens(const struct session *s, const struct dataset *d)
{
    int64_t rows = s->o->per_device_eval_batch_size, busy = s->compile.backend->busy_tokens;
    if (option_given(s->o, per_device_eval_batch_size))
        return d ? loader_max_tokens(d, (int32_t)rows) : rows * s->max_length;
    return busy > s->max_length ? busy : s->max_length;
}

int session_open_eval(struct session *s, const struct dataset *d, struct eval_loader **out, struct snug_err *err)
{
    struct masking masking = session_masking(s);
    return eval_open(d, s->eval_most.rows, s->eval_most.tokens, s->o->seed, &masking, out, err);
}

int session_train_max(const struct session *s, int64_t B, struct dims *max, struct snug_err *err)
{
    if (s->has_train && B > s->train.n_rows) /* a short batch is all there is */
        B = s->train.n_rows;
    int64_t T = s->has_train ? loader_max_tokens(&s->train, (int32_t)B) : B * s->max_length;
    if (T < 0)
        return err_no_memory(err, (unsigned long long)s->train.n_rows * sizeof(int32_t));
    *max = (struct dims){.T = s->compile.backend->bucket(T), .B = B};
    return SNUG_OK;
}

static int size_batches(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct compile_settings *c = &s->compile;
    if (c->train)
        TRY(session_train_max(s, o->per_device_train_batch_size, &s->choices.micro, err));
    if (s->stream)
        return stream_size(s, err);
    if (s->has_data) {
        int64_t tokens = session_eval_tokens(s, &s->data);
        if (tokens < 0)
            return err_no_memory(err, (unsigned long long)s->data.longest * 8);
        s->eval_most.tokens = tokens;
        s->eval_most.rows = (int32_t)(tokens < INT32_MAX ? tokens : INT32_MAX);
        TRY(session_open_eval(s, &s->data, &s->eval, err));
        c->eval_max = (struct dims){.T = c->backend->bucket(eval_max_tokens(s->eval)), .B = eval_max_rows(s->eval)};
    }
    return SNUG_OK;
}

struct update session_update(const struct options *o, const struct backend *b)
{
    static const enum optimizer by_option[] = {[OPT_OPTIM_ADAMW] = OPTIM_ADAMW,
                                               [OPT_OPTIM_SGD] = OPTIM_SGD,
                                               [OPT_OPTIM_ADAFACTOR] = OPTIM_ADAFACTOR,
                                               [OPT_OPTIM_ADAMW_8BIT] = OPTIM_ADAMW_8BIT};
    return (struct update){.optimizer = by_option[o->optim],
                           .beta1 = o->adam_beta1,
                           .beta2 = o->adam_beta2,
                           .eps = o->adam_epsilon,
                           .momentum = o->optim_args_momentum,
                           .dampening = o->optim_args_dampening,
                           .nesterov = o->optim_args_nesterov,
                           .adafactor = {.eps1 = o->optim_args_eps1,
                                         .eps2 = o->optim_args_eps2,
                                         .clip_threshold = o->optim_args_clip_threshold,
                                         .decay_rate = o->optim_args_decay_rate,
                                         .beta1 = option_given(o, optim_args_beta1) ? o->optim_args_beta1 : -1,
                                         .scale_parameter = o->optim_args_scale_parameter,
                                         .relative_step = o->optim_args_relative_step,
                                         .warmup_init = o->optim_args_warmup_init},
                           .min_8bit_size = o->optim_args_min_8bit_size,
                           .embeddings_8bit = o->optim_args_embeddings_8bit,
                           .weight_decay = o->weight_decay,
                           .max_grad_norm = o->max_grad_norm,
                           .state_type = b->float_type};
}

int session_precision(const struct options *o, const struct backend *b, struct precision *out, struct snug_err *err)
{
    static const struct {
        const char *name;
        enum dtype type;
    } kinds[] = {[OPT_DTYPE_FP32] = {"fp32", DT_F32},
                 [OPT_DTYPE_BF16] = {"bf16", DT_BF16},
                 [OPT_DTYPE_FP16] = {"fp16", DT_F16},
                 [OPT_DTYPE_TF32] = {"tf32", DT_F32}};
    enum dtype type = kinds[o->dtype].type;
    *out = (struct precision){.wide = b->float_type,
                              .narrow = b->float_type,
                              .narrow_grads = true,
                              .narrow_sums = o->gradient_accumulation_dtype == OPT_GRADIENTS_MODEL};
    if (b->float_type != DT_F32)
        return SNUG_OK;
    if (o->dtype == OPT_DTYPE_TF32 ? !b->tf32 : type != DT_F32 && !(b->narrow_types >> type & 1))
        return err_set(err, SNUG_ERR_USAGE, "--%s: the %s device does not know it; use --bf16, or a GPU",
                       kinds[o->dtype].name, b->name);
    out->narrow = type;
    return SNUG_OK;
}

struct choices session_choices(const struct options *o, const struct backend *b)
{
    bool stay = o->weight_copies == OPT_COPIES_RESIDENT || (o->weight_copies == OPT_COPIES_AUTO && !b->host_memory);
    return (struct choices){
        .accumulation = o->gradient_accumulation_steps,
        .recompute_every_n = o->gradient_checkpointing ? (int)o->gradient_checkpointing_kwargs_every_n_layers : 0,
        .keep_masks = o->dropout_masks != OPT_COPIES_TRANSIENT && b->reads_mask,
        .copies = stay && o->dtype != OPT_DTYPE_FP32 && o->dtype != OPT_DTYPE_TF32 && b->float_type == DT_F32,
        /* where those of many layers run at the same time, until fit_plan needs the room */
        .updates_at_end = o->nan_policy != OPT_NAN_STOP || (b->together && b->together(OP_adamw))};
}

static int choose_settings(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct compile_settings *c = &s->compile;
    c->model = &s->model;
    c->stop = s->stop;
    TRY(session_precision(o, c->backend, &c->precision, err));
    c->train = o->command == CMD_TRAIN || o->command == CMD_PLAN;
    c->dropout = true;
    c->smoothing = o->label_smoothing_factor;
    c->class_weights = s->class_weights;
    c->freeze = c->train ? o->freeze : NULL;
    c->dump = s->events.dump;
    c->dump_ctx = s->events.ctx;
    c->update = session_update(o, c->backend);
    s->choices = session_choices(o, c->backend);
    return SNUG_OK;
}

static enum backend_kind backend_of(const struct options *o)
{
    if (o->device_profile)
        return BACKEND_CUDA;
    static const enum backend_kind kinds[] = {[OPT_DEVICE_AUTO] = BACKEND_AUTO,
                                              [OPT_DEVICE_CPU] = BACKEND_CPU,
                                              [OPT_DEVICE_REFERENCE] = BACKEND_REFERENCE,
                                              [OPT_DEVICE_CUDA] = BACKEND_CUDA};
    return kinds[o->device];
}

int session_backend(const struct options *o, const struct backend **out, struct snug_err *err)
{
    return backend_open(backend_of(o),
                        &(struct cuda_settings){.profile = o->device_profile,
                                                .tf32 = o->dtype == OPT_DTYPE_TF32,
                                                .cache_dir = o->cache_dir},
                        out, err);
}

/* ctx: the backend. */
static int get(void *ctx, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    const struct backend *b = ctx;
    return b->download(b, to, from, bytes, err);
}

static int put(void *ctx, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    const struct backend *b = ctx;
    return b->upload(b, to, from, bytes, err);
}

static int open_backend(struct session *s, struct snug_err *err)
{
    TRY(session_backend(s->o, &s->compile.backend, err));
    const struct backend *b = s->compile.backend;
    if (b->note && b->note(b))
        session_note(s, "%s", b->note(b));
    if (!s->compile.backend->host_memory)
        s->memory = (struct ckpt_memory){.get = get, .put = put, .ctx = (void *)s->compile.backend};
    return SNUG_OK;
}

/* Which tensors have states of 8 bits, and which not. */
static int note_8bit(struct session *s, struct snug_err *err)
{
    struct run_value *v;
    size_t n, tensors[2] = {0};
    long long elements[2] = {0};
    if (!s->compile.train || s->compile.update.optimizer != OPTIM_ADAMW_8BIT)
        return SNUG_OK;
    TRY(run_list(&s->run, 1u << ROLE_STATE, &v, &n, err));
    for (size_t i = 0; i < n; i++)
        if (v[i].kin == KIN_EXP_AVG) {
            tensors[v[i].dtype == DT_U8]++;
            elements[v[i].dtype == DT_U8] += v[i].elements;
        }
    mem_free(v);
    session_note(s, "optimizer states: 8 bits for %zu tensors (%lld elements), 32 for %zu %s (%lld elements)",
                 tensors[1], elements[1], tensors[0],
                 s->o->optim_args_embeddings_8bit ? "small ones" : "embeddings and small ones", elements[0]);
    return SNUG_OK;
}

int session_open(struct session *s, const struct io *io, const struct options *o, bool own_loop,
                 struct session_events events, const struct stop_flag *stop, struct snug_err *err)
{
    *s = (struct session){.io = io, .o = o, .events = events, .stop = stop};
    TRY(backend_check(backend_of(o), err));
    s->compile.threads = o->threads ? (int)o->threads : machine_cpus();
    TRY(open_folder(s, err));
    TRY(model_config_read(s->dir.config, s->dir.config_path, &s->model, err));
    override_dropout(s);
    TRY(choose_task(s, err));
    TRY(open_tokenizer(s, err));
    TRY(choose_max_length(s, err));
    TRY(read_model_labels(s, err));
    /* Beside the caller's thread those of OpenMP; in training the loader's and the one that writes checkpoints. */
    TRY(threads_check(s->compile.threads - 1 + 2 * (o->command == CMD_TRAIN), err));
    if (o->command == CMD_TRAIN && !own_loop)
        TRY(output_claim(s, err));
    TRY(open_all_data(s, err));
    TRY(class_weights_open(s, err));
    TRY(open_backend(s, err));
    TRY(choose_settings(s, err));
    TRY(state_take_choices(s, err));
    s->compile.separate = own_loop;
    TRY(size_batches(s, err));
    TRY(freeze_check(s, err));
    TRY(fit_plan(s, err));
    TRY(note_8bit(s, err));
    if (s->dir.n_tensors || !s->dir.weights_optional) {
        struct weight_options w = {.seed = o->seed,
                                   .random = o->init_from_config,
                                   .new_head = s->head_replaced,
                                   .strict = o->strict,
                                   .trained_head = o->command & (CMD_EVAL | CMD_PREDICT) && !o->allow_new_head};
        TRY(weights_check(&s->dir, &s->run, &s->model, &w, err));
    }
    TRY(fit_tune(s, err));
    return s->compile.dump ? SNUG_OK : forecast_run(s, &s->forecast, err);
}

int session_load(struct session *s, struct snug_err *err)
{
    struct weight_options w = {
        .seed = s->o->seed, .random = s->o->init_from_config, .new_head = s->head_replaced, .strict = s->o->strict};
    if (s->loaded && s->run.arena)
        return SNUG_OK;
    if (s->run.work)
        return err_set(err, SNUG_ERR_USAGE, "the weights are lost to a load or save that failed; open another session");
    TRY(fit_room(s, err));
    TRY(run_alloc(&s->run, err));
    TRY(stepper_open(&s->stepper, &s->run, &s->model, s->o->seed, err));
    s->opened_stepper = true;
    s->stepper.class_weights = s->class_weights;
    TRY(states_start(&s->run, err));
    TRY(weights_load(&s->dir, &s->run, &s->model, &w, err));
    s->loaded = true;
    return SNUG_OK;
}

void session_close(struct session *s)
{
    output_release(s);
    if (s->opened_stepper)
        stepper_close(&s->stepper);
    run_close(&s->run);
    eval_close(s->eval);
    row_stream_close(s->stream);
    if (s->has_train)
        dataset_close(&s->train);
    if (s->has_data)
        dataset_close(&s->data);
    mem_free(s->class_weights);
    label_map_free(&s->labels);
    json_decref(s->option_changes);
    tokenizer_close(s->tokenizer);
    if (s->opened_dir)
        model_dir_close(&s->dir);
    backend_close(s->compile.backend);
    *s = (struct session){0};
}

const char *session_label(const struct session *s, int32_t id, char *buf)
{
    if (id >= 0 && id < s->labels.n)
        return s->labels.names[id];
    snprintf(buf, 32, "LABEL_%d", id);
    return buf;
}

static int set_labels(const struct session *s, json_t *config)
{
    json_t *names = json_object(), *ids = json_object();
    int failed = 0;
    for (int32_t i = 0; i < s->model.num_labels; i++) {
        char key[24], buf[32];
        snprintf(key, sizeof key, "%d", i);
        const char *name = session_label(s, i, buf);
        failed |= json_object_set_new(names, key, json_string(name));
        failed |= json_object_set_new(ids, name, json_integer(i));
    }
    failed |= json_object_set_new(config, "id2label", names);
    return failed | json_object_set_new(config, "label2id", ids);
}

int session_config_text(const struct session *s, char **text, struct snug_err *err)
{
    json_t *config = json_deep_copy(s->dir.config), *classes = json_array();
    int failed = !config || json_array_append_new(classes, json_string(model_class(&s->model)));
    failed |= json_object_set_new(config, "architectures", classes);
    json_object_del(config, "num_labels"); /* id2label says it */
    if (json_object_get(config, "dtype"))
        failed |= json_object_set_new(config, "dtype", json_string("float32"));
    else
        failed |= json_object_set_new(config, "torch_dtype", json_string("float32"));
    if (!model_task(&s->model)->per_token) {
        failed |= set_labels(s, config);
        failed |= json_object_set_new(config, "problem_type", json_string(model_problem_names[s->model.problem]));
    }
    char *dumped = failed ? NULL : json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(config);
    *text = dumped ? mem_strdup(dumped) : NULL;
    free(dumped);
    return *text ? SNUG_OK : err_no_memory(err, 1 << 16);
}
