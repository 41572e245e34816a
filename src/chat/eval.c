#include "chat/eval.h"

#include "chat/text.h"

#include <math.h>
#include <string.h>

/* ---- variables ---- */

int chat_scope_new(struct chat_run *r, struct chat_scope *parent, struct chat_scope **out)
{
    void *s;
    TRY(chat_alloc(r, sizeof **out, &s));
    *out = s;
    (*out)->parent = parent;
    return SNUG_OK;
}

int chat_scope_set(struct chat_run *r, struct chat_scope *s, const char *name, struct chat_value v)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->names[i], name)) {
            s->values[i] = v;
            return SNUG_OK;
        }
    if (s->n == s->cap) {
        void *names, *values;
        size_t cap = s->cap ? 2 * s->cap : 8;
        TRY(chat_larger(r, s->names, s->n, cap, sizeof *s->names, &names));
        TRY(chat_larger(r, s->values, s->n, cap, sizeof *s->values, &values));
        s->names = names;
        s->values = values;
        s->cap = cap;
    }
    s->names[s->n] = name;
    s->values[s->n++] = v;
    return SNUG_OK;
}

struct chat_value chat_undefined(const char *name)
{
    return (struct chat_value){.kind = CHAT_UNDEFINED, .text = {name, strlen(name)}};
}

int chat_callable_new(struct chat_run *r, struct chat_callable c, struct chat_value *out)
{
    void *copy;
    TRY(chat_alloc(r, sizeof c, &copy));
    memcpy(copy, &c, sizeof c);
    *out = (struct chat_value){.kind = CHAT_CALLABLE, .call = copy};
    return SNUG_OK;
}

static int look_up(struct chat_run *r, const char *name, struct chat_value *out)
{
    for (const struct chat_scope *s = r->scope; s; s = s->parent)
        for (size_t i = 0; i < s->n; i++)
            if (!strcmp(s->names[i], name)) {
                *out = s->values[i];
                return SNUG_OK;
            }
    const struct chat_function *f = chat_global(name);
    *out = chat_undefined(name);
    return f ? chat_callable_new(r, (struct chat_callable){.function = f}, out) : SNUG_OK;
}

/* ---- parts of values ---- */

static int method_or_undefined(struct chat_run *r, struct chat_value of, const char *name, struct chat_value *out)
{
    const struct chat_function *f = chat_method(name, of.kind);
    *out = chat_undefined(name);
    return f ? chat_callable_new(r, (struct chat_callable){.function = f, .self = of}, out) : SNUG_OK;
}

int chat_attribute(struct chat_run *r, struct chat_value of, const char *name, struct chat_value *out)
{
    if (of.kind == CHAT_UNDEFINED)
        return chat_fail(r, "'%s' is undefined, and has no '%s'", of.text.s, name);
    TRY(method_or_undefined(r, of, name, out));
    if (out->kind == CHAT_UNDEFINED && (of.kind == CHAT_DICT || of.kind == CHAT_NAMESPACE)) {
        const struct chat_value *v = chat_dict_get(of.dict, chat_word(name));
        *out = v ? *v : *out;
    }
    return SNUG_OK;
}

int chat_item(struct chat_run *r, struct chat_value of, struct chat_value key, struct chat_value *out)
{
    if (of.kind == CHAT_UNDEFINED)
        return chat_fail(r, "'%s' is undefined, and has no items", of.text.s);
    *out = chat_undefined("item");
    if (of.kind == CHAT_DICT && key.kind != CHAT_TEXT) {
        const struct chat_value *v = chat_dict_get(of.dict, key);
        *out = v ? *v : *out;
    } else if ((of.kind == CHAT_LIST || of.kind == CHAT_TUPLE) && key.kind == CHAT_INT) {
        int64_t n = (int64_t)of.list->n, i = key.whole < 0 ? key.whole + n : key.whole;
        *out = i >= 0 && i < n ? of.list->items[i] : *out;
    } else if (of.kind == CHAT_TEXT && key.kind == CHAT_INT) {
        int64_t n = (int64_t)chat_length(of), i = key.whole < 0 ? key.whole + n : key.whole;
        if (i >= 0 && i < n) {
            size_t from = chat_offset(of, (size_t)i);
            struct chat_value rest = chat_text(of.text.s + from, of.text.n - from);
            *out = chat_text(rest.text.s, chat_offset(rest, 1));
        }
    } else if (key.kind == CHAT_TEXT) {
        const struct chat_value *v = of.kind == CHAT_DICT ? chat_dict_get(of.dict, key) : NULL;
        void *copy; /* with a 0 byte behind it */
        TRY(chat_alloc(r, key.text.n + 1, &copy));
        if (key.text.n)
            memcpy(copy, key.text.s, key.text.n);
        if (v)
            *out = *v;
        else
            TRY(method_or_undefined(r, of, copy, out));
    }
    return SNUG_OK;
}

