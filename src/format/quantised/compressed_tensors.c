/* Weights of compressed-tensors (llm-compressor), as numbers. Of a weight PATH.weight (O,I) a folder has, in words (pack-quantized):
 *     .weight_packed       I32 (O, I * bits / 32): codes of 1 to 8 bits, one behind the other, the first in the lowest bits
 *     .weight_shape        I64 or I32 (2): O, I
 *     .weight_zero_point   I32 (O * bits / 32, G), packed down the outputs; where codes are not symmetric
 * or as they are (int-quantized, float-quantized, naive-quantized):
 *     .weight              I8 or F8_E4M3 (O,I)
 *     .weight_zero_point   I8, as the scales
 * and always
 *     .weight_scale        (1) or (1,1), (O,1), (O,G), or one for each block: by the strategy
 *     .weight_g_idx        I32 (I): the group of each input, where they are not one behind the other
 * What of this a layer has is seen by its tensors, and compared with the groups of the configuration: which layers a group means
 * (its targets) takes the classes of Python to know. */
#include "format/quantised/quantised.h"

#include <string.h>

enum { WORD = 32, MAX_GROUPS = 64 };

enum strategy { BY_TENSOR, BY_CHANNEL, BY_GROUP, BY_BLOCK, STRATEGIES };
static const char *const strategy_names[STRATEGIES] = {"tensor", "channel", "group", "block"};

/* What the configuration says of the weights of some layers. */
struct group {
    enum strategy strategy;
    int64_t bits, size, block[2];
    bool is_float, symmetric;
};

struct groups {
    struct group list[MAX_GROUPS];
    int n;
};

/* ---- codes ---- */

static void unpack(const struct quant_matrix *m, const uint8_t *codes, int64_t row, int64_t rows, int64_t column,
                   int64_t n, float *to)
{
    (void)row;
    for (int64_t r = 0; r < rows; r++)
        quant_unpack_bits(codes + r * (m->codes.tensor->bytes / m->rows), m->bits, column, n, to + r * m->columns);
}

/* (rows * bits / 32, groups): the words of a group lie `groups` apart. */
static void unpack_zeros(const struct quant_matrix *m, const uint32_t *stored, float *to)
{
    int64_t groups = m->scale_columns, words = quant_blocks(m->scale_rows * m->bits, WORD);
    for (int64_t r = 0; r < m->scale_rows; r++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t bit = r * m->bits, word = bit / WORD;
            uint64_t two = stored[word * groups + g];
            if (word + 1 < words)
                two |= (uint64_t)stored[(word + 1) * groups + g] << WORD;
            *to++ = (float)(two >> bit % WORD & ((1u << m->bits) - 1));
        }
}

static const struct quant_layout packed = {.unpack = unpack, .unpack_zeros = unpack_zeros};

/* ---- the configuration ---- */

static int refuse(const struct quant_finding *f, const char *key, const char *value, const char *read,
                  struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: quantization_config: %s is %.60s; of compressed-tensors %s is read; take the model that this "
                   "one was made of",
                   f->d->config_path, key, value, read);
}

static int check_format(const struct quant_finding *f, json_t *o, struct snug_err *err)
{
    static const char *const read[] = {"int-quantized",  "float-quantized", "naive-quantized",
                                       "pack-quantized", "mixed-precision", "dense"};
    const char *format = read[0];
    TRY(json_get_string(o, f->d->config_path, "format", false, &format, err));
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!strcmp(format, read[i]))
            return SNUG_OK;
    return refuse(f, "format", format, "int-quantized, float-quantized, naive-quantized or pack-quantized", err);
}

static int read_strategy(const struct quant_finding *f, json_t *weights, struct group *g, struct snug_err *err)
{
    const char *path = f->d->config_path, *name = g->size > 0 ? "group" : g->size < 0 ? "channel" : "tensor";
    json_t *block = json_object_get(weights, "block_structure");
    TRY(json_get_string(weights, path, "strategy", false, &name, err));
    for (g->strategy = 0; g->strategy < STRATEGIES && strcmp(name, strategy_names[g->strategy]);)
        g->strategy++;
    if (g->strategy == STRATEGIES)
        return refuse(f, "strategy", name, "tensor, channel, group or block", err);
    for (size_t i = 0; i < 2; i++)
        g->block[i] = json_integer_value(json_array_get(block, i));
    if (g->strategy == BY_GROUP && g->size < 1)
        return refuse(f, "group_size", "not above 0", "a size above 0", err);
    if (g->strategy == BY_BLOCK && (g->block[0] < 1 || g->block[1] < 1))
        return refuse(f, "block_structure", "not two sizes above 0", "two sizes above 0", err);
    return SNUG_OK;
}

