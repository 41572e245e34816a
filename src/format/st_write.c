/* Writing safetensors as the reference library does: tensors sorted by dtype in the order of base/dtype.h, then by the
 * bytes of the name; JSON without blanks, __metadata__ first; the header padded with spaces so that the data start on a
 * multiple of 8. */
#include "base/str.h"
#include "format/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int in_file_order(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->dtype != y->dtype)
        return x->dtype < y->dtype ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_utf8(const char *s)
{
    for (size_t left = strlen(s), n; left; s += n, left -= n)
        if (!(n = (size_t)utf8_sequence(s, left)))
            return false;
    return true;
}

/* Fills t->bytes. What is refused here would not be read back. */
static int measure(const char *path, struct st_tensor *t, struct snug_err *err)
{
    int64_t bits = dtype_bits(t->dtype);
    bool good = t->ndim >= 0 && t->ndim <= ST_MAX_DIMS;
    for (int i = 0; good && i < t->ndim; i++)
        good = t->shape[i] >= 0 && t->shape[i] < (int64_t)1 << 48 && !__builtin_mul_overflow(bits, t->shape[i], &bits);
    if (!good || bits % 8)
        return err_set(err, SNUG_ERR_INPUT, "%s: tensor %.100s has a shape that cannot be written", path, t->name);
    if (!is_utf8(t->name) || !strcmp(t->name, "__metadata__"))
        return err_set(err, SNUG_ERR_INPUT, "%s: \"%.100s\" cannot be a tensor's name", path, t->name);
    t->bytes = bits / 8;
    return SNUG_OK;
}

static int check_names(const char *path, const struct st_tensor *tensors, size_t n, struct snug_err *err)
{
    const char **names = mem_alloc(n * sizeof *names);
    if (!names)
        return err_no_memory(err, n * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[i] = tensors[i].name;
    qsort(names, n, sizeof *names, by_string);
    int code = SNUG_OK;
    for (size_t i = 1; i < n && !code; i++)
        if (!strcmp(names[i - 1], names[i]))
            code = err_set(err, SNUG_ERR_INPUT, "%s: two tensors are called %.100s", path, names[i]);
    mem_free(names);
    return code;
}

static int append_metadata(struct str *h, const char *path, const char *const *metadata, size_t n, struct snug_err *err)
{
    const char **sorted = mem_alloc(2 * n * sizeof *sorted);
    if (!sorted)
        return err_no_memory(err, 2 * n * sizeof *sorted);
    memcpy(sorted, metadata, 2 * n * sizeof *sorted);
    qsort(sorted, n, 2 * sizeof *sorted, by_string);
    int code = SNUG_OK;
    for (size_t i = 0; i < n && !code; i++) {
        if (!is_utf8(sorted[2 * i]) || !is_utf8(sorted[2 * i + 1]) || (i && !strcmp(sorted[2 * i - 2], sorted[2 * i])))
            code = err_set(err, SNUG_ERR_INPUT, "%s: metadata \"%.100s\" is given twice or is not UTF-8", path,
                           sorted[2 * i]);
        str_append(h, i ? "," : "\"__metadata__\":{");
        str_json(h, sorted[2 * i]);
        str_append(h, ":");
        str_json(h, sorted[2 * i + 1]);
    }
    str_append(h, "}");
    mem_free(sorted);
    return code;
}

/* The first 8 bytes and the header, padding included; `at` is filled. *file_bytes is the size of the whole file. */
static int make_header(struct str *h, const char *path, struct st_tensor *tensors, size_t n,
                       const char *const *metadata, size_t n_metadata, int64_t *file_bytes, struct snug_err *err)
{
    str_append_n(h, "\0\0\0\0\0\0\0\0{", 9);
    if (n_metadata)
        TRY(append_metadata(h, path, metadata, n_metadata, err));
    int64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        struct st_tensor *t = &tensors[i];
        t->at = end;
        if (__builtin_add_overflow(end, t->bytes, &end) || end > INT64_MAX - 2 * ST_MAX_HEADER)
            return err_set(err, SNUG_ERR_INPUT, "%s: the tensors take more than 2^63 bytes", path);
        if (i || n_metadata)
            str_append(h, ",");
        str_json(h, t->name);
        str_printf(h, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->dtype));
        for (int d = 0; d < t->ndim; d++)
            str_printf(h, d ? ",%lld" : "%lld", (long long)t->shape[d]);
        str_printf(h, "],\"data_offsets\":[%lld,%lld]}", (long long)t->at, (long long)end);
    }
    str_append(h, "}");
    while (h->n % 8 && !h->failed)
        str_append(h, " ");
    TRY(str_check(h, err));
    if (h->n - 8 > ST_MAX_HEADER)
        return err_set(err, SNUG_ERR_INPUT, "%s: the header would be over the format's limit of %d bytes", path,
                       ST_MAX_HEADER);
    for (int i = 0; i < 8; i++)
        h->s[i] = (char)((uint64_t)(h->n - 8) >> 8 * i);
    for (size_t i = 0; i < n; i++)
        tensors[i].at += (int64_t)h->n;
    *file_bytes = (int64_t)h->n + end;
    return SNUG_OK;
}

