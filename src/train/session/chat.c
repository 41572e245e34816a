#include "train/session/chat.h"

#include "chat/folder.h"

#include <string.h>
#include <time.h>

enum { CONFIG_BYTES = 1 << 20 };

static void add_end(struct chat_setup *c, json_t *id)
{
    bool there = !json_is_integer(id) || c->n_ends == CHAT_ENDS || json_integer_value(id) < 0 ||
                 json_integer_value(id) > INT32_MAX;
    for (int i = 0; i < c->n_ends && !there; i++)
        there = c->ends[i] == json_integer_value(id);
    if (!there)
        c->ends[c->n_ends++] = (int32_t)json_integer_value(id);
}

/* A JSON file of the model: what was made out of a GGUF file, or lies in the folder. *out NULL: there is none. */
static int read_json(struct session *s, const char *name, json_t **out, struct snug_err *err)
{
    *out = NULL;
    for (size_t i = 0; i < s->dir.n_made; i++)
        if (!strcmp(s->dir.made[i].name, name))
            return json_parse(s->dir.made[i].text, strlen(s->dir.made[i].text), name, out, err);
    if (s->dir.n_made)
        return SNUG_OK;
    char *path = model_dir_file(&s->dir, name);
    if (!path)
        return err_no_memory(err, strlen(s->dir.path));
    int code = io_exists(s->io, path) ? json_read_object(s->io, path, CONFIG_BYTES, out, err) : SNUG_OK;
    mem_free(path);
    return code;
}

/* Those at which the model's generation stops: of some, an answer's end is not the tokenizer's EOS. */
static int read_ends(struct session *s, struct snug_err *err)
{
    json_t *config;
    int32_t eos = tokenizer_special(s->tokenizer, TOKEN_EOS);
    if (eos >= 0)
        s->chat.ends[s->chat.n_ends++] = eos;
    TRY(read_json(s, "generation_config.json", &config, err));
    json_t *ids = json_object_get(config, "eos_token_id");
    add_end(&s->chat, ids);
    for (size_t i = 0; i < json_array_size(ids); i++)
        add_end(&s->chat, json_array_get(ids, i));
    json_decref(config);
    return SNUG_OK;
}

/* The model's own, which need not be one that can be read. */
static int open_template(struct session *s, struct snug_err *why)
{
    json_t *config;
    if (!s->dir.n_made)
        return chat_template_of_folder(s->io, s->o->model, &s->chat_template, why);
    TRY(read_json(s, "tokenizer_config.json", &config, why));
    int code = chat_template_of_json(config, s->o->model, &s->chat_template, why);
    json_decref(config);
    return code;
}

int chat_open(struct session *s, struct snug_err *err)
{
#define SPECIAL(id, key, bert) key,
    static const char *const names[TOKEN_SPECIALS] = {SPECIAL_TOKENS(SPECIAL)};
#undef SPECIAL
    const struct options *o = s->o;
    s->chat = (struct chat_setup){.model = o->model,
                                  .assistant_only = o->assistant_only_loss,
                                  .completion_only = o->completion_only_loss,
                                  .now = (int64_t)time(NULL)};
    if (!s->tokenizer || !model_task(&s->model)->converses)
        return SNUG_OK;
    for (int i = 0; i < TOKEN_SPECIALS; i++) {
        int32_t id = tokenizer_special(s->tokenizer, (enum special_token)i);
        if (id >= 0)
            s->chat.tokens[s->chat.n_tokens++] = (struct chat_variable){names[i], tokenizer_token(s->tokenizer, id)};
    }
    TRY(read_ends(s, err));
    if (o->chat_template)
        TRY(chat_template_of_file(s->io, o->chat_template, &s->chat_template, err));
    else if (open_template(s, &s->chat.why) == SNUG_ERR_ENV)
        return err_no_memory(err, CONFIG_BYTES);
    s->chat.template = s->chat_template;
    return SNUG_OK;
}

void chat_close(struct session *s)
{
    chat_template_close(s->chat_template);
}

/* ---- what the data hold ---- */

struct counts {
    long long learned, ends, two_begins, single;
};