static int read_group(const struct quant_finding *f, json_t *weights, struct group *g, struct snug_err *err)
{
    const char *path = f->d->config_path, *type = "int";
    char text[64];
    *g = (struct group){.bits = 8, .symmetric = true};
    TRY(json_get_int(weights, path, "num_bits", false, 1, 64, &g->bits, err));
    TRY(json_get_int(weights, path, "group_size", false, -1, INT32_MAX, &g->size, err));
    TRY(json_get_bool(weights, path, "symmetric", false, &g->symmetric, err));
    TRY(json_get_string(weights, path, "type", false, &type, err));
    g->is_float = !strcmp(type, "float");
    if (!g->is_float && strcmp(type, "int"))
        return refuse(f, "type", type, "int or float", err);
    if (g->bits > 8 || (g->is_float && g->bits != 8))
        return refuse(f, "num_bits", json_value_text(json_object_get(weights, "num_bits"), text),
                      g->is_float ? "8 (float)" : "1 to 8", err);
    return read_strategy(f, weights, g, err);
}

static int read_groups(const struct quant_finding *f, struct groups *out, struct snug_err *err)
{
    json_t *groups = json_object_get(f->config, "config_groups"), *value;
    const char *key, *sparse = "dense";
    json_t *sparsity = json_object_get(f->config, "sparsity_config");
    out->n = 0;
    TRY(check_format(f, f->config, err));
    TRY(json_get_string(sparsity, f->d->config_path, "format", false, &sparse, err));
    if (strcmp(sparse, "dense"))
        return refuse(f, "sparsity_config.format", sparse, "dense", err);
    if (json_object_size(json_object_get(json_object_get(f->config, "transform_config"), "config_groups")))
        return refuse(f, "transform_config", "present", "a model without it", err);
    json_object_foreach(groups, key, value)
    {
        json_t *weights = json_object_get(value, "weights");
        TRY(check_format(f, value, err));
        if (!json_is_object(weights))
            continue; /* of activations alone */
        if (out->n == MAX_GROUPS)
            return refuse(f, "config_groups", "more than 64 groups", "up to 64", err);
        TRY(read_group(f, weights, &out->list[out->n++], err));
    }
    return SNUG_OK;
}

/* ---- weights ---- */

/* Whether a group of the configuration can have these codes. */
static bool fits_codes(const struct group *g, const struct quant_matrix *m)
{
    const struct st_tensor *t = m->codes.tensor;
    if (m->layout == &packed)
        return !g->is_float && t->shape[1] == quant_blocks(m->columns * g->bits, WORD);
    return t->dtype == (g->is_float ? DT_F8_E4M3 : DT_I8);
}

static bool has_shape(const struct st_tensor *t, int64_t rows, int64_t columns)
{
    bool list = t->ndim < 2 && columns == 1 && st_elements(t) == rows;
    return list || (t->ndim == 2 && t->shape[0] == rows && t->shape[1] == columns);
}

/* Sets what the group says; false: it does not fit the scales. */
static bool use_group(const struct group *g, struct quant_matrix *m)
{
    m->bits = (int)g->bits;
    m->block_rows = g->strategy == BY_TENSOR ? m->rows : g->strategy == BY_BLOCK ? g->block[0] : 1;
    m->block_columns = g->strategy == BY_GROUP ? g->size : g->strategy == BY_BLOCK ? g->block[1] : m->columns;
    m->scale_rows = quant_blocks(m->rows, m->block_rows);
    m->scale_columns = quant_blocks(m->columns, m->block_columns);
    return has_shape(m->scales.tensor, m->scale_rows, m->scale_columns);
}

static int check_zeros(const struct quant_finding *f, const struct group *g, struct quant_matrix *m,
                       struct snug_err *err)
{
    bool in_words = m->layout == &packed;
    m->zero = in_words ? (float)(1 << (m->bits - 1)) : 0;
    if (!m->zeros.tensor)
        return SNUG_OK;
    if (g->symmetric)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: has %.120s, but quantization_config says that its codes are symmetric; get the model again",
                       m->zeros.file->path, m->zeros.tensor->name);
    bool fits = in_words
                    ? quant_is(&m->zeros, DT_I32, quant_blocks(m->scale_rows * m->bits, WORD), m->scale_columns)
                    : m->zeros.tensor->dtype == DT_I8 && has_shape(m->zeros.tensor, m->scale_rows, m->scale_columns);
    return fits ? SNUG_OK : quant_bad_part(f, &m->zeros, err);
}

