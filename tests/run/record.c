/* What a result says of its run: training_args.json gives the same bits again, so does the command in the model card, and
 * a card that is somebody's is left alone. */
#include "few_rows.h"
#include "here.h"

#include <unistd.h>

/* Different from the defaults in options of every type. */
#define UNUSUAL                                                                                                        \
    "--model", fixture("golden/trainer/init"), "--train-data", rows, "--eval-data", rows, "--eval-strategy", "steps",  \
        "--eval-steps", "3", "--hidden-dropout-prob", "0.1", "--learning-rate", "0.0012345678901234567",               \
        "--lr-scheduler-type", "cosine", "--lr-scheduler-kwargs", "num_cycles=0.25", "--warmup-steps", "0.2",          \
        "--optim", "sgd", "--optim-args", "momentum=0.9,nesterov=true", "--batch-size", "3",                           \
        "--gradient-accumulation-steps", "2", "--seed", "18446744073709551615", "--data-seed", "7", "--max-grad-norm", \
        "0.3", "--memory-budget", "2GiB", "--label-smoothing-factor", "0.05", "--num-train-epochs", "1.5",             \
        "--logging-steps", "1", "--device", "cpu", "--threads", "1", "--train-sampling-strategy", "group_by_length"

static void assert_same(const char *x, const char *y)
{
    json_t *a = read_log(x), *b = read_log(y);
    assert_true(json_equal(a, b));
    assert_true(json_array_size(a) > 5);
    json_decref(a);
    json_decref(b);
    assert_true(same_bytes(join(x, "model.safetensors"), join(y, "model.safetensors")));
}

static void the_same_run_by_its_record(void **state)
{
    (void)state;
    const char *out = join(folder, "it's out"), *again = join(folder, "again"),
               *record = join(out, "training_args.json");
    expect_snug(0, said(), ARGS("train", UNUSUAL), ARGS("--output-dir", out));
    expect_snug(0, said(), ARGS("train", "--config", record, "--output-dir", again), NULL);
    assert_same(out, again);
    json_t *x = json_load_file(record, 0, NULL), *y = json_load_file(join(again, "training_args.json"), 0, NULL);
    assert_true(json_real_value(json_object_get(x, "learning_rate")) == 0.0012345678901234567);
    assert_string_equal(json_string_value(json_object_get(x, "seed")), "18446744073709551615");
    assert_int_equal(json_integer_value(json_object_get(x, "per_device_train_batch_size")), 3);
    json_object_del(x, "output_dir");
    json_object_del(y, "output_dir");
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    remove_tree(again);

    /* As part of a longer way: stopped, resumed, and the record of the whole. */
    struct snug_summary summary;
    struct snug_err err;
    const char *const *run = ARGS(UNUSUAL), *const *there = ARGS("--output-dir", again);
    assert_int_equal(train_here(LISTS(run, there), 4, &summary, &err), SNUG_STOPPED);
    train_to_the_end(LISTS(run, there, ARGS("--resume-from-checkpoint", "true")));
    assert_same(out, again);
    expect_snug(0, said(),
                ARGS("train", "--config", join(again, "training_args.json"), "--output-dir", join(folder, "third")),
                NULL);
    assert_same(out, join(folder, "third"));
    remove_tree(again);
    remove_tree(join(folder, "third"));
}

/* The command that the card shows, as a shell takes it. */
static void the_same_run_by_its_card(void **state)
{
    (void)state;
    const char *out = join(folder, "it's out"), *kept = join(folder, "kept"), *script = join(folder, "again.sh");
    size_t n;
    assert_int_equal(rename(out, kept), 0);
    char *card = read_text(join(kept, "README.md"), &n), *command = strstr(card, "```sh\nsnug train ");
    assert_non_null(command);
    command += strlen("```sh\nsnug ");
    *strstr(command, "\n```") = 0;
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fprintf(f, "exec '%s' %s >'%s' 2>&1\n", getenv("SNUG_COMMAND"), command, said());
    fclose(f);
    char *run = malloc(strlen(script) + 8);
    assert_non_null(run);
    sprintf(run, "sh '%s'", script);
    assert_int_equal(system(run), 0);
    assert_same(kept, out);
    assert_true(same_bytes(join(kept, "README.md"), join(out, "README.md")));
    free(run);
    free(card);
    remove_tree(kept);
}

