/* format/gguf as a model folder: what config.json and the tensors of recorded files are (tests/format/gguf/record_models.py), where
 * a file is found, what is refused, faults. */
#include "../folder.h"
#include "base/hash.h"
#include "format/gguf/model.h"
#include "format/model_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "every_fault.h"

static const char *recorded(const char *name, const char *end)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/format/gguf/%s.%s", getenv("SNUG_SOURCE"), name, end);
    return path;
}

/* Reads all of a tensor in pieces of `step` elements (0: as a whole). */
static void *read_all(const struct model_tensor *t, int64_t step)
{
    struct snug_err err;
    char *to = malloc((size_t)t->tensor->bytes);
    int64_t n = st_elements(t->tensor), size = dtype_bytes(t->tensor->dtype, 1);
    for (int64_t at = 0, k; at < n; at += k) {
        k = step && step < n - at ? step : n - at;
        assert_int_equal(st_read_part(t->file, t->tensor, at * size, to + at * size, (size_t)(k * size), &err), 0);
    }
    return to;
}

static void compare_tensor(const struct model_dir *d, const char *name, json_t *expected)
{
    const struct model_tensor *t = model_dir_find(d, name);
    json_t *shape = json_array_get(expected, 1);
    char hex[33];
    assert_non_null(t);
    assert_string_equal(dtype_name(t->tensor->dtype), json_string_value(json_array_get(expected, 0)));
    assert_int_equal(t->tensor->ndim, json_array_size(shape));
    for (int i = 0; i < t->tensor->ndim; i++)
        assert_int_equal(t->tensor->shape[i], json_integer_value(json_array_get(shape, (size_t)i)));
    for (int64_t step = 0; step <= 77; step += 7) {
        void *got = read_all(t, step);
        hash_hex(hash_bytes(got, (size_t)t->tensor->bytes), hex);
        assert_string_equal(hex, json_string_value(json_array_get(expected, 2)));
        free(got);
    }
}

static void is_the_model_that_it_was_made_of(void **state)
{
    static const char *const names[] = {"llama",    "gemma2", "gemma3",  "olmo2", "phi3",      "mixtral",
                                        "qwen3moe", "gemma",  "granite", "phi2",  "starcoder2"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model_dir d = {0};
        struct snug_err err;
        json_t *expected, *value;
        const char *key;
        assert_int_equal(json_read_object(&io_posix, recorded(names[i], "json"), 1 << 20, &expected, &err), 0);
        assert_int_equal(model_dir_open(&io_posix, recorded(names[i], "gguf"), &d, &err), 0);
        json_object_foreach(json_object_get(expected, "config"), key, value)
        {
            json_t *got = json_object_get(d.config, key);
            char text[64];
            if (!json_equal(got, value))
                fail_msg("%s: %s is %s", names[i], key, json_value_text(got, text));
        }
        assert_int_equal(json_object_size(d.config), json_object_size(json_object_get(expected, "config")));
        assert_int_equal(d.n_tensors, json_object_size(json_object_get(expected, "tensors")));
        json_object_foreach(json_object_get(expected, "tensors"), key, value) compare_tensor(&d, key, value);
        assert_int_equal(d.n_made, 3);
        json_decref(expected);
        model_dir_close(&d);
    }
}

/* ---- where a file is found ---- */

