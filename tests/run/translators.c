/* Translators whose tokenizer is models of SentencePiece and a vocab.json: the loss over texts and what is written for them are
 * those of transformers (tests/tokenizer/recorded/record_translators.py), and a result has the files that its class needs. */
#include "command.h"

#include <sys/stat.h>

static const struct kind {
    const char *name, *files[3];
} kinds[] = {
    {"marian", {"source.spm", "target.spm", "vocab.json"}},
    {"marian_bpe", {"source.spm", "target.spm", "vocab.json"}},
    {"marian_bytes", {"source.spm", "target.spm", "vocab.json"}},
    {"marian_blanks", {"source.spm", "target.spm", "vocab.json"}},
    {"m2m100", {"sentencepiece.bpe.model", "vocab.json", "tokenizer_config.json"}},
    {"m2m100_wmt21", {"sentencepiece.bpe.model", "vocab.json", "tokenizer_config.json"}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *recorded(const char *name, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "tokenizer/recorded/translators/%s%s%s", name, file ? "/" : "", file ? file : "");
    return fixture(path);
}

/* The recorded rows, and their sources as prompts. */
static json_t *put_rows(const char *name, const char *rows, const char *prompts)
{
    json_t *expected = json_load_file(recorded(name, "expected.json"), 0, NULL), *row;
    FILE *f = fopen(rows, "w"), *p = fopen(prompts, "w");
    size_t i;
    assert_true(expected && f && p);
    json_array_foreach(json_object_get(expected, "rows"), i, row)
    {
        json_t *prompt = json_pack("{sO}", "prompt", json_object_get(row, "source"));
        assert_int_equal(json_dumpf(row, f, JSON_COMPACT) | json_dumpf(prompt, p, JSON_COMPACT), 0);
        fputs("\n", f);
        fputs("\n", p);
        json_decref(prompt);
    }
    assert_int_equal(fclose(f) | fclose(p), 0);
    return expected;
}

static void assert_loss(const char *model, const char *rows, double want)
{
    expect_snug(0, said(), ARGS("eval", "--model", model, "--data", rows, "--json", "--device", "cpu"), NULL);
    json_t *o = said_object();
    double got = json_number_value(json_object_get(o, "loss"));
    if (got < want - 1e-5 || got > want + 1e-5)
        fail_msg("%s: the loss is %.7f, not %.7f", model, got, want);
    json_decref(o);
}

static void assert_written(const char *model, const char *prompts, json_t *want)
{
    size_t n, i = 0;
    expect_snug(
        0, said(),
        ARGS("generate", "--model", model, "--data", prompts, "--json", "--max-new-tokens", "8", "--device", "cpu"),
        NULL);
    char *text = read_text(said(), &n);
    for (char *line, *left = text; (line = strsep(&left, "\n"));) {
        json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
        if (!o)
            continue;
        if (!json_equal(json_object_get(o, "ids"), json_array_get(want, i++)))
            fail_msg("%s: row %zu is %s", model, i - 1, line);
        json_decref(o);
    }
    assert_int_equal(i, json_array_size(want));
    free(text);
}

static void as_transformers(void **state)
{
    const char *rows = join(folder, "rows.jsonl"), *prompts = join(folder, "prompts.jsonl");
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        json_t *expected = put_rows(kinds[k].name, rows, prompts);
        assert_loss(recorded(kinds[k].name, NULL), rows, json_number_value(json_object_get(expected, "loss")));
        assert_written(recorded(kinds[k].name, NULL), prompts, json_object_get(expected, "written"));
        json_decref(expected);
    }
}

static void assert_same_file(const char *one, const char *other)
{
    size_t n[2];
    char *text[2] = {read_text(one, &n[0]), read_text(other, &n[1])};
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    free(text[0]);
    free(text[1]);
}

/* With a learning rate of 0 it is the model that it was, whatever reads the folder. */
static void a_result_has_its_files(void **state)
{
    const char *rows = join(folder, "rows.jsonl"), *prompts = join(folder, "prompts.jsonl");
    (void)state;
    for (size_t k = 0; k < KINDS; k += 4) {
        const char *model = recorded(kinds[k].name, NULL), *out = join(folder, "out"),
                   *exported = join(folder, "exported");
        json_t *expected = put_rows(kinds[k].name, rows, prompts);
        expect_snug(0, said(),
                    ARGS("train", "--model", model, "--train-data", rows, "--eval-data", rows, "--output-dir", out,
                         "--max-steps", "2", "--save-steps", "1", "--learning-rate", "0", "--device", "cpu"),
                    ARGS("--predict-with-generate"));
        assert_true(file_has(said(), "chrf"));
        expect_snug(0, said(), ARGS("export", join(out, "step-00000002"), "--output-dir", exported), NULL);
        for (int i = 0; i < 3; i++) {
            const char *was = recorded(kinds[k].name, kinds[k].files[i]);
            assert_same_file(join(out, kinds[k].files[i]), was);
            assert_same_file(join(exported, kinds[k].files[i]), was);
        }
        assert_loss(out, rows, json_number_value(json_object_get(expected, "loss")));
        assert_written(exported, prompts, json_object_get(expected, "written"));
        remove_tree(out);
        remove_tree(exported);
        json_decref(expected);
    }
}

/* What the options say takes the place of what the files say; a result says it. */
static void languages(void **state)
{
    const char *rows = join(folder, "rows.jsonl"), *prompts = join(folder, "prompts.jsonl"), *out = join(folder, "out"),
               *model = recorded("m2m100", NULL);
    (void)state;
    json_decref(put_rows("m2m100", rows, prompts));
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--train-data", rows, "--output-dir", out, "--max-steps", "1",
                     "--source-lang", "cs", "--target-lang", "zu", "--device", "cpu"),
                NULL);
    json_t *o = json_load_file(join(out, "tokenizer_config.json"), 0, NULL),
           *g = json_load_file(join(out, "generation_config.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "src_lang")), "cs");
    assert_string_equal(json_string_value(json_object_get(o, "tgt_lang")), "zu");
    assert_int_equal(json_integer_value(json_object_get(g, "forced_bos_token_id")), 175 + 99); /* the last one */
    json_decref(o);
    json_decref(g);
    expect_snug(3, said(), ARGS("eval", "--model", model, "--data", rows, "--target-lang", "__de__"), NULL);
    assert_true(file_has(said(), "vocab.json: has no language \"__de__\"; write one as it does, as in \"en\""));
    remove_tree(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_transformers), cmocka_unit_test(a_result_has_its_files),
                                       cmocka_unit_test(languages)};
    return cmocka_run_group_tests_name("translators", tests, open_folder, close_folder);
}
