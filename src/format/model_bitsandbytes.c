/* Weights that bitsandbytes has quantised, as numbers. Of a weight PATH.weight a folder has, as transformers saves it, in 4 bits:
 *     .weight                                  codes, two to a byte, the first in its upper half; whatever the type of the tensor
 *     .weight.quant_state.bitsandbytes__TYPE   JSON: shape, blocksize; nested_blocksize and nested_offset where scales are codes
 *     .weight.quant_map                        F32 (16): what a code stands for, times the scale of its block
 *     .weight.absmax                           the scales, one for each block of elements: F32, or codes, U8
 *     .weight.nested_quant_map, nested_absmax  F32 (256), and one for each block of scales: as above, and the offset is added
 * And in 8 bits (LLM.int8):
 *     .weight, .SCB, .weight_format            I8 (O,I), F32 (O): a row's codes, times SCB / 127 */
#include "format/model_dir.h"
#include "format/st_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "; get the model again"
#define STATE ".quant_state.bitsandbytes__"
#define SCALES_8BIT ".SCB"

enum { CODES = 16, NESTED_CODES = 256, NESTED_BLOCK = 256, STATE_LIMIT = 1 << 16 };

/* What a tensor of the model is read from. */
struct origin {
    struct model_tensor codes, scales, nested; /* nested.tensor NULL: scales are numbers */
    int64_t block, nested_block;               /* elements of each; block 0: rows of 8 bits */
    float offset, *map, *nested_map;
};

struct state {
    struct origin *origins; /* as the tensors of the st_file stand */
    const struct st_tensor *first;
    struct arena arena;
};

/* ---- reading ---- */

/* Elements [first, first + n) of a tensor of one type, in new memory. */
static int read_elements(const struct model_tensor *t, int64_t first, int64_t n, void **out, struct snug_err *err)
{
    int64_t size = dtype_bytes(t->tensor->dtype, 1);
    size_t bytes = (size_t)(n * size);
    if (!(*out = mem_alloc(bytes)))
        return err_no_memory(err, bytes);
    int code = st_read_part(t->file, t->tensor, first * size, *out, bytes, err);
    if (code) {
        mem_free(*out);
        *out = NULL;
    }
    return code;
}

/* The scales of blocks [first, first + n), for mem_free. */
static int read_scales(const struct origin *o, int64_t first, int64_t n, float **out, struct snug_err *err)
{
    void *stored, *nested;
    TRY(read_elements(&o->scales, first, n, &stored, err));
    *out = stored;
    if (!o->nested.tensor)
        return SNUG_OK;
    int64_t from = first / o->nested_block, to = (first + n - 1) / o->nested_block + 1;
    int code = read_elements(&o->nested, from, to - from, &nested, err);
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
    TRY(read_elements(&o->codes, first, n, &codes, err));
    int code = read_scales(o, row, (first + n - 1) / columns + 1 - row, &scales, err);
    for (int64_t i = first; !code && i < first + n; i++)
        to[i - first] = (float)((int8_t *)codes)[i - first] * scales[i / columns - row] * (1 / 127.0f);
    if (!code)
        mem_free(scales);
    mem_free(codes);
    return code;
}

static int read_part(void *state, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                     struct snug_err *err)
{
    const struct state *s = state;
    const struct origin *o = &s->origins[t - s->first];
    int64_t size = sizeof(float), first = offset / size, n = (int64_t)bytes / size;
    if (!n)
        return SNUG_OK;
    return o->block ? read_4bit(o, first, n, to, err) : read_8bit(o, first, n, to, err);
}

static void close_state(void *state)
{
    struct state *s = state;
    mem_free(s->origins);
    arena_free(&s->arena);
    mem_free(s);
}

static const struct st_source source = {read_part, close_state};

/* ---- what is there ---- */

struct finding {
    struct model_dir *d;
    struct state *state;
    struct st_file *out;
    bool *gone; /* by tensor of the folder: a part of one that is decoded */
};

