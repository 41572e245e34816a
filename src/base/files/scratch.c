#include "base/files/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* The folder may be one of many machines, where process ids repeat. */
void scratch_name(struct str *name, const char *path)
{
    char host[HOST_NAME_MAX + 1] = "";
    uint64_t random = 0;
    gethostname(host, sizeof host - 1);
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint64_t)(uintptr_t)name; /* the name is still the process's own */
    for (char *s = host; *s; s++)
        *s = *s == '/' ? '-' : *s;
    str_printf(name, "%s" SCRATCH_MARK "%s-%ld-%016llx", path, host, (long)getpid(), (unsigned long long)random);
}

static int open_without_name(struct scratch *s, const char *path, struct snug_err *err)
{
    s->fd = s->io->open(s->io, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return err_errno(err, SNUG_ERR_IO, path, "create", errno);
    if (s->io->unlink(s->io, path) == 0)
        return SNUG_OK;
    int code = err_errno(err, SNUG_ERR_IO, path, "unlink", errno);
    s->io->close(s->io, s->fd);
    return code;
}

int scratch_open(const struct io *io, const char *dir, struct scratch *s, struct snug_err *err)
{
    struct str path = {0}, name = {0};
    *s = (struct scratch){.io = io, .dir = dir};
    str_printf(&path, "%s/scratch", dir);
    scratch_name(&name, str_text(&path));
    int code = path.failed ? str_check(&path, err) : str_check(&name, err);
    if (!code)
        code = io_make_dirs(io, dir, err);
    if (!code)
        code = open_without_name(s, str_text(&name), err);
    if (code)
        *s = (struct scratch){0};
    str_free(&path);
    str_free(&name);
    return code;
}

int scratch_append(struct scratch *s, const void *data, size_t bytes, struct snug_err *err)
{
    TRY(io_write_at(s->io, s->fd, s->dir, data, bytes, s->bytes, err));
    s->bytes += (int64_t)bytes;
    return SNUG_OK;
}

void scratch_skip(struct scratch *s, int64_t bytes)
{
    s->bytes += bytes;
}

int scratch_reserve(struct scratch *s, int64_t bytes, struct snug_err *err)
{
    s->bytes += bytes;
    if (s->io->fallocate(s->io, s->fd, s->bytes) == 0)
        return SNUG_OK;
    if (errno != EOPNOTSUPP || s->io->ftruncate(s->io, s->fd, s->bytes) < 0)
        return err_errno(err, SNUG_ERR_IO, s->dir, "make room in", errno);
    return SNUG_OK;
}

int scratch_map(struct scratch *s, enum io_map how, struct mapping *m, struct snug_err *err)
{
    void *p = s->io->map(s->io, s->fd, (size_t)s->bytes, how);
    if (!p)
        return err_errno(err, SNUG_ERR_ENV, s->dir, "map a file", errno);
    *m = (struct mapping){.p = p, .bytes = (size_t)s->bytes, .written = how == IO_MAP_PRIVATE};
    scratch_drop(s);
    return SNUG_OK;
}

void scratch_drop(struct scratch *s)
{
    if (s->io)
        s->io->close(s->io, s->fd);
    *s = (struct scratch){0};
}

void mapping_release(const struct mapping *m)
{
    if (m->p && !m->written)
        madvise(m->p, m->bytes, MADV_DONTNEED);
}

void mapping_close(struct mapping *m)
{
    if (m->p)
        munmap(m->p, m->bytes);
    *m = (struct mapping){0};
}
