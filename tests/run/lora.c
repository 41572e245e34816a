/* Adapters (LoRA) by the command: what peft computed (tests/golden/lora.py, lora_older.py), and runs that must agree. */
#include "adapters.h"
#include "op/quantize.h"

#include <fcntl.h>
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

/* Where roundings alone take gradients further from those in double. */
static const struct {
    const char *adapter, *type;
    double bound;
} rounded[] = {
    {"qwen3_moe_all_linear", "tf32", 2 * 6.6e-3}, /* twice as far as PEFT's own are (tests/golden/lora_rounding.py) */
    {"gemma3_pictures_text", "bf16", 2 * 0.078},  /* norms behind blocks: twice PEFT's own with autocast */
    {"gemma3_pictures_text", "tf32", 2 * 1.3e-2}, /* likewise PEFT's own */
    {"gemma3_pictures_text", "fp16", 2 * 1.3e-2}, /* as many bits */
    {"qwen3_moe_each_layer", "fp16", 6e-3},       /* 5.46e-3 with sums of products in double (tests/cuda/emulator) */
};

static double bound_of(const char *adapter, const struct device *on)
{
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        if (!strcmp(rounded[i].adapter, adapter) && !strcmp(rounded[i].type, on->dtype))
            return rounded[i].bound;
    /* an adapter's two small matrices are rounded once more each, on the way there and back */
    return strcmp(on->dtype, "bf16") ? on->gradient_error : 2 * on->gradient_error;
}

/* The loss and every gradient, norm-wise relative; no others are there. */
static void compare_gradients(const char *got, const char *expected, double bound)
{
    struct st_file a, b;
    size_t trained[2] = {0};
    open_tensors(got, &a);
    open_tensors(expected, &b);
    for (size_t i = 0; i < b.n_tensors; i++) {
        const char *name = b.tensors[i].name;
        if (!strcmp(name, "logits") || !strncmp(name, "merged.", 7) || !strncmp(name, "adapter.", 8))
            continue;
        int64_t n, m;
        double *want = read_tensor(&b, name, &n), *have = read_tensor(&a, name, &m);
        assert_int_equal(n, m);
        if (!(distance(have, want, n) <= bound * norm(want, n)))
            fail_msg("%s: %s is off by %.3g of %.3g", expected, name, distance(have, want, n), norm(want, n));
        trained[0] += !strncmp(name, "grad.", 5);
        free(want);
        free(have);
    }
    for (size_t i = 0; i < a.n_tensors; i++)
        trained[1] += !strncmp(a.tensors[i].name, "grad.", 5) && !strstr(a.tensors[i].name, "self.query_key_value");
    assert_int_equal(trained[0], trained[1]);
    st_close(&a);
    st_close(&b);
}

/* With the base's weights in 4 bits, as bitsandbytes has them. */
#define NF4 ARGS("--load-in-4bit")
#define NESTED_NF4 ARGS("--load-in-4bit", "--use-bnb-nested-quant")
#define FP4 ARGS("--load-in-4bit", "--bnb-4bit-quant-type", "fp4")
#define E4M3 ARGS("--load-in-8bit")
static const struct {
    const char *adapter, *base;
    const char *const *how;
} quantized[] = {
    {"llama_nf4", "llama", NF4},
    {"llama_nested", "llama", NESTED_NF4},
    {"phi3_fp4", "phi3", FP4},
    {"roberta_nf4", "roberta", NF4},
    {"llama_nested_dora", "llama", NESTED_NF4},
    {"llama_e4m3", "llama", E4M3},
    {"gpt2_e4m3", "gpt2", E4M3},
    {"gpt_oss_nf4", "gpt_oss", NF4},
    {"lfm2_nested", "lfm2_biases", NESTED_NF4},
};

