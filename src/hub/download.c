/* One file of a repository: what it is, and its bytes, into blobs/ETAG.incomplete and then under its name. */
#include "base/seconds.h"
#include "hub/digest.h"
#include "hub/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The body of a file on its way. */
struct blob {
    struct repository *r;
    const struct remote *f;
    struct hub_progress *p;
    const char *path; /* of the incomplete file */
    int fd;
    int64_t have; /* bytes in it */
    double told;  /* seconds, when events were last told */
};

static const char *url_of(struct repository *r, const char *name, struct snug_err *err)
{
    struct str url = {0};
    str_printf(&url, "%s/%s%s/resolve/%s/", str_text(&r->env.endpoint), hub_wants_rows(r->wish) ? "datasets/" : "",
               r->wish->name.repository, r->commit);
    http_escape(&url, name, true);
    const char *copy = str_check(&url, err) ? NULL : arena_strdup(r->arena, str_text(&url));
    str_free(&url);
    if (!copy)
        err_no_memory(err, strlen(name) + 512);
    return copy;
}

static const char *name_of(struct repository *r, const char *name)
{
    const char *text = arena_printf(r->arena, "%s:%s", r->wish->name.repository, name);
    return text ? text : name;
}

/* It becomes the name of a file. */
static bool is_plain(const char *etag)
{
    return *etag && *etag != '.' && *etag != '-' &&
           strspn(etag, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(etag);
}

int remote_ask(struct repository *r, const char *name, struct remote *f, struct snug_err *err)
{
    struct http_answer a;
    const char *url = url_of(r, name, err), *what = name_of(r, name);
    if (!url)
        return SNUG_ERR_ENV;
    *f = (struct remote){.name = name, .size = -1};
    TRY(http_request(&r->http, url, what, NULL, &a, err));
    if (a.status >= 400 || a.status < 200)
        return repository_refused(r, what, true, &a, err);
    if (!is_plain(a.etag))
        return err_set(err, SNUG_ERR_IO, "%s: %s says nothing of what is in it (no ETag); check HF_ENDPOINT", what,
                       r->http.endpoint);
    strcpy(f->etag, a.etag);
    f->size = a.size >= 0 ? a.size : a.status == 200 ? a.length : -1;
    return SNUG_OK;
}

static int64_t blob_from(void *ctx)
{
    const struct blob *b = ctx;
    return b->have;
}

static int cut_to(struct blob *b, int64_t bytes, struct snug_err *err)
{
    if (b->r->io->ftruncate(b->r->io, b->fd, bytes))
        return err_errno(err, SNUG_ERR_IO, b->path, "shorten", errno);
    b->p->done += bytes - b->have;
    b->have = bytes;
    return SNUG_OK;
}

/* A server that does not give parts of files begins anew. */
static int blob_begin(void *ctx, const struct http_answer *a, struct snug_err *err)
{
    struct blob *b = ctx;
    int64_t at = a->status == 206 ? a->from : 0;
    if (at > b->have)
        return err_set(err, SNUG_ERR_IO,
                       "%s: a part was asked for, and another one came; check HF_ENDPOINT, or a proxy",
                       name_of(b->r, b->f->name));
    return at < b->have ? cut_to(b, at, err) : SNUG_OK;
}

static void tell(struct blob *b, bool last)
{
    const struct hub_events *e = b->r->events;
    double now = seconds_now();
    if (!e->progress || (!last && now - b->told < 0.1))
        return;
    b->told = now;
    b->p->file = b->f->name;
    b->p->seconds = now - b->r->began;
    e->progress(e->ctx, b->p);
}

static int wrong_size(struct blob *b, int64_t bytes, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s: has %s%lld bytes, and the hub says %lld; what came is removed, try again",
                   name_of(b->r, b->f->name), bytes > b->f->size ? "at least " : "", (long long)bytes,
                   (long long)b->f->size);
}

static int blob_add(void *ctx, const char *bytes, size_t n, struct snug_err *err)
{
    struct blob *b = ctx;
    if (b->f->size >= 0 && (int64_t)n > b->f->size - b->have) {
        b->r->io->unlink(b->r->io, b->path);
        return wrong_size(b, b->have + (int64_t)n, err);
    }
    TRY(io_write_at(b->r->io, b->fd, b->path, bytes, n, b->have, err));
    b->have += (int64_t)n;
    b->p->done += (int64_t)n;
    b->p->came += (int64_t)n;
    tell(b, false);
    return SNUG_OK;
}

