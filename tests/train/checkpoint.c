/* train/checkpoint: saving, finding and loading without faults; the K rows of bad checkpoint folders; retention;
 * saving beside training. */
#include "checkpoint_help.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- An output folder with steps 1, 2, 3 in it for each test. */

struct fixture {
    char dir[64];
    struct faulty files;
    struct lines lines;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    make_folder(f->dir);
    faulty_init(&f->files);
    for (int64_t step = 1; step <= 3; step++)
        if (save_tiny(&f->files.io, f->dir, step, notes_of(&f->lines), NULL))
            return 1;
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

static void file_of(struct fixture *f, int step, const char *name, char path[300])
{
    snprintf(path, 300, "%s/step-%08d/%s", f->dir, step, name);
}

/* Finds from `from`, asserts the step, loads. */
static void expect_step(struct fixture *f, const char *from, int flags, int64_t step)
{
    struct ckpt_found found;
    struct snug_err err = {0};
    if (ckpt_find(&io_posix, from, flags, notes_of(&f->lines), &found, &err))
        fail_msg("%s", err.text);
    assert_non_null(found.path);
    assert_int_equal(found.step, step);
    assert_int_equal(found.n_files, 3);
    assert_loads(&found);
    ckpt_found_free(&found);
}

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

/* Writes `bytes` zeros at `at`. */
static void damage(const char *path, long at, size_t bytes)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    while (bytes--)
        fputc(0, file);
    fclose(file);
}

/* ---- Saving and loading. */