static void gradients_above_codes_are_those_of_peft(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof quantized / sizeof *quantized; m++)
        for (int d = 0; d < n_devices(); d++) {
            const struct device *on = device(d);
            const char *base = golden(quantized[m].base), *inputs = join(base, "inputs.safetensors");
            const char *adapter = golden_adapter(quantized[m].adapter);
            const char *got = join(folder, "gradients"), *again = join(folder, "recomputed");
            const char *const *how =
                and_more(ARGS("--device", on->name, "--dtype", on->dtype, "--threads", "1", "--adapter", adapter),
                         quantized[m].how);
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, got), how);
            compare_gradients(got, join(adapter, "expected.safetensors"), bound_of(quantized[m].adapter, on));
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, again, "--gradient-checkpointing"), how);
            assert_true(same_bytes(got, again));
        }
}

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
            compare_gradients(got, join(adapter, "expected.safetensors"), bound_of(recorded[m].adapter, on));
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, again, "--gradient-checkpointing"), where);
            assert_true(same_bytes(got, again));
            assert_int_equal(unlink(got), 0);
            assert_int_equal(unlink(again), 0);
        }
}

/* ---- Runs that must agree. */

static const char *train(const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", out,
                     "--device", "cpu", "--max-steps", "6", "--save-steps", "2", "--learning-rate", "1e-2",
                     "--logging-steps", "1", "--log-hash", "--use-peft", "--lora-r", "3", "--lora-dropout", "0.2"),
                more);
    return out;
}

static void runs_have_the_same_bits(void **state)
{
    (void)state;
    const char *const kinds[][2] = {{"query,value", "false"}, {"all-linear", "false"}, {"all-linear", "true"}};
    const char *const dtypes[] = {"fp32", "bf16"};
    for (size_t t = 0; t < 6; t++) {
        const char *dtype = dtypes[t / 3], *target = kinds[t % 3][0], *dora = kinds[t % 3][1];
#define THIS "--target-modules", target, "--use-dora", dora, "--dtype", dtype, "--batch-size", "8"
        const char *one = train("one", ARGS(THIS, "--threads", "1"));
        assert_true(same_adapter(one, train("three", ARGS(THIS, "--threads", "3"))));
        assert_true(same_adapter(one, train("again", ARGS(THIS, "--threads", "1", "--gradient-checkpointing"))));
        assert_true(same_adapter(one, train("resumed", ARGS(THIS, "--threads", "1", "--resume-from-checkpoint",
                                                            join(one, "step-00000002"), "--require-bitexact"))));
    }
}

static const struct {
    const char *dtype, *says;
    const char *const *how;
} above[] = {
    {"fp32", "4 bits for 12 tensors", NF4},
    {"bf16", "4 bits for 12 tensors", ARGS("--load-in-4bit", "--bnb-4bit-quant-type", "fp4", "--use-bnb-nested-quant")},
    {"fp32", "4 bits for 12 tensors", NESTED_NF4},
    {"fp32", "8 bits for 12 tensors", E4M3},
    {"bf16", "8 bits for 12 tensors", E4M3}};

static const char *train_above(const char *name, size_t k, const char *const *more)
{
    return train(
        name, and_more(and_more(ARGS("--target-modules", "all-linear", "--dtype", above[k].dtype, "--batch-size", "8"),
                                above[k].how),
                       more));
}

/* Likewise above weights in codes, each of which one rank has at stage 3. */
static void runs_above_codes_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof above / sizeof *above; k++) {
        const char *one = train_above("one", k, ARGS("--threads", "1")), *first = join(one, "step-00000002");
        assert_true(file_has(said(), above[k].says));
        assert_true(same_adapter(one, train_above("three", k, ARGS("--threads", "3"))));
        assert_true(same_adapter(one, train_above("again", k, ARGS("--threads", "1", "--gradient-checkpointing"))));
        assert_true(same_adapter(
            one, train_above("resumed", k,
                             ARGS("--threads", "1", "--resume-from-checkpoint", first, "--require-bitexact"))));
        const char *two = train_above("two", k, ARGS("--threads", "2", "--ranks", "2"));
        for (int stage = 1; stage <= 3; stage++) {
            const char *const stages[] = {"0", "1", "2", "3"};
            assert_true(same_adapter(
                two, train_above("dealt", k, ARGS("--threads", "2", "--ranks", "2", "--zero-stage", stages[stage]))));
        }
    }
}

/* Each value begins at a multiple of 64 bytes. */
static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Half a byte a weight and four for every 64 of them; nested one, and four for every 256 of those and for their mean. Of 8 bits a byte a
 * weight, and four a row. */
