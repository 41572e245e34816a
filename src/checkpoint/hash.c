/* The state hash, and comparing the documents of two runs.
 *
 * state hash = XXH3-128 of, for each tensor in the order of the bytes of its name,
 *                  "<name>\n<dtype> <dim> <dim> ...\n<hash of its bytes>\n"
 *              and then "state\n<hash of the canonical document>\n";
 * a hash is 32 hex digits. Canonical: members sorted, no blanks, reals with 17 digits. */
#include "checkpoint/internal.h"
#include "format/json.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t ckpt_tensor_bytes(const struct ckpt_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return dtype_bytes(t->dtype, n);
}

int64_t ckpt_disk_bytes(const struct ckpt_tensor *tensors, size_t n, size_t state_bytes)
{
    int64_t bytes = 65536 + (int64_t)state_bytes;
    for (size_t i = 0; i < n; i++)
        bytes += ckpt_tensor_bytes(&tensors[i]) + 512 + 2 * (int64_t)strlen(tensors[i].name);
    return bytes;
}

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

int ckpt_order(const struct ckpt_tensor *tensors, size_t n, size_t *order, struct snug_err *err)
{
    struct named *named = mem_alloc(n * sizeof *named);
    if (!named)
        return err_no_memory(err, n * sizeof *named);
    for (size_t i = 0; i < n; i++)
        named[i] = (struct named){tensors[i].name, i};
    qsort(named, n, sizeof *named, by_name);
    for (size_t i = 0; i < n; i++) {
        assert(i == 0 || strcmp(named[i - 1].name, named[i].name));
        order[i] = named[i].index;
    }
    mem_free(named);
    return SNUG_OK;
}

static int append(const char *text, size_t n, void *to)
{
    str_append_n(to, text, n);
    return 0;
}

int ckpt_canonical(const json_t *state, struct str *out, struct snug_err *err)
{
    assert(json_is_object(state));
    json_t *hashed = json_copy((json_t *)state); /* shallow */
    if (!hashed)
        return err_no_memory(err, 64);
    json_object_del(hashed, "about");
    int failed = json_dump_callback(hashed, append, out, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(hashed);
    return failed ? err_no_memory(err, out->n) : str_check(out, err);
}

static void add_text(struct hash_state *h, const char *text)
{
    hash_add(h, text, strlen(text));
}

static void add_hash(struct hash_state *h, struct hash128 x)
{
    char hex[33];
    hash_hex(x, hex);
    add_text(h, hex);
    add_text(h, "\n");
}

struct hash128 ckpt_combine(const struct ckpt_tensor *tensors, const struct hash128 *hashes, size_t n,
                            const char *canonical, size_t bytes, struct hash_state *h)
{
    for (size_t i = 0; i < n; i++) {
        add_text(h, tensors[i].name);
        add_text(h, "\n");
        add_text(h, dtype_name(tensors[i].dtype));
        for (int d = 0; d < tensors[i].ndim; d++) {
            char dim[32];
            snprintf(dim, sizeof dim, " %lld", (long long)tensors[i].shape[d]);
            add_text(h, dim);
        }
        add_text(h, "\n");
        add_hash(h, hashes[i]);
    }
    add_text(h, "state\n");
    add_hash(h, hash_bytes(canonical, bytes));
    return hash_end(h);
}

int ckpt_get(const struct ckpt_tensor *t, void *to, struct snug_err *err)
{
    int64_t bytes = ckpt_tensor_bytes(t);
    if (t->memory)
        return t->memory->get(t->memory->ctx, to, t->data, bytes, err);
    if (bytes)
        memcpy(to, t->data, (size_t)bytes);
    return SNUG_OK;
}

static int ckpt_hash_tensor(const struct ckpt_tensor *t, struct hash128 *out, struct snug_err *err)
{
    size_t bytes = (size_t)ckpt_tensor_bytes(t);
    void *host = t->memory ? mem_alloc(bytes) : t->data;
    int code = !t->memory ? SNUG_OK : host ? ckpt_get(t, host, err) : err_no_memory(err, bytes);
    if (!code)
        *out = hash_bytes(host, bytes);
    if (t->memory)
        mem_free(host);
    return code;
}

int ckpt_state_hash(const struct ckpt_tensor *tensors, size_t n, const json_t *state, struct hash128 *out,
                    struct snug_err *err)
{
    struct arena a = {0};
    struct str canonical = {0};
    struct hash_state *h = NULL;
    int code;
    size_t *order = arena_alloc(&a, n * sizeof *order);
    struct ckpt_tensor *sorted = arena_alloc(&a, n * sizeof *sorted);
    struct hash128 *hashes = arena_alloc(&a, n * sizeof *hashes);
    if (!order || !sorted || !hashes || !(h = hash_new())) {
        code = err_no_memory(err, n * (sizeof *order + sizeof *sorted + sizeof *hashes));
        goto done;
    }
    TRY_TO(done, ckpt_order(tensors, n, order, err));
    TRY_TO(done, ckpt_canonical(state, &canonical, err));
    for (size_t i = 0; i < n; i++) {
        sorted[i] = tensors[order[i]];
        TRY_TO(done, ckpt_hash_tensor(&sorted[i], &hashes[i], err));
    }
    *out = ckpt_combine(sorted, hashes, n, canonical.s, canonical.n, h);
    h = NULL;
done:
    if (h)
        hash_end(h);
    str_free(&canonical);
    arena_free(&a);
    return code;
}

/* The value for a message: compact, and short. */
static void show(const json_t *v, char *out, size_t room)
{
    struct str s = {0};
    char number[64];
    if (!v || json_is_real(v))
        str_append(&s, json_value_text((json_t *)v, number));
    else if (json_dump_callback(v, append, &s, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)))
        str_append(&s, "?");
    if (s.n < room)
        snprintf(out, room, "%s", str_text(&s));
    else
        snprintf(out, room, "%.*s...", (int)room - 4, str_text(&s));
    str_free(&s);
}