static void round_trip(void **state)
{
    struct fixture *f = *state;
    expect_step(f, f->dir, 0, 3);
    assert_int_equal(f->lines.n, 0);
    expect_step(f, f->dir, CKPT_QUICK, 3);
    expect_step(f, in(f->dir, "step-00000002"), 0, 2);
    expect_step(f, in(f->dir, "step-00000002//"), 0, 2);
    expect_step(f, in(f->dir, "latest"), 0, 3); /* a link that is named is followed */
    assert_int_equal(count_names(f->dir, ".tmp-"), 0);
    assert_int_equal(count_names(f->dir, "step-"), 3);
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(in(f->dir, "step-00000003/"
                                     "rank-0000.safetensors"),
                          &st),
                     0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

/* A folder that was written by another program from the description of the format. */
static void format_of_others(void **state)
{
    struct fixture *f = *state;
    char fixture[300], dir[64];
    const char *source = getenv("SNUG_SOURCE");
    snprintf(fixture, sizeof fixture, "%s/tests/train/checkpoint_v1", source ? source : ".");
    struct ckpt_found found;
    struct snug_err err = {0};
    if (ckpt_find(&io_posix, in(fixture, "step-00000007"), 0, notes_of(&f->lines), &found, &err))
        fail_msg("%s", err.text);
    float weight[6];
    uint16_t half[4];
    uint8_t codes[5];
    double scalar;
    struct ckpt_tensor tensors[] = {{"scalar", DT_F64, 0, {0}, &scalar, NULL},
                                    {"b.weight", DT_F32, 2, {2, 3}, weight, NULL},
                                    {"a.half", DT_F16, 1, {4}, half, NULL},
                                    {"b.codes", DT_U8, 1, {5}, codes, NULL}};
    assert_int_equal(ckpt_load_tensors(&found, tensors, 4, &err), 0);
    for (int i = 0; i < 6; i++)
        assert_true(weight[i] == (float)i / 8);
    assert_memory_equal(half, ((uint16_t[]){0x3800, 0xBC00, 0x7BFF, 0}), 8);
    assert_memory_equal(codes, ((uint8_t[]){1, 2, 3, 254, 255}), 5);
    assert_true(scalar == 256);
    json_t *doc;
    assert_int_equal(ckpt_load_state(&found, &doc, &err), 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "position"), "step")), 7);

    struct hash128 h;
    char hex[33];
    assert_int_equal(ckpt_state_hash(tensors, 4, doc, &h, &err), 0);
    hash_hex(h, hex);
    assert_string_equal(hex, "8ecec466b931a8d3e8f91d67da1d458d"); /* checkpoint_v1/make.py */
    assert_string_equal(hex, found.state_hash);

    make_folder(dir);
    struct ckpt_config config = {.io = &io_posix, .output_dir = dir};
    struct ckpt_saver *saver;
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    assert_int_equal(ckpt_save_begin(saver, 7, -1, tensors, 4, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_int_equal(ckpt_saved_step(saver), 7);
    ckpt_saver_free(saver);
    static const char *const names[] = {"rank-0000.safetensors", "state.json", "MANIFEST.json"};
    for (int i = 0; i < 3; i++) {
        size_t ours_n, theirs_n;
        char *ours = read_bytes(in(dir, "step-00000007"), names[i], &ours_n);
        char *theirs = read_bytes(in(fixture, "step-00000007"), names[i], &theirs_n);
        if (i < 2 || !strcmp(SNUG_VERSION, "0.1.0")) { /* the manifest has the version in it */
            assert_int_equal(ours_n, theirs_n);
            assert_memory_equal(ours, theirs, ours_n);
        }
        free(ours);
        free(theirs);
    }
    remove_tree(dir);
    json_decref(doc);
    ckpt_found_free(&found);
}

/* Each part of the state is in the hash, and nothing else is. */
static void hash_covers_the_state(void **state)
{
    (void)state;
    struct tiny t;
    char first[33], other[33];
    tiny_run_to(&t, 5);
    tiny_hash(&t, first);
    uint8_t *parts[] = {(uint8_t *)t.weight, (uint8_t *)t.bias + 95,   (uint8_t *)t.moment,
                        t.codes + 32,        (uint8_t *)&t.loss_scale, (uint8_t *)&t.step};
    for (int i = 0; i < 6; i++) {
        *parts[i] ^= 1;
        tiny_hash(&t, other);
        assert_string_not_equal(first, other);
        *parts[i] ^= 1;
    }
    tiny_hash(&t, other);
    assert_string_equal(first, other);

    struct ckpt_tensor tensors[TINY_TENSORS], swapped;
    struct hash128 h;
    json_t *doc = tiny_state(&t);
    tiny_tensors(&t, tensors);
    swapped = tensors[0], tensors[0] = tensors[3], tensors[3] = swapped; /* the caller's order does not matter */
    json_object_set_new(json_object_get(doc, "about"), "output_dir", json_string("elsewhere"));
    assert_int_equal(ckpt_state_hash(tensors, TINY_TENSORS, doc, &h, NULL), 0);
    hash_hex(h, other);
    assert_string_equal(first, other);
    tensors[1].name = "renamed";
    assert_int_equal(ckpt_state_hash(tensors, TINY_TENSORS, doc, &h, NULL), 0);
    hash_hex(h, other);
    assert_string_not_equal(first, other);
    tiny_tensors(&t, tensors);
    tensors[0].shape[0] = 24, tensors[0].shape[1] = 8;
    assert_int_equal(ckpt_state_hash(tensors, TINY_TENSORS, doc, &h, NULL), 0);
    hash_hex(h, other);
    assert_string_not_equal(first, other);
    json_decref(doc);
}

/* K7: the first difference, old -> new. */
static void comparing(void **state)
{
    (void)state;
    json_t *old =
        json_pack("{s:{s:i,s:[i,i]},s:i,s:s}", "config", "hidden_size", 768, "layers", 1, 2, "seed", 1, "x", "y");
    json_t *new = json_pack("{s:{s:i,s:[i,i]},s:i}", "config", "hidden_size", 768, "layers", 1, 2, "seed", 1);
    const char *keys[] = {"config", "seed", "neither"};
    struct snug_err err = {0};
    assert_int_equal(ckpt_compare("D", old, new, keys, 3, &err), 0); /* "x" was not asked for */
    json_object_set_new(new, "seed", json_integer(2));
    assert_int_equal(ckpt_compare("D", old, new, keys, 3, &err), SNUG_ERR_CHECKPOINT);
    assert_ptr_equal(strstr(err.text, "D: seed: 1 -> 2; "), err.text);
    json_array_set_new(json_object_get(json_object_get(new, "config"), "layers"), 1, json_integer(3));
    assert_int_equal(ckpt_compare("D", old, new, keys, 3, &err), SNUG_ERR_CHECKPOINT);
    assert_ptr_equal(strstr(err.text, "D: config.layers[1]: 2 -> 3; "), err.text);
    json_array_append_new(json_object_get(json_object_get(new, "config"), "layers"), json_integer(4));
    json_array_set_new(json_object_get(json_object_get(new, "config"), "layers"), 1, json_integer(2));
    ckpt_compare("D", old, new, keys, 3, &err);
    assert_ptr_equal(strstr(err.text, "D: config.layers[2]: absent -> 4; "), err.text);
    json_array_remove(json_object_get(json_object_get(new, "config"), "layers"), 2);
    json_object_del(json_object_get(new, "config"), "hidden_size");
    ckpt_compare("D", old, new, keys, 3, &err);
    assert_ptr_equal(strstr(err.text, "D: config.hidden_size: 768 -> absent; "), err.text);
    json_object_set_new(json_object_get(new, "config"), "hidden_size", json_integer(768));
    json_object_set_new(json_object_get(new, "config"), "extra", json_true());
    ckpt_compare("D", old, new, keys, 3, &err);
    assert_ptr_equal(strstr(err.text, "D: config.extra: absent -> true; "), err.text);
    json_decref(old);
    json_decref(new);
    old = json_pack("{s:{s:f,s:{s:f}}}", "options", "learning_rate", 0.5, "optim_args", "adam_beta", 0.25);
    new = json_pack("{s:{s:f,s:{s:f}}}", "options", "learning_rate", 0.5, "optim_args", "adam_beta", 0.125);
    const char *options[] = {"options"};
    ckpt_compare("D", old, new, options, 1, &err);
    assert_ptr_equal(strstr(err.text, "D: --optim-args adam_beta: 0.25 -> 0.125; "), err.text);
    json_object_set_new(json_object_get(new, "options"), "learning_rate", json_real(0.75));
    ckpt_compare("D", old, new, options, 1, &err);
    assert_ptr_equal(strstr(err.text, "D: --learning-rate: 0.5 -> 0.75; "), err.text);
    json_decref(old);
    json_decref(new);
}

/* What is loaded must be what is wanted, before anything is filled. */
static void tensors_must_match(void **state)
{
    struct fixture *f = *state;
    struct ckpt_found found;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct tiny t;
    struct snug_err err = {0};
    memset(&t, 0x11, sizeof t);
    struct tiny untouched = t;
    assert_int_equal(ckpt_find(&io_posix, f->dir, 0, notes_of(&f->lines), &found, &err), 0);
    tiny_tensors(&t, tensors);
    assert_int_equal(ckpt_load_tensors(&found, tensors, TINY_TENSORS - 1, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "empty: this run has no such tensor"));
    tensors[1].name = "encoder.other";
    assert_int_equal(ckpt_load_tensors(&found, tensors, TINY_TENSORS, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "encoder.other: not there"));
    tiny_tensors(&t, tensors);
    tensors[0].shape[1] = 25;
    assert_int_equal(ckpt_load_tensors(&found, tensors, TINY_TENSORS, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "encoder.weight: F32 [8,24] -> F32 [8,25]"));
    tiny_tensors(&t, tensors);
    tensors[2].dtype = DT_F16;
    assert_int_equal(ckpt_load_tensors(&found, tensors, TINY_TENSORS, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "encoder.weight.exp_avg: BF16 [8,24] -> F16 [8,24]"));
    assert_memory_equal(&t, &untouched, sizeof t);

    /* Changed between finding and loading, or after a quick look. */
    char path[300];
    file_of(f, 3, "rank-0000.safetensors", path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    damage(path, st.st_size - 3, 3);
    tiny_tensors(&t, tensors);
    assert_int_equal(ckpt_load_tensors(&found, tensors, TINY_TENSORS, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "encoder.weight.codes: hash differs"));
    file_of(f, 3, "state.json", path);
    damage(path, 3, 1);
    json_t *doc;
    assert_int_equal(ckpt_load_state(&found, &doc, &err), SNUG_ERR_CHECKPOINT);
    assert_non_null(strstr(err.text, "state.json: hash differs"));
    assert_null(doc);
    ckpt_found_free(&found);
}

/* ---- Bad folders. */

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
    char *bytes = read_bytes(in(f->dir, "step-00000002"), "rank-0000.safetensors", &n);
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
    char hex[33], *text = malloc(strlen(head) + 64), folder[300];
    hash_hex(hash_bytes(head, strlen(head)), hex);
    sprintf(text, "%s\"xxh3_128\": \"%s\"\n}\n", head, hex);
    file_of(f, step, "", folder);
    write_text(folder, "MANIFEST.json", text);
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
    /* Very many entries: bounded time. */
    size_t n = 2000000, at;
    char *text = malloc(sizeof HEAD("1") + 200 + 2 * n);
    at = (size_t)sprintf(text, HEAD("1") MORE "\"files\": [");
    for (size_t i = 0; i < n; i++)
        text[at++] = i ? ',' : '1', i ? text[at++] = '1' : 0;
    sprintf(text + at, "], ");
    double start = seconds();
    forge(f, 3, text);
    expect_failure(f, in(f->dir, "step-00000003"), 0, SNUG_ERR_CHECKPOINT, "MANIFEST.json");
    assert_true(seconds() - start < 5);
    free(text);
}

/* ---- Retention. */

/* Saves steps first..last with one saver. */
static void save_steps(struct fixture *f, int64_t limit, int64_t best, int64_t first, int64_t last)
{
    struct ckpt_config config = {
        .io = &f->files.io, .output_dir = f->dir, .total_limit = limit, .notes = notes_of(&f->lines)};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, first);
    tiny_tensors(&t, tensors);
    for (int64_t step = first; step <= last; step++) {
        json_t *doc = tiny_state(&t);
        if (ckpt_save_begin(saver, step, best, tensors, TINY_TENSORS, doc, &err))
            fail_msg("%s", err.text);
        json_decref(doc);
        tiny_step(&t); /* while it is being written */
    }
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
}

