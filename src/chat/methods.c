/* Methods of strings and objects, as Python has them. */
#include "chat/eval.h"
#include "chat/text.h"

#include <string.h>

#define METHOD(name)                                                                                                   \
    static int method_##name(struct chat_run *r, struct chat_value self, const struct chat_args *args,                 \
                             struct chat_value *out)

static bool absent(struct chat_value v)
{
    return v.kind == CHAT_UNDEFINED || v.kind == CHAT_NONE;
}

/* ---- strings ---- */

static int strip(struct chat_run *r, struct chat_value self, const struct chat_args *args, enum chat_side side,
                 struct chat_value *out)
{
    struct chat_value chars = args->v[0];
    if (!absent(chars))
        TRY(chat_text_arg(r, chars, "what is stripped", &chars));
    *out = chat_strip(self, absent(chars) ? NULL : &chars, side);
    return SNUG_OK;
}

METHOD(strip)
{
    return strip(r, self, args, CHAT_BOTH, out);
}

METHOD(lstrip)
{
    return strip(r, self, args, CHAT_LEFT, out);
}

METHOD(rstrip)
{
    return strip(r, self, args, CHAT_RIGHT, out);
}

METHOD(split)
{
    struct chat_value separator = args->v[0];
    int64_t most;
    if (!absent(separator))
        TRY(chat_text_arg(r, separator, "split: the separator", &separator));
    TRY(chat_int_arg(r, args->v[1], "split: how often", -1, &most));
    return chat_split(r, self, absent(separator) ? NULL : &separator, most, out);
}

METHOD(splitlines)
{
    (void)args;
    return chat_split_lines(r, self, out);
}

METHOD(replace)
{
    struct chat_value from, to;
    int64_t most;
    TRY(chat_text_arg(r, args->v[0], "replace: what is replaced", &from));
    TRY(chat_text_arg(r, args->v[1], "replace: what it becomes", &to));
    TRY(chat_int_arg(r, args->v[2], "replace: how often", -1, &most));
    return chat_replace(r, self, from, to, most, out);
}

static bool has_end(struct chat_value self, struct chat_value end, bool front)
{
    if (end.kind != CHAT_TEXT || end.text.n > self.text.n)
        return false;
    const char *from = front ? self.text.s : self.text.s + self.text.n - end.text.n;
    return !end.text.n || !memcmp(from, end.text.s, end.text.n);
}

static int at_end(struct chat_run *r, struct chat_value self, const struct chat_args *args, bool front,
                  struct chat_value *out)
{
    struct chat_value end = args->v[0];
    bool yes = has_end(self, end, front);
    if (end.kind != CHAT_TEXT && end.kind != CHAT_TUPLE)
        return chat_fail(r, "an end of a string is %s, not a string", chat_kind_name(end));
    for (size_t i = 0; end.kind == CHAT_TUPLE && i < end.list->n; i++)
        yes |= has_end(self, end.list->items[i], front);
    *out = chat_bool(yes);
    return SNUG_OK;
}

METHOD(startswith)
{
    return at_end(r, self, args, true, out);
}

METHOD(endswith)
{
    return at_end(r, self, args, false, out);
}

static int remove_end(struct chat_run *r, struct chat_value self, const struct chat_args *args, bool front,
                      struct chat_value *out)
{
    struct chat_value end;
    TRY(chat_text_arg(r, args->v[0], "what is removed", &end));
    *out = self;
    if (has_end(self, end, front))
        *out = chat_text(self.text.s + (front ? end.text.n : 0), self.text.n - end.text.n);
    return SNUG_OK;
}

METHOD(removeprefix)
{
    return remove_end(r, self, args, true, out);
}

METHOD(removesuffix)
{
    return remove_end(r, self, args, false, out);
}

METHOD(upper)
{
    (void)args;
    return chat_in_case(r, self, CHAT_UPPER, out);
}

METHOD(lower)
{
    (void)args;
    return chat_in_case(r, self, CHAT_LOWER, out);
}

METHOD(capitalize)
{
    (void)args;
    return chat_in_case(r, self, CHAT_CAPITALIZED, out);
}

METHOD(title)
{
    (void)args;
    return chat_in_case(r, self, CHAT_TITLE, out);
}

