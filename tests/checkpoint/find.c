/* checkpoint: which checkpoint is found, and what is said of the others: the K rows of bad folders. */
#include "fixture.h"

static void expect_failure(struct fixture *f, const char *from, int flags, int code, const char *part)
{
    struct ckpt_found found;
    struct snug_err err = {0};
    assert_int_equal(ckpt_find(&io_posix, from, flags, notes_of(&f->lines), &found, &err), code);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, part))
        fail_msg("'%s' is not in '%s'", part, err.text);
    assert_null(found.path);
    assert_null(found.manifest);
    ckpt_found_free(&found);
}

static void expect_fresh(struct fixture *f, const char *from)
{
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, from, CKPT_AUTO, notes_of(&f->lines), &found, NULL), 0);
    assert_null(found.path);
}

static void k1_nothing_there(void **state)
{
    struct fixture *f = *state;
    char empty[64];
    make_folder(empty);
    expect_failure(f, empty, 0, SNUG_ERR_CHECKPOINT, "no checkpoint in ");
    expect_failure(f, in(empty, "missing"), 0, SNUG_ERR_CHECKPOINT, "no checkpoint in ");
    write_text(empty, "file", "x");
    expect_failure(f, in(empty, "file"), 0, SNUG_ERR_CHECKPOINT, "not a folder");
    expect_fresh(f, empty);
    expect_fresh(f, in(empty, "missing"));
    remove_tree(empty);
}

static void k2_only_unfinished(void **state)
{
    struct fixture *f = *state;
    char dir[64];
    make_folder(dir);
    mkdir(in(dir, ".tmp-step-00000004.0123456789abcdef0123456789abcdef"), 0777);
    expect_failure(f, dir, 0, SNUG_ERR_CHECKPOINT, "no checkpoint in ");
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "interrupted"));
    expect_fresh(f, dir);
    assert_int_equal(f->lines.n, 1);
    remove_tree(dir);
}

/* K3, K4: each damage is found and named, and the next older checkpoint is used. */
static void k3_k4_damage(void **state)
{
    struct fixture *f = *state;
    char path[300], other[300];
    file_of(f, 3, "MANIFEST.json", path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);

    assert_int_equal(truncate(path, st.st_size - 1), 0);
    expect_step(f, f->dir, 0, 2);
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "step-00000003: MANIFEST.json: truncated"));
    assert_int_equal(truncate(path, 0), 0);
    expect_step(f, f->dir, 0, 2);
    assert_int_equal(unlink(path), 0);
    expect_step(f, f->dir, 0, 2);
    assert_int_equal(f->lines.n, 1);
    snprintf(other, sizeof other, "skipped %s/step-00000003: no MANIFEST.json (save was interrupted)", f->dir);
    assert_string_equal(f->lines.text[0], other);

    /* A block of one tensor zeroed. */
    file_of(f, 2, "rank-0000.safetensors", path);
    size_t n;
    char *bytes = read_text(in(in(f->dir, "step-00000002"), "rank-0000.safetensors"), &n);
    long at = 8 + (unsigned char)bytes[0] + 256L * (unsigned char)bytes[1];
    damage(path, at + 40, 64); /* F64 loss_scale (8 bytes), then F32 encoder.bias (96 bytes) */
    expect_step(f, f->dir, 0, 1);
    assert_int_equal(f->lines.n, 2);
    assert_non_null(line_with(&f->lines, "step-00000002: rank-0000.safetensors: encoder.bias: hash differs"));
    expect_failure(f, in(f->dir, "step-00000002"), 0, SNUG_ERR_CHECKPOINT, "encoder.bias: hash differs");
    free(bytes);

    /* Two files swapped; a file missing; a size; an extra one. */
    file_of(f, 1, "rank-0000.safetensors", path);
    file_of(f, 1, "state.json", other);
    char third[300];
    file_of(f, 1, "third", third);
    assert_int_equal(rename(path, third) | rename(other, path) | rename(third, other), 0);
    expect_failure(f, in(f->dir, "step-00000001"), 0, SNUG_ERR_CHECKPOINT, "rank-0000.safetensors: has ");
    assert_int_equal(rename(path, third) | rename(other, path) | rename(third, other), 0);
    expect_step(f, f->dir, 0, 1);
    assert_int_equal(rename(other, third), 0);
    expect_failure(f, in(f->dir, "step-00000001"), CKPT_QUICK, SNUG_ERR_CHECKPOINT, "third: not in the manifest");
    assert_int_equal(unlink(third), 0);
    expect_failure(f, in(f->dir, "step-00000001"), CKPT_QUICK, SNUG_ERR_CHECKPOINT, "state.json: missing");
    assert_int_equal(symlink("rank-0000.safetensors", other), 0);
    expect_failure(f, in(f->dir, "step-00000001"), CKPT_QUICK, SNUG_ERR_CHECKPOINT, "state.json: not a regular file");
}

