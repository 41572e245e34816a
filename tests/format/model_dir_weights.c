/* format/model_dir: the weights of a folder: in shards, absent, read and converted, and calls that fail. */
#include "model_dir_help.h"

static void weights_may_be_absent(void **state)
{
    static const struct file files[] = {CONFIG,
                                        {TEXT, "tokenizer.json", BYTES("{}"), 0},
                                        {TEXT, "vocab.txt", BYTES("x"), 0},
                                        {TEXT, "pytorch_model.bin", BYTES("\x80\2."), 0}};
    (void)state;
    struct model_dir d = {.weights_optional = true};
    struct snug_err err;
    fill(files, 4);
    strcat(dir, "//"); /* not shown */
    assert_int_equal(model_dir_open(&io_posix, dir, &d, &err), 0);
    dir[strlen(dir) - 2] = 0;
    assert_string_equal(d.path, dir);
    assert_int_equal(d.n_tensors, 0);
    assert_null(model_dir_find(&d, "w"));
    assert_string_equal(json_string_value(json_object_get(d.config, "model_type")), "bert");
    assert_int_equal(d.n_carried, 2);
    assert_string_equal(d.carried[0], "tokenizer.json");
    assert_string_equal(d.carried[1], "vocab.txt");
    model_dir_close(&d);
    remove_tree(dir);
}

/* X18: a thousand shards, with fewer descriptors than that. */
static void thousand_shards(void **state)
{
    static const struct file config[] = {CONFIG};
    (void)state;
    fill(config, 1);
    char *index = malloc(100000), name[64], header[128];
    size_t n = (size_t)sprintf(index, "{\"weight_map\":{");
    for (int i = 0; i < 1000; i++) {
        sprintf(name, "model-%05d-of-01000.safetensors", i + 1);
        sprintf(header, "{\"layer.%d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", i);
        put(dir, &(struct file){ST, name, header, strlen(header), 4});
        n += (size_t)sprintf(index + n, "%s\"layer.%d\":\"%s\"", i ? "," : "", i, name);
    }
    n += (size_t)sprintf(index + n, "}}");
    put(dir, &(struct file){TEXT, "model.safetensors.index.json", index, n, 0});
    free(index);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){32, old.rlim_max});
    struct model_dir d = {0};
    struct snug_err err;
    float x = 1;
    int code = model_dir_open(&io_posix, dir, &d, &err);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(code, 0);
    assert_int_equal(d.n_tensors, 1000);
    assert_string_equal(d.tensors[2].tensor->name, "layer.10"); /* by bytes */
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "layer.999"), DT_F32, &x, &err), 0);
    assert_true(x == 0);
    model_dir_close(&d);
    remove_tree(dir);
}

/* X15, X16, X5: a small model in memory. Values by the definitions of the formats. */
static const char mixed_header[] =
    "{" TENSOR("f32", "F32", "2,2", "0", "16") "," TENSOR("f64", "F64", "1", "16", "24") "," TENSOR(
        "bf16", "BF16", "3", "24", "30") "," TENSOR("f16", "F16", "3", "30",
                                                    "36") "," TENSOR("i64", "I64", "1", "36",
                                                                     "44") "," TENSOR("bool", "BOOL", "2", "44",
                                                                                      "46") "}";
static const unsigned char mixed_data[] = {
    0,    0,    0x80, 0x3f, 0,    0,    0,    0xc0,
    0xdb, 0x0f, 0x49, 0x40, 1,    0,    0x80, 0x7f, /* 1, -2, 3.14159274, NaN */
    0,    0,    0,    0,    0,    0,    0xf8, 0x3f, /* 1.5 */
    0x80, 0x3f, 0x80, 0xff, 0x49, 0x40,             /* 1, -Inf, 3.140625 */
    0,    0x3c, 1,    0,    0xff, 0x7b,             /* 1, 2^-24, 65504 */
    7,    0,    0,    0,    0,    0,    0,    0,    /* 7 */
    1,    0,
};

