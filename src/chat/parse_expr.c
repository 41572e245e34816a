/* Expressions, by the precedence of Jinja: "… if … else …" binds least, then or, and, not, comparisons, + and -, ~,
 * * / // %, **, the signs; filters, tests, calls and items bind most. */
#include "chat/tree.h"

#include <string.h>

int chat_new_expr(struct chat_parser *p, enum chat_expr_kind kind, struct chat_expr **out)
{
    void *e;
    TRY(chat_parse_alloc(p, sizeof **out, &e));
    *out = e;
    **out = (struct chat_expr){.kind = kind, .line = p->token->line};
    return SNUG_OK;
}

static int new_of(struct chat_parser *p, enum chat_expr_kind kind, const char *name, struct chat_expr *a,
                  struct chat_expr *b, struct chat_expr **out)
{
    struct chat_expr *e;
    TRY(chat_new_expr(p, kind, &e));
    e->name = name;
    e->a = a;
    e->b = b;
    *out = e;
    return SNUG_OK;
}

/* ---- what stands behind ---- */

static int parse_args(struct chat_parser *p, struct chat_expr *e)
{
    TRY(chat_expect(p, "("));
    for (bool named = false; !chat_take(p, ")");) {
        if (e->n_args)
            TRY(chat_expect(p, ","));
        if (chat_take(p, ")"))
            break;
        if (chat_at(p, "*") || chat_at(p, "**"))
            return chat_parse_fail(p, "arguments with '*' are not known to snug");
        const char *name = NULL;
        if (p->token->kind == CHAT_NAME && p->token[1].kind == CHAT_OPERATOR && !strcmp(p->token[1].s, "=")) {
            name = p->token->s;
            p->token += 2;
            named = true;
        } else if (named) {
            return chat_parse_fail(p, "an argument without a name behind one with a name");
        }
        struct chat_expr *arg;
        TRY(chat_parse_expr(p, &arg));
        TRY(chat_add_arg(p, e, name, arg));
    }
    return SNUG_OK;
}

static int parse_slice_part(struct chat_parser *p, struct chat_expr *e)
{
    struct chat_expr *part = NULL;
    if (!chat_at(p, ":") && !chat_at(p, "]"))
        TRY(chat_parse_expr(p, &part));
    return chat_add_arg(p, e, NULL, part);
}

/* Behind '[': an item or a slice. */
static int parse_subscript(struct chat_parser *p, struct chat_expr **e)
{
    struct chat_expr *s;
    TRY(new_of(p, CHAT_X_SLICE, NULL, *e, NULL, &s));
    TRY(parse_slice_part(p, s));
    if (chat_take(p, "]")) {
        if (!s->args[0])
            return chat_parse_fail(p, "nothing between '[' and ']'");
        s->kind = CHAT_X_ITEM;
        s->b = s->args[0];
    } else {
        for (int i = 1; i < 3; i++)
            if (chat_take(p, ":"))
                TRY(parse_slice_part(p, s));
            else
                TRY(chat_add_arg(p, s, NULL, NULL));
        TRY(chat_expect(p, "]"));
    }
    *e = s;
    return SNUG_OK;
}

static int parse_attr(struct chat_parser *p, struct chat_expr **e)
{
    if (p->token->kind == CHAT_INTEGER) { /* a.0 is a[0] */
        struct chat_expr *index;
        TRY(chat_parse_number(p, &index));
        return new_of(p, CHAT_X_ITEM, NULL, *e, index, e);
    }
    const char *name;
    TRY(chat_take_name(p, &name));
    return new_of(p, CHAT_X_ATTR, name, *e, NULL, e);
}

static int parse_call(struct chat_parser *p, struct chat_expr **e)
{
    TRY(new_of(p, CHAT_X_CALL, NULL, *e, NULL, e));
    return parse_args(p, *e);
}

/* Parses what is next behind *e, if that goes on with *e; `more` says whether it did. */
typedef int parse_step(struct chat_parser *p, struct chat_expr **e, bool *more);

/* All steps that follow one another. Each makes the tree one level deeper, which is evaluated by a call. */
static int parse_chain(struct chat_parser *p, struct chat_expr **e, parse_step *step)
{
    int depth = p->depth, code = SNUG_OK;
    bool more = true;
    while (!code && more) {
        code = step(p, e, &more);
        if (!code && more)
            code = chat_parse_deeper(p);
    }
    p->depth = depth;
    return code;
}

