/* MANIFEST.json: what a complete step folder holds. One entry a line; the last member is the XXH3-128 of every byte
 * before its line, so the manifest vouches for itself and then for all other files:
 *
 *     {
 *     "format": "snug checkpoint",
 *     "format_version": 1,
 *     "step": 1200,
 *     "world_size": 1,
 *     "state_hash": "…",
 *     "versions": {"snug": "0.1.0"},
 *     "files": [
 *     {"name": "rank-0000.safetensors", "bytes": 4096, "xxh3_128": "…"},
 *     …],
 *     "tensors": [
 *     {"name": "classifier.bias", "file": "rank-0000.safetensors", "xxh3_128": "…"},
 *     …],
 *     "xxh3_128": "…"
 *     }                                                                                                              */
#include "checkpoint/internal.h"
#include "format/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BYTES = 64 << 20, /* a manifest; 100 times what a large model needs */
    MAX_FILES = 4096,     /* one a rank, and the document */
    MAX_TENSORS = 1 << 20,
};

static const char HASH_LINE[] = "\"xxh3_128\": \"";
static const char END[] = "\"\n}\n";
enum { HASH_LINE_BYTES = sizeof HASH_LINE - 1, END_BYTES = sizeof END - 1 };
enum { TAIL_BYTES = HASH_LINE_BYTES + 32 + END_BYTES };

int ckpt_manifest_write(const struct ckpt_manifest *m, struct str *text, struct snug_err *err)
{
    str_printf(text,
               "{\n\"format\": \"snug checkpoint\",\n\"format_version\": %d,\n\"step\": %lld,\n\"world_size\": %lld,\n"
               "\"state_hash\": \"%s\",\n\"versions\": {\"snug\": \"%s\"},\n\"files\": [",
               CKPT_FORMAT, (long long)m->step, (long long)m->world_size, m->state_hash, SNUG_VERSION);
    for (size_t i = 0; i < m->n_files; i++) {
        str_append(text, i ? ",\n{\"name\": " : "\n{\"name\": ");
        str_json(text, m->files[i].name);
        str_printf(text, ", \"bytes\": %lld, \"xxh3_128\": \"%s\"}", (long long)m->files[i].bytes, m->files[i].hash);
    }
    str_append(text, "],\n\"tensors\": [");
    for (size_t i = 0; i < m->n_tensors; i++) {
        str_append(text, i ? ",\n{\"name\": " : "\n{\"name\": ");
        str_json(text, m->tensors[i].name);
        str_append(text, ", \"file\": ");
        str_json(text, m->tensors[i].file);
        str_printf(text, ", \"xxh3_128\": \"%s\"}", m->tensors[i].hash);
    }
    str_append(text, "],\n");
    TRY(str_check(text, err));
    char hex[33];
    hash_hex(hash_bytes(text->s, text->n), hex);
    str_printf(text, "%s%s%s", HASH_LINE, hex, END);
    return str_check(text, err);
}

static int bad(struct snug_err *err, const char *what, const char *value)
{
    return err_set(err, SNUG_ERR_CHECKPOINT, CKPT_MANIFEST ": %s%s%s%s", what, value ? " \"" : "", value ? value : "",
                   value ? "\"" : "");
}

/* Does the text end in the hash of what stands before? */
static int check_own_hash(const char *text, size_t bytes, struct snug_err *err)
{
    if (bytes < TAIL_BYTES)
        return bad(err, "truncated", NULL);
    const char *tail = text + bytes - TAIL_BYTES;
    char want[TAIL_BYTES + 1], hex[33];
    hash_hex(hash_bytes(text, bytes - TAIL_BYTES), hex);
    snprintf(want, sizeof want, "%s%s%s", HASH_LINE, hex, END);
    if (memcmp(tail + TAIL_BYTES - END_BYTES, END, END_BYTES) != 0)
        return bad(err, "truncated or changed at its end", NULL);
    return memcmp(tail, want, TAIL_BYTES) ? bad(err, "hash differs", NULL) : SNUG_OK;
}

