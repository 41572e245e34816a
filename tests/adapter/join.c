/* Adapters of each expert's layers (golden/lora_older.py): their tensors, put together, are those that transformers 5 and PEFT have,
 * whatever part is read; damaged files; and memory that runs out. */
#include "adapter/join.h"

#include "../failing_memory.h"
#include "../folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static const struct {
    const char *name, *base;
} cases[] = {{"mixtral_each_layer", "mixtral_balanced"},
             {"qwen3_moe_each_layer", "qwen3_moe"},
             {"mixtral_expression", "mixtral_balanced"}};

static void path_of(char path[1024], const char *name)
{
    snprintf(path, 1024, "%s/tests/golden/%s", getenv("SNUG_SOURCE"), name);
}

/* An adapter's folder on its model. */
struct opened {
    struct model_dir d;
    struct adapter_set set;
    struct model_config model;
    json_t *base;
    struct graph g;
};

/* All but what is tested. */
static void open_matched(struct opened *o, const char *adapter, const char *base)
{
    char path[1024], file[1100];
    struct snug_err err;
    struct built built;
    struct adapter_config c;
    *o = (struct opened){.d = {.adapter = true}};
    path_of(path, base);
    snprintf(file, sizeof file, "%s/config.json", path);
    o->base = json_load_file(file, 0, NULL);
    assert_int_equal(model_config_read(o->base, "config.json", &o->model, &err), SNUG_OK);
    assert_int_equal(graph_init(&o->g, &err), SNUG_OK);
    assert_int_equal(model_build(&o->model, (struct build_settings){.mode = BUILD_TRAIN}, &o->g, &built, &err), 0);
    assert_int_equal(model_dir_open(&io_posix, adapter, &o->d, &err), SNUG_OK);
    assert_int_equal(adapter_config_read(o->d.config, "a file", &c, &err), SNUG_OK);
    assert_int_equal(adapter_match(&c, &o->model, &o->g, &o->set, &err), SNUG_OK);
}

static void close_matched(struct opened *o)
{
    model_dir_close(&o->d);
    adapter_set_free(&o->set);
    graph_free(&o->g);
    json_decref(o->base);
}

/* Whole, and in pieces that end anywhere. */
static void compare(struct opened *o, const struct st_file *expected, const struct st_tensor *want)
{
    char name[256];
    struct snug_err err;
    snprintf(name, sizeof name, "base_model.model.%s", want->name + strlen("adapter."));
    const struct model_tensor *t = model_dir_find(&o->d, name);
    assert_non_null(t);
    assert_int_equal(t->tensor->bytes, want->bytes);
    char *have = malloc((size_t)want->bytes), *right = malloc((size_t)want->bytes);
    assert_int_equal(st_read(expected, want, right, &err), SNUG_OK);
    assert_int_equal(model_dir_read(&o->d, t, DT_F32, have, &err), SNUG_OK);
    assert_memory_equal(have, right, (size_t)want->bytes);
    for (int64_t piece = 4; piece < want->bytes; piece = 3 * piece + 8) {
        memset(have, 1, (size_t)want->bytes);
        for (int64_t at = 0; at < want->bytes; at += piece) {
            int64_t n = want->bytes - at < piece ? want->bytes - at : piece;
            assert_int_equal(st_read_part(t->file, t->tensor, at, have + at, (size_t)n, &err), SNUG_OK);
        }
        assert_memory_equal(have, right, (size_t)want->bytes);
    }
    free(have);
    free(right);
}

static void tensors_are_those_of_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[1024], name[1100], below[64];
        struct opened o;
        struct st_file expected;
        struct snug_err err;
        size_t n = 0;
        snprintf(below, sizeof below, "lora/%s", cases[i].name);
        path_of(path, below);
        open_matched(&o, path, cases[i].base);
        assert_int_equal(adapter_join(&o.d, &o.set, &o.g, &err), SNUG_OK);
        snprintf(name, sizeof name, "%s/expected.safetensors", path);
        assert_int_equal(st_open(&io_posix, name, &expected, &err), SNUG_OK);
        for (size_t k = 0; k < expected.n_tensors; k++)
            if (!strncmp(expected.tensors[k].name, "adapter.", strlen("adapter."))) {
                compare(&o, &expected, &expected.tensors[k]);
                n++;
            }
        assert_int_equal(o.d.n_tensors, n);
        st_close(&expected);
        close_matched(&o);
    }
}

