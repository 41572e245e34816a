/* Every model of tests/golden through the command, from folder to folder: trained with dropout, evaluated, planned, stopped
 * and resumed, computed with fewer activations kept. And how new weights begin. */
#include "command.h"

#include <math.h>
#include <sys/stat.h>

/* A folder of tests/golden, and whether it predicts rows. */
static const struct model {
    const char *name;
    bool per_row;
} models[] = {{"roberta", true},
              {"roberta_mlm", false},
              {"xlm_roberta", true},
              {"cohere", false},
              {"cohere2", false},
              {"distilbert", true},
              {"distilbert_mlm", false},
              {"electra", true},
              {"electra_mlm", false},
              {"ernie", true},
              {"ernie_mlm", false},
              {"megatron_bert", true},
              {"megatron_bert_mlm", false},
              {"megatron_bert_tags", true},
              {"data2vec_text", true},
              {"data2vec_text_mlm", false},
              {"roberta_prelayernorm", true},
              {"roberta_prelayernorm_mlm", false},
              {"xlm_roberta_xl", true},
              {"xlm_roberta_xl_mlm", false},
              {"nomic_bert", true},
              {"nomic_bert_mlm", false},
              {"nomic_bert_tags", true},
              {"eurobert", true},
              {"eurobert_mean", true},
              {"eurobert_bos", true},
              {"eurobert_mlm", false},
              {"eurobert_tied_mlm", false},
              {"eurobert_tags", true},
              {"esm", true},
              {"esm_mlm", false},
              {"esm_tags", true},
              {"albert", true},
              {"modernbert", true},
              {"modernbert_cls", true},
              {"modernbert_mlm", false},
              {"albert_mlm", false},
              {"mpnet", true},
              {"mpnet_mlm", false},
              {"deberta", true},
              {"deberta_own", true},
              {"deberta_mlm", false},
              {"deberta_newer_mlm", false},
              {"deberta_1", true},
              {"deberta_1_own", true},
              {"deberta_1_mlm", false},
              {"deberta_1_newer_mlm", false},
              {"deberta_1_tags", true},
              {"deberta_1_answers", false},
              {"deberta_conv", true},
              {"deberta_conv_one", true},
              {"deberta_conv_tags", true},
              {"camembert", true},
              {"ernie4_5", false},
              {"exaone4_plain", false},
              {"gemma", false},
              {"gemma2", false},
              {"gemma3", false},
              {"gemma3_pictures", false},
              {"gemma3_pictures_classes", true},
              {"glm4", false},
              {"glm4_classes", true},
              {"arcee", false},
              {"arcee_classes", true},
              {"nemotron", false},
              {"nemotron_classes", true},
              {"granite", false},
              {"granitemoe", false},
              {"granitemoeshared", false},
              {"bloom", false},
              {"bloom_classes", true},
              {"falcon", false},
              {"falcon_groups", false},
              {"falcon_in_turn", false},
              {"falcon_groups_classes", true},
              {"gpt2_scaled", false},
              {"gpt2_classes", true},
              {"gpt_bigcode", false},
              {"gpt_bigcode_classes", true},
              {"gpt_neo", false},
              {"gpt_neo_classes", true},
              {"gptj", false},
              {"gptj_classes", true},
              {"gpt_neox", false},
              {"gpt_neox_classes", true},
              {"gpt_oss", false},
              {"gpt_oss_classes", true},
              {"hunyuan", false},
              {"lfm2", false},
              {"lfm2_published", false},
              {"lfm2_biases", false},
              {"llama", false},
              {"llama_classes", true},
              {"ministral", false},
              {"mistral", false},
              {"mixtral", false},
              {"olmo", false},
              {"olmo_classes", true},
              {"olmo2", false},
              {"olmo3", false},
              {"bert_tags", true},
              {"roberta_tags", true},
              {"distilbert_tags", true},
              {"electra_tags", true},
              {"albert_tags", true},
              {"modernbert_tags", true},
              {"bert_answers", false},
              {"roberta_answers", false},
              {"distilbert_answers", false},
              {"modernbert_answers", false},
              {"olmoe", false},
              {"opt", false},
              {"opt_projected", false},
              {"opt_plain", false},
              {"opt_classes", true},
              {"opt_projected_classes", true},
              {"phi", false},
              {"phi_classes", true},
              {"phi3", false},
              {"qwen2", false},
              {"qwen3", false},
              {"qwen2_moe", false},
              {"qwen2_moe_classes", true},
              {"qwen3_moe", false},
              {"qwen3_moe_classes", true},
              {"seed_oss", false},
              {"smollm3", false},
              {"stablelm", false},
              {"stablelm_classes", true},
              {"starcoder2", false},
              {"starcoder2_classes", true},
              {"t5", false},
              {"t5_gated", false},
              {"mt5", false},
              {"t5_classes", true},
              {"bart", false},
              {"bart_scaled", false},
              {"bart_classes", true},
              {"mbart_classes", true},
              {"mbart", false},
              {"mbart_plain", false},
              {"marian", false},
              {"pegasus", false},
              {"m2m_100", false}};
