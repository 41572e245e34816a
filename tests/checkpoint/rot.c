/* train/checkpoint against bit rot: every bit of a small checkpoint, random bits of one that is larger than a piece of
 * reading, every truncation, zeroed blocks. All are found, and file and tensor are named. */
#include "help.h"

#include <fcntl.h>

static const char *const FILES[] = {"MANIFEST.json", "state.json", "rank-0000.safetensors"};

struct fixture {
    char dir[64], step[100];
    size_t data_at; /* of the tensors' data in rank-0000.safetensors */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct faulty plain;
    size_t n;
    make_folder(f->dir);
    faulty_init(&plain);
    if (save_tiny(&plain.io, f->dir, 1, (struct ckpt_notes){0}, NULL))
        return 1;
    snprintf(f->step, sizeof f->step, "%s/step-00000001", f->dir);
    unsigned char *bytes = (unsigned char *)read_text(in(f->step, FILES[2]), &n);
    f->data_at = 8 + bytes[0] + 256u * bytes[1];
    free(bytes);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    remove_tree(f->dir);
    free(f);
    return 0;
}

/* The tensor that byte `at` of the tensor file belongs to: sorted by dtype (F64, F32, BF16, U8), then by name. */
static const char *tensor_at(const struct fixture *f, size_t at)
{
    static const struct {
        const char *name;
        size_t bytes;
    } order[] = {{"loss_scale", 8},
                 {"encoder.bias", 4 * 24},
                 {"encoder.weight", 4 * 8 * 24},
                 {"encoder.weight.exp_avg", 2 * 8 * 24},
                 {"encoder.weight.codes", 33}};
    if (at < f->data_at)
        return "header";
    at -= f->data_at;
    for (int i = 0; i < 5; i++) {
        if (at < order[i].bytes)
            return order[i].name;
        at -= order[i].bytes;
    }
    fail_msg("beyond the data");
    return NULL;
}

static void expect_found(const char *step, const char *file, const char *tensor, const char *what, size_t at)
{
    struct ckpt_found found;
    struct snug_err err = {0};
    char want[200];
    int code = ckpt_find(&io_posix, step, 0, (struct ckpt_notes){0}, &found, &err);
    if (code != SNUG_ERR_CHECKPOINT)
        fail_msg("%s: %s at %zu: code %d", file, what, at, code);
    snprintf(want, sizeof want, "%s: %s: %s%s", step, file, tensor ? tensor : "", tensor ? ": hash differs" : "");
    if (tensor ? strcmp(err.text, want) != 0 : strncmp(err.text, want, strlen(want) - 2) != 0)
        fail_msg("%s at %zu: '%s', not '%s'", what, at, err.text, want);
}

static void flip(int fd, size_t at, int bit)
{
    unsigned char c;
    assert_int_equal(pread(fd, &c, 1, (off_t)at), 1);
    c ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
}

static void every_bit(void **state)
{
    struct fixture *f = *state;
    size_t flips = 0;
    for (int i = 0; i < 3; i++) {
        int fd = open(in(f->step, FILES[i]), O_RDWR);
        off_t n = lseek(fd, 0, SEEK_END);
        assert_true(fd >= 0 && n > 100);
        for (size_t bit = 0; bit < 8 * (size_t)n; bit++, flips++) {
            flip(fd, bit / 8, (int)(bit % 8));
            expect_found(f->step, FILES[i], i == 2 ? tensor_at(f, bit / 8) : NULL, "bit", bit);
            flip(fd, bit / 8, (int)(bit % 8));
        }
        close(fd);
    }
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, f->step, 0, (struct ckpt_notes){0}, &found, NULL), 0); /* all is back */
    assert_loads(&found);
    ckpt_found_free(&found);
    print_message("%zu bits\n", flips);
}

static void every_length(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        size_t n;
        char *bytes = read_text(in(f->step, FILES[i]), &n);
        for (size_t length = n; length-- > 0;) {
            assert_int_equal(truncate(in(f->step, FILES[i]), (off_t)length), 0);
            expect_found(f->step, FILES[i], NULL, "length", length);
        }
        int fd = open(in(f->step, FILES[i]), O_WRONLY);
        assert_int_equal(pwrite(fd, bytes, n, 0), n);
        close(fd);
        free(bytes);
    }
    assert_int_equal(truncate(in(f->step, FILES[2]), 10000), 0); /* longer */
    expect_found(f->step, FILES[2], NULL, "length", 10000);
}

static uint64_t next(uint64_t *x)
{
    *x += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = (*x ^ *x >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Larger than the pieces in which files are read; the hash is one over all. */
static void large(void **state)
{
    struct fixture *f = *state;
    enum { A = 5 << 20, B = 12345 };
    static uint8_t a[A], b[B];
    struct ckpt_tensor tensors[] = {{"b", DT_U8, 1, {B}, b, NULL}, {"a", DT_U8, 2, {5, 1 << 20}, a, NULL}};
    struct ckpt_config config = {.io = &io_posix, .output_dir = f->dir, .read_back = true};
    struct ckpt_saver *saver;
    uint64_t x = 20260101;
    for (size_t i = 0; i < A; i++)
        a[i] = (uint8_t)(1 + next(&x) % 255);
    for (size_t i = 0; i < B; i++)
        b[i] = (uint8_t)(1 + next(&x) % 255);
    json_t *doc = json_object();
    assert_int_equal(ckpt_saver_new(&config, &saver, NULL), 0);
    assert_int_equal(ckpt_save_begin(saver, 2, -1, tensors, 2, doc, NULL), 0);
    assert_int_equal(ckpt_save_wait(saver, NULL), 0);
    ckpt_saver_free(saver);
    json_decref(doc);

    char step[100];
    snprintf(step, sizeof step, "%s/step-00000002", f->dir);
    int fd = open(in(step, FILES[2]), O_RDWR);
    off_t n = lseek(fd, 0, SEEK_END);
    size_t header = (size_t)n - A - B;
    for (int i = 0; i < 200; i++) {
        size_t at = next(&x) % (size_t)n;
        int bit = (int)(next(&x) % 8);
        flip(fd, at, bit);
        expect_found(step, FILES[2], at < header ? "header" : at < header + A ? "a" : "b", "byte", at);
        flip(fd, at, bit);
    }
    for (int i = 0; i < 32; i++) { /* a block of 4 KiB that was never written */
        static const char zeros[4096];
        char kept[4096];
        off_t at = (off_t)(next(&x) % (uint64_t)(n / 4096)) * 4096;
        assert_int_equal(pread(fd, kept, 4096, at), 4096);
        assert_int_equal(pwrite(fd, zeros, 4096, at), 4096);
        expect_found(step, FILES[2],
                     at < (off_t)header         ? "header"
                     : at < (off_t)(header + A) ? "a"
                                                : "b",
                     "block", (size_t)at);
        assert_int_equal(pwrite(fd, kept, 4096, at), 4096);
    }
    close(fd);
    memset(a, 0, A);
    memset(b, 0, B);
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, f->dir, 0, (struct ckpt_notes){0}, &found, NULL), 0);
    assert_int_equal(found.step, 2);
    assert_int_equal(ckpt_load_tensors(&found, tensors, 2, NULL), 0);
    x = 20260101;
    for (size_t i = 0; i < A; i++)
        if (a[i] != (uint8_t)(1 + next(&x) % 255))
            fail_msg("a[%zu] differs", i);
    ckpt_found_free(&found);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(every_bit), TEST(every_length), TEST(large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
