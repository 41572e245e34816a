/* The mask of a conversation comes from {% generation %} where the template has it. Where it has not, the conversation is
 * rendered up to each answer and up to its end; the tokens of both must be the first of those of the whole. A template may
 * end an answer in one way where a text ends, and in another where it goes on: then up to what begins the next answer. */
#include "data/chat_rows.h"

#include "format/json.h"

#include <string.h>
#include <time.h>

void chat_buf_free(struct chat_buf *b)
{
    json_decref(b->tools);
    mem_free(b->mask);
    chat_rendering_free(&b->whole);
    chat_rendering_free(&b->part);
    token_buf_free(&b->tokens);
    token_buf_free(&b->prefix);
    *b = (struct chat_buf){0};
}

static const char *eos_token(const struct chat_setup *c)
{
    for (size_t i = 0; i < c->n_tokens; i++)
        if (!strcmp(c->tokens[i].name, "eos_token"))
            return c->tokens[i].text;
    return NULL;
}

/* The tokenizer's EOS. A tokenizer that does not name one gets that of the model's configuration. */
static const char *end_of_text(const struct chat_setup *c, const struct tokenizer *t)
{
    const char *eos = eos_token(c);
    return eos || !c->n_ends ? eos : tokenizer_token(t, c->ends[0]);
}

void chat_setup_describe(const struct chat_setup *c, struct str *s)
{
    char hex[33], day[32] = "";
    time_t now = (time_t)c->now;
    struct tm tm;
    hash_hex(c->template ? chat_template_hash(c->template) : (struct hash128){0}, hex);
    if (c->template && chat_template_reads_clock(c->template) && localtime_r(&now, &tm))
        strftime(day, sizeof day, "%Y-%m-%d", &tm);
    str_printf(s, " chat with tools and thoughts %s %s %d %d", hex, day, c->assistant_only, c->completion_only);
    for (size_t i = 0; i < c->n_tokens; i++)
        str_json(s, c->tokens[i].text);
    for (int i = 0; i < c->n_ends; i++)
        str_printf(s, " %d", (int)c->ends[i]);
    if (!eos_token(c) && c->n_ends)
        str_append(s, " the first one ends completions");
}

/* ---- messages ---- */

/* ShareGPT's names of who speaks. */
static const char *role_of(const char *from)
{
    static const char *const roles[][2] = {
        {"human", "user"}, {"gpt", "assistant"}, {"system", "system"}, {"user", "user"}, {"assistant", "assistant"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(from, roles[i][0]))
            return roles[i][1];
    return NULL;
}

static int refuse(struct snug_err *err, const char *what, json_t *value, const char *wanted)
{
    char shown[64];
    return err_set(err, SNUG_ERR_INPUT, "%s is %s; %s", what, json_value_text(value, shown), wanted);
}

static int check_messages(json_t *messages, const char *name, struct snug_err *err)
{
    if (json_is_array(messages) && !json_array_size(messages))
        return err_set(err, SNUG_ERR_INPUT, "%s is an empty list; give at least one message, or leave the row out",
                       name);
    if (!json_is_array(messages))
        return refuse(err, name, messages, "a list of messages was expected, and at least one");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *m = json_array_get(messages, i);
        if (!json_is_object(m))
            return refuse(err, "a message", m, "write {\"role\": ..., \"content\": ...}");
        if (!json_is_string(json_object_get(m, "role")))
            return refuse(err, "a message's 'role'", json_object_get(m, "role"), "give user, assistant or system");
    }
    return SNUG_OK;
}

/* from/value as role/content. *out is a new reference. */
static int of_conversations(json_t *turns, json_t **out, struct snug_err *err)
{
    *out = json_array();
    if (!json_is_array(turns) || !*out)
        return refuse(err, "'conversations'", turns, "a list was expected");
    for (size_t i = 0; i < json_array_size(turns); i++) {
        json_t *turn = json_array_get(turns, i), *from = json_object_get(turn, "from");
        const char *role = json_is_string(from) ? role_of(json_string_value(from)) : NULL;
        if (json_is_string(json_object_get(turn, "role"))) { /* of messages, under the other name */
            json_array_append(*out, turn);
            continue;
        }
        if (!role)
            return refuse(err, "a turn's 'from'", from, "human, gpt and system are known");
        json_t *value = json_object_get(turn, "value");
        if (!json_is_string(value))
            return refuse(err, "a turn's 'value'", value, "a text was expected");
        json_array_append_new(*out, json_pack("{s:s, s:O}", "role", role, "content", value));
    }
    return SNUG_OK;
}

