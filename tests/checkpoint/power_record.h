/* power_record.h: an io that records what a session does to the disk, and the tree of files as it looks meanwhile. */
#ifndef TEST_CHECKPOINT_POWER_RECORD_H
#define TEST_CHECKPOINT_POWER_RECORD_H

#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

enum { MAX_OPS = 2000, MAX_INODES = 400, MAX_ENTRIES = 64, MAX_BYTES = 8192, MAX_FDS = 1024, STATES_A_POINT = 40 };

enum kind { OP_ADD, OP_REMOVE, OP_RENAME, OP_WRITE, OP_SIZE, OP_SYNC, OP_COMPLETE };

/* Inode 0 is the output folder itself. */
struct op {
    enum kind kind;
    int dir, ino;            /* ADD, REMOVE, RENAME: in folder `dir`; else of `ino` */
    char name[120], to[120]; /* of the entry; RENAME: and the new one */
    size_t at, bytes;        /* WRITE, SIZE (at) */
    const unsigned char *data;
    long step; /* COMPLETE */
};

struct entry {
    char name[120];
    int ino;
};

struct inode {
    bool folder;
    char target[64]; /* of a symlink */
    unsigned char data[MAX_BYTES];
    size_t bytes;
    struct entry entries[MAX_ENTRIES];
    int n_entries;
};

/* ---- Recording: the real call is made too, and the tree is kept as it looks to the running process. */

struct recorder {
    struct io io;
    char out[64];
    struct op ops[MAX_OPS];
    int n_ops, n_inodes;
    struct inode live[MAX_INODES];
    int fd_inode[MAX_FDS];
    pthread_mutex_t lock;
};

static struct recorder rec;

static inline struct op *add_op(enum kind kind)
{
    assert_true(rec.n_ops < MAX_OPS);
    rec.ops[rec.n_ops].kind = kind;
    return &rec.ops[rec.n_ops++];
}

static inline int find_entry(const struct inode *dir, const char *name)
{
    for (int i = 0; i < dir->n_entries; i++)
        if (!strcmp(dir->entries[i].name, name))
            return i;
    return -1;
}

static inline void set_entry(struct inode *dir, const char *name, int ino)
{
    int i = find_entry(dir, name);
    if (i < 0) {
        assert_true(dir->n_entries < MAX_ENTRIES);
        i = dir->n_entries++;
    }
    snprintf(dir->entries[i].name, sizeof dir->entries[i].name, "%s", name);
    dir->entries[i].ino = ino;
}

static inline void drop_entry(struct inode *dir, const char *name)
{
    int i = find_entry(dir, name);
    if (i >= 0)
        dir->entries[i] = dir->entries[--dir->n_entries];
}

/* OUT/a or OUT/a/b, with OUT as it is or through its descriptor: the folder's inode and the last name. -1: not in the
 * output folder. */
static inline int folder_of(const char *path, const char **name)
{
    static const char through[] = "/proc/self/fd/";
    size_t n = strlen(rec.out);
    if (!strncmp(path, through, sizeof through - 1)) {
        n = sizeof through - 1 + strspn(path + sizeof through - 1, "0123456789");
        if (!strcmp(path + n, "/."))
            return *name = "", 0;
    } else if (strncmp(path, rec.out, n) != 0) {
        return *name = "", -1;
    }
    *name = path[n] ? path + n + 1 : "";
    const char *slash = strchr(*name, '/');
    if (!slash)
        return 0;
    char first[120];
    snprintf(first, sizeof first, "%.*s", (int)(slash - *name), *name);
    int i = find_entry(&rec.live[0], first);
    *name = slash + 1;
    return i < 0 ? -1 : rec.live[0].entries[i].ino;
}

static inline int inode_of(const char *path)
{
    const char *name;
    int dir = folder_of(path, &name);
    if (dir < 0 || !*name)
        return dir;
    int i = find_entry(&rec.live[dir], name);
    return i < 0 ? -1 : rec.live[dir].entries[i].ino;
}

static inline void record_new(const char *path, bool is_folder, const char *target)
{
    const char *name;
    int dir = folder_of(path, &name), ino = rec.n_inodes++;
    assert_true(dir >= 0 && ino < MAX_INODES);
    rec.live[ino].folder = is_folder;
    snprintf(rec.live[ino].target, sizeof rec.live[ino].target, "%s", target);
    struct op *op = add_op(OP_ADD);
    op->dir = dir, op->ino = ino;
    snprintf(op->name, sizeof op->name, "%s", name);
    set_entry(&rec.live[dir], name, ino);
}

