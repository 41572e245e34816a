/* The output folder, held by its descriptor. Calls for its path and for what is below go through /proc/self/fd/N: they
 * reach that very folder, whatever becomes of its name meanwhile. Where there is no /proc they go by the name, and only
 * the comparison before each step that counts is left (ckpt_folder_check). */
#include "checkpoint/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct ckpt_folder {
    struct io io; /* first: io is &f->io */
    const struct io *base;
    char *path;
    size_t n; /* bytes of path without slashes at its end */
    int fd;
    bool through; /* /proc is there */
    atomic_int holders;
};

enum { ROOM = PATH_MAX + 32 };

static const struct ckpt_folder *of(const struct io *io)
{
    return (const struct ckpt_folder *)(const void *)io;
}

/* Where `path` is found; `room` has ROOM bytes. A path that is too long stays one. */
static const char *at(const struct io *io, const char *path, char *room)
{
    const struct ckpt_folder *f = of(io);
    if (!f->through || strncmp(path, f->path, f->n) != 0 || (path[f->n] && path[f->n] != '/'))
        return path;
    snprintf(room, ROOM, "/proc/self/fd/%d/%s", f->fd, path[f->n] ? path + f->n + 1 : ".");
    return room;
}

#define HELD(name, type, args, ...)                                                                                    \
    static type held_##name args                                                                                       \
    {                                                                                                                  \
        return of(io)->base->name(of(io)->base, __VA_ARGS__);                                                          \
    }
#define HELD_PATH(name, type, args, ...)                                                                               \
    static type held_##name args                                                                                       \
    {                                                                                                                  \
        char room[ROOM];                                                                                               \
        path = at(io, path, room);                                                                                     \
        return of(io)->base->name(of(io)->base, __VA_ARGS__);                                                          \
    }

HELD_PATH(open, int, (const struct io *io, const char *path, int flags, mode_t mode), path, flags, mode)
HELD_PATH(stat, int, (const struct io *io, const char *path, struct stat *st), path, st)
HELD_PATH(lstat, int, (const struct io *io, const char *path, struct stat *st), path, st)
HELD_PATH(mkdir, int, (const struct io *io, const char *path, mode_t mode), path, mode)
HELD_PATH(rmdir, int, (const struct io *io, const char *path), path)
HELD_PATH(unlink, int, (const struct io *io, const char *path), path)
HELD_PATH(symlink, int, (const struct io *io, const char *target, const char *path), target, path)
HELD_PATH(readlink, ssize_t, (const struct io *io, const char *path, char *target, size_t bytes), path, target, bytes)
HELD_PATH(statfs, int, (const struct io *io, const char *path, struct statfs *st), path, st)
HELD_PATH(opendir, DIR *, (const struct io *io, const char *path), path)
HELD(close, int, (const struct io *io, int fd), fd)
HELD(pread, ssize_t, (const struct io *io, int fd, void *buf, size_t bytes, off_t where), fd, buf, bytes, where)
HELD(pwrite, ssize_t, (const struct io *io, int fd, const void *buf, size_t bytes, off_t where), fd, buf, bytes, where)
HELD(fsync, int, (const struct io *io, int fd), fd)
HELD(fallocate, int, (const struct io *io, int fd, off_t bytes), fd, bytes)
HELD(fstat, int, (const struct io *io, int fd, struct stat *st), fd, st)
HELD(ftruncate, int, (const struct io *io, int fd, off_t bytes), fd, bytes)
HELD(flock, int, (const struct io *io, int fd, int operation), fd, operation)
HELD(readdir, struct dirent *, (const struct io *io, DIR *dir), dir)
HELD(closedir, int, (const struct io *io, DIR *dir), dir)
HELD(drop_cache, int, (const struct io *io, int fd), fd)

static int held_rename(const struct io *io, const char *from, const char *to)
{
    char room[ROOM], room_to[ROOM];
    return of(io)->base->rename(of(io)->base, at(io, from, room), at(io, to, room_to));
}

