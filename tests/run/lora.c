/* Adapters (LoRA) by the command: what peft computed (tests/golden/lora.py, lora_older.py), and runs that must agree. */
#include "adapters.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *rows;

static const struct {
    const char *adapter, *base;
} recorded[] = {
    {"bert_qv", "bert"},
    {"bert_all_linear", "bert"},
    {"bert_patterns", "bert"},
    {"bert_regex", "bert"},
    {"bert_tags_default", "bert_tags"},
    {"bert_dora", "bert"},
    {"roberta_default", "roberta"},
    {"distilbert_qv", "distilbert"},
    {"gpt2_conv1d", "gpt2"},
    {"gpt2_dora", "gpt2"},
    {"llama_all_linear", "llama"},
    {"llama_default", "llama"},
    {"llama_dora", "llama"},
    {"phi3_all_linear", "phi3"},
    {"qwen2_qv", "qwen2"},
    {"qwen3_default", "qwen3"},
    {"gemma2_blocks", "gemma2"},
    {"gemma3_pictures_text", "gemma3_pictures"},
    {"llama_classes_saved", "llama_classes"},
    {"qwen2_moe_all_linear", "qwen2_moe"},
    {"qwen2_moe_shared", "qwen2_moe"},
    {"qwen3_moe_router", "qwen3_moe"},
    {"mixtral_attention", "mixtral_balanced"},
    {"qwen3_moe_experts", "qwen3_moe"},
    {"mixtral_experts", "mixtral_balanced"},
    {"qwen3_moe_all_linear", "qwen3_moe"},
    {"mixtral_layers", "mixtral_balanced"},
    {"mixtral_each_layer", "mixtral_balanced"}, /* of transformers 4 (lora_older.py), as the next two are */
    {"qwen3_moe_each_layer", "qwen3_moe"},
    {"mixtral_expression", "mixtral_balanced"},
    {"m2m_100_qv", "m2m_100"},
    {"gpt_neox_default", "gpt_neox"},
    {"gpt_neox_all_linear", "gpt_neox_classes"},
    {"gpt_oss_all_linear", "gpt_oss"},
    {"gpt_oss_experts", "gpt_oss"},
    {"gpt_oss_layer", "gpt_oss"},
    {"gpt_oss_router", "gpt_oss"},
    {"gpt_oss_down", "gpt_oss"},
    {"gpt_oss_classes_experts", "gpt_oss_classes"},
    {"arcee_all_linear", "arcee"},
    {"nemotron_biases_dora", "nemotron_biases"},
    {"deberta_1_default", "deberta_1"},
    {"deberta_1_all_linear", "deberta_1"},
    {"granitemoe_all_linear", "granitemoe"},
    {"granitemoe_experts", "granitemoe"},
    {"granitemoeshared_all_linear", "granitemoeshared"},
    {"lfm2_all_linear", "lfm2_biases"},
};
enum { N_RECORDED = sizeof recorded / sizeof *recorded };

static void gradients_are_those_of_peft(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_RECORDED; m++)
        for (int d = 0; d < n_devices(); d++) {
            const struct device *on = device(d);
            const char *base = golden(recorded[m].base), *inputs = join(base, "inputs.safetensors");
            const char *adapter = golden_adapter(recorded[m].adapter);
            if (!strcmp(recorded[m].adapter, "llama_all_linear") && !is_fp32(on))
                continue; /* B is ten times W there: in 16 bits little but rounding is left of the smallest gradients */
            const char *got = join(folder, "gradients"), *again = join(folder, "recomputed");
            const char *const *where =
                ARGS("--device", on->name, "--dtype", on->dtype, "--threads", "1", "--adapter", adapter);
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, got), where);
            compare_adapter_gradients(got, join(adapter, "expected.safetensors"),
                                      gradient_bound(recorded[m].adapter, on));
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, again, "--gradient-checkpointing"), where);
            assert_true(same_bytes(got, again));
            assert_int_equal(unlink(got), 0);
            assert_int_equal(unlink(again), 0);
        }
}

/* ---- Runs that must agree. */

