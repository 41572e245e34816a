/* Sentence-embedding models as bases: what lies behind the encoder goes into the result, byte for byte, and out of a folder that
 * another model is written into. */
#include "command.h"

#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name, *text;
} parts[] = {
    {"modules.json",
     "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
     "{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},"
     "{\"idx\":2,\"name\":\"2\",\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]"},
    {"sentence_bert_config.json", "{\"max_seq_length\": 12, \"do_lower_case\": false}\n"},
    {"config_sentence_transformers.json", "{\"__version__\": {\"sentence_transformers\": \"2.0.0\"}}"},
    {"1_Pooling/config.json", "{\"word_embedding_dimension\": 16, \"pooling_mode_mean_tokens\": true}\n"},
    {"2_Normalize/config.json", "{}"},
    {"2_Dense/config.json", "{\"in_features\": 16, \"out_features\": 4}"},
    {"2_Dense/model.safetensors", "not read, only copied"},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* folder/m: a base of BERT's with all parts. */
static const char *make_model(const char *golden)
{
    const char *m = join(folder, "m");
    remove_tree(m);
    assert_int_equal(mkdir(m, 0777), 0);
    assert_int_equal(mkdir(join(m, "1_Pooling"), 0777), 0);
    assert_int_equal(mkdir(join(m, "2_Dense"), 0777), 0);
    assert_int_equal(mkdir(join(m, "2_Normalize"), 0777), 0);
    assert_int_equal(symlink(join(fixture(golden), "config.json"), join(m, "config.json")), 0);
    assert_int_equal(symlink(join(fixture(golden), "model.safetensors"), join(m, "model.safetensors")), 0);
    for (size_t i = 0; i < N_PARTS; i++)
        write_text(m, parts[i].name, parts[i].text);
    return m;
}

static void train(const char *model, const char *out, const char *const *more)
{
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--train-data", "synthetic:8x4", "--output-dir", out, "--max-steps",
                     "1", "--learning-rate", "1e-3"),
                more);
}

static void modules_go_along(void **state)
{
    static const char *const goldens[] = {"golden/bert", "golden/bert_mlm"};
    (void)state;
    for (size_t g = 0; g < 2; g++) {
        const char *m = make_model(goldens[g]), *out = join(folder, "out");
        remove_tree(out);
        train(m, out, NULL);
        assert_true(file_has(said(), "a sentence-embedding model; its encoder is trained"));
        assert_true(file_has(said(), "labels come from a head") == (g == 0));
        assert_false(file_has(said(), "is not known here"));
        for (size_t i = 0; i < N_PARTS; i++)
            assert_true(same_bytes(join(m, parts[i].name), join(out, parts[i].name)));
        train(out, join(folder, "again"), NULL); /* of a result nobody needs to be told */
        assert_false(file_has(said(), "sentence-embedding"));
        assert_true(same_bytes(join(folder, "again/1_Pooling/config.json"), join(m, "1_Pooling/config.json")));
        remove_tree(join(folder, "again"));
    }
}

static void another_model_takes_them_away(void **state)
{
    (void)state;
    const char *out = join(folder, "out");
    remove_tree(out);
    train(make_model("golden/bert"), out, NULL);
    write_text(out, "2_Dense/mine.txt", "kept");
    train(fixture("golden/bert"), out, ARGS("--overwrite-output-dir"));
    for (size_t i = 0; i < N_PARTS; i++)
        assert_int_not_equal(access(join(out, parts[i].name), F_OK), 0);
    assert_int_not_equal(access(join(out, "1_Pooling"), F_OK), 0);
    assert_int_equal(access(join(out, "2_Dense/mine.txt"), F_OK), 0);
}

static void what_is_not_carried_is_said(void **state)
{
    (void)state;
    const char *m = make_model("golden/bert");
    write_text(m, "modules.json", "[{\"path\": \"\"}, {\"path\": \"2_Normalize\"}, {\"path\": \"4_Whitening\"}]");
    assert_int_equal(mkdir(join(m, "4_Whitening"), 0777), 0);
    remove_tree(join(folder, "out"));
    train(m, join(folder, "out"), NULL);
    assert_true(file_has(said(), "the module '4_Whitening' is not known here and not in the result"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_go_along),
        cmocka_unit_test(another_model_takes_them_away),
        cmocka_unit_test(what_is_not_carried_is_said),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
