/* snug export: a checkpoint's model folder is the one that training ends with, or would have. */
#include "few_rows.h"
#include "forge.h"
#include "here.h"

#include <math.h>
#include <unistd.h>

#define RUN                                                                                                            \
    "--model", fixture("golden/trainer/init"), "--train-data", rows, "--learning-rate", "1e-3", "--save-steps", "4",   \
        "--threads", "1", "--device", "cpu"

static void export(const char *from, const char *to, const char *const *more)
{
    expect_snug(0, said(), ARGS("export", from, "--output-dir", to), more);
}

static void assert_same_folder(const char *x, const char *y)
{
    assert_true(same_bytes(join(x, "model.safetensors"), join(y, "model.safetensors")));
    assert_true(same_bytes(join(x, "config.json"), join(y, "config.json")));
}

/* With the states of every optimizer beside the weights. The second step's model is what docs/checkpoints.md says: what a
 * run from there to that very step ends with. */
static void what_training_ends_with(void **state)
{
    (void)state;
    static const char *const optimizers[][4] = {{"--optim", "adamw_torch"},
                                                {"--optim", "sgd", "--optim-args", "momentum=0.9"},
                                                {"--optim", "adafactor", "--optim-args", "beta1=0.9"},
                                                {"--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=100"}};
    const char *out = join(folder, "out"), *to = join(folder, "model"), *four = join(folder, "four");
    for (int i = 0; i < 4; i++) {
        const char *const *o = optimizers[i], *const *run = ARGS(RUN, o[0], o[1], o[2], o[3]);
        train_to_the_end(LISTS(run, ARGS("--max-steps", "8", "--output-dir", out)));
        export(out, to, NULL);
        assert_same_folder(out, to);
        remove_tree(to);
        export(join(out, "step-00000004"), to, NULL);
        train_to_the_end(LISTS(run, ARGS("--max-steps", "4", "--output-dir", four, "--resume-from-checkpoint",
                                         join(out, "step-00000004"))));
        assert_same_folder(four, to);
        assert_false(same_bytes(join(out, "model.safetensors"), join(to, "model.safetensors")));
        remove_tree(to);
        remove_tree(four);
        remove_tree(out);
    }
}

/* Round to nearest, ties to even, on the bits. */
static float to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    u = (u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000;
    memcpy(&x, &u, 4);
    return x;
}

