#include "data/files/source.h"

#include "base/files/unpack.h"
#include "base/str.h"
#include "data/files/foreign.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 256 * 1024, LONGEST_SEQUENCE = 4, WAIT_MS = 200 }; /* bytes: of a read, of a character */

int err_at(struct snug_err *err, int code, struct place p, const char *format, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return err_set(err, code, p.is_row ? "%s: row %lld: %s" : "%s:%lld: %s", p.path, (long long)p.n, text);
}

static int bad_byte(const struct source *s, struct snug_err *err)
{
    struct place p = {.path = s->path, .n = s->line};
    unsigned char byte = (unsigned char)s->buf[0];
    if (!byte)
        return err_at(err, SNUG_ERR_INPUT, p, "row %lld has a NUL byte at offset %lld; remove it", (long long)s->row,
                      (long long)s->offset);
    return err_at(err, SNUG_ERR_INPUT, p,
                  "row %lld, byte at offset %lld: 0x%02X is not UTF-8; convert it (from Windows: iconv -f cp1252 -t "
                  "utf-8)",
                  (long long)s->row, (long long)s->offset, byte);
}

int source_check_unchanged(const struct io *io, int fd, const char *path, int64_t size, struct timespec mtime,
                           struct snug_err *err)
{
    struct stat st;
    if (io->fstat(io, fd, &st) < 0)
        return err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    if (st.st_size == size && st.st_mtim.tv_sec == mtime.tv_sec && st.st_mtim.tv_nsec == mtime.tv_nsec)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_IO, "%s: changed while it was read (%lld bytes, now %lld); start again", path,
                   (long long)size, (long long)st.st_size);
}

/* Whether a read of a stream would give something at once; looks for `milliseconds` at most. */
static bool is_ready(const struct source *s, int milliseconds)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    return poll(&p, 1, milliseconds) > 0;
}

/* The next bytes of a stream. Where they end, s->size becomes known. */
static int read_stream(struct source *s, void *to, size_t room, int64_t at, size_t *n, struct snug_err *err)
{
    if (s->before_waiting && !is_ready(s, 0))
        TRY(s->before_waiting(s->waiting_ctx, err));
    while (!is_ready(s, WAIT_MS)) /* a signal may come just before it begins to wait */
        TRY(source_check_stop(s->stop, s->path, err));
    ssize_t got;
    do
        got = s->io->read(s->io, s->fd, to, room);
    while (got < 0 && errno == EINTR && !stop_asked(s->stop));
    if (got < 0 && errno == EINTR)
        return source_check_stop(s->stop, s->path, err);
    if (got < 0)
        return err_errno(err, SNUG_ERR_IO, s->path, "read", errno);
    *n = (size_t)got;
    hash_add(s->hash, to, *n);
    if (!got)
        s->size = at;
    return SNUG_OK;
}

static int read_unpacked(struct source *s, void *to, size_t room, int64_t at, size_t *n, struct snug_err *err)
{
    TRY(unpack_read(s->packed, to, room, n, err));
    if (!*n)
        s->size = at;
    return SNUG_OK;
}

static int read_plain(struct source *s, void *to, size_t room, int64_t at, size_t *n, struct snug_err *err)
{
    TRY(io_read_some(s->io, s->fd, s->path, to, room, at, n, err));
    hash_add(s->hash, to, *n);
    return SNUG_OK;
}

/* One read behind the bytes that are there. */
static int read_more(struct source *s, struct snug_err *err)
{
    size_t there = s->n + s->held, room = s->room - there, n = 0;
    int64_t at = s->offset + (int64_t)there, left = s->size - at;
    size_t want = left < (int64_t)room ? (size_t)left : room;
    if (want)
        TRY((s->is_stream ? read_stream
             : s->packed  ? read_unpacked
                          : read_plain)(s, s->buf + there, want, at, &n, err));
    size_t valid = utf8_prefix(s->buf + s->n, s->held + n);
    s->held = s->held + n - valid;
    s->n += valid;
    return SNUG_OK;
}

/* Whether a read may have cut a character, so that the next one tells. */
static bool may_go_on(const struct source *s)
{
    return s->held < LONGEST_SEQUENCE && s->offset + (int64_t)(s->n + s->held) < s->size;
}

int source_fill(struct source *s, struct snug_err *err)
{
    memmove(s->buf, s->buf + s->n, s->held);
    s->offset += (int64_t)s->n;
    s->i = s->n = 0;
    do
        TRY(read_more(s, err));
    while (s->n == 0 && s->held > 0 && may_go_on(s));
    if (s->n == 0 && s->held)
        return bad_byte(s, err);
    if (s->n == 0 && !s->is_stream)
        return source_check_unchanged(s->io, s->fd, s->path, s->file_size, s->mtime, err);
    return SNUG_OK;
}

