/* Statements, and what the parser's parts share. */
#include "chat/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int chat_parse_fail(const struct chat_parser *p, const char *format, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return err_set(p->err, SNUG_ERR_INPUT, "%s: line %d: %s", p->name, p->token->line, text);
}

int chat_parse_alloc(struct chat_parser *p, size_t bytes, void **out)
{
    *out = arena_alloc(p->arena, bytes);
    return *out ? SNUG_OK : err_no_memory(p->err, bytes);
}

int chat_parse_deeper(struct chat_parser *p)
{
    return ++p->depth <= CHAT_DEPTH ? SNUG_OK : chat_parse_fail(p, "nested deeper than %d", CHAT_DEPTH);
}

bool chat_at(const struct chat_parser *p, const char *what)
{
    enum chat_token_kind kind = p->token->kind;
    return (kind == CHAT_NAME || kind == CHAT_OPERATOR) && strcmp(p->token->s, what) == 0;
}

bool chat_take(struct chat_parser *p, const char *what)
{
    bool there = chat_at(p, what);
    p->token += there;
    return there;
}

int chat_expect(struct chat_parser *p, const char *what)
{
    if (chat_take(p, what))
        return SNUG_OK;
    return chat_parse_fail(p, "'%.*s' where '%s' was expected", (int)(p->token->n < 40 ? p->token->n : 40), p->token->s,
                           what);
}

int chat_take_name(struct chat_parser *p, const char **name)
{
    if (p->token->kind != CHAT_NAME)
        return chat_parse_fail(p, "'%.*s' where a name was expected", (int)(p->token->n < 40 ? p->token->n : 40),
                               p->token->s);
    *name = (p->token++)->s;
    return SNUG_OK;
}

static int end_of_block(struct chat_parser *p)
{
    if (p->token->kind != CHAT_BLOCK_END)
        return chat_parse_fail(p, "'%.*s' where %%} was expected", (int)(p->token->n < 40 ? p->token->n : 40),
                               p->token->s);
    p->token++;
    return SNUG_OK;
}

static int parse_body(struct chat_parser *p, const char *const *ends, struct chat_stmt **out);

/* A body up to {% NAME %}, which is read. */
static int body_until(struct chat_parser *p, const char *end, struct chat_stmt **out)
{
    TRY(end_of_block(p));
    TRY(parse_body(p, (const char *const[]){end, NULL}, out));
    p->token++;
    return end_of_block(p);
}

static int parse_for(struct chat_parser *p, struct chat_stmt *s)
{
    s->kind = CHAT_S_FOR;
    TRY(chat_parse_target(p, &s->target));
    TRY(chat_expect(p, "in"));
    struct chat_expr *first;
    TRY(chat_parse_or(p, &first));
    s->expr = first;
    if (chat_take(p, "if"))
        TRY(chat_parse_expr(p, &s->test));
    if (chat_at(p, "recursive"))
        return chat_parse_fail(p, "a recursive loop is not known to snug");
    TRY(end_of_block(p));
    p->loops++;
    TRY(parse_body(p, (const char *const[]){"endfor", "else", NULL}, &s->body));
    p->loops--;
    if (!chat_take(p, "else")) {
        p->token++;
        return end_of_block(p);
    }
    return body_until(p, "endfor", &s->orelse);
}

static int parse_if(struct chat_parser *p, struct chat_stmt *s)
{
    for (;;) {
        s->kind = CHAT_S_IF;
        TRY(chat_parse_tuple(p, &s->expr));
        TRY(end_of_block(p));
        TRY(parse_body(p, (const char *const[]){"elif", "else", "endif", NULL}, &s->body));
        if (chat_take(p, "else"))
            return body_until(p, "endif", &s->orelse);
        if (chat_take(p, "endif"))
            return end_of_block(p);
        void *next;
        p->token++; /* elif */
        TRY(chat_parse_alloc(p, sizeof *s, &next));
        s->orelse = next;
        s = next;
        s->line = p->token->line;
    }
}

static int parse_set(struct chat_parser *p, struct chat_stmt *s)
{
    TRY(chat_parse_target(p, &s->target));
    if (chat_take(p, "=")) {
        s->kind = CHAT_S_SET;
        TRY(chat_parse_tuple(p, &s->expr));
        return end_of_block(p);
    }
    s->kind = CHAT_S_SET_BLOCK;
    if (chat_at(p, "|")) {
        struct chat_expr *block;
        TRY(chat_new_expr(p, CHAT_X_NAME, &block));
        block->name = CHAT_BLOCK_VALUE;
        TRY(chat_parse_filters(p, block, &s->expr));
    }
    return body_until(p, "endset", &s->body);
}

