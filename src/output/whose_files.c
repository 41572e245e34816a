#include "output/whose_files.h"

#include "base/str.h"
#include "output/export.h"
#include "output/log.h"
#include "output/own_file.h"
#include "output/own_json.h"
#include "output/record.h"

#include <errno.h>
#include <string.h>

enum { PIECE = 1 << 16 };

/* Whether two files have the same bytes; one that cannot be read is like none. */
static bool same_bytes(const struct io *io, const char *x, const char *y)
{
    char a[PIECE], b[PIECE];
    int fx, fy;
    int64_t nx, ny;
    if (io_open_read(io, x, &fx, &nx, NULL))
        return false;
    if (io_open_read(io, y, &fy, &ny, NULL)) {
        io->close(io, fx);
        return false;
    }
    bool same = nx == ny;
    for (int64_t at = 0; same && at < nx; at += PIECE) {
        size_t n = (size_t)(nx - at < PIECE ? nx - at : PIECE);
        same = !io_read_at(io, fx, x, a, n, at, NULL) && !io_read_at(io, fy, y, b, n, at, NULL) && !memcmp(a, b, n);
    }
    io->close(io, fx);
    io->close(io, fy);
    return same;
}

static bool is_one_of(const struct whose_folder *f, const struct stat *st)
{
    struct stat other;
    for (size_t i = 0; i < f->n_never; i++)
        if (f->never[i] && f->io->stat(f->io, f->never[i], &other) == 0 && other.st_dev == st->st_dev &&
            other.st_ino == st->st_ino)
            return true;
    return false;
}

static bool is_there(const struct whose_folder *f, const char *name)
{
    struct arena a = {0};
    struct stat st;
    char *path = arena_printf(&a, "%s/%s", f->path, name);
    bool there = path && f->io->lstat(f->io, path, &st) == 0;
    arena_free(&a);
    return there;
}

static bool is_ours(const struct whose_folder *f, const struct whose_file *file, const char *path, struct arena *a)
{
    char *source = f->source ? arena_printf(a, "%s/%s", f->source, file->name) : NULL;
    switch (file->rule) {
    case FILE_LOG:
        return log_is_ours(f->io, path);
    case FILE_RESULT:
        return f->goes_on;
    case FILE_CARRIED:
        return (f->goes_on && is_there(f, "config.json")) || (source && same_bytes(f->io, path, source));
    case FILE_RECORD:
        return record_is_ours(f->io, path);
    case FILE_JSON:
        return own_json_is(f->io, path);
    case FILE_PICTURE:
        return own_file_has_mark(f->io, path, OWN_PICTURE);
    case FILE_OTHER:
        return false;
    }
    return false;
}

static int check_file(const struct whose_folder *f, const struct whose_file *file, struct arena *a,
                      struct snug_err *err)
{
    struct stat st;
    char *path = arena_printf(a, "%s/%s", f->path, file->name);
    if (!path)
        return err_no_memory(err, strlen(f->path));
    if (f->io->lstat(f->io, path, &st) < 0)
        return errno == ENOENT ? SNUG_OK : err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    bool link = S_ISLNK(st.st_mode);
    if (!S_ISREG(st.st_mode) && !link)
        return err_set(err, SNUG_ERR_USAGE, "%s: is no regular file, and this run writes one there; move it away",
                       path);
    if (link ? f->io->stat(f->io, path, &st) == 0 && is_one_of(f, &st) : is_one_of(f, &st))
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: is data of this run, which would replace it; give another --output-dir", path);
    if (link && (!f->overwrite || file->rule == FILE_LOG))
        return err_set(err, SNUG_ERR_USAGE, "%s: is a link, which nothing is written through; remove it", path);
    if (!link && !f->overwrite && !is_ours(f, file, path, a))
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: was not written by this run, %s; move it away, give another --output-dir, or "
                       "--overwrite-output-dir",
                       path, file->rule == FILE_OTHER ? "whose model would seem to have it" : "which would replace it");
    return SNUG_OK;
}

static bool is_among(const struct whose_file *files, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(files[i].name, name))
            return true;
    return false;
}

int whose_files_check(const struct whose_folder *f, const struct whose_file *files, size_t n, struct snug_err *err)
{
    struct arena a = {0};
    int code = SNUG_OK;
    for (size_t i = 0; !code && i < n; i++)
        code = check_file(f, &files[i], &a, err);
    for (size_t i = 0; !code && f->model && !f->goes_on && export_part(i); i++)
        if (!is_among(files, n, export_part(i)))
            code = check_file(f, &(struct whose_file){export_part(i), FILE_OTHER}, &a, err);
    arena_free(&a);
    return code;
}
