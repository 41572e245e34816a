/* Whether a name is meant by an entry of an adapter's configuration, as PEFT decides it. */
#include "adapter/matching.h"

#include "base/str.h"
#include "tokenizer/regex.h"

#include <string.h>

bool matching_ends(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcmp(path + n - k, end) && (n == k || path[n - k - 1] == '.');
}

/* Whether the whole path is what the expression says; `before`: what may stand in front of that. */
static int whole_matches(const struct matching *m, const char *before, const char *expression, const char *path,
                         bool *matches, struct snug_err *err)
{
    struct str anchored = {0};
    struct regex *r = NULL;
    size_t start, end;
    str_printf(&anchored, "\\A%s(?:%s)\\z", before, expression);
    int code = str_check(&anchored, err);
    if (!code)
        code = regex_new(str_text(&anchored), m->c->path, &r, err);
    if (!code)
        code = regex_next(r, m->scratch, path, strlen(path), 0, matches, &start, &end, err);
    if (!code)
        *matches = *matches && start == 0;
    regex_free(r);
    str_free(&anchored);
    return code;
}

/* Whether a weight's name, or the end of one, is that of the module's weight. */
bool matching_names_weight(const char *path, const char *name)
{
    static const char weight[] = ".weight";
    size_t n = strlen(name), k = sizeof weight - 1, length = strlen(path);
    if (n <= k || strcmp(name + n - k, weight) != 0 || length < n - k)
        return false;
    return !strncmp(path + length - (n - k), name, n - k) && (length == n - k || path[length - (n - k) - 1] == '.');
}

bool matching_is_parameter(const struct matching *m, const char *path)
{
    size_t i;
    json_t *name;
    bool any = false;
    json_array_foreach(m->c->parameters, i, name) any |= matching_names_weight(path, json_string_value(name));
    return any;
}

/* A list of names or ends of paths, or one regular expression for the whole. */
int matching_in_list(const struct matching *m, json_t *list, const char *path, bool *matches, struct snug_err *err)
{
    size_t i;
    json_t *name;
    *matches = false;
    if (json_is_string(list))
        return whole_matches(m, "", json_string_value(list), path, matches, err);
    json_array_foreach(list, i, name) *matches |= matching_ends(path, json_string_value(name));
    return SNUG_OK;
}

/* The value of the first expression that the path ends with, else what `value` holds. */
int matching_pattern_value(const struct matching *m, json_t *patterns, const char *path, double *value,
                           struct snug_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(patterns, key, v)
    {
        bool matches;
        TRY(whole_matches(m, "(?:.*\\.)?", key, path, &matches, err));
        if (!matches)
            continue;
        *value = json_number_value(v);
        return SNUG_OK;
    }
    return SNUG_OK;
}