static bool has_step(struct fixture *f, int step)
{
    char name[32];
    snprintf(name, sizeof name, "step-%08d", step);
    return access(in(f->dir, name), F_OK) == 0;
}

static void retention(void **state)
{
    struct fixture *f = *state;
    save_steps(f, 2, 2, 4, 6); /* 2 is the best */
    assert_true(has_step(f, 2) && has_step(f, 5) && has_step(f, 6));
    assert_int_equal(count_names(f->dir, "step-"), 3);
    assert_int_equal(count_names(f->dir, ".t"), 0);
    assert_int_equal(count_lines(&f->lines, " complete: "), 3);
    assert_int_equal(count_lines(&f->lines, "deleted"), 3);
    expect_step(f, f->dir, 0, 6);
    expect_step(f, in(f->dir, "latest"), 0, 6);

    save_steps(f, 1, -1, 7, 7); /* 1 keeps 2, and says so */
    assert_non_null(line_with(&f->lines, "two are kept"));
    assert_true(has_step(f, 6) && has_step(f, 7));
    assert_int_equal(count_names(f->dir, "step-"), 2);

    save_steps(f, 0, -1, 8, 10); /* 0 keeps all */
    assert_int_equal(count_names(f->dir, "step-"), 5);
}

/* What is not whole, not ours or not of this run's past is neither counted nor deleted. */
static void retention_leaves_the_rest(void **state)
{
    struct fixture *f = *state;
    char path[300];
    file_of(f, 1, "MANIFEST.json", path);
    assert_int_equal(unlink(path), 0);
    file_of(f, 2, "", path);
    write_text(path, "my notes.txt", "keep");
    mkdir(in(f->dir, "step-12abc"), 0777);
    mkdir(in(f->dir, "step-0"), 0777);
    assert_int_equal(symlink("step-00000003", in(f->dir, "step-00000001x")), 0);
    save_tiny(&io_posix, f->dir, 50, notes_of(&f->lines), NULL); /* of a run that was gone back on */
    save_steps(f, 2, -1, 4, 6);
    assert_true(has_step(f, 1) && has_step(f, 2) && has_step(f, 5) && has_step(f, 6) && has_step(f, 50));
    assert_false(has_step(f, 3) || has_step(f, 4));
    assert_int_equal(access(in(f->dir, "step-00000002/my notes.txt"), F_OK), 0);
    assert_int_equal(access(in(f->dir, "step-12abc"), F_OK) | access(in(f->dir, "step-0"), F_OK), 0);
}

