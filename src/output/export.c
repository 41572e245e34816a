/* The metadata of model.safetensors is {"format": "pt"} alone: transformers looks for it, and with one key the file is
 * byte for byte what the reference library writes for the same tensors. */
#include "output/export.h"

#include "base/failpoint.h"
#include "checkpoint/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The files of one export: under which name each is written, and what it becomes. */
struct files {
    const struct io *io;
    const char *dir;
    struct arena arena;
    struct {
        const char *tmp;
        char *final;
    } * list;
    size_t n;
};

/* Where a file lies, which may be in a folder of its own: FOLDER/NAME. */
static char *folder_of(struct files *fs, const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? arena_printf(&fs->arena, "%s/%.*s", fs->dir, (int)(slash - name), name)
                 : arena_strdup(&fs->arena, fs->dir);
}

static bool is_within(const char *name)
{
    return strchr(name, '/') != NULL;
}

/* A temporary name for `name`, remembered for the renames. */
static int add(struct files *fs, const char *name, const char **tmp, struct snug_err *err)
{
    char *folder = folder_of(fs, name);
    char *final = arena_printf(&fs->arena, "%s/%s", fs->dir, name);
    const char *last = is_within(name) ? strrchr(name, '/') + 1 : name;
    char *stem = folder ? arena_printf(&fs->arena, "%s/.tmp-export-%s", folder, last) : NULL;
    if (folder && is_within(name) && fs->io->mkdir(fs->io, folder, 0777) < 0 && errno != EEXIST)
        return err_errno(err, SNUG_ERR_IO, folder, "create", errno);
    *tmp = stem ? ckpt_unique_name(&fs->arena, stem) : NULL;
    if (!final || !*tmp)
        return err_no_memory(err, strlen(fs->dir));
    fs->list[fs->n].tmp = *tmp;
    fs->list[fs->n++].final = final;
    return SNUG_OK;
}