static void stored_in_16_bits(void **state)
{
    (void)state;
    const char *out = join(folder, "out"), *bf16 = join(folder, "bf16"), *fp16 = join(folder, "fp16");
    train_to_the_end(LISTS(ARGS(RUN, "--max-steps", "4", "--output-dir", out)));
    export(out, bf16, ARGS("--dtype", "bf16"));
    export(out, fp16, ARGS("--fp16"));
    struct st_file wide, b, h;
    assert_int_equal(st_open(&io_posix, join(out, "model.safetensors"), &wide, NULL), SNUG_OK);
    assert_int_equal(st_open(&io_posix, join(bf16, "model.safetensors"), &b, NULL), SNUG_OK);
    assert_int_equal(st_open(&io_posix, join(fp16, "model.safetensors"), &h, NULL), SNUG_OK);
    assert_int_equal(wide.n_tensors, b.n_tensors);
    assert_int_equal(wide.n_tensors, h.n_tensors);
    for (size_t i = 0; i < wide.n_tensors; i++) {
        int64_t n = st_elements(&wide.tensors[i]), left = n;
        const struct st_tensor *t = &wide.tensors[i], *tb = st_find(&b, t->name), *th = st_find(&h, t->name);
        float *x = malloc((size_t)n * 4);
        uint16_t *y = malloc((size_t)n * 2), *z = malloc((size_t)n * 2);
        assert_true(x && y && z && tb->dtype == DT_BF16 && th->dtype == DT_F16);
        assert_int_equal(st_read(&wide, t, x, NULL) | st_read(&b, tb, y, NULL) | st_read(&h, th, z, NULL), SNUG_OK);
        for (int64_t k = 0; k < n; k++) {
            uint32_t bits = (uint32_t)y[k] << 16;
            float narrow;
            memcpy(&narrow, &bits, 4);
            assert_true(narrow == to_bf16(x[k]));
            int e =
                z[k] >> 10 & 31; /* 1.m * 2^(e-15), or 0.m * 2^-14; the nearest is half of the last bit away at most */
            double half = ldexp((e ? 1024 : 0) + (z[k] & 1023), (e ? e : 1) - 25) * (z[k] >> 15 ? -1 : 1);
            left -= fabs(half - (double)x[k]) <= ldexp(1, (e ? e : 1) - 26);
        }
        assert_int_equal(left, 0);
        free(x);
        free(y);
        free(z);
    }
    st_close(&wide);
    st_close(&b);
    st_close(&h);
    json_t *config = json_load_file(join(bf16, "config.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(config, "dtype")), "bfloat16");
    json_decref(config);
    /* and snug reads them */
    expect_snug(0, said(), ARGS("eval", "--model", bf16, "--data", rows), NULL);
    expect_snug(0, said(), ARGS("eval", "--model", fp16, "--data", rows), NULL);
    remove_tree(bf16);
    remove_tree(fp16);
    remove_tree(out);
}

/* The names of the labels are in the data, not in the model folder that the run started from. */
static void check_labels_and_tokenizer(const char *base)
{
    const char *model = make_deeper(folder, base, 1), *data = join(folder, "named.csv");
    const char *out = join(folder, "out"), *to = join(folder, "model"), *moved = join(folder, "moved");
    write_text(model, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    write_text(folder, "named.csv", "text,label\na b,yes\nb a,no\na,perhaps\nb,yes\na a,no\n");
    train_to_the_end(LISTS(ARGS("--model", model, "--init-from-config", "true", "--train-data", data, "--batch-size",
                                "2", "--max-steps", "2", "--output-dir", out, "--cache-dir", join(folder, "cache"))));
    assert_int_equal(rename(join(out, "step-00000002"), moved), 0);
    export(moved, to, NULL);
    assert_same_folder(out, to);
    assert_true(file_has(join(to, "config.json"), "\"perhaps\""));
    assert_true(same_bytes(join(model, "vocab.txt"), join(to, "vocab.txt")));
    remove_tree(to);
    remove_tree(out);
    remove_tree(model);
    remove_tree(moved);
}

/* Of ESM a result takes parts from its base, where that has weights. */
static void with_labels_and_tokenizer(void **state)
{
    (void)state;
    check_labels_and_tokenizer("golden/bert");
    check_labels_and_tokenizer("golden/esm");
}

static void assert_same_tensor(const char *x, const char *y, const char *name)
{
    struct st_file a, b;
    int64_t n, m;
    open_tensors(join(x, "model.safetensors"), &a);
    open_tensors(join(y, "model.safetensors"), &b);
    double *in_x = read_tensor(&a, name, &n), *in_y = read_tensor(&b, name, &m);
    assert_int_equal(n, m);
    assert_memory_equal(in_x, in_y, (size_t)n * sizeof *in_x);
    free(in_x);
    free(in_y);
    st_close(&a);
    st_close(&b);
}

/* ESM's frequencies and its head for contacts, under the names of the base. */
static void with_what_is_beside_weights(void **state)
{
    (void)state;
    const char *base = fixture("golden/esm"), *out = join(folder, "out"), *to = join(folder, "model");
    train_to_the_end(LISTS(ARGS("--model", base, "--train-data", rows, "--threads", "1", "--device", "cpu",
                                "--max-steps", "2", "--output-dir", out)));
    assert_same_tensor(base, out, "esm.contact_head.regression.weight");
    assert_same_tensor(base, out, "esm.rotary_embeddings.inv_freq");
    export(join(out, "step-00000002"), to, NULL);
    assert_same_folder(out, to);
    remove_tree(to);
    remove_tree(out);
}

/* As an earlier version wrote it. */
static void forget_result(const char *step)
{
    json_t *doc = json_load_file(join(step, "state.json"), 0, NULL);
    assert_int_equal(json_object_del(json_object_get(doc, "about"), "result"), 0);
    forge_state(step, doc);
    json_decref(doc);
}

static void of_an_earlier_version(void **state)
{
    (void)state;
    const char *out = join(folder, "out"), *to = join(folder, "model");
    train_to_the_end(LISTS(ARGS(RUN, "--max-steps", "4", "--output-dir", out)));
    forget_result(join(out, "step-00000004"));
    export(out, to, NULL);
    assert_same_folder(out, to);
    remove_tree(to);
    assert_int_equal(unlink(join(out, "config.json")), 0);
    expect_snug(SNUG_ERR_CHECKPOINT, said(), ARGS("export", out, "--output-dir", to), NULL);
    assert_true(
        file_has(said(), "did not record the result's config.json; end a run there: resume it with --max-steps 4"));
    assert_int_equal(access(to, F_OK), -1);
    train_to_the_end(LISTS(ARGS(RUN, "--max-steps", "5", "--output-dir", out, "--resume-from-checkpoint", "true")));
    remove_tree(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_training_ends_with),   cmocka_unit_test(stored_in_16_bits),
        cmocka_unit_test(with_labels_and_tokenizer), cmocka_unit_test(with_what_is_beside_weights),
        cmocka_unit_test(of_an_earlier_version),
    };
    return cmocka_run_group_tests_name("export_checkpoint", tests, open_few_rows, close_folder);
}
