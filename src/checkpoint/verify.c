/* Is a step folder what its manifest says? The cheap questions come first; a content that differs is looked at again,
 * tensor by tensor, so that the message can name what was hit. */
#include "checkpoint/internal.h"

#include <errno.h>
#include <string.h>

static int bad(struct snug_err *err, const char *file, const char *tensor, const char *reason)
{
    return err_set(err, SNUG_ERR_CHECKPOINT, "%s: %s%s%s", file, tensor ? tensor : "", tensor ? ": " : "", reason);
}

/* Every listed file is there, regular and of its size, and nothing else is. */
static int verify_names(const struct io *io, const char *step_dir, struct ckpt_manifest *m, struct snug_err *err)
{
    const char *const *names;
    size_t n;
    TRY(io_list(io, step_dir, &m->arena, &names, &n, err));
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], CKPT_MANIFEST) != 0 && !ckpt_manifest_file(m, names[i]))
            return bad(err, names[i], NULL, "not in the manifest");
    for (size_t i = 0; i < m->n_files; i++) {
        const struct ckpt_file *f = &m->files[i];
        char *path = arena_printf(&m->arena, "%s/%s", step_dir, f->name);
        if (!path)
            return err_no_memory(err, strlen(step_dir));
        struct stat st;
        if (io->lstat(io, path, &st) < 0)
            return errno == ENOENT ? bad(err, f->name, NULL, "missing")
                                   : err_errno(err, SNUG_ERR_IO, path, "stat", errno);
        if (!S_ISREG(st.st_mode))
            return bad(err, f->name, NULL, "not a regular file");
        if (st.st_size != f->bytes)
            return err_set(err, SNUG_ERR_CHECKPOINT, "%s: has %lld bytes, the manifest says %lld", f->name,
                           (long long)st.st_size, (long long)f->bytes);
    }
    return SNUG_OK;
}

/* Hash of bytes [at, at + bytes) of an open file, in pieces. */
static int hash_range(const struct io *io, int fd, const char *path, int64_t at, int64_t bytes, void *piece,
                      char hex[33], struct snug_err *err)
{
    struct hash_state *h = hash_new();
    int code = h ? SNUG_OK : err_no_memory(err, 1024);
    for (int64_t end = at + bytes; !code && at < end;) {
        int64_t n = end - at < CKPT_PIECE_BYTES ? end - at : CKPT_PIECE_BYTES;
        code = io_read_at(io, fd, path, piece, (size_t)n, at, err);
        if (!code)
            hash_add(h, piece, (size_t)n);
        at += n;
    }
    if (h)
        hash_hex(hash_end(h), hex);
    return code;
}

/* A tensor file whose hash differs: which tensor? */
static int blame_tensor(const struct io *io, const char *path, const char *name, const struct ckpt_manifest *m,
                        void *piece, struct snug_err *err)
{
    struct st_file f;
    char hex[33];
    int code = st_open(io, path, &f, err);
    if (code)
        return code == SNUG_ERR_INPUT ? bad(err, name, "header", "hash differs") : code;
    for (size_t i = 0; !code && i < f.n_tensors; i++) {
        const struct st_tensor *t = &f.tensors[i];
        const struct ckpt_entry *e = ckpt_manifest_tensor(m, t->name);
        if (!e || strcmp(e->file, name) != 0)
            code = bad(err, name, "header", "hash differs");
        else if (!(code = hash_range(io, f.fd, path, t->at, t->bytes, piece, hex, err)) && strcmp(hex, e->hash) != 0)
            code = bad(err, name, t->name, "hash differs");
    }
    st_close(&f);
    return code ? code : bad(err, name, "header", "hash differs");
}

static bool holds_tensors(const struct ckpt_manifest *m, const char *file)
{
    for (size_t i = 0; i < m->n_tensors; i++)
        if (!strcmp(m->tensors[i].file, file))
            return true;
    return false;
}

static int verify_content(const struct io *io, const char *path, const struct ckpt_file *f,
                          const struct ckpt_manifest *m, void *piece, struct snug_err *err)
{
    int fd;
    int64_t size;
    char hex[33];
    TRY(io_open_read(io, path, &fd, &size, err));
    int code = size == f->bytes ? SNUG_OK : bad(err, f->name, NULL, "changed while it was read");
    if (!code)
        code = hash_range(io, fd, path, 0, f->bytes, piece, hex, err);
    io->close(io, fd);
    if (code || !strcmp(hex, f->hash))
        return code;
    return holds_tensors(m, f->name) ? blame_tensor(io, path, f->name, m, piece, err)
                                     : bad(err, f->name, NULL, "hash differs");
}

int ckpt_verify(const struct io *io, const char *step_dir, bool quick, struct ckpt_manifest *m, struct snug_err *err)
{
    TRY(ckpt_manifest_read(io, step_dir, m, err));
    TRY(verify_names(io, step_dir, m, err));
    if (quick)
        return SNUG_OK;
    int64_t largest = 1; /* of no file more than a piece is held at a time */
    for (size_t i = 0; i < m->n_files; i++)
        largest = m->files[i].bytes > largest ? m->files[i].bytes : largest;
    size_t piece_bytes = (size_t)(largest < CKPT_PIECE_BYTES ? largest : CKPT_PIECE_BYTES);
    void *piece = mem_realloc(NULL, piece_bytes);
    if (!piece)
        return err_no_memory(err, piece_bytes);
    int code = SNUG_OK;
    for (size_t i = 0; !code && i < m->n_files; i++) {
        char *path = arena_printf(&m->arena, "%s/%s", step_dir, m->files[i].name);
        code = path ? verify_content(io, path, &m->files[i], m, piece, err) : err_no_memory(err, strlen(step_dir));
    }
    mem_free(piece);
    return code;
}