static int eval_slice(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value of, v;
    int64_t at[3] = {0, 0, 1};
    bool given[3] = {false, false, false};
    TRY(chat_eval(r, e->a, &of));
    for (int i = 0; i < 3; i++) {
        if (!e->args[i])
            continue;
        TRY(chat_eval(r, e->args[i], &v));
        if (v.kind != CHAT_NONE)
            TRY(chat_int_arg(r, v, "a slice's bound", 0, &at[i]));
        given[i] = v.kind != CHAT_NONE;
    }
    return chat_slice(r, of, given[0] ? &at[0] : NULL, given[1] ? &at[1] : NULL, at[2], out);
}

/* ---- operators ---- */

static int too_large(struct chat_run *r)
{
    return chat_fail(r, "an integer over 64 bits");
}

static int64_t as_int(struct chat_value v)
{
    return v.kind == CHAT_BOOL ? v.yes : v.whole;
}

static int power(struct chat_run *r, int64_t x, int64_t y, struct chat_value *out)
{
    int64_t z = 1;
    for (int64_t i = 0; i < y && z != 0; i++) {
        TRY(chat_step(r));
        if (__builtin_mul_overflow(z, x, &z))
            return too_large(r);
    }
    *out = chat_int(z);
    return SNUG_OK;
}

static int compute_ints(struct chat_run *r, const char *op, int64_t x, int64_t y, struct chat_value *out)
{
    int64_t z = 0;
    bool over = false;
    if (!strcmp(op, "**") && y >= 0)
        return power(r, x, y, out);
    if (*op == '/' || *op == '%') {
        if (y == 0)
            return chat_fail(r, "a division by 0");
        if (y == -1)
            over = __builtin_sub_overflow(0, x, &z); /* the one quotient that does not fit */
        else
            z = x / y - (x % y != 0 && (x < 0) != (y < 0)); /* rounded down */
        if (*op == '%')
            z = y == -1 ? 0 : x - z * y;
        over &= *op != '%';
    } else {
        over = *op == '+'   ? __builtin_add_overflow(x, y, &z)
               : *op == '-' ? __builtin_sub_overflow(x, y, &z)
                            : __builtin_mul_overflow(x, y, &z);
    }
    *out = chat_int(z);
    return over ? too_large(r) : SNUG_OK;
}

static int compute_reals(struct chat_run *r, const char *op, double x, double y, struct chat_value *out)
{
    double z = 0;
    if ((*op == '/' || *op == '%') && y == 0)
        return chat_fail(r, "a division by 0");
    if (!strcmp(op, "**"))
        z = pow(x, y);
    else if (*op == '%')
        z = x - y * floor(x / y);
    else if (*op == '/')
        z = op[1] ? floor(x / y) : x / y;
    else
        z = *op == '+' ? x + y : *op == '-' ? x - y : x * y;
    *out = (struct chat_value){.kind = CHAT_REAL, .real = z};
    return SNUG_OK;
}

static int add_lists(struct chat_run *r, struct chat_value a, struct chat_value b, struct chat_value *out)
{
    struct chat_list *list;
    TRY(chat_list_new(r, a.kind, a.list->n + b.list->n, &list, out));
    for (size_t i = 0; i < a.list->n; i++)
        TRY(chat_list_add(r, list, a.list->items[i]));
    for (size_t i = 0; i < b.list->n; i++)
        TRY(chat_list_add(r, list, b.list->items[i]));
    return SNUG_OK;
}

static int repeat(struct chat_run *r, struct chat_value text, int64_t times, struct chat_value *out)
{
    void *s;
    size_t n = text.text.n, k = times > 0 ? (size_t)times : 0;
    TRY(chat_alloc(r, n && k > (size_t)CHAT_MEMORY / n ? (size_t)CHAT_MEMORY + 1 : n * k, &s));
    for (size_t i = 0; n && i < k; i++)
        memcpy((char *)s + i * n, text.text.s, n);
    *out = chat_text(s, n * k);
    return SNUG_OK;
}

