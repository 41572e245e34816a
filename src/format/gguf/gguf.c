#include "format/gguf/gguf.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* The bytes before the data, from front to back. Nothing is believed before it was compared with what is left of the file, and
 * memory grows with what has been read, not with what counts promise. */
struct reader {
    struct gguf_file *f;
    struct snug_err *err;
    unsigned char block[1 << 16];
    int64_t block_at;
    size_t block_bytes;
    int64_t at;     /* the next byte */
    int64_t values; /* of metadata so far */
    char *text;     /* the last string */
    size_t text_cap;
    size_t tensors_cap;
};

/* ---- numbers and strings ---- */

static int take(struct reader *r, void *to, size_t n)
{
    unsigned char *out = to;
    if ((int64_t)n > r->f->file_bytes - r->at || (int64_t)n > GGUF_MAX_HEADER - r->at)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: %s at byte %lld, within what stands before the data" GGUF_AGAIN,
                       r->f->path, r->at > GGUF_MAX_HEADER / 2 ? "over the limit of 256 MiB" : "ends",
                       (long long)(r->at > GGUF_MAX_HEADER / 2 ? r->at : r->f->file_bytes));
    while (n) {
        int64_t have = r->block_at + (int64_t)r->block_bytes - r->at;
        if (have <= 0) {
            int64_t left = r->f->file_bytes - r->at;
            r->block_at = r->at;
            r->block_bytes = left < (int64_t)sizeof r->block ? (size_t)left : sizeof r->block;
            TRY(io_read_at(r->f->io, r->f->fd, r->f->path, r->block, r->block_bytes, r->at, r->err));
            continue;
        }
        size_t part = have < (int64_t)n ? (size_t)have : n;
        memcpy(out, r->block + (r->at - r->block_at), part);
        out += part;
        n -= part;
        r->at += (int64_t)part;
    }
    return SNUG_OK;
}

static int take_uint(struct reader *r, int bytes, uint64_t *out)
{
    unsigned char b[8];
    TRY(take(r, b, (size_t)bytes));
    *out = 0;
    for (int i = 0; i < bytes; i++)
        *out |= (uint64_t)b[i] << 8 * i;
    return SNUG_OK;
}

/* A string into r->text, ended with a 0 byte. `what` is for messages. */
static int take_text(struct reader *r, const char *what, uint64_t most, size_t *n)
{
    uint64_t bytes;
    TRY(take_uint(r, 8, &bytes));
    if (bytes > most || (int64_t)bytes > r->f->file_bytes - r->at)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: %.80s has %llu bytes, the limit is %llu and %lld follow" GGUF_AGAIN,
                       r->f->path, what, (unsigned long long)bytes, (unsigned long long)most,
                       (long long)(r->f->file_bytes - r->at));
    if (!MEM_GROW(r->text, r->text_cap, bytes + 1))
        return err_no_memory(r->err, bytes + 1);
    TRY(take(r, r->text, bytes));
    r->text[bytes] = 0;
    for (size_t i = 0, k; i < bytes; i += k)
        if (!(k = (size_t)utf8_sequence(r->text + i, bytes - i)) || !r->text[i])
            return err_set(r->err, SNUG_ERR_INPUT, "%s: %.80s is not UTF-8 text at its byte %zu" GGUF_AGAIN, r->f->path,
                           what, i);
    *n = bytes;
    return SNUG_OK;
}

/* ---- metadata ---- */

/* ORDER value_type */
enum value_type {
    UINT8,
    INT8,
    UINT16,
    INT16,
    UINT32,
    INT32,
    FLOAT32,
    BOOL,
    STRING,
    ARRAY,
    UINT64,
    INT64,
    FLOAT64,
    VALUE_TYPES
};
/* In bytes; a string and an array take at least their lengths. */
static const int value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

/* The number that `bits` stand for. NULL: no memory; what is not finite is null. */
static json_t *number(enum value_type type, uint64_t bits)
{
    float single;
    double wide;
    uint32_t low = (uint32_t)bits;
    switch (type) {
    case INT8:
        return json_integer((int8_t)bits);
    case INT16:
        return json_integer((int16_t)bits);
    case INT32:
        return json_integer((int32_t)bits);
    case INT64:
        return json_integer((int64_t)bits);
    case FLOAT32:
        memcpy(&single, &low, 4);
        return single - single == 0 ? json_real(single) : json_null();
    case FLOAT64:
        memcpy(&wide, &bits, 8);
        return wide - wide == 0 ? json_real(wide) : json_null();
    default:
        return bits <= INT64_MAX ? json_integer((int64_t)bits) : json_real((double)bits);
    }
}

