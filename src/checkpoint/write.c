/* One save, from memory to a folder that counts:
 *
 *     mkdir .tmp-step-N.<uuid>; every file: write, fsync, close; MANIFEST.json last; fsync the folder;
 *     rename to step-N, never over anything; fsync the output folder; only then "complete"; then retention.
 *
 * A crash before the rename leaves a .tmp- folder that nobody reads; after it, a folder whose every byte is on the
 * disk. A failed fsync is final: the kernel may have dropped the pages and call the next fsync a success, so everything
 * is written once more, to new files. */
#include "base/failpoint.h"
#include "base/seconds.h"
#include "base/size.h"
#include "checkpoint/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* What one attempt works with. */
struct job {
    const struct ckpt_config *config;
    const struct io *io;
    const struct ckpt_image *image;
    struct ckpt_manifest manifest; /* the strings are in arena `a` */
    struct str manifest_text;
    const char *name, *final; /* "step-00001200", OUT/step-00001200 */
    struct arena *a;
};

static char *hex_of(struct arena *a, struct hash128 h)
{
    char hex[33];
    hash_hex(h, hex);
    return arena_strdup(a, hex);
}

/* Hashes of the tensors, and of all state. */
static int hash_image(struct job *j, struct snug_err *err)
{
    const struct ckpt_image *im = j->image;
    struct hash128 *hashes = arena_alloc(j->a, im->n * sizeof *hashes);
    struct ckpt_entry *entries = arena_alloc(j->a, im->n * sizeof *entries);
    struct hash_state *h = hashes && entries ? hash_new() : NULL;
    bool ok = h != NULL;
    for (size_t i = 0; ok && i < im->n; i++) {
        hashes[i] = hash_bytes(im->tensors[i].data, (size_t)ckpt_tensor_bytes(&im->tensors[i]));
        entries[i] = (struct ckpt_entry){im->tensors[i].name, CKPT_TENSORS, hex_of(j->a, hashes[i])};
        ok = entries[i].hash != NULL;
    }
    if (h) {
        struct hash128 all = ckpt_combine(im->tensors, hashes, ok ? im->n : 0, im->canonical.s, im->canonical.n, h);
        j->manifest.state_hash = hex_of(j->a, all);
    }
    j->manifest.tensors = entries;
    j->manifest.n_tensors = im->n;
    return ok && j->manifest.state_hash ? SNUG_OK : err_no_memory(err, im->n * 128);
}

/* ---- The files. */

static int stopped(const struct job *j, struct snug_err *err)
{
    if (!stop_at_once(j->config->stop))
        return SNUG_OK;
    return err_set(err, SNUG_STOPPED, "%s: the save was abandoned at a second signal; older checkpoints stand",
                   j->final);
}

/* A new file with these bytes, on the disk when this returns. */
static int write_new(const struct job *j, const char *path, const struct str *text, struct snug_err *err)
{
    const struct io *io = j->io;
    int fd = io->open(io, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_errno(err, SNUG_ERR_IO, path, "create", errno);
    int code = io_write_at(io, fd, path, text->s, text->n, 0, err);
    if (!code && io->fsync(io, fd) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "fsync", errno);
    if (io->close(io, fd) < 0 && !code)
        code = err_errno(err, SNUG_ERR_IO, path, "close", errno);
    return code;
}

static const struct ckpt_tensor *find_tensor(const struct ckpt_image *im, const char *name)
{
    size_t low = 0, high = im->n;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (strcmp(im->tensors[mid].name, name) <= 0)
            low = mid;
        else
            high = mid;
    }
    return &im->tensors[low];
}

static int write_tensors(const struct job *j, struct st_writer *w, const struct st_tensor *st, struct snug_err *err)
{
    for (size_t i = 0; i < j->image->n; i++) {
        const char *data = find_tensor(j->image, st[i].name)->data;
        for (int64_t at = 0; at < st[i].bytes; at += CKPT_PIECE_BYTES) {
            int64_t n = st[i].bytes - at < CKPT_PIECE_BYTES ? st[i].bytes - at : CKPT_PIECE_BYTES;
            TRY(stopped(j, err));
            TRY(st_write(w, &st[i], at, data + at, (size_t)n, err));
        }
    }
    return SNUG_OK;
}

