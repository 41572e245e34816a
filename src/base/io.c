#include "base/io.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int posix_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    return open(path, flags, mode);
}

static int posix_close(const struct io *io, int fd)
{
    (void)io;
    return close(fd);
}

static ssize_t posix_read(const struct io *io, int fd, void *buf, size_t bytes)
{
    (void)io;
    return read(fd, buf, bytes);
}

static ssize_t posix_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    (void)io;
    return pread(fd, buf, bytes, at);
}

static ssize_t posix_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    (void)io;
    return pwrite(fd, buf, bytes, at);
}

static int posix_fsync(const struct io *io, int fd)
{
    (void)io;
    return fsync(fd);
}

static int posix_fallocate_only(const struct io *io, int fd, off_t bytes)
{
    (void)io;
    return fallocate(fd, 0, 0, bytes); /* not posix_fallocate: glibc's writes every block where this is missing */
}

static int posix_fstat(const struct io *io, int fd, struct stat *st)
{
    (void)io;
    return fstat(fd, st);
}

static int posix_stat(const struct io *io, const char *path, struct stat *st)
{
    (void)io;
    return stat(path, st);
}

static int posix_lstat(const struct io *io, const char *path, struct stat *st)
{
    (void)io;
    return lstat(path, st);
}

static int posix_rename(const struct io *io, const char *from, const char *to)
{
    (void)io;
    return rename(from, to);
}

