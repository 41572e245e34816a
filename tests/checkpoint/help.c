#include "help.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

static struct faulty *of(const struct io *io)
{
    return (struct faulty *)(uintptr_t)io;
}

/* Counts the call. True: it is to fail, errno is set. */
static bool fails(const struct io *io, const char *name)
{
    struct faulty *f = of(io);
    long k = atomic_fetch_add(&f->calls, 1) + 1;
    bool hit = f->kind != FAULT_NONE && f->at && (k == f->at || (f->for_ever && k > f->at));
    if (!hit || f->kind == FAULT_SHORT)
        return false;
    if (f->kind == FAULT_KILL)
        kill(getpid(), SIGKILL);
    if (!f->hit[0])
        snprintf(f->hit, sizeof f->hit, "%s", name);
    errno = f->errnum;
    return true;
}

static bool is_short(const struct io *io)
{
    struct faulty *f = of(io);
    return f->kind == FAULT_SHORT && (f->for_ever || f->calls == f->at);
}

static void hang(const struct io *io)
{
    while (of(io)->hangs)
        usleep(1000);
}

#define CALL(name, type, bad, args, ...)                                                                               \
    static type faulty_##name args                                                                                     \
    {                                                                                                                  \
        if (fails(io, #name))                                                                                          \
            return bad;                                                                                                \
        return io_posix.name(&io_posix, __VA_ARGS__);                                                                  \
    }

CALL(open, int, -1, (const struct io *io, const char *path, int flags, mode_t mode), path, flags, mode)
CALL(fallocate, int, -1, (const struct io *io, int fd, off_t bytes), fd, bytes)
CALL(fstat, int, -1, (const struct io *io, int fd, struct stat *st), fd, st)
CALL(stat, int, -1, (const struct io *io, const char *path, struct stat *st), path, st)
CALL(mkdir, int, -1, (const struct io *io, const char *path, mode_t mode), path, mode)
CALL(rmdir, int, -1, (const struct io *io, const char *path), path)
CALL(unlink, int, -1, (const struct io *io, const char *path), path)
CALL(symlink, int, -1, (const struct io *io, const char *target, const char *path), target, path)
CALL(readlink, ssize_t, -1, (const struct io *io, const char *path, char *target, size_t bytes), path, target, bytes)
CALL(realpath, char *, NULL, (const struct io *io, const char *path, char target[PATH_MAX]), path, target)
CALL(ftruncate, int, -1, (const struct io *io, int fd, off_t bytes), fd, bytes)
CALL(opendir, DIR *, NULL, (const struct io *io, const char *path), path)
CALL(readdir, struct dirent *, NULL, (const struct io *io, DIR *dir), dir)
CALL(drop_cache, int, -1, (const struct io *io, int fd), fd)

static int faulty_close(const struct io *io, int fd)
{
    bool bad = fails(io, "close"); /* as Linux does: the descriptor is gone all the same */
    struct stat st;
    off_t below = of(io)->close_below;
    if (of(io)->close_errnum && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY && fstat(fd, &st) == 0 &&
        (!below || st.st_size < below)) {
        errno = of(io)->close_errnum;
        bad = true;
    }
    int errnum = errno, r = close(fd);
    errno = errnum;
    return bad ? -1 : r;
}

static int faulty_closedir(const struct io *io, DIR *dir)
{
    bool bad = fails(io, "closedir");
    int r = closedir(dir);
    return bad ? -1 : r;
}

static ssize_t faulty_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    if (fails(io, "pread"))
        return -1;
    return pread(fd, buf, is_short(io) && bytes > 1 ? bytes / 2 : bytes, at);
}

/* Killed in the middle of a write, half of it is there. */
static ssize_t faulty_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    struct faulty *f = of(io);
    if (f->kind == FAULT_KILL && f->calls + 1 == f->at && pwrite(fd, buf, bytes / 2, at) < 0)
        return -1;
    if (fails(io, "pwrite"))
        return -1;
    return pwrite(fd, buf, is_short(io) && bytes > 1 ? bytes / 2 : bytes, at);
}

