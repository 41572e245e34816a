/* Compressed files, by way of a source: what gzip and zstd have packed (packed/make) is read as it was, in pieces of any size; what is cut or
 * damaged is refused. */
#include "../failing_memory.h"
#include "../memory_io.h"
#include "base/files/unpack.h"
#include "data/files/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 1 << 16 };

struct text {
    size_t n;
    char of[ROOM];
};

static struct text plain;

static void read_fixture(const char *name, struct text *to)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/packed/%s", getenv("SNUG_SOURCE"), name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    to->n = fread(to->of, 1, ROOM, f);
    assert_true(to->n > 0 && to->n < ROOM);
    fclose(f);
}

/* All of a source over the bytes of `packed`. */
static int unpacked(const struct text *packed, size_t piece, struct text *to, struct snug_err *err)
{
    struct memory_file file = {"f.jsonl.gz", packed->of, packed->n};
    struct memory_io m;
    struct source s;
    memory_io_init(&m, &file, 1);
    m.short_read = piece;
    to->n = 0;
    int code = source_open(&m.io, "f.jsonl.gz", &s, err);
    while (!code && s.i < s.n) {
        assert_true(to->n + s.n - s.i <= ROOM);
        memcpy(to->of + to->n, s.buf + s.i, s.n - s.i);
        to->n += s.n - s.i;
        s.i = s.n;
        code = source_fill(&s, err);
    }
    if (!code) {
        struct hash128 want = hash_bytes(packed->of, packed->n), got = source_hash(&s);
        assert_memory_equal(&got, &want, sizeof got); /* of the file, as a cache of its tokens is found by */
    }
    source_close(&s);
    assert_int_equal(m.open_files, 0);
    return code;
}

static bool is_plain(const struct text *t, size_t n)
{
    return t->n == n && !memcmp(t->of, plain.of, n);
}

static const char *const fixtures[] = {"rows.jsonl.gz", "halves.jsonl.gz", "rows.jsonl.zst", "halves.jsonl.zst"};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

static void packed_files_are_read(void **state)
{
    static const size_t pieces[] = {0, 1, 7, 1000};
    static struct text packed, got;
    (void)state;
    for (int i = 0; i < FIXTURES; i++)
        for (int k = 0; k < 4; k++) {
            struct snug_err err = {0};
            read_fixture(fixtures[i], &packed);
            if (unpacked(&packed, pieces[k], &got, &err))
                fail_msg("%s: %s", fixtures[i], err.text);
            assert_true(is_plain(&got, plain.n));
        }
}

/* gzip skips what a file's blocks were filled up with. */
static void zeros_behind_a_member_are_skipped(void **state)
{
    static const size_t pieces[] = {0, 1, 100};
    static struct text packed, got;
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            struct snug_err err = {0};
            read_fixture(fixtures[i], &packed);
            memset(packed.of + packed.n, 0, 600);
            packed.n += 600;
            assert_int_equal(unpacked(&packed, pieces[k], &got, &err), 0);
            assert_true(is_plain(&got, plain.n));
            packed.of[packed.n++] = 'x'; /* and nothing else */
            assert_int_equal(unpacked(&packed, pieces[k], &got, &err), SNUG_ERR_INPUT);
        }
}

/* A file that is cut behind a member or a frame cannot be told from one that is whole. */
static void cut_files_are_refused(void **state)
{
    static struct text packed, got;
    (void)state;
    for (int i = 0; i < FIXTURES; i++) {
        int whole = 0;
        read_fixture(fixtures[i], &packed);
        for (size_t n = packed.n - 1; n >= 4; n--) {
            struct snug_err err = {0};
            packed.n = n;
            int code = unpacked(&packed, 0, &got, &err);
            whole += !code;
            if (code ? code != SNUG_ERR_INPUT || !strstr(err.text, "ends in the middle of its compressed data")
                     : !is_plain(&got, got.n))
                fail_msg("%s, %zu bytes: %d %s", fixtures[i], n, code, err.text);
        }
        assert_int_equal(whole, i % 2);
    }
}

/* gzip has a checksum, and zstd where it is not told otherwise: a byte that is changed is noticed, or it means nothing. */
static void damaged_files_are_refused(void **state)
{
    static struct text packed, got;
    (void)state;
    for (int i = 0; i < 3; i++) {
        int noticed = 0;
        read_fixture(fixtures[i], &packed);
        for (size_t k = 4; k < packed.n; k++) {
            struct snug_err err = {0};
            packed.of[k] ^= 0x24;
            int code = unpacked(&packed, 0, &got, &err);
            noticed += code == SNUG_ERR_INPUT;
            assert_true(code == SNUG_ERR_INPUT || (!code && is_plain(&got, plain.n)));
            packed.of[k] ^= 0x24;
        }
        assert_true(noticed > (int)packed.n - 60);
    }
}

static void no_memory_is_an_error(void **state)
{
    static struct text packed, got;
    (void)state;
    read_fixture("halves.jsonl.gz", &packed);
    bool hit = true;
    for (long k = 1; hit; k++) {
        struct failing_memory memory;
        struct snug_err err = {0};
        failing_memory_set(&memory, k, false);
        int code = unpacked(&packed, 0, &got, &err);
        hit = failing_memory_hit(&memory);
        mem_set_ops(NULL);
        assert_int_equal(code, hit ? SNUG_ERR_ENV : 0);
    }
}

static void names_end_before_the_packing(void **state)
{
    (void)state;
    assert_int_equal(unpack_name("a.csv.gz"), 5);
    assert_int_equal(unpack_name("a.jsonl.ZST"), 7);
    assert_int_equal(unpack_name("a.jsonl.zstd"), 7);
    assert_int_equal(unpack_name("a.csv"), 5);
    assert_int_equal(unpack_name(".gz"), 3);
}

static int read_plain(void **state)
{
    (void)state;
    read_fixture("rows.jsonl", &plain);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files_are_read), cmocka_unit_test(zeros_behind_a_member_are_skipped),
        cmocka_unit_test(cut_files_are_refused), cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(no_memory_is_an_error), cmocka_unit_test(names_end_before_the_packing),
    };
    return cmocka_run_group_tests_name("packed", tests, read_plain, NULL);
}