/* The final name is taken: the same state, a damaged one, another state, a file. */
static void name_is_taken(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    struct stat before, after;
    assert_int_equal(stat(in(f->dir, "step-00000003/state.json"), &before), 0);
    assert_int_equal(save_tiny(&f->files.io, f->dir, 3, notes_of(&f->lines), &err), 0);
    assert_int_equal(stat(in(f->dir, "step-00000003/state.json"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(f->lines.n, 1);
    assert_non_null(line_with(&f->lines, "already there"));

    char path[300];
    file_of(f, 3, "state.json", path);
    damage(path, 5, 1);
    assert_int_equal(save_tiny(&f->files.io, f->dir, 3, notes_of(&f->lines), &err), 0);
    assert_int_equal(count_names(f->dir, ".bad-step-00000003."), 1);
    expect_step(f, f->dir, 0, 3);

    /* Step 2's files under the name of step 3 with a manifest that says 3 cannot happen by chance; another state of
     * step 3 can: train differently. */
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct ckpt_config config = {.io = &f->files.io, .output_dir = f->dir, .notes = notes_of(&f->lines)};
    struct ckpt_saver *saver;
    tiny_run_to(&t, 3);
    t.bias[3] += 1;
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    assert_int_equal(ckpt_save_begin(saver, 3, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_int_equal(count_names(f->dir, ".bad-step-00000003."), 2);
    char hex[33];
    tiny_hash(&t, hex);
    struct ckpt_found found;
    assert_int_equal(ckpt_find(&io_posix, f->dir, 0, notes_of(&f->lines), &found, &err), 0);
    assert_string_equal(found.state_hash, hex);
    ckpt_found_free(&found);

    write_text(f->dir, "step-00000008", "a file");
    assert_int_equal(ckpt_save_begin(saver, 8, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_int_equal(count_names(f->dir, ".bad-step-00000008."), 1);
    assert_int_equal(count_names(f->dir, "step-00000008"), 1);
    ckpt_saver_free(saver);
    json_decref(doc);

    /* Something of the user's called latest stays. */
    unlink(in(f->dir, "latest"));
    write_text(f->dir, "latest", "mine");
    assert_int_equal(save_tiny(&f->files.io, f->dir, 9, notes_of(&f->lines), &err), 0);
    size_t n;
    char *text = read_bytes(f->dir, "latest", &n);
    assert_int_equal(n, 4);
    free(text);
}

/* A network file system that renames and then says that there is nothing to rename. */
static void rename_lies(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    f->files.rename_lies = true;
    assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), 0);
    assert_int_equal(count_lines(&f->lines, "complete"), 1);
    expect_step(f, f->dir, 0, 4);
}

/* Where a network file system says that a write failed: only at close. */
static void close_fails(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    f->files.close_errnum = EDQUOT;
    for (int small = 0; small < 2; small++) { /* each file; state.json alone */
        f->files.close_below = small ? 1000 : 0;
        assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), SNUG_ERR_IO);
        assert_non_null(strstr(err.text, small ? "state.json: cannot close" : "rank-0000.safetensors: cannot close"));
        assert_int_equal(count_lines(&f->lines, "complete"), 0);
        assert_int_equal(count_names(f->dir, ".tmp-"), 0);
        expect_step(f, f->dir, 0, 3);
    }
}

/* The rename is done and the output folder cannot be synced: it may be lost, so the name is taken back. */
static void output_folder_cannot_be_synced(void **state)
{
    struct fixture *f = *state;
    struct snug_err err = {0};
    struct stat st;
    assert_int_equal(stat(f->dir, &st), 0);
    f->files.unsyncable = st.st_ino;
    assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "cannot fsync"));
    assert_int_equal(count_lines(&f->lines, "complete"), 0);
    assert_int_equal(count_names(f->dir, ".tmp-") + count_names(f->dir, ".bad-"), 0);
    assert_int_equal(count_names(f->dir, "step-00000004"), 0);
    expect_step(f, f->dir, 0, 3);
    f->files.unsyncable = 0;
    assert_int_equal(save_tiny(&f->files.io, f->dir, 4, notes_of(&f->lines), &err), 0);
    expect_step(f, f->dir, 0, 4);
}

/* ---- Saving beside training. */

static void training_goes_on(void **state)
{
    struct fixture *f = *state;
    struct ckpt_config config = {
        .io = &f->files.io, .output_dir = f->dir, .notes = notes_of(&f->lines), .patience_s = 0.15, .read_back = true};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, 4);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    f->files.lstat_ms = 30; /* the writer has not even looked at the copy when we change the original */
    f->files.fsync_ms = 60;
    double start = seconds();
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    json_object_clear(doc);
    tiny_step(&t);
    assert_true(ckpt_save_busy(saver));
    assert_int_equal(ckpt_saved_step(saver), -1);
    assert_true(seconds() - start < 0.2); /* five fsyncs take 0.3 s */
    json_decref(doc);
    doc = tiny_state(&t);
    assert_int_equal(ckpt_save_begin(saver, 5, -1, tensors, TINY_TENSORS, doc, &err), 0); /* waits for step 4 */
    assert_true(seconds() - start > 0.3);
    assert_int_equal(ckpt_saved_step(saver), 4);
    assert_int_equal(count_lines(&f->lines, "checkpoint of step 4 still writing after 0 s"), 1);
    f->files.lstat_ms = f->files.fsync_ms = 0;
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    assert_false(ckpt_save_busy(saver));
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
    json_decref(doc);
    expect_step(f, in(f->dir, "step-00000004"), 0, 4);
    expect_step(f, f->dir, 0, 5);
}

