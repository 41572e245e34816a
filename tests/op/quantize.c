/* Weights of 4 bits are those of bitsandbytes (record_quantized.py): codes, what these are multiplied with, and the numbers that the
 * reference makes of them. */
#include "op/codes/quantize.h"
#include "format/safetensors.h"
#include "graph/op.h"
#include "graph/ops.h"
#include "op/optimizer/dynamic_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 266 * 64, BLOCKS = 266, GROUPS = 2, EVERY = 7 };

static struct st_file recorded;

static int open_recorded(void **state)
{
    char path[1024];
    (void)state;
    snprintf(path, sizeof path, "%s/tests/op/quantized.safetensors", getenv("SNUG_SOURCE"));
    return st_open(&io_posix, path, &recorded, NULL);
}

static int close_recorded(void **state)
{
    (void)state;
    st_close(&recorded);
    return 0;
}

/* Bytes of KIND[.nested].WHAT, which are so many. */
static void *read_of(const char *kind, const char *what, int64_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", kind, what);
    const struct st_tensor *t = st_find(&recorded, name);
    assert_non_null(t);
    assert_int_equal(t->bytes, bytes);
    void *to = malloc((size_t)bytes);
    assert_non_null(to);
    assert_int_equal(st_read(&recorded, t, to, NULL), SNUG_OK);
    return to;
}

