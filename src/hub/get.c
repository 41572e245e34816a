/* A repository, from its name to the paths of what is needed. All blobs come first, and then all links of the snapshot: a snapshot
 * with a file in it has the others that were needed, too. */
#include "hub/get.h"

#include "base/seconds.h"
#include "base/size.h"
#include "format/json.h"
#include "hub/internal.h"

#include <stdarg.h>
#include <string.h>

enum { INDEX_LIMIT = 64 << 20 }; /* bytes */

void repository_note(const struct repository *r, const char *format, ...)
{
    struct snug_err clean; /* escapes and cuts as errors are */
    char line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    err_set(&clean, SNUG_OK, "%s", line);
    if (r->events->note)
        r->events->note(r->events->ctx, clean.text);
}

/* What is missing in the snapshot, on its way into it. */
struct batch {
    struct remote *items;
    size_t n, cap;
    struct hub_progress progress;
};

static int batch_add(struct repository *r, struct batch *b, const char *name, struct snug_err *err)
{
    struct remote f;
    TRY(remote_ask(r, name, &f, err));
    if (!MEM_GROW(b->items, b->cap, b->n + 1))
        return err_no_memory(err, (b->n + 1) * sizeof *b->items);
    b->items[b->n++] = f;
    b->progress.total += f.size > 0 ? f.size : 0;
    return SNUG_OK;
}

/* The shards that an index names, each once. */
static int add_shards(struct repository *r, const char *path, const struct file_names *all, struct file_names *chosen,
                      struct snug_err *err)
{
    json_t *doc = NULL, *shard;
    const char *tensor;
    TRY(json_read_object(r->io, path, INDEX_LIMIT, &doc, err));
    int code = SNUG_OK;
    json_object_foreach(json_object_get(doc, "weight_map"), tensor, shard)
    {
        const char *name = json_string_value(shard);
        if (!name || file_names_have(chosen, name))
            continue;
        if (!file_names_have(all, name)) {
            code = err_set(err, SNUG_ERR_INPUT,
                           "%s: its index names the shard %.80s, which is not there; tell its author, or "
                           "give another revision",
                           r->wish->text, name);
            break;
        }
        const char *copy = arena_strdup(r->arena, name);
        TRY_TO(done, copy ? file_names_add(chosen, copy, err) : err_no_memory(err, strlen(name)));
    }
done:
    json_decref(doc);
    return code;
}

/* The index comes before the size of the whole is known. */
static int take_index(struct repository *r, struct batch *b, const struct file_names *all, struct file_names *chosen,
                      struct snug_err *err)
{
    const char *path = cache_snapshot(&r->cache, r->commit, WEIGHTS_INDEX);
    if (!file_names_have(chosen, WEIGHTS_INDEX))
        return SNUG_OK;
    if (!cache_has(&r->cache, r->commit, WEIGHTS_INDEX)) {
        TRY(batch_add(r, b, WEIGHTS_INDEX, err));
        TRY(remote_get(r, &b->items[0], &b->progress, err));
        path = cache_blob(&r->cache, b->items[0].etag, false);
    }
    return path ? add_shards(r, path, all, chosen, err) : err_no_memory(err, 4096);
}

/* Bytes and files that are yet to come, apart from what is in the cache, under another commit or in part. */
static int64_t missing(const struct repository *r, const struct batch *b, int *files)
{
    int64_t bytes = 0;
    *files = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct remote *f = &b->items[i];
        struct stat st;
        const char *whole = cache_blob(&r->cache, f->etag, false), *part = cache_blob(&r->cache, f->etag, true);
        if (whole && !r->io->stat(r->io, whole, &st) && (f->size < 0 || st.st_size == f->size))
            continue;
        ++*files;
        bytes += f->size > 0 ? f->size : 0;
        if (part && f->size > 0 && !r->io->stat(r->io, part, &st) && st.st_size <= f->size)
            bytes -= st.st_size;
    }
    return bytes;
}

/* Says what comes, and whether the disk has room for it. */
static int begin_batch(const struct repository *r, const struct batch *b, struct snug_err *err)
{
    struct statfs fs;
    int files;
    int64_t bytes = missing(r, b, &files);
    char size[SIZE_TEXT_MAX], free_size[SIZE_TEXT_MAX];
    TRY(io_make_dirs(r->io, r->cache.folder, err));
    if (files)
        repository_note(r, "%s: %d file%s, %s, from %s", r->wish->text, files, files == 1 ? "" : "s",
                        size_text(bytes, size), str_text(&r->env.endpoint));
    if (r->io->statfs(r->io, r->cache.folder, &fs) || fs.f_bavail * (uint64_t)fs.f_bsize >= (uint64_t)bytes)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_IO,
                   "%s: %s are to come, and %s are free at %s; make room, or set HF_HOME to another disk",
                   r->wish->text, size_text(bytes, size),
                   size_text((int64_t)(fs.f_bavail * (uint64_t)fs.f_bsize), free_size), r->cache.folder);
}

