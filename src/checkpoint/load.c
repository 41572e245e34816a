/* Reading a checkpoint that was found. Everything is hashed again on the way: between finding and loading, or after a
 * quick look, a disk may have changed its mind. */
#include "base/mem.h"
#include "checkpoint/internal.h"
#include "format/json.h"

#include <stdio.h>
#include <string.h>

enum { STATE_LIMIT = 256 << 20 };

int ckpt_load_state(const struct ckpt_found *found, json_t **state, struct snug_err *err)
{
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/" CKPT_STATE, found->path), *text = NULL, hex[33];
    size_t bytes = 0;
    const struct ckpt_file *f = ckpt_manifest_file(found->manifest, CKPT_STATE);
    *state = NULL;
    int code;
    if (!path)
        code = err_no_memory(err, strlen(found->path));
    else if (!f)
        code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: not in the manifest; resume from another checkpoint", path);
    else
        code = io_read_file(found->io, path, STATE_LIMIT, &text, &bytes, err);
    if (!code) {
        hash_hex(hash_bytes(text, bytes), hex);
        if (strcmp(hex, f->hash) != 0)
            code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: hash differs; resume from another checkpoint", path);
        else
            code = json_parse(text, bytes, path, state, err);
    }
    if (!code && !json_is_object(*state)) {
        json_decref(*state);
        *state = NULL;
        code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: not an object; resume from another checkpoint", path);
    }
    mem_free(text);
    arena_free(&a);
    if (code == SNUG_ERR_INPUT && err)
        err->code = SNUG_ERR_CHECKPOINT;
    return code == SNUG_ERR_INPUT ? SNUG_ERR_CHECKPOINT : code;
}

static void show_shape(enum dtype dtype, int ndim, const int64_t *shape, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "%s [", dtype_name(dtype));
    for (int i = 0; i < ndim && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, i ? ",%lld" : "%lld", (long long)shape[i]);
    if (n < room)
        snprintf(out + n, room - n, "]");
}

/* The first thing in which the file and the caller's list differ. */
static int match(const struct st_file *f, const struct ckpt_tensor *tensors, size_t n, struct snug_err *err)
{
    struct arena a = {0};
    bool *wanted = arena_alloc(&a, f->n_tensors * sizeof *wanted);
    int code = wanted ? SNUG_OK : err_no_memory(err, f->n_tensors);
    for (size_t i = 0; !code && i < n; i++) {
        const struct ckpt_tensor *t = &tensors[i];
        const struct st_tensor *in = st_find(f, t->name);
        if (!in) {
            code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: %s: not there; this run needs it", f->path, t->name);
        } else if (in->dtype != t->dtype || in->ndim != t->ndim ||
                   memcmp(in->shape, t->shape, (size_t)t->ndim * sizeof *t->shape) != 0) {
            char has[128], needs[128];
            show_shape(in->dtype, in->ndim, in->shape, has, sizeof has);
            show_shape(t->dtype, t->ndim, t->shape, needs, sizeof needs);
            code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: %s: %s -> %s; resume with the options of the saved run",
                           f->path, t->name, has, needs);
        } else {
            wanted[in - f->tensors] = true;
        }
    }
    for (size_t i = 0; !code && i < f->n_tensors; i++)
        if (!wanted[i])
            code = err_set(err, SNUG_ERR_CHECKPOINT,
                           "%s: %s: this run has no such tensor; resume with the options of the saved run", f->path,
                           f->tensors[i].name);
    arena_free(&a);
    return code;
}

/* One tensor, by way of `host` where it does not lie in host memory. */
static int read_tensor(const struct st_file *f, const struct ckpt_found *found, const struct ckpt_tensor *t, void *host,
                       struct snug_err *err)
{
    char hex[33];
    const struct st_tensor *in = st_find(f, t->name);
    const struct ckpt_entry *e = ckpt_manifest_tensor(found->manifest, t->name);
    void *to = t->memory ? host : t->data;
    TRY(st_read(f, in, to, err));
    hash_hex(hash_bytes(to, (size_t)in->bytes), hex);
    if (!e || strcmp(hex, e->hash) != 0)
        return err_set(err, SNUG_ERR_CHECKPOINT, "%s: %s: hash differs; resume from another checkpoint", f->path,
                       t->name);
    return t->memory ? t->memory->put(t->memory->ctx, t->data, host, (int64_t)in->bytes, err) : SNUG_OK;
}

static int read_tensors(const struct st_file *f, const struct ckpt_found *found, const struct ckpt_tensor *tensors,
                        size_t n, struct snug_err *err)
{
    int64_t most = 1;
    int code = SNUG_OK;
    for (size_t i = 0; i < n; i++) {
        int64_t bytes = tensors[i].memory ? ckpt_tensor_bytes(&tensors[i]) : 0;
        most = bytes > most ? bytes : most;
    }
    void *host = mem_alloc((size_t)most);
    if (!host)
        return err_no_memory(err, (unsigned long long)most);
    for (size_t i = 0; i < n && !code; i++)
        code = read_tensor(f, found, &tensors[i], host, err);
    mem_free(host);
    return code;
}

int ckpt_load_tensors(const struct ckpt_found *found, const struct ckpt_tensor *tensors, size_t n, struct snug_err *err)
{
    struct arena a = {0};
    struct st_file f;
    char *path = arena_printf(&a, "%s/" CKPT_TENSORS, found->path);
    int code = path ? SNUG_OK : err_no_memory(err, strlen(found->path));
    if (!code && found->world_size != 1)
        code = err_set(err, SNUG_ERR_CHECKPOINT, "%s: saved by %lld ranks; resume with as many", found->path,
                       (long long)found->world_size);
    if (!code && !(code = st_open(found->io, path, &f, err))) {
        code = match(&f, tensors, n, err);
        if (!code)
            code = read_tensors(&f, found, tensors, n, err);
        st_close(&f);
    }
    arena_free(&a);
    if (code == SNUG_ERR_INPUT && err)
        err->code = SNUG_ERR_CHECKPOINT;
    return code == SNUG_ERR_INPUT ? SNUG_ERR_CHECKPOINT : code;
}
