/* value.h: the values that a template computes with: those of JSON, and what Jinja adds to them. All memory is of one
 * rendering, and given back with it. */
#ifndef CHAT_VALUE_H
#define CHAT_VALUE_H

#include "base/mem.h"
#include "base/str.h"

#include <jansson.h>

enum chat_kind {
    CHAT_UNDEFINED,
    CHAT_NONE,
    CHAT_BOOL,
    CHAT_INT,
    CHAT_REAL,
    CHAT_TEXT,
    CHAT_LIST,
    CHAT_TUPLE,
    CHAT_DICT,
    CHAT_NAMESPACE,
    CHAT_CALLABLE,
    CHAT_KINDS,
};

struct chat_value {
    enum chat_kind kind;
    union {
        bool yes;
        int64_t whole;
        double real;
        struct {
            const char *s; /* UTF-8 without NUL; a 0 byte need not follow */
            size_t n;
        } text;
        const struct chat_list *list; /* of a tuple too */
        struct chat_dict *dict;       /* of a namespace too */
        const struct chat_callable *call;
    };
};

struct chat_list {
    size_t n, cap;
    struct chat_value *items;
};

struct chat_dict {
    size_t n, cap;
    struct chat_value *keys, *values; /* (n), in the order in which they came; keys are texts, numbers or none */
};

/* What a template may take. */
enum { CHAT_MEMORY = 64 << 20, CHAT_STEPS = 20000000, CHAT_DEPTH = 200, CHAT_OUTPUT = 32 << 20 };

/* A rendering while it runs. What fails writes the message, with name and line, to `err`. */
struct chat_run {
    const char *name; /* of the template */
    int line;         /* of what is being done */
    struct arena arena;
    size_t bytes;  /* taken from it */
    int64_t steps; /* done so far */
    int depth;     /* of nested expressions, blocks and calls */
    int64_t now;
    struct chat_scope *scope;
    struct str *out; /* what is written goes there */
    struct chat_rendering *rendering;
    struct snug_err *err;
};

int chat_fail(const struct chat_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
int chat_alloc(struct chat_run *r, size_t bytes, void **out); /* zeroed; fails beyond CHAT_MEMORY */
/* The n items of `old` in room for `cap` of them. */
int chat_larger(struct chat_run *r, const void *old, size_t n, size_t cap, size_t item_bytes, void **out);
int chat_step(struct chat_run *r);                          /* fails beyond CHAT_STEPS */
void chat_work_on(struct chat_run *r, struct chat_value v); /* counts what going through a long text takes */

static inline struct chat_value chat_bool(bool yes)
{
    return (struct chat_value){.kind = CHAT_BOOL, .yes = yes};
}
static inline struct chat_value chat_int(int64_t whole)
{
    return (struct chat_value){.kind = CHAT_INT, .whole = whole};
}
static inline struct chat_value chat_text(const char *s, size_t n)
{
    return (struct chat_value){.kind = CHAT_TEXT, .text = {s, n}};
}
struct chat_value chat_word(const char *s); /* a text that ends in a 0 byte */

const char *chat_kind_name(struct chat_value v); /* "a string", for messages */
bool chat_true(struct chat_value v);             /* as Python's bool() */
bool chat_is_number(struct chat_value v);        /* of booleans too, as in Python */
double chat_number(struct chat_value v);
/* Costs a step for each item. When there are none left, or at too deep a nesting, it is false and the next step fails. */
bool chat_equal(struct chat_run *r, struct chat_value a, struct chat_value b);
bool chat_equal_texts(struct chat_value a, struct chat_value b); /* both are texts */
bool chat_same_text(struct chat_value v, const char *s);
/* -1, 0 or 1; fails where Python knows no order. */
int chat_compare(struct chat_run *r, struct chat_value a, struct chat_value b, int *order);
int chat_in(struct chat_run *r, struct chat_value item, struct chat_value all, bool *yes);

int chat_copy_text(struct chat_run *r, const char *s, size_t n, struct chat_value *out);
/* What was written into s, as a value; unless `code` says that the writing failed. Frees s and returns the code. */
int chat_take_str(struct chat_run *r, struct str *s, int code, struct chat_value *out);
int chat_join_texts(struct chat_run *r, struct chat_value a, struct chat_value b, struct chat_value *out);
/* As {{ v }} prints it. Lists and objects have no text here: Python's repr is no form for a model to read. */
int chat_as_text(struct chat_run *r, struct chat_value v, struct chat_value *out);
void chat_print_real(struct str *s, double x); /* as Python's repr */

int chat_list_new(struct chat_run *r, enum chat_kind kind, size_t room, struct chat_list **list,
                  struct chat_value *out);
int chat_list_add(struct chat_run *r, struct chat_list *list, struct chat_value item);
/* The items of a list, the keys of an object, the characters of a string. */
int chat_items(struct chat_run *r, struct chat_value v, const struct chat_list **items);

int chat_dict_new(struct chat_run *r, enum chat_kind kind, struct chat_value *out);
int chat_dict_set(struct chat_run *r, struct chat_dict *d, struct chat_value key, struct chat_value value);
const struct chat_value *chat_dict_get(const struct chat_dict *d, struct chat_value key); /* NULL: not there */

int chat_of_json(struct chat_run *r, json_t *j, struct chat_value *out);
/* As json.dumps has it. */
struct chat_json_form {
    int indent;                     /* -1: on one line */
    struct chat_value comma, colon; /* texts between items, and behind a key */
    bool ascii, sorted;             /* other characters as \uXXXX; keys of objects in order */
};
int chat_to_json(struct chat_run *r, struct chat_value v, const struct chat_json_form *form, struct chat_value *out);

/* The order of these keys: order[i] is the number of the i-th one. Keys that are equal stay in order, `reverse` or not. */
int chat_sort(struct chat_run *r, const struct chat_list *keys, bool reverse, size_t **order);

#endif