static int held_rename_new(const struct io *io, const char *from, const char *to)
{
    char room[ROOM], room_to[ROOM];
    return of(io)->base->rename_new(of(io)->base, at(io, from, room), at(io, to, room_to));
}

static const struct io held = {
    .open = held_open,
    .close = held_close,
    .pread = held_pread,
    .pwrite = held_pwrite,
    .fsync = held_fsync,
    .fallocate = held_fallocate,
    .fstat = held_fstat,
    .stat = held_stat,
    .lstat = held_lstat,
    .rename = held_rename,
    .rename_new = held_rename_new,
    .mkdir = held_mkdir,
    .rmdir = held_rmdir,
    .unlink = held_unlink,
    .symlink = held_symlink,
    .readlink = held_readlink,
    .ftruncate = held_ftruncate,
    .flock = held_flock,
    .statfs = held_statfs,
    .opendir = held_opendir,
    .readdir = held_readdir,
    .closedir = held_closedir,
    .drop_cache = held_drop_cache,
};

static bool same_folder(const struct io *io, int fd, const char *path)
{
    struct stat mine, there;
    return io->fstat(io, fd, &mine) == 0 && io->stat(io, path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

int ckpt_folder_hold(const struct io *io, const char *path, struct ckpt_folder **out, struct snug_err *err)
{
    struct ckpt_folder *f = mem_alloc(sizeof *f);
    char through[64];
    *out = NULL;
    if (!f || !(f->path = mem_strdup(path))) {
        mem_free(f);
        return err_no_memory(err, sizeof *f);
    }
    f->io = held;
    f->base = io;
    f->holders = 1;
    for (f->n = strlen(path); f->n > 1 && path[f->n - 1] == '/';)
        f->n--;
    f->fd = io->open(io, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (f->fd < 0) {
        int code = err_errno(err, SNUG_ERR_IO, path, "open the output folder", errno);
        ckpt_folder_drop(f);
        return code;
    }
    snprintf(through, sizeof through, "/proc/self/fd/%d/.", f->fd);
    f->through = same_folder(io, f->fd, through);
    *out = f;
    return SNUG_OK;
}

const struct io *ckpt_folder_io(const struct ckpt_folder *f)
{
    return &f->io;
}

int ckpt_folder_check(const struct ckpt_folder *f, struct snug_err *err)
{
    static const char deleted[] = " (deleted)";
    char link[64], now[PATH_MAX];
    struct stat mine;
    if (!f || same_folder(f->base, f->fd, f->path))
        return SNUG_OK;
    snprintf(link, sizeof link, "/proc/self/fd/%d", f->fd);
    ssize_t n = f->base->readlink(f->base, link, now, sizeof now - 1);
    now[n > 0 ? n : 0] = 0;
    size_t tail = sizeof deleted - 1;
    bool gone = f->base->fstat(f->base, f->fd, &mine) == 0 && mine.st_nlink == 0;
    if (n > (ssize_t)tail && !strcmp(now + n - tail, deleted))
        gone = true;
    if (gone)
        return err_set(
            err, SNUG_ERR_IO,
            "%s: the output folder was deleted while the run went on; nothing more is written, start the run "
            "again",
            f->path);
    return err_set(err, SNUG_ERR_IO,
                   "%s: the output folder was renamed while the run went on; nothing more is written, go on with "
                   "--output-dir %s --resume-from-checkpoint auto",
                   f->path, now[0] ? now : "NEW-NAME");
}

struct ckpt_folder *ckpt_folder_keep(struct ckpt_folder *f)
{
    if (f)
        atomic_fetch_add(&f->holders, 1);
    return f;
}

void ckpt_folder_drop(struct ckpt_folder *f)
{
    if (!f || atomic_fetch_sub(&f->holders, 1) > 1)
        return;
    if (f->fd >= 0)
        f->base->close(f->base, f->fd);
    mem_free(f->path);
    mem_free(f);
}
