/* io.h: files. Every file call of libsnug goes through a struct io, so that a test can make the k-th one fail, stop
 * short or kill the process; `io_posix` is the real thing. The functions below the table add what callers need:
 * loops over short transfers and EINTR, whole files, and errors with the path in them. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "base/err.h"
#include "base/mem.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

/* What may be done with a file in memory: reading; writing, which the file does not get; writing, which it gets. */
enum io_map { IO_MAP_READ, IO_MAP_PRIVATE, IO_MAP_SHARED };

/* Each call has the meaning, the result and the errno of the system call of its name. */
struct io {
    int (*open)(const struct io *, const char *path, int flags, mode_t mode);
    int (*close)(const struct io *, int fd);
    ssize_t (*read)(const struct io *, int fd, void *buf, size_t bytes); /* of pipes and terminals */
    ssize_t (*pread)(const struct io *, int fd, void *buf, size_t bytes, off_t at);
    ssize_t (*pwrite)(const struct io *, int fd, const void *buf, size_t bytes, off_t at);
    int (*fsync)(const struct io *, int fd);
    int (*fallocate)(const struct io *, int fd, off_t bytes);
    int (*fstat)(const struct io *, int fd, struct stat *st);
    int (*stat)(const struct io *, const char *path, struct stat *st);
    int (*lstat)(const struct io *, const char *path, struct stat *st);
    int (*rename)(const struct io *, const char *from, const char *to);
    int (*rename_new)(const struct io *, const char *from, const char *to); /* fails with EEXIST, never replaces */
    int (*mkdir)(const struct io *, const char *path, mode_t mode);
    int (*rmdir)(const struct io *, const char *path);
    int (*unlink)(const struct io *, const char *path);
    int (*symlink)(const struct io *, const char *target, const char *path);
    ssize_t (*readlink)(const struct io *, const char *path, char *target, size_t bytes); /* no 0 byte behind it */
    char *(*realpath)(const struct io *, const char *path, char target[PATH_MAX]);        /* `target`, or NULL */
    int (*ftruncate)(const struct io *, int fd, off_t bytes);
    int (*flock)(const struct io *, int fd, int operation);
    int (*statfs)(const struct io *, const char *path, struct statfs *st);
    DIR *(*opendir)(const struct io *, const char *path);
    struct dirent *(*readdir)(const struct io *, DIR *dir);
    int (*closedir)(const struct io *, DIR *dir);
    int (*drop_cache)(const struct io *, int fd); /* posix_fadvise(DONTNEED): the next read comes from the disk */
    void *(*map)(const struct io *, int fd, size_t bytes, enum io_map how); /* a whole file. NULL, not MAP_FAILED */

    void *ctx; /* the test's own state; NULL in io_posix */
};

extern const struct io io_posix;

/* Opens a regular file for reading without blocking on a FIFO or device. A missing file, a folder or another kind is
 * SNUG_ERR_INPUT; one that may not be read is SNUG_ERR_IO. *size is its size in bytes. */
int io_open_read(const struct io *io, const char *path, int *fd, int64_t *size, struct snug_err *err);

/* One read of what there is: *n bytes, from 1 to `bytes` (> 0). Errors as io_read_at. */
int io_read_some(const struct io *io, int fd, const char *path, void *buf, size_t bytes, int64_t at, size_t *n,
                 struct snug_err *err);

/* Exactly `bytes` at `at`, or SNUG_ERR_IO ("file ends at ..." when it shrank). */
int io_read_at(const struct io *io, int fd, const char *path, void *buf, size_t bytes, int64_t at,
               struct snug_err *err);
int io_write_at(const struct io *io, int fd, const char *path, const void *buf, size_t bytes, int64_t at,
                struct snug_err *err);

/* The whole file and a 0 byte behind it, in memory that mem_free gives back. Larger than `limit`: SNUG_ERR_INPUT. */
int io_read_file(const struct io *io, const char *path, int64_t limit, char **text, size_t *bytes,
                 struct snug_err *err);

/* Writes path.tmp-PID beside it, fsyncs, renames over `path`, fsyncs the folder: the old file or the new, never half.
 */
int io_write_file(const struct io *io, const char *path, const void *data, size_t bytes, struct snug_err *err);

int io_fsync_dir(const struct io *io, const char *path, struct snug_err *err);
int io_make_dirs(const struct io *io, const char *path, struct snug_err *err); /* like mkdir -p; not "" */

/* The names in folder `path` without "." and "..", sorted by their bytes, in memory of `a`. */
int io_list(const struct io *io, const char *path, struct arena *a, const char *const **names, size_t *n,
            struct snug_err *err);
bool io_exists(const struct io *io, const char *path);

#endif
