/* Weights that bitsandbytes has quantised, as numbers. Of a weight PATH.weight a folder has, as transformers saves it, in 4 bits:
 *     .weight                                  codes, two to a byte, the first in its upper half; whatever the type of the tensor
 *     .weight.quant_state.bitsandbytes__TYPE   JSON: shape, blocksize; nested_blocksize and nested_offset where scales are codes
 *     .weight.quant_map                        F32 (16): what a code stands for, times the scale of its block
 *     .weight.absmax                           the scales, one for each block of elements: F32, or codes, U8
 *     .weight.nested_quant_map, nested_absmax  F32 (256), and one for each block of scales: as above, and the offset is added
 * And in 8 bits (LLM.int8):
 *     .weight, .SCB, .weight_format            I8 (O,I), F32 (O): a row's codes, times SCB / 127 */
#include "format/quantised/quantised.h"

#include <stdlib.h>
#include <string.h>

#define STATE ".quant_state.bitsandbytes__"
#define SCALES_8BIT ".SCB"

enum { CODES = 16, NESTED_CODES = 256, NESTED_BLOCK = 256, STATE_LIMIT = 1 << 16 };

/* What a tensor of the model is read from. */
struct origin {
    struct model_tensor codes, scales, nested; /* nested.tensor NULL: scales are numbers */
    int64_t block, nested_block;               /* elements of each; block 0: rows of 8 bits */
    float offset, *map, *nested_map;
};

/* ---- reading ---- */

/* The scales of blocks [first, first + n), for mem_free. */
static int read_scales(const struct origin *o, int64_t first, int64_t n, float **out, struct snug_err *err)
{
    void *stored, *nested;
    TRY(quant_read_elements(&o->scales, first, n, &stored, err));
    *out = stored;
    if (!o->nested.tensor)
        return SNUG_OK;
    int64_t from = first / o->nested_block, to = (first + n - 1) / o->nested_block + 1;
    int code = quant_read_elements(&o->nested, from, to - from, &nested, err);
    float *scales = code ? NULL : mem_alloc((size_t)n * sizeof *scales);
    for (int64_t i = 0; scales && i < n; i++)
        scales[i] =
            o->nested_map[((uint8_t *)stored)[i]] * ((float *)nested)[(first + i) / o->nested_block - from] + o->offset;
    if (!code && !scales)
        code = err_no_memory(err, (size_t)n * sizeof *scales);
    if (!code)
        mem_free(nested);
    mem_free(stored);
    *out = scales;
    return code;
}

/* Elements [first, first + n) of 4 bits. */
static int read_4bit(const struct origin *o, int64_t first, int64_t n, float *to, struct snug_err *err)
{
    int64_t byte = first / 2, bytes = (first + n + 1) / 2 - byte, block = first / o->block;
    float *scales;
    uint8_t *codes = mem_alloc((size_t)bytes);
    if (!codes)
        return err_no_memory(err, (size_t)bytes);
    int code = st_read_part(o->codes.file, o->codes.tensor, byte, codes, (size_t)bytes, err);
    if (!code)
        code = read_scales(o, block, (first + n - 1) / o->block + 1 - block, &scales, err);
    for (int64_t i = first; !code && i < first + n; i++) {
        uint8_t two = codes[i / 2 - byte];
        to[i - first] = o->map[i % 2 ? two & 15 : two >> 4] * scales[i / o->block - block];
    }
    if (!code)
        mem_free(scales);
    mem_free(codes);
    return code;
}

/* The same of 8. */
static int read_8bit(const struct origin *o, int64_t first, int64_t n, float *to, struct snug_err *err)
{
    int64_t columns = o->codes.tensor->shape[1], row = first / columns;
    float *scales;
    void *codes;
    TRY(quant_read_elements(&o->codes, first, n, &codes, err));
    int code = read_scales(o, row, (first + n - 1) / columns + 1 - row, &scales, err);
    for (int64_t i = first; !code && i < first + n; i++)
        to[i - first] = (float)((int8_t *)codes)[i - first] * scales[i / columns - row] * (1 / 127.0f);
    if (!code)
        mem_free(scales);
    mem_free(codes);
    return code;
}

static int read_weight(struct quant_cache *cache, const void *of, int64_t first, int64_t n, float *to,
                       struct snug_err *err)
{
    const struct origin *o = of;
    (void)cache;
    return o->block ? read_4bit(o, first, n, to, err) : read_8bit(o, first, n, to, err);
}

