#include "output/own_json.h"

#include "base/out_file.h"

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

static bool is_ours(const struct io *io, const char *path)
{
    json_t *file = own_json_read(io, path);
    json_decref(file);
    return file;
}

int own_json_write(const struct io *io, const char *path, const char *tmp, const struct str *text, struct snug_err *err)
{
    struct out_file f = {0};
    struct stat st;
    bool is_there = !io->lstat(io, path, &st) && S_ISREG(st.st_mode);
    if (is_there && !is_ours(io, path))
        return err_set(err, SNUG_ERR_USAGE, "%s: is there already and was not written by snug; rename it", path);
    int code = out_file_open_as(io, path, tmp, is_there, &f, err);
    if (!code)
        code = out_file_write(&f, str_text(text), text->n, err);
    if (!code)
        code = out_file_publish(&f, err);
    out_file_drop(&f);
    return code;
}

void own_json_begin(struct str *out)
{
    str_append(out, "{\"snug_version\": ");
    str_json(out, SNUG_VERSION);
}