int chat_compute(struct chat_run *r, const char *op, struct chat_value a, struct chat_value b, struct chat_value *out)
{
    if (*op == '~') {
        TRY(chat_as_text(r, a, &a));
        TRY(chat_as_text(r, b, &b));
        return chat_join_texts(r, a, b, out);
    }
    if (chat_is_number(a) && chat_is_number(b)) {
        bool reals =
            a.kind == CHAT_REAL || b.kind == CHAT_REAL || !strcmp(op, "/") || (!strcmp(op, "**") && as_int(b) < 0);
        return reals ? compute_reals(r, op, chat_number(a), chat_number(b), out)
                     : compute_ints(r, op, as_int(a), as_int(b), out);
    }
    if (*op == '+' && a.kind == CHAT_TEXT && b.kind == CHAT_TEXT)
        return chat_join_texts(r, a, b, out);
    if (*op == '+' && a.kind == b.kind && (a.kind == CHAT_LIST || a.kind == CHAT_TUPLE))
        return add_lists(r, a, b, out);
    if (!strcmp(op, "*") && a.kind == CHAT_TEXT && b.kind == CHAT_INT)
        return repeat(r, a, b.whole, out);
    const struct chat_value *absent = a.kind == CHAT_UNDEFINED ? &a : b.kind == CHAT_UNDEFINED ? &b : NULL;
    if (absent)
        return chat_fail(r, "'%s' is undefined", absent->text.s);
    return chat_fail(r, "'%s' between %s and %s is not known to snug", op, chat_kind_name(a), chat_kind_name(b));
}

static int compare(struct chat_run *r, const char *op, struct chat_value a, struct chat_value b, bool *yes)
{
    int order;
    if (!strcmp(op, "in") || !strcmp(op, "not in")) {
        TRY(chat_in(r, a, b, yes));
        *yes ^= *op == 'n';
        return SNUG_OK;
    }
    if (!strcmp(op, "==") || !strcmp(op, "!=")) {
        *yes = chat_equal(r, a, b) == (*op == '=');
        return SNUG_OK;
    }
    TRY(chat_compare(r, a, b, &order));
    *yes = op[1] == '=' && order == 0 ? true : *op == '<' ? order < 0 : order > 0;
    return SNUG_OK;
}

/* a < b < c: each value once, and only up to the first that is false. */
static int eval_compare(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value left, right;
    bool yes = true;
    TRY(chat_eval(r, e->a, &left));
    for (; e && yes; e = e->next, left = right) {
        TRY(chat_eval(r, e->b, &right));
        TRY(compare(r, e->name, left, right, &yes));
    }
    *out = chat_bool(yes);
    return SNUG_OK;
}

static int eval_sign(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value v;
    TRY(chat_eval(r, e->a, &v));
    return chat_compute(r, e->kind == CHAT_X_NEGATE ? "-" : "+", chat_int(0), v, out);
}

/* ---- calls ---- */

/* Where `name` is among "old,new,count"; -1: it is not. */
static int param_of(const char *params, const char *name, int *n_params)
{
    int found = -1, i = 0;
    for (const char *s = params; *s; i++) {
        size_t n = strcspn(s, ",");
        if (name && strlen(name) == n && !strncmp(s, name, n))
            found = i;
        s += n + (s[n] == ',');
    }
    *n_params = i;
    return found;
}

int chat_call_function(struct chat_run *r, const char *what, const struct chat_function *f, struct chat_value self,
                       const struct chat_args *args, struct chat_value *out)
{
    enum { MOST = 8 };
    struct chat_value sorted[MOST];
    int n_params;
    chat_work_on(r, self);
    if (!strcmp(f->params, "*"))
        return f->fn(r, self, args, out);
    param_of(f->params, NULL, &n_params);
    for (int i = 0; i < MOST; i++)
        sorted[i] = chat_undefined("argument");
    for (int i = 0; i < args->n; i++) {
        const char *name = args->names[i];
        int at = name ? param_of(f->params, name, &n_params) : i;
        if (at < 0 || at >= n_params)
            return name ? chat_fail(r, "%s '%s' with the argument '%s' is not known to snug", what, f->name, name)
                        : chat_fail(r, "%s '%s' with %d arguments is not known to snug", what, f->name, args->n);
        sorted[at] = args->v[i];
    }
    return f->fn(r, self, &(struct chat_args){.v = sorted, .n = n_params}, out);
}

static int eval_args(struct chat_run *r, const struct chat_expr *e, struct chat_args *args)
{
    void *v;
    TRY(chat_alloc(r, (size_t)e->n_args * sizeof *args->v, &v));
    *args = (struct chat_args){.v = v, .names = e->arg_names, .n = e->n_args};
    for (int i = 0; i < e->n_args; i++)
        TRY(chat_eval(r, e->args[i], &args->v[i]));
    return SNUG_OK;
}

static int no_callable(struct chat_run *r, const struct chat_expr *e, struct chat_value v)
{
    if (e->kind == CHAT_X_ATTR)
        return chat_fail(r, "method '%s' is not known to snug", e->name);
    if (e->kind == CHAT_X_NAME && v.kind == CHAT_UNDEFINED)
        return chat_fail(r, "function '%s' is not known to snug", e->name);
    return chat_fail(r, "a call of %s", chat_kind_name(v));
}

