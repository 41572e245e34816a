/* format/model_bitsandbytes: the numbers of weights that bitsandbytes has quantised, as its own functions give them
 * (bitsandbytes/record.py); what does not fit together; faults. */
#include "../failing_memory.h"
#include "../folder.h"
#include "../sanitized.h"
#include "base/hash.h"
#include "base/philox.h"
#include "format/model_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *recorded(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/format/bitsandbytes/%s", getenv("SNUG_SOURCE"), name);
    return path;
}

/* The hash of a tensor's numbers, read in pieces of `step`. */
static void hash_numbers(const struct model_tensor *t, int64_t step, char hex[33])
{
    struct snug_err err;
    int64_t n = st_elements(t->tensor), size = sizeof(float);
    float *to = malloc((size_t)(n * size));
    for (int64_t at = 0; at < n; at += step) {
        int64_t k = step < n - at ? step : n - at;
        assert_int_equal(st_read_part(t->file, t->tensor, at * size, to + at, (size_t)(k * size), &err), 0);
    }
    hash_hex(hash_bytes(to, (size_t)(n * size)), hex);
    free(to);
}

static void has_the_numbers_of_bitsandbytes(void **state)
{
    static const struct {
        const char *name, *json;
        struct model_bits bits;
    } cases[] = {{"nested", "nested.json", {.bits = 4, .nested = true}},
                 {"fp4", "fp4.json", {.bits = 4, .fp4 = true}},
                 {"storage", "storage.json", {.bits = 4}},
                 {"int8", "int8.json", {.bits = 8}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_dir d = {0};
        struct snug_err err;
        json_t *expected, *value;
        const char *key;
        char hex[33];
        assert_int_equal(json_read_object(&io_posix, recorded(cases[i].json), 1 << 20, &expected, &err), 0);
        assert_int_equal(model_dir_open(&io_posix, recorded(cases[i].name), &d, &err), 0);
        assert_null(json_object_get(d.config, "quantization_config"));
        assert_int_equal(d.bits.bits, cases[i].bits.bits);
        assert_int_equal(d.bits.nested, cases[i].bits.nested);
        if (d.bits.bits == 4)
            assert_int_equal(d.bits.fp4, cases[i].bits.fp4);
        json_object_foreach(expected, key, value)
        {
            const struct model_tensor *t = model_dir_find(&d, key);
            json_t *shape = json_array_get(value, 0);
            assert_non_null(t);
            assert_true(model_dir_has_quantized(&d, t));
            assert_int_equal(t->tensor->dtype, DT_F32);
            assert_int_equal(t->tensor->ndim, json_array_size(shape));
            for (int k = 0; k < t->tensor->ndim; k++)
                assert_int_equal(t->tensor->shape[k], json_integer_value(json_array_get(shape, (size_t)k)));
            const int64_t steps[] = {st_elements(t->tensor), 77, 64};
            for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
                hash_numbers(t, steps[k], hex);
                assert_string_equal(hex, json_string_value(json_array_get(value, 1)));
            }
        }
        size_t others = d.n_tensors - json_object_size(expected); /* embeddings and three norms; a layer */
        assert_int_equal(others, strcmp(cases[i].name, "storage") ? 4 : 5);
        json_decref(expected);
        model_dir_close(&d);
    }
}

/* ---- folders with some bytes changed ---- */

static char place[64];

static void copy_folder(const char *name)
{
    char from[600];
    size_t n;
    make_folder(place);
    snprintf(from, sizeof from, "%s/config.json", recorded(name));
    char *config = read_text(from, &n);
    write_text(place, "config.json", config);
    free(config);
}