static int write_tensor_file(struct job *j, const char *path, struct ckpt_file *file, struct snug_err *err)
{
    const struct ckpt_image *im = j->image;
    struct st_tensor *st = arena_alloc(j->a, im->n * sizeof *st);
    if (!st)
        return err_no_memory(err, im->n * sizeof *st);
    for (size_t i = 0; i < im->n; i++) {
        st[i] =
            (struct st_tensor){.name = im->tensors[i].name, .dtype = im->tensors[i].dtype, .ndim = im->tensors[i].ndim};
        memcpy(st[i].shape, im->tensors[i].shape, sizeof st[i].shape);
    }
    struct st_writer w;
    struct hash128 h;
    TRY(st_create(j->io, path, st, im->n, NULL, 0, true, &w, err));
    int64_t file_bytes = w.file_bytes;
    int code = write_tensors(j, &w, st, err);
    if (!code)
        code = st_finish(&w, &h, err);
    if (code) {
        st_abandon(&w);
        return code;
    }
    *file = (struct ckpt_file){CKPT_TENSORS, hex_of(j->a, h), file_bytes};
    return file->hash ? SNUG_OK : err_no_memory(err, 33);
}

static int write_files(struct job *j, const char *tmp, struct snug_err *err)
{
    char *tensors = arena_printf(j->a, "%s/" CKPT_TENSORS, tmp), *state = arena_printf(j->a, "%s/" CKPT_STATE, tmp);
    char *manifest = arena_printf(j->a, "%s/" CKPT_MANIFEST, tmp);
    struct ckpt_file *files = arena_alloc(j->a, 2 * sizeof *files);
    if (!tensors || !state || !manifest || !files)
        return err_no_memory(err, strlen(tmp));
    TRY(write_tensor_file(j, tensors, &files[0], err));
    TRY(FP("ckpt.after_tensors", err));
    TRY(write_new(j, state, &j->image->state, err));
    files[1] = (struct ckpt_file){CKPT_STATE, hex_of(j->a, hash_bytes(j->image->state.s, j->image->state.n)),
                                  (int64_t)j->image->state.n};
    if (!files[1].hash)
        return err_no_memory(err, 33);
    j->manifest.files = files;
    j->manifest.n_files = 2;
    str_free(&j->manifest_text);
    TRY(ckpt_manifest_write(&j->manifest, &j->manifest_text, err));
    TRY(write_new(j, manifest, &j->manifest_text, err));
    TRY(FP("ckpt.after_manifest", err));
    j->manifest.bytes = files[0].bytes + files[1].bytes + (int64_t)j->manifest_text.n;
    return io_fsync_dir(j->io, tmp, err);
}

static int drop_and_verify(const struct job *j, const char *tmp, struct snug_err *err)
{
    for (size_t i = 0; i < j->manifest.n_files; i++) {
        char *path = arena_printf(j->a, "%s/%s", tmp, j->manifest.files[i].name);
        if (!path)
            return err_no_memory(err, strlen(tmp));
        int fd;
        int64_t size;
        TRY(io_open_read(j->io, path, &fd, &size, err));
        j->io->drop_cache(j->io, fd); /* a hint; where it is not taken the comparison still holds for memory */
        j->io->close(j->io, fd);
    }
    struct ckpt_manifest m = {0};
    struct snug_err why = {0};
    int code = ckpt_verify(j->io, tmp, false, &m, &why);
    ckpt_manifest_free(&m);
    return code ? err_set(err, SNUG_ERR_IO, "%s: read back: %s", tmp, why.text) : SNUG_OK;
}

/* ---- The folder. */