static int bad_part(const struct model_tensor *t, struct snug_err *err)
{
    char shape[200];
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: %.120s, %s %s, does not fit the weight that bitsandbytes has quantised" AGAIN, t->file->path,
                   t->tensor->name, dtype_name(t->tensor->dtype), st_shape_text(t->tensor, shape));
}

/* The tensor NAME SUFFIX, which is taken. */
static int take(struct finding *f, const char *name, const char *suffix, struct model_tensor *out, struct snug_err *err)
{
    const char *whole = arena_printf(&f->state->arena, "%s%s", name, suffix);
    if (!whole)
        return err_no_memory(err, strlen(name) + strlen(suffix) + 1);
    const struct model_tensor *t = model_dir_find(f->d, whole);
    if (!t)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no %.160s, which bitsandbytes keeps beside the weight" AGAIN,
                       f->d->path, whole);
    f->gone[t - f->d->tensors] = true;
    *out = *t;
    return SNUG_OK;
}

/* So many elements of this type. */
static int take_list(struct finding *f, const char *name, const char *suffix, enum dtype dtype, int64_t n,
                     struct model_tensor *out, struct snug_err *err)
{
    TRY(take(f, name, suffix, out, err));
    bool fits = out->tensor->dtype == dtype && st_elements(out->tensor) == n;
    return fits ? SNUG_OK : bad_part(out, err);
}

/* A table of so many numbers, which the folder keeps. */
static int take_map(struct finding *f, const char *name, const char *suffix, int64_t n, float **out,
                    struct snug_err *err)
{
    struct model_tensor t = {0};
    size_t bytes = (size_t)n * sizeof **out;
    TRY(take_list(f, name, suffix, DT_F32, n, &t, err));
    *out = arena_alloc(&f->state->arena, bytes);
    return *out ? st_read(t.file, t.tensor, *out, err) : err_no_memory(err, bytes);
}

/* The JSON beside the codes, for json_decref. */
static int read_state(const struct model_tensor *t, json_t **out, struct snug_err *err)
{
    char *text;
    *out = NULL;
    if (t->tensor->dtype != DT_U8 || t->tensor->bytes > STATE_LIMIT)
        return bad_part(t, err);
    TRY(read_elements(t, 0, t->tensor->bytes, (void **)&text, err));
    int code = json_parse(text, (size_t)t->tensor->bytes, t->tensor->name, out, err);
    mem_free(text);
    return code ? code : json_is_object(*out) ? SNUG_OK : bad_part(t, err);
}

/* The shape that the JSON says, and the bytes of its numbers. */
static int take_shape(json_t *state, const struct model_tensor *t, struct st_tensor *to, struct snug_err *err)
{
    json_t *shape = json_object_get(state, "shape");
    size_t n = json_array_size(shape);
    to->bytes = sizeof(float);
    if (!n || n > ST_MAX_DIMS)
        return bad_part(t, err);
    for (; (size_t)to->ndim < n; to->ndim++) {
        json_t *side = json_array_get(shape, (size_t)to->ndim);
        to->shape[to->ndim] = json_integer_value(side);
        if (!json_is_integer(side) || json_integer_value(side) < 1 ||
            __builtin_mul_overflow(to->bytes, to->shape[to->ndim], &to->bytes))
            return bad_part(t, err);
    }
    return SNUG_OK;
}

static int64_t blocks_of(int64_t elements, int64_t block)
{
    return elements / block + (elements % block > 0);
}

/* What is beside the scales where these are codes. */
static int take_nested(struct finding *f, json_t *state, const char *name, int64_t scales, struct origin *o,
                       struct snug_err *err)
{
    double offset;
    TRY(json_get_int(state, name, "nested_blocksize", true, 1, INT32_MAX, &o->nested_block, err));
    TRY(json_get_real(state, name, "nested_offset", true, -1e30, 1e30, &offset, err));
    o->offset = (float)offset;
    TRY(take_list(f, name, ".nested_absmax", DT_F32, blocks_of(scales, o->nested_block), &o->nested, err));
    return take_map(f, name, ".nested_quant_map", NESTED_CODES, &o->nested_map, err);
}