static void k5_all_bad(void **state)
{
    struct fixture *f = *state;
    for (int step = 1; step <= 3; step++) {
        char path[300];
        file_of(f, step, "state.json", path);
        damage(path, 0, 1);
    }
    expect_failure(f, f->dir, 0, SNUG_ERR_CHECKPOINT,
                   "none of its 3 checkpoints is usable; step-00000003: state.json: hash differs; nothing was deleted");
    assert_int_equal(count_lines(&f->lines, "skipped "), 3);
    expect_failure(f, f->dir, CKPT_AUTO, SNUG_ERR_CHECKPOINT, "none of its 3 checkpoints");
    assert_int_equal(count_names(f->dir, "step-"), 3);
}

/* Replaces the manifest of a step by a text with a valid hash of its own. */
static void forge(struct fixture *f, int step, const char *head)
{
    char hex[33], *text = malloc(strlen(head) + 64), of_step[300];
    hash_hex(hash_bytes(head, strlen(head)), hex);
    sprintf(text, "%s\"xxh3_128\": \"%s\"\n}\n", head, hex);
    file_of(f, step, "", of_step);
    write_text(of_step, "MANIFEST.json", text);
    free(text);
}

#define HEAD(version)                                                                                                  \
    "{\"format\": \"snug checkpoint\", \"format_version\": " version ", \"step\": 3, \"world_size\": 1,\n"
#define HASH "\"00000000000000000000000000000000\""
#define MORE "\"state_hash\": " HASH ", "

static void k6_newer_format(void **state)
{
    struct fixture *f = *state;
    forge(f, 3, HEAD("2") "\"whatever\": {},\n");
    expect_failure(f, f->dir, 0, SNUG_ERR_CHECKPOINT, "format version 2, this snug " SNUG_VERSION " reads up to 1");
    expect_failure(f, f->dir, CKPT_AUTO, SNUG_ERR_CHECKPOINT, "format version 2");
    expect_failure(f, in(f->dir, "step-00000003"), 0, SNUG_ERR_CHECKPOINT, "format version 2");
}

static void k11_odd_names(void **state)
{
    struct fixture *f = *state;
    mkdir(in(f->dir, "step-99999999999999999999"), 0777);
    mkdir(in(f->dir, "step-9223372036854775808"), 0777);
    mkdir(in(f->dir, "step-12abc"), 0777);
    mkdir(in(f->dir, "step-"), 0777);
    mkdir(in(f->dir, "step--5"), 0777);
    mkdir(in(f->dir, "step- 7"), 0777);
    write_text(f->dir, "step-5", "a file");
    expect_step(f, f->dir, 0, 3);
    assert_int_equal(f->lines.n, 0);
    assert_int_equal(symlink("step-00000002", in(f->dir, "step-00000009")), 0);
    expect_step(f, f->dir, 0, 3);
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "symbolic link"));
    /* A folder under another step's name. */
    assert_int_equal(rename(in(f->dir, "step-00000003"), in(f->dir, "step-00000010")), 0);
    expect_step(f, f->dir, 0, 2);
    assert_non_null(line_with(&f->lines, "step-00000010: MANIFEST.json: is of step 3"));
    /* Digits without the zeros are fine. */
    assert_int_equal(rename(in(f->dir, "step-00000010"), in(f->dir, "step-3")), 0);
    expect_step(f, f->dir, 0, 3);
}

