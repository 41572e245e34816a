/* --class-weights: what balanced is (scikit-learn's numbers, tests/train/record_class_weights.py), which files are taken, and that a
 * resumed run must have the same. What torch computes with weights is in golden.c. */
#include "here.h"

#include "train/session/class_weights.h"

#include <math.h>

static void balanced_is_that_of_scikit_learn(void **state)
{
    (void)state;
    json_t *file = json_load_file(fixture("train/class_weights.json"), 0, NULL), *test, *count;
    size_t i, k;
    assert_int_equal(json_array_size(json_object_get(file, "cases")), 6);
    json_array_foreach(json_object_get(file, "cases"), i, test)
    {
        int64_t counts[8], rows = 0;
        float weights[8];
        json_array_foreach(json_object_get(test, "counts"), k, count) rows += counts[k] = json_integer_value(count);
        class_weights_balance(counts, (int32_t)k, rows, weights);
        while (k-- > 0)
            assert_true(weights[k] == (float)json_number_value(json_array_get(json_object_get(test, "weights"), k)));
    }
    json_decref(file);
}

static const char *rows;

/* 24 rows of 12 tokens: 18 of class 0, 4 of class 1, 2 of class 2. */
static void make_unbalanced(void)
{
    struct st_tensor t[2] = {{.name = "input_ids", .dtype = DT_I64, .ndim = 2, .shape = {24, 12}},
                             {.name = "labels", .dtype = DT_I64, .ndim = 1, .shape = {24}}};
    int64_t ids[24 * 12], labels[24];
    struct st_writer w;
    for (int i = 0; i < 24 * 12; i++)
        ids[i] = 5 + (i * 7 + i / 12) % 30;
    for (int i = 0; i < 24; i++)
        labels[i] = i % 12 == 5 ? 2 : i % 4 == 1 ? 1 : 0;
    rows = join(folder, "unbalanced.safetensors");
    assert_int_equal(st_create(&io_posix, rows, t, 2, NULL, 0, false, &w, NULL), SNUG_OK);
    assert_int_equal(st_write(&w, &t[0], 0, ids, sizeof ids, NULL), SNUG_OK);
    assert_int_equal(st_write(&w, &t[1], 0, labels, sizeof labels, NULL), SNUG_OK);
    assert_int_equal(st_finish(&w, NULL, NULL), SNUG_OK);
}

static const char *train(const char *name, const char *const *more, const char *const *last)
{
    const char *out = join(folder, name);
    train_to_the_end(LISTS(ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, "--device", "cpu",
                                "--threads", "1", "--learning-rate", "1e-2", "--max-steps", "8", "--save-steps", "3",
                                "--logging-steps", "1", "--log-hash", "true", "--output-dir", out),
                           more, last));
    return out;
}

#define FOUR ARGS("--batch-size", "4")

static bool same_model(const char *a, const char *b)
{
    return same_bytes(join(a, "model.safetensors"), join(b, "model.safetensors"));
}

static void assert_near_logs(const char *a, const char *b)
{
    json_t *x = read_log(a), *y = read_log(b);
    assert_int_equal(json_array_size(x), json_array_size(y));
    for (size_t i = 0; i < json_array_size(x); i++) {
        double p = json_number_value(json_object_get(json_array_get(x, i), "loss"));
        double q = json_number_value(json_object_get(json_array_get(y, i), "loss"));
        assert_true(fabs(p - q) <= 1e-5 * fabs(p));
    }
    json_decref(x);
    json_decref(y);
}