static int faulty_fsync(const struct io *io, int fd)
{
    struct stat st;
    bool bad = fails(io, "fsync");
    if (of(io)->unsyncable && fstat(fd, &st) == 0 && st.st_ino == of(io)->unsyncable) {
        errno = EIO;
        bad = true;
    }
    int errnum = errno;
    hang(io);
    errno = errnum;
    return bad ? -1 : 0;
}

static int faulty_lstat(const struct io *io, const char *path, struct stat *st)
{
    hang(io);
    return fails(io, "lstat") ? -1 : lstat(path, st);
}

static int faulty_rename(const struct io *io, const char *from, const char *to)
{
    return fails(io, "rename") ? -1 : rename(from, to);
}

static int faulty_rename_new(const struct io *io, const char *from, const char *to)
{
    if (fails(io, "rename_new"))
        return -1;
    int r = io_posix.rename_new(&io_posix, from, to);
    if (r == 0 && of(io)->rename_lies) {
        errno = ENOENT;
        return -1;
    }
    return r;
}

static int faulty_flock(const struct io *io, int fd, int operation)
{
    if (fails(io, "flock"))
        return -1;
    if (of(io)->flock_errnum) {
        errno = of(io)->flock_errnum;
        return -1;
    }
    return flock(fd, operation);
}

static int faulty_statfs(const struct io *io, const char *path, struct statfs *st)
{
    if (fails(io, "statfs"))
        return -1;
    int r = statfs(path, st);
    if (of(io)->fs_type)
        st->f_type = of(io)->fs_type;
    if (of(io)->fs_free >= 0) {
        st->f_frsize = 1;
        st->f_bavail = (unsigned long)of(io)->fs_free;
    }
    return r;
}

void faulty_init(struct faulty *f)
{
    memset(f, 0, sizeof *f);
    f->fs_free = -1;
    f->io = (struct io){
        .open = faulty_open,
        .close = faulty_close,
        .pread = faulty_pread,
        .pwrite = faulty_pwrite,
        .fsync = faulty_fsync,
        .fallocate = faulty_fallocate,
        .fstat = faulty_fstat,
        .stat = faulty_stat,
        .lstat = faulty_lstat,
        .rename = faulty_rename,
        .rename_new = faulty_rename_new,
        .mkdir = faulty_mkdir,
        .rmdir = faulty_rmdir,
        .unlink = faulty_unlink,
        .symlink = faulty_symlink,
        .readlink = faulty_readlink,
        .realpath = faulty_realpath,
        .ftruncate = faulty_ftruncate,
        .flock = faulty_flock,
        .statfs = faulty_statfs,
        .opendir = faulty_opendir,
        .readdir = faulty_readdir,
        .closedir = faulty_closedir,
        .drop_cache = faulty_drop_cache,
    };
}

/* ---- Notes. */

void collect(void *ctx, const char *line)
{
    struct lines *l = ctx;
    assert_null(strchr(line, '\n'));
    if (l->n < 200)
        snprintf(l->text[l->n++], sizeof l->text[0], "%s", line);
}

struct ckpt_notes notes_of(struct lines *l)
{
    l->n = 0;
    return (struct ckpt_notes){collect, l};
}

const char *line_with(const struct lines *l, const char *part)
{
    for (int i = 0; i < l->n; i++)
        if (strstr(l->text[i], part))
            return l->text[i];
    return NULL;
}

int count_lines(const struct lines *l, const char *part)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += strstr(l->text[i], part) != NULL;
    return n;
}

/* ---- Training: integer arithmetic on the raw bits, so that every bit of the state matters to the next one. */

static void stir(void *data, size_t bytes, uint64_t *x)
{
    uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) {
        *x = (*x ^ p[i]) * 0x9E3779B97F4A7C15u + 1;
        p[i] = (uint8_t)(*x >> 56);
    }
}