static void runs_have_the_same_bits(void **state)
{
    (void)state;
    const char *const kinds[][2] = {{"query,value", "false"}, {"all-linear", "false"}, {"all-linear", "true"}};
    const char *const dtypes[] = {"fp32", "bf16"};
    for (size_t t = 0; t < 6; t++) {
        const char *dtype = dtypes[t / 3], *target = kinds[t % 3][0], *dora = kinds[t % 3][1];
#define THIS "--target-modules", target, "--use-dora", dora, "--dtype", dtype, "--batch-size", "8"
        const char *one = train_adapter(rows, "one", ARGS(THIS, "--threads", "1"));
        assert_true(same_adapter(one, train_adapter(rows, "three", ARGS(THIS, "--threads", "3"))));
        assert_true(
            same_adapter(one, train_adapter(rows, "again", ARGS(THIS, "--threads", "1", "--gradient-checkpointing"))));
        assert_true(same_adapter(one, train_adapter(rows, "resumed",
                                                    ARGS(THIS, "--threads", "1", "--resume-from-checkpoint",
                                                         join(one, "step-00000002"), "--require-bitexact"))));
    }
}

/* A new adapter with DoRA begins with the lengths that the weights' rows have, or their columns where these are the outputs. */
static void lengths_begin_as_those_of_the_base(void **state)
{
    (void)state;
    const char *base = golden("gpt2"), *out = join(folder, "lengths"), *data = join(base, "inputs.safetensors");
    expect_snug(0, said(),
                ARGS("train", "--model", base, "--train-data", data, "--output-dir", out, "--device", "cpu",
                     "--max-steps", "1", "--learning-rate", "0", "--use-peft", "--use-dora", "--save-strategy", "no"),
                NULL);
    struct st_file weights, adapter;
    size_t found = 0;
    open_tensors(join(base, "model.safetensors"), &weights);
    open_tensors(join(out, "adapter_model.safetensors"), &adapter);
    for (size_t i = 0; i < adapter.n_tensors; i++) {
        const char *name = adapter.tensors[i].name, *end = strstr(name, ".lora_magnitude_vector");
        char key[256];
        int64_t n, all;
        if (!end)
            continue;
        snprintf(key, sizeof key, "%.*s.weight", (int)(end - name) - 17, name + 17); /* behind base_model.model. */
        double *lengths = read_tensor(&adapter, name, &n), *w = read_tensor(&weights, key, &all);
        for (int64_t o = 0; o < n; o++) {
            double squares = 0;
            for (int64_t k = o; k < all; k += n) /* (I,O) */
                squares += w[k] * w[k];
            assert_true(fabs(lengths[o] - sqrt(squares)) <= 1e-6 * lengths[o]);
        }
        free(lengths);
        free(w);
        found++;
    }
    st_close(&weights);
    st_close(&adapter);
    assert_int_equal(found, 2); /* c_attn of two layers */
}

/* What the weights of the base are for a checkpoint: another model's are refused. */
static void another_base_is_refused(void **state)
{
    (void)state;
    const char *one = train_adapter(rows, "one", ARGS("--threads", "1")), *other = join(folder, "other");
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", other,
                     "--device", "cpu", "--max-steps", "1", "--save-strategy", "no"),
                NULL);
    remove_tree(join(folder, "resumed"));
    expect_snug(SNUG_ERR_CHECKPOINT, said(),
                ARGS("train", "--model", other, "--train-data", rows, "--output-dir", join(folder, "resumed"),
                     "--device", "cpu", "--max-steps", "6", "--save-steps", "2", "--learning-rate", "1e-2"),
                ARGS("--logging-steps", "1", "--use-peft", "--lora-r", "3", "--lora-dropout", "0.2", "--threads", "1",
                     "--resume-from-checkpoint", join(one, "step-00000002")));
}

/* A run's result evaluates to what the run said of it, and training goes on from it: the first loss is that of the result. */
static void an_adapter_is_taken_up_again(void **state)
{
    (void)state;
    const char *one =
        train_adapter(rows, "one", ARGS("--threads", "1", "--eval-data", rows, "--eval-strategy", "epoch"));
    json_t *log = read_log(one);
    double want = -1;
    for (size_t i = 0; i < json_array_size(log); i++)
        if (json_object_get(json_array_get(log, i), "eval_loss"))
            want = json_number_value(json_object_get(json_array_get(log, i), "eval_loss"));
    json_decref(log);
    expect_snug(0, said(),
                ARGS("eval", "--model", fixture("golden/trainer/init"), "--adapter", one, "--data", rows, "--device",
                     "cpu", "--json"),
                NULL);
    json_t *o = said_object();
    assert_true(fabs(json_number_value(json_object_get(o, "loss")) - want) <= 1e-5 * want);
    json_decref(o);
    const char *further = join(folder, "further");
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--adapter", one, "--train-data", rows,
                     "--output-dir", further, "--device", "cpu", "--max-steps", "1", "--save-strategy", "no"),
                ARGS("--learning-rate", "0"));
    assert_true(same_adapter(one, further));
}

