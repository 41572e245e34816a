/* Values as they stand in a template: numbers, strings, names, lists, tuples, objects. */
#include "chat/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGS = 4096 };

int chat_add_arg(struct chat_parser *p, struct chat_expr *e, const char *name, struct chat_expr *arg)
{
    if (e->n_args == MOST_ARGS)
        return chat_parse_fail(p, "a list of more than %d items", MOST_ARGS);
    if ((e->n_args & (e->n_args - 1)) == 0) { /* 0 and powers of 2: the room is full */
        size_t room = e->n_args ? 2 * (size_t)e->n_args : 1;
        void *args, *names;
        TRY(chat_parse_alloc(p, room * sizeof *e->args, &args));
        TRY(chat_parse_alloc(p, room * sizeof *e->arg_names, &names));
        if (e->n_args) {
            memcpy(args, e->args, (size_t)e->n_args * sizeof *e->args);
            memcpy(names, e->arg_names, (size_t)e->n_args * sizeof *e->arg_names);
        }
        e->args = args;
        e->arg_names = names;
    }
    e->args[e->n_args] = arg;
    e->arg_names[e->n_args++] = name;
    return SNUG_OK;
}

static int constant(struct chat_parser *p, struct chat_value v, struct chat_expr **out)
{
    TRY(chat_new_expr(p, CHAT_X_VALUE, out));
    (*out)->value = v;
    p->token++;
    return SNUG_OK;
}

int chat_parse_number(struct chat_parser *p, struct chat_expr **out)
{
    if (p->token->kind == CHAT_FLOAT)
        return constant(p, (struct chat_value){.kind = CHAT_REAL, .real = strtod(p->token->s, NULL)}, out);
    errno = 0;
    long long whole = strtoll(p->token->s, NULL, 10);
    if (errno)
        return chat_parse_fail(p, "an integer over 64 bits");
    return constant(p, chat_int(whole), out);
}

/* Strings that follow one another are one. */
static int parse_string(struct chat_parser *p, struct chat_expr **out)
{
    struct chat_value v = chat_text(p->token->s, p->token->n);
    while (p->token[1].kind == CHAT_STRING) {
        void *both;
        p->token++;
        TRY(chat_parse_alloc(p, v.text.n + p->token->n + 1, &both));
        memcpy(both, v.text.s, v.text.n);
        memcpy((char *)both + v.text.n, p->token->s, p->token->n);
        v = chat_text(both, v.text.n + p->token->n);
    }
    return constant(p, v, out);
}

static int parse_name(struct chat_parser *p, struct chat_expr **out)
{
    static const struct {
        const char *name;
        struct chat_value value;
    } constants[] = {
        {"true", {.kind = CHAT_BOOL, .yes = true}},
        {"True", {.kind = CHAT_BOOL, .yes = true}},
        {"false", {.kind = CHAT_BOOL, .yes = false}},
        {"False", {.kind = CHAT_BOOL, .yes = false}},
        {"none", {.kind = CHAT_NONE}},
        {"None", {.kind = CHAT_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (chat_at(p, constants[i].name))
            return constant(p, constants[i].value, out);
    TRY(chat_new_expr(p, CHAT_X_NAME, out));
    (*out)->name = (p->token++)->s;
    p->reads_clock |= !strcmp((*out)->name, "strftime_now");
    return SNUG_OK;
}

/* Items up to `end`, which is read. A comma may stand behind the last. */
static int parse_items(struct chat_parser *p, struct chat_expr *e, const char *end, bool *comma)
{
    *comma = false;
    while (!chat_take(p, end)) {
        if (e->n_args) {
            TRY(chat_expect(p, ","));
            *comma = true;
            if (chat_take(p, end))
                break;
        }
        struct chat_expr *item;
        TRY(chat_parse_expr(p, &item));
        TRY(chat_add_arg(p, e, NULL, item));
    }
    return SNUG_OK;
}

static int parse_dict(struct chat_parser *p, struct chat_expr **out)
{
    TRY(chat_new_expr(p, CHAT_X_DICT, out));
    while (!chat_take(p, "}")) {
        struct chat_expr *key, *value;
        if ((*out)->n_args)
            TRY(chat_expect(p, ","));
        if (chat_take(p, "}"))
            break;
        TRY(chat_parse_expr(p, &key));
        TRY(chat_expect(p, ":"));
        TRY(chat_parse_expr(p, &value));
        TRY(chat_add_arg(p, *out, NULL, key));
        TRY(chat_add_arg(p, *out, NULL, value));
    }
    return SNUG_OK;
}

int chat_parse_value(struct chat_parser *p, struct chat_expr **out)
{
    bool comma;
    switch (p->token->kind) {
    case CHAT_NAME:
        return parse_name(p, out);
    case CHAT_STRING:
        return parse_string(p, out);
    case CHAT_INTEGER:
    case CHAT_FLOAT:
        return chat_parse_number(p, out);
    default:
        break;
    }
    if (chat_take(p, "(")) {
        TRY(chat_new_expr(p, CHAT_X_TUPLE, out));
        TRY(parse_items(p, *out, ")", &comma));
        if ((*out)->n_args == 1 && !comma)
            *out = (*out)->args[0];
        return SNUG_OK;
    }
    if (chat_take(p, "[")) {
        TRY(chat_new_expr(p, CHAT_X_LIST, out));
        return parse_items(p, *out, "]", &comma);
    }
    if (chat_take(p, "{"))
        return parse_dict(p, out);
    return chat_parse_fail(p, "'%.*s' where a value was expected", (int)(p->token->n < 40 ? p->token->n : 40),
                           p->token->s);
}
