#include "format/safetensors.h"

#include "format/foreign.h"
#include "format/st_header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const struct st_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int st_sort_names(struct st_file *f, struct snug_err *err)
{
    f->by_name = mem_alloc(f->n_tensors * sizeof *f->by_name);
    if (!f->by_name)
        return err_no_memory(err, f->n_tensors * sizeof *f->by_name);
    for (size_t i = 0; i < f->n_tensors; i++)
        f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, f->n_tensors, sizeof *f->by_name, by_name);
    for (size_t i = 1; i < f->n_tensors; i++)
        if (!strcmp(f->by_name[i - 1]->name, f->by_name[i]->name))
            return err_set(err, SNUG_ERR_INPUT, "%s: tensor %.120s is in the header twice" ST_AGAIN, f->path,
                           f->by_name[i]->name);
    if (f->n_metadata)
        qsort(f->metadata, f->n_metadata, 2 * sizeof *f->metadata, by_key);
    for (size_t i = 1; i < f->n_metadata; i++)
        if (!strcmp(f->metadata[2 * i - 2], f->metadata[2 * i]))
            return err_set(err, SNUG_ERR_INPUT, "%s: __metadata__ has key %.120s twice" ST_AGAIN, f->path,
                           f->metadata[2 * i]);
    return SNUG_OK;
}

/* The tensors, sorted by place, must cover the data without hole or overlap; then `at` becomes the place in the file.
 */
static int check_layout(struct st_file *f, struct snug_err *err)
{
    int64_t data_at = 8 + f->header_bytes, end = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        struct st_tensor *t = &f->tensors[i];
        if (t->at < end)
            return err_set(err, SNUG_ERR_INPUT, "%s: tensors %.70s and %.70s overlap in the data" ST_AGAIN, f->path,
                           t[-1].name, t->name);
        if (t->at > end)
            return err_set(err, SNUG_ERR_INPUT, "%s: a hole of %lld bytes in the data before tensor %.100s" ST_AGAIN,
                           f->path, (long long)(t->at - end), t->name);
        end = t->at + t->bytes;
    }
    int64_t have = f->file_bytes - data_at;
    if (end > have)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: %lld bytes are missing: the header describes %lld bytes of data, the file has %lld" ST_AGAIN, f->path,
            (long long)(end - have), (long long)end, (long long)have);
    if (end < have)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %lld bytes too many: the header describes %lld bytes of data, the file has %lld" ST_AGAIN,
                       f->path, (long long)(have - end), (long long)end, (long long)have);
    for (size_t i = 0; i < f->n_tensors; i++)
        f->tensors[i].at += data_at;
    return SNUG_OK;
}

static int not_safetensors(const struct st_file *f, uint64_t n, struct snug_err *err)
{
    unsigned char head[64];
    size_t bytes = f->file_bytes < (int64_t)sizeof head ? (size_t)f->file_bytes : sizeof head;
    TRY(io_read_at(f->io, f->fd, f->path, head, bytes, 0, err));
    const char *kind = foreign_kind(head, bytes);
    if (kind)
        return err_set(err, SNUG_ERR_INPUT, "%s: not a safetensors file but %s", f->path, kind);
    if (n > ST_MAX_HEADER)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: not a safetensors file: a header of %llu bytes, over the limit of %d; is it damaged?",
                       f->path, (unsigned long long)n, ST_MAX_HEADER);
    return err_set(err, SNUG_ERR_INPUT, "%s: a header of %llu bytes, but only %lld bytes follow" ST_AGAIN, f->path,
                   (unsigned long long)n, (long long)f->file_bytes - 8);
}