/* ---- what else a row says to the template ---- */

static int set_variable(struct chat_buf *b, const char *name, json_t *value, struct snug_err *err)
{
    if (b->variables.n == CHAT_VARIABLES)
        return err_set(err, SNUG_ERR_INPUT, "'chat_template_kwargs' has more than %d variables; leave some out",
                       CHAT_VARIABLES - 1);
    b->variables.names[b->variables.n] = name;
    b->variables.values[b->variables.n++] = value;
    return SNUG_OK;
}

/* As TRL has them: `tools`, a list of descriptions, or that list as a text of JSON; and `chat_template_kwargs`, by name. */
static int find_variables(json_t *row, struct chat_buf *b, struct snug_err *err)
{
    json_t *tools = json_object_get(row, "tools"), *others = json_object_get(row, "chat_template_kwargs"), *value;
    const char *name;
    b->variables.n = 0;
    json_decref(b->tools);
    b->tools = NULL;
    bool is_text = json_is_string(tools) && json_string_length(tools);
    if (is_text && json_parse(json_string_value(tools), json_string_length(tools), "", &b->tools, NULL))
        b->tools = json_incref(tools);
    else if (!json_is_string(tools))
        b->tools = json_incref(tools);
    if (b->tools && !json_is_null(b->tools) && !json_is_array(b->tools))
        return refuse(err, "'tools'", b->tools, "a list of tools was expected, or a text with one in JSON");
    if (json_array_size(b->tools))
        TRY(set_variable(b, "tools", b->tools, err));
    if (others && !json_is_null(others) && !json_is_object(others))
        return refuse(err, "'chat_template_kwargs'", others, "an object was expected");
    json_object_foreach(others, name, value) TRY(set_variable(b, name, value, err));
    return SNUG_OK;
}

/* ---- texts and tokens ---- */

static int render(const struct chat_setup *c, const struct chat_buf *b, json_t *messages, size_t n, bool prompt,
                  struct chat_rendering *out, struct snug_err *err)
{
    if (!c->template && c->why.code)
        return err_set(err, SNUG_ERR_INPUT, "%s", c->why.text);
    if (!c->template)
        return err_set(err, SNUG_ERR_INPUT,
                       "messages need a chat template, and %s has none; give one with --chat-template FILE", c->model);
    json_t *some = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append(some, json_array_get(messages, i));
    struct chat_input in = {.messages = some,
                            .more_names = b->variables.names,
                            .more = b->variables.values,
                            .n_more = b->variables.n,
                            .add_generation_prompt = prompt,
                            .tokens = c->tokens,
                            .n_tokens = c->n_tokens,
                            .now = c->now};
    int code = some ? chat_template_render(c->template, &in, out, err) : err_no_memory(err, n * sizeof some);
    json_decref(some);
    return code;
}

struct ids {
    const int32_t *ids;
    size_t n;
};

/* `bare`: without what the tokenizer puts round a text, because a template writes it itself. */
static int ids_of(const struct tokenizer *t, const char *text, size_t bytes, bool bare, struct token_buf *buf,
                  struct ids *out, struct snug_err *err)
{
    TRY(tokenizer_encode(t, text, bytes, NULL, 0, 0, buf, err));
    *out = bare ? (struct ids){buf->pieces, buf->n_pieces} : (struct ids){buf->ids, buf->n};
    return SNUG_OK;
}

static size_t common(struct ids a, const struct chat_buf *b)
{
    size_t i = 0;
    while (i < a.n && i < b->n && a.ids[i] == b->ids[i])
        i++;
    return i;
}

static int start(struct chat_buf *b, struct ids all, bool learned, struct snug_err *err)
{
    b->ids = all.ids;
    b->n = all.n;
    if (!MEM_GROW(b->mask, b->mask_cap, all.n + 1))
        return err_no_memory(err, all.n);
    memset(b->mask, learned, all.n);
    return SNUG_OK;
}

static int render_all(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, bool learned,
                      struct chat_buf *b, struct snug_err *err)
{
    struct ids all;
    TRY(render(c, b, messages, json_array_size(messages), false, &b->whole, err));
    TRY(ids_of(t, str_text(&b->whole.text), b->whole.text.n, true, &b->tokens, &all, err));
    return start(b, all, learned, err);
}