/* The first case's folder, with the first `from` in its weights' file replaced by `to`, which is as long. */
static const char *damaged(const char *from, const char *to)
{
    static char dir[128];
    char path[1024], name[1100];
    size_t n, at = 0;
    path_of(path, "lora/mixtral_each_layer");
    snprintf(dir, sizeof dir, "%s/damaged", folder);
    remove_tree(dir);
    assert_int_equal(mkdir(dir, 0777), 0);
    snprintf(name, sizeof name, "%s/adapter_config.json", path);
    char *text = read_text(name, &n);
    write_text(dir, "adapter_config.json", text);
    free(text);
    snprintf(name, sizeof name, "%s/adapter_model.safetensors", path);
    text = read_text(name, &n);
    while (at + strlen(from) < n && memcmp(text + at, from, strlen(from)) != 0)
        at++;
    assert_true(at + strlen(from) < n && strlen(from) == strlen(to));
    memcpy(text + at, to, strlen(to));
    snprintf(name, sizeof name, "%s/adapter_model.safetensors", dir);
    FILE *f = fopen(name, "wb");
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    free(text);
    return dir;
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
#define EXPERT "block_sparse_moe.experts.3.w1.lora_A"
    const struct {
        const char *from, *to, *says;
    } wrong[] = {
        {EXPERT, "block_sparse_moe.experts.9.w1.lora_A",
         "has no base_model.model.model.layers.0." EXPERT
         ".weight, which adapter_config.json asks for; get the adapter again"},
        {EXPERT ".weight\":{\"dtype\":\"F32\",\"shape\":[4,16]", EXPERT ".weight\":{\"dtype\":\"F32\",\"shape\":[16,4]",
         EXPERT ".weight has shape [16, 4] where adapter_config.json and the model ask for [4, 16]"},
        {EXPERT ".weight\":{\"dtype\":\"F32\"", EXPERT ".weight\":{\"dtype\":\"I32\"",
         EXPERT ".weight is I32, and that of another expert is F32; get the adapter again"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct opened o;
        struct snug_err err;
        open_matched(&o, damaged(wrong[i].from, wrong[i].to), cases[0].base);
        assert_int_equal(adapter_join(&o.d, &o.set, &o.g, &err), SNUG_ERR_INPUT);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("\"%s\" is not in: %s", wrong[i].says, err.text);
        close_matched(&o);
    }
}

static void a_file_that_changes_meanwhile_is_an_error(void **state)
{
    (void)state;
    struct opened o;
    struct snug_err err;
    char bytes[8];
    const char *dir = damaged("experts.0", "experts.0");
    open_matched(&o, dir, cases[0].base);
    assert_int_equal(adapter_join(&o.d, &o.set, &o.g, &err), SNUG_OK);
    write_text(dir, "adapter_model.safetensors", "shorter");
    for (size_t i = 0; i < o.d.n_tensors; i++)
        assert_int_equal(st_read_part(o.d.tensors[i].file, o.d.tensors[i].tensor, 0, bytes, 8, &err), SNUG_ERR_IO);
    close_matched(&o);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    char path[1024];
    bool hit = true;
    path_of(path, "lora/mixtral_each_layer");
    for (long k = 1; hit; k++) {
        struct failing_memory memory;
        struct opened o;
        struct snug_err err;
        float some[8];
        open_matched(&o, path, cases[0].base);
        failing_memory_set(&memory, k, k % 2);
        int code = adapter_join(&o.d, &o.set, &o.g, &err);
        for (size_t i = 0; i < o.d.n_tensors && !code; i++)
            code = model_dir_read_part(&o.d, &o.d.tensors[i], DT_F32, 0, 8, some, &err);
        mem_set_ops(NULL);
        hit = failing_memory_hit(&memory);
        assert_int_equal(code, hit ? SNUG_ERR_ENV : SNUG_OK);
        close_matched(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_those_of_parameters),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(a_file_that_changes_meanwhile_is_an_error),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests_name("adapter_join", tests, open_folder, close_folder);
}
