/* quantised_folder.h: what the tests of folders with quantised weights share. Their recordings are in RECORDED. */
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
    snprintf(path, sizeof path, "%s/tests/format/" RECORDED "/%s", getenv("SNUG_SOURCE"), name);
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

/* The weights of a folder that has been opened are those of NAME.json, in whatever pieces they are read; how many they are. */
static size_t has_recorded_numbers(const struct model_dir *d, const char *name)
{
    char hex[33], file[64];
    struct snug_err err;
    json_t *expected, *value;
    const char *key;
    snprintf(file, sizeof file, "%s.json", name);
    assert_int_equal(json_read_object(&io_posix, recorded(file), 1 << 20, &expected, &err), 0);
    json_object_foreach(expected, key, value)
    {
        const struct model_tensor *t = model_dir_find(d, key);
        json_t *shape = json_array_get(value, 0);
        assert_non_null(t);
        assert_true(model_dir_has_quantized(d, t));
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
    size_t n = json_object_size(expected);
    json_decref(expected);
    return n;
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

/* The folder is refused in one line, with that in it; it is gone then. */
static void expect_refusal(const char *part)
{
    struct snug_err err = {0};
    assert_int_equal(read_folder(&err), SNUG_ERR_INPUT);
    if (!strstr(err.text, part) || strchr(err.text, '\n'))
        fail_msg("\"%s\" lacks \"%s\"", err.text, part);
    remove_tree(place);
}

static char *weights_of(const char *name, size_t *n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", recorded(name));
    return read_text(path, n);
}

/* `from` becomes `to`, of the same length, in the file's bytes. */
static void change(char *data, size_t bytes, const char *from, const char *to)
{
    char *at = memmem(data, bytes, from, strlen(from));
    if (!at)
        fail_msg("no %s", from);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
}

/* NAME with such a change is refused. */
static void refuses_bytes(const char *name, const char *from, const char *to, const char *part)
{
    size_t bytes;
    char *data = weights_of(name, &bytes);
    change(data, bytes, from, to);
    copy_folder(name);
    put_weights(data, bytes);
    free(data);
    expect_refusal(part);
}

/* In every fourth folder: one byte. */
static void change_config(uint32_t i)
{
    size_t n;
    char *config = read_text(in(place, "config.json"), &n);
    struct philox random = philox4x32((struct philox){{i}}, 12, 0);
    if (i % 4 == 3)
        config[random.w[0] % n] = (char)(1 + random.w[1] % 255);
    write_text(place, "config.json", config);
    free(config);
}

/* Whatever bytes of NAME's weights change, or one of its configuration: all is read, or refused in a line. */
static void survives_changes_of(const char *name, uint32_t i)
{
    struct snug_err err = {0};
    size_t bytes;
    char *data = weights_of(name, &bytes);
    struct philox random = philox4x32((struct philox){{i}}, 11, 0);
    for (int k = 0; k < 2; k++)
        data[random.w[2 * k] % bytes] = (char)random.w[2 * k + 1];
    copy_folder(name);
    put_weights(data, bytes);
    change_config(i);
    int code = read_folder(&err);
    if (code)
        assert_true(code == SNUG_ERR_INPUT && err.text[0] && !strchr(err.text, '\n'));
    free(data);
    remove_tree(place);
}

static void survives_a_lack_of_memory_in(const char *name)
{
    size_t bytes;
    char *data = weights_of(name, &bytes);
    copy_folder(name);
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
