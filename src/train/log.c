#include "train/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int log_open(struct run_log *l, const struct io *io, const char *dir, int64_t keep, struct snug_err *err)
{
    struct str path = {0};
    *l = (struct run_log){.io = io, .fd = -1};
    str_printf(&path, "%s/log.jsonl", dir);
    TRY(str_check(&path, err));
    l->path = path.s;
    l->fd = io->open(io, l->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "open", errno);
    struct stat st;
    if (io->fstat(io, l->fd, &st) < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "fstat", errno);
    l->bytes = st.st_size < keep ? st.st_size : keep;
    if (st.st_size > keep && io->ftruncate(io, l->fd, keep) < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "shorten", errno);
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

void log_remove(struct run_log *l)
{
    if (l->fd >= 0)
        l->io->unlink(l->io, l->path);
    log_close(l);
}

void log_number(struct str *s, const char *name, double value)
{
    str_append(s, s->n > 1 ? ", " : "");
    if (isfinite(value))
        str_printf(s, "\"%s\": %.10g", name, value);
    else
        str_printf(s, "\"%s\": \"%s\"", name, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}