static int get_all(struct repository *r, struct batch *b, const struct file_names *all, struct file_names *chosen,
                   struct snug_err *err)
{
    TRY(take_index(r, b, all, chosen, err));
    size_t first = b->n; /* behind the index, if it came */
    for (size_t i = 0; i < chosen->n; i++)
        if (!cache_has(&r->cache, r->commit, chosen->items[i]) && !(first && !strcmp(chosen->items[i], WEIGHTS_INDEX)))
            TRY(batch_add(r, b, chosen->items[i], err));
    if (!b->n)
        return SNUG_OK;
    TRY(begin_batch(r, b, err));
    for (size_t i = first; i < b->n; i++)
        TRY(remote_get(r, &b->items[i], &b->progress, err));
    for (size_t i = 0; i < b->n; i++)
        TRY(cache_link(&r->cache, r->commit, b->items[i].name, b->items[i].etag, err));
    return SNUG_OK;
}

static int get_online(struct repository *r, const struct file_names *all, struct file_names *chosen,
                      struct snug_err *err)
{
    struct batch b = {.progress = {.repository = r->wish->name.repository}};
    TRY(choose_files(r->wish, all, chosen, err));
    int code = get_all(r, &b, all, chosen, err);
    if (b.progress.file && r->events->progress) { /* it was told of */
        b.progress.last = true;
        r->events->progress(r->events->ctx, &b.progress);
    }
    mem_free(b.items);
    return code ? code : cache_set_commit(&r->cache, r->wish->name.revision, r->commit, err);
}

/* What an earlier download has left. */
static int get_cached(struct repository *r, struct file_names *chosen, struct snug_err *err)
{
    struct file_names all = {0};
    int code = SNUG_OK;
    cache_commit(&r->cache, r->wish->name.revision, r->commit);
    if (r->commit[0])
        code = cache_list(&r->cache, r->commit, &all, err);
    if (!code && !(code = choose_files(r->wish, &all, chosen, err)) && file_names_have(chosen, WEIGHTS_INDEX)) {
        const char *path = cache_snapshot(&r->cache, r->commit, WEIGHTS_INDEX);
        code = path ? add_shards(r, path, &all, chosen, err) : err_no_memory(err, 4096);
    }
    file_names_free(&all);
    return code;
}

static int get_offline(struct repository *r, struct file_names *chosen, struct snug_err *err)
{
    struct snug_err why = {0};
    int code = get_cached(r, chosen, &why);
    if (code == SNUG_ERR_INPUT)
        return err_set(err, code, "%s: no such path here, and %s of it is in %s; unset HF_HUB_OFFLINE to download it",
                       r->wish->text, r->commit[0] ? "not all" : "nothing", str_text(&r->env.cache));
    if (code)
        *err = why;
    return code;
}

/* As huggingface_hub: what the cache has serves where the hub does not answer. */
static int get_files(struct repository *r, struct file_names *chosen, struct snug_err *err)
{
    struct file_names all = {0};
    if (r->env.offline)
        return get_offline(r, chosen, err);
    TRY(hub_libraries_open(&r->libraries, err));
    r->http.curl = &r->libraries.curl;
    TRY(http_open(&r->http, err));
    struct snug_err why = {0};
    int code = repository_list(r, &all, &why);
    if (!code) {
        code = get_online(r, &all, chosen, err);
    } else if (r->http.unreachable && code == SNUG_ERR_IO && !get_cached(r, chosen, NULL)) {
        repository_note(r, "%s: %s does not answer; taking what the cache has, commit %.12s", r->wish->text,
                        r->http.endpoint, r->commit);
        code = SNUG_OK;
    } else {
        *err = why;
    }
    file_names_free(&all);
    http_close(&r->http);
    return code;
}

/* A model is a folder, and so is an adapter; a named file and rows are files. */
static int give_paths(struct repository *r, const struct file_names *chosen, const char *const **paths, size_t *n,
                      struct snug_err *err)
{
    bool files = hub_wants_rows(r->wish) || r->wish->name.file[0];
    *n = files ? chosen->n : 1;
    const char **list = arena_alloc(r->arena, *n * sizeof *list);
    if (!list)
        return err_no_memory(err, *n * sizeof *list);
    for (size_t i = 0; i < *n; i++)
        if (!(list[i] = cache_snapshot(&r->cache, r->commit, files ? chosen->items[i] : NULL)))
            return err_no_memory(err, 4096);
    *paths = list;
    return SNUG_OK;
}

int hub_get(const struct hub_wish *w, const struct io *io, const struct hub_events *events, struct arena *a,
            const char *const **paths, size_t *n, struct snug_err *err)
{
    struct repository r = {.wish = w, .io = io, .events = events, .arena = a, .began = seconds_now()};
    struct file_names chosen = {0};
    int code = hub_environment_read(io, &r.env, err);
    r.http = (struct http){.endpoint = str_text(&r.env.endpoint),
                           .token = str_text(&r.env.token),
                           .certificates = str_text(&r.env.certificates),
                           .stop = events->stop,
                           .note = events->note,
                           .note_ctx = events->ctx,
                           .pause = events->pause > 0 ? events->pause : 1};
    if (!code)
        code = cache_open(&r.cache, io, a, str_text(&r.env.cache), w, err);
    if (!code)
        code = get_files(&r, &chosen, err);
    if (!code)
        code = give_paths(&r, &chosen, paths, n, err);
    file_names_free(&chosen);
    hub_environment_free(&r.env);
    return code;
}