enum { N_MODELS = sizeof models / sizeof *models };

#define RUN(m, on)                                                                                                     \
    "--model", fixture(join("golden", (m)->name)), "--train-data", "synthetic:40x10", "--eval-data", "synthetic:9x10", \
        "--device", (on)->name, "--dtype", (on)->dtype, "--threads", "1", "--hidden-dropout-prob", "0.2",              \
        "--attention-probs-dropout-prob", "0.2", "--max-steps", "6", "--save-steps", "3", "--json"

/* A run of model m into folder/NAME, with what `second` says besides. */
static const char *train(const char *name, const struct model *m, const struct device *on, const char *const *second)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(
        0, said(),
        ARGS("train", RUN(m, on), "--output-dir", out, "--learning-rate", "1e-3", "--logging-steps", "1", "--log-hash"),
        second);
    return out;
}

static json_t *last_line(const char *out)
{
    json_t *log = read_log(out), *last = json_incref(json_array_get(log, json_array_size(log) - 1));
    json_decref(log);
    return last;
}

/* A resumed run's log begins behind the step that it goes on from. */
static void assert_same_end(const char *a, const char *b)
{
    json_t *x = last_line(a), *y = last_line(b);
    if (!json_equal(x, y))
        fail_msg("%s\n%s", json_dumps(x, 0), json_dumps(y, 0));
    json_decref(x);
    json_decref(y);
    assert_true(same_bytes(join(a, "model.safetensors"), join(b, "model.safetensors")));
}

/* What --json prints: `name`, or NULL. */
static json_t *printed(const char *name)
{
    size_t n;
    char *text = read_text(said(), &n);
    json_t *all = json_loads(strchr(text, '{'), JSON_DISABLE_EOF_CHECK, NULL), *one = json_object_get(all, name);
    json_incref(one);
    json_decref(all);
    free(text);
    return one;
}

static double printed_number(const char *name)
{
    json_t *x = printed(name);
    double number = json_number_value(x);
    assert_true(json_is_number(x));
    json_decref(x);
    return number;
}

/* A run that goes on ends as one that did not stop, and so does one that computes activations again. */
static void check_other_ways(const struct model *m, const struct device *on, const char *alone)
{
    assert_same_end(alone, train("resumed", m, on, ARGS("--resume-from-checkpoint", join(alone, "step-00000003"))));
    assert_same_end(alone, train("recomputed", m, on, ARGS("--gradient-checkpointing")));
}

/* An evaluation of what it wrote is its own last one; and that predicts every row. */
static void check_result(const struct model *m, const struct device *on, const char *out)
{
    const char *const *where = ARGS("--data", "synthetic:9x10", "--device", on->name, "--dtype", on->dtype);
    json_t *last = last_line(out);
    double loss = json_number_value(json_object_get(last, "eval_loss"));
    expect_snug(0, said(), ARGS("eval", "--json", "--model", out), where);
    assert_true(loss > 0 && fabs(printed_number("loss") - loss) <= on->gradient_error * loss);
    if (m->per_row)
        expect_snug(0, said(), ARGS("predict", "--json", "--model", out), where);
    assert_true(!m->per_row || file_has(said(), "\"row\":8"));
    json_decref(last);
}