static int make_file(struct st_writer *w, const struct str *h, struct snug_err *err)
{
    const struct io *io = w->io;
    w->fd = io->open(io, w->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return err_errno(err, SNUG_ERR_IO, w->path, "create", errno);
    int failed;
    do
        failed = io->fallocate(io, w->fd, w->file_bytes) < 0;
    while (failed && errno == EINTR);
    if (failed && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return err_set(err, SNUG_ERR_IO, "%s: cannot reserve %lld bytes: %s", w->path, (long long)w->file_bytes,
                       strerror(errno));
    w->written_bytes = (int64_t)h->n;
    if (w->hash)
        hash_add(w->hash, h->s, h->n);
    return io_write_at(io, w->fd, w->path, h->s, h->n, 0, err);
}

int st_create(const struct io *io, const char *path, struct st_tensor *tensors, size_t n, const char *const *metadata,
              size_t n_metadata, bool hash, struct st_writer *w, struct snug_err *err)
{
    struct str h = {0};
    int code = SNUG_OK;
    *w = (struct st_writer){.io = io, .fd = -1};
    for (size_t i = 0; i < n && !code; i++)
        code = measure(path, &tensors[i], err);
    if (!code && n)
        qsort(tensors, n, sizeof *tensors, in_file_order);
    if (!code)
        code = check_names(path, tensors, n, err);
    if (!code)
        code = make_header(&h, path, tensors, n, metadata, n_metadata, &w->file_bytes, err);
    if (!code && (!(w->path = mem_strdup(path)) || (hash && !(w->hash = hash_new()))))
        code = err_no_memory(err, strlen(path) + 1);
    if (!code)
        code = make_file(w, &h, err);
    if (code)
        st_abandon(w);
    str_free(&h);
    return code;
}

int st_write(struct st_writer *w, const struct st_tensor *t, int64_t offset, const void *from, size_t bytes,
             struct snug_err *err)
{
    assert(offset >= 0 && offset <= t->bytes && (int64_t)bytes <= t->bytes - offset);
    assert(!w->hash || t->at + offset == w->written_bytes);
    if (w->hash)
        hash_add(w->hash, from, bytes);
    w->written_bytes += (int64_t)bytes;
    return io_write_at(w->io, w->fd, w->path, from, bytes, t->at + offset, err);
}

int st_finish(struct st_writer *w, struct hash128 *hash, struct snug_err *err)
{
    assert(w->written_bytes == w->file_bytes);
    if (w->io->fsync(w->io, w->fd) < 0)
        return err_errno(err, SNUG_ERR_IO, w->path, "fsync", errno);
    int fd = w->fd;
    w->fd = -1;
    if (w->io->close(w->io, fd) < 0)
        return err_errno(err, SNUG_ERR_IO, w->path, "close", errno);
    if (w->hash)
        *hash = hash_end(w->hash);
    mem_free(w->path);
    *w = (struct st_writer){.fd = -1};
    return SNUG_OK;
}

void st_abandon(struct st_writer *w)
{
    bool created = w->fd >= 0 || w->written_bytes;
    if (w->fd >= 0)
        w->io->close(w->io, w->fd);
    if (created)
        w->io->unlink(w->io, w->path);
    if (w->hash)
        hash_end(w->hash);
    mem_free(w->path);
    *w = (struct st_writer){.fd = -1};
}