static int take_value(struct reader *r, const char *key, uint64_t type, bool inner, json_t **out);

static int take_array(struct reader *r, const char *key, json_t **out)
{
    uint64_t type, n;
    TRY(take_uint(r, 4, &type));
    TRY(take_uint(r, 8, &n));
    if (type >= VALUE_TYPES || type == ARRAY)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: metadata %.80s is an array of %s %llu, which is not supported",
                       r->f->path, key, type == ARRAY ? "arrays, type" : "the unknown type", (unsigned long long)type);
    if (n > (uint64_t)(GGUF_MAX_VALUES - r->values) || (int64_t)n * value_bytes[type] > r->f->file_bytes - r->at)
        return err_set(r->err, SNUG_ERR_INPUT,
                       "%s: metadata %.80s claims %llu values, where %lld bytes follow and %lld values are the "
                       "limit" GGUF_AGAIN,
                       r->f->path, key, (unsigned long long)n, (long long)(r->f->file_bytes - r->at),
                       (long long)(GGUF_MAX_VALUES - r->values));
    if (!(*out = json_array()))
        return err_no_memory(r->err, 64);
    for (uint64_t i = 0; i < n; i++) {
        json_t *item;
        TRY(take_value(r, key, type, true, &item));
        if (json_array_append_new(*out, item))
            return err_no_memory(r->err, n);
    }
    return SNUG_OK;
}

/* *out is the caller's also after a failure, and may then be NULL. */
static int take_value(struct reader *r, const char *key, uint64_t type, bool inner, json_t **out)
{
    uint64_t bits;
    size_t n;
    *out = NULL;
    r->values++;
    if (type >= VALUE_TYPES)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: metadata %.80s has the unknown type %llu" GGUF_AGAIN, r->f->path,
                       key, (unsigned long long)type);
    if (type == ARRAY && !inner)
        return take_array(r, key, out);
    if (type == STRING) {
        TRY(take_text(r, key, GGUF_MAX_TEXT, &n));
        *out = json_stringn_nocheck(r->text, n);
    } else {
        TRY(take_uint(r, value_bytes[type], &bits));
        if (type == BOOL && bits > 1)
            return err_set(r->err, SNUG_ERR_INPUT, "%s: metadata %.80s is the bool %llu, neither 0 nor 1" GGUF_AGAIN,
                           r->f->path, key, (unsigned long long)bits);
        *out = type == BOOL ? json_boolean(bits) : number((enum value_type)type, bits);
    }
    return *out ? SNUG_OK : err_no_memory(r->err, 64);
}

static int take_pair(struct reader *r)
{
    uint64_t type;
    size_t n;
    json_t *value;
    TRY(take_text(r, "a key of the metadata", UINT16_MAX, &n));
    char *key = mem_strdup(r->text);
    if (!key)
        return err_no_memory(r->err, n + 1);
    int code = take_uint(r, 4, &type);
    if (!code && json_object_get(r->f->metadata, key))
        code = err_set(r->err, SNUG_ERR_INPUT, "%s: metadata %.80s is there twice" GGUF_AGAIN, r->f->path, key);
    if (!code) {
        code = take_value(r, key, type, false, &value);
        if (!code && json_object_set_nocheck(r->f->metadata, key, value))
            code = err_no_memory(r->err, n);
        json_decref(value);
    }
    mem_free(key);
    return code;
}

/* ---- tensors ---- */

/* Dimensions, and from them and the type the size. */
static int take_shape(struct reader *r, struct gguf_tensor *t)
{
    uint64_t ndim, n;
    TRY(take_uint(r, 4, &ndim));
    if (!ndim || ndim > GGUF_MAX_DIMS)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: tensor %.80s has %llu dimensions; 1 to %d are possible" GGUF_AGAIN,
                       r->f->path, t->name, (unsigned long long)ndim, GGUF_MAX_DIMS);
    t->ndim = (int)ndim;
    t->elements = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        TRY(take_uint(r, 8, &n));
        if (n >= (uint64_t)1 << 48 || __builtin_mul_overflow(t->elements, (int64_t)n, &t->elements))
            return err_set(r->err, SNUG_ERR_INPUT, "%s: tensor %.80s: the dimension %llu is too large" GGUF_AGAIN,
                           r->f->path, t->name, (unsigned long long)n);
        t->shape[i] = (int64_t)n;
    }
    return SNUG_OK;
}

