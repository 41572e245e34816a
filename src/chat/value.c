#include "chat/value.h"

#include "chat/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int chat_fail(const struct chat_run *r, const char *format, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return err_set(r->err, SNUG_ERR_INPUT, "%s: line %d: %s", r->name, r->line, text);
}

int chat_alloc(struct chat_run *r, size_t bytes, void **out)
{
    if (bytes > CHAT_MEMORY || r->bytes + bytes > CHAT_MEMORY)
        return chat_fail(r, "takes more than %d MiB for one row; it may be a loop", CHAT_MEMORY >> 20);
    r->bytes += bytes;
    *out = arena_alloc(&r->arena, bytes ? bytes : 1);
    return *out ? SNUG_OK : err_no_memory(r->err, bytes);
}

int chat_larger(struct chat_run *r, const void *old, size_t n, size_t cap, size_t item_bytes, void **out)
{
    TRY(chat_alloc(r, cap * item_bytes, out));
    if (n)
        memcpy(*out, old, n * item_bytes);
    return SNUG_OK;
}

int chat_step(struct chat_run *r)
{
    return ++r->steps <= CHAT_STEPS ? SNUG_OK : chat_fail(r, "more than %d steps for one row", CHAT_STEPS);
}

void chat_work_on(struct chat_run *r, struct chat_value v)
{
    r->steps += v.kind == CHAT_TEXT ? (int64_t)(v.text.n / 64) : 0;
}

/* ---- asking ---- */

struct chat_value chat_word(const char *s)
{
    return chat_text(s, strlen(s));
}

const char *chat_kind_name(struct chat_value v)
{
    static const char *const names[CHAT_KINDS] = {
        [CHAT_UNDEFINED] = "undefined",   [CHAT_NONE] = "none",          [CHAT_BOOL] = "a truth value",
        [CHAT_INT] = "an integer",        [CHAT_REAL] = "a float",       [CHAT_TEXT] = "a string",
        [CHAT_LIST] = "a list",           [CHAT_TUPLE] = "a tuple",      [CHAT_DICT] = "an object",
        [CHAT_NAMESPACE] = "a namespace", [CHAT_CALLABLE] = "a function"};
    return names[v.kind];
}

