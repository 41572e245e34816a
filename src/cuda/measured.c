#include "cuda/measured.h"

#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "cuda/arch.h"
#include "cuda/device.h"
#include "cuda/products/algorithms_json.h"
#include "cuda/products/head.h"
#include "cuda/products/products.h"
#include "cuda/products/tune.h"
#include "cuda/sheet.h"
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the kernels tells the choices of algorithms apart, since other ones may give other bits. */
const char *cuda_measured_kernels(const struct backend *b)
{
    struct cuda *d = cuda_of(b);
    char hash[33];
    hash_hex(algorithms_hash(d->call.products), hash);
    snprintf(d->measured.kernels, sizeof d->measured.kernels, "sm_%d%s cublaslt %lld algorithms %.8s",
             cuda_arch_code(d->arch), d->call.tf32 ? " tf32" : "", (long long)cuda_products_version(d->call.products),
             hash);
    return d->measured.kernels;
}

int cuda_measured_take(struct cuda *d, const char *where, struct snug_err *err)
{
    json_t *products = cuda_profile_products(d->measured.profile);
    return products ? algorithms_import(d->call.products, products, where, err) : SNUG_OK;
}

/* A cache in which an entry cannot be read is of no use: as if nothing had been measured. */
int cuda_measured_take_kept(struct cuda *d, struct snug_err *err)
{
    struct snug_err why = {0};
    int code = cuda_measured_take(d, cuda_profile_path(d->measured.profile), &why);
    if (code != SNUG_ERR_INPUT)
        return code ? err_set(err, code, "%s", why.text) : SNUG_OK;
    json_t *none = json_array();
    code = none ? cuda_profile_set_products(d->measured.profile, none, err) : err_no_memory(err, sizeof(json_t));
    if (!code)
        code = algorithms_import(d->call.products, none, cuda_profile_path(d->measured.profile), err);
    json_decref(none);
    return code;
}

int cuda_measured_open(struct cuda *d, const char *cache_dir, int64_t free_bytes, struct snug_err *err)
{
    struct cudaDeviceProp found;
    OPENING(d->device, cudaGetDeviceProperties(&found, d->device));
    struct cuda_profile_device device = {.name = found.name,
                                         .arch = d->arch,
                                         .sms = d->call.sms,
                                         .free_bytes = free_bytes,
                                         .cublaslt = cuda_products_version(d->call.products)};
    d->base.rates = gpu_sheet_rates(found.name, d->call.tf32);
    snprintf(d->name, sizeof d->name, "%s", found.name);
    d->base.device = d->name;
    TRY(cuda_profile_open(&io_posix, cache_dir, &device, &d->measured.profile, err));
    return cuda_measured_take_kept(d, err);
}

static const char RECORDED[] = "choices in the checkpoint"; /* for messages */

static int add_recorded(struct cuda *d, struct snug_err *refused, struct snug_err *err)
{
    int n = 0;
    char name[128];
    *refused = (struct snug_err){0};
    if (d->measured.recorded)
        TRY(algorithms_add_recorded(d->call.products, d->measured.recorded, RECORDED, &n, name, err));
    if (n)
        err_set(refused, SNUG_ERR_ENV, "cuBLASLt takes %d of the recorded algorithms no more, such as that of %s", n,
                name);
    return SNUG_OK;
}

/* A cache that cannot be written is not worth a run. */
static void save(struct cuda *d)
{
    cuda_profile_save(&io_posix, d->measured.profile, algorithms_merge, NULL);
}

/* What was measured goes to the profile, and comes back as a later run will find it: both then have the same bits. So
 * have processes that measured the same products at the same time: what is in the file first stands. */
static int keep_algorithms(struct cuda *d, struct snug_err *err)
{
    json_t *products;
    struct snug_err refused; /* was said when they were taken */
    TRY(algorithms_export(d->call.products, ALGORITHMS_MEASURED, &products, err));
    int code = cuda_profile_set_products(d->measured.profile, products, err);
    if (!code)
        save(d); /* which may change them */
    if (!code)
        code = algorithms_import(d->call.products, products, cuda_profile_path(d->measured.profile), err);
    json_decref(products);
    return code ? code : add_recorded(d, &refused, err);
}

static int count_measured(const struct cuda *d, size_t *n, struct snug_err *err)
{
    json_t *products;
    TRY(algorithms_export(d->call.products, ALGORITHMS_MEASURED, &products, err));
    *n = json_array_size(products);
    json_decref(products);
    return SNUG_OK;
}

static int tune(const struct backend *b, const struct work *nodes, int n, void (*begins)(void *ctx), void *ctx,
                bool *changed, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    size_t before, after = 0;
    int n_products = 0, code;
    TRY(count_measured(d, &before, err));
    struct cuda_product_node *products = mem_alloc((size_t)(HEAD_PRODUCTS * n + 1) * sizeof *products);
    if (!products)
        return err_no_memory(err, (unsigned long long)n * sizeof *products);
    for (int i = 0; i < n; i++)
        n_products += cuda_head_products(nodes[i].op, &nodes[i].args, &products[n_products]);
    code = cuda_products_tune(d->call.products, products, n_products, d->call.tf32,
                              &(struct cuda_tuning){.begins = begins, .ctx = ctx}, err);
    mem_free(products);
    if (!code)
        code = count_measured(d, &after, err);
    *changed = !code && after != before; /* what is known is not measured again */
    return code || !*changed ? code : keep_algorithms(d, err);
}