static void put_weights(const char *bytes, size_t n)
{
    FILE *f = fopen(in(place, "model.safetensors"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Opens the folder and reads all. */
static int read_folder(struct snug_err *err)
{
    struct model_dir d = {0};
    TRY(model_dir_open(&io_posix, place, &d, err));
    int code = SNUG_OK;
    for (size_t i = 0; i < d.n_tensors && !code; i++) {
        char *to = mem_alloc((size_t)d.tensors[i].tensor->bytes + 1);
        code = to ? st_read(d.tensors[i].file, d.tensors[i].tensor, to, err) : err_no_memory(err, 1);
        mem_free(to);
    }
    model_dir_close(&d);
    return code;
}

static char *weights_of(const char *name, size_t *n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", recorded(name));
    return read_text(path, n);
}

static void refuses_what_does_not_fit(void **state)
{
#define ROW(folder, from, to, part)                                                                                    \
    {                                                                                                                  \
        folder, from, to, sizeof from - 1, part                                                                        \
    }
    static const struct {
        const char *name, *from, *to;
        size_t n;
        const char *part;
    } rows[] = {
        ROW("fp4", "down_proj.weight.absmax", "down_proj.weight.absmay",
            "has no model.layers.0.mlp.down_proj.weight.absmax, which bitsandbytes keeps beside the weight"),
        ROW("fp4", "\"shape\": [16, 48]}", "\"shape\": [16, 49]}",
            "model.layers.0.mlp.down_proj.weight, U8 [384, 1], does not fit the weight"),
        ROW("fp4", "\"shape\": [16, 48]}", "\"shape\": [16, -8]}", "fp4, U8 [78], does not fit the weight"),
        ROW("fp4", "\"shape\": [16, 48]}", "\"shape\": 16      }", "fp4, U8 [78], does not fit the weight"),
        ROW("fp4", "\"blocksize\": 64", "\"blocksize\": 32", "absmax, F32 [12], does not fit the weight"),
        ROW("fp4", "\"blocksize\": 64", "\"blocksize\": 0 ", "blocksize is 0; expected an integer from 2 to"),
        ROW("fp4", "\"blocksize\": 64", "\"blocksize\": 6,", "fp4:1:"),
        ROW("int8", "k_proj.SCB", "k_proz.SCB", "has no model.layers.0.self_attn.k_proz.weight"),
        ROW("int8", "\"dtype\":\"I8\",\"shape\":[16,48]", "\"dtype\":\"U8\",\"shape\":[16,48]",
            "down_proj.weight, U8 [16, 48], does not fit the weight"),
        ROW("int8", "\"dtype\":\"I8\",\"shape\":[16,48]", "\"dtype\":\"I8\",\"shape\":[48,16]",
            "down_proj.SCB, F32 [16], does not fit the weight"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct snug_err err = {0};
        size_t bytes;
        char *data = weights_of(rows[i].name, &bytes), *at = memmem(data, bytes, rows[i].from, rows[i].n);
        assert_non_null(at);
        memcpy(at, rows[i].to, rows[i].n);
        copy_folder(rows[i].name);
        put_weights(data, bytes);
        assert_int_equal(read_folder(&err), SNUG_ERR_INPUT);
        if (!strstr(err.text, rows[i].part))
            fail_msg("\"%s\" lacks \"%s\"", err.text, rows[i].part);
        free(data);
        remove_tree(place);
    }
}

/* Whatever bytes change: all is read, or refused in a line. */
static void survives_changed_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"fp4", "storage", "int8"};
    for (uint32_t i = 0; i < (SANITIZED ? 300 : 3000); i++) {
        struct snug_err err = {0};
        size_t bytes;
        char *data = weights_of(names[i % 3], &bytes);
        struct philox random = philox4x32((struct philox){{i}}, 11, 0);
        for (int k = 0; k < 2; k++)
            data[random.w[2 * k] % bytes] = (char)random.w[2 * k + 1];
        copy_folder(names[i % 3]);
        put_weights(data, bytes);
        int code = read_folder(&err);
        if (code)
            assert_true(code == SNUG_ERR_INPUT && err.text[0] && !strchr(err.text, '\n'));
        free(data);
        remove_tree(place);
    }
}

static void survives_a_lack_of_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"fp4", "int8"};
    for (size_t i = 0; i < 2; i++) {
        size_t bytes;
        char *data = weights_of(names[i], &bytes);
        copy_folder(names[i]);
        put_weights(data, bytes);
        free(data);
        bool hit = true;
        for (long k = 1; hit; k++) {
            struct failing_memory memory;
            struct snug_err err = {0};
            failing_memory_set(&memory, k, false);
            int code = read_folder(&err);
            hit = failing_memory_hit(&memory);
            mem_set_ops(NULL);
            assert_int_equal(code, hit ? SNUG_ERR_ENV : SNUG_OK);
        }
        remove_tree(place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_numbers_of_bitsandbytes),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(survives_changed_bytes),
        cmocka_unit_test(survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