METHOD(find)
{
    struct chat_value what;
    TRY(chat_text_arg(r, args->v[0], "find: what is looked for", &what));
    size_t at = chat_find(self, what, 0);
    *out = chat_int(at == CHAT_NOWHERE ? -1 : (int64_t)chat_length(chat_text(self.text.s, at)));
    return SNUG_OK;
}

METHOD(count)
{
    struct chat_value what;
    int64_t n = 0;
    TRY(chat_text_arg(r, args->v[0], "count: what is counted", &what));
    if (!what.text.n)
        n = (int64_t)chat_length(self) + 1;
    for (size_t at = 0; what.text.n && (at = chat_find(self, what, at)) != CHAT_NOWHERE; at += what.text.n)
        n++;
    *out = chat_int(n);
    return SNUG_OK;
}

METHOD(isdigit)
{
    (void)r, (void)args;
    size_t n = 0;
    while (n < self.text.n && self.text.s[n] >= '0' && self.text.s[n] <= '9')
        n++;
    *out = chat_bool(n && n == self.text.n);
    return SNUG_OK;
}

METHOD(join)
{
    const struct chat_function *f = chat_filter("join");
    struct chat_value v[2] = {self, chat_undefined("attribute")};
    return f->fn(r, args->v[0], &(struct chat_args){.v = v, .n = 2}, out);
}

/* ---- objects ---- */

METHOD(items)
{
    (void)args;
    struct chat_list *list, *pair;
    TRY(chat_list_new(r, CHAT_LIST, self.dict->n, &list, out));
    for (size_t i = 0; i < self.dict->n; i++) {
        struct chat_value both;
        TRY(chat_list_new(r, CHAT_TUPLE, 2, &pair, &both));
        TRY(chat_list_add(r, pair, self.dict->keys[i]));
        TRY(chat_list_add(r, pair, self.dict->values[i]));
        TRY(chat_list_add(r, list, both));
    }
    return SNUG_OK;
}

METHOD(keys)
{
    (void)args;
    const struct chat_list *keys;
    TRY(chat_items(r, self, &keys));
    *out = (struct chat_value){.kind = CHAT_LIST, .list = keys};
    return SNUG_OK;
}

METHOD(values)
{
    (void)args;
    struct chat_list *list;
    TRY(chat_list_new(r, CHAT_LIST, self.dict->n, &list, out));
    for (size_t i = 0; i < self.dict->n; i++)
        TRY(chat_list_add(r, list, self.dict->values[i]));
    return SNUG_OK;
}

METHOD(get)
{
    (void)r;
    const struct chat_value *v = chat_dict_get(self.dict, args->v[0]);
    *out = v ? *v : args->v[1].kind != CHAT_UNDEFINED ? args->v[1] : (struct chat_value){.kind = CHAT_NONE};
    return SNUG_OK;
}

enum { TEXTS = 1u << CHAT_TEXT, DICTS = 1u << CHAT_DICT };

static const struct chat_function methods[] = {
    {"capitalize", "", method_capitalize, TEXTS},
    {"count", "sub", method_count, TEXTS},
    {"endswith", "suffix", method_endswith, TEXTS},
    {"find", "sub", method_find, TEXTS},
    {"get", "key,default", method_get, DICTS},
    {"isdigit", "", method_isdigit, TEXTS},
    {"items", "", method_items, DICTS},
    {"join", "iterable", method_join, TEXTS},
    {"keys", "", method_keys, DICTS},
    {"lower", "", method_lower, TEXTS},
    {"lstrip", "chars", method_lstrip, TEXTS},
    {"removeprefix", "prefix", method_removeprefix, TEXTS},
    {"removesuffix", "suffix", method_removesuffix, TEXTS},
    {"replace", "old,new,count", method_replace, TEXTS},
    {"rstrip", "chars", method_rstrip, TEXTS},
    {"split", "sep,maxsplit", method_split, TEXTS},
    {"splitlines", "", method_splitlines, TEXTS},
    {"startswith", "prefix", method_startswith, TEXTS},
    {"strip", "chars", method_strip, TEXTS},
    {"title", "", method_title, TEXTS},
    {"upper", "", method_upper, TEXTS},
    {"values", "", method_values, DICTS},
};

const struct chat_function *chat_method(const char *name, enum chat_kind of)
{
    const struct chat_function *f = chat_function_in(methods, sizeof methods / sizeof *methods, name);
    return f && f->of & 1u << of ? f : NULL;
}
