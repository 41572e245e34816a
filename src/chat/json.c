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

static void new_line(struct str *s, int indent, int depth)
{
    if (indent >= 0)
        str_printf(s, "\n%*s", indent * depth, "");
}

static int write_text(struct chat_run *r, struct chat_value v, struct str *s)
{
    char *copy = mem_alloc(v.text.n + 1);
    if (!copy)
        return err_no_memory(r->err, v.text.n);
    if (v.text.n)
        memcpy(copy, v.text.s, v.text.n);
    str_json(s, copy);
    mem_free(copy);
    return SNUG_OK;
}

static int write_value(struct chat_run *r, struct chat_value v, int indent, int depth, struct str *s)
{
    const char *comma = indent < 0 ? ", " : ",";
    struct chat_value text;
    TRY(chat_step(r));
    if (depth > DEPTH || s->n > CHAT_MEMORY) /* an object that was put into itself */
        return chat_fail(r, "tojson: nested too deep, or too long");
    switch (v.kind) {
    case CHAT_LIST:
    case CHAT_TUPLE:
        str_append(s, "[");
        for (size_t i = 0; i < v.list->n; i++) {
            str_append(s, i ? comma : "");
            new_line(s, indent, depth + 1);
            TRY(write_value(r, v.list->items[i], indent, depth + 1, s));
        }
        if (v.list->n)
            new_line(s, indent, depth);
        str_append(s, "]");
        return SNUG_OK;
    case CHAT_DICT:
        str_append(s, "{");
        for (size_t i = 0; i < v.dict->n; i++) {
            str_append(s, i ? comma : "");
            new_line(s, indent, depth + 1);
            TRY(write_text(r, v.dict->keys[i], s));
            str_append(s, ": ");
            TRY(write_value(r, v.dict->values[i], indent, depth + 1, s));
        }
        if (v.dict->n)
            new_line(s, indent, depth);
        str_append(s, "}");
        return SNUG_OK;
    case CHAT_TEXT:
        return write_text(r, v, s);
    case CHAT_NONE:
        str_append(s, "null");
        return SNUG_OK;
    case CHAT_BOOL:
        str_append(s, v.yes ? "true" : "false");
        return SNUG_OK;
    case CHAT_INT:
    case CHAT_REAL:
        TRY(chat_as_text(r, v, &text));
        str_append_n(s, text.text.s, text.text.n);
        return SNUG_OK;
    default:
        return chat_fail(r, "tojson of %s", chat_kind_name(v));
    }
}

int chat_to_json(struct chat_run *r, struct chat_value v, int indent, struct chat_value *out)
{
    struct str s = {0};
    int code = write_value(r, v, indent, 0, &s);
    return chat_take_str(r, &s, code, out);
}