static int take_type(struct reader *r, struct gguf_tensor *t)
{
    uint64_t id;
    TRY(take_uint(r, 4, &id));
    t->type = gguf_type((int64_t)id);
    if (!t->type)
        return err_set(r->err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s has the unknown type %llu; get the model as Q8_0, BF16 or F16", r->f->path,
                       t->name, (unsigned long long)id);
    if (!t->type->block)
        return err_set(r->err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s is %s, which is not read; get the model as Q8_0, Q6_K, Q4_K, BF16 or F16",
                       r->f->path, t->name, t->type->name);
    if (t->shape[t->ndim - 1] % t->type->block)
        return err_set(r->err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s is %s, whose rows are multiples of %d elements, but has rows of "
                       "%lld" GGUF_AGAIN,
                       r->f->path, t->name, t->type->name, t->type->block, (long long)t->shape[t->ndim - 1]);
    if (__builtin_mul_overflow(t->elements / t->type->block, (int64_t)t->type->block_bytes, &t->bytes))
        return err_set(r->err, SNUG_ERR_INPUT, "%s: the size of tensor %.80s overflows" GGUF_AGAIN, r->f->path,
                       t->name);
    return SNUG_OK;
}

static int take_tensor(struct reader *r)
{
    enum { MAX_NAME = 255 };
    struct gguf_file *f = r->f;
    size_t n;
    uint64_t offset;
    TRY(take_text(r, "a tensor's name", MAX_NAME, &n));
    if (!MEM_GROW(f->tensors, r->tensors_cap, f->n_tensors + 1))
        return err_no_memory(r->err, (f->n_tensors + 1) * sizeof *f->tensors);
    struct gguf_tensor *t = &f->tensors[f->n_tensors];
    *t = (struct gguf_tensor){.name = arena_strdup(&f->arena, r->text)};
    if (!t->name)
        return err_no_memory(r->err, n + 1);
    TRY(take_shape(r, t));
    TRY(take_type(r, t));
    TRY(take_uint(r, 8, &offset));
    if (offset > (uint64_t)f->file_bytes)
        return err_set(r->err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s begins at byte %llu of the data, beyond the file" GGUF_AGAIN, f->path, t->name,
                       (unsigned long long)offset);
    t->at = (int64_t)offset;
    f->n_tensors++;
    return SNUG_OK;
}

/* ---- all together ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors lie in the file, at multiples of the alignment, and do not overlap; `at` becomes the place in the file. */
static int check_layout(struct reader *r)
{
    struct gguf_file *f = r->f;
    int64_t alignment = 32, end = 0;
    TRY(json_get_int(f->metadata, f->path, "general.alignment", false, 1, 1 << 24, &alignment, r->err));
    if (alignment & (alignment - 1))
        return err_set(r->err, SNUG_ERR_INPUT, "%s: general.alignment is %lld; a power of two was expected" GGUF_AGAIN,
                       f->path, (long long)alignment);
    int64_t data_at = f->data_at = (r->at + alignment - 1) / alignment * alignment;
    if (f->n_tensors)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_place);
    for (size_t i = 0; i < f->n_tensors; i++) {
        struct gguf_tensor *t = &f->tensors[i];
        if (t->at % alignment)
            return err_set(
                r->err, SNUG_ERR_INPUT,
                "%s: tensor %.80s begins at byte %lld of the data, no multiple of the alignment %lld" GGUF_AGAIN,
                f->path, t->name, (long long)t->at, (long long)alignment);
        if (t->at < end)
            return err_set(r->err, SNUG_ERR_INPUT, "%s: tensors %.70s and %.70s overlap in the data" GGUF_AGAIN,
                           f->path, t[-1].name, t->name);
        if (t->bytes > f->file_bytes - data_at - t->at)
            return err_set(r->err, SNUG_ERR_INPUT,
                           "%s: %lld bytes are missing: tensor %.80s ends beyond the file" GGUF_AGAIN, f->path,
                           (long long)(t->bytes - (f->file_bytes - data_at - t->at)), t->name);
        end = t->at + t->bytes;
        t->at += data_at;
    }
    if (f->n_tensors)
        qsort(f->tensors, f->n_tensors, sizeof *f->tensors, by_name);
    for (size_t i = 1; i < f->n_tensors; i++)
        if (!by_name(&f->tensors[i - 1], &f->tensors[i]))
            return err_set(r->err, SNUG_ERR_INPUT, "%s: tensor %.120s is there twice" GGUF_AGAIN, f->path,
                           f->tensors[i].name);
    return SNUG_OK;
}

