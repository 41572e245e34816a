/* format/st_write: the bytes are those of the safetensors library (data/models.bin, see record_safetensors.py), the
 * hash is that of the file, and a failed call leaves no file. */
#include "../failing_memory.h"
#include "../memory_io.h"
#include "format/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/snug-st_write-XXXXXX", path[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/w.safetensors", mkdtemp(dir));
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* so it is empty */
}

/* The tensors of f, in reverse order and without places. */
static struct st_tensor *specs(const struct st_file *f)
{
    struct st_tensor *t = calloc(f->n_tensors + 1, sizeof *t);
    for (size_t i = 0; i < f->n_tensors; i++) {
        t[i] = f->tensors[f->n_tensors - 1 - i];
        t[i].at = t[i].bytes = -1;
    }
    return t;
}

/* Writes f's content again: from the last tensor to the first, in two pieces each; or in file order with the hash. */
static void write_again(const struct st_file *f, const unsigned char *file, bool in_order, struct hash128 *hash)
{
    struct st_tensor *t = specs(f);
    struct st_writer w;
    struct snug_err err;
    /* Metadata in reverse order too. */
    const char **metadata = calloc(2 * f->n_metadata + 1, sizeof *metadata);
    for (size_t i = 0; i < f->n_metadata; i++) {
        metadata[2 * i] = f->metadata[2 * (f->n_metadata - 1 - i)];
        metadata[2 * i + 1] = f->metadata[2 * (f->n_metadata - 1 - i) + 1];
    }
    if (st_create(&io_posix, path, t, f->n_tensors, metadata, f->n_metadata, in_order, &w, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct st_tensor *to = &t[in_order ? i : f->n_tensors - 1 - i];
        const unsigned char *from = file + st_find(f, to->name)->at;
        size_t half = (size_t)to->bytes / 2;
        assert_int_equal(st_write(&w, to, 0, from, half, &err), 0);
        assert_int_equal(st_write(&w, to, (int64_t)half, from + half, (size_t)to->bytes - half, &err), 0);
    }
    assert_int_equal(st_finish(&w, hash, &err), 0);
    free(metadata);
    free(t);
}

static void check_file(const unsigned char *want, size_t bytes)
{
    char *got;
    size_t n;
    struct snug_err err;
    assert_int_equal(io_read_file(&io_posix, path, 1 << 30, &got, &n, &err), 0);
    assert_int_equal(n, bytes);
    assert_memory_equal(got, want, bytes);
    mem_free(got);
    unlink(path);
}

static void round_trip(const unsigned char *file, size_t bytes)
{
    struct memory_file recorded = {"f", file, bytes};
    struct memory_io m;
    struct st_file f;
    struct snug_err err;
    struct hash128 hash, want = hash_bytes(file, bytes);
    memory_io_init(&m, &recorded, 1);
    if (st_open(&m.io, "f", &f, &err))
        fail_msg("%s", err.text);
    write_again(&f, file, false, NULL);
    check_file(file, bytes);
    write_again(&f, file, true, &hash);
    check_file(file, bytes);
    assert_true(hash.high == want.high && hash.low == want.low);
    st_close(&f);
}

static unsigned char *load(const char *name, size_t *bytes)
{
    char full[4096];
    struct snug_err err;
    char *data;
    snprintf(full, sizeof full, "%s/%s", getenv("SNUG_SOURCE"), name);
    return io_read_file(&io_posix, full, 1 << 30, &data, bytes, &err) ? NULL : (unsigned char *)data;
}

static void recorded_models(void **state)
{
    (void)state;
    size_t bytes, models = 0;
    unsigned char *all = load("tests/format/data/models.bin", &bytes);
    assert_non_null(all);
    for (size_t at = 0; at < bytes; models++) {
        uint32_t n = all[at] | (uint32_t)all[at + 1] << 8 | (uint32_t)all[at + 2] << 16 | (uint32_t)all[at + 3] << 24;
        round_trip(all + at + 4, n);
        at += 4 + n;
    }
    assert_int_equal(models, 200);
    mem_free(all);
}

/* Files that transformers wrote, where they are at hand. */
static void golden_models(void **state)
{
    (void)state;
    static const char *names[] = {"bert", "gpt2", "llama", "t5"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        size_t bytes;
        snprintf(name, sizeof name, "../shared/golden/%s/model.safetensors", names[i]);
        unsigned char *file = load(name, &bytes);
        if (!file) {
            print_message("skipped: %s is not there\n", name);
            continue;
        }
        round_trip(file, bytes);
        mem_free(file);
    }
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        struct st_tensor t[2];
        size_t n;
        const char *metadata[4];
        size_t n_metadata;
        const char *part;
    } cases[] = {
        {{{.name = "a", .ndim = 1, .shape = {-1}}}, 1, {0}, 0, "tensor a has a shape that cannot be written"},
        {{{.name = "a", .ndim = 1, .shape = {(int64_t)1 << 48}}}, 1, {0}, 0, "tensor a has a shape"},
        {{{.name = "a", .ndim = 2, .shape = {(int64_t)1 << 40, 1 << 20}}}, 1, {0}, 0, "tensor a has a shape"},
        {{{.name = "a", .ndim = 9}}, 1, {0}, 0, "tensor a has a shape"},
        {{{.name = "a", .dtype = DT_F4, .ndim = 1, .shape = {3}}}, 1, {0}, 0, "tensor a has a shape"},
        {{{.name = "__metadata__"}}, 1, {0}, 0, "\"__metadata__\" cannot be a tensor's name"},
        {{{.name = "a\xff"}}, 1, {0}, 0, "cannot be a tensor's name"},
        {{{.name = "a", .dtype = DT_F32}, {.name = "a", .dtype = DT_U8}}, 2, {0}, 0, "two tensors are called a"},
        {{{.name = 0}}, 0, {"k", "1", "k", "2"}, 2, "metadata \"k\" is given twice"},
        {{{.name = 0}}, 0, {"k", "\xff"}, 1, "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct st_tensor t[2];
        struct st_writer w;
        struct snug_err err = {0};
        memcpy(t, cases[i].t, sizeof t);
        int code = st_create(&io_posix, path, t, cases[i].n, cases[i].metadata, cases[i].n_metadata, true, &w, &err);
        if (code != SNUG_ERR_INPUT || !strstr(err.text, cases[i].part))
            fail_msg("case %zu: %d %s", i, code, err.text);
        assert_false(io_exists(&io_posix, path));
    }
}

static void never_replaces(void **state)
{
    (void)state;
    struct st_writer w;
    struct snug_err err;
    assert_int_equal(io_write_file(&io_posix, path, "mine", 4, &err), 0);
    assert_int_equal(st_create(&io_posix, path, NULL, 0, NULL, 0, false, &w, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "cannot create: File exists"));
    check_file((const unsigned char *)"mine", 4);
}

/* The real calls, of which the k-th fails with ENOSPC. */
static int calls, fail_call;

static int fault(void)
{
    if (++calls != fail_call)
        return 0;
    errno = ENOSPC;
    return -1;
}

static int faulty_open(const struct io *io, const char *p, int flags, mode_t mode)
{
    return fault() ? -1 : io_posix.open(io, p, flags, mode);
}

static int faulty_close(const struct io *io, int fd)
{
    int failed = fault();
    io_posix.close(io, fd);
    return failed;
}

static int faulty_fallocate(const struct io *io, int fd, off_t bytes)
{
    return fault() ? -1 : io_posix.fallocate(io, fd, bytes);
}

static ssize_t faulty_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    return fault() ? -1 : io_posix.pwrite(io, fd, buf, bytes > 20 ? 20 : bytes, at);
}