static int eval_call(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value f;
    struct chat_args args;
    TRY(chat_eval(r, e->a, &f));
    r->line = e->line;
    if (f.kind != CHAT_CALLABLE)
        return no_callable(r, e->a, f);
    TRY(eval_args(r, e, &args));
    r->line = e->line;
    if (f.call->macro)
        return chat_call_macro(r, f.call, &args, out);
    return chat_call_function(r, f.call->function->of ? "method" : "function", f.call->function, f.call->self, &args,
                              out);
}

static int eval_filter_or_test(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    bool filter = e->kind == CHAT_X_FILTER;
    const char *what = filter ? "filter" : "test";
    const struct chat_function *f = filter ? chat_filter(e->name) : chat_test(e->name);
    struct chat_value self;
    struct chat_args args;
    if (!f)
        return chat_fail(r, "%s '%s' is not known to snug", what, e->name);
    TRY(chat_eval(r, e->a, &self));
    TRY(eval_args(r, e, &args));
    r->line = e->line;
    return chat_call_function(r, what, f, self, &args, out);
}

/* ---- expressions ---- */

static int eval_list(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_list *list;
    struct chat_value item;
    TRY(chat_list_new(r, e->kind == CHAT_X_LIST ? CHAT_LIST : CHAT_TUPLE, (size_t)e->n_args, &list, out));
    for (int i = 0; i < e->n_args; i++) {
        TRY(chat_eval(r, e->args[i], &item));
        TRY(chat_list_add(r, list, item));
    }
    return SNUG_OK;
}

static int eval_dict(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value key, value;
    TRY(chat_dict_new(r, CHAT_DICT, out));
    for (int i = 0; i < e->n_args; i += 2) {
        TRY(chat_eval(r, e->args[i], &key));
        TRY(chat_eval(r, e->args[i + 1], &value));
        TRY(chat_dict_set(r, out->dict, key, value));
    }
    return SNUG_OK;
}

/* and, or, not, if: what is not needed is not evaluated. */
static int eval_logic(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value v;
    TRY(chat_eval(r, e->kind == CHAT_X_IF ? e->b : e->a, &v));
    bool yes = chat_true(v);
    if (e->kind == CHAT_X_NOT)
        *out = chat_bool(!yes);
    else if (e->kind == CHAT_X_IF)
        return yes ? chat_eval(r, e->a, out) : e->c ? chat_eval(r, e->c, out) : (*out = chat_undefined("else"), 0);
    else if (yes == (e->kind == CHAT_X_AND))
        return chat_eval(r, e->b, out);
    else
        *out = v;
    return SNUG_OK;
}

static int eval_parts(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    struct chat_value a, b;
    TRY(chat_eval(r, e->a, &a));
    if (e->b)
        TRY(chat_eval(r, e->b, &b));
    r->line = e->line;
    return e->kind == CHAT_X_ATTR   ? chat_attribute(r, a, e->name, out)
           : e->kind == CHAT_X_ITEM ? chat_item(r, a, b, out)
                                    : chat_compute(r, e->name, a, b, out);
}

static int eval(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    switch (e->kind) {
    case CHAT_X_VALUE:
        *out = e->value;
        return SNUG_OK;
    case CHAT_X_NAME:
        return look_up(r, e->name, out);
    case CHAT_X_LIST:
    case CHAT_X_TUPLE:
        return eval_list(r, e, out);
    case CHAT_X_DICT:
        return eval_dict(r, e, out);
    case CHAT_X_ATTR:
    case CHAT_X_ITEM:
    case CHAT_X_BINARY:
        return eval_parts(r, e, out);
    case CHAT_X_SLICE:
        return eval_slice(r, e, out);
    case CHAT_X_CALL:
        return eval_call(r, e, out);
    case CHAT_X_FILTER:
    case CHAT_X_TEST:
        return eval_filter_or_test(r, e, out);
    case CHAT_X_NEGATE:
    case CHAT_X_PLUS:
        return eval_sign(r, e, out);
    case CHAT_X_COMPARE:
        return eval_compare(r, e, out);
    case CHAT_X_NOT:
    case CHAT_X_AND:
    case CHAT_X_OR:
    case CHAT_X_IF:
        return eval_logic(r, e, out);
    }
    return SNUG_OK;
}

int chat_eval(struct chat_run *r, const struct chat_expr *e, struct chat_value *out)
{
    r->line = e->line;
    TRY(chat_step(r));
    if (++r->depth > CHAT_DEPTH)
        return chat_fail(r, "nested deeper than %d", CHAT_DEPTH);
    int code = eval(r, e, out);
    r->depth--;
    return code;
}
