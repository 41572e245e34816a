#include "train/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The first `keep` bytes of the log, written anew: there is no other way to cut a file whole. */
static int cut(const struct io *io, const char *path, int64_t keep, struct snug_err *err)
{
    char *text;
    size_t n;
    if (!io_exists(io, path))
        return SNUG_OK;
    TRY(io_read_file(io, path, INT64_MAX, &text, &n, err));
    int code = (int64_t)n > keep ? io_write_file(io, path, text, (size_t)keep, err) : SNUG_OK;
    mem_free(text);
    return code;
}

int log_open(struct run_log *l, const struct io *io, const char *dir, int64_t keep, struct snug_err *err)
{
    struct str path = {0};
    *l = (struct run_log){.io = io, .fd = -1};
    str_printf(&path, "%s/log.jsonl", dir);
    TRY(str_check(&path, err));
    l->path = path.s;
    TRY(cut(io, l->path, keep, err));
    l->fd = io->open(io, l->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "open", errno);
    struct stat st;
    l->bytes = io->fstat(io, l->fd, &st) == 0 && st.st_size < keep ? st.st_size : keep;
    return SNUG_OK;
}

void log_line(struct run_log *l, const char *json, void (*note)(void *ctx, const char *line), void *ctx)
{
    if (l->fd < 0)
        return;
    struct snug_err err;
    size_t n = strlen(json);
    if (!io_write_at(l->io, l->fd, l->path, json, n, l->bytes, &err)) {
        l->bytes += (int64_t)n;
        return;
    }
    l->io->close(l->io, l->fd);
    l->fd = -1;
    if (note)
        note(ctx, err.text);
}

void log_close(struct run_log *l)
{
    if (l->io && l->fd >= 0)
        l->io->close(l->io, l->fd);
    mem_free(l->path);
    *l = (struct run_log){.fd = -1};
}

void log_number(struct str *s, const char *name, double value)
{
    str_append(s, s->n > 1 ? ", " : "");
    if (isfinite(value))
        str_printf(s, "\"%s\": %.10g", name, value);
    else
        str_printf(s, "\"%s\": \"%s\"", name, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}