/* What stands under the final name? Ours: a folder that verifies and has the same state. */
static bool already_saved(const struct job *j)
{
    struct ckpt_manifest m = {0};
    struct stat st;
    bool same = j->io->lstat(j->io, j->final, &st) == 0 && S_ISDIR(st.st_mode) &&
                ckpt_verify(j->io, j->final, false, &m, NULL) == SNUG_OK && m.step == j->manifest.step &&
                !strcmp(m.state_hash, j->manifest.state_hash);
    ckpt_manifest_free(&m);
    return same;
}

/* What was written beside the checkpoint, such as the log that it records the length of, is on the disk before it. A
 * checkpoint is not lost over that: where it fails, a note says so. */
static void sync_beside(const struct job *j)
{
    const struct io *io = j->io;
    if (!j->config->synced_file)
        return;
    char *path = arena_printf(j->a, "%s/%s", j->config->output_dir, j->config->synced_file);
    int fd = path ? io->open(io, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0) : -1;
    if (fd >= 0 ? io->fsync(io, fd) < 0 : errno != ENOENT)
        ckpt_note(j->config->notes, "%s/%s: cannot fsync: %s; its last lines may be lost when the power fails",
                  j->config->output_dir, j->config->synced_file, strerror(errno));
    if (fd >= 0)
        io->close(io, fd);
}

static int publish(const struct job *j, const char *tmp, struct snug_err *err)
{
    const struct io *io = j->io;
    const char *out = j->config->output_dir;
    char *aside;
    sync_beside(j);
    TRY(stopped(j, err));
    TRY(ckpt_folder_check(j->config->folder, err));
    if (io->rename_new(io, tmp, j->final) < 0) {
        int errnum = errno;
        if (errnum == EEXIST || errnum == ENOTEMPTY) {
            TRY(ckpt_move_aside(io, out, j->name, j->a, &aside, err));
            ckpt_note(j->config->notes, "%s: was there, damaged or with another state; moved to %s", j->final, aside);
            TRY(stopped(j, err));
            if (io->rename_new(io, tmp, j->final) < 0)
                return err_errno(err, SNUG_ERR_IO, tmp, "rename into place", errno);
        } else if (io_exists(io, tmp) || !already_saved(j)) {
            /* A network file system may have done it and lost the answer; then the folder has moved. */
            return err_errno(err, SNUG_ERR_IO, tmp, "rename into place", errnum);
        }
    }
    int code = FP("ckpt.after_rename", err);
    if (!code)
        code = io_fsync_dir(io, out, err);
    if (code && !stop_at_once(j->config->stop)) /* else the folder may be another run's by now */
        io->rename_new(io, j->final, tmp);      /* not known to survive: it must not be there under its name */
    return code;
}

static int attempt(struct job *j, struct snug_err *err)
{
    const char *stem = arena_printf(j->a, "%s/.tmp-%s", j->config->output_dir, j->name);
    char *tmp = stem ? ckpt_unique_name(j->a, stem) : NULL;
    if (!tmp)
        return err_no_memory(err, strlen(j->config->output_dir));
    if (j->io->mkdir(j->io, tmp, 0777) < 0)
        return err_errno(err, SNUG_ERR_IO, tmp, "create the folder", errno);
    int code = write_files(j, tmp, err);
    if (!code && j->config->read_back)
        code = drop_and_verify(j, tmp, err);
    if (!code)
        code = publish(j, tmp, err);
    if (code)
        ckpt_remove_folder(j->io, tmp);
    return code;
}

/* `latest` for people: replaced by rename, and only when it is our symlink. Nothing depends on it. */
static void point_latest(const struct job *j)
{
    const struct io *io = j->io;
    const char *out = j->config->output_dir;
    char *link = arena_printf(j->a, "%s/latest", out), *stem = arena_printf(j->a, "%s/.tmp-latest", out);
    char *tmp = stem ? ckpt_unique_name(j->a, stem) : NULL;
    struct stat st;
    if (!link || !tmp || (io->lstat(io, link, &st) == 0 && !ckpt_is_latest(io, link)) || stop_at_once(j->config->stop))
        return;
    if (io->symlink(io, j->name, tmp) == 0 && io->rename(io, tmp, link) < 0)
        io->unlink(io, tmp);
}

