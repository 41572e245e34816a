/* Filters: what stands behind '|'. */
#include "chat/eval.h"
#include "chat/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                                                   \
    static int filter_##name(struct chat_run *r, struct chat_value self, const struct chat_args *args,                 \
                             struct chat_value *out)

static bool given(struct chat_value v)
{
    return v.kind != CHAT_UNDEFINED;
}

/* ---- texts ---- */

FILTER(trim)
{
    struct chat_value chars = args->v[0];
    TRY(chat_as_text(r, self, &self));
    if (given(chars))
        TRY(chat_text_arg(r, chars, "trim: what is trimmed", &chars));
    *out = chat_strip(self, given(chars) ? &chars : NULL, CHAT_BOTH);
    return SNUG_OK;
}

static int in_case(struct chat_run *r, struct chat_value self, enum chat_case how, struct chat_value *out)
{
    TRY(chat_as_text(r, self, &self));
    return chat_in_case(r, self, how, out);
}

FILTER(upper)
{
    (void)args;
    return in_case(r, self, CHAT_UPPER, out);
}

FILTER(lower)
{
    (void)args;
    return in_case(r, self, CHAT_LOWER, out);
}

FILTER(capitalize)
{
    (void)args;
    return in_case(r, self, CHAT_CAPITALIZED, out);
}

FILTER(title)
{
    (void)args;
    return in_case(r, self, CHAT_WORDS, out);
}

FILTER(replace)
{
    struct chat_value from, to;
    int64_t most;
    TRY(chat_as_text(r, self, &self));
    TRY(chat_text_arg(r, args->v[0], "replace: what is replaced", &from));
    TRY(chat_text_arg(r, args->v[1], "replace: what it becomes", &to));
    TRY(chat_int_arg(r, args->v[2], "replace: how often", -1, &most));
    return chat_replace(r, self, from, to, most, out);
}

FILTER(string)
{
    (void)args;
    return chat_as_text(r, self, out);
}

/* As transformers has it: ensure_ascii, indent, separators, sort_keys. */
FILTER(tojson)
{
    int64_t indent;
    struct chat_value none = chat_undefined("indent"), form = args->v[2];
    TRY(chat_int_arg(r, args->v[1].kind == CHAT_NONE ? none : args->v[1], "tojson: indent", -1, &indent));
    struct chat_json_form f = {.indent = indent > 64   ? 64
                                         : indent < -1 ? -1
                                                       : (int)indent,
                               .comma = chat_word(indent < 0 ? ", " : ","),
                               .colon = chat_word(": "),
                               .ascii = chat_true(args->v[0]),
                               .sorted = chat_true(args->v[3])};
    if (given(form) && form.kind != CHAT_NONE) {
        if ((form.kind != CHAT_TUPLE && form.kind != CHAT_LIST) || form.list->n != 2)
            return chat_fail(r, "tojson: separators is %s, not two strings", chat_kind_name(form));
        TRY(chat_text_arg(r, form.list->items[0], "tojson: the separator of items", &f.comma));
        TRY(chat_text_arg(r, form.list->items[1], "tojson: the separator behind a key", &f.colon));
    }
    return chat_to_json(r, self, &f, out);
}

/* `width`: a number of blanks, or what stands in front of lines. The first one gets it where `first` is set, empty ones where `blank` is. */
FILTER(indent)
{
    struct chat_value lines, front = args->v[0];
    bool first = chat_true(args->v[1]), blank = chat_true(args->v[2]);
    int64_t width;
    struct str s = {0};
    TRY(chat_text_arg(r, self, "indent: its value", &self));
    if (front.kind != CHAT_TEXT) {
        TRY(chat_int_arg(r, front, "indent: width", 4, &width));
        TRY(chat_compute(r, "*", chat_word(" "), chat_int(width), &front));
    }
    TRY(chat_join_texts(r, self, chat_word("\n"), &self));
    TRY(chat_split_lines(r, self, &lines));
    for (size_t i = 0; i < lines.list->n && s.n <= CHAT_MEMORY; i++) { /* too much for a copy, which says so */
        struct chat_value line = lines.list->items[i];
        str_append(&s, i ? "\n" : "");
        if (i ? blank || line.text.n : first)
            str_append_n(&s, front.text.s, front.text.n);
        str_append_n(&s, line.text.s, line.text.n);
    }
    return chat_take_str(r, &s, SNUG_OK, out);
}

