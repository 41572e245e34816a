#include "format/gguf/write.h"

#include <math.h>
#include <string.h>

enum { ALIGNMENT = 32 };
/* ORDER value_type in gguf.c */
enum { UINT32 = 4, INT32, FLOAT32, BOOL, STRING, ARRAY };

static void put_int(struct str *s, uint64_t x, int bytes)
{
    char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (char)(x >> 8 * i);
    str_append_n(s, b, (size_t)bytes);
}

static void put_single(struct str *s, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    put_int(s, bits, 4);
}

static void put_string(struct str *s, const char *text)
{
    put_int(s, strlen(text), 8);
    str_append(s, text);
}

static struct str *put_key(struct gguf_writer *w, const char *key, uint32_t type)
{
    put_string(&w->pairs, key);
    put_int(&w->pairs, type, 4);
    w->n_pairs++;
    return &w->pairs;
}

static struct str *put_array(struct gguf_writer *w, const char *key, uint32_t type, size_t n)
{
    put_int(put_key(w, key, ARRAY), type, 4);
    put_int(&w->pairs, n, 8);
    return &w->pairs;
}

void gguf_put_uint(struct gguf_writer *w, const char *key, uint32_t x)
{
    put_int(put_key(w, key, UINT32), x, 4);
}

void gguf_put_float(struct gguf_writer *w, const char *key, double x)
{
    put_single(put_key(w, key, FLOAT32), (float)x);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool x)
{
    put_int(put_key(w, key, BOOL), x, 1);
}

void gguf_put_text(struct gguf_writer *w, const char *key, const char *text)
{
    put_string(put_key(w, key, STRING), text);
}

void gguf_put_texts(struct gguf_writer *w, const char *key, size_t n, const char *(*get)(void *ctx, size_t i),
                    void *ctx)
{
    struct str *s = put_array(w, key, STRING, n);
    for (size_t i = 0; i < n; i++)
        put_string(s, get(ctx, i));
}

void gguf_put_ints(struct gguf_writer *w, const char *key, size_t n, const int32_t *x)
{
    struct str *s = put_array(w, key, INT32, n);
    for (size_t i = 0; i < n; i++)
        put_int(s, (uint32_t)x[i], 4);
}

void gguf_put_floats(struct gguf_writer *w, const char *key, size_t n, const float *x)
{
    struct str *s = put_array(w, key, FLOAT32, n);
    for (size_t i = 0; i < n; i++)
        put_single(s, x[i]);
}

static int64_t aligned(int64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void gguf_put_tensor(struct gguf_writer *w, const char *name, const struct gguf_type *type, int ndim,
                     const int64_t *shape)
{
    size_t i = w->n_tensors;
    int64_t elements = 1;
    if (!MEM_GROW(w->types, w->types_cap, i + 1) || !MEM_GROW(w->elements, w->elements_cap, i + 1)) {
        w->tensors.failed = true;
        return;
    }
    put_string(&w->tensors, name);
    put_int(&w->tensors, (uint32_t)ndim, 4);
    for (int k = ndim - 1; k >= 0; k--) {
        put_int(&w->tensors, (uint64_t)shape[k], 8);
        elements *= shape[k];
    }
    put_int(&w->tensors, (uint32_t)type->id, 4);
    put_int(&w->tensors, (uint64_t)w->data_bytes, 8);
    w->data_bytes += aligned(elements / type->block * type->block_bytes);
    w->types[i] = type;
    w->elements[i] = elements;
    w->n_tensors++;
}

static int pad(struct gguf_writer *w, struct snug_err *err)
{
    static const char zeros[ALIGNMENT];
    int64_t at = w->file->bytes + (int64_t)w->file->waiting.n;
    return out_file_write(w->file, zeros, (size_t)(aligned(at) - at), err);
}

int gguf_write_start(struct gguf_writer *w, struct out_file *file, struct snug_err *err)
{
    struct str head = {0};
    w->file = file;
    TRY(str_check(&w->pairs, err));
    TRY(str_check(&w->tensors, err));
    str_append(&head, "GGUF");
    put_int(&head, 3, 4);
    put_int(&head, w->n_tensors, 8);
    put_int(&head, w->n_pairs, 8);
    int code = str_check(&head, err);
    if (!code)
        code = out_file_write(file, head.s, head.n, err);
    str_free(&head);
    if (!code && w->pairs.n)
        code = out_file_write(file, w->pairs.s, w->pairs.n, err);
    if (!code && w->tensors.n)
        code = out_file_write(file, w->tensors.s, w->tensors.n, err);
    return code ? code : pad(w, err);
}

/* d = max |x| / 127, q = x / d rounded, halves away from 0: ggml's quantize_row_q8_0_ref. */
static void block_q8_0(const float *x, unsigned char *to)
{
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    uint16_t half = fp16_from_float(d);
    to[0] = (unsigned char)half;
    to[1] = (unsigned char)(half >> 8);
    for (int i = 0; i < 32; i++)
        to[2 + i] = (unsigned char)(int8_t)roundf(x[i] * inverse);
}

static int encode(const struct gguf_type *type, const char *name, const float *x, int64_t n, unsigned char *to,
                  struct snug_err *err)
{
    if (type->dequantize) {
        for (int64_t i = 0; i < n / 32; i++)
            block_q8_0(x + 32 * i, to + 34 * i);
        return SNUG_OK;
    }
    dtype_convert(to, type->dtype, x, DT_F32, n);
    for (int64_t i = 0; type->dtype == DT_F16 && i < n; i++)
        if ((to[2 * i + 1] & 0x7C) == 0x7C && isfinite(x[i]))
            return err_set(err, SNUG_ERR_USAGE, "%s: %g is beyond fp16, whose largest number is 65504; use bf16", name,
                           x[i]);
    return SNUG_OK;
}

int gguf_write_elements(struct gguf_writer *w, const char *name, const float *x, int64_t n, struct snug_err *err)
{
    enum { PIECE = 4096 }; /* elements: a multiple of every block */
    const struct gguf_type *type = w->types[w->at];
    unsigned char to[PIECE * 4];
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t k = n - at < PIECE ? n - at : PIECE;
        TRY(encode(type, name, x + at, k, to, err));
        TRY(out_file_write(w->file, (const char *)to, (size_t)(k / type->block * type->block_bytes), err));
    }
    w->done += n;
    if (w->done < w->elements[w->at])
        return SNUG_OK;
    w->at++;
    w->done = 0;
    return pad(w, err);
}

void gguf_writer_free(struct gguf_writer *w)
{
    str_free(&w->pairs);
    str_free(&w->tensors);
    mem_free(w->types);
    mem_free(w->elements);
    *w = (struct gguf_writer){0};
}
