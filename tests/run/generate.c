/* snug generate: what transformers generates greedily (tests/golden/generate), however prompts are cut and run together; stops,
 * seeds and texts. */
#include "command.h"

/* The ids of each line of what the command said. */
static json_t *generated(const char *path)
{
    size_t n;
    char *text = read_text(path, &n), *rest = text, *line;
    json_t *all = json_array();
    while ((line = strsep(&rest, "\n")) != NULL)
        if (*line == '{') {
            json_t *o = json_loads(line, 0, NULL);
            assert_non_null(o);
            json_array_append_new(all, o);
        }
    free(text);
    return all;
}

static void compare(const char *said_path, const char *expected, int stop)
{
    size_t n;
    char *text = read_text(expected, &n), *rest = text, *line;
    json_t *got = generated(said_path);
    size_t i = 0;
    while ((line = strsep(&rest, "\n")) != NULL && *line) {
        json_t *want = json_loads(line, 0, NULL), *o = json_array_get(got, i++);
        json_t *last = json_array_get(want, json_array_size(want) - 1);
        assert_true(json_equal(want, json_object_get(o, "ids")));
        assert_string_equal(json_string_value(json_object_get(o, "finish_reason")),
                            json_integer_value(last) == stop ? "stop" : "length");
        json_decref(want);
    }
    assert_int_equal(i, json_array_size(got));
    json_decref(got);
    free(text);
}

static void test_greedy(void **state)
{
    static const struct {
        const char *name;
        int stop;
    } models[] = {{"mistral", 31},
                  {"gpt2", 63},
                  {"gemma3", 2},
                  {"gemma3_pictures", 2},
                  {"gpt_neox", 2},
                  {"gpt_oss", 2},
                  {"olmo2", 2},
                  {"phi3", 2},
                  {"qwen2", 2},
                  {"qwen3", 2},
                  {"smollm3", 2},
                  {"t5", 1},
                  {"t5_gated", 1},
                  {"mt5", 1},
                  {"bart", 2},
                  {"mbart", 2},
                  {"mixtral", 2},
                  {"qwen3_moe", 2},
                  {"qwen2_moe", 2},
                  {"gemma", 2},
                  {"granite", 2},
                  {"olmo3", 2},
                  {"phi", 2},
                  {"starcoder2", 2},
                  {"opt", 2},
                  {"opt_projected", 2},
                  {"bloom", 2},
                  {"falcon", 2},
                  {"falcon_groups", 2},
                  {"falcon_in_turn", 2},
                  {"gpt_neo", 2},
                  {"gptj", 2},
                  {"gpt_bigcode", 2},
                  {"gpt_bigcode_heads", 2},
                  {"marian", 0},
                  {"pegasus", 1},
                  {"m2m_100", 2},
                  {"cohere", 2},
                  {"cohere2", 2},
                  {"ernie4_5", 2},
                  {"exaone4", 2},
                  {"glm", 2},
                  {"glm4", 2},
                  {"hunyuan", 2},
                  {"ministral", 2},
                  {"olmo", 2},
                  {"olmoe", 2},
                  {"seed_oss", 2},
                  {"stablelm", 2},
                  {"granitemoe", 2},
                  {"granitemoeshared", 2},
                  {"arcee", 2},
                  {"nemotron", 2},
                  {"lfm2", 2},
                  {"lfm2_biases", 2}};
    static const char *const at_once[] = {"1", "3", "8"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int i = 0; i < n_devices(); i++)
            for (size_t k = 0; k < sizeof at_once / sizeof *at_once && is_fp32(device(i)); k++) {
                char name[64];
                if (m > 1 && k != 1 && strcmp(models[m].name, "t5_gated"))
                    continue; /* how many run at once is shown with three models */
                if (!takes_model(device(i), models[m].name))
                    continue;
                snprintf(name, sizeof name, "golden/generate/%s", models[m].name);
                const char *model = fixture(name);
                expect_snug(0, said(),
                            ARGS("generate", "--model", model, "--data", join(model, "prompts.jsonl"), "--json",
                                 "--max-new-tokens", "12", "--per-device-eval-batch-size", at_once[k]),
                            ARGS("--device", device(i)->name));
                compare(said(), join(model, "expected.jsonl"), models[m].stop);
            }
}

/* With an adapter, as PEFT generates; and as the merged model does. */
static void test_adapter(void **state)
{
    (void)state;
    const char *model = fixture("golden/generate/phi3"), *adapter = fixture("golden/generate/phi3_adapter");
    const char *merged = join(folder, "merged");
    expect_snug(0, said(), ARGS("merge", "--model", model, "--adapter", adapter, "--output-dir", merged), NULL);
    for (int i = 0; i < n_devices(); i++)
        for (int k = 0; k < 2 && is_fp32(device(i)); k++) {
            expect_snug(0, said(),
                        ARGS("generate", "--model", k ? merged : model, "--data", join(model, "prompts.jsonl"),
                             "--json", "--max-new-tokens", "12", "--device", device(i)->name),
                        k ? NULL : ARGS("--adapter", adapter));
            compare(said(), join(adapter, "expected.jsonl"), 2);
        }
    remove_tree(merged);
}

static json_t *sampled(const char *seed, const char *at_once, const char *top_k)
{
    const char *model = fixture("golden/generate/gpt2");
    expect_snug(0, said(),
                ARGS("generate", "--model", model, "--data", join(model, "prompts.jsonl"), "--json", "--do-sample",
                     "--max-new-tokens", "12", "--device", "reference", "--temperature", "3"),
                ARGS("--seed", seed, "--per-device-eval-batch-size", at_once, "--top-k", top_k));
    return generated(said());
}

/* What is drawn follows from the seed, not from what runs beside it; of one token, it is the likeliest. */
static void test_seeds(void **state)
{
    (void)state;
    json_t *a = sampled("1", "8", "40"), *b = sampled("1", "3", "40"), *c = sampled("2", "8", "40");
    assert_true(json_equal(a, b));
    assert_false(json_equal(a, c));
    json_decref(sampled("3", "8", "1"));
    compare(said(), fixture("golden/generate/gpt2/expected.jsonl"), 63);
    json_decref(a);
    json_decref(b);
    json_decref(c);
}

/* With --bf16 weights are kept in 16 bits, since nothing is trained: where fp32 has no room they fit. */
static void test_weights_of_16_bits(void **state)
{
    (void)state;
    const char *model = fixture("golden/generate/phi3");
    const char *const *one =
        ARGS("generate", "--model", model, "--data", join(model, "prompts.jsonl"), "--json", "--device", "cpu",
             "--threads", "1", "--per-device-eval-batch-size", "1", "--max-new-tokens", "2", "--memory-budget", "50KB");
    expect_snug(4, said(), one, NULL);
    expect_snug(0, said(), one, ARGS("--bf16"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy), cmocka_unit_test(test_adapter),
                                       cmocka_unit_test(test_seeds), cmocka_unit_test(test_weights_of_16_bits)};
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