/* ---- numbers ---- */

FILTER(int)
{
    struct chat_value otherwise = given(args->v[0]) ? args->v[0] : chat_int(0);
    char digits[32];
    *out = otherwise;
    if (self.kind == CHAT_INT || self.kind == CHAT_BOOL) {
        *out = chat_int(self.kind == CHAT_INT ? self.whole : self.yes);
    } else if (self.kind == CHAT_REAL && fabs(self.real) < 9e18) {
        *out = chat_int((int64_t)self.real);
    } else if (self.kind == CHAT_TEXT) {
        struct chat_value text = chat_strip(self, NULL, CHAT_BOTH);
        if (!text.text.n || text.text.n >= sizeof digits)
            return SNUG_OK;
        memcpy(digits, text.text.s, text.text.n);
        digits[text.text.n] = 0;
        char *end;
        errno = 0;
        long long whole = strtoll(digits, &end, 10);
        if (!*end && !errno)
            *out = chat_int(whole);
        else if (strcspn(digits, "xXpPnN") == text.text.n) { /* 3.7 is 3; no hexadecimal number, no infinity */
            double x = strtod(digits, &end);
            *out = !*end && fabs(x) < 9e18 ? chat_int((int64_t)x) : *out;
        }
    }
    (void)r;
    return SNUG_OK;
}

FILTER(float)
{
    struct chat_value text = self.kind == CHAT_TEXT ? chat_strip(self, NULL, CHAT_BOTH) : self;
    char digits[64];
    *out = given(args->v[0]) ? args->v[0] : (struct chat_value){.kind = CHAT_REAL};
    (void)r;
    if (chat_is_number(self)) {
        *out = (struct chat_value){.kind = CHAT_REAL, .real = chat_number(self)};
    } else if (self.kind == CHAT_TEXT && text.text.n && text.text.n < sizeof digits) {
        char *end;
        memcpy(digits, text.text.s, text.text.n);
        digits[text.text.n] = 0;
        double x = strtod(digits, &end);
        if (!*end && strcspn(digits, "xXpPnN") == text.text.n) /* no hexadecimal number, no infinity */
            *out = (struct chat_value){.kind = CHAT_REAL, .real = x};
    }
    return SNUG_OK;
}

FILTER(abs)
{
    (void)args;
    if (self.kind == CHAT_REAL) {
        *out = (struct chat_value){.kind = CHAT_REAL, .real = fabs(self.real)};
        return SNUG_OK;
    }
    int64_t x;
    TRY(chat_int_arg(r, self, "abs: its value", 0, &x));
    *out = chat_int(x < 0 && x != INT64_MIN ? -x : x);
    return SNUG_OK;
}

/* ---- lists ---- */

FILTER(length)
{
    (void)args;
    const struct chat_list *items;
    if (self.kind == CHAT_TEXT) {
        *out = chat_int((int64_t)chat_length(self));
        return SNUG_OK;
    }
    TRY(chat_items(r, self, &items));
    *out = chat_int((int64_t)items->n);
    return SNUG_OK;
}

static int end_item(struct chat_run *r, struct chat_value self, bool last, struct chat_value *out)
{
    const struct chat_list *items;
    TRY(chat_items(r, self, &items));
    *out = items->n ? items->items[last ? items->n - 1 : 0] : chat_undefined("item");
    return SNUG_OK;
}

FILTER(first)
{
    (void)args;
    return end_item(r, self, false, out);
}

FILTER(last)
{
    (void)args;
    return end_item(r, self, true, out);
}

static int list_of(struct chat_run *r, const struct chat_list *items, struct chat_value *out)
{
    struct chat_list *list;
    TRY(chat_list_new(r, CHAT_LIST, items->n, &list, out));
    for (size_t i = 0; i < items->n; i++)
        TRY(chat_list_add(r, list, items->items[i]));
    return SNUG_OK;
}

FILTER(list)
{
    (void)args;
    const struct chat_list *items;
    TRY(chat_items(r, self, &items));
    return list_of(r, items, out);
}

