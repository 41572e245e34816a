/* memory_io.h: a struct io whose files are byte arrays, for tests and fuzz targets of readers. Only what reading needs
 * is there. Faults: the k-th open, fstat or pread fails with EIO; reads stop short; reads are interrupted. */
#ifndef TESTS_MEMORY_IO_H
#define TESTS_MEMORY_IO_H

#include "base/io.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct memory_file {
    const char *path;
    const void *data;
    size_t bytes;
};

struct memory_io {
    struct io io; /* .ctx is this struct: see memory_io_init */
    const struct memory_file *files;
    size_t n_files;
    int open_files;       /* opened and not yet closed */
    int calls, fail_call; /* 1 fails the first call; 0 none */
    size_t short_read;    /* most bytes that one pread gives; 0 is no limit */
    int interrupt;        /* every second pread is interrupted */
    size_t shrink_to;     /* when not 0: reads see only so many bytes, fstat the full size */
};

static inline int memory_fault(struct memory_io *m)
{
    if (++m->calls != m->fail_call)
        return 0;
    errno = EIO;
    return 1;
}

static inline int memory_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    struct memory_io *m = io->ctx;
    (void)flags, (void)mode;
    if (memory_fault(m))
        return -1;
    for (size_t i = 0; i < m->n_files; i++)
        if (!strcmp(m->files[i].path, path)) {
            m->open_files++;
            return (int)i;
        }
    errno = ENOENT;
    return -1;
}

static inline int memory_close(const struct io *io, int fd)
{
    (void)fd;
    ((struct memory_io *)io->ctx)->open_files--;
    return 0;
}

static inline void memory_stat_file(const struct memory_io *m, int fd, struct stat *st)
{
    *st = (struct stat){
        .st_mode = S_IFREG | 0644, .st_size = (off_t)m->files[fd].bytes, .st_ino = (ino_t)fd + 1, .st_uid = geteuid()};
}

static inline int memory_fstat(const struct io *io, int fd, struct stat *st)
{
    struct memory_io *m = io->ctx;
    if (memory_fault(m))
        return -1;
    memory_stat_file(m, fd, st);
    return 0;
}

/* A path is a file, or the folder of one, or not there; this never fails otherwise. */
static inline int memory_stat(const struct io *io, const char *path, struct stat *st)
{
    struct memory_io *m = io->ctx;
    size_t n = strlen(path);
    for (size_t i = 0; i < m->n_files; i++) {
        if (!strcmp(m->files[i].path, path)) {
            memory_stat_file(m, (int)i, st);
            return 0;
        }
        if (!strncmp(m->files[i].path, path, n) && m->files[i].path[n] == '/') {
            *st = (struct stat){.st_mode = S_IFDIR | 0755};
            return 0;
        }
    }
    errno = ENOENT;
    return -1;
}

static inline ssize_t memory_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    struct memory_io *m = io->ctx;
    const struct memory_file *f = &m->files[fd];
    if (memory_fault(m))
        return -1;
    if (m->interrupt && m->calls % 2) {
        errno = EINTR;
        return -1;
    }
    size_t end = m->shrink_to ? m->shrink_to : f->bytes, left = (size_t)at < end ? end - (size_t)at : 0;
    bytes = bytes > left ? left : bytes;
    if (m->short_read && bytes > m->short_read)
        bytes = m->short_read;
    if (bytes)
        memcpy(buf, (const char *)f->data + at, bytes);
    return (ssize_t)bytes;
}

/* Folders have names of files in them alone, and are not listed. */
static inline DIR *memory_opendir(const struct io *io, const char *path)
{
    (void)io, (void)path;
    errno = EACCES;
    return NULL;
}

static inline void memory_io_init(struct memory_io *m, const struct memory_file *files, size_t n_files)
{
    *m = (struct memory_io){.io = {.open = memory_open,
                                   .close = memory_close,
                                   .pread = memory_pread,
                                   .fstat = memory_fstat,
                                   .stat = memory_stat,
                                   .lstat = memory_stat,
                                   .opendir = memory_opendir,
                                   .ctx = m},
                            .files = files,
                            .n_files = n_files};
}

#endif