static int take_4bit(struct finding *f, json_t *state, const struct model_tensor *said, const char *name,
                     struct snug_err *err)
{
    struct origin *o = &f->state->origins[f->out->n_tensors];
    struct st_tensor t = {.name = name, .dtype = DT_F32};
    TRY(take_shape(state, said, &t, err));
    TRY(json_get_int(state, said->tensor->name, "blocksize", true, 2, INT32_MAX, &o->block, err));
    TRY(take(f, name, "", &o->codes, err));
    int64_t elements = t.bytes / (int64_t)sizeof(float), scales = blocks_of(elements, o->block);
    bool nested = json_object_get(state, "nested_blocksize") != NULL;
    int64_t odd = dtype_bytes(o->codes.tensor->dtype, 1) - 1; /* what a last element of another type has more */
    if (o->block % 2 || o->codes.tensor->bytes < elements / 2 + elements % 2 ||
        o->codes.tensor->bytes > elements / 2 + elements % 2 + odd)
        return bad_part(&o->codes, err);
    TRY(take_map(f, name, ".quant_map", CODES, &o->map, err));
    TRY(take_list(f, name, ".absmax", nested ? DT_U8 : DT_F32, scales, &o->scales, err));
    if (nested)
        TRY(take_nested(f, state, name, scales, o, err));
    t.at = o->codes.tensor->at;
    f->out->tensors[f->out->n_tensors++] = t;
    return SNUG_OK;
}

static int add_4bit(struct finding *f, const struct model_tensor *said, const char *end, struct snug_err *err)
{
    char *name = arena_strdup(&f->state->arena, said->tensor->name);
    json_t *state;
    if (!name)
        return err_no_memory(err, strlen(said->tensor->name) + 1);
    name[end - said->tensor->name] = 0;
    f->gone[said - f->d->tensors] = true;
    int code = read_state(said, &state, err);
    if (!code)
        code = take_4bit(f, state, said, name, err);
    json_decref(state);
    return code;
}

/* PATH.SCB, where PATH.weight has 8 bits. */
static int add_8bit(struct finding *f, const struct model_tensor *scales, const char *end, struct snug_err *err)
{
    struct origin *o = &f->state->origins[f->out->n_tensors];
    char *path = arena_strdup(&f->state->arena, scales->tensor->name), *name;
    if (!path)
        return err_no_memory(err, strlen(scales->tensor->name) + 1);
    path[end - scales->tensor->name] = 0;
    if (!(name = arena_printf(&f->state->arena, "%s.weight", path)))
        return err_no_memory(err, strlen(path) + sizeof ".weight");
    TRY(take(f, name, "", &o->codes, err));
    const struct st_tensor *codes = o->codes.tensor;
    if (codes->dtype != DT_I8 || codes->ndim != 2 || !codes->bytes)
        return bad_part(&o->codes, err);
    TRY(take_list(f, path, SCALES_8BIT, DT_F32, codes->shape[0], &o->scales, err));
    const struct model_tensor *format = model_dir_find(f->d, arena_printf(&f->state->arena, "%s_format", name));
    if (format)
        f->gone[format - f->d->tensors] = true;
    struct st_tensor *t = &f->out->tensors[f->out->n_tensors++];
    *t = (struct st_tensor){.name = name, .dtype = DT_F32, .ndim = 2, .shape = {codes->shape[0], codes->shape[1]}};
    t->at = codes->at;
    t->bytes = codes->bytes * (int64_t)sizeof(float);
    return SNUG_OK;
}

/* Where a name ends so; NULL: it does not. */
static const char *end_of(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && !strcmp(name + n - m, end) ? name + n - m : NULL;
}

static int find_all(struct finding *f, struct snug_err *err)
{
    for (size_t i = 0; i < f->d->n_tensors; i++) {
        const struct model_tensor *t = &f->d->tensors[i];
        const char *state = strstr(t->tensor->name, STATE), *scales = end_of(t->tensor->name, SCALES_8BIT);
        if (state)
            TRY(add_4bit(f, t, state, err));
        else if (scales)
            TRY(add_8bit(f, t, scales, err));
    }
    return SNUG_OK;
}

