/* The output folder as a whole, before training starts: whose it is, the disk, and tidying up. */
#include "base/size.h"
#include "checkpoint/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- What the folder may be. */

/* The folder that `path` is in. */
static char *parent_of(struct arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    return n ? arena_strndup(a, path, n) : arena_strdup(a, ".");
}

/* A checkpoint's folder, whole or not. */
static bool is_checkpoint(const struct io *io, struct arena *a, const char *path)
{
    char *manifest = arena_printf(a, "%s/" CKPT_MANIFEST, path), *state = arena_printf(a, "%s/" CKPT_STATE, path);
    return manifest && state && io_exists(io, manifest) && io_exists(io, state);
}

/* SNUG_ERR_USAGE when the existing folder `path`, or one that it is in, is one of the data folders or a checkpoint. */
static int check_outside(const struct io *io, const char *path, const char *shown, const char *const *data,
                         size_t n_data, struct snug_err *err)
{
    struct arena a = {0};
    struct stat here, up, d;
    char *p = arena_strdup(&a, path);
    int code = SNUG_OK;
    for (bool top = false; p && !code && !top && io->stat(io, p, &here) == 0;) {
        for (size_t i = 0; !code && i < n_data; i++)
            if (io->stat(io, data[i], &d) == 0 && S_ISDIR(d.st_mode) && ckpt_same_file(&here, &d))
                code = err_set(err, SNUG_ERR_USAGE,
                               "%s: the output folder lies in the data folder %s; give another --output-dir", shown,
                               data[i]);
        if (!code && is_checkpoint(io, &a, p))
            code = err_set(err, SNUG_ERR_USAGE,
                           "%s: the output folder lies in a checkpoint, which nothing may be added to; give another "
                           "--output-dir",
                           shown);
        p = arena_printf(&a, "%s/..", p);
        top = p && (io->stat(io, p, &up) < 0 || ckpt_same_file(&here, &up));
    }
    arena_free(&a);
    return code;
}

/* The nearest folder above `path` that is there. */
static char *existing_parent(const struct io *io, struct arena *a, const char *path)
{
    struct stat st;
    char *p = parent_of(a, path);
    while (p && io->stat(io, p, &st) < 0 && errno == ENOENT && strcmp(p, ".") != 0 && strcmp(p, "/") != 0)
        p = parent_of(a, p);
    return p;
}

static int check_place(const struct io *io, const char *path, const char *model_dir, const char *const *data,
                       size_t n_data, bool *exists, struct snug_err *err)
{
    struct arena a = {0};
    struct stat st, other;
    int code = SNUG_OK;
    *exists = io->stat(io, path, &st) == 0;
    int errnum = errno;
    char *parent = existing_parent(io, &a, path);
    if (!parent)
        code = err_no_memory(err, strlen(path));
    else if (!*path)
        code = err_set(err, SNUG_ERR_USAGE, "--output-dir: is empty; give a folder");
    else if (*exists && !S_ISDIR(st.st_mode))
        code = err_set(err, SNUG_ERR_USAGE, "%s: is a file; give a folder as --output-dir", path);
    else if (*exists && io->stat(io, "/", &other) == 0 && ckpt_same_file(&st, &other))
        code = err_set(err, SNUG_ERR_USAGE, "%s: is the root folder; give another --output-dir", path);
    else if (*exists && model_dir && io->stat(io, model_dir, &other) == 0 && ckpt_same_file(&st, &other))
        code = err_set(err, SNUG_ERR_USAGE, "%s: is the model folder; give another --output-dir", path);
    else if (!*exists && errnum != ENOENT)
        code = err_errno(err, SNUG_ERR_IO, path, "use the output folder", errnum);
    else if (!*exists && io->lstat(io, path, &st) == 0)
        code = err_set(err, SNUG_ERR_USAGE, "%s: is a link to nothing; give a folder as --output-dir", path);
    else
        code = check_outside(io, *exists ? path : parent, path, data, n_data, err);
    arena_free(&a);
    return code;
}

/* Makes the folder and those above it that are missing, and has each new name on the disk. */
static int make_folders(struct ckpt_dir *dir, struct snug_err *err)
{
    const struct io *io = dir->base;
    struct arena a = {0};
    char *path = arena_strdup(&a, dir->path);
    int code = path ? SNUG_OK : err_no_memory(err, strlen(dir->path));
    for (size_t i = 1; !code && path[i - 1]; i++) {
        char end = path[i];
        if ((end && end != '/') || path[i - 1] == '/')
            continue;
        path[i] = 0;
        char *parent = parent_of(&a, path);
        if (io->mkdir(io, path, 0777) == 0) {
            dir->made++;
            code = parent ? io_fsync_dir(io, parent, err) : err_no_memory(err, i);
        } else if (errno != EEXIST)
            code = err_errno(err, SNUG_ERR_IO, path, "create the output folder", errno);
        path[i] = end;
        if (!end)
            break;
    }
    arena_free(&a);
    return code;
}