static void reads_and_converts(void **state)
{
    (void)state;
    unsigned char file[8 + sizeof mixed_header - 1 + sizeof mixed_data] = {(sizeof mixed_header - 1) & 255,
                                                                           (sizeof mixed_header - 1) >> 8};
    memcpy(file + 8, mixed_header, sizeof mixed_header - 1);
    memcpy(file + 8 + sizeof mixed_header - 1, mixed_data, sizeof mixed_data);
    const struct memory_file files[] = {{"m/config.json", "{}", 2}, {"m/model.safetensors", file, sizeof file}};
    struct memory_io m;
    memory_io_init(&m, files, 2);
    struct notes notes = {0};
    struct model_dir d = {.note = take_note, .note_ctx = &notes};
    struct snug_err err;
    float x[4];
    double y[4];
    uint16_t h[4];
    int64_t n;
    assert_int_equal(model_dir_open(&m.io, "m", &d, &err), 0);
    assert_int_equal(m.open_files, 0);
    assert_int_equal(notes.n, 1); /* mixed */
    assert_null(model_dir_find(&d, "f8"));
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f64"), DT_F32, x, &err), 0);
    assert_true(x[0] == 1.5f);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f16"), DT_F32, x, &err), 0);
    assert_true(x[0] == 1 && x[1] == 0x1p-24f && x[2] == 65504);
    assert_int_equal(notes.n, 1);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "bf16"), DT_F64, y, &err), 0);
    assert_true(y[0] == 1 && y[1] < -1e308 && y[2] == 3.140625);
    assert_int_equal(notes.n, 2);
    assert_string_equal(notes.text, "m/model.safetensors: tensor bf16 holds NaN or Inf at element 1");
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f32"), DT_F32, x, &err), 0);
    assert_true(x[1] == -2 && x[3] != x[3]);
    assert_int_equal(notes.n, 2); /* the warning comes once */
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f32"), DT_BF16, h, &err), 0);
    assert_int_equal(h[2], 0x4049); /* 3.14159274 rounds to 3.140625 */
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "i64"), DT_I64, &n, &err), 0);
    assert_int_equal(n, 7);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "i64"), DT_F32, x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "m/model.safetensors: tensor i64 is I64 where F32 is needed; convert it");
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "bool"), DT_F16, x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "m/model.safetensors: tensor bool is BOOL where F16 is needed; convert it");
    m.shrink_to = sizeof file - 20;
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f16"), DT_F32, x, &err), SNUG_ERR_IO);
    m.shrink_to = 0;
    model_dir_close(&d);

    d = (struct model_dir){.check_finite = true};
    assert_int_equal(model_dir_open(&m.io, "m", &d, &err), 0);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f16"), DT_F16, h, &err), 0);
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "f32"), DT_F32, x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "m/model.safetensors: tensor f32 holds NaN or Inf at element 3; get the weights "
                                  "again, or leave out --check-finite");
    assert_int_equal(model_dir_read(&d, model_dir_find(&d, "bf16"), DT_F32, x, &err), SNUG_ERR_INPUT);
    model_dir_close(&d);
}

static void every_call_fails(void **state)
{
    static const char index[] = "{\"weight_map\":{\"w\":\"a\",\"v\":\"b\"}}",
                      a[] = "8\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\0\0",
                      b[] = "8\0\0\0\0\0\0\0{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\0\0";
    const struct memory_file files[] = {{"m/config.json", "{}", 2},
                                        {"m/model.safetensors.index.json", index, sizeof index - 1},
                                        {"m/a", a, sizeof a - 1},
                                        {"m/b", b, sizeof b - 1}};
    (void)state;
    struct memory_io m;
    struct model_dir d = {0};
    struct snug_err err;
    int code = 1, k;
    for (k = 1; code && k < 1000; k++) {
        memory_io_init(&m, files, 4);
        m.fail_call = k;
        code = model_dir_open(&m.io, "m", &d, &err);
        assert_int_equal(code, m.calls >= k ? SNUG_ERR_IO : 0);
        assert_int_equal(m.open_files, 0);
    }
    assert_int_equal(d.n_tensors, 2);
    model_dir_close(&d);
    assert_in_range(k, 12, 100);
    code = 1;
    for (k = 1; code && k < 1000; k++) {
        struct failing_memory memory;
        memory_io_init(&m, files, 4);
        failing_memory_set(&memory, k, false);
        code = model_dir_open(&m.io, "m", &d, &err);
        mem_set_ops(NULL);
        if (code != (failing_memory_hit(&memory) ? SNUG_ERR_ENV : 0))
            fail_msg("allocation %d: %d %s", k, code, code ? err.text : "");
        assert_int_equal(m.open_files, 0);
    }
    model_dir_close(&d);
    assert_in_range(k, 12, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousand_shards),
        cmocka_unit_test(reads_and_converts),
        cmocka_unit_test(weights_may_be_absent),
        cmocka_unit_test(every_call_fails),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