static int faulty_fsync(const struct io *io, int fd)
{
    return fault() ? -1 : io_posix.fsync(io, fd);
}

static int write_one(const struct io *io, struct snug_err *err)
{
    struct st_tensor t = {.name = "w", .dtype = DT_F32, .ndim = 1, .shape = {2}};
    struct st_writer w;
    struct hash128 hash;
    TRY(st_create(io, path, &t, 1, NULL, 0, true, &w, err));
    int code = st_write(&w, &t, 0, "\0\0\0\0\0\0\x80\x3f", 8, err);
    if (!code)
        code = st_finish(&w, &hash, err);
    if (code)
        st_abandon(&w);
    return code;
}

static void every_call_fails(void **state)
{
    (void)state;
    struct io io = io_posix;
    io.open = faulty_open, io.close = faulty_close, io.fallocate = faulty_fallocate, io.pwrite = faulty_pwrite,
    io.fsync = faulty_fsync;
    int code = 1;
    for (fail_call = 1; code; fail_call++) {
        struct snug_err err;
        calls = 0;
        code = write_one(&io, &err);
        assert_int_equal(code, calls >= fail_call ? SNUG_ERR_IO : 0);
        assert_int_equal(io_exists(&io_posix, path), code == 0);
    }
    assert_true(fail_call > 9);
    /* As safetensors.numpy.save({"w": np.array([0, 1], np.float32)}) of 0.8.0 has it. */
    static const char want[] = "8\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  "
                               "\0\0\0\0\0\0\x80\x3f";
    check_file((const unsigned char *)want, sizeof want - 1);
}

static void every_allocation_fails(void **state)
{
    (void)state;
    const char *metadata[] = {"format", "pt"};
    int code = 1, k;
    for (k = 1; code; k++) {
        struct st_tensor t = {.name = "w"};
        struct st_writer w;
        struct snug_err err;
        struct failing_memory memory;
        failing_memory_set(&memory, k, false);
        code = st_create(&io_posix, path, &t, 1, metadata, 1, true, &w, &err);
        mem_set_ops(NULL);
        assert_int_equal(code, failing_memory_hit(&memory) ? SNUG_ERR_ENV : 0);
        assert_int_equal(io_exists(&io_posix, path), code == 0);
        st_abandon(&w);
        assert_false(io_exists(&io_posix, path));
    }
    assert_in_range(k, 5, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_models), cmocka_unit_test(golden_models),    cmocka_unit_test(refuses),
        cmocka_unit_test(never_replaces),  cmocka_unit_test(every_call_fails), cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