/* Takes away again what make_folders made, as long as nothing is in it. */
static void unmake_folders(struct ckpt_dir *dir)
{
    struct arena a = {0};
    const char *path = dir->path;
    if (dir->folder && ckpt_folder_check(dir->folder, NULL))
        dir->made = 0; /* another folder by now */
    for (; path && dir->made > 0 && dir->base->rmdir(dir->base, path) == 0; dir->made--)
        path = parent_of(&a, path);
    arena_free(&a);
}

/* Another run has left a checkpoint or an exported model here. */
int ckpt_dir_unused(const struct ckpt_dir *dir, struct snug_err *err)
{
    const struct io *io = dir->io;
    const char *path = dir->path;
    struct arena a = {0};
    const char *const *names;
    size_t n;
    int64_t step;
    int code = io_list(io, path, &a, &names, &n, err);
    for (size_t i = 0; !code && i < n; i++)
        if (ckpt_parse_step(names[i], &step) || !strcmp(names[i], "config.json") ||
            !strcmp(names[i], "model.safetensors"))
            code = err_set(err, SNUG_ERR_USAGE,
                           "%s: holds another run (%s); use --resume-from-checkpoint, another --output-dir, or "
                           "--overwrite-output-dir",
                           path, names[i]);
    arena_free(&a);
    return code;
}

bool ckpt_dir_has_steps(const struct ckpt_dir *dir)
{
    struct arena a = {0};
    struct ckpt_step *steps;
    size_t n = 0;
    bool any = !ckpt_list(dir->io, dir->path, &a, &steps, &n, NULL) && n > 0;
    arena_free(&a);
    return any;
}

/* ---- The disk, and what dead runs left. */

