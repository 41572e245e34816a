#include "output/own_json.h"

#include "output/own_file.h"

enum { FILE_LIMIT = 64 << 20 };

json_t *own_json_read(const struct io *io, const char *path)
{
    json_t *file = NULL;
    if (!io_exists(io, path) || json_read_object(io, path, FILE_LIMIT, &file, NULL))
        return NULL;
    if (json_is_string(json_object_get(file, "snug_version")))
        return file;
    json_decref(file);
    return NULL;
}

bool own_json_is(const struct io *io, const char *path)
{
    json_t *file = own_json_read(io, path);
    json_decref(file);
    return file;
}

int own_json_write(const struct io *io, const char *path, const char *tmp, const struct str *text, struct snug_err *err)
{
    return own_file_write(io, path, tmp, own_json_is, "was not written by snug; rename it", text, err);
}

void own_json_begin(struct str *out)
{
    str_append(out, "{\"snug_version\": ");
    str_json(out, SNUG_VERSION);
}
