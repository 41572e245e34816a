#include "cuda/profile.h"

#include "base/cache_dir.h"
#include "format/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { FORMAT_VERSION = 2, MAX_FILE_BYTES = 64 << 20 };

struct cuda_profile {
    json_t *root;                      /* the file: an object */
    json_t *kept;                      /* its products, as they were read or written last */
    struct cuda_profile_device device; /* but for its name */
    struct str dir, path;
};

static void append_path(struct cuda_profile *p, const struct cuda_profile_device *d)
{
    if (!p->dir.n)
        return;
    str_printf(&p->path, "%s/device-", p->dir.s);
    for (const char *c = d->name; *c; c++)
        str_append_n(&p->path, isalnum((unsigned char)*c) || strchr("._-", *c) ? c : "-", 1);
    str_printf(&p->path, "-%d.%d-cublaslt-%" PRId64 ".json", d->arch / 10, d->arch % 10, d->cublaslt);
}

static int empty(struct cuda_profile *p, const struct cuda_profile_device *d, struct snug_err *err)
{
    p->root = json_pack("{s:s,s:i,s:s,s:i,s:i,s:I,s:I,s:[],s:{}}", "format", "snug-device-profile", "version",
                        FORMAT_VERSION, "device", d->name, "arch", d->arch, "multiprocessors", d->sms, "free_bytes",
                        (json_int_t)d->free_bytes, "cublaslt", (json_int_t)d->cublaslt, "products", "times");
    return p->root ? SNUG_OK : err_no_memory(err, 4096);
}

/* Reads what a profile says of its device. */
static int check(json_t *root, const char *path, struct cuda_profile_device *d, struct snug_err *err)
{
    const char *format;
    int64_t version, arch, sms;
    TRY(json_get_string(root, path, "format", true, &format, err));
    TRY(json_get_int(root, path, "version", true, FORMAT_VERSION, FORMAT_VERSION, &version, err));
    TRY(json_get_string(root, path, "device", true, &d->name, err));
    TRY(json_get_int(root, path, "arch", true, 10, 9999, &arch, err));
    TRY(json_get_int(root, path, "multiprocessors", true, 1, 1 << 16, &sms, err));
    TRY(json_get_int(root, path, "free_bytes", true, 0, INT64_MAX, &d->free_bytes, err));
    TRY(json_get_int(root, path, "cublaslt", true, 1, INT64_MAX, &d->cublaslt, err));
    d->arch = (int)arch;
    d->sms = (int)sms;
    if (strcmp(format, "snug-device-profile") || !json_is_array(json_object_get(root, "products")) ||
        !json_is_object(json_object_get(root, "times")))
        return err_set(err, SNUG_ERR_INPUT, "%s: is no device profile; remove it", path);
    const char *key;
    json_t *time;
    json_object_foreach(json_object_get(root, "times"), key, time)
    {
        double us = json_is_number(time) ? json_number_value(time) : -1;
        if (us < 0)
            return err_set(err, SNUG_ERR_INPUT, "%s: the time of \"%.60s\" is no number of microseconds; remove it",
                           path, key);
    }
    return SNUG_OK;
}

static void keeps(struct cuda_profile *p, json_t *file)
{
    json_decref(p->kept);
    p->kept = json_incref(json_object_get(file, "products"));
}

/* The file at p->path as a new reference, if it is of p->device; NULL: it is of no use. */
static json_t *read_file(const struct cuda_profile *p, const struct io *io)
{
    const struct cuda_profile_device *d = &p->device;
    struct cuda_profile_device kept;
    json_t *root = NULL;
    if (!p->path.n || !io_exists(io, p->path.s) || json_read_object(io, p->path.s, MAX_FILE_BYTES, &root, NULL))
        return NULL;
    if (check(root, p->path.s, &kept, NULL) || kept.arch != d->arch || kept.sms != d->sms ||
        kept.cublaslt != d->cublaslt) {
        json_decref(root);
        return NULL;
    }
    if (kept.free_bytes < d->free_bytes)
        json_object_set_new(root, "free_bytes", json_integer(d->free_bytes)); /* without memory: as it was */
    return root;
}

int cuda_profile_open(const struct io *io, const char *dir, const struct cuda_profile_device *device,
                      struct cuda_profile **out, struct snug_err *err)
{
    *out = NULL;
    struct cuda_profile *p = mem_alloc(sizeof *p);
    if (!p)
        return err_no_memory(err, sizeof *p);
    int code = SNUG_OK;
    TRY_TO(failed, cache_dir(dir, &p->dir, err));
    append_path(p, device);
    TRY_TO(failed, str_check(&p->path, err));
    p->device = *device;
    p->device.name = NULL;
    p->root = read_file(p, io);
    if (!p->root)
        TRY_TO(failed, empty(p, device, err));
    keeps(p, p->root);
    *out = p;
    return SNUG_OK;
failed:
    cuda_profile_close(p);
    return code;
}