static int read_header(struct st_file *f, struct snug_err *err)
{
    unsigned char length[8];
    uint64_t n = 0;
    if (f->file_bytes < 8)
        return err_set(err, SNUG_ERR_INPUT, "%s: %lld bytes, too short for a safetensors file" ST_AGAIN, f->path,
                       (long long)f->file_bytes);
    TRY(io_read_at(f->io, f->fd, f->path, length, 8, 0, err));
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)length[i] << 8 * i;
    if (n > ST_MAX_HEADER || (int64_t)n > f->file_bytes - 8)
        return not_safetensors(f, n, err);
    f->header_bytes = (int64_t)n;
    f->header = mem_realloc(NULL, n + 1); /* not zeroed: it is filled at once */
    if (!f->header)
        return err_no_memory(err, n + 1);
    f->header[n] = 0;
    TRY(io_read_at(f->io, f->fd, f->path, f->header, n, 8, err));
    TRY(st_parse_header(f, err));
    if (f->n_tensors)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    TRY(st_sort_names(f, err));
    return check_layout(f, err);
}

int st_open(const struct io *io, const char *path, struct st_file *f, struct snug_err *err)
{
    *f = (struct st_file){.io = io, .path = mem_strdup(path), .fd = -1};
    int code = f->path ? io_open_read(io, path, &f->fd, &f->file_bytes, err) : err_no_memory(err, strlen(path) + 1);
    if (!code && io->fstat(io, f->fd, &f->identity) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    if (!code)
        code = read_header(f, err);
    if (code)
        st_close(f);
    return code;
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    const struct st_tensor key = {.name = name}, *wanted = &key;
    if (!f->n_tensors)
        return NULL;
    const struct st_tensor **hit = bsearch(&wanted, f->by_name, f->n_tensors, sizeof *f->by_name, by_name);
    return hit ? *hit : NULL;
}

/* Opens a detached file again: it must be the one that was checked. */
static int reopen(const struct st_file *f, int *fd, struct snug_err *err)
{
    struct stat now;
    int64_t size;
    TRY(io_open_read(f->io, f->path, fd, &size, err));
    int code = SNUG_OK;
    if (f->io->fstat(f->io, *fd, &now) < 0)
        code = err_errno(err, SNUG_ERR_IO, f->path, "stat", errno);
    else if (now.st_dev != f->identity.st_dev || now.st_ino != f->identity.st_ino || size != f->file_bytes ||
             now.st_mtim.tv_sec != f->identity.st_mtim.tv_sec || now.st_mtim.tv_nsec != f->identity.st_mtim.tv_nsec)
        code = err_set(err, SNUG_ERR_IO, "%s: was changed or replaced while in use; start again", f->path);
    if (code)
        f->io->close(f->io, *fd);
    return code;
}

int st_read_part(const struct st_file *f, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                 struct snug_err *err)
{
    if (f->source)
        return f->source->read(f->source_state, t, offset, to, bytes, err);
    if (f->fd >= 0)
        return io_read_at(f->io, f->fd, f->path, to, bytes, t->at + offset, err);
    int fd;
    TRY(reopen(f, &fd, err));
    int code = io_read_at(f->io, fd, f->path, to, bytes, t->at + offset, err);
    f->io->close(f->io, fd);
    return code;
}

int st_read(const struct st_file *f, const struct st_tensor *t, void *to, struct snug_err *err)
{
    return st_read_part(f, t, 0, to, (size_t)t->bytes, err);
}

void st_detach(struct st_file *f)
{
    if (f->fd >= 0)
        f->io->close(f->io, f->fd);
    f->fd = -1;
}

void st_close(struct st_file *f)
{
    st_detach(f);
    if (f->source)
        f->source->close(f->source_state);
    mem_free(f->tensors);
    mem_free(f->by_name);
    mem_free(f->metadata);
    mem_free(f->header);
    mem_free(f->path);
    *f = (struct st_file){.fd = -1};
}

int64_t st_elements(const struct st_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return 0; /* st_open let it pass, so a 0 follows */
    return n;
}

const char *st_shape_text(const struct st_tensor *t, char text[200])
{
    int n = snprintf(text, 200, "[");
    for (int i = 0; i < t->ndim; i++)
        n += snprintf(text + n, 200 - (size_t)n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    snprintf(text + n, 200 - (size_t)n, "]");
    return text;
}