/* A name that stays inside its folder and cannot be taken for one of ours. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) < 256 && strcmp(name, CKPT_MANIFEST) != 0;
}

static bool is_hash(const char *s)
{
    return strlen(s) == 32 && strspn(s, "0123456789abcdef") == 32;
}

static int by_entry_name(const void *a, const void *b)
{
    return strcmp(((const struct ckpt_entry *)a)->name, ((const struct ckpt_entry *)b)->name);
}

static int get_array(json_t *o, const char *key, size_t limit, json_t **array, struct snug_err *err)
{
    *array = json_object_get(o, key);
    if (!json_is_array(*array))
        return bad(err, "no list", key);
    if (json_array_size(*array) > limit)
        return err_set(err, SNUG_ERR_CHECKPOINT, CKPT_MANIFEST ": %zu entries in \"%s\", at most %zu are allowed",
                       json_array_size(*array), key, limit);
    return SNUG_OK;
}

static int read_files(struct ckpt_manifest *m, struct snug_err *err)
{
    json_t *list, *o;
    size_t i;
    TRY(get_array(m->json, "files", MAX_FILES, &list, err));
    if (!(m->files = arena_alloc(&m->arena, json_array_size(list) * sizeof *m->files)))
        return err_no_memory(err, json_array_size(list) * sizeof *m->files);
    json_array_foreach(list, i, o)
    {
        struct ckpt_file *f = &m->files[m->n_files++];
        TRY(json_get_string(o, CKPT_MANIFEST, "name", true, &f->name, err));
        TRY(json_get_int(o, CKPT_MANIFEST, "bytes", true, 0, INT64_MAX / MAX_FILES, &f->bytes, err));
        TRY(json_get_string(o, CKPT_MANIFEST, "xxh3_128", true, &f->hash, err));
        if (!is_plain_name(f->name))
            return bad(err, "not a plain file name:", f->name);
        if (!is_hash(f->hash))
            return bad(err, "not a hash:", f->hash);
        m->bytes += f->bytes;
    }
    for (i = 1; i < m->n_files; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(m->files[i].name, m->files[j].name))
                return bad(err, "listed twice:", m->files[i].name);
    return SNUG_OK;
}

static int read_tensors(struct ckpt_manifest *m, struct snug_err *err)
{
    json_t *list, *o;
    size_t i;
    TRY(get_array(m->json, "tensors", MAX_TENSORS, &list, err));
    if (!(m->tensors = arena_alloc(&m->arena, json_array_size(list) * sizeof *m->tensors)))
        return err_no_memory(err, json_array_size(list) * sizeof *m->tensors);
    json_array_foreach(list, i, o)
    {
        struct ckpt_entry *t = &m->tensors[m->n_tensors++];
        TRY(json_get_string(o, CKPT_MANIFEST, "name", true, &t->name, err));
        TRY(json_get_string(o, CKPT_MANIFEST, "file", true, &t->file, err));
        TRY(json_get_string(o, CKPT_MANIFEST, "xxh3_128", true, &t->hash, err));
        if (!is_hash(t->hash))
            return bad(err, "not a hash:", t->hash);
    }
    qsort(m->tensors, m->n_tensors, sizeof *m->tensors, by_entry_name);
    return SNUG_OK;
}

static int read_members(struct ckpt_manifest *m, struct snug_err *err)
{
    const char *format = "";
    if (!json_is_object(m->json))
        return bad(err, "not an object", NULL);
    TRY(json_get_string(m->json, CKPT_MANIFEST, "format", true, &format, err));
    if (strcmp(format, "snug checkpoint") != 0)
        return bad(err, "format is", format);
    TRY(json_get_int(m->json, CKPT_MANIFEST, "format_version", true, 1, INT64_MAX, &m->format, err));
    if (m->format > CKPT_FORMAT)
        return err_set(err, SNUG_ERR_CHECKPOINT,
                       CKPT_MANIFEST ": written in format version %lld, this snug " SNUG_VERSION
                                     " reads up to %d; use the newer snug",
                       (long long)m->format, CKPT_FORMAT);
    TRY(json_get_int(m->json, CKPT_MANIFEST, "step", true, 0, CKPT_MAX_STEP, &m->step, err));
    TRY(json_get_int(m->json, CKPT_MANIFEST, "world_size", true, 1, MAX_FILES, &m->world_size, err));
    TRY(json_get_string(m->json, CKPT_MANIFEST, "state_hash", true, &m->state_hash, err));
    if (!is_hash(m->state_hash))
        return bad(err, "not a hash:", m->state_hash);
    TRY(read_files(m, err));
    return read_tensors(m, err);
}

int ckpt_manifest_read(const struct io *io, const char *step_dir, struct ckpt_manifest *m, struct snug_err *err)
{
    *m = (struct ckpt_manifest){0};
    char *path = arena_printf(&m->arena, "%s/" CKPT_MANIFEST, step_dir), *text = NULL;
    if (!path)
        return err_no_memory(err, strlen(step_dir) + 32);
    struct stat st;
    if (io->lstat(io, path, &st) < 0 && errno == ENOENT)
        return err_set(err, SNUG_ERR_CHECKPOINT, "no " CKPT_MANIFEST " (save was interrupted)");
    size_t bytes;
    int code = io_read_file(io, path, MAX_BYTES, &text, &bytes, err);
    if (!code) {
        m->bytes = (int64_t)bytes;
        code = check_own_hash(text, bytes, err);
        if (!code)
            code = json_parse(text, bytes, CKPT_MANIFEST, &m->json, err);
        if (!code)
            code = read_members(m, err);
    }
    mem_free(text);
    if (code == SNUG_ERR_INPUT && err) /* a file of ours: whatever is wrong with it, the checkpoint is */
        err->code = SNUG_ERR_CHECKPOINT;
    return code == SNUG_ERR_INPUT ? SNUG_ERR_CHECKPOINT : code;
}

void ckpt_manifest_free(struct ckpt_manifest *m)
{
    json_decref(m->json);
    arena_free(&m->arena);
    *m = (struct ckpt_manifest){0};
}

const struct ckpt_entry *ckpt_manifest_tensor(const struct ckpt_manifest *m, const char *name)
{
    struct ckpt_entry key = {.name = name};
    return m->n_tensors ? bsearch(&key, m->tensors, m->n_tensors, sizeof key, by_entry_name) : NULL;
}

const struct ckpt_file *ckpt_manifest_file(const struct ckpt_manifest *m, const char *name)
{
    for (size_t i = 0; i < m->n_files; i++)
        if (!strcmp(m->files[i].name, name))
            return &m->files[i];
    return NULL;
}