/* The folder of a result has the tensors of the one that it began as, and is of the same class. */
static void check_names(const struct model *m, const char *out)
{
    const char *model = fixture(join("golden", m->name));
    struct st_file a, b;
    open_tensors(join(model, "model.safetensors"), &a);
    open_tensors(join(out, "model.safetensors"), &b);
    assert_int_equal(a.n_tensors, b.n_tensors);
    for (size_t i = 0; i < a.n_tensors; i++) {
        const struct st_tensor *t = st_find(&b, a.tensors[i].name);
        if (!t)
            fail_msg("%s: %s is not in the result", model, a.tensors[i].name);
        assert_int_equal(t->ndim, a.tensors[i].ndim);
        assert_memory_equal(t->shape, a.tensors[i].shape, (size_t)t->ndim * sizeof *t->shape);
    }
    json_t *old = json_load_file(join(model, "config.json"), 0, NULL);
    json_t *new = json_load_file(join(out, "config.json"), 0, NULL);
    assert_true(json_equal(json_object_get(old, "architectures"), json_object_get(new, "architectures")));
    json_decref(old);
    json_decref(new);
    st_close(&a);
    st_close(&b);
}

static void check_model(const struct model *m, const struct device *on)
{
    char line[64];
    expect_snug(0, said(), ARGS("plan", RUN(m, on)), NULL);
    snprintf(line, sizeof line, "\"arena_bytes\": %.0f,", printed_number("arena_bytes"));
    const char *alone = train("alone", m, on, NULL);
    assert_true(file_has(said(), line));
    check_result(m, on, alone);
    check_names(m, alone);
    check_other_ways(m, on, alone);
}

/* On all devices, but where a process takes long to start: there on the last. */
static void every_model_goes_from_folder_to_folder(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++)
        for (int d = SANITIZED ? n_devices() - 1 : 0; d < n_devices(); d++)
            check_model(&models[m], device(d));
}

/* As transformers begins: linear layers and embeddings N(0, initializer_range), but for a padding row of zeros and the
 * products into GPT-2's residual stream, which have 1/sqrt(2 layers) of that; norms 1, biases 0. Means and standard
 * deviations lie within five of their own standard errors. pad_row -1: none. */
static void check_new_tensor(const struct st_file *f, const char *name, double std, int64_t pad_row)
{
    int64_t n;
    double *x = read_tensor(f, name, &n), sum = 0, squares = 0;
    const struct st_tensor *t = st_find(f, name);
    bool bias = strstr(name, ".bias"), norm_weight = !bias && t->ndim == 1;
    int64_t first = 0, width = t->ndim > 1 ? t->shape[1] : n;
    if (strstr(name, "c_proj."))
        std /= sqrt(2.0 * 3);
    if (pad_row >= 0) {
        for (int64_t i = 0; i < width; i++) {
            assert_true(x[pad_row * width + i] == 0);
            x[pad_row * width + i] = x[i]; /* out of the sample: the first row takes its place */
        }
        first = width;
    }
    for (int64_t i = first; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
        if (t->ndim == 1 && x[i] != (norm_weight ? 1 : 0))
            fail_msg("%s: %g at %lld", name, x[i], (long long)i);
    }
    double size = (double)(n - first), mean = sum / size, deviation = sqrt(squares / size);
    if (t->ndim > 1 && (fabs(mean) > 5 * std / sqrt(size) || fabs(deviation / std - 1) > 5 / sqrt(2 * size)))
        fail_msg("%s: mean %g, standard deviation %g instead of %g", name, mean, deviation, std);
    free(x);
}

