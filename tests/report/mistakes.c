/* The worst mistakes against scikit-learn's losses (mistakes.py), and on the page of a run on texts. */
#include "../run/command.h"

#include "output/evaluation.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *file = json_load_file(path, 0, &e);
    if (!file)
        fail_msg("%s: %s", path, e.text);
    return file;
}

static void evaluate(const json_t *c, struct metrics *m)
{
    static const char *const kinds[] = {"single_label", "multi_label", "regression"};
    const json_t *outputs = json_object_get(c, "outputs"), *labels = json_object_get(c, "labels");
    struct metrics_setup s = {.rows = (int64_t)json_array_size(outputs),
                              .width = json_integer_value(json_object_get(c, "width")),
                              .threshold = 0.5};
    while (strcmp(kinds[s.kind], json_string_value(json_object_get(c, "kind"))) != 0)
        s.kind++;
    assert_int_equal(metrics_open(m, &s, NULL), 0);
    for (int64_t r = 0; r < s.rows; r++) {
        const json_t *label = json_array_get(labels, (size_t)r);
        double z[8];
        float values[8];
        int32_t class = (int32_t)json_integer_value(label);
        for (size_t i = 0; i < (size_t)s.width; i++) {
            z[i] = json_number_value(json_array_get(json_array_get(outputs, (size_t)r), i));
            values[i] = (float)json_number_value(json_array_get(label, i));
        }
        if (s.kind == METRICS_SINGLE_LABEL)
            metrics_add_classes(m, &r, z, &class, 1);
        else
            metrics_add_values(m, &r, z, values, 1);
    }
    metrics_finish(m);
}

static void as_recorded(void **state)
{
    json_t *file = load(fixture("report/mistakes.json")), *c, *v;
    size_t i, k;
    (void)state;
    json_array_foreach(json_object_get(file, "cases"), i, c)
    {
        struct metrics m;
        struct str text = {0};
        const json_t *want = json_object_get(c, "mistakes");
        evaluate(c, &m);
        assert_int_equal(evaluation_text(&m, NULL, NULL, 1, &text, NULL), 0);
        json_t *made = json_loads(str_text(&text), 0, NULL), *mistakes = json_object_get(made, "mistakes");
        assert_int_equal(json_array_size(mistakes), json_array_size(want));
        json_array_foreach(mistakes, k, v)
        {
            const json_t *pair = json_array_get(want, k);
            double loss = json_number_value(json_array_get(pair, 1));
            assert_int_equal(json_integer_value(json_object_get(v, "row")),
                             json_integer_value(json_array_get(pair, 0)));
            if (fabs(json_number_value(json_object_get(v, "loss")) - loss) > 1e-8 * fmax(1, loss))
                fail_msg("%s, mistake %zu: its loss is not %.10g", json_string_value(json_object_get(c, "name")), k,
                         loss);
        }
        json_decref(made);
        str_free(&text);
        metrics_close(&m);
    }
    assert_int_equal(i, 6);
    json_decref(file);
}

/* Losses that are no number come first, and rows of the same loss in their order. */
static void ties_and_nan(void **state)
{
    (void)state;
    struct metrics_setup s = {.kind = METRICS_SINGLE_LABEL, .rows = 6, .width = 2};
    const double logits[6][2] = {{1, 0}, {2, 0}, {1, 0}, {NAN, NAN}, {0, 5}, {2, 0}};
    const int32_t labels[6] = {1, 1, 1, 1, 1, -1};
    const int64_t want[] = {3, 1, 0};
    struct metrics m;
    struct mistake list[3];
    assert_int_equal(metrics_open(&m, &s, NULL), 0);
    for (int64_t r = 0; r < 6; r++)
        metrics_add_classes(&m, &r, logits[r], &labels[r], 1);
    metrics_finish(&m);
    assert_int_equal(metrics_mistakes(&m, list, 3), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(list[i].row, want[i]);
    metrics_close(&m);
}

/* A model folder with a tokenizer, and texts of which each has a word of its own. */
static void texts_are_those_of_the_rows(void **state)
{
    (void)state;
    static const char *const words[] = {"money", "bank", "card", "cream", "world", "account"};
    const char *model = join(folder, "model"), *rows = join(folder, "rows.csv"), *out = join(folder, "run");
    size_t n, i;
    json_t *v;
    assert_int_equal(mkdir(model, 0700), 0);
    write_text(model, "config.json",
               "{\"model_type\": \"distilbert\", \"vocab_size\": 367, \"dim\": 16, \"hidden_dim\": 16, \"n_heads\": 2, "
               "\"n_layers\": 1, \"max_position_embeddings\": 32}");
    char *tokenizer = read_text(fixture("tokenizer/recorded/uncased/tokenizer.json"), &n);
    write_text(model, "tokenizer.json", tokenizer);
    free(tokenizer);
    FILE *f = fopen(rows, "w");
    assert_non_null(f);
    fprintf(f, "text,label\n");
    for (i = 0; i < 6; i++)
        fprintf(f, "The %s is new,%s\n", words[i], i % 2 ? "<odd>" : "even");
    assert_int_equal(fclose(f), 0);
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--init-from-config", "--train-data", rows, "--eval-data", rows,
                     "--eval-strategy", "epoch", "--max-steps", "1", "--batch-size", "6", "--device", "cpu",
                     "--threads", "1", "--save-strategy", "no", "--output-dir", out),
                NULL);
    json_t *file = load(join(out, "last_evaluation.json")), *mistakes = json_object_get(file, "mistakes");
    char *page = read_text(join(out, "report.html"), &n), text[128];
    assert_true(json_array_size(mistakes) > 0);
    json_array_foreach(mistakes, i, v)
    {
        long long row = json_integer_value(json_object_get(v, "row"));
        const char *label = json_string_value(json_object_get(v, "label"));
        snprintf(text, sizeof text, "the %s is new", words[row]);
        assert_string_equal(json_string_value(json_object_get(v, "text")), text);
        assert_string_equal(label, row % 2 ? "<odd>" : "even");
        assert_string_not_equal(json_string_value(json_object_get(v, "predicted")), label);
        assert_non_null(strstr(page, text));
    }
    assert_non_null(strstr(page, "<h2>Worst mistakes</h2>"));
    assert_null(strstr(page, "<odd>"));
    free(page);
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_recorded),
        cmocka_unit_test(ties_and_nan),
        cmocka_unit_test(texts_are_those_of_the_rows),
    };
    return cmocka_run_group_tests_name("mistakes", tests, open_folder, close_folder);
}