/* 24 / (3 * 18), 24 / (3 * 4) and 24 / (3 * 2), whoever counts; weights of 1 are none, but for rounding. */
static void a_file_says_the_same_as_balanced(void **state)
{
    (void)state;
    int counts[3] = {0};
    for (int i = 0; i < 24; i++)
        counts[i % 12 == 5 ? 2 : i % 4 == 1 ? 1 : 0]++;
    char text[160];
    snprintf(text, sizeof text, "{\"LABEL_0\": %.17g, \"LABEL_1\": %.17g, \"LABEL_2\": %.17g}", 8.0 / counts[0],
             8.0 / counts[1], 8.0 / counts[2]);
    write_text(folder, "file.json", text);
    write_text(folder, "ones.json", "{\"LABEL_0\": 1, \"LABEL_1\": 1.0, \"LABEL_2\": 1}");
    const char *file = join(folder, "file.json"), *ones = join(folder, "ones.json");
    const char *a = train("balanced", ARGS("--class-weights", "balanced"), FOUR);
    assert_non_null(strstr(notes, "class weights: from 0.4444 (LABEL_0) to 4 (LABEL_2)"));
    const char *b = train("file", ARGS("--class-weights", file), FOUR);
    const char *without = train("without", ARGS("--seed", "42"), FOUR),
               *one = train("ones", ARGS("--class-weights", ones), FOUR);
    assert_true(same_model(a, b));
    assert_false(same_model(a, without));
    assert_near_logs(without, one);

    /* however the batch is cut */
    const char *cut = train("cut", ARGS("--class-weights", "balanced", "--label-smoothing-factor", "0.1"),
                            ARGS("--batch-size", "4", "--gradient-accumulation-steps", "2"));
    const char *finer = train("finer", ARGS("--class-weights", "balanced", "--label-smoothing-factor", "0.1"),
                              ARGS("--batch-size", "1", "--gradient-accumulation-steps", "8"));
    assert_near_logs(cut, finer);
    /* a resumed run has the same bits, and no other weights */
    const char *from = join(a, "step-00000003"), *resumed = join(folder, "resumed");
    train("resumed", ARGS("--class-weights", file), ARGS("--batch-size", "4", "--resume-from-checkpoint", from));
    assert_true(same_model(a, resumed));
    remove_tree(resumed);
    struct snug_summary summary;
    struct snug_err err;
    const char *const *const others[] = {ARGS("--class-weights", ones), ARGS("--seed", "42")};
    for (int i = 0; i < 2; i++) {
        int code = train_here(LISTS(ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, "--device",
                                         "cpu", "--threads", "1", "--learning-rate", "1e-2", "--batch-size", "4",
                                         "--max-steps", "8", "--output-dir", resumed),
                                    ARGS("--resume-from-checkpoint", from), others[i]),
                              NEVER, &summary, &err);
        assert_int_equal(code, SNUG_ERR_CHECKPOINT);
        assert_non_null(strstr(err.text, "--class-weights: the weights are not those of"));
    }
}

/* torch's CrossEntropyLoss(weight=w) of transformers' logits: the sum of w[y] (log sum exp z - z[y]) over words with a tag y, by the sum of
 * their weights. */
static double weighted_loss(const char *model, const double weights[3])
{
    struct st_file in, out;
    int64_t n, m;
    open_tensors(join(model, "inputs.safetensors"), &in);
    open_tensors(join(model, "expected.safetensors"), &out);
    struct st_tensor t = *st_find(&in, "labels");
    int64_t *labels = malloc((size_t)t.bytes);
    assert_int_equal(st_read(&in, &t, labels, NULL), SNUG_OK);
    double *z = read_tensor(&out, "logits", &m), loss = 0, all = 0;
    n = st_elements(&t);
    assert_int_equal(m, 3 * n);
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] < 0)
            continue;
        double sum = exp(z[3 * i]) + exp(z[3 * i + 1]) + exp(z[3 * i + 2]), w = weights[labels[i]];
        loss += w * (log(sum) - z[3 * i + labels[i]]);
        all += w;
    }
    free(z);
    free(labels);
    st_close(&in);
    st_close(&out);
    return loss / all;
}

/* Tags of words have classes, too: the first step's loss, before any weight has moved, of the batch in one piece and in four. */
static void tags_have_weights(void **state)
{
    static const char *const cuts[2][4] = {{"--batch-size", "4", "--gradient-accumulation-steps", "1"},
                                           {"--batch-size", "1", "--gradient-accumulation-steps", "4"}};
    (void)state;
    const char *model = fixture("golden/bert_tags"), *out = join(folder, "tags");
    write_text(folder, "tags.json", "{\"LABEL_0\": 0.25, \"LABEL_1\": 1.5, \"LABEL_2\": 3}");
    double want = weighted_loss(model, (const double[]){0.25, 1.5, 3});
    assert_true(fabs(want - weighted_loss(model, (const double[]){1, 1, 1})) > 1e-2 * want);
    for (int i = 0; i < 2; i++) {
        remove_tree(out);
        train_to_the_end(
            LISTS(ARGS("--model", model, "--train-data", join(model, "inputs.safetensors"), "--device", "cpu",
                       "--threads", "1", "--max-steps", "1", "--logging-steps", "1", "--output-dir", out),
                  ARGS("--class-weights", join(folder, "tags.json"), "--weight-decay", "0"),
                  ARGS(cuts[i][0], cuts[i][1], cuts[i][2], cuts[i][3])));
        json_t *log = read_log(out);
        double got = json_number_value(json_object_get(json_array_get(log, 0), "loss"));
        if (!(fabs(got - want) <= 1e-5 * want))
            fail_msg("%g, not %g", got, want);
        json_decref(log);
    }
    remove_tree(out);
    train_to_the_end(LISTS(ARGS("--model", model, "--train-data", join(model, "inputs.safetensors"), "--device", "cpu",
                                "--threads", "1", "--max-steps", "1", "--output-dir", out),
                           ARGS("--class-weights", "balanced"), ARGS("--batch-size", "4")));
    assert_non_null(strstr(notes, "class weights: from "));
}

static int begin(void **state)
{
    int code = open_folder(state);
    make_unbalanced();
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_is_that_of_scikit_learn),
        cmocka_unit_test(a_file_says_the_same_as_balanced),
        cmocka_unit_test(tags_have_weights),
    };
    return cmocka_run_group_tests_name("class_weights", tests, begin, close_folder);
}
