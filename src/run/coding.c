#include "run/coding.h"

#include "op/codes/fp8.h"
#include "ranks/ranks.h"
#include "ranks/shard.h"

#include <stdio.h>
#include <string.h>

static int64_t units_of(const struct run_value *w, int64_t elements)
{
    int64_t unit = coding_unit(w);
    return (elements + unit - 1) / unit;
}

static size_t codes_bytes(const struct run_value *w, int64_t elements)
{
    return (size_t)dtype_bytes(w->dtype, elements + elements % 2);
}

int coding_open(struct coding *c, const struct run *r, const struct run_value *weight, enum quant_type type,
                int64_t piece, struct snug_err *err)
{
    int64_t unit = coding_unit(weight);
    size_t floats = (size_t)(units_of(weight, weight->elements) + unit), bytes = codes_bytes(weight, piece + unit);
    *c = (struct coding){.r = r, .weight = *weight, .type = type, .unit = unit};
    c->codes = mem_alloc(bytes);
    c->times = mem_alloc(floats * sizeof *c->times);
    if (!c->codes || !c->times) {
        coding_close(c);
        return err_no_memory(err, bytes + floats * sizeof *c->times);
    }
    c->begun = c->times + units_of(weight, weight->elements);
    return SNUG_OK;
}

/* Whole units, but for the last block. */
static int put_units(struct coding *c, const float *x, int64_t first, int64_t n, struct snug_err *err)
{
    struct run_value part = run_part_of(&c->weight, first, n);
    float *times = c->times + first / c->unit;
    if (c->weight.dtype == DT_F4)
        quantize(c->type, x, n, c->r->threads, c->codes, times);
    else
        fp8_codes(x, n / c->unit, c->unit, c->r->threads, c->codes, times);
    return run_write(c->r, &part, c->codes, part.dtype, n, err);
}

/* What is missing of a row that has begun. */
static int64_t go_on(struct coding *c, const float *x, int64_t n)
{
    int64_t missing = c->n_begun ? c->unit - c->n_begun : 0, takes = missing < n ? missing : n;
    memcpy(c->begun + c->n_begun, x, (size_t)takes * sizeof *x);
    c->n_begun += takes;
    return takes;
}

static int put_rows(struct coding *c, const float *x, int64_t first, int64_t n, struct snug_err *err)
{
    int64_t taken = go_on(c, x, n), rows = (n - taken) / c->unit * c->unit, rest = n - taken - rows;
    if (c->n_begun == c->unit) {
        TRY(put_units(c, c->begun, first + taken - c->unit, c->unit, err));
        c->n_begun = 0;
    }
    if (rows)
        TRY(put_units(c, x + taken, first + taken, rows, err));
    if (rest)
        memcpy(c->begun, x + taken + rows, (size_t)rest * sizeof *x);
    c->n_begun += rest;
    return SNUG_OK;
}

int coding_put(struct coding *c, const float *x, int64_t first, int64_t n, struct snug_err *err)
{
    return (c->weight.dtype == DT_F4 ? put_units : put_rows)(c, x, first, n, err);
}

/* A value that is `kin` of the weight; false: there is none. */
static bool find_beside(const struct run *r, const char *weight, enum kin kin, struct run_value *out)
{
    char name[512];
    int n = snprintf(name, sizeof name, "%s.%s", kin_names[kin], weight);
    return n > 0 && (size_t)n < sizeof name && run_find(r, name, out);
}

/* What units are multiplied with. */
static int find_times(const struct run *r, const struct run_value *weight, struct run_value *out, struct snug_err *err)
{
    enum kin kin = weight->dtype == DT_F4 ? KIN_ABSMAX : KIN_SCALE;
    if (find_beside(r, weight->name, kin, out))
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "graph: the codes of %s have no %s", weight->name, kin_names[kin]);
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
            quantize_absmax_scales(c->times, absmax->elements, floats);
        quantize_absmax(c->times, absmax->elements, floats, c->r->threads, codes);
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
    TRY(find_times(c->r, &c->weight, &absmax, err));
    return find_beside(c->r, c->weight.name, KIN_NESTED_ABSMAX, &nested)
               ? write_nested(c, &absmax, &nested, err)
               : run_write(c->r, &absmax, c->times, DT_F32, absmax.elements, err);
}

void coding_close(struct coding *c)
{
    mem_free(c->codes);
    mem_free(c->times);
    c->codes = NULL;
    c->times = NULL;
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
    int64_t unit = first / coding_unit(weight), units = units_of(weight, n);
    TRY(find_times(r, weight, &absmax, err));
    absmax = run_part_of(&absmax, unit, units);
    uint8_t *read = mem_alloc(codes_bytes(weight, n));
    float *times = mem_alloc((size_t)units * sizeof *times);
    int code = read && times ? SNUG_OK : err_no_memory(err, (size_t)n);
    if (!code)
        code = run_read(r, &codes, read, codes.dtype, err);
    if (!code)
        code = find_beside(r, weight->name, KIN_NESTED_ABSMAX, &nested)
                   ? read_nested(r, &absmax, &nested, unit, times, err)
                   : run_read(r, &absmax, times, DT_F32, err);
    if (!code) {
        if (weight->dtype == DT_F4)
            quantize_numbers(type, read, times, n, to);
        else
            fp8_numbers(read, times, units, coding_unit(weight), to);
        forget_others(r, weight, first, n, to);
    }
    mem_free(read);
    mem_free(times);
    return code;
}