static void the_plan_counts_codes(void **state)
{
    (void)state;
    const char *base = golden("llama"), *inputs = join(base, "inputs.safetensors");
    const char *const *const ways[] = {NF4, NESTED_NF4, E4M3};
    for (int way = 0; way < 3; way++) {
        struct st_file f;
        int64_t bytes = 0;
        open_tensors(join(base, "model.safetensors"), &f);
        for (size_t i = 0; i < f.n_tensors; i++) {
            const struct st_tensor *t = &f.tensors[i];
            int64_t n = st_elements(t), blocks = n / 64;
            bool coded = t->ndim == 2 && strstr(t->name, ".layers.");
            bool halves =
                strstr(t->name, "gate_proj") || strstr(t->name, "up_proj"); /* a group, of a multiple of 64 bytes */
            bytes += !coded     ? 4 * n
                     : way == 2 ? n + (halves ? 4 * t->shape[0] : aligned(4 * t->shape[0]))
                     : way == 1 ? n / 2 + aligned(blocks) + aligned(4 * (1 + (blocks + 255) / 256))
                                : n / 2 + aligned(4 * blocks);
        }
        st_close(&f);
        expect_snug(0, said(),
                    ARGS("plan", "--model", base, "--train-data", inputs, "--device", "cpu", "--use-peft", "--json"),
                    ways[way]);
        json_t *plan = said_object();
        assert_int_equal(json_integer_value(json_object_get(plan, "frozen_bytes")), bytes);
        json_decref(plan);
    }
}

/* Each row of a matrix of F32 at `at` in a file becomes the numbers that floats of 8 bits have nearest to it, by the least power of 2 with
 * which it is in their range. */
static void round_rows(int fd, int64_t at, int64_t n, int64_t width)
{
    size_t bytes = (size_t)width * sizeof(float);
    float *x = malloc(bytes);
    assert_non_null(x);
    for (int64_t r = 0; r < n; r++) {
        float largest = 0, scale = 0x1p-100f;
        assert_int_equal(pread(fd, x, bytes, at + r * (int64_t)bytes), (ssize_t)bytes);
        for (int64_t i = 0; i < width; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        while (largest / scale > 448)
            scale *= 2;
        for (int64_t i = 0; i < width; i++)
            x[i] = e4m3_to_float(e4m3_from_float(x[i] / scale)) * scale;
        assert_int_equal(pwrite(fd, x, bytes, at + r * (int64_t)bytes), (ssize_t)bytes);
    }
    free(x);
}

static double loss_of(const char *model, const char *const *more)
{
    expect_snug(0, said(), ARGS("eval", "--model", model, "--data", rows, "--device", "cpu", "--json"), more);
    json_t *o = said_object();
    double loss = json_number_value(json_object_get(o, "loss"));
    json_decref(o);
    return loss;
}

/* Of weights that are read in several pieces, which cut rows of an odd width. */
static void rows_are_coded_whole(void **state)
{
    (void)state;
    const char *config = join(folder, "cut"), *base = join(folder, "cut_base"),
               *weights = join(base, "model.safetensors");
    json_t *c = json_load_file(fixture("golden/trainer/init/config.json"), 0, NULL);
    json_object_set_new(c, "hidden_size", json_integer(240));
    json_object_set_new(c, "intermediate_size", json_integer(5003));
    json_object_set_new(c, "num_attention_heads", json_integer(15));
    json_object_set_new(c, "num_hidden_layers", json_integer(1));
    assert_int_equal(mkdir(config, 0700), 0);
    assert_int_equal(json_dump_file(c, join(config, "config.json"), 0), 0);
    json_decref(c);
    expect_snug(0, said(),
                ARGS("train", "--model", config, "--init-from-config", "--train-data", rows, "--output-dir", base,
                     "--device", "cpu", "--max-steps", "1", "--learning-rate", "0", "--save-strategy", "no"),
                NULL);
    double codes = loss_of(base, ARGS("--load-in-8bit")), before = loss_of(base, NULL);
    struct st_file f;
    open_tensors(weights, &f);
    int fd = open(weights, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < f.n_tensors; i++)
        if (f.tensors[i].ndim == 2 && strstr(f.tensors[i].name, ".layer."))
            round_rows(fd, f.tensors[i].at, f.tensors[i].shape[0], f.tensors[i].shape[1]);
    st_close(&f);
    assert_int_equal(close(fd), 0);
    double after = loss_of(base, NULL);
    if (codes != after)
        fail_msg("losses of codes, of their numbers, of the weights: %.9g, %.9g, %.9g", codes, after, before);
    assert_true(codes != before);
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
    const char *one = train("one", ARGS("--threads", "1")), *other = join(folder, "other");
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
    const char *one = train("one", ARGS("--threads", "1", "--eval-data", rows, "--eval-strategy", "epoch"));
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
    const char *one = train("one", ARGS("--threads", "1", "--dtype", "bf16")), *out = join(folder, "exported");
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

/* ---- A base that bitsandbytes has quantised (tests/format/bitsandbytes/record.py), or others (tests/format/quantised/record.py). */

static const char *train_on(const char *model, const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--train-data", "synthetic:16x10", "--output-dir", out, "--device",
                     "cpu", "--max-steps", "3", "--logging-steps", "1", "--save-strategy", "no"),
                more);
    return out;
}