/* A checkpoint's adapter is the run's result. */
static void a_checkpoint_becomes_an_adapter(void **state)
{
    (void)state;
    const char *one = train_adapter(rows, "one", ARGS("--threads", "1", "--dtype", "bf16")),
               *out = join(folder, "exported");
    expect_snug(0, said(), ARGS("export", join(one, "step-00000006"), "--output-dir", out), NULL);
    assert_true(same_adapter(one, out));
    assert_true(same_bytes(join(one, "adapter_config.json"), join(out, "adapter_config.json")));
}

/* ---- Merging. */

/* W + scale B A as PEFT has it, what was trained in full, and everything else of the base. */
static void merged_weights_are_those_of_peft(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_RECORDED; m++) {
        const char *base = golden(recorded[m].base), *adapter = golden_adapter(recorded[m].adapter);
        const char *out = join(folder, recorded[m].adapter);
        expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", adapter, "--output-dir", out), NULL);
        struct st_file merged, begun, expected;
        size_t changed = 0, wanted = 0;
        open_tensors(join(out, "model.safetensors"), &merged);
        open_tensors(join(base, "model.safetensors"), &begun);
        open_tensors(join(adapter, "expected.safetensors"), &expected);
        assert_int_equal(merged.n_tensors, begun.n_tensors);
        for (size_t i = 0; i < expected.n_tensors; i++)
            wanted += !strncmp(expected.tensors[i].name, "merged.", 7);
        for (size_t i = 0; i < merged.n_tensors; i++) {
            const char *name = merged.tensors[i].name;
            char key[256];
            snprintf(key, sizeof key, "merged.%s", name);
            int64_t n, k;
            bool is_changed = st_find(&expected, key);
            double *have = read_tensor(&merged, name, &n);
            double *want = is_changed ? read_tensor(&expected, key, &k) : read_tensor(&begun, name, &k);
            assert_int_equal(n, k);
            if (!(distance(have, want, n) <= (is_changed ? 1e-7 : 0) * norm(want, n)))
                fail_msg("%s: %s is off by %.3g", adapter, name, distance(have, want, n));
            changed += is_changed;
            free(have);
            free(want);
        }
        assert_int_equal(changed, wanted);
        st_close(&merged);
        st_close(&begun);
        st_close(&expected);
    }
}

/* One adapter, then another on what the first has made: W + what each adds, by peft's merged weights of both. */
static void adapters_are_merged_one_after_another(void **state)
{
    (void)state;
    const char *base = golden("bert"), *names[] = {"bert_qv", "bert_all_linear"};
    const char *one = join(folder, "one_merged"), *both = join(folder, "both_merged");
    expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", golden_adapter(names[0]), "--output-dir", one),
                NULL);
    expect_snug(0, said(), ARGS("merge", "--model", one, "--adapter", golden_adapter(names[1]), "--output-dir", both),
                NULL);
    struct st_file begun, got, expected[2];
    size_t twice = 0;
    open_tensors(join(base, "model.safetensors"), &begun);
    open_tensors(join(both, "model.safetensors"), &got);
    for (int k = 0; k < 2; k++)
        open_tensors(join(golden_adapter(names[k]), "expected.safetensors"), &expected[k]);
    for (size_t i = 0; i < got.n_tensors; i++) {
        const char *name = got.tensors[i].name;
        char key[256];
        int64_t n;
        snprintf(key, sizeof key, "merged.%s", name);
        if (!st_find(&expected[0], key) || !st_find(&expected[1], key) || !strncmp(name, "classifier", 10))
            continue; /* of a head that is saved in full the second is left */
        double *w = read_tensor(&begun, name, &n), *have = read_tensor(&got, name, &n);
        double size = norm(have, n);
        for (int k = 0; k < 2; k++) {
            double *merged = read_tensor(&expected[k], key, &n);
            for (int64_t j = 0; j < n; j++)
                have[j] -= merged[j];
            free(merged);
        }
        for (int64_t j = 0; j < n; j++)
            have[j] += w[j];
        assert_true(norm(have, n) <= 2e-7 * size);
        free(w);
        free(have);
        twice++;
    }
    assert_int_equal(twice, 4); /* query and value of two layers */
    st_close(&begun);
    st_close(&got);
    for (int k = 0; k < 2; k++)
        st_close(&expected[k]);
}

