#include "chat/template.h"

#include "chat/eval.h"

#include <string.h>

enum { TEMPLATE_BYTES = 4 << 20 };

struct chat_template {
    const char *name;
    struct arena arena;
    struct chat_stmt *body;
    struct hash128 hash;
    bool has_generation, reads_clock;
};

/* As Jinja reads a source: CR and CRLF are newlines, and one at the end is dropped. */
static int copy_source(struct chat_template *t, const char *text, size_t bytes, const char **out, size_t *n,
                       struct snug_err *err)
{
    char *s = arena_alloc(&t->arena, bytes + 1);
    if (!s)
        return err_no_memory(err, bytes);
    for (size_t i = 0, k; i < bytes; i += k) {
        k = (size_t)utf8_sequence(text + i, bytes - i);
        if (!k || !text[i])
            return err_set(err, SNUG_ERR_INPUT, "%s: byte %zu is no UTF-8; write the template as UTF-8", t->name, i);
    }
    size_t to = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool pair = text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n';
        if (!pair)
            s[to++] = text[i] == '\r' ? '\n' : text[i];
    }
    to -= to && s[to - 1] == '\n';
    *out = s;
    *n = to;
    return SNUG_OK;
}

static int parse(struct chat_template *t, const char *text, size_t bytes, struct snug_err *err)
{
    const char *source = NULL;
    struct chat_token *tokens;
    size_t n = 0, n_tokens;
    if (bytes > TEMPLATE_BYTES)
        return err_set(err, SNUG_ERR_INPUT, "%s: %zu bytes, over the %d MiB of a template; give another file", t->name,
                       bytes, TEMPLATE_BYTES >> 20);
    TRY(copy_source(t, text, bytes, &source, &n, err));
    TRY(chat_lex(t->name, source, n, &t->arena, &tokens, &n_tokens, err));
    struct chat_parser p = {.name = t->name, .token = tokens, .arena = &t->arena, .err = err};
    TRY(chat_parse(&p, &t->body));
    t->has_generation = p.has_generation;
    t->reads_clock = p.reads_clock;
    return SNUG_OK;
}

int chat_template_open(const char *name, const char *text, size_t bytes, struct chat_template **out,
                       struct snug_err *err)
{
    struct chat_template *t = *out = mem_alloc(sizeof *t);
    if (!t)
        return err_no_memory(err, sizeof *t);
    t->hash = hash_bytes(text, bytes);
    t->name = arena_strdup(&t->arena, name);
    int code = t->name ? parse(t, text, bytes, err) : err_no_memory(err, strlen(name) + 1);
    if (code) {
        chat_template_close(t);
        *out = NULL;
    }
    return code;
}

void chat_template_close(struct chat_template *t)
{
    if (!t)
        return;
    arena_free(&t->arena);
    mem_free(t);
}

bool chat_template_has_generation(const struct chat_template *t)
{
    return t->has_generation;
}

struct hash128 chat_template_hash(const struct chat_template *t)
{
    return t->hash;
}

bool chat_template_reads_clock(const struct chat_template *t)
{
    return t->reads_clock;
}

/* A message as transformers hands it over: what is null is left out, and thoughts have both names that templates read. What is no object
 * stays for the template to refuse. */
static int make_message(struct chat_run *r, struct chat_value given, struct chat_value *out)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const struct chat_value *thoughts = NULL;
    const struct chat_dict *d = given.dict;
    *out = given;
    if (given.kind != CHAT_DICT)
        return SNUG_OK;
    TRY(chat_dict_new(r, CHAT_DICT, out));
    for (size_t i = 0; i < sizeof names / sizeof *names && (!thoughts || thoughts->kind == CHAT_NONE); i++)
        thoughts = chat_dict_get(d, chat_word(names[i]));
    bool thinks = thoughts && thoughts->kind != CHAT_NONE;
    if (thinks)
        TRY(chat_dict_set(r, out->dict, chat_word("thinking"), *thoughts));
    for (size_t i = 0; i < d->n; i++)
        if (d->values[i].kind != CHAT_NONE)
            TRY(chat_dict_set(r, out->dict, d->keys[i], d->values[i]));
    return thinks ? chat_dict_set(r, out->dict, chat_word("reasoning_content"), *thoughts) : SNUG_OK;
}

static int make_messages(struct chat_run *r, json_t *messages, struct chat_value *out)
{
    struct chat_value given, message;
    struct chat_list *list;
    TRY(chat_of_json(r, messages, &given));
    *out = given;
    if (given.kind != CHAT_LIST)
        return SNUG_OK;
    TRY(chat_list_new(r, CHAT_LIST, given.list->n, &list, out));
    for (size_t i = 0; i < given.list->n; i++) {
        TRY(make_message(r, given.list->items[i], &message));
        TRY(chat_list_add(r, list, message));
    }
    return SNUG_OK;
}

/* What transformers gives to a template. */
static int set_variables(struct chat_run *r, const struct chat_input *in)
{
    struct chat_value v;
    TRY(chat_scope_new(r, NULL, &r->scope));
    TRY(chat_scope_set(r, r->scope, "tools", (struct chat_value){.kind = CHAT_NONE}));
    TRY(chat_scope_set(r, r->scope, "documents", (struct chat_value){.kind = CHAT_NONE}));
    TRY(chat_scope_set(r, r->scope, "add_generation_prompt", chat_bool(in->add_generation_prompt)));
    for (size_t i = 0; i < in->n_tokens; i++)
        TRY(chat_scope_set(r, r->scope, in->tokens[i].name, chat_word(in->tokens[i].text)));
    for (size_t i = 0; i < in->n_more; i++) {
        TRY(chat_of_json(r, in->more[i], &v));
        TRY(chat_scope_set(r, r->scope, in->more_names[i], v));
    }
    TRY(make_messages(r, in->messages, &v));
    return chat_scope_set(r, r->scope, "messages", v);
}

int chat_template_render(const struct chat_template *t, const struct chat_input *in, struct chat_rendering *out,
                         struct snug_err *err)
{
    struct chat_run r = {.name = t->name, .line = 1, .now = in->now, .out = &out->text, .rendering = out, .err = err};
    out->n_marks = 0;
    if (out->text.s)
        out->text.s[0] = 0;
    out->text.n = 0;
    int code = set_variables(&r, in);
    if (!code)
        code = chat_render_all(&r, t->body);
    if (!code)
        code = str_check(&out->text, err);
    arena_free(&r.arena);
    return code;
}

void chat_rendering_free(struct chat_rendering *r)
{
    str_free(&r->text);
    mem_free(r->marks);
    *r = (struct chat_rendering){0};
}
