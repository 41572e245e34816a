/* checkpoint: what is saved is what is loaded; the files of a format that others read and write; the hash of a
 * state, and the first difference of two. */
#include "fixture.h"

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
    snprintf(fixture, sizeof fixture, "%s/tests/checkpoint/v1", source ? source : ".");
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
        char *ours = read_text(in(in(dir, "step-00000007"), names[i]), &ours_n);
        char *theirs = read_text(in(in(fixture, "step-00000007"), names[i]), &theirs_n);
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
    assert_int_equal(ckpt_compare("D", old, new, NULL, keys, 3, &err), 0); /* "x" was not asked for */
    json_object_set_new(new, "seed", json_integer(2));
    assert_int_equal(ckpt_compare("D", old, new, NULL, keys, 3, &err), SNUG_ERR_CHECKPOINT);
    assert_ptr_equal(strstr(err.text, "D: seed: 1 -> 2; "), err.text);
    json_array_set_new(json_object_get(json_object_get(new, "config"), "layers"), 1, json_integer(3));
    assert_int_equal(ckpt_compare("D", old, new, NULL, keys, 3, &err), SNUG_ERR_CHECKPOINT);
    assert_ptr_equal(strstr(err.text, "D: config.layers[1]: 2 -> 3; "), err.text);
    json_array_append_new(json_object_get(json_object_get(new, "config"), "layers"), json_integer(4));
    json_array_set_new(json_object_get(json_object_get(new, "config"), "layers"), 1, json_integer(2));
    ckpt_compare("D", old, new, NULL, keys, 3, &err);
    assert_ptr_equal(strstr(err.text, "D: config.layers[2]: absent -> 4; "), err.text);
    json_array_remove(json_object_get(json_object_get(new, "config"), "layers"), 2);
    json_object_del(json_object_get(new, "config"), "hidden_size");
    ckpt_compare("D", old, new, NULL, keys, 3, &err);
    assert_ptr_equal(strstr(err.text, "D: config.hidden_size: 768 -> absent; "), err.text);
    json_object_set_new(json_object_get(new, "config"), "hidden_size", json_integer(768));
    json_object_set_new(json_object_get(new, "config"), "extra", json_true());
    ckpt_compare("D", old, new, NULL, keys, 3, &err);
    assert_ptr_equal(strstr(err.text, "D: config.extra: absent -> true; "), err.text);
    json_decref(old);
    json_decref(new);
    old = json_pack("{s:{s:f,s:{s:f}}}", "options", "learning_rate", 0.5, "optim_args", "adam_beta", 0.25);
    new = json_pack("{s:{s:f,s:{s:f}}}", "options", "learning_rate", 0.5, "optim_args", "adam_beta", 0.125);
    const char *options[] = {"options"};
    ckpt_compare("D", old, new, "give --another", options, 1, &err);
    assert_ptr_equal(strstr(err.text, "D: --optim-args adam_beta: 0.25 -> 0.125; "), err.text);
    assert_non_null(strstr(err.text, ", give --another, or start anew"));
    json_object_set_new(json_object_get(new, "options"), "learning_rate", json_real(0.75));
    ckpt_compare("D", old, new, NULL, options, 1, &err);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(round_trip),
        TEST(format_of_others),
        cmocka_unit_test(hash_covers_the_state),
        cmocka_unit_test(comparing),
        TEST(tensors_must_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