/* The error of a background save comes back once, at the next call, and then the next save works. */
static void errors_come_back(void **state)
{
    struct fixture *f = *state;
    struct ckpt_config config = {.io = &f->files.io, .output_dir = f->dir, .notes = notes_of(&f->lines)};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, 4);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    f->files.calls = 0;
    f->files.at = 1, f->files.for_ever = true, f->files.kind = FAULT_ERROR, f->files.errnum = ENOSPC;
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), SNUG_ERR_IO);
    assert_non_null(strstr(err.text, "No space left on device"));
    assert_int_equal(count_lines(&f->lines, "once more"), 1);
    assert_int_equal(count_lines(&f->lines, "complete"), 0);
    f->files.kind = FAULT_NONE;
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
    json_decref(doc);
    expect_step(f, f->dir, 0, 4);
}

struct later {
    struct stop_flag *flag;
    int ms;
};

static void *stop_later(void *arg)
{
    struct later *l = arg;
    usleep((useconds_t)l->ms * 1000);
    l->flag->signal = l->flag->again = SIGTERM;
    return NULL;
}

/* A second signal abandons the save: the temporary folder goes, older checkpoints stand. */
static void second_signal(void **state)
{
    struct fixture *f = *state;
    struct stop_flag flag = {0};
    struct ckpt_config config = {.io = &f->files.io, .output_dir = f->dir, .notes = notes_of(&f->lines), .stop = &flag};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    struct later later = {&flag, 150};
    pthread_t thread;
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    tiny_run_to(&t, 4);
    tiny_tensors(&t, tensors);
    json_t *doc = tiny_state(&t);
    f->files.fsync_ms = 200;
    assert_int_equal(pthread_create(&thread, NULL, stop_later, &later), 0);
    assert_int_equal(ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), 0);
    assert_int_equal(ckpt_save_wait(saver, &err), SNUG_STOPPED);
    assert_non_null(strstr(err.text, "abandoned"));
    pthread_join(thread, NULL);
    assert_int_equal(ckpt_save_in_place(saver, 4, -1, tensors, TINY_TENSORS, doc, &err), SNUG_STOPPED);
    ckpt_saver_free(saver);
    json_decref(doc);
    assert_int_equal(count_names(f->dir, ".tmp-"), 0);
    assert_int_equal(count_lines(&f->lines, "complete"), 0);
    expect_step(f, f->dir, 0, 3);
}

