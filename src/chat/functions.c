/* Functions that a template calls by name. */
#include "chat/eval.h"

#include <string.h>
#include <time.h>

#define FUNCTION(name)                                                                                                 \
    static int function_##name(struct chat_run *r, struct chat_value self, const struct chat_args *args,               \
                               struct chat_value *out)

FUNCTION(raise_exception)
{
    (void)self, (void)out;
    struct chat_value text;
    TRY(chat_as_text(r, args->v[0], &text));
    return chat_fail(r, "the template refuses it: %.*s", (int)(text.text.n < 200 ? text.text.n : 200), text.text.s);
}

FUNCTION(strftime_now)
{
    (void)self;
    struct chat_value format;
    char wanted[64], text[256];
    time_t now = (time_t)r->now;
    struct tm tm;
    TRY(chat_text_arg(r, args->v[0], "strftime_now: the format", &format));
    if (format.text.n >= sizeof wanted || !localtime_r(&now, &tm))
        return chat_fail(r, "strftime_now: a format of %zu bytes; at most %zu", format.text.n, sizeof wanted - 1);
    memcpy(wanted, format.text.s, format.text.n);
    wanted[format.text.n] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, wanted, &tm);
#pragma GCC diagnostic pop
    return chat_copy_text(r, text, n, out);
}

FUNCTION(namespace)
{
    (void)self;
    TRY(chat_dict_new(r, CHAT_NAMESPACE, out));
    for (int i = 0; i < args->n; i++) {
        if (!args->names[i] && args->v[i].kind != CHAT_DICT)
            return chat_fail(r, "namespace: an argument without a name");
        if (args->names[i]) {
            TRY(chat_dict_set(r, out->dict, chat_word(args->names[i]), args->v[i]));
            continue;
        }
        const struct chat_dict *d = args->v[i].dict;
        for (size_t k = 0; k < d->n; k++)
            TRY(chat_dict_set(r, out->dict, d->keys[k], d->values[k]));
    }
    return SNUG_OK;
}

FUNCTION(dict)
{
    TRY(function_namespace(r, self, args, out));
    out->kind = CHAT_DICT;
    return SNUG_OK;
}

FUNCTION(range)
{
    (void)self;
    int64_t x[3] = {0, 0, 1};
    struct chat_list *list;
    for (int i = 0; i < args->n && i < 3; i++)
        TRY(chat_int_arg(r, args->v[i], "range: a bound", 0, &x[i]));
    if (args->n < 1 || args->n > 3 || x[2] == 0)
        return chat_fail(r, "range with these arguments is not known to snug");
    if (args->n == 1) {
        x[1] = x[0];
        x[0] = 0;
    }
    TRY(chat_list_new(r, CHAT_LIST, 8, &list, out));
    while (x[2] > 0 ? x[0] < x[1] : x[0] > x[1]) {
        TRY(chat_step(r));
        TRY(chat_list_add(r, list, chat_int(x[0])));
        if (__builtin_add_overflow(x[0], x[2], &x[0]))
            break;
    }
    return SNUG_OK;
}

static const struct chat_function functions[] = {
    {"dict", "*", function_dict, 0},
    {"namespace", "*", function_namespace, 0},
    {"raise_exception", "message", function_raise_exception, 0},
    {"range", "*", function_range, 0},
    {"strftime_now", "format", function_strftime_now, 0},
};

const struct chat_function *chat_global(const char *name)
{
    return chat_function_in(functions, sizeof functions / sizeof *functions, name);
}
