/* Weights in floats of 8 bits, as numbers. Of a weight PATH.weight a folder has
 *     .weight             F8_E4M3 or F8_E5M2 (O,I); of experts (E,O,I)
 *     .weight_scale_inv   F32 or BF16: what a number is multiplied with, of each block of weight_block_size elements; those at the
 *                         edges are smaller. One for all where there are no blocks (fine-grained FP8 of DeepSeek and transformers).
 *     .weight_scale       the same under the name that FBGEMM has: one for each row (O,1)
 * What else is beside it is for activations. */
#include "format/quantised/quantised.h"

#include <string.h>

struct block {
    int64_t rows, columns; /* 0: the folder has no blocks */
};

static int read_block(const struct quant_finding *f, struct block *out, struct snug_err *err)
{
    json_t *size = f->config ? json_object_get(f->config, "weight_block_size") : NULL;
    char text[64];
    *out = (struct block){0};
    if (!size || json_is_null(size))
        return SNUG_OK;
    out->rows = json_integer_value(json_array_get(size, 0));
    out->columns = json_integer_value(json_array_get(size, 1));
    if (json_array_size(size) == 2 && out->rows > 0 && out->columns > 0)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: weight_block_size is %s; expected two integers above 0", f->d->config_path,
                   json_value_text(size, text));
}

/* Whether a scale is for each of so many blocks of rows and columns of a matrix of each expert. */
static bool has_scales(const struct st_tensor *scales, const struct st_tensor *codes, int64_t rows, int64_t columns)
{
    int n = codes->ndim;
    for (int i = 0; i < n - 2 && scales->ndim == n; i++)
        if (scales->shape[i] != codes->shape[i])
            return false;
    return scales->ndim == n && scales->shape[n - 2] == rows && scales->shape[n - 1] == columns;
}

/* The scales by their shape: for a block each, for a row each, or one. */
static int take_scales(const struct quant_finding *f, struct block block, struct quant_matrix *m, struct snug_err *err)
{
    const struct st_tensor *codes = m->codes.tensor, *scales = m->scales.tensor;
    int64_t rows = codes->shape[codes->ndim - 2];
    if (!quant_is_scale(&m->scales))
        return quant_bad_part(f, &m->scales, err);
    if (st_elements(scales) == 1) {
        m->block_rows = m->rows;
        m->block_columns = m->columns;
    } else if (block.rows && (codes->ndim == 2 || rows % block.rows == 0) &&
               has_scales(scales, codes, quant_blocks(rows, block.rows), quant_blocks(m->columns, block.columns))) {
        m->block_rows = block.rows;
        m->block_columns = block.columns;
    } else if (!block.rows &&
               (has_scales(scales, codes, rows, 1) || (scales->ndim == 1 && scales->shape[0] == m->rows))) {
        m->block_rows = 1;
        m->block_columns = m->columns;
    } else {
        return quant_bad_part(f, &m->scales, err);
    }
    m->scale_rows = quant_blocks(m->rows, m->block_rows);
    m->scale_columns = quant_blocks(m->columns, m->block_columns);
    return SNUG_OK;
}

static int add_weight(struct quant_finding *f, const struct model_tensor *codes, struct block block,
                      struct snug_err *err)
{
    const char *name = codes->tensor->name;
    const struct st_tensor *t = codes->tensor;
    struct quant_matrix m = {.layout = &quant_bytes};
    TRY(quant_take(f, name, "", &m.codes, err));
    TRY(quant_take_any(f, name, "_scale", &m.scales, err));
    if (!m.scales.tensor)
        TRY(quant_take(f, name, "_scale_inv", &m.scales, err));
    if ((t->ndim != 2 && t->ndim != 3) || !t->bytes)
        return quant_bad_part(f, codes, err);
    m.columns = t->shape[t->ndim - 1];
    m.rows = t->bytes / m.columns;
    TRY(take_scales(f, block, &m, err));
    return quant_add_matrix(f, name, t->ndim, t->shape, &m, err);
}

int fp8_find(struct quant_finding *f, struct snug_err *err)
{
    struct block block;
    TRY(read_block(f, &block, err));
    for (size_t i = 0; i < f->d->n_tensors; i++) {
        const struct model_tensor *t = &f->d->tensors[i];
        if (t->tensor->dtype == DT_F8_E4M3 || t->tensor->dtype == DT_F8_E5M2)
            TRY(add_weight(f, t, block, err));
    }
    quant_drop(f, ".input_scale");
    quant_drop(f, ".input_scale_ub");
    quant_drop(f, "activation_scale");
    return SNUG_OK;
}
