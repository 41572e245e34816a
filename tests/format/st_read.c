/* format/safetensors, reading: tensors are found and read, and every call may fail. */
#include "format/safetensors.h"
#include "st_bytes.h"

static const char three[] = "{\"__metadata__\":{\"format\":\"pt\",\"author\":\"\\u00e9\"},"
                            "\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                            "\"b\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[3,11]},"
                            "\"a.\\u0062\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[11,15]}}";

static void finds_and_reads(void **state)
{
    (void)state;
    size_t total, data = 8 + sizeof three - 1;
    unsigned char *bytes = build(BYTES(three), 15, &total);
    for (size_t i = data; i < total; i++)
        bytes[i] = (unsigned char)(i - data + 1);
    struct memory_file file = {"dir/f", bytes, total};
    struct memory_io m;
    struct st_file f;
    struct snug_err err;
    memory_io_init(&m, &file, 1);
    m.short_read = 5, m.interrupt = 1;
    assert_int_equal(st_open(&m.io, "dir/f", &f, &err), 0);
    assert_int_equal(f.n_tensors, 3);
    assert_string_equal(f.tensors[0].name, "c");
    assert_string_equal(f.tensors[2].name, "a.b");
    assert_string_equal(f.by_name[0]->name, "a.b");
    assert_int_equal(f.n_metadata, 2);
    assert_string_equal(f.metadata[0], "author");
    assert_string_equal(f.metadata[1], "\xc3\xa9");
    assert_string_equal(f.metadata[3], "pt");
    assert_null(st_find(&f, "a"));
    assert_null(st_find(&f, "d"));
    assert_null(st_find(&f, ""));
    const struct st_tensor *b = st_find(&f, "b"), *c = st_find(&f, "c");
    assert_int_equal(b->dtype, DT_F64);
    assert_int_equal(b->ndim, 2);
    assert_int_equal(b->at, (int64_t)data + 3);
    assert_int_equal(st_elements(b), 1);
    const struct st_tensor none = {.ndim = 3, .shape = {(int64_t)1 << 47, 1 << 16, 0}};
    assert_int_equal(st_elements(&none), 0); /* a sanitizer sees the overflow on the way */
    unsigned char got[8];
    for (int detached = 0; detached < 2; detached++) {
        assert_int_equal(st_read(&f, b, got, &err), 0);
        assert_memory_equal(got, "\4\5\6\7\10\11\12\13", 8);
        assert_int_equal(st_read_part(&f, c, 1, got, 2, &err), 0);
        assert_memory_equal(got, "\2\3", 2);
        assert_int_equal(m.open_files, !detached);
        st_detach(&f);
    }
    m.shrink_to = total - 6; /* X5: shrinks while being read */
    assert_int_equal(st_read(&f, b, got, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "it shrank"));
    m.shrink_to = 0;
    struct memory_file changed = {"dir/f", bytes, total - 1};
    m.files = &changed;
    assert_int_equal(st_read(&f, c, got, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "dir/f: was changed or replaced while in use"));
    m.n_files = 0;
    assert_int_equal(st_read(&f, c, got, &err), SNUG_ERR_INPUT);
    assert_int_equal(m.open_files, 0);
    st_close(&f);
    free(bytes);
}

/* Each file call and each allocation fails once: the right code, and nothing left open or allocated (the sanitizers'
 * leak check sees that). */
static void every_call_fails(void **state)
{
    (void)state;
    size_t total;
    unsigned char *bytes = build(BYTES(three), 15, &total);
    struct memory_file file = {"f", bytes, total};
    struct memory_io m;
    struct st_file f;
    struct snug_err err;
    int code = 1, k;
    for (k = 1; code; k++) {
        memory_io_init(&m, &file, 1);
        m.fail_call = k;
        code = st_open(&m.io, "f", &f, &err);
        assert_int_equal(code, m.calls >= k ? SNUG_ERR_IO : 0);
        assert_int_equal(m.open_files, !code);
    }
    st_close(&f);
    assert_true(k > 5);
    code = 1;
    for (k = 1; code; k++) {
        struct failing_memory memory;
        memory_io_init(&m, &file, 1);
        failing_memory_set(&memory, k, false);
        code = st_open(&m.io, "f", &f, &err);
        mem_set_ops(NULL);
        assert_int_equal(code, failing_memory_hit(&memory) ? SNUG_ERR_ENV : 0);
        assert_int_equal(m.open_files, !code);
    }
    st_close(&f);
    assert_true(k > 5);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_and_reads),
        cmocka_unit_test(every_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
