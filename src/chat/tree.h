/* tree.h: a template as a tree of statements and expressions, all in one arena. */
#ifndef CHAT_TREE_H
#define CHAT_TREE_H

#include "chat/lexer.h"
#include "chat/value.h"

enum chat_expr_kind {
    CHAT_X_VALUE,
    CHAT_X_NAME,
    CHAT_X_LIST,    /* of args */
    CHAT_X_TUPLE,   /* of args */
    CHAT_X_DICT,    /* args: key, value, key, value … */
    CHAT_X_ATTR,    /* a.name */
    CHAT_X_ITEM,    /* a[b] */
    CHAT_X_SLICE,   /* a[args[0]:args[1]:args[2]], each of which may be NULL */
    CHAT_X_CALL,    /* a(args) */
    CHAT_X_FILTER,  /* a|name(args) */
    CHAT_X_TEST,    /* a is name(args) */
    CHAT_X_NOT,     /* not a */
    CHAT_X_NEGATE,  /* -a */
    CHAT_X_PLUS,    /* +a */
    CHAT_X_BINARY,  /* a name b, where name is + - * / // % ** ~ */
    CHAT_X_COMPARE, /* a name b, where name is == != < > <= >= in "not in"; `next` compares b further */
    CHAT_X_AND,
    CHAT_X_OR,
    CHAT_X_IF, /* a if b else c; c may be NULL */
};

struct chat_expr {
    enum chat_expr_kind kind;
    int line;
    const char *name;
    struct chat_value value;
    struct chat_expr *a, *b, *c, *next;
    struct chat_expr **args;
    const char **arg_names; /* (n_args), NULL for those without a name, which come first */
    int n_args;
};

enum chat_stmt_kind {
    CHAT_S_DATA,
    CHAT_S_PRINT,      /* expr */
    CHAT_S_FOR,        /* target in expr, `test` or NULL, body, orelse */
    CHAT_S_IF,         /* expr, body, orelse: a further if, or what stands behind else */
    CHAT_S_SET,        /* target = expr */
    CHAT_S_SET_BLOCK,  /* target = what body writes, through the filters of expr, or NULL */
    CHAT_S_MACRO,      /* name, params, body */
    CHAT_S_GENERATION, /* body */
    CHAT_S_BREAK,
    CHAT_S_CONTINUE,
};

enum { CHAT_PARAMS = 64 }; /* of a macro, at most */

struct chat_param {
    const char *name;
    struct chat_expr *otherwise; /* NULL: undefined */
};

struct chat_stmt {
    enum chat_stmt_kind kind;
    int line;
    const char *text; /* data, or a name */
    size_t n;
    struct chat_expr *target; /* a name, a tuple of names, or an attribute of a namespace */
    struct chat_expr *expr, *test;
    struct chat_param *params;
    int n_params;
    struct chat_stmt *body, *orelse, *next;
};

/* The value that a block set's filters work on. */
#define CHAT_BLOCK_VALUE "(block)"

/* ---- parsing ---- */

struct chat_parser {
    const char *name;
    const struct chat_token *token; /* the one that is read next */
    struct arena *arena;
    int depth, loops; /* nested blocks and expressions; loops around here */
    bool has_generation, reads_clock;
    struct snug_err *err;
};

int chat_parse_fail(const struct chat_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int chat_parse_alloc(struct chat_parser *p, size_t bytes, void **out);
int chat_parse_deeper(struct chat_parser *p); /* and p->depth-- when done */
bool chat_at(const struct chat_parser *p, const char *op_or_name);
bool chat_take(struct chat_parser *p, const char *op_or_name); /* reads it, if it is there */
int chat_expect(struct chat_parser *p, const char *op_or_name);
int chat_take_name(struct chat_parser *p, const char **name);

/* parse_expr.c */
int chat_parse_expr(struct chat_parser *p, struct chat_expr **out);
int chat_parse_tuple(struct chat_parser *p, struct chat_expr **out); /* a, b: a tuple; a alone: itself */
int chat_parse_or(struct chat_parser *p, struct chat_expr **out);    /* without "… if …" behind it */
int chat_parse_target(struct chat_parser *p, struct chat_expr **out);
int chat_parse_filters(struct chat_parser *p, struct chat_expr *of, struct chat_expr **out);
int chat_new_expr(struct chat_parser *p, enum chat_expr_kind kind, struct chat_expr **out);

/* parse_value.c */
int chat_parse_value(struct chat_parser *p, struct chat_expr **out);
int chat_parse_number(struct chat_parser *p, struct chat_expr **out);
int chat_add_arg(struct chat_parser *p, struct chat_expr *e, const char *name, struct chat_expr *arg);

/* parse.c: the whole template. */
int chat_parse(struct chat_parser *p, struct chat_stmt **out);

#endif