static int postfix_step(struct chat_parser *p, struct chat_expr **e, bool *more)
{
    if (chat_take(p, "."))
        return parse_attr(p, e);
    if (chat_take(p, "["))
        return parse_subscript(p, e);
    *more = chat_at(p, "(");
    return *more ? parse_call(p, e) : SNUG_OK;
}

static int parse_postfix(struct chat_parser *p, struct chat_expr **e)
{
    return parse_chain(p, e, postfix_step);
}

static int parse_filter(struct chat_parser *p, struct chat_expr **e)
{
    const char *name;
    TRY(chat_take_name(p, &name));
    TRY(new_of(p, CHAT_X_FILTER, name, *e, NULL, e));
    return chat_at(p, "(") ? parse_args(p, *e) : SNUG_OK;
}

static bool begins_argument(const struct chat_parser *p)
{
    enum chat_token_kind k = p->token->kind;
    if (k == CHAT_NAME)
        return !chat_at(p, "else") && !chat_at(p, "or") && !chat_at(p, "and") && !chat_at(p, "is");
    return k == CHAT_STRING || k == CHAT_INTEGER || k == CHAT_FLOAT || chat_at(p, "[") || chat_at(p, "{");
}

static int parse_test(struct chat_parser *p, struct chat_expr **e)
{
    bool negated = chat_take(p, "not");
    const char *name;
    TRY(chat_take_name(p, &name));
    TRY(new_of(p, CHAT_X_TEST, name, *e, NULL, e));
    if (chat_at(p, "(")) {
        TRY(parse_args(p, *e));
    } else if (begins_argument(p)) {
        struct chat_expr *arg;
        TRY(chat_parse_value(p, &arg));
        TRY(parse_postfix(p, &arg));
        TRY(chat_add_arg(p, *e, NULL, arg));
    }
    return negated ? new_of(p, CHAT_X_NOT, NULL, *e, NULL, e) : SNUG_OK;
}

static int filter_step(struct chat_parser *p, struct chat_expr **e, bool *more)
{
    if (chat_take(p, "|"))
        return parse_filter(p, e);
    if (chat_take(p, "is"))
        return parse_test(p, e);
    *more = chat_at(p, "(");
    return *more ? parse_call(p, e) : SNUG_OK;
}

int chat_parse_filters(struct chat_parser *p, struct chat_expr *of, struct chat_expr **out)
{
    *out = of;
    return parse_chain(p, out, filter_step);
}

/* ---- what stands between ---- */

static int parse_unary(struct chat_parser *p, bool with_filters, struct chat_expr **out)
{
    TRY(chat_parse_deeper(p));
    bool minus = chat_take(p, "-"), plus = !minus && chat_take(p, "+");
    if (minus || plus) {
        struct chat_expr *of;
        TRY(parse_unary(p, false, &of));
        TRY(new_of(p, minus ? CHAT_X_NEGATE : CHAT_X_PLUS, NULL, of, NULL, out));
    } else {
        TRY(chat_parse_value(p, out));
    }
    TRY(parse_postfix(p, out));
    if (with_filters)
        TRY(chat_parse_filters(p, *out, out));
    p->depth--;
    return SNUG_OK;
}

/* The levels of operators that are computed from the left, from the one that binds least. */
static int parse_binary(struct chat_parser *p, int level, struct chat_expr **out)
{
    static const char *const operators[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    enum { LEVELS = sizeof operators / sizeof *operators };
    if (level == LEVELS)
        return parse_unary(p, true, out);
    TRY(parse_binary(p, level + 1, out));
    int depth = p->depth;
    for (;;) {
        const char *found = NULL;
        for (int i = 0; i < 4 && operators[level][i] && !found; i++)
            found = chat_take(p, operators[level][i]) ? operators[level][i] : NULL;
        if (!found)
            break;
        struct chat_expr *right;
        TRY(chat_parse_deeper(p));
        TRY(parse_binary(p, level + 1, &right));
        TRY(new_of(p, CHAT_X_BINARY, found, *out, right, out));
    }
    p->depth = depth;
    return SNUG_OK;
}

static const char *take_comparison(struct chat_parser *p)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">", "in"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (chat_take(p, operators[i]))
            return operators[i];
    if (chat_at(p, "not") && p->token[1].kind == CHAT_NAME && !strcmp(p->token[1].s, "in")) {
        p->token += 2;
        return "not in";
    }
    return NULL;
}

