/* Question answering through the command: a small model learns a few questions by heart, and answers them from the context. */
#include "command.h"

#include <sys/stat.h>
#include <unistd.h>

static const char config[] =
    "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"vocab_size\":367,\"hidden_size\":32,\"num_hidden_"
    "layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":64,\"max_position_embeddings\":64,\"hidden_dropout_prob\":0,"
    "\"attention_probs_dropout_prob\":0,\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}}";

static void copy(const char *from, const char *to)
{
    size_t n;
    char *text = read_text(from, &n);
    FILE *f = fopen(to, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(text);
}

static const char *make_model(void)
{
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json", "vocab.txt"};
    const char *model = join(folder, "model");
    assert_int_equal(mkdir(model, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        copy(fixture(join("tokenizer/recorded/uncased", files[i])), join(model, files[i]));
    write_text(model, "config.json", config);
    return model;
}

static double number(const char *name)
{
    json_t *o = said_object();
    double x = json_number_value(json_object_get(o, name));
    json_decref(o);
    return x;
}

static void questions_are_learned(void **state)
{
    (void)state;
    const char *model = make_model(), *data = fixture("data/questions/questions.jsonl"), *out = join(folder, "out");
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = device(d);
        if (!strcmp(on->name, "reference"))
            continue;
        const char *const *where =
            ARGS("--device", on->name, "--dtype", on->dtype, "--max-length", "48", "--doc-stride", "16", "--json");
        remove_tree(out);
        expect_snug(0, said(),
                    ARGS("train", "--model", model, "--init-from-config", "--train-data", data, "--output-dir", out,
                         "--max-steps", "400", "--learning-rate", "3e-3", "--batch-size", "8", "--save-strategy", "no"),
                    where);
        assert_true(file_has(said(), "questions: 9; windows over their contexts, of at most 48 tokens: "));
        assert_true(file_has(join(out, "config.json"), "BertForQuestionAnswering"));
        assert_false(file_has(join(out, "config.json"), "id2label")); /* of three labels: the head has two outputs */
        expect_snug(0, said(), ARGS("eval", "--model", out, "--data", data), where);
        assert_true(number("exact_match") == 100 && number("f1") == 100 && number("loss") < 0.05);
        expect_snug(0, said(), ARGS("predict", "--model", out, "--data", data, "--version-2-with-negative"), where);
        assert_true(file_has(said(), "{\"row\":0,\"id\":\"q0\",\"answer\":\"Paris\","));
        assert_true(file_has(said(), "{\"row\":3,\"id\":\"q3\",\"answer\":\"\","));
        assert_true(file_has(said(), "{\"row\":5,\"id\":\"q5\",\"answer\":\"Crème brûlée\","));
        expect_snug(0, said(),
                    ARGS("predict", "--model", out, "--text", "Short?", "--text-pair", "Yes", "--top-k", "2"), where);
        assert_true(file_has(said(), "{\"row\":0,\"answer\":\"Yes\",\"probability\":"));
        expect_snug(2, said(), ARGS("predict", "--model", out, "--text", "Short?"), where);
        assert_true(file_has(said(), "--text: 1 questions and 0 contexts; give each --text"));
        expect_snug(2, said(),
                    ARGS("train", "--model", out, "--train-data", data, "--eval-split", "0.5", "--output-dir",
                         join(folder, "other")),
                    where);
        assert_true(file_has(said(), "--eval-split: questions have several rows each"));
        expect_snug(0, said(),
                    ARGS("train", "--model", out, "--train-data", data, "--use-peft", "--max-steps", "2",
                         "--output-dir", join(folder, "adapter"), "--device", on->name, "--dtype", on->dtype,
                         "--max-length", "40"),
                    NULL); /* without a stride: one that windows of 40 tokens have room for */
        assert_true(file_has(join(folder, "adapter/adapter_config.json"), "\"QUESTION_ANS\""));
        assert_true(file_has(join(folder, "adapter/adapter_config.json"), "\"qa_outputs\""));
        remove_tree(join(folder, "adapter"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(questions_are_learned)};
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
