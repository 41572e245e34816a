/* format/model_mxfp4: the numbers of experts in MXFP4, as transformers has them (mxfp4/record.py); what does not fit together; faults. */
#include "../failing_memory.h"
#include "../folder.h"
#include "base/hash.h"
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
    snprintf(path, sizeof path, "%s/tests/format/mxfp4/%s", getenv("SNUG_SOURCE"), name);
    return path;
}

/* The hash of a tensor's numbers in BF16, which they fit into, read in pieces of `step`. */
static void hash_numbers(const struct model_tensor *t, int64_t step, char hex[33])
{
    struct snug_err err;
    int64_t n = st_elements(t->tensor), size = sizeof(float);
    float *to = malloc((size_t)(n * size));
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
    for (int64_t at = 0; at < n; at += step) {
        int64_t k = step < n - at ? step : n - at;
        assert_int_equal(st_read_part(t->file, t->tensor, at * size, to + at, (size_t)(k * size), &err), 0);
    }
    dtype_convert(narrow, DT_BF16, to, DT_F32, n);
    for (int64_t i = 0; i < n; i++)
        assert_true(bf16_to_float(narrow[i]) == to[i]);
    hash_hex(hash_bytes(narrow, (size_t)n * sizeof *narrow), hex);
    free(narrow);
    free(to);
}

static void has_the_numbers_of_transformers(void **state)
{
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    json_t *expected, *value;
    const char *key;
    char hex[33];
    assert_int_equal(json_read_object(&io_posix, recorded("folder.json"), 1 << 20, &expected, &err), 0);
    assert_int_equal(model_dir_open(&io_posix, recorded("folder"), &d, &err), 0);
    assert_null(json_object_get(d.config, "quantization_config"));
    assert_int_equal(json_object_size(expected), 2);
    json_object_foreach(expected, key, value)
    {
        const struct model_tensor *t = model_dir_find(&d, key);
        json_t *shape = json_array_get(value, 0);
        assert_non_null(t);
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
    for (size_t i = 0; i < d.n_tensors; i++)
        assert_null(strstr(d.tensors[i].tensor->name, "_blocks"));
    json_decref(expected);
    model_dir_close(&d);
}

/* ---- folders with some bytes changed ---- */

static char place[64];

static char *weights(size_t *n)
{
    return read_text(recorded("folder/model.safetensors"), n);
}

static void make_copy(const char *bytes, size_t n)
{
    size_t length;
    make_folder(place);
    char *config = read_text(recorded("folder/config.json"), &length);
    write_text(place, "config.json", config);
    free(config);
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

static void refuses_what_does_not_fit(void **state)
{
    static const struct {
        const char *from, *to, *part;
    } rows[] = {
        {"down_proj_scales", "down_proj_scalez",
         "has no model.layers.0.mlp.experts.down_proj_scales, which MXFP4 keeps beside the weight"},
        {"[3,64,1,16]", "[3,16,1,64]",
         "down_proj_blocks, U8 [3, 16, 1, 64], does not fit the weight that MXFP4 has quantised"},
        {"[3,64,1,16]", "[3,32,2,16]", "does not fit the weight that MXFP4 has quantised"},
        {"\"U8\",\"shape\":[3,64,1]", "\"I8\",\"shape\":[3,64,1]", "does not fit the weight that MXFP4 has quantised"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct snug_err err = {0};
        size_t bytes;
        char *data = weights(&bytes), *at = memmem(data, bytes, rows[i].from, strlen(rows[i].from));
        assert_non_null(at);
        memcpy(at, rows[i].to, strlen(rows[i].to));
        make_copy(data, bytes);
        assert_int_equal(read_folder(&err), SNUG_ERR_INPUT);
        if (!strstr(err.text, rows[i].part))
            fail_msg("\"%s\" lacks \"%s\"", err.text, rows[i].part);
        free(data);
        remove_tree(place);
    }
}

static void survives_a_lack_of_memory(void **state)
{
    (void)state;
    size_t bytes;
    char *data = weights(&bytes);
    make_copy(data, bytes);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_numbers_of_transformers),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
