#include "hub/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

enum { LONGEST = 32 << 10, DEEPEST = 16 }; /* bytes of a path's memory, for messages; folders in a snapshot */

static int no_memory(struct snug_err *err)
{
    return err_no_memory(err, LONGEST);
}

int cache_open(struct hub_cache *c, const struct io *io, struct arena *arena, const char *cache,
               const struct hub_wish *w, struct snug_err *err)
{
    const char *slash = strchr(w->name.repository, '/'), *kind = hub_wants_rows(w) ? "datasets" : "models";
    const char *name = slash ? slash + 1 : w->name.repository, *mark = slash ? "--" : "";
    int owner = (int)(slash ? slash - w->name.repository : 0);
    *c = (struct hub_cache){.io = io, .arena = arena};
    c->folder = arena_printf(arena, "%s/%s--%.*s%s%s", cache, kind, owner, w->name.repository, mark, name);
    c->locks = arena_printf(arena, "%s/.locks/%s--%.*s%s%s", cache, kind, owner, w->name.repository, mark, name);
    return c->folder && c->locks ? SNUG_OK : no_memory(err);
}

bool is_commit(const char *text)
{
    return strlen(text) == COMMIT_MAX - 1 && strspn(text, "0123456789abcdef") == COMMIT_MAX - 1;
}

void cache_commit(const struct hub_cache *c, const char *revision, char commit[COMMIT_MAX])
{
    const char *path = arena_printf(c->arena, "%s/refs/%s", c->folder, revision);
    char *text = NULL;
    size_t n;
    commit[0] = 0;
    if (is_commit(revision)) {
        strcpy(commit, revision);
    } else if (path && io_exists(c->io, path) && !io_read_file(c->io, path, 4096, &text, &n, NULL)) {
        text[strcspn(text, " \r\n")] = 0;
        if (is_commit(text))
            strcpy(commit, text);
    }
    mem_free(text);
}

/* Makes the folders above a path. */
static int make_place(const struct hub_cache *c, const char *path, struct snug_err *err)
{
    char *place = path ? arena_strdup(c->arena, path) : NULL;
    if (!place)
        return no_memory(err);
    *strrchr(place, '/') = 0;
    return io_make_dirs(c->io, place, err);
}

int cache_set_commit(const struct hub_cache *c, const char *revision, const char *commit, struct snug_err *err)
{
    char was[COMMIT_MAX];
    cache_commit(c, revision, was);
    if (!strcmp(was, commit))
        return SNUG_OK;
    const char *path = arena_printf(c->arena, "%s/refs/%s", c->folder, revision);
    TRY(make_place(c, path, err));
    return io_write_file(c->io, path, commit, strlen(commit), err);
}

const char *cache_snapshot(const struct hub_cache *c, const char *commit, const char *file)
{
    return arena_printf(c->arena, "%s/snapshots/%s%s%s", c->folder, commit, file ? "/" : "", file ? file : "");
}

const char *cache_blob(const struct hub_cache *c, const char *etag, bool incomplete)
{
    return arena_printf(c->arena, "%s/blobs/%s%s", c->folder, etag, incomplete ? ".incomplete" : "");
}

bool cache_has(const struct hub_cache *c, const char *commit, const char *file)
{
    struct stat st;
    const char *path = cache_snapshot(c, commit, file);
    return path && !c->io->stat(c->io, path, &st) && S_ISREG(st.st_mode);
}

/* Of a snapshot's folder; `below` is a path in it with a slash at its end, or "". */
static int list(const struct hub_cache *c, const char *top, const char *below, int depth, struct file_names *all,
                struct snug_err *err)
{
    const char *const *names;
    size_t n;
    const char *path = arena_printf(c->arena, "%s/%s", top, below);
    if (!path)
        return no_memory(err);
    TRY(io_list(c->io, path, c->arena, &names, &n, err));
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        const char *name = arena_printf(c->arena, "%s%s", below, names[i]);
        const char *whole = name ? arena_printf(c->arena, "%s/%s", top, name) : NULL;
        const char *folder = name ? arena_printf(c->arena, "%s/", name) : NULL;
        if (!whole || !folder)
            return no_memory(err);
        if (c->io->stat(c->io, whole, &st))
            continue; /* a link that leads nowhere */
        if (S_ISREG(st.st_mode))
            TRY(file_names_add(all, name, err));
        else if (S_ISDIR(st.st_mode) && depth < DEEPEST)
            TRY(list(c, top, folder, depth + 1, all, err));
    }
    return SNUG_OK;
}

int cache_list(const struct hub_cache *c, const char *commit, struct file_names *all, struct snug_err *err)
{
    const char *top = cache_snapshot(c, commit, NULL);
    if (!top)
        return no_memory(err);
    return io_exists(c->io, top) ? list(c, top, "", 0, all, err) : SNUG_OK;
}

int cache_link(const struct hub_cache *c, const char *commit, const char *file, const char *etag, struct snug_err *err)
{
    const char *path = cache_snapshot(c, commit, file), *up = "../..";
    TRY(make_place(c, path, err));
    for (const char *at = file; up && (at = strchr(at, '/')); at++)
        up = arena_printf(c->arena, "../%s", up);
    const char *target = up ? arena_printf(c->arena, "%s/blobs/%s", up, etag) : NULL;
    if (!target)
        return no_memory(err);
    if (!c->io->symlink(c->io, target, path))
        return SNUG_OK;
    if (errno == EEXIST && cache_has(c, commit, file))
        return SNUG_OK; /* another process was faster */
    if (errno == EEXIST && !c->io->unlink(c->io, path) && !c->io->symlink(c->io, target, path))
        return SNUG_OK;
    return err_errno(err, SNUG_ERR_IO, path, "make the link", errno);
}

int cache_lock(const struct hub_cache *c, const char *etag, const struct hub_events *events, int *fd,
               struct snug_err *err)
{
    const char *path = arena_printf(c->arena, "%s/%s.lock", c->locks, etag);
    TRY(make_place(c, path, err));
    *fd = c->io->open(c->io, path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0)
        return err_errno(err, SNUG_ERR_IO, path, "open the lock", errno);
    for (bool said = false; c->io->flock(c->io, *fd, LOCK_EX | LOCK_NB); said = true) {
        struct timespec t = {.tv_nsec = 100000000};
        if (errno != EWOULDBLOCK && errno != EINTR)
            break; /* no locks on this file system: two downloads of one file would get in each other's way, as elsewhere */
        if (stop_asked(events->stop)) {
            c->io->close(c->io, *fd);
            return err_set(err, SNUG_STOPPED, "stopped, while another process downloads the same");
        }
        if (!said && events->note)
            events->note(events->ctx, "another process downloads the same file; waiting for it");
        nanosleep(&t, NULL);
    }
    return SNUG_OK;
}