static int create(const struct io *io, const char *path, int *fd, struct snug_err *err)
{
    *fd = io->open(io, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return *fd < 0 ? err_errno(err, SNUG_ERR_IO, path, "create", errno) : SNUG_OK;
}

/* Passes `code` on, or what goes wrong in making the file durable. */
static int finish(const struct io *io, const char *path, int fd, int code, struct snug_err *err)
{
    if (!code && io->fsync(io, fd) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "fsync", errno);
    if (io->close(io, fd) < 0 && !code)
        code = err_errno(err, SNUG_ERR_IO, path, "close", errno);
    return code;
}

static int write_text(struct files *fs, const char *name, const char *text, struct snug_err *err)
{
    const char *tmp;
    int fd;
    TRY(add(fs, name, &tmp, err));
    TRY(create(fs->io, tmp, &fd, err));
    return finish(fs->io, tmp, fd, io_write_at(fs->io, fd, tmp, text, strlen(text), 0, err), err);
}

static int copy_bytes(const struct io *io, int in, int64_t bytes, const char *from, int out, const char *to,
                      void *piece, struct snug_err *err)
{
    for (int64_t at = 0; at < bytes;) {
        int64_t n = bytes - at < CKPT_PIECE_BYTES ? bytes - at : CKPT_PIECE_BYTES;
        TRY(io_read_at(io, in, from, piece, (size_t)n, at, err));
        TRY(io_write_at(io, out, to, piece, (size_t)n, at, err));
        at += n;
    }
    return SNUG_OK;
}

static int copy_file(struct files *fs, const char *source_dir, const char *name, void *piece, struct snug_err *err)
{
    const struct io *io = fs->io;
    const char *tmp;
    char *from = arena_printf(&fs->arena, "%s/%s", source_dir, name);
    struct stat st;
    int in, out;
    int64_t bytes;
    if (!from)
        return err_no_memory(err, strlen(source_dir));
    if (io->stat(io, from, &st) < 0)
        return errno == ENOENT ? SNUG_OK : err_errno(err, SNUG_ERR_IO, from, "stat", errno);
    TRY(io_open_read(io, from, &in, &bytes, err));
    int code = add(fs, name, &tmp, err);
    if (!code)
        code = create(io, tmp, &out, err);
    if (!code)
        code = finish(io, tmp, out, copy_bytes(io, in, bytes, from, out, tmp, piece, err), err);
    io->close(io, in);
    return code;
}

static int write_weights(struct files *fs, struct export_model *m, void *piece, struct snug_err *err)
{
    static const char *const metadata[] = {"format", "pt"};
    struct st_writer w;
    const char *tmp;
    TRY(add(fs, m->weights_name ? m->weights_name : "model.safetensors", &tmp, err));
    TRY(st_create(fs->io, tmp, m->tensors, m->n_tensors, metadata, 1, false, &w, err));
    int code = SNUG_OK;
    for (size_t i = 0; !code && i < m->n_tensors; i++) {
        const struct st_tensor *t = &m->tensors[i];
        for (int64_t at = 0; !code && at < t->bytes; at += CKPT_PIECE_BYTES) {
            size_t n = (size_t)(t->bytes - at < CKPT_PIECE_BYTES ? t->bytes - at : CKPT_PIECE_BYTES);
            code = m->read(m->ctx, t, at, piece, n, err);
            if (!code)
                code = st_write(&w, t, at, piece, n, err);
        }
    }
    if (!code)
        code = st_finish(&w, NULL, err);
    if (code)
        st_abandon(&w);
    return code;
}

static int write_other(struct files *fs, const struct export_written *w, struct snug_err *err)
{
    const char *tmp;
    int fd;
    TRY(add(fs, w->name, &tmp, err));
    TRY(create(fs->io, tmp, &fd, err));
    return finish(fs->io, tmp, fd, w->write(w->ctx, fs->io, fd, tmp, err), err);
}

static int write_model(struct files *fs, struct export_model *m, void *piece, struct snug_err *err)
{
    for (size_t i = 0; i < m->n_written; i++)
        TRY(write_other(fs, &m->written[i], err));
    return m->n_written ? SNUG_OK : write_weights(fs, m, piece, err);
}

const char *export_part(size_t i)
{
    static const char *const others[] = {"config.json",         "model.safetensors",
                                         "adapter_config.json", "adapter_model.safetensors",
                                         "model.onnx",          "model.onnx_data"};
    size_t n = sizeof others / sizeof *others;
    return i < MODEL_DIR_CARRIED       ? model_dir_carried[i]
           : i - MODEL_DIR_CARRIED < n ? others[i - MODEL_DIR_CARRIED]
                                       : NULL;
}

/* A folder of its own that nothing is left in. */
static void drop_folder(struct files *fs, const char *name)
{
    char *folder = is_within(name) ? folder_of(fs, name) : NULL;
    if (folder)
        fs->io->rmdir(fs->io, folder); /* fails where there is something in it */
}

static int remove_others(struct files *fs, struct snug_err *err)
{
    const char *name;
    for (size_t i = 0; (name = export_part(i)); i++) {
        char *path = arena_printf(&fs->arena, "%s/%s", fs->dir, name);
        bool own = false;
        if (!path)
            return err_no_memory(err, strlen(fs->dir));
        for (size_t k = 0; k < fs->n; k++)
            own |= !strcmp(fs->list[k].final, path);
        if (!own && fs->io->unlink(fs->io, path) < 0 && errno != ENOENT && errno != ENOTDIR)
            return err_errno(err, SNUG_ERR_IO, path, "remove", errno);
        if (!own)
            drop_folder(fs, name);
    }
    return SNUG_OK;
}

/* The weights were added last, so they are renamed last. */
static int rename_all(struct files *fs, bool replaces, struct snug_err *err)
{
    for (size_t i = 0; i < fs->n; i++) {
        if (replaces && i + 1 == fs->n)
            TRY(remove_others(fs, err));
        TRY(FP("export.before_rename", err));
        if (fs->io->rename(fs->io, fs->list[i].tmp, fs->list[i].final) < 0)
            return err_errno(err, SNUG_ERR_IO, fs->list[i].final, "rename into place", errno);
        fs->list[i].tmp = NULL;
    }
    for (size_t i = 0; i < fs->n; i++) {
        char *end = strrchr(fs->list[i].final, '/');
        char *folder = arena_printf(&fs->arena, "%.*s", (int)(end - fs->list[i].final), fs->list[i].final);
        if (!folder)
            return err_no_memory(err, strlen(fs->dir));
        if (strcmp(folder, fs->dir))
            TRY(io_fsync_dir(fs->io, folder, err));
    }
    return io_fsync_dir(fs->io, fs->dir, err);
}

static bool is_text(const struct export_model *m, const char *name)
{
    for (size_t i = 0; i < EXPORT_TEXTS; i++)
        if (m->texts[i].text && !strcmp(m->texts[i].name, name))
            return true;
    return false;
}

int export_folder(const struct io *io, const char *dir, struct export_model *m, struct snug_err *err)
{
    struct files fs = {.io = io, .dir = dir};
    void *piece = mem_realloc(NULL, CKPT_PIECE_BYTES);
    fs.list = arena_alloc(&fs.arena, (m->n_files + EXPORT_TEXTS + m->n_written + 1) * sizeof *fs.list);
    int code = piece && fs.list ? SNUG_OK : err_no_memory(err, CKPT_PIECE_BYTES);
    for (size_t i = 0; !code && i < m->n_files; i++)
        if (!is_text(m, m->files[i]))
            code = copy_file(&fs, m->source_dir, m->files[i], piece, err);
    for (size_t i = 0; !code && i < EXPORT_TEXTS; i++)
        if (m->texts[i].text)
            code = write_text(&fs, m->texts[i].name, m->texts[i].text, err);
    if (!code)
        code = write_model(&fs, m, piece, err);
    if (!code)
        code = rename_all(&fs, m->replaces, err);
    for (size_t i = 0; code && i < fs.n; i++)
        if (fs.list[i].tmp)
            io->unlink(io, fs.list[i].tmp);
    for (size_t i = 0; code && i < m->n_files; i++)
        drop_folder(&fs, m->files[i]);
    mem_free(piece);
    arena_free(&fs.arena);
    return code;
}
