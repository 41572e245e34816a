/* model.safetensors.index.json: which shard holds which tensor. The index is input from strangers: it may name only
 * plain files of its own folder, and all it says is compared with what the shards hold. */
#include "base/str.h"
#include "format/model_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_LIMIT = 128 << 20 }; /* bytes: a million tensors */

static bool is_plain_name(const char *name)
{
    if (!name[0] || !strcmp(name, ".") || !strcmp(name, ".."))
        return false;
    for (const char *s = name; *s; s++)
        if (*s == '/' || (unsigned char)*s < 0x20 || *s == 0x7F)
            return false;
    return true;
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different shard names of the index, sorted. `*names` is for mem_free; the strings belong to the index. */
static int shard_names(json_t *map, const char *index_path, const char ***names, size_t *n, struct snug_err *err)
{
    const char *tensor;
    json_t *shard;
    char text[64];
    size_t all = 0;
    if (!(*names = mem_alloc(json_object_size(map) * sizeof **names)))
        return err_no_memory(err, json_object_size(map) * sizeof **names);
    json_object_foreach(map, tensor, shard)
    {
        if (!json_is_string(shard))
            return err_set(err, SNUG_ERR_INPUT, "%s: weight_map gives %s for %.80s; expected a shard's file name",
                           index_path, json_value_text(shard, text), tensor);
        if (!is_plain_name(json_string_value(shard)))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: a shard name must be a plain file name, not \"%.80s\"; get the model again", index_path,
                           json_string_value(shard));
        (*names)[all++] = json_string_value(shard);
    }
    qsort(*names, all, sizeof **names, by_string);
    *n = 0;
    for (size_t i = 0; i < all; i++)
        if (!i || strcmp((*names)[i], (*names)[*n - 1]))
            (*names)[(*n)++] = (*names)[i];
    return SNUG_OK;
}

static int check_presence(const struct model_dir *d, const char *index_path, const char *const *names, size_t n,
                          struct snug_err *err)
{
    struct str missing = {0};
    size_t count = 0, listed = 0;
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        char *path = model_dir_file(d, names[i]);
        if (!path) {
            str_free(&missing);
            return err_no_memory(err, strlen(d->path) + strlen(names[i]) + 2);
        }
        if (d->io->stat(d->io, path, &st) < 0 && errno == ENOENT) {
            count++;
            if (missing.n + strlen(names[i]) < 110 || !listed) {
                str_printf(&missing, "%s%.80s", listed ? ", " : "", names[i]);
                listed++;
            }
        }
        mem_free(path);
    }
    if (listed < count)
        str_printf(&missing, " and %zu more", count - listed);
    int code = str_check(&missing, err);
    if (!code && count)
        code = err_set(err, SNUG_ERR_INPUT, "%s: names %zu missing file%s: %s; get %s", index_path, count,
                       count > 1 ? "s" : "", str_text(&missing), count > 1 ? "them" : "it");
    str_free(&missing);
    return code;
}

static int open_shards(struct model_dir *d, const char *const *names, size_t n, struct snug_err *err)
{
    if (!(d->files = mem_alloc(n * sizeof *d->files)))
        return err_no_memory(err, n * sizeof *d->files);
    for (size_t i = 0; i < n; i++) {
        TRY(model_link_check(d, names[i], true, err));
        char *path = model_dir_file(d, names[i]);
        if (!path)
            return err_no_memory(err, strlen(d->path) + strlen(names[i]) + 2);
        int code = st_open(d->io, path, &d->files[i], err);
        mem_free(path);
        TRY(code);
        d->n_files++;
        st_detach(&d->files[i]); /* a thousand shards would use up the file descriptors */
    }
    return model_dir_merge(d, err);
}

/* The file name of a path. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int compare(const struct model_dir *d, json_t *map, const char *index_path, struct snug_err *err)
{
    const char *name;
    json_t *shard;
    json_object_foreach(map, name, shard)
    {
        const struct model_tensor *t = model_dir_find(d, name);
        if (!t || strcmp(last_part(t->file->path), json_string_value(shard)))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: tensor %.80s is not in %.60s, where the index has it%s%.60s; get the model again",
                           index_path, name, json_string_value(shard), t ? ", but in " : "",
                           t ? last_part(t->file->path) : "");
    }
    for (size_t i = 0; i < d->n_tensors; i++)
        if (!json_object_get(map, d->tensors[i].tensor->name))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: tensor %.100s is in this shard, but not in the index; get the model again",
                           d->tensors[i].file->path, d->tensors[i].tensor->name);
    return SNUG_OK;
}

/* Real files have wrong sums, so that is only noted. */
static void check_total(const struct model_dir *d, json_t *index, const char *index_path)
{
    json_t *total = json_object_get(json_object_get(index, "metadata"), "total_size");
    int64_t bytes = 0;
    char text[64];
    for (size_t i = 0; i < d->n_tensors; i++)
        bytes += d->tensors[i].tensor->bytes;
    if (total && !(json_is_number(total) && json_number_value(total) == (double)bytes))
        model_dir_note(d, "%s: metadata.total_size is %s, but the tensors take %lld bytes", index_path,
                       json_value_text(total, text), (long long)bytes);
}

int model_index_open(struct model_dir *d, const char *index_path, struct snug_err *err)
{
    json_t *index = NULL, *map;
    const char **names = NULL;
    char text[64];
    size_t n = 0;
    int code;
    TRY(json_read_object(d->io, index_path, INDEX_LIMIT, &index, err));
    map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || !json_object_size(map)) {
        code = err_set(err, SNUG_ERR_INPUT, "%s: weight_map is %s; expected an object of tensor and shard names",
                       index_path, json_is_object(map) ? "empty" : json_value_text(map, text));
        goto done;
    }
    TRY_TO(done, shard_names(map, index_path, &names, &n, err));
    TRY_TO(done, check_presence(d, index_path, names, n, err));
    TRY_TO(done, open_shards(d, names, n, err));
    TRY_TO(done, compare(d, map, index_path, err));
    check_total(d, index, index_path);
done:
    mem_free(names);
    json_decref(index);
    return code;
}
