/* output/export: the bytes of the reference library, files copied as they are, and a folder that is never half. */
#include "output/export.h"
#include "checkpoint/help.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* The values of export_v1/make.py. */
static float embeddings[12], bias[2];
static const uint16_t weight[4] = {0x3800, 0x4000, 0x4200, 0x7BFF};
static int64_t ids[5];

static const char *const NAMES[] = {"model.safetensors", "config.json", "tokenizer.json", "vocab.txt"};
static const char *const TOKENIZER[] = {"tokenizer.json", "vocab.txt", "merges.txt"}; /* the last one is not there */
static const char CONFIG[] = "{\"model_type\": \"bert\"}\n", VOCAB[] = "[PAD]\r\na\xff";

static int give(void *ctx, const struct st_tensor *t, int64_t offset, void *to, size_t bytes, struct snug_err *err)
{
    int *left = ctx;
    if (left && (*left)-- == 0)
        return err_set(err, SNUG_ERR_NUMERIC, "%s: not finite", t->name);
    const void *from = !strcmp(t->name, "classifier.weight")              ? (const void *)weight
                       : !strcmp(t->name, "classifier.bias")              ? (const void *)bias
                       : !strcmp(t->name, "bert.embeddings.position_ids") ? (const void *)ids
                                                                          : (const void *)embeddings;
    memcpy(to, (const char *)from + offset, bytes);
    return SNUG_OK;
}

static int export(const struct io *io, const char *dir, const char *source, int *left, struct snug_err *err)
{
    struct st_tensor tensors[] = {
        {.name = "classifier.weight", .dtype = DT_F16, .ndim = 2, .shape = {2, 2}},
        {.name = "bert.embeddings.word_embeddings.weight", .dtype = DT_F32, .ndim = 2, .shape = {4, 3}},
        {.name = "classifier.bias", .dtype = DT_F32, .ndim = 1, .shape = {2}},
        {.name = "bert.embeddings.position_ids", .dtype = DT_I64, .ndim = 2, .shape = {1, 5}},
    };
    struct export_model m = {.tensors = tensors,
                             .n_tensors = 4,
                             .read = give,
                             .ctx = left,
                             .texts = {{"config.json", CONFIG}},
                             .source_dir = source,
                             .files = TOKENIZER,
                             .n_files = 3};
    for (int i = 0; i < 12; i++)
        embeddings[i] = (float)i / 4;
    for (int i = 0; i < 5; i++)
        ids[i] = i;
    bias[0] = 1, bias[1] = -1;
    return export_folder(io, dir, &m, err);
}

/* "old" files in `dir` when `old`, tokenizer files in `source`. */
static void make_folders(char dir[64], char source[64], bool old)
{
    make_folder(dir);
    make_folder(source);
    for (int i = 0; old && i < 4; i++)
        write_text(dir, NAMES[i], "old");
    write_text(source, "tokenizer.json", "{}");
    write_text(source, "vocab.txt", VOCAB);
    write_text(source, "secret.txt", "not copied");
}

static bool is_old(const char *dir, const char *name)
{
    size_t n;
    char *bytes = read_text(in(dir, name), &n);
    bool old = n == 3 && !memcmp(bytes, "old", 3);
    free(bytes);
    return old;
}

static void expect_bytes(const char *dir, const char *name, const void *want, size_t want_n)
{
    size_t n;
    char *bytes = read_text(in(dir, name), &n);
    assert_int_equal(n, want_n);
    assert_memory_equal(bytes, want, n);
    free(bytes);
}

