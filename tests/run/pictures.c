/* The text model of one that reads pictures, too: its folder keeps the other parts, whatever is made of it. */
#include "command.h"

#include <sys/stat.h>
#include <unistd.h>

#define BASE fixture("golden/gemma3_pictures")
#define RUN(out)                                                                                                       \
    ARGS("train", "--model", BASE, "--train-data", tokens, "--learning-rate", "1e-2", "--max-steps", "2",              \
         "--save-steps", "1", "--device", "cpu", "--threads", "1", "--output-dir", out)

static const char *tokens; /* rows without labels */

static int open_tokens(void **state)
{
    int code = open_folder(state);
    tokens = make_rows(folder, 12, 10, 1, false);
    return code;
}

static bool is_beside(const char *name)
{
    return !strncmp(name, "vision_tower.", 13) || !strncmp(name, "multi_modal_projector.", 22);
}

/* Each tensor of the base is there, with the same name and shape; those beside the text model have the same numbers, rounded to `dtype`.
 * Returns how many others have other numbers. */
static size_t compare_with_base(const char *result, enum dtype dtype)
{
    struct st_file base, f;
    size_t beside = 0, changed = 0;
    open_tensors(join(BASE, "model.safetensors"), &base);
    open_tensors(join(result, "model.safetensors"), &f);
    assert_int_equal(base.n_tensors, f.n_tensors);
    for (size_t i = 0; i < base.n_tensors; i++) {
        const struct st_tensor *b = &base.tensors[i], *t = st_find(&f, b->name);
        assert_non_null(t);
        assert_int_equal(t->dtype, dtype);
        assert_true(t->ndim == b->ndim && !memcmp(t->shape, b->shape, sizeof t->shape));
        int64_t n, m, same = 0;
        double *was = read_tensor(&base, b->name, &n), *is = read_tensor(&f, b->name, &m);
        for (int64_t k = 0; k < n; k++)
            same += is[k] == (dtype == DT_BF16 ? (double)bf16_to_float(bf16_from_float((float)was[k])) : was[k]);
        if (is_beside(b->name))
            assert_int_equal(same, n);
        beside += is_beside(b->name);
        changed += same < n;
        free(was);
        free(is);
    }
    assert_true(beside > 20);
    st_close(&base);
    st_close(&f);
    return changed;
}

static void results_keep_the_other_parts(void **state)
{
    (void)state;
    const char *out = join(folder, "out"), *to = join(folder, "exported");
    expect_snug(0, said(), RUN(out), NULL);
    assert_false(file_has(said(), "left out"));
    assert_true(compare_with_base(out, DT_F32) > 30);
    assert_true(file_has(join(out, "config.json"), "Gemma3ForConditionalGeneration"));
    assert_true(file_has(join(out, "config.json"), "vision_config"));
    expect_snug(0, said(), ARGS("export", out, "--output-dir", to), NULL);
    assert_true(same_bytes(join(out, "model.safetensors"), join(to, "model.safetensors")));
    assert_true(same_bytes(join(out, "config.json"), join(to, "config.json")));
    remove_tree(to);
    expect_snug(0, said(), ARGS("export", join(out, "step-00000001"), "--output-dir", to, "--dtype", "bf16"), NULL);
    assert_true(compare_with_base(to, DT_BF16) > 30);
    /* and what is made of a result is read as its base was */
    expect_snug(0, said(), ARGS("eval", "--model", out, "--data", tokens, "--device", "cpu"), NULL);
    remove_tree(to);
    remove_tree(out);
}

/* An adapter leaves the other parts alone, and PEFT, which would find modules of its names there, too. */
static void adapters_are_of_the_text_model(void **state)
{
    (void)state;
    const char *out = join(folder, "adapter"), *to = join(folder, "merged");
    expect_snug(0, said(), RUN(out), ARGS("--use-peft", "--lora-target-modules", "all-linear"));
    assert_true(file_has(join(out, "adapter_config.json"), "vision_tower"));
    expect_snug(0, said(), ARGS("merge", "--model", BASE, "--adapter", out, "--output-dir", to), NULL);
    assert_int_equal(compare_with_base(to, DT_F32), 3 * 7); /* of three layers, which have seven products each */
    remove_tree(to);
    remove_tree(out);
}

/* Saves the adapter of the fixture with one tensor more, of the picture's part, which PEFT makes where nothing is excluded. */
static const char *with_other(const char *name, float number)
{
    const char *dir = join(folder, name), *from = fixture("golden/lora/gemma3_pictures_text");
    struct st_file f;
    struct st_tensor tensors[64];
    float other[8] = {number};
    static const char *const metadata[] = {"format", "pt"};
    struct st_writer w;
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(symlink(join(from, "adapter_config.json"), join(dir, "adapter_config.json")), 0);
    open_tensors(join(from, "adapter_model.safetensors"), &f);
    assert_true(f.n_tensors < 64);
    memcpy(tensors, f.tensors, f.n_tensors * sizeof *tensors);
    tensors[f.n_tensors] = (struct st_tensor){
        .name = "base_model.model.model.vision_tower.encoder.layers.0.self_attn.q_proj.lora_B.weight",
        .dtype = DT_F32,
        .ndim = 2,
        .shape = {8, 1}};
    assert_int_equal(st_create(&io_posix, join(dir, "adapter_model.safetensors"), tensors, f.n_tensors + 1, metadata, 1,
                               false, &w, NULL),
                     SNUG_OK);
    for (size_t i = 0; i < f.n_tensors + 1; i++) {
        const struct st_tensor *old = st_find(&f, tensors[i].name);
        void *x = old ? malloc((size_t)old->bytes) : other;
        if (old)
            assert_int_equal(st_read(&f, old, x, NULL), SNUG_OK);
        assert_int_equal(st_write(&w, &tensors[i], 0, x, (size_t)tensors[i].bytes, NULL), SNUG_OK);
        if (old)
            free(x);
    }
    assert_int_equal(st_finish(&w, NULL, NULL), SNUG_OK);
    st_close(&f);
    return dir;
}

static void other_parts_adapters_are_not_lost(void **state)
{
    (void)state;
    const char *const *merge = ARGS("merge", "--model", BASE, "--output-dir", join(folder, "to"));
    expect_snug(0, said(), merge, ARGS("--adapter", with_other("idle", 0)));
    assert_true(file_has(said(), "1 tensor is for a part beside the text model, and left out"));
    expect_snug(3, said(), merge, ARGS("--overwrite-output-dir", "--adapter", with_other("at_work", 1e-3F)));
    assert_true(file_has(said(), "is not 0, and would change a part beside the text model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_keep_the_other_parts),
                                       cmocka_unit_test(adapters_are_of_the_text_model),
                                       cmocka_unit_test(other_parts_adapters_are_not_lost)};
    return cmocka_run_group_tests(tests, open_tokens, close_folder);
}