/* A disk that hangs: waiting ends two seconds after the second signal. In a process of its own, which leaves the
 * writer behind. */
static void second_signal_and_hung_disk(void **state)
{
    struct fixture *f = *state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        static struct stop_flag flag;
        flag.signal = flag.again = SIGTERM;
        static struct tiny t;
        struct ckpt_config config = {.io = &f->files.io, .output_dir = f->dir, .stop = &flag};
        struct ckpt_saver *saver;
        struct ckpt_tensor tensors[TINY_TENSORS];
        tiny_tensors(&t, tensors);
        json_t *doc = tiny_state(&t);
        f->files.lstat_ms = 60000;
        int code = ckpt_saver_new(&config, &saver, NULL);
        code |= ckpt_save_begin(saver, 4, -1, tensors, TINY_TENSORS, doc, NULL);
        code |= ckpt_save_wait(saver, NULL) != SNUG_STOPPED;
        ckpt_saver_free(saver);
        _exit(code ? 1 : 0);
    }
    double start = seconds();
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(seconds() - start < 6);
    expect_step(f, f->dir, 0, 3);
}

/* The same files as with a copy, from the caller's own memory, and afterwards a copy can be made again. */
static void saved_in_place(void **state)
{
    struct fixture *f = *state;
    char dir[64];
    struct ckpt_config config = {.io = &f->files.io, .output_dir = dir};
    struct ckpt_saver *saver;
    struct tiny t;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct snug_err err = {0};
    make_folder(dir);
    assert_int_equal(ckpt_saver_new(&config, &saver, &err), 0);
    for (int64_t step = 2; step <= 3; step++) {
        tiny_run_to(&t, step);
        tiny_tensors(&t, tensors);
        json_t *doc = tiny_state(&t);
        int (*save)(struct ckpt_saver *, int64_t, int64_t, const struct ckpt_tensor *, size_t, const json_t *,
                    struct snug_err *) = step == 2 ? ckpt_save_in_place : ckpt_save_begin;
        assert_int_equal(save(saver, step, -1, tensors, TINY_TENSORS, doc, &err), 0);
        assert_true(step == 3 || !ckpt_save_busy(saver));
        json_decref(doc);
    }
    assert_int_equal(ckpt_save_wait(saver, &err), 0);
    ckpt_saver_free(saver);
    expect_step(f, in(dir, "step-00000002"), 0, 2);
    expect_step(f, in(dir, "step-00000003"), 0, 3);
    static const char *const files[] = {"step-00000002/rank-0000.safetensors", "step-00000002/state.json",
                                        "step-00000002/MANIFEST.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t n, m;
        char *a = read_bytes(dir, files[i], &n), *b = read_bytes(f->dir, files[i], &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
    }
    remove_tree(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(round_trip),
        TEST(format_of_others),
        cmocka_unit_test(hash_covers_the_state),
        cmocka_unit_test(comparing),
        TEST(tensors_must_match),
        TEST(k1_nothing_there),
        TEST(k2_only_unfinished),
        TEST(k3_k4_damage),
        TEST(k5_all_bad),
        TEST(k6_newer_format),
        TEST(k11_odd_names),
        TEST(k14_hf_trainer),
        TEST(k17_hostile_manifests),
        TEST(retention),
        TEST(retention_leaves_the_rest),
        TEST(name_is_taken),
        TEST(rename_lies),
        TEST(close_fails),
        TEST(output_folder_cannot_be_synced),
        TEST(training_goes_on),
        TEST(errors_come_back),
        TEST(saved_in_place),
        TEST(second_signal),
        TEST(second_signal_and_hung_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