static inline void record_remove(const char *path)
{
    const char *name;
    struct op *op = add_op(OP_REMOVE);
    op->dir = folder_of(path, &name);
    assert_true(op->dir >= 0);
    snprintf(op->name, sizeof op->name, "%s", name);
    drop_entry(&rec.live[op->dir], name);
}

static inline void record_rename(const char *from, const char *to)
{
    const char *name, *new_name = "";
    struct op *op = add_op(OP_RENAME);
    op->dir = folder_of(from, &name);
    op->ino = inode_of(from);
    assert_true(op->dir >= 0 && op->ino > 0 && folder_of(to, &new_name) == op->dir);
    snprintf(op->name, sizeof op->name, "%s", name);
    snprintf(op->to, sizeof op->to, "%s", new_name);
    drop_entry(&rec.live[op->dir], name);
    set_entry(&rec.live[op->dir], new_name, op->ino);
}

#define LOCKED(statement)                                                                                              \
    do {                                                                                                               \
        int errnum_ = errno;                                                                                           \
        pthread_mutex_lock(&rec.lock);                                                                                 \
        statement;                                                                                                     \
        pthread_mutex_unlock(&rec.lock);                                                                               \
        errno = errnum_;                                                                                               \
    } while (0)

static inline int rec_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    struct stat st;
    bool is_new = flags & O_CREAT && lstat(path, &st) < 0;
    int fd = open(path, flags, mode);
    if (fd < 0)
        return fd;
    assert_true(fd < MAX_FDS);
    LOCKED(if (is_new) record_new(path, false, ""); rec.fd_inode[fd] = inode_of(path));
    return fd;
}

static inline ssize_t rec_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    (void)io;
    ssize_t n = pwrite(fd, buf, bytes, at);
    if (n > 0) {
        unsigned char *copy = malloc((size_t)n); /* held until the process ends */
        memcpy(copy, buf, (size_t)n);
        LOCKED(struct op *op = add_op(OP_WRITE); op->ino = rec.fd_inode[fd]; op->at = (size_t)at; op->bytes = (size_t)n;
               op->data = copy);
    }
    return n;
}

static inline int record_size(int fd, off_t bytes, int result)
{
    if (result == 0)
        LOCKED(struct op *op = add_op(OP_SIZE); op->ino = rec.fd_inode[fd]; op->at = (size_t)bytes);
    return result;
}

static inline int rec_fallocate(const struct io *io, int fd, off_t bytes)
{
    (void)io;
    return record_size(fd, bytes, ftruncate(fd, bytes));
}

static inline int rec_ftruncate(const struct io *io, int fd, off_t bytes)
{
    (void)io;
    return record_size(fd, bytes, ftruncate(fd, bytes));
}

static inline int rec_fsync(const struct io *io, int fd)
{
    (void)io;
    LOCKED(add_op(OP_SYNC)->ino = rec.fd_inode[fd]);
    return 0;
}

static inline int rec_rename(const struct io *io, const char *from, const char *to)
{
    (void)io;
    int r = rename(from, to);
    if (r == 0)
        LOCKED(record_rename(from, to));
    return r;
}

static inline int rec_rename_new(const struct io *io, const char *from, const char *to)
{
    (void)io;
    int r = io_posix.rename_new(&io_posix, from, to);
    if (r == 0)
        LOCKED(record_rename(from, to));
    return r;
}

static inline int rec_mkdir(const struct io *io, const char *path, mode_t mode)
{
    (void)io;
    int r = mkdir(path, mode);
    if (r == 0)
        LOCKED(record_new(path, true, ""));
    return r;
}

static inline int rec_rmdir(const struct io *io, const char *path)
{
    (void)io;
    int r = rmdir(path);
    if (r == 0)
        LOCKED(record_remove(path));
    return r;
}

static inline int rec_unlink(const struct io *io, const char *path)
{
    (void)io;
    int r = unlink(path);
    if (r == 0)
        LOCKED(record_remove(path));
    return r;
}

static inline int rec_symlink(const struct io *io, const char *target, const char *path)
{
    (void)io;
    int r = symlink(target, path);
    if (r == 0)
        LOCKED(record_new(path, false, target));
    return r;
}

#endif
