/* --source-lang and --target-lang: what a translator's result and what `snug export` makes of a checkpoint say of them, and the
 * language that generated texts begin with. */
#include "command.h"

#include <sys/stat.h>
#include <unistd.h>

static const struct kind {
    const char *name, *key; /* a folder of tests/tokenizer/languages; where generation_config.json has the language */
    int romanian, french;   /* their ids */
} kinds[] = {{"mbart", "decoder_start_token_id", 39, 27}, {"mbart50", "forced_bos_token_id", 56, 31}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put_file(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(join(dir, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static const char *make_model(const struct kind *k)
{
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    const char *dir = join(folder, k->name);
    char from[64];
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "tokenizer/languages/%s/%s", k->name, files[i]);
        assert_int_equal(symlink(fixture(from), join(dir, files[i])), 0);
    }
    put_file(dir, "config.json",
             "{\"model_type\":\"mbart\",\"architectures\":[\"MBartForConditionalGeneration\"],\"vocab_size\":80,"
             "\"d_model\":16,\"encoder_layers\":1,\"decoder_layers\":1,\"encoder_attention_heads\":2,"
             "\"decoder_attention_heads\":2,\"encoder_ffn_dim\":24,\"decoder_ffn_dim\":24,\"dropout\":0.0,\"scale_"
             "embedding\":true,"
             "\"max_position_embeddings\":40,\"bos_token_id\":0,\"eos_token_id\":2,\"pad_token_id\":1}");
    return dir;
}

static void assert_says(const char *dir, const char *file, const char *key, json_t *want)
{
    json_t *o = json_load_file(join(dir, file), 0, NULL);
    if (!json_equal(json_object_get(o, key), want))
        fail_msg("%s/%s: %s is not %s", dir, file, key, json_dumps(want, JSON_ENCODE_ANY));
    json_decref(o);
    json_decref(want);
}

static void assert_languages(const char *dir, const struct kind *k)
{
    assert_says(dir, "tokenizer_config.json", "src_lang", json_string("de_DE"));
    assert_says(dir, "tokenizer_config.json", "tgt_lang", json_string("ro_RO"));
    assert_says(dir, "tokenizer_config.json", "eos_token", json_string("</s>")); /* as before */
    assert_says(dir, "generation_config.json", k->key, json_integer(k->romanian));
}

/* What a prompt gives. */
static json_t *generated(const char *model, const char *target)
{
    size_t n;
    expect_snug(0, said(),
                ARGS("generate", "--model", model, "--prompt", "the bank", "--json", "--max-new-tokens", "4",
                     "--device", "cpu"),
                target ? ARGS("--target-lang", target) : NULL);
    char *text = read_text(said(), &n);
    json_t *o = json_loads(strchr(text, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    json_t *ids = json_incref(json_object_get(o, "ids"));
    json_decref(o);
    free(text);
    return ids;
}

/* Of a result, that of its files; another one by the option. mBART-50 writes the language; the older model reads it first, and a model
 * that has learned nothing then says what it reads. */
static void assert_generates_in(const char *model, const struct kind *k)
{
    json_t *own = generated(model, NULL), *same = generated(model, "ro_RO"), *other = generated(model, "fr_XX");
    assert_int_equal(json_integer_value(json_array_get(own, 0)), k->romanian);
    assert_int_equal(json_integer_value(json_array_get(other, 0)), k->french);
    assert_true(json_equal(own, same));
    json_decref(own);
    json_decref(same);
    json_decref(other);
}

static void a_result_says_its_languages(void **state)
{
    const char *rows = join(folder, "rows.jsonl");
    (void)state;
    put_file(folder, "rows.jsonl",
             "{\"source\":\"the bank\",\"target\":\"a card\"}\n{\"source\":\"a card\",\"target\":\"the.\"}\n");
    for (size_t k = 0; k < KINDS; k++) {
        const char *model = make_model(&kinds[k]), *out = join(folder, "out"), *exported = join(folder, "exported");
        expect_snug(0, said(),
                    ARGS("train", "--model", model, "--init-from-config", "--train-data", rows, "--output-dir", out,
                         "--source-lang", "de_DE", "--target-lang", "ro_RO", "--max-steps", "2", "--save-steps", "1"),
                    ARGS("--device", "cpu", "--learning-rate", "0"));
        assert_languages(out, &kinds[k]);
        assert_generates_in(out, &kinds[k]);
        expect_snug(0, said(), ARGS("export", join(out, "step-00000002"), "--output-dir", exported), NULL);
        assert_languages(exported, &kinds[k]);
        expect_snug(0, said(), ARGS("export", join(out, "step-00000002"), "--output-dir", join(folder, "again")),
                    ARGS("--model", exported)); /* which has them in its files alone */
        remove_tree(out);
        remove_tree(exported);
        remove_tree(join(folder, "again"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_result_says_its_languages)};
    return cmocka_run_group_tests_name("languages", tests, open_folder, close_folder);
}