FILTER(reverse)
{
    (void)args;
    return chat_slice(r, self, NULL, NULL, -1, out);
}

/* `attribute` "a.b.0": of each item its part of that name. */
static int part_of(struct chat_run *r, struct chat_value item, struct chat_value attribute, struct chat_value *out)
{
    struct chat_value names, dot = chat_word(".");
    *out = item;
    if (attribute.kind == CHAT_INT)
        return chat_item(r, item, attribute, out);
    TRY(chat_text_arg(r, attribute, "the attribute", &attribute));
    TRY(chat_split(r, attribute, &dot, -1, &names));
    for (size_t i = 0; i < names.list->n; i++) {
        struct chat_value name = names.list->items[i];
        bool digits = name.text.n > 0 && name.text.n < 10;
        int64_t index = 0;
        for (size_t k = 0; digits && k < name.text.n; k++) {
            digits = name.text.s[k] >= '0' && name.text.s[k] <= '9';
            index = 10 * index + (name.text.s[k] - '0');
        }
        TRY(chat_item(r, *out, digits ? chat_int(index) : name, out));
    }
    return SNUG_OK;
}

FILTER(join)
{
    const struct chat_list *items;
    struct chat_value between = chat_word(""), v;
    struct str s = {0};
    TRY(chat_items(r, self, &items));
    if (given(args->v[0]))
        TRY(chat_as_text(r, args->v[0], &between));
    int code = SNUG_OK;
    for (size_t i = 0; i < items->n && !code; i++) {
        v = items->items[i];
        if (given(args->v[1]))
            code = part_of(r, v, args->v[1], &v);
        if (!code)
            code = chat_as_text(r, v, &v);
        if (!code && i)
            str_append_n(&s, between.text.s, between.text.n);
        if (!code)
            str_append_n(&s, v.text.s, v.text.n);
        if (!code && s.n > CHAT_MEMORY)
            break; /* too much for a copy, which says so */
    }
    return chat_take_str(r, &s, code, out);
}

FILTER(items)
{
    (void)args;
    if (self.kind == CHAT_UNDEFINED)
        return list_of(r, &(struct chat_list){0}, out);
    const struct chat_function *f = chat_method("items", self.kind);
    return f ? f->fn(r, self, args, out) : chat_fail(r, "items of %s", chat_kind_name(self));
}

FILTER(unique)
{
    (void)args;
    const struct chat_list *items;
    struct chat_list *list;
    TRY(chat_items(r, self, &items));
    TRY(chat_list_new(r, CHAT_LIST, 8, &list, out));
    for (size_t i = 0; i < items->n; i++) {
        bool there;
        TRY(chat_step(r));
        TRY(chat_in(r, items->items[i], *out, &there));
        if (!there)
            TRY(chat_list_add(r, list, items->items[i]));
    }
    return SNUG_OK;
}

/* ---- lists in order ---- */

/* What items are compared by: themselves, or their parts of that name; letters in lower case, unless case counts. */
static int keys_of(struct chat_run *r, const struct chat_list *items, struct chat_value attribute, bool with_case,
                   struct chat_list **keys)
{
    struct chat_value whole, key;
    TRY(chat_list_new(r, CHAT_LIST, items->n, keys, &whole));
    if (attribute.kind == CHAT_TEXT && memchr(attribute.text.s, ',', attribute.text.n))
        return chat_fail(r, "an order by several attributes is not known to snug");
    for (size_t i = 0; i < items->n; i++) {
        key = items->items[i];
        if (given(attribute) && attribute.kind != CHAT_NONE)
            TRY(part_of(r, key, attribute, &key));
        if (key.kind == CHAT_TEXT && !with_case)
            TRY(chat_in_case(r, key, CHAT_LOWER, &key));
        TRY(chat_list_add(r, *keys, key));
    }
    return SNUG_OK;
}

static int in_order(struct chat_run *r, const struct chat_list *items, const struct chat_list *keys, bool reverse,
                    struct chat_value *out)
{
    struct chat_list *list;
    size_t *order;
    TRY(chat_sort(r, keys, reverse, &order));
    TRY(chat_list_new(r, CHAT_LIST, items->n, &list, out));
    for (size_t i = 0; i < items->n; i++)
        TRY(chat_list_add(r, list, items->items[order[i]]));
    return SNUG_OK;
}