/* The two losses that `snug merge --data` has printed, and the largest rounding error. */
static void merged_losses(double loss[2], double *error)
{
    size_t n;
    char *text = read_text(said(), &n);
    const char *line = strstr(text, "loss     "), *rounding = strstr(text, "rounding error is ");
    assert_non_null(line);
    assert_non_null(rounding);
    assert_int_equal(sscanf(line, "loss %lf with the adapter, %lf merged", &loss[0], &loss[1]), 2);
    assert_int_equal(sscanf(rounding, "rounding error is %lf", error), 1);
    free(text);
}

/* With its adapter and merged, the model's loss is the one that peft computed in double. */
static void merged_losses_are_those_of_peft(void **state)
{
    (void)state;
    for (size_t m = 0; m < N_RECORDED; m++) {
        const char *base = golden(recorded[m].base), *adapter = golden_adapter(recorded[m].adapter);
        struct st_file expected;
        int64_t n;
        double loss[2], error;
        open_tensors(join(adapter, "expected.safetensors"), &expected);
        double *want = read_tensor(&expected, "loss", &n);
        st_close(&expected);
        expect_snug(0, said(),
                    ARGS("merge", "--model", base, "--adapter", adapter, "--output-dir", join(folder, "losses"),
                         "--overwrite-output-dir", "--data", join(base, "inputs.safetensors"), "--device", "cpu"),
                    NULL);
        merged_losses(loss, &error);
        for (int k = 0; k < 2; k++)
            if (!(fabs(loss[k] - *want) <= 2e-6 * *want))
                fail_msg("%s: loss %d is %.9g, peft's %.9g", adapter, k, loss[k], *want);
        free(want);
    }
}

/* A base in bf16 stays in bf16: each merged weight is off by half a unit in its last place at most, 2^-8 of it, and the loss by
 * about as much. */
static void merging_rounds_to_the_type_of_the_base(void **state)
{
    (void)state;
    const char *begun = join(folder, "begun"), *base = join(folder, "narrow"), *out = join(folder, "merged_narrow");
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", begun,
                     "--device", "cpu", "--max-steps", "20", "--learning-rate", "1e-2"),
                NULL);
    expect_snug(0, said(), ARGS("export", begun, "--output-dir", base, "--bf16"), NULL);
    const char *adapter = join(folder, "of_narrow");
    expect_snug(0, said(),
                ARGS("train", "--model", base, "--train-data", rows, "--output-dir", adapter, "--device", "cpu",
                     "--max-steps", "10", "--learning-rate", "1e-2", "--save-strategy", "no", "--use-peft"),
                NULL);
    expect_snug(
        0, said(),
        ARGS("merge", "--model", base, "--adapter", adapter, "--output-dir", out, "--data", rows, "--device", "cpu"),
        NULL);
    double loss[2], error, largest = 0;
    merged_losses(loss, &error);
    struct st_file merged;
    open_tensors(join(out, "model.safetensors"), &merged);
    for (size_t i = 0; i < merged.n_tensors; i++) {
        int64_t n;
        double *x = read_tensor(&merged, merged.tensors[i].name, &n);
        assert_int_equal(merged.tensors[i].dtype, DT_BF16);
        for (int64_t k = 0; k < n && strstr(merged.tensors[i].name, "attention.self"); k++)
            largest = fabs(x[k]) > largest ? fabs(x[k]) : largest;
        free(x);
    }
    st_close(&merged);
    assert_true(error > 0 && error <= 1.05 * largest * 0x1p-8);
    assert_true(loss[0] != loss[1]);
    assert_true(fabs(loss[0] - loss[1]) <= 0x1p-8 * loss[0]);
}