/* Enough of the beginning to see what kind of file it is; of a stream what comes first. */
static int read_head(struct source *s, struct snug_err *err)
{
    size_t there;
    do {
        TRY(read_more(s, err));
        there = s->n + s->held;
    } while (s->is_stream ? s->n == 0 && may_go_on(s) : there < FOREIGN_HEAD_BYTES && (int64_t)there < s->size);
    TRY(foreign_refuse(s->path, s->buf, s->n + s->held, err));
    if (s->n == 0 && s->held)
        return bad_byte(s, err);
    if (s->n >= 3 && memcmp(s->buf, "\xEF\xBB\xBF", 3) == 0)
        s->i = 3;
    return SNUG_OK;
}

/* Looks at how the file begins, and has it unpacked where it is compressed. */
static int open_packed(struct source *s, struct snug_err *err)
{
    char head[FOREIGN_HEAD_BYTES];
    size_t n = s->file_size < FOREIGN_HEAD_BYTES ? (size_t)s->file_size : FOREIGN_HEAD_BYTES;
    TRY(io_read_at(s->io, s->fd, s->path, head, n, 0, err));
    if (!unpack_knows(head, n))
        return SNUG_OK;
    s->size = INT64_MAX;
    return unpack_open(s->io, s->fd, s->path, s->file_size, head, n, s->hash, &s->packed, err);
}

int source_open(const struct io *io, const char *path, struct source *s, struct snug_err *err)
{
    *s = (struct source){.io = io, .path = path, .fd = -1, .line = 1, .row = 1};
    int code;
    struct stat st;
    TRY_TO(fail, io_open_read(io, path, &s->fd, &s->file_size, err));
    if (io->fstat(io, s->fd, &st) < 0) {
        code = err_errno(err, SNUG_ERR_IO, path, "stat", errno);
        goto fail;
    }
    s->mtime = st.st_mtim;
    s->size = s->file_size;
    s->hash = hash_new();
    if (!s->hash) {
        code = err_no_memory(err, CHUNK);
        goto fail;
    }
    TRY_TO(fail, open_packed(s, err));
    s->room = s->size < CHUNK ? (size_t)s->size + !s->size : CHUNK;
    s->buf = mem_alloc(s->room);
    if (!s->buf) {
        code = err_no_memory(err, CHUNK);
        goto fail;
    }
    TRY_TO(fail, read_head(s, err));
    return SNUG_OK;
fail:
    source_close(s);
    return code;
}

int source_open_stream(const struct io *io, int fd, const char *path, const struct stop_flag *stop, struct source *s,
                       struct snug_err *err)
{
    *s = (struct source){.io = io, .path = path, .fd = fd, .line = 1, .row = 1, .is_stream = true, .stop = stop};
    s->size = INT64_MAX;
    s->room = CHUNK;
    s->buf = mem_alloc(s->room);
    s->hash = hash_new();
    int code = s->buf && s->hash ? read_head(s, err) : err_no_memory(err, CHUNK);
    if (code)
        source_close(s);
    return code;
}

void source_before_waiting(struct source *s, int (*fn)(void *ctx, struct snug_err *err), void *ctx)
{
    s->before_waiting = fn;
    s->waiting_ctx = ctx;
}

int source_first_line(struct source *s, size_t *bytes, struct snug_err *err)
{
    for (;;) {
        const char *from = s->buf + s->i, *end = memchr(from, '\n', s->n - s->i);
        bool more = may_go_on(s) && s->n + s->held < s->room;
        *bytes = end ? (size_t)(end - from) : s->n - s->i;
        if (end || !more)
            return SNUG_OK;
        TRY(read_more(s, err));
    }
}

struct hash128 source_hash(const struct source *s)
{
    return hash_now(s->hash);
}

void source_close(struct source *s)
{
    if (s->fd >= 0 && !s->is_stream)
        s->io->close(s->io, s->fd);
    s->fd = -1;
    unpack_close(s->packed);
    s->packed = NULL;
    mem_free(s->buf);
    s->buf = NULL;
    if (s->hash)
        hash_end(s->hash);
    s->hash = NULL;
}

int source_check_stop(const struct stop_flag *stop, const char *path, struct snug_err *err)
{
    return stop_asked(stop)
               ? err_set(err, SNUG_STOPPED, "%s: stopped by a signal while it was read; there is nothing to save", path)
               : SNUG_OK;
}

int source_hash_open(const struct io *io, int fd, const char *path, int64_t size, const struct stop_flag *stop,
                     struct hash128 *hash, struct snug_err *err)
{
    char *buf = mem_alloc(CHUNK);
    struct hash_state *h = hash_new();
    int code = buf && h ? SNUG_OK : err_no_memory(err, CHUNK);
    for (int64_t at = 0; !code && at < size;) {
        size_t n = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        code = source_check_stop(stop, path, err);
        if (!code)
            code = io_read_at(io, fd, path, buf, n, at, err);
        hash_add(h, buf, n);
        at += (int64_t)n;
    }
    if (h)
        *hash = hash_end(h);
    mem_free(buf);
    return code;
}

int source_hash_file(const struct io *io, const char *path, const struct stop_flag *stop, struct hash128 *hash,
                     struct snug_err *err)
{
    int fd;
    int64_t size;
    TRY(io_open_read(io, path, &fd, &size, err));
    int code = source_hash_open(io, fd, path, size, stop, hash, err);
    io->close(io, fd);
    return code;
}
