/* What functions of all kinds ask of their arguments. */
#include "chat/eval.h"

#include <string.h>

int chat_text_arg(struct chat_run *r, struct chat_value v, const char *what, struct chat_value *out)
{
    *out = v;
    return v.kind == CHAT_TEXT ? SNUG_OK : chat_fail(r, "%s is %s, not a string", what, chat_kind_name(v));
}

int chat_int_arg(struct chat_run *r, struct chat_value v, const char *what, int64_t otherwise, int64_t *out)
{
    *out = v.kind == CHAT_INT ? v.whole : v.kind == CHAT_BOOL ? v.yes : otherwise;
    return v.kind == CHAT_INT || v.kind == CHAT_BOOL || v.kind == CHAT_UNDEFINED
               ? SNUG_OK
               : chat_fail(r, "%s is %s, not an integer", what, chat_kind_name(v));
}

const struct chat_function *chat_function_in(const struct chat_function *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}