/* The group of the configuration that has made this weight. */
static int find_group(struct quant_finding *f, const struct groups *groups, const char *name, struct quant_matrix *m,
                      struct snug_err *err)
{
    const struct group *found = NULL, *of_codes = NULL;
    for (int i = 0; i < groups->n && !found; i++) {
        const struct group *g = &groups->list[i];
        if (fits_codes(g, m)) {
            of_codes = g;
            found = use_group(g, m) ? g : NULL;
        }
    }
    if (of_codes && !found && of_codes->strategy == BY_GROUP && m->columns % of_codes->size)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: quantization_config: group_size is %lld, which does not divide the %lld inputs of %.120s; "
                       "get the model again",
                       f->d->config_path, (long long)of_codes->size, (long long)m->columns, name);
    if (!found)
        return quant_bad_part(f, of_codes ? &m->scales : &m->codes, err);
    if (!found->symmetric && !m->zeros.tensor)
        TRY(quant_take(f, name, "_zero_point", &m->zeros, err));
    return check_zeros(f, found, m, err);
}

/* -1 in the list of groups says that there is none. */
static int check_groups(const struct quant_finding *f, struct quant_matrix *m, struct snug_err *err)
{
    int32_t first;
    if (!m->columns_group.tensor)
        return SNUG_OK;
    const struct st_tensor *t = m->columns_group.tensor;
    if (t->dtype != DT_I32 || st_elements(t) != m->columns)
        return quant_bad_part(f, &m->columns_group, err);
    TRY(st_read_part(m->columns_group.file, t, 0, &first, sizeof first, err));
    if (first == -1)
        m->columns_group = (struct model_tensor){0};
    return SNUG_OK;
}

/* Rows and columns as the file says them beside the words. */
static int read_shape(struct quant_finding *f, const char *name, struct quant_matrix *m, struct snug_err *err)
{
    struct model_tensor shape;
    int64_t sides[2] = {0};
    int32_t narrow[2] = {0};
    TRY(quant_take(f, name, "_shape", &shape, err));
    bool wide = shape.tensor->dtype == DT_I64;
    if ((!wide && shape.tensor->dtype != DT_I32) || st_elements(shape.tensor) != 2)
        return quant_bad_part(f, &shape, err);
    TRY(st_read(shape.file, shape.tensor, wide ? (void *)sides : narrow, err));
    m->rows = wide ? sides[0] : narrow[0];
    m->columns = wide ? sides[1] : narrow[1];
    const struct st_tensor *t = m->codes.tensor;
    bool fits = t->dtype == DT_I32 && t->ndim == 2 && t->bytes && m->rows == t->shape[0] && m->columns > 0 &&
                m->columns <= t->shape[1] * WORD;
    return fits ? SNUG_OK : quant_bad_part(f, &m->codes, err);
}

/* `name`: PATH.weight; `suffix`: of the tensor with its codes. */
static int add_weight(struct quant_finding *f, const struct groups *groups, const char *name, const char *suffix,
                      struct snug_err *err)
{
    struct quant_matrix m = {.layout = *suffix ? &packed : &quant_bytes};
    TRY(quant_take(f, name, suffix, &m.codes, err));
    TRY(quant_take(f, name, "_scale", &m.scales, err));
    TRY(quant_take_any(f, name, "_zero_point", &m.zeros, err));
    TRY(quant_take_any(f, name, "_g_idx", &m.columns_group, err));
    const struct st_tensor *t = m.codes.tensor;
    if (*suffix) {
        TRY(read_shape(f, name, &m, err));
    } else {
        if (t->ndim != 2 || !t->bytes)
            return quant_bad_part(f, &m.codes, err);
        m.rows = t->shape[0];
        m.columns = t->shape[1];
    }
    if (!quant_is_scale(&m.scales))
        return quant_bad_part(f, &m.scales, err);
    TRY(find_group(f, groups, name, &m, err));
    TRY(check_groups(f, &m, err));
    return quant_add_matrix(f, name, 2, (int64_t[]){m.rows, m.columns}, &m, err);
}

int compressed_tensors_find(struct quant_finding *f, struct snug_err *err)
{
    static const char *const dropped[] = {".input_scale", ".input_zero_point", ".output_scale", ".output_zero_point",
                                          ".k_scale",     ".v_scale",          ".k_zero_point", ".v_zero_point"};
    struct groups groups;
    TRY(read_groups(f, &groups, err));
    for (size_t i = 0; i < f->d->n_tensors; i++) {
        const char *whole = f->d->tensors[i].tensor->name, *words = quant_end(whole, ".weight_packed");
        const char *scale = quant_end(whole, ".weight_scale");
        const char *name = words || scale ? quant_name(f, whole, words ? words : scale, ".weight") : "";
        if (!name)
            return err_no_memory(err, strlen(whole) + 8);
        const char *in_words = scale ? quant_name(f, name, name + strlen(name), "_packed") : "";
        if (!in_words)
            return err_no_memory(err, strlen(whole) + 8);
        if (words)
            TRY(add_weight(f, &groups, name, "_packed", err));
        else if (scale && !model_dir_find(f->d, in_words))
            TRY(add_weight(f, &groups, name, "", err));
    }
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        quant_drop(f, dropped[i]);
    return SNUG_OK;
}