static void as_the_reference(void **state)
{
    (void)state;
    char dir[64], source[64], fixture[300];
    struct snug_err err = {0};
    size_t n;
    make_folders(dir, source, false);
    if (export(&io_posix, dir, source, NULL, &err))
        fail_msg("%s", err.text);
    const char *root = getenv("SNUG_SOURCE");
    snprintf(fixture, sizeof fixture, "%s/tests/output/export_v1", root ? root : ".");
    char *want = read_text(in(fixture, "model.safetensors"), &n);
    expect_bytes(dir, "model.safetensors", want, n);
    free(want);
    expect_bytes(dir, "config.json", CONFIG, sizeof CONFIG - 1);
    expect_bytes(dir, "tokenizer.json", "{}", 2);
    expect_bytes(dir, "vocab.txt", VOCAB, sizeof VOCAB - 1);
    assert_int_equal(count_names(dir, ""), 6); /* with . and .. */
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(in(dir, "model.safetensors"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);

    /* Into the folder that the tokenizer files come from. */
    assert_int_equal(export(&io_posix, dir, dir, NULL, &err), 0);
    expect_bytes(dir, "vocab.txt", VOCAB, sizeof VOCAB - 1);
    assert_int_equal(count_names(dir, ""), 6);
    remove_tree(dir);
    remove_tree(source);
}

static void weights_that_cannot_be_had(void **state)
{
    (void)state;
    for (int left = 0; left < 4; left++) {
        char dir[64], source[64];
        struct snug_err err = {0};
        int calls = left;
        make_folders(dir, source, true);
        assert_int_equal(export(&io_posix, dir, source, &calls, &err), SNUG_ERR_NUMERIC);
        for (int i = 0; i < 4; i++)
            assert_true(is_old(dir, NAMES[i]));
        assert_int_equal(count_names(dir, ""), 6);
        remove_tree(dir);
        remove_tree(source);
    }
}

/* Each file is old or new, and new weights mean that all is new. */
static void expect_never_half(const char *dir, long k)
{
    size_t n;
    bool weights_old = is_old(dir, "model.safetensors");
    for (int i = 1; i < 4; i++)
        if (is_old(dir, NAMES[i]) && !weights_old)
            fail_msg("call %ld: new weights beside an old %s", k, NAMES[i]);
    if (!is_old(dir, "config.json"))
        expect_bytes(dir, "config.json", CONFIG, sizeof CONFIG - 1);
    if (!is_old(dir, "vocab.txt"))
        expect_bytes(dir, "vocab.txt", VOCAB, sizeof VOCAB - 1);
    struct st_file f;
    if (!weights_old) {
        assert_int_equal(st_open(&io_posix, in(dir, "model.safetensors"), &f, NULL), 0);
        st_close(&f);
    }
    free(read_text(in(dir, "tokenizer.json"), &n));
}

static void every_file_call_fails(void **state)
{
    (void)state;
    static const int errnums[] = {ENOSPC, EIO};
    for (int kind = 0; kind < 3; kind++) /* once, for ever, killed */
        for (long k = 1, more = 1; more; k++) {
            char dir[64], source[64];
            struct faulty f;
            struct snug_err err = {0};
            make_folders(dir, source, true);
            faulty_init(&f);
            f.at = k, f.for_ever = kind == 1, f.errnum = errnums[k % 2];
            f.kind = kind == 2 ? FAULT_KILL : FAULT_ERROR;
            int code = 0;
            if (kind == 2) {
                pid_t pid = fork();
                if (!pid)
                    _exit(export(&f.io, dir, source, NULL, NULL) ? 1 : 0);
                assert_int_equal(waitpid(pid, &code, 0), pid);
            } else {
                code = export(&f.io, dir, source, NULL, &err);
                if (code && (code != SNUG_ERR_IO || !err.text[0]))
                    fail_msg("%s fails at call %ld: code %d: %s", f.hit, k, code, err.text);
                if (!f.for_ever && strcmp(f.hit, "unlink") != 0)
                    assert_int_equal(count_names(dir, ".tmp-"), 0);
            }
            expect_never_half(dir, k);
            more = code || f.hit[0];
            if (!more)
                assert_false(is_old(dir, "model.safetensors"));
            struct ckpt_dir d; /* the temporary files of a dead run go at the next start */
            assert_int_equal(
                ckpt_dir_open(&io_posix, dir, CKPT_RESUME, NULL, NULL, 0, (struct ckpt_notes){0}, &d, NULL), 0);
            assert_int_equal(count_names(dir, ".tmp-"), 0);
            ckpt_dir_close(&d);
            remove_tree(dir);
            remove_tree(source);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_reference),
        cmocka_unit_test(weights_that_cannot_be_had),
        cmocka_unit_test(every_file_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