/* It is kept as the folder has it, without being asked: as its numbers are in codes; where scales are codes the folder's own ones. What
 * has 8 bits are numbers. */
static void a_quantised_base_is_kept_so(void **state)
{
    const struct {
        const char *name, *kept;
        const char *const *asked;
    } cases[] = {
        {"fp4", "4 bits for 7 tensors", ARGS("--use-peft", "--load-in-4bit", "--bnb-4bit-quant-type", "fp4")},
        {"storage", "4 bits for 6 tensors", ARGS("--use-peft")},
        {"nested", "4 bits for 7 tensors", ARGS("--use-peft")},
        {"int8", "bitsandbytes has quantised 7 tensors", ARGS("--use-peft")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *base = join(fixture("format/bitsandbytes"), cases[i].name);
        struct st_file f;
        const char *numbers = train_on(base, "numbers", ARGS("--learning-rate", "0", "--weight-decay", "0"));
        assert_int_equal(file_has(said(), "the weights of 4 bits are numbers here, as they are trained"), i < 3);
        const char *one = train_on(base, "one", ARGS("--use-peft"));
        assert_true(file_has(said(), cases[i].kept));
        assert_true(same_adapter(one, train_on(numbers, "two", cases[i].asked)));
        const char *again = join(folder, "by_record"); /* which has --load-in-4bit, as false */
        remove_tree(again);
        expect_snug(0, said(), ARGS("train", "--config", join(one, "training_args.json"), "--output-dir", again), NULL);
        assert_true(same_adapter(one, again));
        assert_true(same_adapter(one, train_on(base, "two", ARGS("--use-peft", "--load-in-4bit", "false"))));
        assert_false(file_has(said(), "4 bits for"));
        const char *lengths = train_on(base, "of_rows", ARGS("--use-peft", "--use-dora"));
        assert_true(file_has(said(), cases[i].kept));
        assert_true(same_adapter(lengths, train_on(numbers, "two", ARGS("--use-peft", "--use-dora"))));
        const char *merged = join(folder, "merged_numbers");
        remove_tree(merged);
        expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", one, "--output-dir", merged), NULL);
        open_tensors(join(merged, "model.safetensors"), &f);
        for (size_t k = 0; k < f.n_tensors; k++) /* as those that are not quantised */
            assert_int_equal(f.tensors[k].dtype, DT_BF16);
        st_close(&f);
    }
}

/* In other ways its weights are numbers, below an adapter too, unless 4 bits are asked for. */
static void a_base_that_others_quantised_is_numbers(void **state)
{
    static const char *const names[] = {"fp8", "packed", "mixed", "gptq_order", "awq"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *base = join(fixture("format/quantised"), names[i]);
        const char *numbers = train_on(base, "numbers", ARGS("--learning-rate", "0", "--weight-decay", "0"));
        assert_true(file_has(said(), "has quantised 7 tensors"));
        assert_false(file_has(join(numbers, "config.json"), "quantization_config"));
        const char *one = train_on(base, "one", ARGS("--use-peft"));
        assert_false(file_has(said(), "4 bits for"));
        assert_true(same_adapter(one, train_on(numbers, "two", ARGS("--use-peft"))));
        one = train_on(base, "one", ARGS("--use-peft", "--load-in-4bit"));
        assert_true(file_has(said(), "4 bits for 7 tensors"));
        assert_true(same_adapter(one, train_on(numbers, "two", ARGS("--use-peft", "--load-in-4bit"))));
        const char *merged = join(folder, "merged_numbers");
        struct st_file f;
        remove_tree(merged);
        expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", one, "--output-dir", merged), NULL);
        assert_false(file_has(join(merged, "config.json"), "quantization_config"));
        open_tensors(join(merged, "model.safetensors"), &f);
        assert_int_equal(f.n_tensors, 11);
        for (size_t k = 0; k < f.n_tensors; k++)
            assert_int_equal(f.tensors[k].dtype, DT_BF16);
        st_close(&f);
    }
}

/* A folder with one weight, of more elements than are read at once (run/weights.c), in blocks of unlike sizes; the others are random. */
static const char *make_wide(void)
{
    enum { OUT = 16, IN = 1 << 17, ELEMENTS = OUT * IN, BLOCKS = ELEMENTS / 64 };
#define WIDE "model.layers.0.mlp.down_proj.weight"
    static const char form[] = "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [16, 131072]}";
    static uint8_t codes[ELEMENTS / 2];
    static float absmax[BLOCKS], map[16];
    const char *wide = join(folder, "wide");
    struct st_tensor t[] = {
        {.name = WIDE, .dtype = DT_U8, .ndim = 2, .shape = {sizeof codes, 1}},
        {.name = WIDE ".absmax", .dtype = DT_F32, .ndim = 1, .shape = {BLOCKS}},
        {.name = WIDE ".quant_map", .dtype = DT_F32, .ndim = 1, .shape = {16}},
        {.name = WIDE ".quant_state.bitsandbytes__nf4", .dtype = DT_U8, .ndim = 1, .shape = {sizeof form - 1}}};
    struct st_writer w;
    struct snug_err err;
    for (int i = 0; i < ELEMENTS / 2; i++)
        codes[i] = i % 32 ? (uint8_t)(i * 37 + i / 61) : 0xFF; /* each block has its largest number */
    for (int i = 0; i < BLOCKS; i++)
        absmax[i] = 1e-3f * (float)(1 + i % 1000);
    memcpy(map, quant_table[QUANT_NF4], sizeof map);
    remove_tree(wide);
    assert_int_equal(mkdir(wide, 0777), 0);
    json_t *config = json_load_file(join(fixture("format/bitsandbytes/storage"), "config.json"), 0, NULL);
    json_object_set_new(config, "intermediate_size", json_integer(IN));
    assert_int_equal(json_dump_file(config, join(wide, "config.json"), 0), 0);
    json_decref(config);
    assert_int_equal(st_create(&io_posix, join(wide, "model.safetensors"), t, 4, NULL, 0, false, &w, &err), 0);
    for (int i = 0; i < 4; i++) {
        bool is_codes = !strcmp(t[i].name, WIDE), is_absmax = strstr(t[i].name, "absmax") != NULL;
        const void *data = is_codes               ? (const void *)codes
                           : is_absmax            ? absmax
                           : t[i].dtype == DT_F32 ? map
                                                  : (const void *)form;
        assert_int_equal(st_write(&w, &t[i], 0, data, (size_t)t[i].bytes, &err), 0);
    }
    assert_int_equal(st_finish(&w, NULL, &err), 0);
    return wide;
}

/* Lengths begin as those of all pieces. */
static void lengths_are_of_large_weights_too(void **state)
{
    (void)state;
#define OF_LENGTHS "--init-from-config", "--use-peft", "--use-dora", "--target-modules", "down_proj", "--lora-r", "1"
    const char *base = make_wide(), *one = train_on(base, "of_codes", ARGS(OF_LENGTHS));
    assert_true(file_has(said(), "4 bits for 1 tensors"));
    const char *two = train_on(base, "of_numbers", ARGS(OF_LENGTHS, "--load-in-4bit", "false"));
    assert_true(same_adapter(one, two));
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
        cmocka_unit_test(gradients_above_codes_are_those_of_peft),
        cmocka_unit_test(runs_have_the_same_bits),
        cmocka_unit_test(runs_above_codes_have_the_same_bits),
        cmocka_unit_test(a_quantised_base_is_kept_so),
        cmocka_unit_test(a_base_that_others_quantised_is_numbers),
        cmocka_unit_test(lengths_are_of_large_weights_too),
        cmocka_unit_test(the_plan_counts_codes),
        cmocka_unit_test(rows_are_coded_whole),
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