static int probe(const struct ckpt_dir *dir, struct snug_err *err)
{
    const struct io *io = dir->io;
    struct arena a = {0};
    char *stem = arena_printf(&a, "%s/.tmp-probe", dir->path);
    char *first = stem ? ckpt_unique_name(&a, stem) : NULL, *second = stem ? ckpt_unique_name(&a, stem) : NULL;
    if (!first || !second) {
        arena_free(&a);
        return err_no_memory(err, strlen(dir->path));
    }
    int code = SNUG_OK, fd = io->open(io, first, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    const char *name = first;
    if (fd < 0) {
        code = err_errno(err, SNUG_ERR_IO, dir->path, "write in the output folder", errno);
    } else {
        code = io_write_at(io, fd, first, "probe", 5, 0, err);
        if (!code && io->fsync(io, fd) < 0)
            code = err_errno(err, SNUG_ERR_IO, first, "fsync", errno);
        if (io->close(io, fd) < 0 && !code)
            code = err_errno(err, SNUG_ERR_IO, first, "close", errno);
        if (!code && io->rename_new(io, first, second) < 0)
            code = err_errno(err, SNUG_ERR_IO, first, "rename", errno);
        else if (!code)
            name = second;
        if (io->unlink(io, name) < 0 && !code)
            code = err_errno(err, SNUG_ERR_IO, name, "delete", errno);
        if (!code)
            code = io_fsync_dir(io, dir->path, err);
    }
    arena_free(&a);
    return code;
}

static int clean(const struct ckpt_dir *dir, struct snug_err *err)
{
    const struct io *io = dir->io;
    struct arena a = {0};
    const char *const *names;
    const char *first = NULL, *kept = NULL;
    size_t n, removed = 0;
    int code = io_list(io, dir->path, &a, &names, &n, err);
    for (size_t i = 0; !code && i < n; i++) {
        if (!ckpt_is_leftover(names[i]))
            continue;
        char *path = arena_printf(&a, "%s/%s", dir->path, names[i]);
        struct stat st;
        if (!path)
            code = err_no_memory(err, strlen(dir->path));
        else if (io->lstat(io, path, &st) == 0 &&
                 (S_ISDIR(st.st_mode) ? ckpt_remove_folder(io, path) : io->unlink(io, path) == 0))
            first = removed++ ? first : names[i];
        else
            kept = names[i];
    }
    if (removed)
        ckpt_note(dir->notes, "%s: removed %zu unfinished %s of an earlier run: %s%s", dir->path, removed,
                  removed == 1 ? "item" : "items", first, removed == 1 ? "" : ", ...");
    if (kept)
        ckpt_note(dir->notes, "%s: %s of an earlier run cannot be removed or holds other files; it is not used",
                  dir->path, kept);
    arena_free(&a);
    return code;
}

/* ---- The calls. */

int ckpt_dir_open(const struct io *io, const char *path, enum ckpt_use use, const char *model_dir,
                  const char *const *data_paths, size_t n_data, struct ckpt_notes notes, struct ckpt_dir *dir,
                  struct snug_err *err)
{
    *dir = (struct ckpt_dir){.io = io, .base = io, .notes = notes, .lock_fd = -1, .path = mem_strdup(path)};
    bool exists;
    int code = dir->path ? SNUG_OK : err_no_memory(err, strlen(path));
    if (!code)
        code = check_place(io, path, model_dir, data_paths, n_data, &exists, err);
    if (!code && !exists)
        code = make_folders(dir, err);
    if (!code)
        code = ckpt_folder_hold(io, path, &dir->folder, err);
    if (!code) {
        dir->io = ckpt_folder_io(dir->folder);
        code = ckpt_lock(dir, err);
    }
    if (!code)
        code = ckpt_folder_check(dir->folder, err);
    if (!code && use == CKPT_FRESH)
        code = ckpt_dir_unused(dir, err);
    if (!code) {
        ckpt_is_one_host(dir->io, path, notes, true);
        code = probe(dir, err);
    }
    if (!code)
        code = clean(dir, err);
    if (code == SNUG_ERR_IO)
        ckpt_folder_check(dir->folder, err); /* where the folder has gone, that is what to say */
    if (code)
        ckpt_dir_close(dir);
    return code;
}

static bool is_complete(const struct ckpt_dir *dir, const struct ckpt_step *step, const char *path)
{
    struct ckpt_manifest m = {0};
    bool yes = !step->symlink && !ckpt_verify(dir->io, path, true, &m, NULL);
    ckpt_manifest_free(&m);
    return yes;
}

/* Steps in the folder that look complete. */
static int count_complete(const struct ckpt_dir *dir, int64_t *count, struct snug_err *err)
{
    struct arena a = {0};
    struct ckpt_step *steps;
    size_t n;
    *count = 0;
    int code = ckpt_list(dir->io, dir->path, &a, &steps, &n, err);
    for (size_t i = 0; !code && i < n; i++) {
        char *path = arena_printf(&a, "%s/%s", dir->path, steps[i].name);
        *count += path && is_complete(dir, &steps[i], path);
    }
    arena_free(&a);
    return code;
}

int ckpt_dir_need_bytes(const struct ckpt_dir *dir, int64_t bytes, int64_t kept, int64_t model_bytes,
                        struct snug_err *err)
{
    struct statfs fs;
    int64_t have, need, unit;
    TRY(count_complete(dir, &have, err));
    if (dir->io->statfs(dir->io, dir->path, &fs) < 0)
        return err_errno(err, SNUG_ERR_IO, dir->path, "ask for the free space", errno);
    int64_t more = kept < 0 ? 0 : kept + 1 - (have < kept ? have : kept), room;
    unit = fs.f_frsize ? fs.f_frsize : fs.f_bsize;
    if (__builtin_mul_overflow((int64_t)fs.f_bavail, unit, &room))
        room = INT64_MAX;
    if (__builtin_mul_overflow(bytes, more, &need) || __builtin_add_overflow(need, model_bytes, &need))
        need = INT64_MAX;
    if (need <= room)
        return SNUG_OK;
    char needed[SIZE_TEXT_MAX], there[SIZE_TEXT_MAX], each[SIZE_TEXT_MAX];
    size_text(need, needed);
    size_text(room, there);
    if (!more)
        return err_set(err, SNUG_ERR_IO, "%s: the model in the end needs %s, and %s are free; free some", dir->path,
                       needed, there);
    return err_set(err, SNUG_ERR_IO,
                   "%s: %lld checkpoints of %s and the model in the end need %s, and %s are free; free some, or keep "
                   "fewer (--save-total-limit)",
                   dir->path, (long long)more, size_text(bytes, each), needed, there);
}

int ckpt_dir_clear(const struct ckpt_dir *dir, struct snug_err *err)
{
    struct arena a = {0};
    struct ckpt_step *steps;
    size_t n;
    int code = ckpt_list(dir->io, dir->path, &a, &steps, &n, err);
    for (size_t i = 0; !code && i < n; i++) {
        char *path = arena_printf(&a, "%s/%s", dir->path, steps[i].name), *to;
        if (!path)
            code = err_no_memory(err, strlen(dir->path));
        else if (is_complete(dir, &steps[i], path))
            code = ckpt_delete(dir->io, dir->path, steps[i].name, err);
        else if (!(code = ckpt_move_aside(dir->io, dir->path, steps[i].name, &a, &to, err)))
            ckpt_note(dir->notes, "%s: not a whole checkpoint; moved to %s", path, to);
    }
    char *latest = arena_printf(&a, "%s/latest", dir->path);
    if (!code && latest && ckpt_is_latest(dir->io, latest))
        dir->io->unlink(dir->io, latest); /* where that fails it points nowhere, which nothing depends on */
    arena_free(&a);
    return code;
}

void ckpt_dir_close(struct ckpt_dir *dir)
{
    const struct io *io = dir->io;
    struct arena a = {0};
    char *lock = dir->path ? arena_printf(&a, "%s/.lock", dir->path) : NULL;
    if (dir->locked) {
        /* Removed while it is held: who has it open already finds another file there, or none, and tries again. */
        if (lock)
            io->unlink(io, lock);
        io->close(io, dir->lock_fd);
    }
    unmake_folders(dir);
    ckpt_folder_drop(dir->folder);
    mem_free(dir->path);
    arena_free(&a);
    *dir = (struct ckpt_dir){.lock_fd = -1};
}