static struct counts count(const struct session *s, const struct dataset *d)
{
    struct counts n = {0};
    int32_t begin = tokenizer_special(s->tokenizer, TOKEN_BOS);
    for (int64_t row = 0; row < d->n_rows; row++) {
        if (row % 8192 == 0)
            dataset_release(d);
        const int32_t *ids = d->ids + d->offsets[row];
        n.single += dataset_length(d, row) < 2;
        n.two_begins += begin >= 0 && dataset_length(d, row) > 1 && ids[0] == begin && ids[1] == begin;
        for (int64_t i = d->offsets[row] + 1; i < d->offsets[row + 1] && d->loss_mask; i++) {
            n.learned += d->loss_mask[i];
            for (int k = 0; k < s->chat.n_ends; k++)
                n.ends += d->loss_mask[i] && d->ids[i] == s->chat.ends[k];
        }
    }
    return n;
}

int chat_check_data(struct session *s, const struct dataset *d, const char *path, struct snug_err *err)
{
    if (d->task != TASK_CAUSAL_LM || !s->tokenizer || !strncmp(path, "synthetic:", 10) || d->targets)
        return SNUG_OK;
    struct counts n = count(s, d);
    if (n.single && n.single == d->n_rows)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: no row has two tokens, so there is none to be foretold; give longer texts, or join them with "
            "--block-size",
            path);
    if (n.single)
        session_note(s, "%s: nothing is learned of %lld rows of one token", path, n.single);
    if (n.two_begins)
        session_note(s, "%s: %lld rows begin with two '%s': the template or the text writes one, the tokenizer another",
                     path, n.two_begins, tokenizer_token(s->tokenizer, tokenizer_special(s->tokenizer, TOKEN_BOS)));
    if (!d->loss_mask)
        return SNUG_OK;
    const char *end = s->chat.n_ends ? tokenizer_token(s->tokenizer, s->chat.ends[0]) : NULL;
    if (!n.ends)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: of %lld learned tokens none is an end of text (%s), so the model would not learn to stop; %s", path,
            n.learned, end ? end : "the tokenizer has no eos_token",
            d->truncated ? "give a larger --max-length" : "let the template write it behind an answer");
    session_note(s, "%s: %lld of %lld tokens are learned (%.1f %%), %lld of them end a text (%s)", path, n.learned,
                 (long long)d->n_tokens, 100.0 * (double)n.learned / (double)d->n_tokens, n.ends, end ? end : "");
    if (s->chat_template && chat_template_reads_clock(s->chat_template))
        session_note(s,
                     "the chat template can write today's date; a run that is resumed on another day is refused then");
    return SNUG_OK;
}

/* ---- a sample ---- */

bool chat_is_learned(const struct dataset *d, int64_t i)
{
    return d->targets ? d->targets[i] != IGNORE_INDEX : !d->loss_mask || d->loss_mask[i];
}

/* Nothing predicts the first token of a row. */
static bool is_shown_learned(const struct dataset *d, int64_t i)
{
    return i > d->offsets[0] && chat_is_learned(d, i);
}

/* A line for each stretch of tokens that are learned, or are not, and for at most so many bytes. */
int chat_show_sample(struct session *s, struct snug_err *err)
{
    enum { LINE_BYTES = 150 };
    const struct dataset *d = &s->train;
    if (!s->o->show_sample || !s->tokenizer || d->task != TASK_CAUSAL_LM)
        return SNUG_OK;
    session_note(s, "the first row has %d tokens:", (int)dataset_length(d, 0));
    for (int64_t i = d->offsets[0]; i < d->offsets[1];) {
        struct str line = {0};
        bool learned = is_shown_learned(d, i);
        str_append(&line, learned ? "  learned" : "  context");
        for (; i < d->offsets[1] && is_shown_learned(d, i) == learned && line.n < LINE_BYTES; i++) {
            const char *token = tokenizer_token(s->tokenizer, d->ids[i]);
            str_printf(&line, " %.100s", token ? token : "?");
        }
        int code = str_check(&line, err);
        if (!code)
            session_note_line(s, str_text(&line));
        str_free(&line);
        TRY(code);
    }
    return SNUG_OK;
}