static int write_twice(struct job *j, struct snug_err *err)
{
    double start = seconds_now();
    TRY(ckpt_folder_check(j->config->folder, err));
    if (already_saved(j)) {
        TRY(io_fsync_dir(j->io, j->config->output_dir, err));
        ckpt_note(j->config->notes, "checkpoint of step %lld complete: %s was already there with state hash %s",
                  (long long)j->manifest.step, j->final, j->manifest.state_hash);
        return SNUG_OK;
    }
    struct snug_err first = {0};
    int code = attempt(j, &first);
    if (code == SNUG_ERR_IO)
        TRY(ckpt_folder_check(j->config->folder, err));
    if (code == SNUG_ERR_IO) {
        ckpt_note(j->config->notes, "%s; writing the checkpoint once more", first.text);
        code = attempt(j, err);
    } else if (code && err) {
        *err = first;
    }
    char size[SIZE_TEXT_MAX];
    if (!code)
        ckpt_note(j->config->notes, "checkpoint of step %lld complete: %s, %s, state hash %s, %.1f s",
                  (long long)j->manifest.step, j->final, size_text(j->manifest.bytes, size), j->manifest.state_hash,
                  seconds_now() - start);
    return code;
}

int ckpt_write(const struct ckpt_config *config, const struct ckpt_image *image, struct snug_err *err)
{
    struct arena a = {0};
    struct job j = {.config = config, .io = config->io, .image = image, .a = &a};
    j.manifest.step = image->step;
    j.manifest.world_size = 1;
    j.name = arena_printf(&a, "step-%08lld", (long long)image->step);
    j.final = arena_printf(&a, "%s/%s", config->output_dir, j.name ? j.name : "");
    int code = j.name && j.final ? hash_image(&j, err) : err_no_memory(err, strlen(config->output_dir));
    if (!code)
        code = write_twice(&j, err);
    if (!code) {
        point_latest(&j);
        ckpt_retain(config, image->step, image->best_step);
    }
    str_free(&j.manifest_text);
    arena_free(&a);
    return code;
}

/* Keeps the newest total_limit that verify, never fewer than two, and the best. A later step than this one belongs to
 * a run that was gone back on: it is not counted and not touched. */
void ckpt_retain(const struct ckpt_config *config, int64_t step, int64_t best_step)
{
    struct arena a = {0};
    struct ckpt_step *steps;
    size_t n = 0;
    int64_t limit = config->total_limit < 2 ? 2 : config->total_limit, good = 0;
    struct snug_err err = {0};
    int code = SNUG_OK;
    if (config->total_limit && !(code = ckpt_folder_check(config->folder, &err)))
        code = ckpt_list(config->io, config->output_dir, &a, &steps, &n, &err);
    for (size_t i = 0; !code && i < n; i++) {
        struct ckpt_manifest m = {0};
        char *path = arena_printf(&a, "%s/%s", config->output_dir, steps[i].name);
        if (steps[i].symlink || steps[i].step > step || !path)
            continue;
        bool whole = ckpt_verify(config->io, path, true, &m, NULL) == SNUG_OK && m.step == steps[i].step;
        ckpt_manifest_free(&m);
        if (!whole || stop_at_once(config->stop) || ++good <= limit || steps[i].step == best_step)
            continue;
        code = ckpt_folder_check(config->folder, &err);
        if (!code)
            code = ckpt_delete(config->io, config->output_dir, steps[i].name, &err);
        if (!code)
            ckpt_note(config->notes, "%s: deleted, the newest %lld are kept", path, (long long)limit);
    }
    if (code)
        ckpt_note(config->notes, "%s", err.text);
    arena_free(&a);
}