/* All of the file is read again: what an earlier download left is in it too. */
static int hash(struct blob *b, struct digest *d, struct snug_err *err)
{
    enum { PIECE = 1 << 20 };
    char *piece = mem_alloc(PIECE);
    int code = piece ? SNUG_OK : err_no_memory(err, PIECE);
    for (int64_t at = 0, n; !code && at < b->have; at += n) {
        n = b->have - at < PIECE ? b->have - at : PIECE;
        code = io_read_at(b->r->io, b->fd, b->path, piece, (size_t)n, at, err);
        if (!code)
            digest_add(d, piece, (size_t)n);
        if (!code && stop_asked(b->r->events->stop))
            code = err_set(err, SNUG_STOPPED,
                           "stopped; what was downloaded is kept, and the same command goes on from there");
    }
    mem_free(piece);
    return code;
}

static int check(struct blob *b, struct snug_err *err)
{
    struct digest d;
    char text[65] = "";
    if (b->f->size >= 0 && b->have != b->f->size) {
        b->r->io->unlink(b->r->io, b->path);
        return wrong_size(b, b->have, err);
    }
    int code = digest_open(&b->r->libraries.crypto, b->f->etag, b->have, &d, err);
    if (!code && d.ctx) {
        code = hash(b, &d, err);
        digest_text(&d, text);
        if (!code && strcmp(text, b->f->etag) != 0) {
            b->r->io->unlink(b->r->io, b->path);
            code = err_set(err, SNUG_ERR_INPUT,
                           "%s: its %s is %.16s…, and the hub says %.16s…; what came is removed, try again",
                           name_of(b->r, b->f->name), d.sha256 ? "SHA-256" : "SHA-1", text, b->f->etag);
        }
    }
    digest_close(&d);
    return code;
}

static int bring(struct blob *b, struct snug_err *err)
{
    struct repository *r = b->r;
    const struct http_sink sink = {.from = blob_from, .begin = blob_begin, .add = blob_add, .ctx = b};
    struct http_answer a;
    if (b->f->size < 0 || b->have > b->f->size)
        TRY(cut_to(b, 0, err)); /* nothing tells whether it is a part of this file */
    if (b->f->size >= 0 && b->have == b->f->size)
        return SNUG_OK;
    const char *url = url_of(r, b->f->name, err), *what = name_of(r, b->f->name);
    if (!url)
        return SNUG_ERR_ENV;
    TRY(http_request(&r->http, url, what, &sink, &a, err));
    return a.status == 200 || a.status == 206 ? SNUG_OK : repository_refused(r, what, true, &a, err);
}

static int fill(struct blob *b, const char *whole, struct snug_err *err)
{
    const struct io *io = b->r->io;
    struct stat st;
    b->fd = io->open(io, b->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (b->fd < 0)
        return err_errno(err, SNUG_ERR_IO, b->path, "create", errno);
    int code = io->fstat(io, b->fd, &st) ? err_errno(err, SNUG_ERR_IO, b->path, "look at", errno) : SNUG_OK;
    b->have = code ? 0 : st.st_size;
    b->p->done += b->have;
    if (!code)
        code = bring(b, err);
    if (!code)
        code = check(b, err);
    if (!code && io->fsync(io, b->fd))
        code = err_errno(err, SNUG_ERR_IO, b->path, "write", errno);
    if (io->close(io, b->fd) && !code)
        code = err_errno(err, SNUG_ERR_IO, b->path, "write", errno);
    if (!code && io->rename(io, b->path, whole))
        code = err_errno(err, SNUG_ERR_IO, whole, "create", errno);
    return code;
}

static bool is_whole(const struct repository *r, const char *path, const struct remote *f)
{
    struct stat st;
    return !r->io->stat(r->io, path, &st) && S_ISREG(st.st_mode) && (f->size < 0 || st.st_size == f->size);
}

int remote_get(struct repository *r, const struct remote *f, struct hub_progress *p, struct snug_err *err)
{
    struct blob b = {.r = r, .f = f, .p = p, .path = cache_blob(&r->cache, f->etag, true)};
    const char *whole = cache_blob(&r->cache, f->etag, false);
    const char *folder = arena_printf(r->arena, "%s/blobs", r->cache.folder);
    int lock, code = SNUG_OK;
    if (!whole || !b.path || !folder)
        return err_no_memory(err, 4096);
    TRY(io_make_dirs(r->io, folder, err));
    TRY(cache_lock(&r->cache, f->etag, r->events, &lock, err));
    if (is_whole(r, whole, f))
        p->done += f->size > 0 ? f->size : 0;
    else
        code = fill(&b, whole, err);
    if (!code)
        tell(&b, true);
    r->io->close(r->io, lock);
    return code;
}
