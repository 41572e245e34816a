/* --predict-with-generate: an evaluation's numbers are of the texts that snug generate writes for its rows, and training does not notice
 * them. snug predict writes the same texts. */
#include "command.h"

#include "metrics/texts.h"

#include <math.h>
#include <sys/stat.h>

enum { ROWS = 11 };

static const char *rows;
static char *sources[ROWS], *targets[ROWS];

/* The tokenizer has <s> 0, <pad> 1, </s> 2, and all characters of the words below: a target is its tokens' text. */
static const struct kind {
    const char *name, *rate, *config; /* rate: of which it learns something in 60 steps */
} kinds[] = {
    {"t5", "3e-3",
     "{\"model_type\":\"t5\",\"architectures\":[\"T5ForConditionalGeneration\"],\"vocab_size\":1400,\"d_model\":32,"
     "\"d_kv\":8,\"d_ff\":64,\"num_layers\":1,\"num_heads\":4,\"dropout_rate\":0.0,\"feed_forward_proj\":\"relu\","
     "\"decoder_start_token_id\":1,\"eos_token_id\":2,\"pad_token_id\":1,\"n_positions\":40}"},
    {"bart", "2e-2",
     "{\"model_type\":\"bart\",\"architectures\":[\"BartForConditionalGeneration\"],\"vocab_size\":1400,\"d_model\":32,"
     "\"encoder_layers\":1,\"decoder_layers\":1,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,"
     "\"encoder_ffn_dim\":64,\"decoder_ffn_dim\":64,\"dropout\":0.0,\"max_position_embeddings\":40,"
     "\"decoder_start_token_id\":2,\"bos_token_id\":0,\"eos_token_id\":2,\"pad_token_id\":1,"
     "\"forced_eos_token_id\":2,\"no_repeat_ngram_size\":2}"},
    {"mbart", "2e-2",
     "{\"model_type\":\"mbart\",\"architectures\":[\"MBartForConditionalGeneration\"],\"vocab_size\":1400,\"d_model\":"
     "32,"
     "\"encoder_layers\":1,\"decoder_layers\":1,\"encoder_attention_heads\":4,\"decoder_attention_heads\":4,"
     "\"encoder_ffn_dim\":64,\"decoder_ffn_dim\":64,\"dropout\":0.0,\"max_position_embeddings\":40,"
     "\"decoder_start_token_id\":2,\"bos_token_id\":0,\"eos_token_id\":2,\"pad_token_id\":1,"
     "\"forced_eos_token_id\":2}"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put_file(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(join(dir, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int make_models(void **state)
{
    static const char *const words[] = {"card", "my", "bank?", "when", "top", "pin", "a", "7", "is", "Can"};
    size_t n;
    int code = open_folder(state);
    char *tokenizer = read_text(fixture("tokenizer/recorded/families/xlm_roberta/tokenizer.json"), &n);
    for (int k = 0; k < KINDS; k++) {
        const char *dir = join(folder, kinds[k].name);
        assert_int_equal(mkdir(dir, 0700), 0);
        put_file(dir, "tokenizer.json", tokenizer);
        put_file(dir, "tokenizer_config.json", "{\"eos_token\":\"</s>\",\"pad_token\":\"<pad>\"}");
        put_file(dir, "config.json", kinds[k].config);
    }
    free(tokenizer);
    rows = join(folder, "rows.jsonl");
    FILE *f = fopen(rows, "w"), *p = fopen(join(folder, "prompts.jsonl"), "w");
    for (int i = 0; i < ROWS; i++) {
        const char *a = words[i % 10], *b = words[(3 * i + 1) % 10], *c = words[(7 * i + 2) % 10];
        assert_true(asprintf(&sources[i], "%s %s %s%s%s", a, b, c, i % 3 ? " " : "", i % 3 ? b : "") > 0);
        assert_true(asprintf(&targets[i], i % 4 ? "%s %s" : "%s, then %s!", b, a) > 0);
        fprintf(f, "{\"source\":\"%s\",\"target\":\"%s\"}\n", sources[i], targets[i]);
        fprintf(p, "{\"prompt\":\"%s\"}\n", sources[i]);
    }
    assert_int_equal(fclose(f) | fclose(p), 0);
    return code;
}

static int drop_models(void **state)
{
    for (int i = 0; i < ROWS; i++) {
        free(sources[i]);
        free(targets[i]);
    }
    return close_folder(state);
}

static const char *train(const struct kind *kind, const char *name, const struct device *on, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", join(folder, kind->name), "--init-from-config", "--train-data", rows,
                     "--eval-data", rows, "--output-dir", out, "--device", on->name, "--dtype", on->dtype,
                     "--cache-dir", folder, "--batch-size", "4", "--max-steps", "60", "--learning-rate", kind->rate,
                     "--eval-strategy", "steps", "--eval-steps", "20", "--save-steps", "20", "--logging-steps", "20",
                     "--log-hash"),
                more);
    return out;
}

static double number(json_t *o, const char *name)
{
    json_t *x = json_object_get(o, name);
    assert_true(json_is_number(x));
    return json_number_value(x);
}

/* The texts of `snug generate`, one for each row. */
static json_t *generated(const char *model, const struct device *on)
{
    expect_snug(0, said(),
                ARGS("generate", "--model", model, "--data", join(folder, "prompts.jsonl"), "--json",
                     "--max-new-tokens", "9", "--per-device-eval-batch-size", "3", "--device", on->name),
                NULL);
    size_t n;
    char *text = read_text(said(), &n), *rest = strchr(text, '{'), *line;
    json_t *all = json_array();
    while (rest && (line = strsep(&rest, "\n")) && *line)
        json_array_append_new(all, json_loads(line, 0, NULL));
    free(text);
    assert_int_equal(json_array_size(all), ROWS);
    return all;
}

static json_t *evaluated(const char *model, const struct device *on)
{
    expect_snug(0, said(),
                ARGS("eval", "--model", model, "--data", rows, "--json", "--predict-with-generate", "--max-new-tokens",
                     "9", "--cache-dir", folder, "--device", on->name),
                NULL);
    return said_object();
}

/* Lines of the log with this member. */
static json_t *lines(const char *out, const char *member)
{
    json_t *all = read_log(out), *some = json_array(), *line;
    size_t i;
    json_array_foreach(all, i, line) if (json_object_get(line, member)) json_array_append(some, line);
    json_decref(all);
    return some;
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-7 * fabs(b))) /* --json and the log have ten digits */
        fail_msg("%.17g is not %.17g", a, b);
}

/* The sums themselves are compared with rouge_score's and sacrebleu's in tests/metrics/texts.c. */
static void an_evaluation_is_of_the_texts_of_generate(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++)
        for (int d = 1; d < n_devices(); d++) {
            const char *out = train(&kinds[k], "out", device(d), NULL);
            json_t *texts = generated(out, device(d)), *numbers = evaluated(out, device(d));
            struct text_sums sums = {0};
            int64_t words = 0;
            for (size_t i = 0; i < ROWS; i++) {
                json_t *text = json_object_get(json_array_get(texts, i), "text");
                words += json_string_length(text) > 0;
                assert_int_equal(texts_add(&sums, json_string_value(text), json_string_length(text), targets[i],
                                           strlen(targets[i]), NULL),
                                 0);
            }
            assert_true(words > ROWS / 2 && sums.rouge > 1 && sums.rouge < ROWS); /* neither right nor wrong */
            near(number(numbers, "rougeL"), 100 * sums.rouge / ROWS);
            near(number(numbers, "chrf"), 100 * texts_chrf(&sums));
            near(number(numbers, "exact_match"), 100. * (double)sums.exact / ROWS);
            assert_true(number(numbers, "loss") > 0 && number(numbers, "perplexity") > 1);
            json_decref(texts);
            json_decref(numbers);
        }
}

