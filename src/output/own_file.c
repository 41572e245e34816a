#include "output/own_file.h"

#include "base/out_file.h"

#include <string.h>

enum { HEAD = 256 };

bool own_file_has_mark(const struct io *io, const char *path, const char *mark)
{
    char head[HEAD + 1] = {0};
    int fd;
    int64_t size;
    if (io_open_read(io, path, &fd, &size, NULL))
        return false;
    int code = io_read_at(io, fd, path, head, size < HEAD ? (size_t)size : HEAD, 0, NULL);
    io->close(io, fd);
    return !code && strstr(head, mark);
}

int own_file_write(const struct io *io, const char *path, const char *tmp,
                   bool (*is_ours)(const struct io *io, const char *path), const char *otherwise,
                   const struct str *text, struct snug_err *err)
{
    struct out_file f = {0};
    struct stat st;
    bool is_there = !io->lstat(io, path, &st) && S_ISREG(st.st_mode);
    if (is_there && !is_ours(io, path))
        return err_set(err, SNUG_ERR_USAGE, "%s: is there already and %s", path, otherwise);
    int code = out_file_open_as(io, path, tmp, is_there, &f, err);
    if (!code)
        code = out_file_write(&f, str_text(text), text->n, err);
    if (!code)
        code = out_file_publish(&f, err);
    out_file_drop(&f);
    return code;
}