static void put_recorded(const char *in_folder, const char *name)
{
    size_t n;
    char *bytes = read_text(recorded("llama", "gguf"), &n);
    FILE *f = fopen(in(in_folder, name), "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
    free(bytes);
}

static void is_found_in_a_folder(void **state)
{
    char place[64];
    struct model_dir d = {0};
    struct snug_err err;
    (void)state;
    make_folder(place);
    write_text(place, "README.md", "a model");
    assert_int_equal(model_dir_open(&io_posix, place, &d, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "config.json not found"));
    put_recorded(place, "model.gguf");
    assert_int_equal(model_dir_open(&io_posix, place, &d, &err), 0);
    assert_int_equal(d.n_tensors, 21);
    assert_string_equal(d.path, place);
    model_dir_close(&d);
    put_recorded(place, "another.gguf");
    assert_int_equal(model_dir_open(&io_posix, place, &d, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "has 2 GGUF files; give one of them, such as "));
    assert_int_equal(model_dir_open(&io_posix, in(place, "model.gguf"), &d, &err), 0);
    model_dir_close(&d);
    write_text(place, "config.json", "{}");
    assert_int_equal(model_dir_open(&io_posix, place, &d, &err), SNUG_ERR_INPUT);
    if (!strstr(err.text, "another.gguf"))
        fail_msg("%s", err.text);
    remove_tree(place);
}

/* ---- what is refused: the recorded file with some bytes changed ---- */

static int open_changed(const char *model, const char *from, const char *to, size_t n, struct snug_err *err)
{
    size_t bytes;
    char *data = read_text(recorded(model, "gguf"), &bytes), *at = memmem(data, bytes, from, n);
    assert_non_null(at);
    memcpy(at, to, n);
    struct memory_file file = {"f.gguf", data, bytes};
    struct memory_io m;
    struct model_dir d = {0};
    memory_io_init(&m, &file, 1);
    int code = model_dir_open(&m.io, "f.gguf", &d, err);
    if (!code)
        model_dir_close(&d);
    assert_int_equal(m.open_files, 0);
    free(data);
    return code;
}

static void refuses_what_it_does_not_know(void **state)
{
#define ROW_OF(model, from, to, part)                                                                                  \
    {                                                                                                                  \
        from, to, sizeof from - 1, part, model                                                                         \
    }
#define ROW(from, to, part) ROW_OF("llama", from, to, part)
    static const struct {
        const char *from, *to;
        size_t n;
        const char *part, *model;
    } rows[] = {
        ROW("\5\0\0\0\0\0\0\0llama", "\5\0\0\0\0\0\0\0mamba",
            "f.gguf: general.architecture is \"mamba\"; read from GGUF files are: llama,"),
        ROW("llama.block_count", "llama.block_coumt", "llama.block_count is absent; it must be given"),
        ROW("token_embd", "token_emby", "no table of embeddings, token_embd.weight"),
        ROW("\6\0\0\0\0\0\0\0smollm", "\6\0\0\0\0\0\0\0smolln",
            "tokenizer.ggml.pre is \"smolln\"; supported are default, gpt-2, smollm"),
        ROW("\4\0\0\0\0\0\0\0gpt2", "\4\0\0\0\0\0\0\0bert",
            "tokenizer.ggml.model is \"bert\"; supported are gpt2, llama"),
        ROW("llama.attention.head_count\4\0\0\0\4", "llama.attention.head_count\4\0\0\0\5",
            "has 32 rows, which 5 heads of an even width do not make"),
        ROW("blk.1.attn_k.weight", "blk.1.attn_v.weight", "tensor blk.1.attn_v.weight is there twice"),
        ROW_OF("mixtral", "llama.expert_count\4\0\0\0\3", "llama.expert_count\4\0\0\0\5",
               "tensor blk.0.ffn_down_exps.weight has 3 matrices where llama.expert_count says 5"),
        ROW_OF("mixtral", "llama.expert_used_count", "llama.expert_used_coumt",
               "llama.expert_used_count is absent; it must be given"),
        ROW_OF("qwen3moe", "qwen3moe.expert_count", "qwen3moe.expert_coumt",
               "qwen3moe.expert_count is 0; models of this architecture are read with experts alone"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct snug_err err = {0};
        assert_int_equal(open_changed(rows[i].model, rows[i].from, rows[i].to, rows[i].n, &err), SNUG_ERR_INPUT);
        if (!strstr(err.text, rows[i].part))
            fail_msg("\"%s\" lacks \"%s\"", err.text, rows[i].part);
    }
}

/* ---- faults ---- */

static int open_and_read(const struct io *io, struct snug_err *err)
{
    struct model_dir d = {0};
    TRY(model_dir_open(io, "f.gguf", &d, err));
    const struct model_tensor *t = model_dir_find(&d, "model.layers.1.self_attn.q_proj.weight");
    float to[32 * 32];
    int code = model_dir_read(&d, t, DT_F32, to, err);
    model_dir_close(&d);
    return code;
}

static void survives_every_fault(void **state)
{
    size_t bytes;
    char *data = read_text(recorded("llama", "gguf"), &bytes);
    struct memory_file file = {"f.gguf", data, bytes};
    (void)state;
    survives_every_fault_of(&file, open_and_read);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_model_that_it_was_made_of),
        cmocka_unit_test(is_found_in_a_folder),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(survives_every_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