void tiny_step(struct tiny *t)
{
    uint64_t x = (uint64_t)++t->step;
    stir(t->weight, sizeof t->weight, &x);
    stir(t->bias, sizeof t->bias, &x);
    stir(t->moment, sizeof t->moment, &x);
    stir(t->codes, sizeof t->codes, &x);
    stir(&t->loss_scale, sizeof t->loss_scale, &x);
}

void tiny_start(struct tiny *t)
{
    memset(t, 0, sizeof *t);
}

void tiny_run_to(struct tiny *t, int64_t last_step)
{
    tiny_start(t);
    while (t->step < last_step)
        tiny_step(t);
}

void tiny_tensors(struct tiny *t, struct ckpt_tensor tensors[TINY_TENSORS])
{
    tensors[0] = (struct ckpt_tensor){"encoder.weight", DT_F32, 2, {8, 24}, t->weight, NULL};
    tensors[1] = (struct ckpt_tensor){"encoder.bias", DT_F32, 1, {24}, t->bias, NULL};
    tensors[2] = (struct ckpt_tensor){"encoder.weight.exp_avg", DT_BF16, 2, {8, 24}, t->moment, NULL};
    tensors[3] = (struct ckpt_tensor){"encoder.weight.codes", DT_U8, 1, {33}, t->codes, NULL};
    tensors[4] = (struct ckpt_tensor){"loss_scale", DT_F64, 0, {0}, &t->loss_scale, NULL};
    tensors[5] = (struct ckpt_tensor){"empty", DT_F32, 2, {0, 4}, t->bias, NULL};
}

json_t *tiny_state(const struct tiny *t)
{
    json_error_t e;
    json_t *j = json_pack_ex(&e, 0, "{s:{s:I,s:i,s:f}, s:[i,s], s:{s:s}}", "position", "step", (json_int_t)t->step,
                             "epoch", (int)(t->step / 3), "best", (double)t->step / 8, "history", (int)t->step,
                             "naïve \"x\"", "about", "output_dir", "/somewhere");
    assert_non_null(j);
    return j;
}

void tiny_hash(struct tiny *t, char hex[33])
{
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct hash128 h;
    json_t *state = tiny_state(t);
    tiny_tensors(t, tensors);
    assert_int_equal(ckpt_state_hash(tensors, TINY_TENSORS, state, &h, NULL), 0);
    json_decref(state);
    hash_hex(h, hex);
}

void assert_loads(const struct ckpt_found *found)
{
    struct tiny want, got;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    json_t *state = NULL, *expected;
    tiny_run_to(&want, found->step);
    memset(&got, 0xA5, sizeof got);
    got.step = found->step;
    tiny_tensors(&got, tensors);
    if (ckpt_load_tensors(found, tensors, TINY_TENSORS, &err) || ckpt_load_state(found, &state, &err))
        fail_msg("%s", err.text);
    expected = tiny_state(&want);
    assert_true(json_equal(state, expected));
    json_decref(state);
    json_decref(expected);
    assert_memory_equal(want.weight, got.weight, sizeof want.weight);
    assert_memory_equal(want.bias, got.bias, sizeof want.bias);
    assert_memory_equal(want.moment, got.moment, sizeof want.moment);
    assert_memory_equal(want.codes, got.codes, sizeof want.codes);
    assert_memory_equal(&want.loss_scale, &got.loss_scale, sizeof want.loss_scale);
    char hex[33];
    tiny_hash(&want, hex);
    assert_string_equal(hex, found->state_hash);
}

int save_tiny(const struct io *io, const char *dir, int64_t step, struct ckpt_notes notes, struct snug_err *err)
{
    struct ckpt_config config = {.io = io, .output_dir = dir, .notes = notes};
    struct ckpt_saver *saver;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct tiny t;
    tiny_run_to(&t, step);
    tiny_tensors(&t, tensors);
    json_t *state = tiny_state(&t);
    int code = ckpt_saver_new(&config, &saver, err);
    if (!code)
        code = ckpt_save_begin(saver, step, -1, tensors, TINY_TENSORS, state, err);
    if (!code)
        code = ckpt_save_wait(saver, err);
    ckpt_saver_free(saver);
    json_decref(state);
    return code;
}