int chat_prompt_encode(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, json_t *row,
                       struct chat_buf *b, const int32_t **ids, size_t *n, struct snug_err *err)
{
    struct ids all;
    TRY(find_variables(row, b, err));
    TRY(render(c, b, messages, json_array_size(messages), true, &b->whole, err));
    TRY(ids_of(t, str_text(&b->whole.text), b->whole.text.n, true, &b->tokens, &all, err));
    *ids = all.ids;
    *n = all.n;
    return SNUG_OK;
}

/* ---- masks ---- */

/* A token that stands on both sides of a mark's border belongs to it. */
static int mask_marks(const struct tokenizer *t, struct chat_buf *b, struct snug_err *err)
{
    const char *text = str_text(&b->whole.text);
    for (size_t i = 0; i < b->whole.n_marks; i++) {
        struct ids before, upto;
        if (b->whole.marks[i].from == b->whole.marks[i].to)
            continue;
        TRY(ids_of(t, text, b->whole.marks[i].from, true, &b->prefix, &before, err));
        size_t from = common(before, b);
        TRY(ids_of(t, text, b->whole.marks[i].to, true, &b->prefix, &upto, err));
        size_t to = common(upto, b);
        to += to < upto.n && to < b->n;
        memset(b->mask + from, 1, to > from ? to - from : 0);
    }
    return SNUG_OK;
}

static int refuse_prefix(size_t n, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT,
                   "its first %zu messages alone have other tokens than within the conversation, so nothing shows what "
                   "the assistant says; give a template with {%% generation %%} (--chat-template)",
                   n);
}

/* Tokens of the first n messages, until the next call. */
static int ids_of_first(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, size_t n, bool prompt,
                        struct chat_buf *b, struct ids *ids, struct snug_err *err)
{
    TRY(render(c, b, messages, n, prompt, &b->part, err));
    return ids_of(t, str_text(&b->part.text), b->part.text.n, true, &b->prefix, ids, err);
}

/* How many they are; they must be the first of all. */
static int prefix_of(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, size_t n, bool prompt,
                     struct chat_buf *b, size_t *tokens, struct snug_err *err)
{
    struct ids ids;
    TRY(ids_of_first(c, t, messages, n, prompt, b, &ids, err));
    *tokens = common(ids, b);
    return *tokens == ids.n ? SNUG_OK : refuse_prefix(n, err);
}

static bool is_end(const struct chat_setup *c, int32_t id)
{
    bool yes = false;
    for (int i = 0; i < c->n_ends; i++)
        yes |= c->ends[i] == id;
    return yes;
}

/* What stands behind the answer's end, such as a newline, is no part of it. */
static size_t end_of_answer(const struct chat_setup *c, const struct chat_buf *b, size_t from, size_t to)
{
    for (size_t i = to; i > from; i--)
        if (is_end(c, b->ids[i - 1]))
            return i;
    return to;
}

/* Where answer i ends, whose first token is `from`, in a conversation that goes on: in front of what begins the next answer behind it, which
 * are the tokens in front of `from`. What closes it without ending a text, such as gpt-oss's <|end|>, is context: a model that writes it
 * would go on. */
static int end_within(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, size_t i, size_t from,
                      struct chat_buf *b, size_t *to, struct snug_err *err)
{
    struct ids ids;
    size_t before, begin;
    TRY(prefix_of(c, t, messages, i, false, b, &before, err));
    begin = from - (before < from ? before : from);
    TRY(ids_of_first(c, t, messages, i + 1, true, b, &ids, err));
    *to = ids.n - (begin < ids.n ? begin : ids.n);
    if (common(ids, b) < *to || *to <= from ||
        memcmp(ids.ids + *to, b->ids + from - begin, begin * sizeof *ids.ids) != 0)
        return refuse_prefix(i + 1, err);
    size_t end = end_of_answer(c, b, from, *to);
    *to = end < *to || is_end(c, b->ids[end - 1]) || !tokenizer_is_special(t, b->ids[end - 1]) ? end : end - 1;
    return SNUG_OK;
}

/* Behind the answer's last token. */
static int find_end(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, size_t i, size_t from,
                    struct chat_buf *b, size_t *to, struct snug_err *err)
{
    struct ids ids;
    TRY(ids_of_first(c, t, messages, i + 1, false, b, &ids, err));
    *to = common(ids, b);
    if (*to < ids.n)
        return end_within(c, t, messages, i, from, b, to, err);
    *to = end_of_answer(c, b, from, *to);
    return SNUG_OK;
}