bool chat_true(struct chat_value v)
{
    switch (v.kind) {
    case CHAT_UNDEFINED:
    case CHAT_NONE:
        return false;
    case CHAT_BOOL:
        return v.yes;
    case CHAT_INT:
        return v.whole != 0;
    case CHAT_REAL:
        return v.real != 0;
    case CHAT_TEXT:
        return v.text.n > 0;
    case CHAT_LIST:
    case CHAT_TUPLE:
        return v.list->n > 0;
    case CHAT_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

bool chat_is_number(struct chat_value v)
{
    return v.kind == CHAT_BOOL || v.kind == CHAT_INT || v.kind == CHAT_REAL;
}

double chat_number(struct chat_value v)
{
    return v.kind == CHAT_REAL ? v.real : v.kind == CHAT_INT ? (double)v.whole : v.yes;
}

bool chat_equal_texts(struct chat_value a, struct chat_value b)
{
    return a.text.n == b.text.n && (!a.text.n || memcmp(a.text.s, b.text.s, a.text.n) == 0);
}

static bool equal_dicts(struct chat_run *r, const struct chat_dict *a, const struct chat_dict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct chat_value *other = chat_dict_get(b, a->keys[i]);
        if (!other || !chat_equal(r, a->values[i], *other))
            return false;
    }
    return true;
}

static bool equal_lists(struct chat_run *r, const struct chat_list *a, const struct chat_list *b)
{
    for (size_t i = 0; a->n == b->n && i < a->n; i++)
        if (!chat_equal(r, a->items[i], b->items[i]))
            return false;
    return a->n == b->n;
}

static bool equal_numbers(struct chat_value a, struct chat_value b)
{
    if (a.kind == CHAT_REAL || b.kind == CHAT_REAL)
        return chat_number(a) == chat_number(b);
    return (a.kind == CHAT_BOOL ? a.yes : a.whole) == (b.kind == CHAT_BOOL ? b.yes : b.whole);
}

static bool equal_of_kind(struct chat_run *r, struct chat_value a, struct chat_value b)
{
    switch (a.kind) {
    case CHAT_TEXT:
        return chat_equal_texts(a, b);
    case CHAT_LIST:
    case CHAT_TUPLE:
        return equal_lists(r, a.list, b.list);
    case CHAT_DICT:
        return equal_dicts(r, a.dict, b.dict);
    case CHAT_NAMESPACE:
        return a.dict == b.dict;
    case CHAT_CALLABLE:
        return a.call == b.call;
    default:
        return true; /* undefined, none */
    }
}

bool chat_equal(struct chat_run *r, struct chat_value a, struct chat_value b)
{
    if (chat_is_number(a) && chat_is_number(b))
        return equal_numbers(a, b);
    if (a.kind != b.kind || ++r->steps > CHAT_STEPS)
        return false;
    bool too_deep = r->depth >= CHAT_DEPTH;
    r->steps += too_deep ? CHAT_STEPS : 0;
    r->depth++;
    bool equal = !too_deep && equal_of_kind(r, a, b);
    r->depth--;
    return equal;
}

bool chat_same_text(struct chat_value v, const char *s)
{
    return v.kind == CHAT_TEXT && v.text.n == strlen(s) && memcmp(v.text.s, s, v.text.n) == 0;
}

int chat_compare(struct chat_run *r, struct chat_value a, struct chat_value b, int *order)
{
    if (a.kind == CHAT_TEXT && b.kind == CHAT_TEXT) { /* bytes of UTF-8 have the order of their code points */
        chat_work_on(r, a);
        size_t n = a.text.n < b.text.n ? a.text.n : b.text.n;
        int c = n ? memcmp(a.text.s, b.text.s, n) : 0;
        *order = c ? (c > 0) - (c < 0) : (a.text.n > b.text.n) - (a.text.n < b.text.n);
        return SNUG_OK;
    }
    if (!chat_is_number(a) || !chat_is_number(b))
        return chat_fail(r, "%s and %s have no order", chat_kind_name(a), chat_kind_name(b));
    if (a.kind != CHAT_REAL && b.kind != CHAT_REAL) {
        int64_t x = a.kind == CHAT_BOOL ? a.yes : a.whole, y = b.kind == CHAT_BOOL ? b.yes : b.whole;
        *order = (x > y) - (x < y);
        return SNUG_OK;
    }
    double x = chat_number(a), y = chat_number(b);
    *order = (x > y) - (x < y);
    return SNUG_OK;
}

int chat_in(struct chat_run *r, struct chat_value item, struct chat_value all, bool *yes)
{
    *yes = false;
    chat_work_on(r, all);
    if (all.kind == CHAT_TEXT) {
        if (item.kind != CHAT_TEXT)
            return chat_fail(r, "%s 'in' a string; only a string can be", chat_kind_name(item));
        *yes = chat_find(all, item, 0) != CHAT_NOWHERE;
        return SNUG_OK;
    }
    if (all.kind == CHAT_DICT) {
        *yes = chat_dict_get(all.dict, item) != NULL;
        return SNUG_OK;
    }
    if (all.kind == CHAT_LIST || all.kind == CHAT_TUPLE)
        for (size_t i = 0; i < all.list->n && !*yes; i++)
            *yes = chat_equal(r, item, all.list->items[i]);
    else if (all.kind != CHAT_UNDEFINED)
        return chat_fail(r, "'in' %s, which holds nothing", chat_kind_name(all));
    return SNUG_OK;
}

/* ---- texts ---- */

int chat_copy_text(struct chat_run *r, const char *s, size_t n, struct chat_value *out)
{
    void *copy;
    TRY(chat_alloc(r, n, &copy));
    if (n)
        memcpy(copy, s, n);
    *out = chat_text(copy, n);
    return SNUG_OK;
}

int chat_take_str(struct chat_run *r, struct str *s, int code, struct chat_value *out)
{
    if (!code)
        code = str_check(s, r->err);
    if (!code)
        code = chat_copy_text(r, str_text(s), s->n, out);
    str_free(s);
    return code;
}

int chat_join_texts(struct chat_run *r, struct chat_value a, struct chat_value b, struct chat_value *out)
{
    void *s;
    TRY(chat_alloc(r, a.text.n + b.text.n, &s));
    if (a.text.n)
        memcpy(s, a.text.s, a.text.n);
    if (b.text.n)
        memcpy((char *)s + a.text.n, b.text.s, b.text.n);
    *out = chat_text(s, a.text.n + b.text.n);
    return SNUG_OK;
}

/* The shortest digits that give x again; an exponent below 1e-4 and from 1e16 on. */
void chat_print_real(struct str *s, double x)
{
    char digits[40];
    if (number_word(x)) {
        str_append(s, x != x ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 0;
    do {
        snprintf(digits, sizeof digits, "%.*e", precision, x);
        double again;
        if (sscanf(digits, "%lf", &again) == 1 && again == x)
            break;
    } while (++precision < 17);
    int exponent = 0;
    sscanf(strchr(digits, 'e') + 1, "%d", &exponent);
    if (exponent < -4 || exponent >= 16)
        str_append(s, digits);
    else
        str_printf(s, "%.*f", precision > exponent ? precision - exponent : 1, x);
}

int chat_as_text(struct chat_run *r, struct chat_value v, struct chat_value *out)
{
    char digits[32];
    struct str s = {0};
    switch (v.kind) {
    case CHAT_TEXT:
        *out = v;
        return SNUG_OK;
    case CHAT_UNDEFINED:
        *out = chat_word("");
        return SNUG_OK;
    case CHAT_NONE:
        *out = chat_word("None");
        return SNUG_OK;
    case CHAT_BOOL:
        *out = chat_word(v.yes ? "True" : "False");
        return SNUG_OK;
    case CHAT_INT:
        snprintf(digits, sizeof digits, "%lld", (long long)v.whole);
        return chat_copy_text(r, digits, strlen(digits), out);
    case CHAT_REAL:
        chat_print_real(&s, v.real);
        return chat_take_str(r, &s, SNUG_OK, out);
    default:
        return chat_fail(r, "%s where a string is written; add |tojson", chat_kind_name(v));
    }
}

/* ---- lists and objects ---- */

int chat_list_new(struct chat_run *r, enum chat_kind kind, size_t room, struct chat_list **list, struct chat_value *out)
{
    void *l, *items;
    TRY(chat_alloc(r, sizeof **list, &l));
    TRY(chat_alloc(r, room * sizeof(struct chat_value), &items));
    *list = l;
    **list = (struct chat_list){.cap = room, .items = items};
    *out = (struct chat_value){.kind = kind, .list = *list};
    return SNUG_OK;
}

int chat_list_add(struct chat_run *r, struct chat_list *list, struct chat_value item)
{
    if (list->n == list->cap) {
        void *items;
        size_t cap = list->cap ? 2 * list->cap : 8;
        TRY(chat_larger(r, list->items, list->n, cap, sizeof *list->items, &items));
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = item;
    return SNUG_OK;
}

int chat_items(struct chat_run *r, struct chat_value v, const struct chat_list **items)
{
    struct chat_list *list;
    struct chat_value whole;
    if (v.kind == CHAT_LIST || v.kind == CHAT_TUPLE) {
        *items = v.list;
        return SNUG_OK;
    }
    if (v.kind != CHAT_DICT && v.kind != CHAT_TEXT && v.kind != CHAT_UNDEFINED)
        return chat_fail(r, "%s where a list was expected", chat_kind_name(v));
    TRY(chat_list_new(r, CHAT_LIST, v.kind == CHAT_DICT ? v.dict->n : 8, &list, &whole));
    for (size_t i = 0; v.kind == CHAT_DICT && i < v.dict->n; i++)
        TRY(chat_list_add(r, list, v.dict->keys[i]));
    for (size_t i = 0, n; v.kind == CHAT_TEXT && i < v.text.n; i += n) {
        n = chat_offset(chat_text(v.text.s + i, v.text.n - i), 1);
        TRY(chat_list_add(r, list, chat_text(v.text.s + i, n)));
    }
    *items = list;
    return SNUG_OK;
}

int chat_dict_new(struct chat_run *r, enum chat_kind kind, struct chat_value *out)
{
    void *d;
    TRY(chat_alloc(r, sizeof(struct chat_dict), &d));
    *out = (struct chat_value){.kind = kind, .dict = d};
    return SNUG_OK;
}

static bool same_key(struct chat_value a, struct chat_value b)
{
    if (chat_is_number(a) && chat_is_number(b))
        return equal_numbers(a, b);
    return a.kind == b.kind && (a.kind == CHAT_NONE || (a.kind == CHAT_TEXT && chat_equal_texts(a, b)));
}

const struct chat_value *chat_dict_get(const struct chat_dict *d, struct chat_value key)
{
    for (size_t i = 0; i < d->n; i++)
        if (same_key(d->keys[i], key))
            return &d->values[i];
    return NULL;
}

int chat_dict_set(struct chat_run *r, struct chat_dict *d, struct chat_value key, struct chat_value value)
{
    if (key.kind != CHAT_TEXT && key.kind != CHAT_NONE && !chat_is_number(key))
        return chat_fail(r, "%s as a key of an object; snug knows strings, numbers and none", chat_kind_name(key));
    struct chat_value *there = (struct chat_value *)(uintptr_t)chat_dict_get(d, key);
    if (there) {
        *there = value;
        return SNUG_OK;
    }
    if (d->n == d->cap) {
        void *keys, *values;
        size_t cap = d->cap ? 2 * d->cap : 8;
        TRY(chat_larger(r, d->keys, d->n, cap, sizeof *d->keys, &keys));
        TRY(chat_larger(r, d->values, d->n, cap, sizeof *d->values, &values));
        d->keys = keys;
        d->values = values;
        d->cap = cap;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = value;
    return SNUG_OK;
}
