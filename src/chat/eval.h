/* eval.h: evaluating expressions, and the functions, methods, filters and tests that they call. */
#ifndef CHAT_EVAL_H
#define CHAT_EVAL_H

#include "chat/tree.h"

/* Variables. A loop's body, a macro's and a block's have one each; an `if` has none. */
struct chat_scope {
    struct chat_scope *parent;
    const char **names;        /* (n) */
    struct chat_value *values; /* (n) */
    size_t n, cap;
};
int chat_scope_new(struct chat_run *r, struct chat_scope *parent, struct chat_scope **out);
int chat_scope_set(struct chat_run *r, struct chat_scope *s, const char *name, struct chat_value v);

/* Arguments of a call: the first have no name. For a row of chat_function they are sorted: args->v[i] is that of its i-th
 * parameter, undefined where it is not given. */
struct chat_args {
    struct chat_value *v;
    const char *const *names; /* NULL once they are sorted */
    int n;
};

typedef int chat_fn(struct chat_run *r, struct chat_value self, const struct chat_args *args, struct chat_value *out);
struct chat_function {
    const char *name;
    const char *params; /* "old,new,count"; "*": any, as they come */
    chat_fn *fn;
    unsigned of; /* of which kinds it is a method: 1 << kind */
};

struct chat_callable {
    const struct chat_function *function; /* or else … */
    struct chat_value self;
    const struct chat_stmt *macro; /* … a macro, and the scope that it was defined in */
    struct chat_scope *scope;
};

const struct chat_function *chat_filter(const char *name); /* filters.c; NULL: there is none */
const struct chat_function *chat_test(const char *name);   /* tests.c; give a truth value */
const struct chat_function *chat_global(const char *name); /* functions.c */
const struct chat_function *chat_method(const char *name, enum chat_kind of);
const struct chat_function *chat_function_in(const struct chat_function *rows, size_t n, const char *name);

int chat_eval(struct chat_run *r, const struct chat_expr *e, struct chat_value *out);
/* a op b, where op is + - * / // % ** ~ */
int chat_compute(struct chat_run *r, const char *op, struct chat_value a, struct chat_value b, struct chat_value *out);
/* `what`: "filter", for messages. */
int chat_call_function(struct chat_run *r, const char *what, const struct chat_function *f, struct chat_value self,
                       const struct chat_args *args, struct chat_value *out);
int chat_callable_new(struct chat_run *r, struct chat_callable c, struct chat_value *out);
int chat_attribute(struct chat_run *r, struct chat_value of, const char *name, struct chat_value *out);
int chat_item(struct chat_run *r, struct chat_value of, struct chat_value key, struct chat_value *out);
struct chat_value chat_undefined(const char *name);

/* render.c */
int chat_render_all(struct chat_run *r, const struct chat_stmt *s);
int chat_call_macro(struct chat_run *r, const struct chat_callable *c, const struct chat_args *args,
                    struct chat_value *out);
int chat_write(struct chat_run *r, const char *s, size_t n);

/* A text argument, or what is printed for another value. */
int chat_text_arg(struct chat_run *r, struct chat_value v, const char *what, struct chat_value *out);
int chat_int_arg(struct chat_run *r, struct chat_value v, const char *what, int64_t otherwise, int64_t *out);

#endif