static float *recorded_x(void)
{
    static float x[ELEMENTS];
    uint16_t *bits = read_of("", "x", 2 * ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = bf16_to_float(bits[i]);
    free(bits);
    return x;
}

static const char *const kinds[QUANT_COUNT] = {"nf4", "fp4"};

/* 0 has two codes among the floats. */
static uint8_t one_zero(enum quant_type type, uint8_t code)
{
    return type == QUANT_FP4 && code == 8 ? 0 : code;
}

static void codes_are_theirs(void **state)
{
    static uint8_t codes[ELEMENTS / 2];
    static float absmax[BLOCKS];
    (void)state;
    for (enum quant_type t = 0; t < QUANT_COUNT; t++) {
        uint8_t *want = read_of(kinds[t], ".codes", sizeof codes);
        float *most = read_of(kinds[t], ".absmax", sizeof absmax);
        quantize(t, recorded_x(), ELEMENTS, 1, codes, absmax);
        for (int i = 0; i < ELEMENTS; i++) {
            int shift = i % 2 ? 0 : 4;
            bool zeros = i / QUANT_BLOCK == 5; /* any code will do */
            if (!zeros)
                assert_int_equal(one_zero(t, codes[i / 2] >> shift & 15), one_zero(t, want[i / 2] >> shift & 15));
        }
        for (int i = 0; i < BLOCKS; i++)
            assert_true(absmax[i] == most[i]);
        free(want);
        free(most);
    }
}

/* Whether a magnitude is so near to the middle of two codes that bitsandbytes' table of 65,536 entries does not tell them apart. */
static bool is_between(float absmax, const float *floats, int block)
{
    float x = (absmax - floats[0]) / floats[1 + block / MAP_BLOCK];
    for (int i = 1; i < MAP_CODES; i++)
        if (fabsf(x - (map_signed(i - 1) + map_signed(i)) / 2) < 0x1p-15f)
            return true;
    return false;
}

static void nested_magnitudes_are_theirs(void **state)
{
    static uint8_t codes[ELEMENTS / 2], magnitudes[BLOCKS];
    static float absmax[BLOCKS], floats[1 + GROUPS];
    (void)state;
    assert_int_equal(quant_nested_floats(BLOCKS), 1 + GROUPS);
    quantize(QUANT_NF4, recorded_x(), ELEMENTS, 1, codes, absmax);
    quantize_absmax_scales(absmax, BLOCKS, floats);
    quantize_absmax(absmax, BLOCKS, floats, 1, magnitudes);
    uint8_t *want = read_of("nf4", ".nested.absmax", sizeof magnitudes);
    float *beside = read_of("nf4", ".nested.floats", sizeof floats);
    for (int i = 0; i < 1 + GROUPS; i++)
        assert_true(floats[i] - beside[i] <= 0x1p-22f &&
                    beside[i] - floats[i] <= 0x1p-22f); /* their mean is a sum of floats */
    for (int i = 0; i < BLOCKS; i++)
        if (!is_between(absmax[i], floats, i))
            assert_int_equal(magnitudes[i], want[i]);
    free(want);
    free(beside);
}

/* Of recorded codes. */
static void check_numbers(enum quant_type type, bool nested)
{
    static double y[ELEMENTS];
    double wide[BLOCKS], floats[1 + GROUPS];
    const char *absmax_name = nested ? ".nested.absmax" : ".absmax";
    uint8_t *codes = read_of(kinds[type], ".codes", ELEMENTS / 2);
    void *absmax = read_of(kinds[type], absmax_name, nested ? BLOCKS : 4 * BLOCKS);
    float *want = read_of(kinds[type], nested ? ".nested.y" : ".y", 4 * ((ELEMENTS + EVERY - 1) / EVERY));
    struct args_dequantize a = {.w = {.data = codes, .shape = {ELEMENTS}, .dtype = DT_F4, .ndim = 1},
                                .absmax = {.data = absmax, .shape = {BLOCKS}, .dtype = DT_U8, .ndim = 1},
                                .y = {.data = y, .shape = {ELEMENTS}, .dtype = DT_F64, .ndim = 1},
                                .table = type};
    float *beside = nested ? read_of(kinds[type], ".nested.floats", sizeof(float[1 + GROUPS])) : NULL;
    for (int i = 0; i < BLOCKS && !nested; i++)
        wide[i] = (double)((float *)absmax)[i];
    for (int i = 0; i < 1 + GROUPS && nested; i++)
        floats[i] = (double)beside[i];
    if (nested)
        a.nested = (struct tensor){.data = floats, .shape = {1 + GROUPS}, .dtype = DT_F64, .ndim = 1};
    else
        a.absmax.data = wide;
    ref_dequantize(&a, &(struct call){.threads = 1});
    for (int i = 0; i < ELEMENTS; i += EVERY)
        assert_true(y[i] == (double)want[i / EVERY]);
    free(codes);
    free(absmax);
    free(want);
    free(beside);
}

/* The same on the host, from any block on. */
static void check_host(enum quant_type type)
{
    static float absmax[BLOCKS], x[ELEMENTS];
    enum { FIRST = 260 };
    uint8_t *codes = read_of(kinds[type], ".codes", ELEMENTS / 2);
    uint8_t *stored = read_of(kinds[type], ".nested.absmax", BLOCKS);
    float *floats = read_of(kinds[type], ".nested.floats", sizeof(float[1 + GROUPS]));
    float *want = read_of(kinds[type], ".nested.y", 4 * ((ELEMENTS + EVERY - 1) / EVERY));
    quantize_absmax_numbers(stored, floats, 0, FIRST, absmax);
    quantize_absmax_numbers(stored + FIRST, floats, FIRST, BLOCKS - FIRST, absmax + FIRST);
    quantize_numbers(type, codes, absmax, ELEMENTS, x);
    for (int i = 0; i < ELEMENTS; i += EVERY)
        assert_true(x[i] == want[i / EVERY]);
    free(codes);
    free(stored);
    free(floats);
    free(want);
}

static void numbers_are_theirs(void **state)
{
    (void)state;
    for (enum quant_type t = 0; t < QUANT_COUNT; t++) {
        check_numbers(t, false);
        check_numbers(t, true);
        check_host(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_theirs),
        cmocka_unit_test(nested_magnitudes_are_theirs),
        cmocka_unit_test(numbers_are_theirs),
    };
    return cmocka_run_group_tests(tests, open_recorded, close_recorded);
}
