/* Weights that GPTQ has quantised, as numbers. Of a weight PATH.weight (O,I) with so many bits a folder has
 *     .qweight   I32 (I * bits / 32, O): codes of inputs one below the other, the first in a word's lowest bits
 *     .qzeros    I32 (G, O * bits / 32): zero points; in the first version of the format each is stored as one less
 *     .scales    F16 (G, O)
 *     .g_idx     I32 (I): the group of each input; without it they are group_size inputs each
 * which is the format of AutoGPTQ and of GPTQModel, where codes of 3 bits, which lie over the ends of words, are more than is read here. */
#include "format/quantised/quantised.h"

#include <string.h>

enum { WORD = 32, MAX_BITS = 8 };

struct settings {
    int64_t bits, group_size;
    uint32_t zeros_more;
};

static void unpack(const struct quant_matrix *m, const uint8_t *codes, int64_t row, int64_t rows, int64_t column,
                   int64_t n, float *to)
{
    uint32_t turned[QUANT_TILE_ROWS][QUANT_TILE_COLUMNS / (WORD / MAX_BITS) + 2]; /* words of a row, and a spare one */
    int64_t per = WORD / m->bits, first = column / per, words = (column + n - 1) / per + 1 - first;
    const uint32_t *from = (const uint32_t *)codes + first * m->rows + row;
    for (int64_t w = 0; w < words; w++)
        for (int64_t r = 0; r < rows; r++)
            turned[r][w] = from[w * m->rows + r];
    for (int64_t r = 0; r < rows; r++) {
        turned[r][words] = 0;
        quant_unpack_bits((const uint8_t *)turned[r], m->bits, column % per, n, to + r * m->columns);
    }
}

/* (groups, rows), the codes of rows one beside the other. */
static void unpack_zeros(const struct quant_matrix *m, const uint32_t *stored, float *to)
{
    int64_t per = WORD / m->bits, words = quant_blocks(m->rows, per);
    uint32_t mask = (1u << m->bits) - 1;
    for (int64_t g = 0; g < m->scale_columns; g++)
        for (int64_t r = 0; r < m->rows; r++)
            *to++ = (float)(stored[g * words + r / per] >> r % per * m->bits & mask);
}

static const struct quant_layout layout = {
    .whole = true, .across = true, .unpack = unpack, .unpack_zeros = unpack_zeros};

static int refuse(const struct quant_finding *f, const char *key, const char *value, const char *read,
                  struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: quantization_config: %s is %.60s; of GPTQ %s is read; take the model that this one was made of",
                   f->d->config_path, key, value, read);
}

static int read_settings(struct quant_finding *f, struct settings *s, struct snug_err *err)
{
    const char *path = f->d->config_path, *format = "gptq", *pack = "int32", *old = NULL;
    char text[64];
    *s = (struct settings){.group_size = -1};
    TRY(json_get_int(f->config, path, "bits", true, 1, WORD, &s->bits, err));
    TRY(json_get_int(f->config, path, "group_size", false, -1, INT32_MAX, &s->group_size, err));
    TRY(json_get_string(f->config, path, "checkpoint_format", false, &format, err));
    TRY(json_get_string(f->config, path, "pack_dtype", false, &pack, err));
    bool marlin = false;
    TRY(json_get_bool(f->config, path, "is_marlin_format", false, &marlin, err));
    old = marlin ? "marlin" : NULL;
    if (s->bits != 2 && s->bits != 4 && s->bits != 8)
        return refuse(f, "bits", json_value_text(json_object_get(f->config, "bits"), text), "2, 4 or 8", err);
    if (old || (strcmp(format, "gptq") && strcmp(format, "gptq_v2")))
        return refuse(f, "checkpoint_format", old ? old : format, "gptq or gptq_v2", err);
    if (strcmp(pack, "int32"))
        return refuse(f, "pack_dtype", pack, "int32", err);
    if (!s->group_size)
        return refuse(f, "group_size", "0", "-1, a group for each row, or more than 0", err);
    for (int at = 0; at < WORD && !strcmp(format, "gptq"); at += (int)s->bits)
        s->zeros_more |= 1u << at;
    return SNUG_OK;
}

/* (O,I) of what is packed: without a list of groups all words are full. */
static int find_sides(const struct quant_finding *f, struct quant_matrix *m, struct snug_err *err)
{
    const struct st_tensor *codes = m->codes.tensor;
    int64_t per = WORD / m->bits;
    if (codes->dtype != DT_I32 || codes->ndim != 2 || !codes->bytes)
        return quant_bad_part(f, &m->codes, err);
    m->rows = codes->shape[1];
    m->columns = codes->shape[0] * per;
    if (!m->columns_group.tensor)
        return SNUG_OK;
    const struct st_tensor *groups = m->columns_group.tensor;
    if (groups->dtype != DT_I32 || groups->ndim != 1 || !groups->bytes ||
        quant_blocks(groups->shape[0], per) != codes->shape[0])
        return quant_bad_part(f, &m->columns_group, err);
    m->columns = groups->shape[0];
    return SNUG_OK;
}

static int add_weight(struct quant_finding *f, const struct model_tensor *t, const char *end, const struct settings *s,
                      struct snug_err *err)
{
    struct quant_matrix m = {.layout = &layout, .bits = (int)s->bits, .zeros_more = s->zeros_more, .block_rows = 1};
    const char *path = quant_name(f, t->tensor->name, end, ""), *name = quant_name(f, t->tensor->name, end, ".weight");
    if (!path || !name)
        return err_no_memory(err, strlen(t->tensor->name) + 8);
    TRY(quant_take(f, path, ".qweight", &m.codes, err));
    TRY(quant_take(f, path, ".qzeros", &m.zeros, err));
    TRY(quant_take(f, path, ".scales", &m.scales, err));
    TRY(quant_take_any(f, path, ".g_idx", &m.columns_group, err));
    TRY(find_sides(f, &m, err));
    m.block_columns = s->group_size < 0 ? m.columns : s->group_size;
    m.scale_rows = m.rows;
    m.scale_columns = quant_blocks(m.columns, m.block_columns);
    if (!quant_is_scale(&m.scales) || !quant_is(&m.scales, m.scales.tensor->dtype, m.scale_columns, m.rows))
        return quant_bad_part(f, &m.scales, err);
    if (!quant_is(&m.zeros, DT_I32, m.scale_columns, quant_blocks(m.rows, WORD / m.bits)))
        return quant_bad_part(f, &m.zeros, err);
    return quant_add_matrix(f, name, 2, (int64_t[]){m.rows, m.columns}, &m, err);
}

int gptq_find(struct quant_finding *f, struct snug_err *err)
{
    struct settings s;
    TRY(read_settings(f, &s, err));
    for (size_t i = 0; i < f->d->n_tensors; i++) {
        const struct model_tensor *t = &f->d->tensors[i];
        const char *end = quant_end(t->tensor->name, ".qweight");
        if (end)
            TRY(add_weight(f, t, end, &s, err));
    }
    return SNUG_OK;
}
