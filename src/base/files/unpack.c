#include "base/files/unpack.h"

#include "base/mem.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

enum { CHUNK = 128 * 1024 };

struct unpack {
    const struct io *io;
    const char *path;
    int fd;
    int64_t size, at; /* of the file, and how much of it was read */
    struct hash_state *hash;
    bool is_gzip;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool within; /* a member or a frame, which has not ended */
    size_t i, n; /* bytes [i, n) of buf are still packed */
    uint8_t buf[CHUNK];
};

static bool begins(const char *head, size_t n, const char *magic, size_t bytes)
{
    return n >= bytes && !memcmp(head, magic, bytes);
}

static bool is_gzip(const char *head, size_t n)
{
    return begins(head, n, "\x1F\x8B", 2);
}

static bool is_zstd(const char *head, size_t n)
{
    return begins(head, n, "\x28\xB5\x2F\xFD", 4);
}

bool unpack_knows(const char *head, size_t n)
{
    return is_gzip(head, n) || is_zstd(head, n);
}

size_t unpack_name(const char *path)
{
    static const char *const endings[] = {".gz", ".zst", ".zstd"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t bytes = strlen(endings[i]);
        if (n > bytes && !strcasecmp(path + n - bytes, endings[i]))
            return n - bytes;
    }
    return n;
}

/* The next piece of the file, where all before it is unpacked. */
static int read_packed(struct unpack *u, struct snug_err *err)
{
    int64_t left = u->size - u->at;
    if (u->i < u->n || !left)
        return SNUG_OK;
    u->i = u->n = 0;
    TRY(io_read_some(u->io, u->fd, u->path, u->buf, left < CHUNK ? (size_t)left : CHUNK, u->at, &u->n, err));
    hash_add(u->hash, u->buf, u->n);
    u->at += (int64_t)u->n;
    return SNUG_OK;
}

static int damaged(const struct unpack *u, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s: its compressed data are damaged before byte %lld; copy it again", u->path,
                   (long long)u->at);
}

static void *allocate(void *ctx, unsigned n, unsigned size)
{
    (void)ctx;
    return mem_alloc((size_t)n * size);
}

static void release(void *ctx, void *p)
{
    (void)ctx;
    mem_free(p);
}

int unpack_open(const struct io *io, int fd, const char *path, int64_t size, const char *head, size_t n,
                struct hash_state *hash, struct unpack **out, struct snug_err *err)
{
    enum { GZIP_HEADER = 16 };
    struct unpack *u = *out = mem_alloc(sizeof *u);
    if (!u)
        return err_no_memory(err, sizeof *u);
    u->io = io, u->fd = fd, u->path = path, u->size = size, u->hash = hash;
    u->gzip = (z_stream){.zalloc = allocate, .zfree = release};
    if (is_gzip(head, n))
        u->is_gzip = inflateInit2(&u->gzip, GZIP_HEADER + MAX_WBITS) == Z_OK;
    else
        u->zstd = ZSTD_createDStream();
    if (u->is_gzip || u->zstd)
        return SNUG_OK;
    unpack_close(u);
    *out = NULL;
    return err_no_memory(err, CHUNK);
}

/* Unpacks what was read of the file, up to `room` bytes. */
static int unpack_gzip(struct unpack *u, void *to, size_t room, size_t *n, struct snug_err *err)
{
    while (!u->within && u->i < u->n && !u->buf[u->i]) /* what a file's blocks were filled up with, as gzip skips it */
        u->i++;
    if (!u->within && u->i == u->n)
        return SNUG_OK;
    if (!u->within && inflateReset(&u->gzip) != Z_OK)
        return damaged(u, err);
    u->gzip.next_in = u->buf + u->i;
    u->gzip.avail_in = (uInt)(u->n - u->i);
    u->gzip.next_out = to;
    u->gzip.avail_out = (uInt)room;
    int got = inflate(&u->gzip, Z_NO_FLUSH);
    if (got == Z_MEM_ERROR)
        return err_no_memory(err, CHUNK);
    if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
        return damaged(u, err);
    u->i = u->n - u->gzip.avail_in;
    *n = room - u->gzip.avail_out;
    u->within = got != Z_STREAM_END;
    return SNUG_OK;
}

static int unpack_zstd(struct unpack *u, void *to, size_t room, size_t *n, struct snug_err *err)
{
    ZSTD_inBuffer in = {u->buf, u->n, u->i};
    ZSTD_outBuffer out = {to, room, 0};
    size_t got = ZSTD_decompressStream(u->zstd, &out, &in);
    if (ZSTD_isError(got))
        return damaged(u, err);
    u->i = in.pos;
    *n = out.pos;
    u->within = got != 0;
    return SNUG_OK;
}

int unpack_read(struct unpack *u, void *to, size_t room, size_t *n, struct snug_err *err)
{
    enum { MOST = 1 << 30 };
    *n = 0;
    while (!*n) {
        TRY(read_packed(u, err));
        const size_t from = u->i;
        const bool ended = from == u->n;
        if (ended && !u->within)
            return SNUG_OK;
        TRY((u->is_gzip ? unpack_gzip : unpack_zstd)(u, to, room < MOST ? room : MOST, n, err));
        if (!*n && u->i == from)
            return ended ? err_set(err, SNUG_ERR_INPUT, "%s: ends in the middle of its compressed data; copy it again",
                                   u->path)
                         : damaged(u, err);
    }
    return SNUG_OK;
}

void unpack_close(struct unpack *u)
{
    if (u && u->is_gzip)
        inflateEnd(&u->gzip);
    if (u)
        ZSTD_freeDStream(u->zstd);
    mem_free(u);
}