static int parse_macro(struct chat_parser *p, struct chat_stmt *s)
{
    void *params;
    s->kind = CHAT_S_MACRO;
    TRY(chat_take_name(p, &s->text));
    TRY(chat_expect(p, "("));
    TRY(chat_parse_alloc(p, CHAT_PARAMS * sizeof *s->params, &params));
    s->params = params;
    while (!chat_at(p, ")")) {
        if (s->n_params == CHAT_PARAMS)
            return chat_parse_fail(p, "a macro of more than %d parameters", CHAT_PARAMS);
        if (s->n_params)
            TRY(chat_expect(p, ","));
        struct chat_param *q = &s->params[s->n_params++];
        TRY(chat_take_name(p, &q->name));
        if (chat_take(p, "="))
            TRY(chat_parse_expr(p, &q->otherwise));
    }
    TRY(chat_expect(p, ")"));
    int loops = p->loops;
    p->loops = 0;
    int code = body_until(p, "endmacro", &s->body);
    p->loops = loops;
    return code;
}

static int parse_jump(struct chat_parser *p, struct chat_stmt *s, enum chat_stmt_kind kind)
{
    s->kind = kind;
    if (!p->loops)
        return chat_parse_fail(p, "'%s' outside of a loop", kind == CHAT_S_BREAK ? "break" : "continue");
    return end_of_block(p);
}

static int parse_generation(struct chat_parser *p, struct chat_stmt *s)
{
    s->kind = CHAT_S_GENERATION;
    p->has_generation = true;
    int loops = p->loops; /* it is a call in transformers: no jump leads out of it */
    p->loops = 0;
    int code = body_until(p, "endgeneration", &s->body);
    p->loops = loops;
    return code;
}

static int parse_block(struct chat_parser *p, struct chat_stmt *s)
{
    const char *name;
    TRY(chat_take_name(p, &name));
    if (!strcmp(name, "for"))
        return parse_for(p, s);
    if (!strcmp(name, "if"))
        return parse_if(p, s);
    if (!strcmp(name, "set"))
        return parse_set(p, s);
    if (!strcmp(name, "macro"))
        return parse_macro(p, s);
    if (!strcmp(name, "generation"))
        return parse_generation(p, s);
    if (!strcmp(name, "break"))
        return parse_jump(p, s, CHAT_S_BREAK);
    if (!strcmp(name, "continue"))
        return parse_jump(p, s, CHAT_S_CONTINUE);
    p->token--;
    return chat_parse_fail(p, "statement '%s' is not known to snug", name);
}

static int parse_print(struct chat_parser *p, struct chat_stmt *s)
{
    s->kind = CHAT_S_PRINT;
    TRY(chat_parse_tuple(p, &s->expr));
    if (p->token->kind != CHAT_PRINT_END)
        return chat_parse_fail(p, "'%.*s' where }} was expected", (int)(p->token->n < 40 ? p->token->n : 40),
                               p->token->s);
    p->token++;
    return SNUG_OK;
}

static bool at_one_of(const struct chat_parser *p, const char *const *ends)
{
    bool there = false;
    for (; *ends; ends++)
        there |= chat_at(p, *ends);
    return there;
}

/* Statements up to {% NAME with one of the names in `ends`: that name is read next. */
static int parse_body(struct chat_parser *p, const char *const *ends, struct chat_stmt **out)
{
    TRY(chat_parse_deeper(p));
    for (*out = NULL;; out = &(*out)->next) {
        enum chat_token_kind kind = p->token->kind;
        if (kind == CHAT_END && *ends)
            return chat_parse_fail(p, "the template ends where {%% %s %%} was expected", *ends);
        if (kind == CHAT_END)
            break;
        p->token += kind == CHAT_BLOCK_BEGIN || kind == CHAT_PRINT_BEGIN;
        if (kind == CHAT_BLOCK_BEGIN && at_one_of(p, ends))
            break;
        void *s;
        TRY(chat_parse_alloc(p, sizeof **out, &s));
        *out = s;
        (*out)->line = p->token->line;
        if (kind == CHAT_BLOCK_BEGIN) {
            TRY(parse_block(p, *out));
        } else if (kind == CHAT_PRINT_BEGIN) {
            TRY(parse_print(p, *out));
        } else {
            (*out)->text = p->token->s;
            (*out)->n = (p->token++)->n;
        }
    }
    p->depth--;
    return SNUG_OK;
}

int chat_parse(struct chat_parser *p, struct chat_stmt **out)
{
    return parse_body(p, (const char *const[]){NULL}, out);
}