static int posix_rename_new(const struct io *io, const char *from, const char *to)
{
    (void)io;
    /* Not by its name: glibc has that from 2.28 on. */
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    struct stat st; /* a file system without the flag: the caller holds the folder's lock */
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static int posix_mkdir(const struct io *io, const char *path, mode_t mode)
{
    (void)io;
    return mkdir(path, mode);
}

static int posix_rmdir(const struct io *io, const char *path)
{
    (void)io;
    return rmdir(path);
}

static int posix_unlink(const struct io *io, const char *path)
{
    (void)io;
    return unlink(path);
}

static int posix_symlink(const struct io *io, const char *target, const char *path)
{
    (void)io;
    return symlink(target, path);
}

static ssize_t posix_readlink(const struct io *io, const char *path, char *target, size_t bytes)
{
    (void)io;
    return readlink(path, target, bytes);
}

static char *posix_realpath(const struct io *io, const char *path, char target[PATH_MAX])
{
    (void)io;
    return realpath(path, target);
}

static int posix_ftruncate(const struct io *io, int fd, off_t bytes)
{
    (void)io;
    return ftruncate(fd, bytes);
}

static int posix_flock(const struct io *io, int fd, int operation)
{
    (void)io;
    return flock(fd, operation);
}

static int posix_statfs(const struct io *io, const char *path, struct statfs *st)
{
    (void)io;
    return statfs(path, st);
}

static DIR *posix_opendir(const struct io *io, const char *path)
{
    (void)io;
    return opendir(path);
}

static struct dirent *posix_readdir(const struct io *io, DIR *dir)
{
    (void)io;
    return readdir(dir);
}

static int posix_closedir(const struct io *io, DIR *dir)
{
    (void)io;
    return closedir(dir);
}

static int posix_drop_cache(const struct io *io, int fd)
{
    (void)io;
    errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return errno ? -1 : 0;
}

/* Without reserve: what is mapped may be larger than memory. */
static void *posix_map(const struct io *io, int fd, size_t bytes, enum io_map how)
{
    (void)io;
    int access = PROT_READ | (how != IO_MAP_READ ? PROT_WRITE : 0);
    void *p = mmap(NULL, bytes, access, (how == IO_MAP_SHARED ? MAP_SHARED : MAP_PRIVATE) | MAP_NORESERVE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

const struct io io_posix = {
    .open = posix_open,
    .close = posix_close,
    .read = posix_read,
    .pread = posix_pread,
    .pwrite = posix_pwrite,
    .fsync = posix_fsync,
    .fallocate = posix_fallocate_only,
    .fstat = posix_fstat,
    .stat = posix_stat,
    .lstat = posix_lstat,
    .rename = posix_rename,
    .rename_new = posix_rename_new,
    .mkdir = posix_mkdir,
    .rmdir = posix_rmdir,
    .unlink = posix_unlink,
    .symlink = posix_symlink,
    .readlink = posix_readlink,
    .realpath = posix_realpath,
    .ftruncate = posix_ftruncate,
    .flock = posix_flock,
    .statfs = posix_statfs,
    .opendir = posix_opendir,
    .readdir = posix_readdir,
    .closedir = posix_closedir,
    .drop_cache = posix_drop_cache,
    .map = posix_map,
};

int io_open_read(const struct io *io, const char *path, int *fd, int64_t *size, struct snug_err *err)
{
    *fd = io->open(io, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (*fd < 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG || errno == ENXIO;
        return err_errno(err, absent ? SNUG_ERR_INPUT : SNUG_ERR_IO, path, "open", errno);
    }
    struct stat st;
    int code = SNUG_OK;
    if (io->fstat(io, *fd, &st) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    else if (!S_ISREG(st.st_mode))
        code = err_set(err, SNUG_ERR_INPUT, "%s: is %s, not a regular file; give a file", path,
                       S_ISDIR(st.st_mode)    ? "a folder"
                       : S_ISFIFO(st.st_mode) ? "a FIFO"
                       : S_ISCHR(st.st_mode)  ? "a device"
                                              : "a special file");
    if (code) {
        io->close(io, *fd);
        *fd = -1;
        return code;
    }
    *size = st.st_size;
    return SNUG_OK;
}

int io_read_some(const struct io *io, int fd, const char *path, void *buf, size_t bytes, int64_t at, size_t *n,
                 struct snug_err *err)
{
    ssize_t got;
    do
        got = io->pread(io, fd, buf, bytes, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_errno(err, SNUG_ERR_IO, path, "read", errno);
    if (got == 0)
        return err_set(err, SNUG_ERR_IO, "%s: ends at byte %lld while bytes up to %lld were wanted; it shrank", path,
                       (long long)at, (long long)(at + (int64_t)bytes));
    *n = (size_t)got;
    return SNUG_OK;
}

int io_read_at(const struct io *io, int fd, const char *path, void *buf, size_t bytes, int64_t at, struct snug_err *err)
{
    for (size_t done = 0, n; done < bytes; done += n)
        TRY(io_read_some(io, fd, path, (char *)buf + done, bytes - done, at + (int64_t)done, &n, err));
    return SNUG_OK;
}

int io_write_at(const struct io *io, int fd, const char *path, const void *buf, size_t bytes, int64_t at,
                struct snug_err *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = io->pwrite(io, fd, (const char *)buf + done, bytes - done, (off_t)at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, SNUG_ERR_IO, path, "write", errno);
        done += (size_t)n;
    }
    return SNUG_OK;
}

int io_read_file(const struct io *io, const char *path, int64_t limit, char **text, size_t *bytes, struct snug_err *err)
{
    int fd;
    int64_t size;
    TRY(io_open_read(io, path, &fd, &size, err));
    int code = SNUG_OK;
    *text = NULL;
    char has[SIZE_TEXT_MAX], most[SIZE_TEXT_MAX];
    if (size > limit)
        code = err_set(err, SNUG_ERR_INPUT, "%s: %s, over the limit of %s; is it the right file?", path,
                       size_text(size, has), size_text(limit, most));
    else if (!(*text = mem_alloc((size_t)size + 1)))
        code = err_no_memory(err, (unsigned long long)size + 1);
    else
        code = io_read_at(io, fd, path, *text, (size_t)size, 0, err);
    io->close(io, fd);
    if (code) {
        mem_free(*text);
        *text = NULL;
        return code;
    }
    *bytes = (size_t)size;
    return SNUG_OK;
}

int io_fsync_dir(const struct io *io, const char *path, struct snug_err *err)
{
    int fd = io->open(io, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(err, SNUG_ERR_IO, path, "open", errno);
    int code = io->fsync(io, fd) == 0 ? SNUG_OK : err_errno(err, SNUG_ERR_IO, path, "fsync", errno);
    io->close(io, fd);
    return code;
}

static int write_and_sync(const struct io *io, const char *path, const void *data, size_t bytes, struct snug_err *err)
{
    int fd = io->open(io, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_errno(err, SNUG_ERR_IO, path, "create", errno);
    int code = io_write_at(io, fd, path, data, bytes, 0, err);
    if (!code && io->fsync(io, fd) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "fsync", errno);
    if (io->close(io, fd) < 0 && !code)
        code = err_errno(err, SNUG_ERR_IO, path, "close", errno);
    return code;
}

int io_write_file(const struct io *io, const char *path, const void *data, size_t bytes, struct snug_err *err)
{
    struct arena a = {0};
    const char *slash = strrchr(path, '/');
    char *tmp = arena_printf(&a, "%s.tmp-%ld", path, (long)getpid());
    char *dir = !slash          ? arena_strdup(&a, ".")
                : slash == path ? arena_strdup(&a, "/")
                                : arena_strndup(&a, path, (size_t)(slash - path));
    int code = tmp && dir ? write_and_sync(io, tmp, data, bytes, err) : err_no_memory(err, strlen(path) + 32);
    if (!code && io->rename(io, tmp, path) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "rename into place", errno);
    if (code && tmp)
        io->unlink(io, tmp);
    if (!code)
        code = io_fsync_dir(io, dir, err);
    arena_free(&a);
    return code;
}

int io_make_dirs(const struct io *io, const char *path, struct snug_err *err)
{
    if (!*path)
        return err_set(err, SNUG_ERR_INPUT, "'': an empty path is no folder; give the folder's path");
    char *p = mem_strdup(path);
    if (!p)
        return err_no_memory(err, strlen(path) + 1);
    int code = SNUG_OK;
    struct stat st;
    for (char *s = p + 1; !code; s++) {
        if (*s && *s != '/')
            continue;
        char end = *s;
        *s = 0;
        if (io->mkdir(io, p, 0777) < 0 && errno != EEXIST)
            code = err_errno(err, SNUG_ERR_IO, p, "create the folder", errno);
        else if (!end && (io->stat(io, p, &st) < 0 || !S_ISDIR(st.st_mode)))
            code = err_errno(err, SNUG_ERR_IO, p, "create the folder", ENOTDIR);
        *s = end;
        if (!end)
            break;
    }
    mem_free(p);
    return code;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_names(const struct io *io, DIR *dir, const char *path, struct arena *a, const char ***names, size_t *n,
                      struct snug_err *err)
{
    size_t cap = 0;
    for (;;) {
        errno = 0;
        struct dirent *e = io->readdir(io, dir);
        if (!e)
            return errno ? err_errno(err, SNUG_ERR_IO, path, "list the folder", errno) : SNUG_OK;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char *name = arena_strdup(a, e->d_name);
        if (!name || !MEM_GROW(*names, cap, *n + 1))
            return err_no_memory(err, (*n + 1) * sizeof **names);
        (*names)[(*n)++] = name;
    }
}

int io_list(const struct io *io, const char *path, struct arena *a, const char *const **names, size_t *n,
            struct snug_err *err)
{
    *names = NULL;
    *n = 0;
    DIR *dir = io->opendir(io, path);
    if (!dir)
        return err_errno(err, SNUG_ERR_IO, path, "list the folder", errno);
    const char **grown = NULL, **kept = NULL;
    int code = read_names(io, dir, path, a, &grown, n, err);
    io->closedir(io, dir);
    if (!code && !(kept = arena_alloc(a, *n * sizeof *kept)))
        code = err_no_memory(err, *n * sizeof *kept);
    if (!code && *n) {
        memcpy(kept, grown, *n * sizeof *kept);
        qsort(kept, *n, sizeof *kept, by_bytes);
    }
    mem_free(grown);
    *names = kept;
    return code;
}

bool io_exists(const struct io *io, const char *path)
{
    struct stat st;
    return io->stat(io, path, &st) == 0;
}