static int mask_answers(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, struct chat_buf *b,
                        struct snug_err *err)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        size_t from, to;
        if (strcmp(role, "assistant") != 0 || i == 0) /* nothing shows where a greeting begins, so it is context */
            continue;
        TRY(prefix_of(c, t, messages, i, true, b, &from, err));
        TRY(find_end(c, t, messages, i, from, b, &to, err));
        memset(b->mask + from, 1, to > from ? to - from : 0);
    }
    return SNUG_OK;
}

static int encode_messages(const struct chat_setup *c, const struct tokenizer *t, json_t *messages, struct chat_buf *b,
                           struct snug_err *err)
{
    TRY(check_messages(messages, "'messages'", err));
    TRY(render_all(c, t, messages, !c->assistant_only, b, err));
    if (!c->assistant_only)
        return SNUG_OK;
    return chat_template_has_generation(c->template) ? mask_marks(t, b, err) : mask_answers(c, t, messages, b, err);
}

/* ---- prompts ---- */

static int encode_texts(const struct chat_setup *c, const struct tokenizer *t, json_t *prompt, json_t *completion,
                        struct chat_buf *b, struct snug_err *err)
{
    struct str text = {0};
    struct ids ids = {0};
    const char *end = end_of_text(c, t);
    size_t n = end ? strlen(end) : 0;
    str_append(&text, json_string_value(prompt));
    str_append(&text, json_string_value(completion));
    if (end && (text.n < n || strcmp(text.s + text.n - n, end) != 0))
        str_append(&text, end);
    int code = str_check(&text, err);
    if (!code)
        code = ids_of(t, str_text(&text), text.n, false, &b->tokens, &ids, err);
    str_free(&text);
    if (!code)
        code = start(b, ids, true, err);
    if (code || !c->completion_only)
        return code;
    TRY(ids_of(t, json_string_value(prompt), json_string_length(prompt), false, &b->prefix, &ids, err));
    memset(b->mask, 0, common(ids, b));
    return SNUG_OK;
}

static int encode_both(const struct chat_setup *c, const struct tokenizer *t, json_t *prompt, json_t *completion,
                       struct chat_buf *b, struct snug_err *err)
{
    size_t tokens;
    TRY(check_messages(prompt, "'prompt'", err));
    TRY(check_messages(completion, "'completion'", err));
    json_t *all = json_copy(prompt);
    int code = all && !json_array_extend(all, completion) ? SNUG_OK : err_no_memory(err, sizeof all);
    if (!code)
        code = encode_messages(c, t, all, b, err);
    if (!code && c->completion_only)
        code = prefix_of(c, t, all, json_array_size(prompt), true, b, &tokens, err);
    if (!code && c->completion_only)
        memset(b->mask, 0, tokens);
    json_decref(all);
    return code;
}

static int encode_prompt(const struct chat_setup *c, const struct tokenizer *t, json_t *prompt, json_t *completion,
                         struct chat_buf *b, struct snug_err *err)
{
    if (json_is_string(prompt) && json_is_string(completion))
        return encode_texts(c, t, prompt, completion, b, err);
    if (json_is_array(prompt) && json_is_array(completion))
        return encode_both(c, t, prompt, completion, b, err);
    return refuse(err, json_is_string(prompt) || json_is_array(prompt) ? "'completion'" : "'prompt'",
                  json_is_string(prompt) || json_is_array(prompt) ? completion : prompt,
                  "give two strings, or two lists of messages");
}

/* ---- rows ---- */

static int encode(const struct chat_setup *c, const struct tokenizer *t, const struct columns *columns, json_t *row,
                  struct chat_buf *b, struct snug_err *err)
{
    json_t *first = json_object_get(row, columns->names[columns->turns]), *messages = NULL;
    TRY(find_variables(row, b, err));
    if (columns->form == ROWS_PROMPT)
        return encode_prompt(c, t, first, json_object_get(row, columns->names[columns->completion]), b, err);
    if (columns->form == ROWS_MESSAGES)
        return encode_messages(c, t, first, b, err);
    int code = of_conversations(first, &messages, err);
    if (!code)
        code = encode_messages(c, t, messages, b, err);
    json_decref(messages);
    return code;
}

int chat_row_encode(const struct chat_setup *c, const struct tokenizer *t, int64_t max_length,
                    const struct columns *columns, json_t *row, struct chat_buf *b, struct snug_err *err)
{
    TRY(encode(c, t, columns, row, b, err));
    b->truncated = max_length && b->n > (size_t)max_length;
    b->n = b->truncated ? (size_t)max_length : b->n;
    b->has_target = b->n > 1 && memchr(b->mask + 1, 1, b->n - 1);
    return SNUG_OK;
}