static int parse_compare(struct chat_parser *p, struct chat_expr **out)
{
    struct chat_expr *last = NULL, *left;
    TRY(parse_binary(p, 0, out));
    left = *out;
    for (const char *op; (op = take_comparison(p));) {
        struct chat_expr *right, *e;
        TRY(parse_binary(p, 0, &right));
        TRY(new_of(p, CHAT_X_COMPARE, op, left, right, &e));
        if (last)
            last->next = e;
        else
            *out = e;
        last = e;
        left = right;
    }
    return SNUG_OK;
}

static int parse_not(struct chat_parser *p, struct chat_expr **out)
{
    if (!chat_take(p, "not"))
        return parse_compare(p, out);
    TRY(chat_parse_deeper(p));
    TRY(parse_not(p, out));
    p->depth--;
    return new_of(p, CHAT_X_NOT, NULL, *out, NULL, out);
}

static int parse_and(struct chat_parser *p, struct chat_expr **out)
{
    TRY(parse_not(p, out));
    int depth = p->depth;
    while (chat_take(p, "and")) {
        struct chat_expr *right;
        TRY(chat_parse_deeper(p));
        TRY(parse_not(p, &right));
        TRY(new_of(p, CHAT_X_AND, NULL, *out, right, out));
    }
    p->depth = depth;
    return SNUG_OK;
}

int chat_parse_or(struct chat_parser *p, struct chat_expr **out)
{
    TRY(parse_and(p, out));
    int depth = p->depth;
    while (chat_take(p, "or")) {
        struct chat_expr *right;
        TRY(chat_parse_deeper(p));
        TRY(parse_and(p, &right));
        TRY(new_of(p, CHAT_X_OR, NULL, *out, right, out));
    }
    p->depth = depth;
    return SNUG_OK;
}

int chat_parse_expr(struct chat_parser *p, struct chat_expr **out)
{
    TRY(chat_parse_deeper(p));
    TRY(chat_parse_or(p, out));
    int depth = p->depth;
    while (chat_take(p, "if")) {
        struct chat_expr *e;
        TRY(chat_parse_deeper(p));
        TRY(new_of(p, CHAT_X_IF, NULL, *out, NULL, &e));
        TRY(chat_parse_or(p, &e->b));
        if (chat_take(p, "else"))
            TRY(chat_parse_expr(p, &e->c));
        *out = e;
    }
    p->depth = depth - 1;
    return SNUG_OK;
}

static bool ends_tuple(const struct chat_parser *p)
{
    return p->token->kind == CHAT_BLOCK_END || p->token->kind == CHAT_PRINT_END;
}

int chat_parse_tuple(struct chat_parser *p, struct chat_expr **out)
{
    TRY(chat_parse_expr(p, out));
    if (!chat_at(p, ","))
        return SNUG_OK;
    struct chat_expr *tuple;
    TRY(chat_new_expr(p, CHAT_X_TUPLE, &tuple));
    TRY(chat_add_arg(p, tuple, NULL, *out));
    while (chat_take(p, ",") && !ends_tuple(p)) {
        struct chat_expr *item;
        TRY(chat_parse_expr(p, &item));
        TRY(chat_add_arg(p, tuple, NULL, item));
    }
    *out = tuple;
    return SNUG_OK;
}

static int parse_one_target(struct chat_parser *p, struct chat_expr **out)
{
    const char *name;
    TRY(chat_new_expr(p, CHAT_X_NAME, out));
    TRY(chat_take_name(p, &name));
    (*out)->name = name;
    if (chat_take(p, ".")) {
        TRY(chat_take_name(p, &name));
        TRY(new_of(p, CHAT_X_ATTR, name, *out, NULL, out));
    }
    return SNUG_OK;
}

int chat_parse_target(struct chat_parser *p, struct chat_expr **out)
{
    bool parentheses = chat_take(p, "(");
    TRY(parse_one_target(p, out));
    if (chat_at(p, ",")) {
        struct chat_expr *tuple;
        TRY(chat_new_expr(p, CHAT_X_TUPLE, &tuple));
        TRY(chat_add_arg(p, tuple, NULL, *out));
        while (chat_take(p, ",")) {
            TRY(parse_one_target(p, out));
            TRY(chat_add_arg(p, tuple, NULL, *out));
        }
        *out = tuple;
    }
    return parentheses ? chat_expect(p, ")") : SNUG_OK;
}