/* Goes down to the first leaf that differs; `where` grows to its name. */
static bool differs(const json_t *a, const json_t *b, struct str *where, const json_t **old, const json_t **new)
{
    if (a && b && json_equal(a, b))
        return false;
    size_t n = where->n;
    const char *key;
    json_t *v;
    if (json_is_object(a) && json_is_object(b)) {
        /* b first: its members are in the order of the tables, where a cause comes before what follows from it */
        json_object_foreach((json_t *)b, key, v)
        {
            str_printf(where, ".%s", key);
            if (differs(json_object_get(a, key), v, where, old, new))
                return true;
            where->n = n;
        }
        json_object_foreach((json_t *)a, key, v)
        {
            str_printf(where, ".%s", key);
            if (differs(v, json_object_get(b, key), where, old, new))
                return true;
            where->n = n;
        }
    } else if (json_is_array(a) && json_is_array(b)) {
        for (size_t i = 0; i < json_array_size(a) || i < json_array_size(b); i++) {
            str_printf(where, "[%zu]", i);
            if (differs(json_array_get(a, i), json_array_get(b, i), where, old, new))
                return true;
            where->n = n;
        }
    }
    *old = a;
    *new = b;
    return true;
}

/* What differs, for a message; an option as it is typed: options.optim_args.momentum is --optim-args momentum. */
static void show_name(const char *where, char *out, size_t room)
{
    const char *prefix = "options.";
    bool option = !strncmp(where, prefix, strlen(prefix));
    snprintf(out, room, "%s%s", option ? "--" : "", option ? where + strlen(prefix) : where);
    for (char *c = out; option && *c; c++) {
        if (*c == '.') {
            *c = ' ';
            break; /* keys have no hyphens */
        }
        *c = *c == '_' ? '-' : *c;
    }
}

int ckpt_compare(const char *path, const json_t *old_state, const json_t *new_state, const char *option,
                 const char *const *keys, size_t n_keys, struct snug_err *err)
{
    for (size_t i = 0; i < n_keys; i++) {
        const json_t *old = json_object_get(old_state, keys[i]), *new = json_object_get(new_state, keys[i]);
        struct str where = {0};
        str_append(&where, keys[i]);
        if ((old || new) && differs(old, new, &where, &old, &new)) {
            char name[96], was[64], is[64];
            show_name(str_text(&where), name, sizeof name);
            show(old, was, sizeof was);
            show(new, is, sizeof is);
            int code = err_set(err, SNUG_ERR_CHECKPOINT,
                               "%s: %s: %s -> %s; resume with what the checkpoint has, %s%sor start anew in another "
                               "--output-dir",
                               path, name, was, is, option ? option : "", option ? ", " : "");
            str_free(&where);
            return code;
        }
        str_free(&where);
    }
    return SNUG_OK;
}