/* ---- what is there ---- */

/* So many elements of this type. */
static int take_list(struct quant_finding *f, const char *name, const char *suffix, enum dtype dtype, int64_t n,
                     struct model_tensor *out, struct snug_err *err)
{
    TRY(quant_take(f, name, suffix, out, err));
    bool fits = out->tensor->dtype == dtype && st_elements(out->tensor) == n;
    return fits ? SNUG_OK : quant_bad_part(f, out, err);
}

/* A table of so many numbers, which the folder keeps. */
static int take_map(struct quant_finding *f, const char *name, const char *suffix, int64_t n, float **out,
                    struct snug_err *err)
{
    struct model_tensor t = {0};
    size_t bytes = (size_t)n * sizeof **out;
    TRY(take_list(f, name, suffix, DT_F32, n, &t, err));
    *out = arena_alloc(f->arena, bytes);
    return *out ? st_read(t.file, t.tensor, *out, err) : err_no_memory(err, bytes);
}

/* The JSON beside the codes, for json_decref. */
static int read_state(struct quant_finding *f, const struct model_tensor *t, json_t **out, struct snug_err *err)
{
    char *text;
    *out = NULL;
    if (t->tensor->dtype != DT_U8 || t->tensor->bytes > STATE_LIMIT)
        return quant_bad_part(f, t, err);
    TRY(quant_read_elements(t, 0, t->tensor->bytes, (void **)&text, err));
    int code = json_parse(text, (size_t)t->tensor->bytes, t->tensor->name, out, err);
    mem_free(text);
    return code ? code : json_is_object(*out) ? SNUG_OK : quant_bad_part(f, t, err);
}

/* The shape that the JSON says, and the bytes of its numbers. */
static int take_shape(struct quant_finding *f, json_t *state, const struct model_tensor *t, struct st_tensor *to,
                      struct snug_err *err)
{
    json_t *shape = json_object_get(state, "shape");
    size_t n = json_array_size(shape);
    to->bytes = sizeof(float);
    if (!n || n > ST_MAX_DIMS)
        return quant_bad_part(f, t, err);
    for (; (size_t)to->ndim < n; to->ndim++) {
        json_t *side = json_array_get(shape, (size_t)to->ndim);
        to->shape[to->ndim] = json_integer_value(side);
        if (!json_is_integer(side) || json_integer_value(side) < 1 ||
            __builtin_mul_overflow(to->bytes, to->shape[to->ndim], &to->bytes))
            return quant_bad_part(f, t, err);
    }
    return SNUG_OK;
}

/* What is beside the scales where these are codes. */
static int take_nested(struct quant_finding *f, json_t *state, const char *name, int64_t scales, struct origin *o,
                       struct snug_err *err)
{
    double offset;
    TRY(json_get_int(state, name, "nested_blocksize", true, 1, INT32_MAX, &o->nested_block, err));
    TRY(json_get_real(state, name, "nested_offset", true, -1e30, 1e30, &offset, err));
    o->offset = (float)offset;
    TRY(take_list(f, name, ".nested_absmax", DT_F32, quant_blocks(scales, o->nested_block), &o->nested, err));
    return take_map(f, name, ".nested_quant_map", NESTED_CODES, &o->nested_map, err);
}

static int take_4bit(struct quant_finding *f, json_t *state, const struct model_tensor *said, const char *name,
                     struct snug_err *err)
{
    struct origin *o = arena_alloc(f->arena, sizeof *o);
    struct st_tensor t = {.name = name};
    if (!o)
        return err_no_memory(err, sizeof *o);
    TRY(take_shape(f, state, said, &t, err));
    TRY(json_get_int(state, said->tensor->name, "blocksize", true, 2, INT32_MAX, &o->block, err));
    TRY(quant_take(f, name, "", &o->codes, err));
    int64_t elements = t.bytes / (int64_t)sizeof(float), scales = quant_blocks(elements, o->block);
    bool nested = json_object_get(state, "nested_blocksize") != NULL;
    int64_t odd = dtype_bytes(o->codes.tensor->dtype, 1) - 1; /* what a last element of another type has more */
    if (o->block % 2 || o->codes.tensor->bytes < elements / 2 + elements % 2 ||
        o->codes.tensor->bytes > elements / 2 + elements % 2 + odd)
        return quant_bad_part(f, &o->codes, err);
    TRY(take_map(f, name, ".quant_map", CODES, &o->map, err));
    TRY(take_list(f, name, ".absmax", nested ? DT_U8 : DT_F32, scales, &o->scales, err));
    if (nested)
        TRY(take_nested(f, state, name, scales, o, err));
    t.at = o->codes.tensor->at;
    return quant_add(f, t, read_weight, o, err);
}

