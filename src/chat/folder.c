#include "chat/folder.h"

#include "format/json.h"

#include <string.h>

enum { FILE_BYTES = 64 << 20 };

/* A string, or a list of {"name": …, "template": …}. NULL: neither. */
static const char *text_of(json_t *value)
{
    const char *found = json_string_value(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_t *item = json_array_get(value, i), *name = json_object_get(item, "name");
        if (json_is_string(name) && !strcmp(json_string_value(name), "default"))
            found = json_string_value(json_object_get(item, "template"));
    }
    return found;
}

int chat_template_of_json(json_t *file, const char *path, struct chat_template **out, struct snug_err *err)
{
    json_t *value = json_object_get(file, "chat_template");
    const char *text = text_of(value);
    char shown[64];
    *out = NULL;
    if (text)
        return chat_template_open("chat_template", text, strlen(text), out, err);
    if (!value || json_is_null(value))
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: chat_template is %s; a string was expected, or a list with a 'default'",
                   path, json_value_text(value, shown));
}

static int of_json(const struct io *io, const char *path, struct chat_template **out, struct snug_err *err)
{
    json_t *file;
    TRY(json_read_object(io, path, FILE_BYTES, &file, err));
    int code = chat_template_of_json(file, path, out, err);
    json_decref(file);
    return code;
}

static int of_jinja(const struct io *io, const char *path, struct chat_template **out, struct snug_err *err)
{
    char *text;
    size_t bytes;
    TRY(io_read_file(io, path, FILE_BYTES, &text, &bytes, err));
    int code = chat_template_open("chat_template", text, bytes, out, err);
    mem_free(text);
    return code;
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

int chat_template_of_file(const struct io *io, const char *path, struct chat_template **out, struct snug_err *err)
{
    *out = NULL;
    if (!ends_with(path, ".json"))
        return of_jinja(io, path, out, err);
    TRY(of_json(io, path, out, err));
    return *out ? SNUG_OK
                : err_set(err, SNUG_ERR_INPUT, "%s: no 'chat_template' in it; give a file with one, or a .jinja file",
                          path);
}

int chat_template_of_folder(const struct io *io, const char *dir, struct chat_template **out, struct snug_err *err)
{
    static const char *const names[] = {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"};
    int code = SNUG_OK;
    *out = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !*out && !code; i++) {
        struct str path = {0};
        str_printf(&path, "%s/%s", dir, names[i]);
        code = str_check(&path, err);
        if (!code && io_exists(io, str_text(&path)))
            code = ends_with(names[i], ".json") ? of_json(io, str_text(&path), out, err)
                                                : of_jinja(io, str_text(&path), out, err);
        str_free(&path);
    }
    return code;
}