static void new_weights_begin_as_in_transformers(void **state)
{
    (void)state;
    static const struct {
        const char *model, *width;
        int tensors, pad_id;
        const char *padded[2]; /* tables with a padding row */
    } cases[] = {
        {"golden/bert", "hidden_size", 5 + 3 * 16 + 4, 5, {"word_embeddings", NULL}},
        {"golden/gpt2", "n_embd", 2 + 3 * 12 + 2, 5, {NULL, NULL}},
        {"golden/roberta", "hidden_size", 5 + 3 * 16 + 4, 3, {"word_embeddings", "position_embeddings"}},
        {"golden/distilbert", "dim", 4 + 3 * 16 + 4, 5, {"word_embeddings", NULL}},
    };
    for (size_t m = 0; m < sizeof cases / sizeof *cases; m++) {
        const char *rows = make_rows(folder, 12, 7, 4 + (uint32_t)m, m != 1);
        const char *model = make_deeper(folder, cases[m].model, 3), *path = join(model, "config.json");
        const char *out = join(folder, "new");
        json_t *config = json_load_file(path, 0, NULL);
        json_object_set_new(config, cases[m].width, json_integer(64));
        json_object_set_new(config, "initializer_range", json_real(0.05));
        json_object_set_new(config, "pad_token_id", json_integer(cases[m].pad_id));
        assert_int_equal(json_dump_file(config, path, 0), 0);
        json_decref(config);
        expect_snug(0, said(),
                    ARGS("train", "--model", model, "--init-from-config", "--train-data", rows, "--output-dir", out,
                         "--max-steps", "1", "--learning-rate", "0", "--save-strategy", "no"),
                    NULL);
        struct st_file f;
        open_tensors(join(out, "model.safetensors"), &f);
        assert_int_equal(f.n_tensors, cases[m].tensors);
        for (size_t i = 0; i < f.n_tensors; i++) {
            bool padded = false;
            for (int k = 0; k < 2 && cases[m].padded[k]; k++)
                padded |= strstr(f.tensors[i].name, cases[m].padded[k]) != NULL;
            check_new_tensor(&f, f.tensors[i].name, 0.05, padded ? cases[m].pad_id : -1);
        }
        st_close(&f);
        remove_tree(out);
        remove_tree(model);
    }
}

/* A table of sines far from its beginning, beside that of transformers (tests/golden/sines.py). A result has it where the base's file has one,
 * whatever that holds. */
static void sines_are_those_of_transformers(void **state)
{
    static const struct {
        const char *name;
        int64_t rows[3];
    } cases[] = {{"m2m_100", {2, 502, 1025}}, {"marian", {0, 500, 1023}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *base = join(folder, "sines"), *out = join(folder, "of_sines"), *table;
        struct st_tensor t = {.name = table = "model.decoder.embed_positions.weight", .dtype = DT_F32, .ndim = 1};
        struct st_writer w;
        struct st_file got, want;
        struct snug_err err;
        int64_t n, m;
        remove_tree(base);
        remove_tree(out);
        assert_int_equal(mkdir(base, 0700), 0);
        json_t *config = json_load_file(fixture(join(join("golden", cases[i].name), "config.json")), 0, NULL);
        json_object_set_new(config, "max_position_embeddings", json_integer(1024));
        assert_int_equal(json_dump_file(config, join(base, "config.json"), 0), 0);
        json_decref(config);
        t.shape[0] = 1;
        assert_int_equal(st_create(&io_posix, join(base, "model.safetensors"), &t, 1, NULL, 0, false, &w, &err), 0);
        assert_int_equal(st_write(&w, &t, 0, &(float){7}, sizeof(float), &err), 0);
        assert_int_equal(st_finish(&w, NULL, &err), 0);
        expect_snug(0, said(),
                    ARGS("train", "--model", base, "--init-from-config", "--train-data", "synthetic:2x8", "--device",
                         "cpu", "--max-steps", "1", "--save-strategy", "no", "--output-dir", out),
                    NULL);
        open_tensors(join(out, "model.safetensors"), &got);
        open_tensors(fixture("golden/sines.safetensors"), &want);
        double *have = read_tensor(&got, table, &n), *wanted = read_tensor(&want, cases[i].name, &m);
        assert_int_equal(m, 3 * 16);
        for (int k = 0; k < m; k++)
            assert_true(fabs(have[cases[i].rows[k / 16] * 16 + k % 16] - wanted[k]) <= 1e-7);
        assert_null(st_find(&got, "model.encoder.embed_positions.weight"));
        free(have);
        free(wanted);
        st_close(&got);
        st_close(&want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_goes_from_folder_to_folder),
        cmocka_unit_test(new_weights_begin_as_in_transformers),
        cmocka_unit_test(sines_are_those_of_transformers),
    };
    return cmocka_run_group_tests_name("models", tests, open_folder, close_folder);
}