static int add_4bit(struct quant_finding *f, const struct model_tensor *said, const char *end, struct snug_err *err)
{
    const char *name = quant_name(f, said->tensor->name, end, "");
    json_t *state;
    if (!name)
        return err_no_memory(err, strlen(said->tensor->name) + 1);
    f->gone[said - f->d->tensors] = true;
    int code = read_state(f, said, &state, err);
    if (!code)
        code = take_4bit(f, state, said, name, err);
    json_decref(state);
    return code;
}

/* PATH.SCB, where PATH.weight has 8 bits. */
static int add_8bit(struct quant_finding *f, const struct model_tensor *scales, const char *end, struct snug_err *err)
{
    struct origin *o = arena_alloc(f->arena, sizeof *o);
    struct model_tensor format;
    const char *path = quant_name(f, scales->tensor->name, end, "");
    const char *name = quant_name(f, scales->tensor->name, end, ".weight");
    if (!o || !path || !name)
        return err_no_memory(err, sizeof *o + 2 * strlen(scales->tensor->name));
    TRY(quant_take(f, name, "", &o->codes, err));
    const struct st_tensor *codes = o->codes.tensor;
    if (codes->dtype != DT_I8 || codes->ndim != 2 || !codes->bytes)
        return quant_bad_part(f, &o->codes, err);
    TRY(take_list(f, path, SCALES_8BIT, DT_F32, codes->shape[0], &o->scales, err));
    TRY(quant_take_any(f, name, "_format", &format, err));
    struct st_tensor weight = {.name = name, .ndim = 2, .shape = {codes->shape[0], codes->shape[1]}, .at = codes->at};
    return quant_add(f, weight, read_weight, o, err);
}

int bitsandbytes_find(struct quant_finding *f, struct snug_err *err)
{
    for (size_t i = 0; i < f->d->n_tensors; i++) {
        const struct model_tensor *t = &f->d->tensors[i];
        const char *state = strstr(t->tensor->name, STATE), *scales = quant_end(t->tensor->name, SCALES_8BIT);
        if (state)
            TRY(add_4bit(f, t, state, err));
        else if (scales)
            TRY(add_8bit(f, t, scales, err));
    }
    return SNUG_OK;
}

bool bitsandbytes_is(const struct model_dir *d)
{
    for (size_t i = 0; i < d->n_tensors; i++)
        if (strstr(d->tensors[i].tensor->name, STATE) || quant_end(d->tensors[i].tensor->name, SCALES_8BIT))
            return true;
    return false;
}

int bitsandbytes_bits(const struct model_dir *d, json_t *config, struct model_bits *out, struct snug_err *err)
{
    const char *path = d->config_path, *type = "fp4"; /* as transformers has it */
    bool four = false, eight = false;
    TRY(json_get_bool(config, path, "load_in_4bit", false, &four, err));
    TRY(json_get_bool(config, path, "load_in_8bit", false, &eight, err));
    TRY(json_get_bool(config, path, "bnb_4bit_use_double_quant", false, &out->nested, err));
    TRY(json_get_string(config, path, "bnb_4bit_quant_type", false, &type, err));
    out->fp4 = !strcmp(type, "fp4");
    out->bits = four ? 4 : eight ? 8 : 0;
    return SNUG_OK;
}

int model_dir_read_nested(const struct model_dir *d, const struct model_tensor *t, float **floats, int64_t *n,
                          struct snug_err *err)
{
    const struct origin *o = quant_found(d, t, read_weight);
    *floats = NULL;
    *n = 0;
    if (!o || !o->nested.tensor || o->nested_block != NESTED_BLOCK)
        return SNUG_OK;
    int64_t blocks = st_elements(o->nested.tensor);
    if (!(*floats = mem_alloc((size_t)(blocks + 1) * sizeof **floats)))
        return err_no_memory(err, (size_t)(blocks + 1) * sizeof **floats);
    *n = blocks + 1;
    (*floats)[0] = o->offset;
    return st_read(o->nested.file, o->nested.tensor, *floats + 1, err);
}
