/* Weights of experts in MXFP4 (Open Compute Project, Microscaling Formats 1.0), as gpt-oss has them, as numbers. Of a weight NAME (E,I,O) a
 * folder has:
 *     NAME_blocks  U8 (E,O,I/32,16)  codes, two to a byte, the first in its lower half: a sign and one of eight numbers
 *     NAME_scales  U8 (E,O,I/32)     the exponent of a block's 32 codes, and 127
 * The numbers are those of transformers, which fit into BF16. */
#include "format/model_dir.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

#define AGAIN "; get the model again"
#define BLOCKS "_blocks"
#define SCALES "_scales"

enum { BLOCK = 32, BLOCK_BYTES = BLOCK / 2 };

/* What a tensor of the model is read from. */
struct origin {
    struct model_tensor blocks, scales;
};

struct state {
    struct origin *origins; /* as the tensors of the st_file stand */
    const struct st_tensor *first;
    /* The codes and scales of the expert that was read last: its numbers lie across them. */
    const struct origin *kept;
    int64_t expert;
    uint8_t *codes, *exponents;
    struct arena arena;
};

/* ---- reading ---- */

static void forget(struct state *s)
{
    mem_free(s->codes);
    mem_free(s->exponents);
    s->codes = s->exponents = NULL;
    s->kept = NULL;
}

/* Reads what tensor t has of an expert, into new memory. */
static int read_expert(const struct model_tensor *t, int64_t expert, uint8_t **out, struct snug_err *err)
{
    int64_t bytes = t->tensor->bytes / t->tensor->shape[0];
    if (!(*out = mem_alloc((size_t)bytes)))
        return err_no_memory(err, (unsigned long long)bytes);
    return st_read_part(t->file, t->tensor, expert * bytes, *out, (size_t)bytes, err);
}

static int keep(struct state *s, const struct origin *o, int64_t expert, struct snug_err *err)
{
    if (s->kept == o && s->expert == expert)
        return SNUG_OK;
    forget(s);
    int code = read_expert(&o->blocks, expert, &s->codes, err);
    if (!code)
        code = read_expert(&o->scales, expert, &s->exponents, err);
    if (code)
        forget(s);
    else
        s->kept = o, s->expert = expert;
    return code;
}

static float number(uint8_t code, uint8_t exponent)
{
    static const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float x = ldexpf(magnitudes[code & 7], exponent - 127);
    return code & 8 ? -x : x;
}

/* Columns [o, o + n) of row i of the kept expert. */
static void put_row(const struct state *s, int64_t i, int64_t o, int64_t n, int64_t blocks, uint16_t *to)
{
    float row[256];
    for (int64_t at = 0; at < n; at += 256) {
        int64_t count = n - at < 256 ? n - at : 256;
        for (int64_t k = 0; k < count; k++) {
            int64_t block = (o + at + k) * blocks + i / BLOCK;
            uint8_t two = s->codes[block * BLOCK_BYTES + i % BLOCK / 2];
            row[k] = number(i % 2 ? two >> 4 : two & 15, s->exponents[block]);
        }
        dtype_convert(to + at, DT_BF16, row, DT_F32, count);
    }
}

static int read_part(void *state, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                     struct snug_err *err)
{
    struct state *s = state;
    const struct origin *o = &s->origins[t - s->first];
    int64_t first = offset / 2, end = first + (int64_t)bytes / 2, I = t->shape[1], O = t->shape[2];
    for (int64_t at = first, n; at < end; at += n) {
        int64_t row = at / O, column = at % O;
        n = end - at < O - column ? end - at : O - column;
        TRY(keep(s, o, row / I, err));
        put_row(s, row % I, column, n, I / BLOCK, (uint16_t *)to + (at - first));
    }
    return SNUG_OK;
}

static void close_state(void *state)
{
    struct state *s = state;
    forget(s);
    mem_free(s->origins);
    arena_free(&s->arena);
    mem_free(s);
}

static const struct st_source source = {read_part, close_state};

/* ---- what is there ---- */

/* Where a name ends so; NULL: it does not. */
static const char *end_of(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end) ? name + n - m : NULL;
}

static bool parts_fit(const struct st_tensor *blocks, const struct st_tensor *scales)
{
    bool fit = blocks->dtype == DT_U8 && scales->dtype == DT_U8 && blocks->ndim == 4 && scales->ndim == 3 &&
               blocks->shape[3] == BLOCK_BYTES && blocks->bytes > 0;
    for (int i = 0; i < 3 && fit; i++)
        fit = blocks->shape[i] == scales->shape[i];
    return fit;
}