FILTER(sort)
{
    const struct chat_list *items;
    struct chat_list *keys;
    TRY(chat_items(r, self, &items));
    TRY(keys_of(r, items, args->v[2], chat_true(args->v[1]), &keys));
    return in_order(r, items, keys, chat_true(args->v[0]), out);
}

FILTER(dictsort)
{
    const struct chat_function *f = chat_method("items", self.kind);
    struct chat_value by = given(args->v[1]) ? args->v[1] : chat_word("key"), pairs;
    struct chat_list *keys;
    if (!f)
        return chat_fail(r, "dictsort of %s", chat_kind_name(self));
    if (!chat_same_text(by, "key") && !chat_same_text(by, "value"))
        return chat_fail(r, "dictsort: by is neither 'key' nor 'value'");
    TRY(f->fn(r, self, args, &pairs));
    TRY(keys_of(r, pairs.list, chat_int(chat_same_text(by, "value")), chat_true(args->v[0]), &keys));
    return in_order(r, pairs.list, keys, chat_true(args->v[2]), out);
}

/* The first of those that no other one is before. */
static int extreme(struct chat_run *r, struct chat_value self, const struct chat_args *args, int sign,
                   struct chat_value *out)
{
    const struct chat_list *items;
    struct chat_list *keys;
    size_t best = 0;
    TRY(chat_items(r, self, &items));
    TRY(keys_of(r, items, args->v[1], chat_true(args->v[0]), &keys));
    for (size_t i = 1; i < items->n; i++) {
        int order;
        TRY(chat_step(r));
        TRY(chat_compare(r, keys->items[i], keys->items[best], &order));
        best = order * sign > 0 ? i : best;
    }
    *out = items->n ? items->items[best] : chat_undefined("item");
    return SNUG_OK;
}

FILTER(max)
{
    return extreme(r, self, args, 1, out);
}

FILTER(min)
{
    return extreme(r, self, args, -1, out);
}

FILTER(sum)
{
    const struct chat_list *items;
    struct chat_value v;
    TRY(chat_items(r, self, &items));
    *out = given(args->v[1]) ? args->v[1] : chat_int(0);
    for (size_t i = 0; i < items->n; i++) {
        v = items->items[i];
        if (given(args->v[0]) && args->v[0].kind != CHAT_NONE)
            TRY(part_of(r, v, args->v[0], &v));
        TRY(chat_step(r));
        TRY(chat_compute(r, "+", *out, v, out));
    }
    return SNUG_OK;
}

/* ---- lists, by a filter or a test for each item ---- */

static const char *named(struct chat_value v, char name[32])
{
    size_t n = v.kind == CHAT_TEXT && v.text.n < 32 ? v.text.n : 0;
    if (n)
        memcpy(name, v.text.s, n);
    name[n] = 0;
    return name;
}

static struct chat_args behind(const struct chat_args *args, int n)
{
    return (struct chat_args){.v = args->v + n, .names = args->names + n, .n = args->n - n};
}

/* map('upper'), map(attribute='name'), map(attribute='name', default='') */
FILTER(map)
{
    const struct chat_list *items;
    struct chat_list *list;
    char name[32];
    bool attribute = args->n && args->names[0] && !strcmp(args->names[0], "attribute");
    bool otherwise = attribute && args->n == 2 && args->names[1] && !strcmp(args->names[1], "default");
    const struct chat_function *f = args->n && !attribute ? chat_filter(named(args->v[0], name)) : NULL;
    if (!args->n || (attribute && args->n > 1 + otherwise))
        return chat_fail(r, "filter 'map' with these arguments is not known to snug");
    if (!attribute && !f)
        return chat_fail(r, "filter '%s' is not known to snug", name);
    TRY(chat_items(r, self, &items));
    TRY(chat_list_new(r, CHAT_LIST, items->n, &list, out));
    for (size_t i = 0; i < items->n; i++) {
        struct chat_value v;
        struct chat_args rest = behind(args, 1);
        TRY(attribute ? part_of(r, items->items[i], args->v[0], &v)
                      : chat_call_function(r, "filter", f, items->items[i], &rest, &v));
        if (otherwise && v.kind == CHAT_UNDEFINED)
            v = args->v[1];
        TRY(chat_list_add(r, list, v));
    }
    return SNUG_OK;
}

