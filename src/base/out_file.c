#include "base/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 256 * 1024 };

static int check_free(const struct out_file *f, struct snug_err *err)
{
    struct stat st;
    if (f->io->lstat(f->io, f->path, &st) < 0)
        return errno == ENOENT ? SNUG_OK : err_errno(err, SNUG_ERR_IO, f->path, "look at", errno);
    if (!S_ISREG(st.st_mode))
        return err_set(err, SNUG_ERR_USAGE, "%s: is %s, which is not replaced by a file; give another name", f->path,
                       S_ISDIR(st.st_mode)   ? "a folder"
                       : S_ISLNK(st.st_mode) ? "a symbolic link"
                                             : "no regular file");
    if (!f->replace)
        return err_set(err, SNUG_ERR_USAGE, "%s: is there already; give another name, or --overwrite-output", f->path);
    return SNUG_OK;
}

int out_file_open(const struct io *io, const char *path, bool replace, struct out_file *f, struct snug_err *err)
{
    return out_file_open_as(io, path, NULL, replace, f, err);
}

int out_file_open_as(const struct io *io, const char *path, const char *name, bool replace, struct out_file *f,
                     struct snug_err *err)
{
    *f = (struct out_file){.io = io, .path = path, .replace = replace, .fd = -1};
    TRY(check_free(f, err));
    struct str tmp = {0};
    if (name)
        str_append(&tmp, name);
    else
        str_printf(&tmp, "%s.tmp-%ld", path, (long)getpid());
    TRY(str_check(&tmp, err));
    f->fd = io->open(io, tmp.s, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        str_free(&tmp);
        return err_errno(err, SNUG_ERR_IO, path, "create", errno);
    }
    f->tmp = tmp.s;
    return SNUG_OK;
}

static int write_waiting(struct out_file *f, struct snug_err *err)
{
    TRY(str_check(&f->waiting, err));
    TRY(io_write_at(f->io, f->fd, f->path, str_text(&f->waiting), f->waiting.n, f->bytes, err));
    f->bytes += (int64_t)f->waiting.n;
    f->waiting.n = 0;
    return SNUG_OK;
}

int out_file_write(struct out_file *f, const char *bytes, size_t n, struct snug_err *err)
{
    str_append_n(&f->waiting, bytes, n);
    return f->waiting.n < PIECE && !f->waiting.failed ? SNUG_OK : write_waiting(f, err);
}

static int sync_folder(const struct out_file *f, struct snug_err *err)
{
    const char *slash = strrchr(f->path, '/');
    struct str dir = {0};
    str_append_n(&dir, slash ? f->path : ".", slash && slash > f->path ? (size_t)(slash - f->path) : 1);
    int code = str_check(&dir, err);
    if (!code)
        code = io_fsync_dir(f->io, str_text(&dir), err);
    str_free(&dir);
    return code;
}

int out_file_publish(struct out_file *f, struct snug_err *err)
{
    const struct io *io = f->io;
    TRY(write_waiting(f, err));
    if (io->fsync(io, f->fd) < 0)
        return err_errno(err, SNUG_ERR_IO, f->path, "fsync", errno);
    int fd = f->fd;
    f->fd = -1;
    if (io->close(io, fd) < 0)
        return err_errno(err, SNUG_ERR_IO, f->path, "close", errno);
    if ((f->replace ? io->rename : io->rename_new)(io, f->tmp, f->path) < 0)
        return err_errno(err, SNUG_ERR_IO, f->path, "rename into place", errno);
    mem_free(f->tmp);
    f->tmp = NULL;
    return sync_folder(f, err);
}

void out_file_drop(struct out_file *f)
{
    if (f->tmp && f->fd >= 0)
        f->io->close(f->io, f->fd);
    if (f->tmp)
        f->io->unlink(f->io, f->tmp);
    mem_free(f->tmp);
    str_free(&f->waiting);
    *f = (struct out_file){.fd = -1};
}