static size_t count_found(const struct model_dir *d)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_tensors; i++)
        n += strstr(d->tensors[i].tensor->name, STATE) || end_of(d->tensors[i].tensor->name, SCALES_8BIT);
    return n;
}

/* The folder's tensors without what is gone, and with the numbers. */
static int replace_tensors(const struct finding *f, struct snug_err *err)
{
    struct model_dir *d = f->d;
    size_t n = 0, most = d->n_tensors + f->out->n_tensors;
    struct model_tensor *all = mem_alloc(most * sizeof *all);
    if (!all)
        return err_no_memory(err, most * sizeof *all);
    for (size_t i = 0; i < d->n_tensors; i++)
        if (!f->gone[i])
            all[n++] = d->tensors[i];
    for (size_t i = 0; i < f->out->n_tensors; i++)
        all[n++] = (struct model_tensor){&f->out->tensors[i], f->out};
    mem_free(d->tensors);
    d->tensors = all;
    d->n_tensors = n;
    return model_dir_sort(d, err);
}

static int open_numbers(struct model_dir *d, size_t n, struct snug_err *err)
{
    struct finding f = {.d = d, .state = mem_alloc(sizeof *f.state), .gone = mem_alloc(d->n_tensors)};
    f.out = d->numbers = mem_alloc(sizeof *d->numbers);
    int code = f.state && f.gone && f.out ? SNUG_OK : err_no_memory(err, d->n_tensors);
    if (code) {
        mem_free(f.state);
        mem_free(f.out);
        d->numbers = NULL;
    } else {
        *f.out = (struct st_file){
            .io = d->io, .path = mem_strdup(d->path), .fd = -1, .source = &source, .source_state = f.state};
        f.out->tensors = mem_alloc(n * sizeof *f.out->tensors);
        f.state->origins = mem_alloc(n * sizeof *f.state->origins);
        f.state->first = f.out->tensors;
        code = f.out->path && f.out->tensors && f.state->origins ? find_all(&f, err)
                                                                 : err_no_memory(err, n * sizeof *f.state->origins);
    }
    if (!code)
        code = replace_tensors(&f, err);
    mem_free(f.gone);
    return code;
}

/* What quantization_config says, where it is bitsandbytes'. */
static int read_config(const struct model_dir *d, json_t *config, struct model_bits *out, struct snug_err *err)
{
    const char *path = d->config_path, *method = "", *type = "fp4"; /* as transformers has it */
    bool four = false, eight = false;
    *out = (struct model_bits){0};
    TRY(json_get_string(config, path, "quant_method", false, &method, err));
    if (strcmp(method, "bitsandbytes"))
        return SNUG_OK;
    TRY(json_get_bool(config, path, "load_in_4bit", false, &four, err));
    TRY(json_get_bool(config, path, "load_in_8bit", false, &eight, err));
    TRY(json_get_bool(config, path, "bnb_4bit_use_double_quant", false, &out->nested, err));
    TRY(json_get_string(config, path, "bnb_4bit_quant_type", false, &type, err));
    out->fp4 = !strcmp(type, "fp4");
    out->bits = four ? 4 : eight ? 8 : 0;
    return SNUG_OK;
}

int model_bitsandbytes_open(struct model_dir *d, struct snug_err *err)
{
    json_t *config = json_object_get(d->config, "quantization_config");
    size_t n = count_found(d);
    if (n) {
        TRY(open_numbers(d, n, err));
        model_dir_note(d, "%s: bitsandbytes has quantised %zu tensors", d->path, n);
    }
    if (!json_is_object(config) || (d->n_tensors && !n))
        return SNUG_OK;
    TRY(read_config(d, config, &d->bits, err));
    if (d->bits.bits)
        json_object_del(d->config, "quantization_config");
    return SNUG_OK;
}

int model_dir_read_nested(const struct model_dir *d, const struct model_tensor *t, float **floats, int64_t *n,
                          struct snug_err *err)
{
    const struct state *s = model_dir_has_quantized(d, t) ? d->numbers->source_state : NULL;
    const struct origin *o = s ? &s->origins[t->tensor - s->first] : NULL;
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
