/* format/gguf: files of the gguf package, to the bit as that package reads them; what a hostile file may claim; faults. */
#include "format/gguf/gguf.h"
#include "../folder.h"
#include "format/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "every_fault.h"

/* The path of a recorded file; the caller's to free. */
static char *recorded(const char *name)
{
    char *path = malloc(512);
    snprintf(path, 512, "%s/tests/format/gguf/%s", getenv("SNUG_SOURCE"), name);
    return path;
}

static void reads_what_the_package_wrote(void **state)
{
    (void)state;
    struct gguf_file f;
    struct st_file expected;
    struct snug_err err = {0};
    json_t *metadata;
    char *file = recorded("types.gguf"), *pairs = recorded("types.json"), *tensors = recorded("types.safetensors");
    assert_int_equal(gguf_open(&io_posix, file, &f, &err), 0);
    assert_int_equal(json_read_object(&io_posix, pairs, 1 << 20, &metadata, &err), 0);
    assert_true(json_equal(f.metadata, metadata));
    json_decref(metadata);
    assert_int_equal(st_open(&io_posix, tensors, &expected, &err), 0);
    assert_int_equal(f.n_tensors, expected.n_tensors);
    assert_int_equal(f.n_tensors, 18);
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct gguf_tensor *t = &f.tensors[i];
        const struct st_tensor *e = st_find(&expected, t->name);
        assert_non_null(e);
        assert_ptr_equal(gguf_find(&f, t->name), t);
        assert_int_equal(t->type->dtype, e->dtype);
        assert_int_equal(t->ndim, e->ndim);
        for (int k = 0; k < t->ndim; k++)
            assert_int_equal(t->shape[k], e->shape[k]);
        char *got = malloc((size_t)e->bytes), *want = malloc((size_t)e->bytes);
        assert_int_equal(st_read(&expected, e, want, &err), 0);
        assert_int_equal(gguf_read(&f, t, 0, t->elements, got, &err), 0);
        assert_memory_equal(got, want, e->bytes);
        int64_t block = t->type->block, half = t->elements / 2 / block * block;
        memset(got, 0, (size_t)e->bytes);
        assert_int_equal(gguf_read(&f, t, half, t->elements - half, got, &err), 0);
        int64_t skip = dtype_bytes(e->dtype, half);
        assert_memory_equal(got, want + skip, e->bytes - skip);
        free(got);
        free(want);
    }
    assert_null(gguf_find(&f, "nothing"));
    st_close(&expected);
    gguf_close(&f);
    free(file);
    free(pairs);
    free(tensors);
}

/* ---- Files by hand: parts that are put together ---- */

struct bytes {
    unsigned char b[512];
    size_t n;
};

static void put(struct bytes *b, const void *from, size_t n)
{
    memcpy(b->b + b->n, from, n);
    b->n += n;
}

static void put_uint(struct bytes *b, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        b->b[b->n++] = (unsigned char)(x >> 8 * i);
}

static void put_text(struct bytes *b, const char *text)
{
    put_uint(b, strlen(text), 8);
    put(b, text, strlen(text));
}

static void put_start(struct bytes *b, uint64_t version, uint64_t tensors, uint64_t pairs)
{
    put(b, "GGUF", 4);
    put_uint(b, version, 4);
    put_uint(b, tensors, 8);
    put_uint(b, pairs, 8);
}

static void put_tensor(struct bytes *b, const char *name, uint64_t width, uint64_t rows, uint64_t type, uint64_t offset)
{
    put_text(b, name);
    put_uint(b, 2, 4);
    put_uint(b, width, 8);
    put_uint(b, rows, 8);
    put_uint(b, type, 4);
    put_uint(b, offset, 8);
}

static void put_data(struct bytes *b, size_t n)
{
    b->n = (b->n + 31) / 32 * 32 + n;
}

static void expect(const struct bytes *b, const char *part)
{
    struct memory_file file = {"f", b->b, b->n};
    struct memory_io m;
    struct gguf_file f;
    struct snug_err err = {0};
    memory_io_init(&m, &file, 1);
    int code = gguf_open(&m.io, "f", &f, &err);
    if (!part) {
        assert_int_equal(code, 0);
        gguf_close(&f);
    } else {
        assert_int_equal(code, SNUG_ERR_INPUT);
        if (!strstr(err.text, part))
            fail_msg("\"%s\" lacks \"%s\"", err.text, part);
    }
    assert_int_equal(m.open_files, 0);
}