/* With a test, those that pass it; without, those that are true. `by_attribute`: the first argument names the part of an
 * item that is looked at. */
static int choose(struct chat_run *r, struct chat_value self, const struct chat_args *args, bool by_attribute,
                  bool keep, struct chat_value *out)
{
    const struct chat_list *items;
    struct chat_list *list;
    char name[32];
    if (by_attribute && !args->n)
        return chat_fail(r, "a choice by an attribute needs its name");
    bool tested = args->n > by_attribute;
    const struct chat_function *f = tested ? chat_test(named(args->v[by_attribute], name)) : NULL;
    if (tested && !f)
        return chat_fail(r, "test '%s' is not known to snug", name);
    TRY(chat_items(r, self, &items));
    TRY(chat_list_new(r, CHAT_LIST, 8, &list, out));
    for (size_t i = 0; i < items->n; i++) {
        struct chat_value v = items->items[i], yes;
        if (by_attribute)
            TRY(part_of(r, v, args->v[0], &v));
        yes = v;
        if (tested) {
            struct chat_args rest = behind(args, by_attribute + 1);
            TRY(chat_call_function(r, "test", f, v, &rest, &yes));
        }
        if (chat_true(yes) == keep)
            TRY(chat_list_add(r, list, items->items[i]));
    }
    return SNUG_OK;
}

FILTER(select)
{
    return choose(r, self, args, false, true, out);
}

FILTER(reject)
{
    return choose(r, self, args, false, false, out);
}

FILTER(selectattr)
{
    return choose(r, self, args, true, true, out);
}

FILTER(rejectattr)
{
    return choose(r, self, args, true, false, out);
}

FILTER(default)
{
    bool absent = self.kind == CHAT_UNDEFINED || (chat_true(args->v[1]) && !chat_true(self));
    *out = !absent ? self : given(args->v[0]) ? args->v[0] : chat_word("");
    (void)r;
    return SNUG_OK;
}

FILTER(safe) /* nothing is escaped */
{
    (void)args;
    return chat_as_text(r, self, out);
}

static const struct chat_function filters[] = {
    {"abs", "", filter_abs, 0},
    {"capitalize", "", filter_capitalize, 0},
    {"count", "", filter_length, 0},
    {"d", "default_value,boolean", filter_default, 0},
    {"default", "default_value,boolean", filter_default, 0},
    {"dictsort", "case_sensitive,by,reverse", filter_dictsort, 0},
    {"first", "", filter_first, 0},
    {"float", "default", filter_float, 0},
    {"indent", "width,first,blank", filter_indent, 0},
    {"int", "default", filter_int, 0},
    {"items", "", filter_items, 0},
    {"join", "d,attribute", filter_join, 0},
    {"last", "", filter_last, 0},
    {"length", "", filter_length, 0},
    {"list", "", filter_list, 0},
    {"lower", "", filter_lower, 0},
    {"map", "*", filter_map, 0},
    {"max", "case_sensitive,attribute", filter_max, 0},
    {"min", "case_sensitive,attribute", filter_min, 0},
    {"reject", "*", filter_reject, 0},
    {"rejectattr", "*", filter_rejectattr, 0},
    {"replace", "old,new,count", filter_replace, 0},
    {"reverse", "", filter_reverse, 0},
    {"safe", "", filter_safe, 0},
    {"select", "*", filter_select, 0},
    {"selectattr", "*", filter_selectattr, 0},
    {"sort", "reverse,case_sensitive,attribute", filter_sort, 0},
    {"string", "", filter_string, 0},
    {"sum", "attribute,start", filter_sum, 0},
    {"title", "", filter_title, 0},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", filter_tojson, 0},
    {"trim", "chars", filter_trim, 0},
    {"unique", "", filter_unique, 0},
    {"upper", "", filter_upper, 0},
};

const struct chat_function *chat_filter(const char *name)
{
    return chat_function_in(filters, sizeof filters / sizeof *filters, name);
}
