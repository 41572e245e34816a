/* The lock of an output folder, and whether another host could have it. */
#include "checkpoint/internal.h"
#include "format/json.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- The file system. */

static const struct {
    unsigned type;
    const char *name;
    bool one_host; /* only this kernel can have it mounted, so a free flock proves that nobody holds the lock */
    bool careful;
} file_systems[] = {
    {EXT4_SUPER_MAGIC, "ext4", true, false},
    {XFS_SUPER_MAGIC, "XFS", true, false},
    {BTRFS_SUPER_MAGIC, "btrfs", true, false},
    {F2FS_SUPER_MAGIC, "F2FS", true, false},
    {0x2FC12FC1, "ZFS", true, false},
    {0xCA451A4E, "bcachefs", true, false},
    {TMPFS_MAGIC, "tmpfs (host memory: gone at the next boot)", true, true},
    {RAMFS_MAGIC, "ramfs (host memory: gone at the next boot)", true, true},
    {OVERLAYFS_SUPER_MAGIC, "overlay (gone with the container)", true, true},
    {NFS_SUPER_MAGIC, "NFS", false, true},
    {FUSE_SUPER_MAGIC, "FUSE", false, true},
    {SMB_SUPER_MAGIC, "SMB", false, true},
    {0xFE534D42, "SMB", false, true},
    {0xFF534D42, "SMB", false, true},
    {V9FS_MAGIC, "9p", false, true},
    {CEPH_SUPER_MAGIC, "Ceph", false, true},
    {0x0BD00BD0, "Lustre", false, true},
    {0x47504653, "GPFS", false, true},
    {0x19830326, "BeeGFS", false, true},
};

