/* Weights that AWQ has quantised, as numbers. Of a weight PATH.weight (O,I), in 4 bits, a folder of the version "gemm" has
 *     .qweight   I32 (I, O / 8): codes of eight outputs, in the order 0 2 4 6 1 3 5 7, the first in a word's lowest bits
 *     .qzeros    I32 (G, O / 8): zero points, packed in the same way
 *     .scales    F16 (G, O)
 * which is the format of AutoAWQ. */
#include "format/quantised/quantised.h"

#include <string.h>
#include <strings.h>

enum { BITS = 4, PER = 32 / BITS };

/* Where in a word each of eight outputs is. */
static const int place[PER] = {0, 16, 4, 20, 8, 24, 12, 28};

static void unpack(const struct quant_matrix *m, const uint8_t *codes, int64_t row, int64_t rows, int64_t column,
                   int64_t n, float *to)
{
    uint32_t turned[QUANT_TILE_ROWS / PER + 1][QUANT_TILE_COLUMNS]; /* the words of eight rows beside one another */
    int64_t pitch = m->rows / PER, first = row / PER, last = (row + rows - 1) / PER;
    const uint32_t *words = (const uint32_t *)codes + column * pitch;
    for (int64_t i = 0; i < n; i++)
        for (int64_t w = first; w <= last; w++)
            turned[w - first][i] = words[i * pitch + w];
    for (int64_t r = row; r < row + rows; r++, to += m->columns) {
        const uint32_t *from = turned[r / PER - first];
        int shift = place[r % PER];
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)(int32_t)(from[i] >> shift & 15);
    }
}

static void unpack_zeros(const struct quant_matrix *m, const uint32_t *stored, float *to)
{
    for (int64_t g = 0; g < m->scale_columns; g++)
        for (int64_t r = 0; r < m->rows; r++)
            *to++ = (float)(stored[(g * m->rows + r) / PER] >> place[r % PER] & 15);
}

static const struct quant_layout layout = {
    .whole = true, .across = true, .unpack = unpack, .unpack_zeros = unpack_zeros};

static int read_group(struct quant_finding *f, int64_t *size, struct snug_err *err)
{
    const char *path = f->d->config_path, *version = "gemm";
    int64_t bits = BITS;
    *size = 128; /* as transformers has it */
    TRY(json_get_int(f->config, path, "bits", false, 1, 32, &bits, err));
    TRY(json_get_int(f->config, path, "group_size", false, -1, INT32_MAX, size, err));
    TRY(json_get_string(f->config, path, "version", false, &version, err));
    TRY(json_get_string(f->config, path, "format", false, &version, err));
    if (bits != BITS)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: quantization_config: bits is %lld; of AWQ 4 is read; take the model that this one was made "
                       "of",
                       path, (long long)bits);
    if (strcasecmp(version, "gemm"))
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: quantization_config: version is \"%.40s\"; of AWQ \"gemm\" is read; take the model that this "
            "one was made of",
            path, version);
    return SNUG_OK;
}

static int add_weight(struct quant_finding *f, const struct model_tensor *t, const char *end, int64_t group,
                      struct snug_err *err)
{
    struct quant_matrix m = {.layout = &layout, .bits = BITS, .block_rows = 1};
    const char *path = quant_name(f, t->tensor->name, end, ""), *name = quant_name(f, t->tensor->name, end, ".weight");
    if (!path || !name)
        return err_no_memory(err, strlen(t->tensor->name) + 8);
    TRY(quant_take(f, path, ".qweight", &m.codes, err));
    TRY(quant_take(f, path, ".qzeros", &m.zeros, err));
    TRY(quant_take(f, path, ".scales", &m.scales, err));
    const struct st_tensor *codes = m.codes.tensor;
    if (codes->dtype != DT_I32 || codes->ndim != 2 || !codes->bytes)
        return quant_bad_part(f, &m.codes, err);
    m.rows = m.scale_rows = codes->shape[1] * PER;
    m.columns = codes->shape[0];
    m.block_columns = group < 0 ? m.columns : group;
    if (!group || m.columns % m.block_columns)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: quantization_config: group_size is %lld, which does not divide the %lld inputs of %.120s; "
                       "get the model again",
                       f->d->config_path, (long long)group, (long long)m.columns, name);
    m.scale_columns = m.columns / m.block_columns;
    if (!quant_is_scale(&m.scales) || !quant_is(&m.scales, m.scales.tensor->dtype, m.scale_columns, m.rows))
        return quant_bad_part(f, &m.scales, err);
    if (!quant_is(&m.zeros, DT_I32, m.scale_columns, m.rows / PER))
        return quant_bad_part(f, &m.zeros, err);
    return quant_add_matrix(f, name, 2, (int64_t[]){m.rows, m.columns}, &m, err);
}

int awq_find(struct quant_finding *f, struct snug_err *err)
{
    int64_t group;
    TRY(read_group(f, &group, err));
    for (size_t i = 0; i < f->d->n_tensors; i++) {
        const struct model_tensor *t = &f->d->tensors[i];
        const char *end = quant_end(t->tensor->name, ".qweight");
        if (end)
            TRY(add_weight(f, t, end, group, err));
    }
    return SNUG_OK;
}