static void k14_hf_trainer(void **state)
{
    struct fixture *f = *state;
    char dir[64];
    make_folder(dir);
    mkdir(in(dir, "checkpoint-500"), 0777);
    write_text(in(dir, "checkpoint-500"), "trainer_state.json", "{}");
    write_text(in(dir, "checkpoint-500"), "optimizer.pt", "PK");
    expect_failure(f, dir, 0, SNUG_ERR_CHECKPOINT, "HF Trainer optimizer state is pickle and is not read; use --model");
    expect_failure(f, in(dir, "checkpoint-500"), CKPT_AUTO, SNUG_ERR_CHECKPOINT, "HF Trainer optimizer state");
    remove_tree(dir);
}

static void k17_hostile_manifests(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"../x", "/etc/passwd", "a/b", ".", "..", "", "MANIFEST.json", ".lock"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 HEAD("1") MORE "\"files\": [{\"name\": \"%s\", \"bytes\": 1, \"xxh3_128\": " HASH
                                "}], \"tensors\": [],\n",
                 names[i]);
        forge(f, 3, text);
        expect_failure(f, in(f->dir, "step-00000003"), 0, SNUG_ERR_CHECKPOINT, "not a plain file name");
        expect_step(f, f->dir, 0, 2);
    }
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"[1,\n", "MANIFEST.json"},
        {"{\n", "MANIFEST.json"},
        {"{\"format\": \"other\",\n", "format is \"other\""},
        {HEAD("0"), "format_version"},
        {HEAD("\"1\""), "format_version"},
        {HEAD("1"), "state_hash"},
        {HEAD("1") "\"state_hash\": \"x\", ", "not a hash"},
        {HEAD("1") MORE "\"files\": {}, ", "no list"},
        {HEAD("1") MORE "\"files\": [1], ", "name"},
        {HEAD("1") MORE "\"files\": [{\"name\": \"x\", \"bytes\": -1, \"xxh3_128\": " HASH "}], ", "bytes"},
        {HEAD("1") MORE "\"files\": [{\"name\": \"x\", \"bytes\": 9223372036854775807, \"xxh3_128\": " HASH "}], ",
         "bytes"},
        {HEAD("1") MORE "\"files\": [{\"name\": \"x\", \"bytes\": 1, \"xxh3_128\": \"0\"}], ", "not a hash"},
        {HEAD("1") MORE "\"files\": [{\"name\": \"x\", \"bytes\": 1, \"xxh3_128\": " HASH
                        "}, {\"name\": \"x\", \"bytes\": 1, \"xxh3_128\": " HASH "}], ",
         "listed twice"},
        {HEAD("1") MORE "\"files\": [], \"tensors\": [{\"name\": \"w\"}],\n", "file"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        forge(f, 3, bad[i].text);
        expect_failure(f, in(f->dir, "step-00000003"), 0, SNUG_ERR_CHECKPOINT, bad[i].part);
    }
    /* Very many entries: were it quadratic, hours. */
    size_t n = 2000000, at;
    char *text = malloc(sizeof HEAD("1") + 200 + 2 * n);
    at = (size_t)sprintf(text, HEAD("1") MORE "\"files\": [");
    for (size_t i = 0; i < n; i++)
        text[at++] = i ? ',' : '1', i ? text[at++] = '1' : 0;
    sprintf(text + at, "], ");
    forge(f, 3, text);
    expect_failure(f, in(f->dir, "step-00000003"), 0, SNUG_ERR_CHECKPOINT, "MANIFEST.json");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(k1_nothing_there), TEST(k2_only_unfinished), TEST(k3_k4_damage),   TEST(k5_all_bad),
        TEST(k6_newer_format),  TEST(k11_odd_names),      TEST(k14_hf_trainer), TEST(k17_hostile_manifests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
