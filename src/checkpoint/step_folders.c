/* The folders inside an output folder: listing, deleting, moving aside, and what stands in the way of a run. Nothing
 * that snug did not write is ever deleted: files go by their exact names, folders only when they are empty then. */
#include "checkpoint/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_ours(const char *name)
{
    if (!strcmp(name, CKPT_MANIFEST) || !strcmp(name, CKPT_STATE))
        return true;
    size_t n = strlen(name);
    return n > 17 && !strncmp(name, "rank-", 5) && !strcmp(name + n - 12, ".safetensors") &&
           strspn(name + 5, "0123456789") == n - 17;
}

bool ckpt_remove_folder(const struct io *io, const char *path)
{
    struct arena a = {0};
    const char *const *names;
    size_t n;
    bool ok = io_list(io, path, &a, &names, &n, NULL) == SNUG_OK;
    for (size_t i = 0; ok && i < n; i++) {
        char *file = arena_printf(&a, "%s/%s", path, names[i]);
        ok = file && is_ours(names[i]) && io->unlink(io, file) == 0;
    }
    ok = ok && io->rmdir(io, path) == 0;
    arena_free(&a);
    return ok;
}

/* Renames OUT/name to OUT/<prefix>name.<uuid>, in such a way that a crash cannot undo it later. */
static int rename_away(const struct io *io, const char *output_dir, const char *name, const char *prefix,
                       struct arena *a, char **to, struct snug_err *err)
{
    char *from = arena_printf(a, "%s/%s", output_dir, name);
    char *stem = arena_printf(a, "%s/%s%s", output_dir, prefix, name);
    *to = stem ? ckpt_unique_name(a, stem) : NULL;
    if (!from || !*to)
        return err_no_memory(err, strlen(output_dir));
    if (io->rename_new(io, from, *to) < 0)
        return err_errno(err, SNUG_ERR_IO, from, "rename", errno);
    return io_fsync_dir(io, output_dir, err);
}

int ckpt_move_aside(const struct io *io, const char *output_dir, const char *name, struct arena *a, char **to,
                    struct snug_err *err)
{
    return rename_away(io, output_dir, name, ".bad-", a, to, err);
}

int ckpt_delete(const struct io *io, const char *output_dir, const char *name, struct snug_err *err)
{
    struct arena a = {0};
    char *trash;
    int code = rename_away(io, output_dir, name, ".trash-", &a, &trash, err);
    if (!code && !ckpt_remove_folder(io, trash))
        code = err_set(err, SNUG_ERR_IO, "%s: cannot be deleted whole; delete it by hand", trash);
    arena_free(&a);
    return code;
}

bool ckpt_is_latest(const struct io *io, const char *path)
{
    char target[64];
    int64_t step;
    ssize_t n = io->readlink(io, path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = 0;
    return ckpt_parse_step(target, &step);
}

static int highest_first(const void *a, const void *b)
{
    const struct ckpt_step *x = a, *y = b;
    return x->step != y->step ? (x->step < y->step) - (x->step > y->step) : strcmp(x->name, y->name);
}

int ckpt_list(const struct io *io, const char *output_dir, struct arena *a, struct ckpt_step **steps, size_t *n,
              struct snug_err *err)
{
    const char *const *names;
    size_t n_names;
    *n = 0;
    TRY(io_list(io, output_dir, a, &names, &n_names, err));
    *steps = arena_alloc(a, n_names * sizeof **steps);
    if (!*steps)
        return err_no_memory(err, n_names * sizeof **steps);
    for (size_t i = 0; i < n_names; i++) {
        struct ckpt_step s = {.name = names[i]};
        struct stat st;
        if (!ckpt_parse_step(names[i], &s.step))
            continue;
        char *path = arena_printf(a, "%s/%s", output_dir, names[i]);
        if (!path)
            return err_no_memory(err, strlen(output_dir));
        if (io->lstat(io, path, &st) < 0) {
            if (errno == ENOENT)
                continue;
            return err_errno(err, SNUG_ERR_IO, path, "stat", errno);
        }
        s.symlink = S_ISLNK(st.st_mode);
        if (S_ISDIR(st.st_mode) || s.symlink)
            (*steps)[(*n)++] = s;
    }
    qsort(*steps, *n, sizeof **steps, highest_first);
    return SNUG_OK;
}