int cuda_profile_read(const struct io *io, const char *path, struct cuda_profile_device *device,
                      struct cuda_profile **out, struct snug_err *err)
{
    *out = NULL;
    struct cuda_profile *p = mem_alloc(sizeof *p);
    if (!p)
        return err_no_memory(err, sizeof *p);
    int code = json_read_object(io, path, MAX_FILE_BYTES, &p->root, err);
    if (!code)
        code = check(p->root, path, device, err);
    if (code)
        cuda_profile_close(p);
    else
        *out = p;
    return code;
}

void cuda_profile_close(struct cuda_profile *p)
{
    if (!p)
        return;
    json_decref(p->root);
    json_decref(p->kept);
    str_free(&p->dir);
    str_free(&p->path);
    mem_free(p);
}

const char *cuda_profile_path(const struct cuda_profile *p)
{
    return str_text(&p->path);
}

json_t *cuda_profile_products(const struct cuda_profile *p)
{
    json_t *products = json_object_get(p->root, "products");
    return json_array_size(products) ? products : NULL;
}

int cuda_profile_set_products(struct cuda_profile *p, json_t *choices, struct snug_err *err)
{
    return json_object_set(p->root, "products", choices) ? err_no_memory(err, 4096) : SNUG_OK;
}

double cuda_profile_time(const struct cuda_profile *p, const char *key)
{
    json_t *time = json_object_get(json_object_get(p->root, "times"), key);
    return time ? json_number_value(time) : -1;
}

void cuda_profile_times(const struct cuda_profile *p, void (*see)(void *ctx, const char *key, double us), void *ctx)
{
    const char *key;
    json_t *time;
    json_object_foreach(json_object_get(p->root, "times"), key, time) see(ctx, key, json_number_value(time));
}

int cuda_profile_set_time(struct cuda_profile *p, const char *key, double us, struct snug_err *err)
{
    return json_object_set_new(json_object_get(p->root, "times"), key, json_real(us)) ? err_no_memory(err, 4096)
                                                                                      : SNUG_OK;
}

static bool has(json_t *array, json_t *item)
{
    size_t i = 0;
    while (i < json_array_size(array) && !json_equal(json_array_get(array, i), item))
        i++;
    return i < json_array_size(array);
}

/* What other processes have kept since this one read or wrote the file. */
static int take_news(struct cuda_profile *p, const struct io *io, cuda_profile_merge *merge, struct snug_err *err)
{
    json_t *there = read_file(p, io), *products = json_object_get(there, "products");
    if (!there)
        return SNUG_OK;
    json_t *news = json_array();
    size_t n = json_equal(products, p->kept) ? 0 : json_array_size(products);
    int failed = !news;
    for (size_t i = 0; i < n; i++)
        if (!has(p->kept, json_array_get(products, i)))
            failed |= json_array_append(news, json_array_get(products, i));
    failed |= json_object_update_missing(json_object_get(p->root, "times"), json_object_get(there, "times"));
    failed |= json_object_set(p->root, "free_bytes", json_object_get(there, "free_bytes"));
    int code = failed ? err_no_memory(err, 1 << 20) : merge(json_object_get(p->root, "products"), news, err);
    json_decref(there);
    json_decref(news);
    return code == SNUG_ERR_INPUT ? SNUG_OK : code; /* such a file is of no use either */
}

int cuda_profile_save(const struct io *io, struct cuda_profile *p, cuda_profile_merge *merge, struct snug_err *err)
{
    if (!p->path.n)
        return SNUG_OK;
    TRY(take_news(p, io, merge, err));
    char *text = json_dumps(p->root, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
    if (!text)
        return err_no_memory(err, 1 << 20);
    struct str file = {0};
    str_append(&file, text);
    str_append(&file, "\n");
    free(text); /* jansson's own allocator gave it */
    int code = str_check(&file, err);
    if (!code)
        code = io_make_dirs(io, p->dir.s, err);
    if (!code)
        code = io_write_file(io, p->path.s, file.s, file.n, err);
    if (!code) {
        json_t *written = json_loadb(file.s, file.n, 0, NULL); /* its numbers have fewer digits */
        keeps(p, written);
        json_decref(written);
    }
    str_free(&file);
    return code;
}