static void refuses_bad_starts(void **state)
{
    (void)state;
    struct bytes b = {0};
    put(&b, "GGUF", 4);
    expect(&b, "f: 4 bytes, too short for a GGUF file");
    static const struct {
        uint64_t version, tensors, pairs;
        const char *part;
    } rows[] = {
        {3, 0, 0, NULL},
        {2, 0, 0, NULL},
        {1, 0, 0, "GGUF version 1; 2 and 3 are read"},
        {4, 0, 0, "GGUF version 4"},
        {0x03000000, 0, 0, "a big-endian GGUF file"},
        {3, 1, 0, "ends at byte 24"},
        {3, 0, 1, "ends at byte 24"},
        {3, 1000001, 0, "claims 1000001 tensors"},
        {3, UINT64_MAX, UINT64_MAX, "claims 18446744073709551615 tensors and 18446744073709551615 pairs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b.n = 0;
        put_start(&b, rows[i].version, rows[i].tensors, rows[i].pairs);
        expect(&b, rows[i].part);
    }
    memcpy(b.b, "GGML", 4);
    expect(&b, "not a GGUF file");
}

/* One pair of metadata: key "k", a type, and the bytes of the value. */
static void refuses_bad_metadata(void **state)
{
    (void)state;
#define BYTES(s) s, sizeof s - 1
    static const struct {
        unsigned type;
        const char *value;
        size_t bytes;
        const char *part;
    } rows[] = {
        {0, BYTES("\7"), NULL},
        {7, BYTES("\1"), NULL},
        {7, BYTES("\2"), "metadata k is the bool 2, neither 0 nor 1"},
        {13, BYTES(""), "metadata k has the unknown type 13"},
        {4, BYTES("\1\2\3"), "ends at byte 40"},
        {8, BYTES("\1\0\0\0\0\0\0\0a"), NULL},
        {8, BYTES("\2\0\0\0\0\0\0\0a"), "k has 2 bytes, the limit is 67108864 and 1 follow"},
        {8, BYTES("\377\377\377\377\377\377\377\377a"), "k has 18446744073709551615 bytes"},
        {8, BYTES("\2\0\0\0\0\0\0\0\303\303"), "k is not UTF-8 text at its byte 0"},
        {8, BYTES("\2\0\0\0\0\0\0\0a\0"), "k is not UTF-8 text at its byte 1"},
        {9, BYTES("\0\0\0\0\2\0\0\0\0\0\0\0\1\2"), NULL},
        {9, BYTES("\0\0\0\0\3\0\0\0\0\0\0\0\1\2"), "k claims 3 values, where 2 bytes follow"},
        {9, BYTES("\0\0\0\0\377\377\377\377\377\377\377\377\1\2"), "k claims 18446744073709551615 values"},
        {9, BYTES("\12\0\0\0\0\0\0\0\0\0\0\100"), "k claims 4611686018427387904 values"},
        {9, BYTES("\11\0\0\0\1\0\0\0\0\0\0\0"), "k is an array of arrays"},
        {9, BYTES("\15\0\0\0\1\0\0\0\0\0\0\0"), "k is an array of the unknown type 13"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bytes b = {0};
        put_start(&b, 3, 0, 1);
        put_text(&b, "k");
        put_uint(&b, rows[i].type, 4);
        put(&b, rows[i].value, rows[i].bytes);
        expect(&b, rows[i].part);
    }
    struct bytes b = {0};
    put_start(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&b, "k");
        put_uint(&b, 0, 4);
        put_uint(&b, 1, 1);
    }
    expect(&b, "metadata k is there twice");
    b.n = 0;
    put_start(&b, 3, 0, 1);
    put_text(&b, "general.alignment");
    put_uint(&b, 4, 4);
    put_uint(&b, 24, 4);
    expect(&b, "general.alignment is 24; a power of two was expected");
    memset(b.b + b.n - 4, 0, 4);
    expect(&b, "general.alignment is 0");
}

static void refuses_bad_tensors(void **state)
{
    (void)state;
    static const struct {
        uint64_t width, rows, type, offset;
        size_t data;
        const char *part;
    } rows[] = {
        {2, 3, 0, 0, 24, NULL},
        {0, 3, 0, 0, 0, NULL},
        {2, 3, 0, 0, 23, "f: 1 bytes are missing: tensor t ends beyond the file"},
        {2, 3, 0, 32, 55, "1 bytes are missing"},
        {2, 3, 0, 16, 64, "begins at byte 16 of the data, no multiple of the alignment 32"},
        {2, 3, 0, UINT64_MAX - 31, 24, "begins at byte 18446744073709551584 of the data, beyond the file"},
        {2, 3, 5, 0, 24, "has the unknown type 5"},
        {256, 1, 10, 0, 84, "is Q2_K, which is not read; get the model as Q8_0"},
        {33, 1, 8, 0, 84, "is Q8_0, whose rows are multiples of 32 elements, but has rows of 33"},
        {32, 1, 12, 0, 84, "is Q4_K, whose rows are multiples of 256 elements, but has rows of 32"},
        {(uint64_t)1 << 48, 1, 0, 0, 0, "the dimension 281474976710656 is too large"},
        {(uint64_t)1 << 40, (uint64_t)1 << 40, 0, 0, 0, "is too large"},
        {(uint64_t)1 << 31, (uint64_t)1 << 31, 0, 0, 0, "the size of tensor t overflows"},
        {(uint64_t)1 << 30, (uint64_t)1 << 30, 0, 0, 0, "bytes are missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bytes b = {0};
        put_start(&b, 3, 1, 0);
        put_tensor(&b, "t", rows[i].width, rows[i].rows, rows[i].type, rows[i].offset);
        put_data(&b, rows[i].data);
        expect(&b, rows[i].part);
    }
    static const struct {
        const char *name;
        uint64_t offset;
        const char *part;
    } seconds[] = {{"u", 32, NULL}, {"u", 0, "tensors u and t overlap"}, {"t", 32, "tensor t is there twice"}};
    for (size_t i = 0; i < 3; i++) {
        struct bytes b = {0};
        put_start(&b, 3, 2, 0);
        put_tensor(&b, "t", 2, 3, 0, 0);
        put_tensor(&b, seconds[i].name, 1, 3, 0, seconds[i].offset);
        put_data(&b, 64);
        expect(&b, seconds[i].part);
    }
    for (uint64_t ndim = 0; ndim < 6; ndim += 5) {
        struct bytes b = {0};
        put_start(&b, 3, 1, 0);
        put_text(&b, "t");
        put_uint(&b, ndim, 4);
        put_data(&b, 64);
        expect(&b, ndim ? "has 5 dimensions; 1 to 4" : "has 0 dimensions");
    }
}

/* Opens and reads a file of the package from memory; 0 where all went well. */
static int open_and_read(const struct io *io, struct snug_err *err)
{
    struct gguf_file f;
    float to[3 * 768];
    TRY(gguf_open(io, "f", &f, err));
    int code = gguf_read(&f, gguf_find(&f, "q4_k"), 0, 3 * 768, to, err);
    gguf_close(&f);
    return code;
}

static void survives_every_fault(void **state)
{
    (void)state;
    size_t bytes;
    char *path = recorded("types.gguf"), *data = read_text(path, &bytes);
    free(path);
    struct memory_file file = {"f", data, bytes};
    struct memory_io m;
    struct snug_err err;
    memory_io_init(&m, &file, 1);
    m.short_read = 7, m.interrupt = 1;
    assert_int_equal(open_and_read(&m.io, &err), 0);
    for (size_t n = 0; n < bytes; n += 1 + n / 50) { /* cut anywhere */
        file.bytes = n;
        memory_io_init(&m, &file, 1);
        assert_int_equal(open_and_read(&m.io, &err), SNUG_ERR_INPUT);
        assert_int_equal(m.open_files, 0);
    }
    file.bytes = bytes;
    survives_every_fault_of(&file, open_and_read);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_the_package_wrote), cmocka_unit_test(refuses_bad_starts),
        cmocka_unit_test(refuses_bad_metadata),         cmocka_unit_test(refuses_bad_tensors),
        cmocka_unit_test(survives_every_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