static int check_version(struct reader *r)
{
    struct gguf_file *f = r->f;
    unsigned char magic[4];
    uint64_t version;
    if (f->file_bytes < 24)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: %lld bytes, too short for a GGUF file" GGUF_AGAIN, f->path,
                       (long long)f->file_bytes);
    TRY(take(r, magic, 4));
    TRY(take_uint(r, 4, &version));
    if (memcmp(magic, "GGUF", 4))
        return err_set(r->err, SNUG_ERR_INPUT, "%s: not a GGUF file: it does not begin with \"GGUF\"" GGUF_AGAIN,
                       f->path);
    if (version && !(version & 0xFFFF))
        return err_set(r->err, SNUG_ERR_INPUT, "%s: a big-endian GGUF file; get the little-endian one", f->path);
    if (version != 2 && version != 3)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: GGUF version %llu; 2 and 3 are read; get a newer file of the model",
                       f->path, (unsigned long long)version);
    f->version = (int)version;
    return SNUG_OK;
}

static int read_header(struct reader *r)
{
    struct gguf_file *f = r->f;
    uint64_t tensors, pairs;
    TRY(check_version(r));
    TRY(take_uint(r, 8, &tensors));
    TRY(take_uint(r, 8, &pairs));
    if (tensors > GGUF_MAX_TENSORS || pairs > GGUF_MAX_VALUES)
        return err_set(r->err, SNUG_ERR_INPUT, "%s: claims %llu tensors and %llu pairs of metadata" GGUF_AGAIN, f->path,
                       (unsigned long long)tensors, (unsigned long long)pairs);
    if (!(f->metadata = json_object()))
        return err_no_memory(r->err, 64);
    for (uint64_t i = 0; i < pairs; i++)
        TRY(take_pair(r));
    for (uint64_t i = 0; i < tensors; i++)
        TRY(take_tensor(r));
    return check_layout(r);
}

int gguf_open(const struct io *io, const char *path, struct gguf_file *f, struct snug_err *err)
{
    *f = (struct gguf_file){.io = io, .path = mem_strdup(path), .fd = -1};
    struct reader *r = mem_alloc(sizeof *r);
    int code = f->path && r ? SNUG_OK : err_no_memory(err, sizeof *r);
    if (!code)
        code = io_open_read(io, path, &f->fd, &f->file_bytes, err);
    if (!code) {
        r->f = f;
        r->err = err;
        code = read_header(r);
        mem_free(r->text);
    }
    mem_free(r);
    if (code)
        gguf_close(f);
    return code;
}

void gguf_close(struct gguf_file *f)
{
    if (f->fd >= 0)
        f->io->close(f->io, f->fd);
    json_decref(f->metadata);
    mem_free(f->tensors);
    mem_free(f->path);
    arena_free(&f->arena);
    *f = (struct gguf_file){.fd = -1};
}

const struct gguf_tensor *gguf_find(const struct gguf_file *f, const char *name)
{
    const struct gguf_tensor key = {.name = name};
    return f->n_tensors ? bsearch(&key, f->tensors, f->n_tensors, sizeof *f->tensors, by_name) : NULL;
}

int gguf_read(const struct gguf_file *f, const struct gguf_tensor *t, int64_t first, int64_t count, void *to,
              struct snug_err *err)
{
    enum { MOST = 256 }; /* elements of a block */
    const struct gguf_type *type = t->type;
    unsigned char stored[1 << 14];
    int64_t most = (int64_t)sizeof stored / type->block_bytes;
    if (!type->dequantize)
        return io_read_at(f->io, f->fd, f->path, to, (size_t)(count * type->block_bytes),
                          t->at + first * type->block_bytes, err);
    for (float *out = to; count;) {
        float part[MOST];
        int64_t skip = first % type->block, blocks = count / type->block, n = type->block - skip;
        bool whole = !skip && blocks;
        blocks = !whole ? 1 : blocks < most ? blocks : most;
        TRY(io_read_at(f->io, f->fd, f->path, stored, (size_t)(blocks * type->block_bytes),
                       t->at + first / type->block * type->block_bytes, err));
        type->dequantize(stored, blocks, whole ? out : part);
        n = whole ? blocks * type->block : n < count ? n : count;
        if (!whole)
            memcpy(out, part + skip, (size_t)n * sizeof *out);
        out += n;
        first += n;
        count -= n;
    }
    return SNUG_OK;
}