static int give(const struct backend *b, char **text, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    json_t *products;
    *text = NULL;
    TRY(algorithms_export(d->call.products, ALGORITHMS_OF_RUN, &products, err));
    json_t *all = json_pack("{s:i,s:i,s:I,s:o}", "arch", d->arch, "multiprocessors", d->call.sms, "cublaslt",
                            (json_int_t)cuda_products_version(d->call.products), "products", products);
    char *dumped = all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(all);
    *text = dumped ? mem_strdup(dumped) : NULL;
    free(dumped);
    return *text ? SNUG_OK : err_no_memory(err, 1 << 16);
}

/* The algorithms of one version of cuBLASLt mean nothing to another, and sums may be cut by the number of
 * multiprocessors. */
static int check_recorded(const struct cuda *d, json_t *all, const char *where, struct snug_err *refused,
                          struct snug_err *err)
{
    int64_t arch, sms, cublaslt, here = cuda_products_version(d->call.products);
    TRY(json_get_int(all, where, "arch", true, 0, INT32_MAX, &arch, err));
    TRY(json_get_int(all, where, "multiprocessors", true, 0, INT32_MAX, &sms, err));
    TRY(json_get_int(all, where, "cublaslt", true, 0, INT64_MAX, &cublaslt, err));
    if (cublaslt != here)
        err_set(refused, SNUG_ERR_ENV, "the recorded algorithms are of cuBLASLt %lld, here is %lld",
                (long long)cublaslt, (long long)here);
    else if (arch != d->arch || sms != d->call.sms)
        err_set(refused, SNUG_ERR_ENV,
                "the recorded algorithms are of compute capability %lld.%lld and %lld multiprocessors, here are %d.%d "
                "and %d",
                (long long)arch / 10, (long long)arch % 10, (long long)sms, d->arch / 10, d->arch % 10, d->call.sms);
    return SNUG_OK;
}

static int take(const struct backend *b, const char *text, struct snug_err *refused, struct snug_err *err)
{
    struct cuda *d = cuda_of(b);
    json_t *all = NULL;
    *refused = (struct snug_err){0};
    int code = json_parse(text, strlen(text), RECORDED, &all, err);
    if (!code)
        code = check_recorded(d, all, RECORDED, refused, err);
    if (!code && !refused->code) {
        json_decref(d->measured.recorded);
        d->measured.recorded = json_incref(json_object_get(all, "products"));
        code = add_recorded(d, refused, err);
    }
    json_decref(all);
    if (code != SNUG_ERR_INPUT)
        return code;
    err_set(refused, SNUG_ERR_ENV, "%s", err->text); /* perhaps of a later version */
    json_decref(d->measured.recorded);
    d->measured.recorded = NULL;
    return SNUG_OK;
}

static double recall(const struct backend *b, const char *key)
{
    double us = cuda_profile_time(cuda_of(b)->measured.profile, key);
    return us < 0 ? -1 : 1e-6 * us;
}

static int keep(const struct backend *b, const struct backend_time *times, size_t n, struct snug_err *err)
{
    for (size_t i = 0; i < n; i++)
        TRY(cuda_profile_set_time(cuda_of(b)->measured.profile, times[i].key, 1e6 * times[i].seconds, err));
    save(cuda_of(b));
    return SNUG_OK;
}

struct seconds_seer {
    void (*see)(void *ctx, const char *key, double seconds);
    void *ctx;
};

static void see_us(void *ctx, const char *key, double us)
{
    const struct seconds_seer *s = ctx;
    s->see(s->ctx, key, 1e-6 * us);
}

static void each(const struct backend *b, void (*see)(void *ctx, const char *key, double seconds), void *ctx)
{
    cuda_profile_times(cuda_of(b)->measured.profile, see_us, &(struct seconds_seer){see, ctx});
}

static int unmeasured(const struct backend *b)
{
    return cuda_products_unmeasured(cuda_of(b)->call.products);
}

const struct backend_profile cuda_profile_here = {.tune = tune, .recall = recall, .keep = keep, .each = each};
const struct backend_profile cuda_profile_absent = {
    .unmeasured = unmeasured, .recall = recall, .keep = keep, .each = each};
const struct backend_record cuda_record = {.give = give, .take = take};

int cuda_measured_read(struct cuda *d, const char *path, struct cuda_profile_device *device, struct snug_err *err)
{
    TRY(cuda_profile_read(&io_posix, path, device, &d->measured.profile, err));
    d->base.rates = gpu_sheet_rates(device->name, d->call.tf32);
    return SNUG_OK;
}

void cuda_measured_close(struct cuda *d)
{
    json_decref(d->measured.recorded);
    cuda_profile_close(d->measured.profile);
}
