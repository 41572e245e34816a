#include "output/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 16, MOST_WAITING = 1 << 20 };

static void say(const struct run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct run_log *l, const char *format, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (l->note)
        l->note(l->ctx, line);
}

/* Where the last whole line ends that begins within the first `bytes`. Zeros are what a power failure leaves of a part
 * that was never written; nothing from them on counts. */
static int last_whole_line(const struct run_log *l, int64_t bytes, int64_t *end, struct snug_err *err)
{
    char piece[PIECE];
    *end = 0;
    for (int64_t at = 0; at < bytes;) {
        int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        TRY(io_read_at(l->io, l->fd, l->path, piece, (size_t)n, at, err));
        for (int64_t i = 0; i < n; i++) {
            if (!piece[i])
                return SNUG_OK;
            if (piece[i] == '\n')
                *end = at + i + 1;
        }
        at += n;
    }
    return SNUG_OK;
}

int log_open(struct run_log *l, const struct io *io, const char *dir, int64_t keep,
             void (*note)(void *ctx, const char *line), void *ctx, struct snug_err *err)
{
    struct str path = {0};
    struct stat st;
    *l = (struct run_log){.io = io, .fd = -1, .note = note, .ctx = ctx};
    str_printf(&path, "%s/" LOG_NAME, dir);
    TRY(str_check(&path, err));
    l->path = path.s;
    l->fd = io->open(io, l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "open", errno);
    if (io->fstat(io, l->fd, &st) < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "stat", errno);
    TRY(io_fsync_dir(io, dir, err)); /* its name outlives a power failure, as its lines do with each checkpoint */
    TRY(last_whole_line(l, st.st_size < keep ? st.st_size : keep, &l->bytes, err));
    if (l->bytes < keep)
        say(l, "%s: has a gap: the checkpoint was saved behind %lld bytes, of which %lld are left", l->path,
            (long long)keep, (long long)l->bytes);
    if (st.st_size > l->bytes && io->ftruncate(io, l->fd, l->bytes) < 0)
        return err_errno(err, SNUG_ERR_IO, l->path, "shorten", errno);
    return SNUG_OK;
}

bool log_is_there(const struct io *io, const char *dir)
{
    struct str path = {0};
    str_printf(&path, "%s/" LOG_NAME, dir);
    bool there = !path.failed && io_exists(io, path.s);
    str_free(&path);
    return there;
}

/* A line more that waits, as long as there is room. */
static void keep_waiting(struct run_log *l, const char *json)
{
    l->missing++;
    if (l->waiting.n + strlen(json) <= MOST_WAITING && !l->waiting.failed)
        str_append(&l->waiting, json);
}

static int64_t count_lines(const char *text)
{
    int64_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

void log_flush(struct run_log *l)
{
    struct snug_err err;
    if (l->fd < 0 || !l->waiting.n || l->waiting.failed)
        return;
    if (io_write_at(l->io, l->fd, l->path, l->waiting.s, l->waiting.n, l->bytes, &err)) {
        if (!l->said)
            say(l, "%s; it is tried again with the next line", err.text);
        l->said = true;
        return;
    }
    int64_t late = count_lines(l->waiting.s);
    l->bytes += (int64_t)l->waiting.n;
    l->missing -= late;
    str_free(&l->waiting);
    if (l->said)
        say(l, "%s: can be written again; %lld lines came late", l->path, (long long)late - 1);
    l->said = false;
}

void log_line(struct run_log *l, const char *json)
{
    keep_waiting(l, json);
    log_flush(l);
}

void log_close(struct run_log *l)
{
    if (l->io && l->fd >= 0) {
        if (l->said) /* a part of a line may be there */
            l->io->ftruncate(l->io, l->fd, l->bytes);
        l->io->close(l->io, l->fd);
    }
    mem_free(l->path);
    str_free(&l->waiting);
    *l = (struct run_log){.fd = -1};
}

void log_remove(struct run_log *l)
{
    if (l->fd >= 0)
        l->io->unlink(l->io, l->path);
    log_close(l);
}

bool log_is_ours(const struct io *io, const char *path)
{
    static const char begins[] = "{\"step\": ";
    char line[4096];
    int fd;
    int64_t size;
    if (io_open_read(io, path, &fd, &size, NULL))
        return false;
    size_t n = size < (int64_t)sizeof line - 1 ? (size_t)size : sizeof line - 1;
    int code = io_read_at(io, fd, path, line, n, 0, NULL);
    io->close(io, fd);
    line[n] = 0;
    char *end = memchr(line, '\n', n);
    size_t same = n < sizeof begins - 1 ? n : sizeof begins - 1;
    if (code || strncmp(line, begins, same) != 0)
        return false;
    if (!end) /* a line that was never finished, or one that is far too long */
        return n < sizeof line - 1;
    *end = 0;
    return strstr(line, ", \"epoch\": ") &&
           (strstr(line, ", \"samples_per_second\": ") || strstr(line, ", \"eval_runtime\": "));
}

void log_number(struct str *s, const char *name, double value)
{
    str_printf(s, "%s\"%s\": ", s->n > 1 ? ", " : "", name);
    str_json_number(s, value, 10);
}
