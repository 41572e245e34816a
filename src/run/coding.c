#include "run/coding.h"

#include "ranks/ranks.h"
#include "ranks/shard.h"

#include <stdio.h>
#include <string.h>

int coding_open(struct coding *c, const struct run *r, const struct run_value *weight, enum quant_type type,
                int64_t piece, struct snug_err *err)
{
    size_t blocks = (size_t)quant_blocks(weight->elements), bytes = (size_t)piece / 2 + 1;
    *c = (struct coding){.r = r, .weight = *weight, .type = type};
    c->codes = mem_alloc(bytes);
    c->absmax = mem_alloc(blocks * sizeof *c->absmax);
    if (c->codes && c->absmax)
        return SNUG_OK;
    coding_close(c);
    return err_no_memory(err, bytes + blocks * sizeof *c->absmax);
}

int coding_put(struct coding *c, const float *x, int64_t first, int64_t n, struct snug_err *err)
{
    struct run_value part = run_part_of(&c->weight, first, n);
    quantize(c->type, x, n, c->r->threads, c->codes, c->absmax + first / QUANT_BLOCK);
    return run_write(c->r, &part, c->codes, part.dtype, n, err);
}

/* What is of the weight; false: there is none. */
static bool find_beside(const struct run *r, const char *weight, enum kin kin, struct run_value *out)
{
    char name[512];
    int n = snprintf(name, sizeof name, "%s.%s", kin_names[kin], weight);
    return n > 0 && (size_t)n < sizeof name && run_find(r, name, out);
}

static int no_absmax(const char *weight, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "graph: the codes of %s have no absmax", weight);
}

static int write_nested(const struct coding *c, const struct run_value *absmax, const struct run_value *nested,
                        struct snug_err *err)
{
    uint8_t *codes = mem_alloc((size_t)absmax->elements);
    float *floats = mem_alloc((size_t)nested->elements * sizeof *floats);
    int code =
        codes && floats ? SNUG_OK : err_no_memory(err, (size_t)(absmax->elements + nested->elements) * sizeof *floats);
    if (!code) {
        if (c->n_nested == nested->elements)
            memcpy(floats, c->nested, (size_t)c->n_nested * sizeof *floats);
        else
            quantize_absmax_scales(c->absmax, absmax->elements, floats);
        quantize_absmax(c->absmax, absmax->elements, floats, c->r->threads, codes);
        code = run_write(c->r, absmax, codes, DT_U8, absmax->elements, err);
    }
    if (!code)
        code = run_write(c->r, nested, floats, DT_F32, nested->elements, err);
    mem_free(codes);
    mem_free(floats);
    return code;
}

int coding_finish(struct coding *c, struct snug_err *err)
{
    struct run_value absmax, nested;
    if (!run_has(c->r, &c->weight))
        return SNUG_OK;
    if (!find_beside(c->r, c->weight.name, KIN_ABSMAX, &absmax))
        return no_absmax(c->weight.name, err);
    return find_beside(c->r, c->weight.name, KIN_NESTED_ABSMAX, &nested)
               ? write_nested(c, &absmax, &nested, err)
               : run_write(c->r, &absmax, c->absmax, DT_F32, absmax.elements, err);
}

void coding_close(struct coding *c)
{
    mem_free(c->codes);
    mem_free(c->absmax);
    c->codes = NULL;
    c->absmax = NULL;
}

/* The largest magnitudes of n blocks from block `first` on, where they are codes. */
static int read_nested(const struct run *r, const struct run_value *absmax, const struct run_value *nested,
                       int64_t first, float *to, struct snug_err *err)
{
    int64_t n = absmax->elements;
    uint8_t *codes = mem_alloc((size_t)n);
    float *floats = mem_alloc((size_t)nested->elements * sizeof *floats);
    int code = codes && floats ? SNUG_OK : err_no_memory(err, (size_t)(n + nested->elements) * sizeof *floats);
    if (!code)
        code = run_read(r, absmax, codes, DT_U8, err);
    if (!code)
        code = run_read(r, nested, floats, DT_F32, err);
    if (!code)
        quantize_absmax_numbers(codes, floats, first, n, to);
    mem_free(codes);
    mem_free(floats);
    return code;
}

/* As where numbers are read, the caller is to find 0 in the place of what lies in other processes. */
static void forget_others(const struct run *r, const struct run_value *weight, int64_t first, int64_t n, float *x)
{
    struct shard mine = {first, n};
    if (weight->shards && r->rank && !r->ranks)
        mine = shard_of(weight->whole, weight->chunk, weight->shards, r->rank->me);
    for (int64_t i = 0; i < n; i++)
        if (first + i < mine.first || first + i >= mine.first + mine.n)
            x[i] = 0;
}

int coding_read(const struct run *r, const struct run_value *weight, enum quant_type type, int64_t first, int64_t n,
                float *to, struct snug_err *err)
{
    struct run_value codes = run_part_of(weight, first, n), absmax, nested;
    int64_t block = first / QUANT_BLOCK, blocks = quant_blocks(n);
    if (!find_beside(r, weight->name, KIN_ABSMAX, &absmax))
        return no_absmax(weight->name, err);
    absmax = run_part_of(&absmax, block, blocks);
    uint8_t *read = mem_alloc((size_t)dtype_bytes(codes.dtype, n + n % 2));
    float *most = mem_alloc((size_t)blocks * sizeof *most);
    int code = read && most ? SNUG_OK : err_no_memory(err, (size_t)n);
    if (!code)
        code = run_read(r, &codes, read, codes.dtype, err);
    if (!code)
        code = find_beside(r, weight->name, KIN_NESTED_ABSMAX, &nested)
                   ? read_nested(r, &absmax, &nested, block, most, err)
                   : run_read(r, &absmax, most, DT_F32, err);
    if (!code) {
        quantize_numbers(type, read, most, n, to);
        forget_others(r, weight, first, n, to);
    }
    mem_free(read);
    mem_free(most);
    return code;
}
