#include "train/session/model_folder.h"

#include "output/log.h"
#include "train/session/chat.h"
#include "train/session/choose_task.h"
#include "train/session/class_names.h"

#include <string.h>

static int open_folder(struct session *s, struct snug_err *err)
{
    s->dir = (struct model_dir){.weights_optional = s->o->init_from_config || s->o->command == CMD_PLAN,
                                .check_finite = s->o->check_finite,
                                .note = session_note_line,
                                .note_ctx = s};
    TRY(model_dir_open(s->io, s->o->model, &s->dir, err));
    s->opened_dir = true;
    return s->dir.n_tensors || s->o->init_from_config ? SNUG_OK : model_dir_refuse_adapter(&s->dir, err);
}

static void override_dropout(struct session *s)
{
    const struct options *o = s->o;
    if (option_given(o, hidden_dropout_prob))
        s->model.dropout_hidden = s->model.dropout_embedding = o->hidden_dropout_prob;
    if (option_given(o, attention_probs_dropout_prob))
        s->model.dropout_attention = o->attention_probs_dropout_prob;
    if (option_given(o, classifier_dropout))
        s->model.dropout_classifier = o->classifier_dropout;
    if (s->model.arch->only_attention_drops &&
        (option_given(o, hidden_dropout_prob) || option_given(o, classifier_dropout)))
        session_note(s, "%s: no effect, as %s models have no dropout but attention's",
                     option_given(o, hidden_dropout_prob) ? "--hidden-dropout-prob" : "--classifier-dropout",
                     s->model.arch->model_type);
}

/* What is not used never changes: it is told by the run that the folder is taken for, not by the commands around it, and
 * not of a folder that an earlier run has written. */
static int open_tokenizer(struct session *s, struct snug_err *err)
{
    struct snug_err why;
    int code = tokenizer_open(s->io, s->o->model, &s->tokenizer, &why);
    const char *path = deciding_path(s->o);
    bool text =
        s->o->text.n || s->o->prompt.n || s->o->chat.n ||
        (path && !strstr(path, ".safetensors") && strncmp(path, "synthetic:", 10) && s->o->command != CMD_GENERATE);
    if (code && text) {
        *err = why;
        return code;
    }
    if (!code && (s->o->source_lang || s->o->target_lang))
        TRY(tokenizer_set_languages(s->tokenizer, s->o->source_lang, s->o->target_lang, err));
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

/* What lies behind the encoder of a sentence-embedding model is neither trained nor used. As in open_tokenizer, the run says it
 * that the folder is taken for. */
static void note_modules(const struct session *s)
{
    char unknown[64];
    if (!model_dir_has_modules(&s->dir) || s->o->command != CMD_TRAIN || log_is_there(s->io, s->o->model))
        return;
    session_note(
        s,
        "%s: a sentence-embedding model; its encoder is trained, and the other modules (modules.json) go into the "
        "result as they are%s",
        s->o->model,
        model_task(&s->model)->classes ? "; labels come from a head on the encoder, not from embeddings" : "");
    model_dir_unknown_module(&s->dir, unknown);
    if (*unknown)
        session_note(s,
                     "%s: the module '%s' is not known here and not in the result; copy its folder to use embeddings",
                     s->o->model, unknown);
}

static int choose_max_length(struct session *s, struct snug_err *err)
{
    int64_t most = s->model.longest, stated = s->tokenizer ? tokenizer_max_length(s->tokenizer) : 0;
    if (option_given(s->o, max_length) && s->o->max_length > most)
        return err_set(err, SNUG_ERR_USAGE, "--max-length %lld: config.json has %s %lld; use at most %lld",
                       (long long)s->o->max_length, s->model.arch->positions_key,
                       (long long)(s->model.first_position + most), (long long)most);
    if (s->o->block_size > most)
        return err_set(err, SNUG_ERR_USAGE, "--block-size %lld: config.json has %s %lld; use at most %lld",
                       (long long)s->o->block_size, s->model.arch->positions_key,
                       (long long)(s->model.first_position + most), (long long)most);
    most = s->model.usual_length && s->model.usual_length < most ? s->model.usual_length : most;
    most = stated > 0 && stated < most ? stated : most;
    if (s->o->block_size && option_given(s->o, max_length))
        return err_set(err, SNUG_ERR_USAGE, "--max-length: no effect with --block-size; leave it out");
    s->max_length = (int32_t)(s->o->block_size                 ? s->o->block_size
                              : option_given(s->o, max_length) ? s->o->max_length
                                                               : most);
    if (model_task(&s->model)->labels == TASK_SEQ2SEQ)
        s->max_target_length = option_given(s->o, max_target_length) ? (int32_t)s->o->max_target_length : s->max_length;
    if (s->max_target_length > s->model.longest)
        return err_set(err, SNUG_ERR_USAGE, "--max-target-length %d: config.json has %s %lld; use at most %lld",
                       s->max_target_length, s->model.arch->positions_key,
                       (long long)(s->model.first_position + s->model.longest), (long long)s->model.longest);
    return SNUG_OK;
}

bool model_folder_head_may_go(const struct session *s)
{
    return s->o->command & (CMD_TRAIN | CMD_PLAN) && !s->head_is_new && !s->has_train;
}

static int check_adapter(const struct session *s, struct snug_err *err)
{
    if (!s->adapter.wanted || !s->model.arch->unadapted)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: not there for %s models, in which PEFT would not find its layers",
                   s->o->use_peft ? "--use-peft" : "--adapter", s->model.arch->model_type);
}

int model_folder_open(struct session *s, struct snug_err *err)
{
    TRY(open_folder(s, err));
    TRY(session_adapter_open(s, err));
    TRY(model_config_read(s->dir.config, s->dir.config_path, &s->model, err));
    TRY(weights_settle(&s->dir, &s->model, err));
    TRY(check_adapter(s, err));
    override_dropout(s);
    TRY(choose_task(s, err));
    note_modules(s);
    TRY(open_tokenizer(s, err));
    TRY(choose_max_length(s, err));
    TRY(chat_open(s, err));
    return class_names_of_model(s, err);
}