/* Adds the weight that tensor `blocks` of the folder is codes of. */
static int add(struct model_dir *d, const struct model_tensor *blocks, struct snug_err *err)
{
    struct state *s = d->unpacked->source_state;
    struct st_tensor *t = &d->unpacked->tensors[d->unpacked->n_tensors];
    const struct st_tensor *b = blocks->tensor;
    int length = (int)(end_of(b->name, BLOCKS) - b->name);
    const char *name = arena_printf(&s->arena, "%.*s", length, b->name);
    const char *beside = arena_printf(&s->arena, "%.*s" SCALES, length, b->name);
    if (!name || !beside)
        return err_no_memory(err, strlen(b->name));
    const struct model_tensor *scales = model_dir_find(d, beside);
    if (!scales)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no %.160s, the scales of " BLOCKS " in MXFP4" AGAIN, d->path,
                       beside);
    if (!parts_fit(b, scales->tensor))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %.160s and its scales are not U8 (experts,out,in/32,16) and (experts,out,in/32)" AGAIN,
                       blocks->file->path, b->name);
    s->origins[d->unpacked->n_tensors++] = (struct origin){*blocks, *scales};
    *t = (struct st_tensor){.name = name,
                            .dtype = DT_BF16,
                            .ndim = 3,
                            .shape = {b->shape[0], b->shape[2] * BLOCK, b->shape[1]},
                            .at = b->at,
                            .bytes = b->bytes * 4}; /* of two codes to a byte, two bytes each */
    return SNUG_OK;
}

/* The folder's tensors with numbers in the place of codes and scales. */
static int replace_tensors(struct model_dir *d, struct snug_err *err)
{
    const struct state *s = d->unpacked->source_state;
    size_t n = 0;
    struct model_tensor *all = mem_alloc(d->n_tensors * sizeof *all);
    if (!all)
        return err_no_memory(err, d->n_tensors * sizeof *all);
    for (size_t i = 0; i < d->n_tensors; i++) {
        bool gone = false;
        for (size_t k = 0; k < d->unpacked->n_tensors && !gone; k++)
            gone = d->tensors[i].tensor == s->origins[k].blocks.tensor ||
                   d->tensors[i].tensor == s->origins[k].scales.tensor;
        if (!gone)
            all[n++] = d->tensors[i];
    }
    for (size_t k = 0; k < d->unpacked->n_tensors; k++)
        all[n++] = (struct model_tensor){&d->unpacked->tensors[k], d->unpacked};
    mem_free(d->tensors);
    d->tensors = all;
    d->n_tensors = n;
    return model_dir_sort(d, err);
}

static int open_numbers(struct model_dir *d, size_t n, struct snug_err *err)
{
    struct state *s = mem_alloc(sizeof *s);
    d->unpacked = mem_alloc(sizeof *d->unpacked);
    if (!s || !d->unpacked) {
        mem_free(s);
        mem_free(d->unpacked);
        d->unpacked = NULL;
        return err_no_memory(err, sizeof *s);
    }
    *s = (struct state){0};
    *d->unpacked =
        (struct st_file){.io = d->io, .path = mem_strdup(d->path), .fd = -1, .source = &source, .source_state = s};
    d->unpacked->tensors = mem_alloc(n * sizeof *d->unpacked->tensors);
    s->origins = mem_alloc(n * sizeof *s->origins);
    s->first = d->unpacked->tensors;
    if (!d->unpacked->path || !d->unpacked->tensors || !s->origins)
        return err_no_memory(err, n * sizeof *s->origins);
    for (size_t i = 0; i < d->n_tensors; i++)
        if (end_of(d->tensors[i].tensor->name, BLOCKS))
            TRY(add(d, &d->tensors[i], err));
    return replace_tensors(d, err);
}

int model_mxfp4_open(struct model_dir *d, struct snug_err *err)
{
    json_t *config = json_object_get(d->config, "quantization_config");
    const char *method = "";
    if (!json_is_object(config))
        return SNUG_OK;
    TRY(json_get_string(config, d->config_path, "quant_method", false, &method, err));
    if (strcmp(method, "mxfp4"))
        return SNUG_OK;
    size_t n = 0;
    for (size_t i = 0; i < d->n_tensors; i++)
        n += end_of(d->tensors[i].tensor->name, BLOCKS) != NULL;
    if (n) {
        TRY(open_numbers(d, n, err));
        model_dir_note(d, "%s: %zu tensors are in MXFP4, and read as BF16", d->path, n);
    }
    json_object_del(d->config, "quantization_config");
    return SNUG_OK;
}
