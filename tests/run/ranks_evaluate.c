/* --ranks in evaluation and prediction: the numbers and rows of several ranks are those of one, to the last bit. */
#include "runs_help.h"

/* Each kind of result: classes, labels, numbers, tags, tokens, answers; batches of other sizes, and fewer batches than ranks. */
static const char *const models[] = {"bert", "bert_multilabel", "bert_regression", "bert_tags", "gpt2", "bert_mlm",
                                     "t5"};
static const char *const batches[] = {"1", "2", "4"};
enum { MODELS = sizeof models / sizeof *models, BATCHES = sizeof batches / sizeof *batches };

static json_t *evaluated(const struct device *on, const char *model, const char *data, const char *batch,
                         const char *ranks)
{
    expect_snug(0, said(),
                ARGS("eval", "--model", model, "--data", data, "--device", on->name, "--json",
                     "--per-device-eval-batch-size", batch),
                ARGS("--threads", "1", is_host(on) ? "--ranks" : "--gpus", ranks));
    json_t *o = said_object();
    assert_true(json_is_number(json_object_get(o, "loss")));
    json_object_del(o, "seconds");
    json_object_del(o, "samples_per_second");
    return o;
}

static void several_ranks_evaluate_as_one(void **state)
{
    (void)state;
    for (int m = 0; m < MODELS; m++)
        for (int b = 0; b < BATCHES; b++) {
            char name[64];
            snprintf(name, sizeof name, "golden/%s", models[m]);
            const char *model = fixture(name), *data = join(model, "inputs.safetensors");
            json_t *one = evaluated(device(0), model, data, batches[b], "1");
            for (int r = 2; r < 6; r++) {
                char ranks[8];
                snprintf(ranks, sizeof ranks, "%d", r);
                json_t *several = evaluated(device(0), model, data, batches[b], ranks);
                if (!json_equal(one, several))
                    fail_msg("%s, batches of %s: %s ranks say %s, one %s", models[m], batches[b], ranks,
                             json_dumps(several, 0), json_dumps(one, 0));
                json_decref(several);
            }
            json_decref(one);
        }
}

static char *predicted(const char *model, const char *const *input, const char *ranks)
{
    size_t n;
    expect_snug(0, said(),
                ARGS("predict", "--model", model, "--json", "--device", "cpu", "--threads", "1", "--ranks", ranks),
                input);
    return read_text(said(), &n);
}

/* In the order of rows, whoever computed them. */
static void several_ranks_predict_as_one(void **state)
{
    (void)state;
    for (int m = 0; m < 4; m++) { /* a language model predicts no rows */
        char name[64];
        snprintf(name, sizeof name, "golden/%s", models[m]);
        const char *model = fixture(name);
        const char *const *input =
            ARGS("--data", join(model, "inputs.safetensors"), "--per-device-eval-batch-size", "1");
        char *one = predicted(model, input, "1"), *two = predicted(model, input, "2"),
             *three = predicted(model, input, "3");
        assert_true(strlen(one) > 100);
        assert_string_equal(one, two);
        assert_string_equal(one, three);
        free(one);
        free(two);
        free(three);
    }
}

/* While a run goes on: its log, the best step and the weights do not tell who evaluated. */
static void evaluations_of_a_run_are_of_all_ranks(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        if (!is_host(device(d)))
            continue;
        const char *const *evaluating =
            ARGS(MODEL, DROPOUT, "--logging-steps", "1", "--max-steps", "4", "--eval-data", other_rows,
                 "--eval-strategy", "steps", "--eval-steps", "2", "--per-device-eval-batch-size", "3", "--save-steps",
                 "2", "--load-best-model-at-end", "--batch-size", "4", "--ranks", "3");
        const char *one = train("one", device(d), evaluating, NULL);
        assert_same_run(one, train("two", device(d), evaluating, NULL));
        /* The model of one rank that was trained so says the same of the rows as the run's last evaluation. */
        json_t *log = read_log(one), *last = json_array_get(log, json_array_size(log) - 1);
        const char *step = join(one, "step-00000004");
        expect_snug(0, said(), ARGS("export", step, "--output-dir", join(folder, "exported")), NULL);
        json_t *alone = evaluated(device(d), join(folder, "exported"), other_rows, "3", "1");
        if (is_fp32(device(d)) && !strcmp(device(d)->name, "cpu")) {
            assert_true(fabs(number(last, "eval_loss") - number(alone, "loss")) <= 1e-8 * number(alone, "loss"));
            assert_true(number(last, "eval_accuracy") == number(alone, "accuracy"));
        }
        remove_tree(join(folder, "exported"));
        json_decref(alone);
        json_decref(log);
    }
}

/* A row that is not finite is named, whichever rank had it: here the rows with token 6. */
static void a_bad_row_is_named(void **state)
{
    (void)state;
    char first[512];
    const char *model = make_poisoned("bert.embeddings.word_embeddings.weight", 6 * 16, NAN);
    for (int r = 1; r < 4; r++) {
        char ranks[8];
        size_t n;
        snprintf(ranks, sizeof ranks, "%d", r);
        expect_snug(7, said(),
                    ARGS("eval", "--model", model, "--data", other_rows, "--device", "cpu",
                         "--per-device-eval-batch-size", "1", "--ranks", ranks),
                    NULL);
        char *text = read_text(said(), &n), *line = strstr(text, "row ");
        assert_non_null(line);
        if (r == 1)
            snprintf(first, sizeof first, "%s", line);
        assert_string_equal(first, line);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_ranks_evaluate_as_one), cmocka_unit_test(several_ranks_predict_as_one),
        cmocka_unit_test(evaluations_of_a_run_are_of_all_ranks), cmocka_unit_test(a_bad_row_is_named)};
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