bool ckpt_is_one_host(const struct io *io, const char *path, struct ckpt_notes notes, bool say)
{
    struct statfs fs;
    if (io->statfs(io, path, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++)
        if (file_systems[i].type == (unsigned)fs.f_type) {
            if (say && file_systems[i].careful)
                ckpt_note(notes, "%s: is on %s; checkpoints are as durable as that is", path, file_systems[i].name);
            return file_systems[i].one_host;
        }
    return false;
}

/* ---- The lock. */

bool ckpt_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

enum { LOCK_LIMIT = 4096 };

struct owner {
    long long pid;
    char host[256], start[64];
};

/* Who wrote the lock file; pid 0 when it is empty or damaged. False: no snug wrote it. */
static bool read_owner(const struct io *io, int fd, struct owner *o)
{
    static const char begins[] = "{\"pid\": ";
    char text[LOCK_LIMIT];
    ssize_t n = io->pread(io, fd, text, sizeof text, 0);
    json_t *j = NULL;
    int64_t pid = 0;
    const char *host = "", *start = "";
    *o = (struct owner){0};
    size_t part = n > 0 ? strnlen(text, (size_t)n) : 0; /* a power failure may leave a part of it, and zeros */
    if (strncmp(text, begins, part < sizeof begins - 1 ? part : sizeof begins - 1) != 0)
        return false;
    if (n <= 0 || json_parse(text, (size_t)n, ".lock", &j, NULL))
        return true;
    if (!json_get_int(j, ".lock", "pid", true, 1, INT64_MAX, &pid, NULL) &&
        !json_get_string(j, ".lock", "host", true, &host, NULL) &&
        !json_get_string(j, ".lock", "start", true, &start, NULL)) {
        o->pid = pid;
        snprintf(o->host, sizeof o->host, "%s", host);
        snprintf(o->start, sizeof o->start, "%s", start);
    }
    json_decref(j);
    return true;
}

static int write_owner(const struct io *io, int fd, const char *path, const char *host, struct snug_err *err)
{
    struct timespec now;
    struct tm utc;
    char start[32];
    struct str s = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(start, sizeof start, "%Y-%m-%dT%H:%M:%SZ", &utc);
    str_printf(&s, "{\"pid\": %lld, \"host\": ", (long long)getpid());
    str_json(&s, host);
    str_printf(&s, ", \"start\": \"%s\"}\n", start);
    int code = str_check(&s, err);
    if (!code && io->ftruncate(io, fd, 0) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "truncate", errno);
    if (!code)
        code = io_write_at(io, fd, path, s.s, s.n, 0, err);
    str_free(&s);
    return code;
}

static int locked_by(const char *dir, const char *path, const struct owner *o, const char *advice, struct snug_err *err)
{
    if (!o->pid)
        return err_set(err, SNUG_ERR_IO, "%s: locked by another process; %s", dir, advice);
    return err_set(err, SNUG_ERR_IO, "%s: locked by pid %lld on host %s since %s; %s %s", dir, o->pid, o->host,
                   o->start, advice, path);
}

/* The lock is ours, as far as this host is concerned: is the one who wrote the file gone? */
static int judge_owner(const struct ckpt_dir *dir, const char *path, const char *host, const struct owner *o,
                       bool flock_works, struct snug_err *err)
{
    if (!o->pid)
        return SNUG_OK;
    bool here = !strcmp(o->host, host);
    if (flock_works && (here || ckpt_is_one_host(dir->io, dir->path, dir->notes, false))) {
        ckpt_note(dir->notes, "%s: took over the lock of pid %lld on host %s, which has ended", dir->path, o->pid,
                  o->host);
        return SNUG_OK;
    }
    return locked_by(dir->path, path, o, "if that process is gone, delete", err);
}

/* flock on `fd`; *retry when the file was removed by its owner in between. */
static int try_lock(struct ckpt_dir *dir, int fd, const char *path, bool *retry, struct snug_err *err)
{
    const struct io *io = dir->io;
    struct owner o;
    struct stat mine, there;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    bool flock_works = true;
    *retry = false;
    if (io->fstat(io, fd, &mine) < 0)
        return err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    if (!S_ISREG(mine.st_mode))
        return err_set(err, SNUG_ERR_IO, "%s: is not a regular file; remove it", path);
    if (io->flock(io, fd, LOCK_EX | LOCK_NB) < 0) {
        int errnum = errno;
        if (errnum == EWOULDBLOCK) {
            read_owner(io, fd, &o);
            return locked_by(dir->path, path, &o, "wait for it, or give another --output-dir; the lock is", err);
        }
        if (errnum != ENOLCK && errnum != ENOSYS && errnum != EOPNOTSUPP && errnum != EINVAL)
            return err_errno(err, SNUG_ERR_IO, path, "lock", errnum);
        flock_works = false;
        ckpt_note(dir->notes, "%s: the file system has no locks (%s); let only one process use it", dir->path,
                  strerror(errnum));
    }
    if (io->stat(io, path, &there) < 0 || !ckpt_same_file(&mine, &there)) {
        *retry = true;
        return SNUG_OK;
    }
    if (!read_owner(io, fd, &o))
        return err_set(err, SNUG_ERR_IO,
                       "%s: is not a lock that snug wrote; move it away, or give another --output-dir", path);
    TRY(judge_owner(dir, path, host, &o, flock_works, err));
    dir->locked = true; /* from here on the file is ours to remove */
    dir->lock_fd = fd;
    return write_owner(io, fd, path, host, err);
}

int ckpt_lock(struct ckpt_dir *dir, struct snug_err *err)
{
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/.lock", dir->path);
    int code = path ? SNUG_OK : err_no_memory(err, strlen(dir->path) + 8);
    for (int tries = 0; !code && !dir->locked; tries++) {
        int fd = dir->io->open(dir->io, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
        bool retry = false;
        if (fd < 0)
            code = err_errno(err, SNUG_ERR_IO, path, "create", errno);
        else
            code = try_lock(dir, fd, path, &retry, err);
        if (!code && retry && tries == 100)
            code = err_set(err, SNUG_ERR_IO, "%s: changes all the time; is another snug using the folder?", path);
        if (!dir->locked && fd >= 0)
            dir->io->close(dir->io, fd);
    }
    arena_free(&a);
    return code;
}
