/* Adapters of mixtures of experts by the command: the tensors that peft has, also of one from before transformers 5, and runs that must
 * agree. */
#include "adapters.h"

/* Tensors and their shapes, as text. */
static json_t *shapes_of(const char *adapter)
{
    size_t n;
    char *bytes = read_text(join(adapter, "adapter_model.safetensors"), &n);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    json_t *all = json_loadb(bytes + sizeof header, header, 0, NULL), *shapes = json_object(), *tensor;
    const char *name;
    json_object_foreach(all, name, tensor) if (json_object_get(tensor, "shape"))
        json_object_set(shapes, name, json_object_get(tensor, "shape"));
    json_decref(all);
    free(bytes);
    return shapes;
}

/* Names of an expert's layers become what they do in PEFT: an adapter has the tensors, ranks and scales of the recorded one. */
static void experts_are_adapted_as_by_peft(void **state)
{
    (void)state;
    const struct {
        const char *recorded, *base, *targets;
        const char *const *parameters;
        size_t n_parameters;
    } cases[] = {
        {"qwen3_moe_all_linear", "qwen3_moe", "all-linear", NULL, 3},
        {"mixtral_layers", "mixtral_balanced", "w1,w2,w3,gate,v_proj", NULL, 3},
        {"gpt_oss_router", "gpt_oss", "all-linear", ARGS("--target-parameters", "router.weight"), 1},
        {"gpt_oss_layer", "gpt_oss", "all-linear",
         ARGS("--target-parameters", "1.mlp.experts.gate_up_proj,1.mlp.experts.down_proj"), 2},
    };
    static const char *const members[] = {"rank_pattern", "alpha_pattern"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *out = join(folder, "as_peft"), *peft = golden_adapter(cases[i].recorded);
        remove_tree(out);
        expect_snug(0, said(),
                    ARGS("train", "--model", golden(cases[i].base), "--train-data", "synthetic:4x6", "--output-dir",
                         out, "--device", "cpu", "--max-steps", "1", "--use-peft", "--lora-r", "4", "--lora-alpha", "8",
                         "--lora-dropout", "0", "--target-modules", cases[i].targets),
                    cases[i].parameters);
        json_t *shapes = shapes_of(out), *wanted = shapes_of(peft);
        assert_true(json_object_size(wanted) > 0 && json_equal(shapes, wanted));
        json_decref(shapes);
        json_decref(wanted);
        json_t *ours = json_load_file(join(out, "adapter_config.json"), 0, NULL);
        json_t *its = json_load_file(join(peft, "adapter_config.json"), 0, NULL);
        assert_int_equal(json_array_size(json_object_get(ours, "target_parameters")), cases[i].n_parameters);
        for (size_t k = 0; k < 2 && !cases[i].parameters; k++) {
            json_t *a = json_object_get(json_object_get(ours, members[k]), ".*\\.gate_up_proj");
            json_t *b = json_object_get(json_object_get(its, members[k]), ".*\\.gate_up_proj");
            assert_true(a && b && json_number_value(a) == json_number_value(b));
        }
        json_decref(ours);
        json_decref(its);
    }
}

/* What the model is with an adapter, by the rows that were recorded with it. */
static double loss_with(const char *base, const char *adapter)
{
    expect_snug(0, said(),
                ARGS("eval", "--model", base, "--adapter", adapter, "--data", join(base, "inputs.safetensors"),
                     "--device", "cpu", "--json"),
                NULL);
    json_t *o = said_object();
    double loss = json_number_value(json_object_get(o, "loss"));
    json_decref(o);
    return loss;
}

/* The result of training from an adapter of transformers 4 is the same adapter, as transformers 5 has it. */
static void an_older_adapter_becomes_one_of_parameters(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"mixtral_each_layer", "mixtral_balanced"},
                                           {"qwen3_moe_each_layer", "qwen3_moe"},
                                           {"mixtral_expression", "mixtral_balanced"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *base = golden(cases[i][1]), *adapter = golden_adapter(cases[i][0]), *out = join(folder, "newer");
        struct st_file have, want;
        size_t n = 0;
        remove_tree(out);
        expect_snug(0, said(),
                    ARGS("train", "--model", base, "--adapter", adapter, "--train-data", "synthetic:4x6",
                         "--output-dir", out, "--device", "cpu", "--max-steps", "1", "--learning-rate", "0",
                         "--save-strategy", "no"),
                    NULL);
        open_tensors(join(out, "adapter_model.safetensors"), &have);
        open_tensors(join(adapter, "expected.safetensors"), &want);
        for (size_t k = 0; k < want.n_tensors; k++) {
            char name[256];
            int64_t m, l;
            if (strncmp(want.tensors[k].name, "adapter.", 8) != 0)
                continue;
            snprintf(name, sizeof name, "base_model.model.%s", want.tensors[k].name + 8);
            double *a = read_tensor(&have, name, &m), *b = read_tensor(&want, want.tensors[k].name, &l);
            assert_true(m == l && distance(a, b, m) == 0);
            free(a);
            free(b);
            n++;
        }
        assert_int_equal(have.n_tensors, n);
        st_close(&have);
        st_close(&want);
        assert_true(loss_with(base, adapter) == loss_with(base, out));
    }
}

