/* Between JSON and a template's values. */
#include "chat/value.h"

#include <string.h>

enum { DEPTH = 130 }; /* of what json_parse lets through, and a little */

static int of_json(struct chat_run *r, json_t *j, int depth, struct chat_value *out)
{
    struct chat_list *list;
    const char *key;
    json_t *member;
    struct chat_value v;
    if (depth > DEPTH)
        return chat_fail(r, "a message is nested deeper than %d", DEPTH);
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        TRY(chat_dict_new(r, CHAT_DICT, out));
        json_object_foreach(j, key, member)
        {
            TRY(of_json(r, member, depth + 1, &v));
            TRY(chat_dict_set(r, out->dict, chat_word(key), v));
        }
        return SNUG_OK;
    case JSON_ARRAY:
        TRY(chat_list_new(r, CHAT_LIST, json_array_size(j), &list, out));
        for (size_t i = 0; i < json_array_size(j); i++) {
            TRY(of_json(r, json_array_get(j, i), depth + 1, &v));
            TRY(chat_list_add(r, list, v));
        }
        return SNUG_OK;
    case JSON_STRING:
        *out = chat_text(json_string_value(j), json_string_length(j));
        return SNUG_OK;
    case JSON_INTEGER:
        *out = chat_int(json_integer_value(j));
        return SNUG_OK;
    case JSON_REAL:
        *out = (struct chat_value){.kind = CHAT_REAL, .real = json_real_value(j)};
        return SNUG_OK;
    case JSON_NULL:
        *out = (struct chat_value){.kind = CHAT_NONE};
        return SNUG_OK;
    default:
        *out = chat_bool(json_is_true(j));
        return SNUG_OK;
    }
}

int chat_of_json(struct chat_run *r, json_t *j, struct chat_value *out)
{
    return of_json(r, j, 0, out);
}

/* ---- writing ---- */

struct writing {
    struct chat_run *r;
    const struct chat_json_form *form;
    struct str *s;
};

static void new_line(const struct writing *w, int depth)
{
    if (w->form->indent >= 0)
        str_printf(w->s, "\n%*s", w->form->indent * depth, "");
}

/* What is no printed ASCII as one or two words of UTF-16. */
static void append_ascii(struct str *to, const char *s)
{
    while (*s) {
        size_t plain = 0;
        while (s[plain] > 0 && s[plain] < 0x7f)
            plain++;
        str_append_n(to, s, plain);
        s += plain;
        if (!*s)
            return;
        int n = utf8_sequence(s, strlen(s));
        uint32_t c = (uint8_t)s[0] & (n > 1 ? 0xFFu >> (n + 1) : 0x7Fu);
        for (int i = 1; i < n; i++)
            c = c << 6 | ((uint8_t)s[i] & 0x3Fu);
        if (c >= 0x10000)
            str_printf(to, "\\u%04x", 0xD800 + ((c - 0x10000) >> 10));
        str_printf(to, "\\u%04x", c >= 0x10000 ? 0xDC00 + ((c - 0x10000) & 0x3FF) : c);
        s += n ? n : 1;
    }
}

static int write_text(const struct writing *w, struct chat_value v)
{
    char *copy = mem_alloc(v.text.n + 1);
    struct str quoted = {0};
    if (!copy)
        return err_no_memory(w->r->err, v.text.n);
    if (v.text.n)
        memcpy(copy, v.text.s, v.text.n);
    str_json(w->form->ascii ? &quoted : w->s, copy);
    mem_free(copy);
    int code = str_check(&quoted, w->r->err);
    if (!code && w->form->ascii)
        append_ascii(w->s, str_text(&quoted));
    str_free(&quoted);
    return code;
}

/* A value that is neither a list nor an object. */
static int write_plain(const struct writing *w, struct chat_value v)
{
    struct chat_value text;
    switch (v.kind) {
    case CHAT_TEXT:
        return write_text(w, v);
    case CHAT_NONE:
        str_append(w->s, "null");
        return SNUG_OK;
    case CHAT_BOOL:
        str_append(w->s, v.yes ? "true" : "false");
        return SNUG_OK;
    case CHAT_INT:
    case CHAT_REAL:
        TRY(chat_as_text(w->r, v, &text));
        str_append_n(w->s, text.text.s, text.text.n);
        return SNUG_OK;
    default:
        return chat_fail(w->r, "tojson of %s", chat_kind_name(v));
    }
}

/* Keys that are no texts become texts. */
static int write_key(const struct writing *w, struct chat_value key)
{
    const char *quote = key.kind == CHAT_TEXT ? "" : "\"";
    str_append(w->s, quote);
    TRY(write_plain(w, key));
    str_append(w->s, quote);
    str_append_n(w->s, w->form->colon.text.s, w->form->colon.text.n);
    return SNUG_OK;
}

static int write_value(const struct writing *w, struct chat_value v, int depth)
{
    bool dict = v.kind == CHAT_DICT;
    size_t *order = NULL, n = dict ? v.dict->n : v.kind == CHAT_LIST || v.kind == CHAT_TUPLE ? v.list->n : 0;
    TRY(chat_step(w->r));
    if (depth > DEPTH || w->s->n > CHAT_MEMORY) /* an object that was put into itself */
        return chat_fail(w->r, "tojson: nested too deep, or too long");
    if (!dict && v.kind != CHAT_LIST && v.kind != CHAT_TUPLE)
        return write_plain(w, v);
    if (dict && w->form->sorted)
        TRY(chat_sort(w->r, &(struct chat_list){.n = n, .items = v.dict->keys}, false, &order));
    str_append(w->s, dict ? "{" : "[");
    for (size_t i = 0; i < n; i++) {
        size_t at = order ? order[i] : i;
        if (i)
            str_append_n(w->s, w->form->comma.text.s, w->form->comma.text.n);
        new_line(w, depth + 1);
        if (dict)
            TRY(write_key(w, v.dict->keys[at]));
        TRY(write_value(w, dict ? v.dict->values[at] : v.list->items[at], depth + 1));
    }
    if (n)
        new_line(w, depth);
    str_append(w->s, dict ? "}" : "]");
    return SNUG_OK;
}

int chat_to_json(struct chat_run *r, struct chat_value v, const struct chat_json_form *form, struct chat_value *out)
{
    struct str s = {0};
    int code = write_value(&(struct writing){.r = r, .form = form, .s = &s}, v, 0);
    return chat_take_str(r, &s, code, out);
}