static bool card_has(const char *out, const char *part)
{
    return file_has(join(out, "README.md"), part);
}

/* What huggingface_hub's ModelCard reads from the header: names of fields as in its documentation. */
static void what_the_card_says(void **state)
{
    (void)state;
    const char *out = join(folder, "it's out");
    json_t *log = read_log(out);
    char line[100];
    const json_t *last = json_array_get(log, json_array_size(log) - 1);
    snprintf(line, sizeof line, "    - type: accuracy\n      name: accuracy\n      value: %.6g\n",
             json_number_value(json_object_get(last, "eval_accuracy")));
    assert_true(card_has(
        out, "---\nlibrary_name: transformers\npipeline_tag: text-classification\ntags:\n- snug\nmetrics:\n- loss\n"));
    assert_true(
        card_has(out, "model-index:\n- name: \"it's out\"\n  results:\n  - task:\n      type: text-classification\n"));
    assert_true(card_has(out, line));
    snprintf(line, sizeof line, "| loss | %.6g |\n", json_number_value(json_object_get(last, "eval_loss")));
    assert_true(card_has(out, line));
    json_decref(log);

    /* In the hub's cache the folder has the base model's name. */
    const char *cache = join(folder, "models--org--a-base"), *again = join(folder, "named");
    const char *model = join(cache, "snapshots");
    assert_int_equal(mkdir(cache, 0777), 0);
    assert_int_equal(symlink(fixture("golden/trainer/init"), join(cache, "elsewhere")), 0);
    assert_int_equal(mkdir(model, 0777), 0);
    size_t n;
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char *bytes = read_text(join(fixture("golden/trainer/init"), files[i]), &n);
        FILE *f = fopen(join(model, files[i]), "w");
        assert_true(f && fwrite(bytes, 1, n, f) == n);
        fclose(f);
        free(bytes);
    }
    train_to_the_end(LISTS(ARGS("--model", model, "--train-data", rows, "--max-steps", "1", "--output-dir", again)));
    assert_true(card_has(again, "base_model: \"org/a-base\"\n"));
    assert_false(card_has(again, "model-index"));
    remove_tree(again);
}

static void whose_card_it_is(void **state)
{
    (void)state;
    const char *out = join(folder, "cards");
    const char *const *run = ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, "--eval-data", rows,
                                  "--output-dir", out, "--threads", "1");
    size_t n;
    train_to_the_end(LISTS(run, ARGS("--max-steps", "1")));
    assert_true(card_has(out, "after step 1:"));
    train_to_the_end(LISTS(run, ARGS("--max-steps", "2", "--resume-from-checkpoint", "true")));
    assert_true(card_has(out, "after step 2:")); /* nobody had edited it */
    char *card = read_text(join(out, "README.md"), &n);
    card[n / 2] ^= 1;
    write_text(out, "README.md", card);
    free(card);
    train_to_the_end(LISTS(run, ARGS("--max-steps", "3", "--resume-from-checkpoint", "true")));
    assert_false(card_has(out, "after step 3:"));
    remove_tree(out);
    assert_int_equal(mkdir(out, 0777), 0);
    write_text(out, "README.md", "mine");
    train_to_the_end(LISTS(run, ARGS("--max-steps", "1")));
    card = read_text(join(out, "README.md"), &n);
    assert_string_equal(card, "mine");
    free(card);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_run_by_its_record),
        cmocka_unit_test(the_same_run_by_its_card),
        cmocka_unit_test(what_the_card_says),
        cmocka_unit_test(whose_card_it_is),
    };
    return cmocka_run_group_tests_name("record", tests, open_few_rows, close_folder);
}