/* With the hash of the whole state at each step; and samples are shown where they are asked for, with or without the numbers. */
static void training_does_not_notice(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const struct device *on = one_device();
        const char *const *const ways[] = {
            ARGS("--predict-with-generate", "--max-new-tokens", "9"),
            ARGS("--eval-samples", "4", "--max-new-tokens", "9"),
            ARGS("--predict-with-generate", "--eval-samples", "4", "--max-new-tokens", "9")};
        const char *plain = train(&kinds[k], "plain", on, NULL);
        json_t *steps = lines(plain, "state_hash"), *shown[3];
        for (int i = 0; i < 3; i++) {
            const char *out = train(&kinds[k], "with", on, ways[i]);
            json_t *same = lines(out, "state_hash"), *numbers = lines(out, "eval_rougeL");
            assert_int_equal(json_array_size(same), 3);
            for (size_t s = 0; s < 3; s++)
                assert_string_equal(json_string_value(json_object_get(json_array_get(same, s), "state_hash")),
                                    json_string_value(json_object_get(json_array_get(steps, s), "state_hash")));
            assert_int_equal(json_array_size(numbers), i == 1 ? 0 : 3);
            assert_true(same_bytes(join(plain, "model.safetensors"), join(out, "model.safetensors")));
            shown[i] = lines(out, "eval_sample");
            json_decref(same);
            json_decref(numbers);
        }
        assert_int_equal(json_array_size(shown[0]), 0);
        assert_int_equal(json_array_size(shown[1]), 12);
        assert_true(json_equal(shown[1], shown[2]));
        for (size_t i = 0; i < 12; i++) {
            json_t *line = json_array_get(shown[1], i);
            int row = (int)json_integer_value(json_object_get(line, "eval_sample"));
            assert_int_equal(row, (int)(i % 4) * ROWS / 4);
            assert_string_equal(json_string_value(json_object_get(line, "expected")), targets[row]);
            assert_non_null(strstr(json_string_value(json_object_get(line, "prompt")), sources[row]));
        }
        json_t *texts = generated(plain, on);
        for (size_t i = 0; i < 4; i++)
            assert_string_equal(json_string_value(json_object_get(json_array_get(shown[1], 8 + i), "generated")),
                                json_string_value(json_object_get(json_array_get(texts, i * ROWS / 4), "text")));
        for (int i = 0; i < 3; i++)
            json_decref(shown[i]);
        json_decref(texts);
        json_decref(steps);
    }
}

