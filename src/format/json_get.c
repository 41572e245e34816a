/* Typed members of JSON objects: one place that checks type and range, and words the complaint. */
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *json_value_text(json_t *v, char text[64])
{
    if (!v)
        return strcpy(text, "absent");
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return strcpy(text, "an object");
    case JSON_ARRAY:
        return strcpy(text, "an array");
    case JSON_STRING:
        snprintf(text, 64, json_string_length(v) > 56 ? "\"%.53s...\"" : "\"%.56s\"", json_string_value(v));
        return text;
    case JSON_INTEGER:
        snprintf(text, 64, "%lld", (long long)json_integer_value(v));
        return text;
    case JSON_REAL:
        /* The shortest digits that read back as the same number, with ".0" where it would look like an integer. */
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, 60, "%.*g", digits, json_real_value(v));
            if (strtod(text, NULL) == json_real_value(v))
                break;
        }
        if (!strpbrk(text, ".e"))
            strcat(text, ".0");
        return text;
    case JSON_TRUE:
        return strcpy(text, "true");
    case JSON_FALSE:
        return strcpy(text, "false");
    default:
        return strcpy(text, "null");
    }
}

/* *v is NULL when the key is absent or null and need not be there. */
static int member(json_t *o, const char *path, const char *key, bool required, json_t **v, struct snug_err *err)
{
    *v = json_object_get(o, key);
    if (*v && !json_is_null(*v))
        return SNUG_OK;
    if (required)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; it must be given", path, key, *v ? "null" : "absent");
    *v = NULL;
    return SNUG_OK;
}

int json_get_int(json_t *o, const char *path, const char *key, bool required, int64_t min, int64_t max, int64_t *out,
                 struct snug_err *err)
{
    json_t *v;
    char text[64];
    TRY(member(o, path, key, required, &v, err));
    if (!v)
        return SNUG_OK;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; expected an integer from %lld to %lld", path, key,
                       json_value_text(v, text), (long long)min, (long long)max);
    *out = json_integer_value(v);
    return SNUG_OK;
}

int json_get_real(json_t *o, const char *path, const char *key, bool required, double min, double max, double *out,
                  struct snug_err *err)
{
    json_t *v;
    char text[64];
    TRY(member(o, path, key, required, &v, err));
    if (!v)
        return SNUG_OK;
    if (!json_is_number(v) || !(json_number_value(v) >= min && json_number_value(v) <= max))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; expected a number from %g to %g", path, key,
                       json_value_text(v, text), min, max);
    *out = json_number_value(v);
    return SNUG_OK;
}

int json_get_bool(json_t *o, const char *path, const char *key, bool required, bool *out, struct snug_err *err)
{
    json_t *v;
    char text[64];
    TRY(member(o, path, key, required, &v, err));
    if (!v)
        return SNUG_OK;
    if (!json_is_boolean(v))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; expected true or false", path, key,
                       json_value_text(v, text));
    *out = json_is_true(v);
    return SNUG_OK;
}

int json_get_string(json_t *o, const char *path, const char *key, bool required, const char **out, struct snug_err *err)
{
    json_t *v;
    char text[64];
    TRY(member(o, path, key, required, &v, err));
    if (!v)
        return SNUG_OK;
    if (!json_is_string(v))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; expected a string", path, key, json_value_text(v, text));
    *out = json_string_value(v);
    return SNUG_OK;
}