static const char *train_experts(const char *base, const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", base, "--output-dir", out, "--device", "cpu", "--max-steps", "4",
                     "--save-steps", "2", "--learning-rate", "1e-2", "--logging-steps", "1", "--use-peft",
                     "--lora-dropout", "0", "--lora-r", "3", "--batch-size", "2", "--target-parameters",
                     "mlp.experts.gate_up_proj,mlp.experts.down_proj", "--train-data", "synthetic:12x8"),
                more);
    return out;
}

/* gpt_oss: its files have the experts' weights as (E,I,O). */
static void adapters_of_experts_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"qwen3_moe", "fp32", "false"},
                                           {"qwen3_moe", "bf16", "false"},
                                           {"gpt_oss", "fp32", "false"},
                                           {"gpt_oss", "bf16", "true"}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        const char *base = golden(cases[t][0]);
#define EXPERTS "--dtype", cases[t][1], "--load-in-4bit", cases[t][2], "--threads"
        const char *one = train_experts(base, "one", ARGS(EXPERTS, "1"));
        assert_true(same_adapter(one, train_experts(base, "three", ARGS(EXPERTS, "3"))));
        assert_true(same_adapter(one, train_experts(base, "again", ARGS(EXPERTS, "1", "--gradient-checkpointing"))));
        assert_true(same_adapter(one, train_experts(base, "resumed",
                                                    ARGS(EXPERTS, "1", "--resume-from-checkpoint",
                                                         join(one, "step-00000002"), "--require-bitexact"))));
        const char *two = train_experts(base, "two", ARGS(EXPERTS, "2", "--ranks", "2"));
        assert_true(
            same_adapter(two, train_experts(base, "dealt", ARGS(EXPERTS, "2", "--ranks", "2", "--zero-stage", "3"))));
        const char *out = join(folder, "experts_exported"),
                   *further = train_experts(base, "experts_other", ARGS(EXPERTS, "1", "--seed", "7"));
        remove_tree(out);
        expect_snug(0, said(), ARGS("export", join(one, "step-00000004"), "--output-dir", out), NULL);
        assert_true(same_adapter(one, out));
        assert_false(same_adapter(one, further));
        assert_true(file_has(join(one, "adapter_config.json"), "\"mlp.experts.down_proj\""));
    }
}

/* A folder in MXFP4 is its numbers below an adapter of its experts, also in 4 bits, and merges to numbers. */
static void experts_in_mxfp4_are_adapted(void **state)
{
    (void)state;
    const char *base = fixture("format/mxfp4/folder"), *numbers = join(folder, "numbers");
    const char *merged = join(folder, "merged"), *merged_numbers = join(folder, "merged_numbers");
    remove_tree(numbers);
    expect_snug(0, said(),
                ARGS("train", "--model", base, "--train-data", "synthetic:4x6", "--output-dir", numbers, "--device",
                     "cpu", "--max-steps", "1", "--learning-rate", "0", "--weight-decay", "0", "--save-strategy", "no"),
                NULL);
    const char *one = train_experts(base, "one", NULL);
    assert_false(file_has(said(), "4 bits for"));
    assert_true(same_adapter(one, train_experts(numbers, "two", NULL)));
    expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", one, "--output-dir", merged), NULL);
    assert_false(file_has(join(merged, "config.json"), "quantization_config"));
    expect_snug(0, said(), ARGS("merge", "--model", numbers, "--adapter", one, "--output-dir", merged_numbers), NULL);
    struct st_file a, b;
    open_tensors(join(merged, "model.safetensors"), &a);
    open_tensors(join(merged_numbers, "model.safetensors"), &b);
    assert_int_equal(a.n_tensors, b.n_tensors);
    for (size_t i = 0; i < a.n_tensors; i++) {
        int64_t n, m;
        double *x = read_tensor(&a, a.tensors[i].name, &n), *y = read_tensor(&b, a.tensors[i].name, &m);
        assert_true(a.tensors[i].dtype == DT_BF16 && n == m);
        assert_true(distance(x, y, n) <= 4e-3 * norm(y, n)); /* half a unit in the last place of bf16 */
        free(x);
        free(y);
    }
    st_close(&a);
    st_close(&b);
    one = train_experts(base, "one", ARGS("--load-in-4bit"));
    assert_true(file_has(said(), "4 bits for 7 tensors"));
    assert_true(same_adapter(one, train_experts(numbers, "two", ARGS("--load-in-4bit"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_adapted_as_by_peft),
        cmocka_unit_test(an_older_adapter_becomes_one_of_parameters),
        cmocka_unit_test(adapters_of_experts_have_the_same_bits),
        cmocka_unit_test(experts_in_mxfp4_are_adapted),
    };
    return cmocka_run_group_tests_name("lora_experts", tests, open_folder, close_folder);
}