/* A copy of GPT-2 with the mask of attention that older files of it have, the first of its tensors by name. */
static const char *make_masked(const char *mask)
{
    const char *masked = make_deeper(folder, "golden/gpt2", 2); /* as deep as it is */
    struct st_file f;
    struct st_tensor t[64];
    struct st_writer w;
    struct snug_err err;
    open_tensors(join(golden("gpt2"), "model.safetensors"), &f);
    assert_true(f.n_tensors < sizeof t / sizeof *t);
    memcpy(t, f.tensors, f.n_tensors * sizeof *t);
    t[f.n_tensors] = (struct st_tensor){.name = mask, .dtype = DT_U8, .ndim = 1, .shape = {4}};
    assert_int_equal(
        st_create(&io_posix, join(masked, "model.safetensors"), t, f.n_tensors + 1, NULL, 0, false, &w, &err), 0);
    for (size_t i = 0; i <= f.n_tensors; i++) {
        void *data = calloc(1, (size_t)t[i].bytes);
        if (strcmp(t[i].name, mask) != 0)
            assert_int_equal(st_read(&f, st_find(&f, t[i].name), data, &err), 0);
        assert_int_equal(st_write(&w, &t[i], 0, data, (size_t)t[i].bytes, &err), 0);
        free(data);
    }
    assert_int_equal(st_finish(&w, NULL, &err), 0);
    st_close(&f);
    return masked;
}

/* Such a mask is carried over, and the result's type is that of the weights behind it. */
static void a_mask_is_no_weight(void **state)
{
    (void)state;
    const char *mask = "transformer.h.0.attn.bias", *base = make_masked(mask), *out = join(folder, "merged_masked");
    struct st_file merged;
    expect_snug(0, said(),
                ARGS("merge", "--model", base, "--adapter", golden_adapter("gpt2_conv1d"), "--output-dir", out), NULL);
    open_tensors(join(out, "model.safetensors"), &merged);
    assert_true(file_has(join(out, "config.json"), "\"float32\"") && st_find(&merged, mask)->dtype == DT_U8);
    st_close(&merged);
}

/* The objects that `snug generate --json` wrote, behind its notes; the caller's to free. */
static char *written(const char *model, const char *adapter)
{
    size_t n;
    const char *prompts = join(folder, "prompts.jsonl");
    FILE *f = fopen(prompts, "w");
    fputs("{\"input_ids\": [3, 14, 15]}\n{\"input_ids\": [9, 26, 5, 35]}\n", f);
    fclose(f);
    expect_snug(0, said(), ARGS("generate", "--model", model, "--data", prompts, "--json", "--device", "cpu"),
                adapter ? ARGS("--adapter", adapter) : NULL);
    char *all = read_text(said(), &n), *objects = strdup(strchr(all, '{'));
    free(all);
    return objects;
}

static void writes_as_merged(const char *base, const char *adapter)
{
    const char *merged = join(folder, "merged");
    remove_tree(merged);
    expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", adapter, "--output-dir", merged), NULL);
    char *with_adapter = written(base, adapter), *of_merged = written(merged, NULL);
    assert_string_equal(with_adapter, of_merged);
    free(with_adapter);
    free(of_merged);
}

/* What the adapter drops in training is not dropped where it writes: the merged model writes the same. Of experts, too. */
static void a_merged_model_writes_the_same(void **state)
{
    (void)state;
    writes_as_merged(golden("gpt2"), changed("gpt2_conv1d", "lora_dropout", json_real(0.5)));
    writes_as_merged(golden("gpt_oss"), golden_adapter("gpt_oss_experts"));
}

static int make_data(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 32, 12, 3, true);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_peft),
        cmocka_unit_test(runs_have_the_same_bits),
        cmocka_unit_test(lengths_begin_as_those_of_the_base),
        cmocka_unit_test(another_base_is_refused),
        cmocka_unit_test(an_adapter_is_taken_up_again),
        cmocka_unit_test(a_checkpoint_becomes_an_adapter),
        cmocka_unit_test(merged_weights_are_those_of_peft),
        cmocka_unit_test(adapters_are_merged_one_after_another),
        cmocka_unit_test(merged_losses_are_those_of_peft),
        cmocka_unit_test(merging_rounds_to_the_type_of_the_base),
        cmocka_unit_test(a_mask_is_no_weight),
        cmocka_unit_test(a_merged_model_writes_the_same),
    };
    return cmocka_run_group_tests_name("lora", tests, make_data, close_folder);
}