/* chrF is greater where it is better; the result has the best one's. */
static void the_best_model_may_be_that_of_the_best_texts(void **state)
{
    (void)state;
    const char *out = train(&kinds[0], "best", one_device(),
                            ARGS("--predict-with-generate", "--max-new-tokens", "9", "--metric-for-best-model", "chrf",
                                 "--load-best-model-at-end"));
    json_t *numbers = lines(out, "eval_chrf"), *result = evaluated(out, one_device()), *line;
    double best = 0;
    size_t i;
    json_array_foreach(numbers, i, line) best = fmax(best, number(line, "eval_chrf"));
    assert_true(best > 0);
    near(number(result, "chrf"), best);
    json_decref(numbers);
    json_decref(result);
}

/* Of a file that is all there, with as many rows at once as fit, and of one whose rows come one by one. */
static void predictions_are_the_texts_of_generate(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const char *out = train(&kinds[k], "predicted", one_device(), NULL), *table = join(folder, "articles.csv");
        const char *const *const ways[] = {ARGS("--data", rows),
                                           ARGS("--data", rows, "--per-device-eval-batch-size", "4"),
                                           ARGS("--data", table, "--source-prefix", "card "), ARGS("--data", "-")};
        json_t *texts = generated(out, one_device());
        FILE *f = fopen(table, "w");
        fputs("n,Article,title\n", f);
        for (int i = 0; i < ROWS; i++) /* the first word stands in the prefix */
            fprintf(f, "%d,%s,x\n", i, strncmp(sources[i], "card ", 5) ? "" : sources[i] + 5);
        assert_int_equal(fclose(f), 0);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            if (w == 3)
                assert_non_null(freopen(rows, "r", stdin));
            expect_snug(0, said(),
                        ARGS("predict", "--model", out, "--json", "--max-new-tokens", "9", "--cache-dir", folder,
                             "--device", one_device()->name, "--dtype", one_device()->dtype),
                        ways[w]);
            size_t n, compared = 0;
            char *text = read_text(said(), &n), *rest = strchr(text, '{'), *line;
            while (rest && (line = strsep(&rest, "\n")) && *line == '{') {
                json_t *o = json_loads(line, 0, NULL);
                size_t row = (size_t)json_integer_value(json_object_get(o, "row"));
                if (w != 2 || !strncmp(sources[row], "card ", 5)) {
                    assert_string_equal(json_string_value(json_object_get(o, "generated")),
                                        json_string_value(json_object_get(json_array_get(texts, row), "text")));
                    compared++;
                }
                json_decref(o);
            }
            free(text);
            assert_int_equal(compared, w == 2 ? 2 : ROWS);
        }
        json_decref(texts);
        expect_snug(2, said(), ARGS("predict", "--model", out, "--text", "a", "--top-k", "2"), NULL);
        assert_true(file_has(said(), "--top-k: no effect on a model that writes a text; leave it out"));
        expect_snug(2, said(), ARGS("predict", "--model", out, "--text", "a", "--text-pair", "b"), NULL);
        assert_true(file_has(said(), "model reads one text, its source; leave it out"));
    }
}

/* Sources of all rows may wait at once, 3 at a time here; a cache of 10 tokens for each: the start and 9 others, the last of which is
 * not read. */
static void the_plan_has_the_cache(void **state)
{
    (void)state;
    expect_snug(0, said(),
                ARGS("plan", "--model", join(folder, "t5"), "--train-data", rows, "--eval-data", rows, "--device",
                     "cpu", "--json", "--cache-dir", folder, "--predict-with-generate", "--max-new-tokens", "9",
                     "--per-device-eval-batch-size", "3"),
                NULL);
    json_t *plan = said_object(), *programs = json_object_get(plan, "programs"), *p;
    double transient = 0;
    size_t i;
    json_array_foreach(programs, i, p) transient = fmax(transient, number(p, "transient_bytes"));
    p = json_array_get(programs, json_array_size(programs) - 1);
    assert_string_equal(json_string_value(json_object_get(p, "name")), "generation");
    assert_true(number(p, "transient_bytes") >= 2 * 3 * 9 * 32 * 4); /* keys and values, 4 heads of 8 numbers */
    assert_true(number(plan, "arena_bytes") == number(plan, "persistent_bytes") + transient);
    json_decref(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_evaluation_is_of_the_texts_of_generate),
        cmocka_unit_test(training_does_not_notice),
        cmocka_unit_test(the_best_model_may_be_that_of_the_best_texts),
        cmocka_unit_test(predictions_are_the_texts_of_generate),
        cmocka_unit_test(the_plan_has_the_cache),
    };
    return cmocka_run_group_tests_name("generated_texts", tests, make_models, drop_models);
}
