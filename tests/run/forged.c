/* A checkpoint is believed no further than its hashes: whoever made them may have made up what they vouch for. */
#include "few_rows.h"
#include "forge.h"

/* Sets the member that `path` names ("run/step") to the JSON text `value`; NULL: removes it. */
static void set_member(json_t *doc, const char *path, const char *value)
{
    char name[128];
    snprintf(name, sizeof name, "%s", path);
    char *rest = name;
    for (char *slash; (slash = strchr(rest, '/')); rest = slash + 1) {
        *slash = 0;
        if (!json_object_get(doc, rest))
            json_object_set_new(doc, rest, json_object());
        doc = json_object_get(doc, rest);
    }
    if (value)
        assert_int_equal(json_object_set_new(doc, rest, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    else
        assert_int_equal(json_object_del(doc, rest), 0);
}

static void what_it_says_is_looked_at(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value;
        bool export; /* snug export, else snug train */
        int code;
        const char *text;
    } cases[] = {
        {"about/result/config", "1.5", true, SNUG_ERR_CHECKPOINT, "the result's config.json is no object in it"},
        {"about/result/source", "[1]", true, 0, ""},
        {"options", "[]", false, SNUG_ERR_CHECKPOINT, "state.json has no run state"},
        {"options", NULL, false, SNUG_ERR_CHECKPOINT, "state.json has no run state"},
        {"run/step", "-1", false, SNUG_ERR_CHECKPOINT, "state.json has no run state"},
        {"run/step", "3", false, SNUG_ERR_CHECKPOINT, "step-00000002: its state.json is that of step 3"},
        {"run/samples", "9223372036854775807", false, SNUG_ERR_CHECKPOINT, "state.json has no run state"},
        {"about/reports/log_bytes", "-9223372036854775808", false, SNUG_ERR_CHECKPOINT, "state.json has no run state"},
        {"about/option_changes", "7", false, 0, ""},
        {"run/rows_changed", "{\"step\": 1, \"epoch\": 0, \"row\": -9223372036854775808, \"order_rows\": 8}", false,
         SNUG_ERR_CHECKPOINT, "does not say where rows of a step changed"},
        {"run/rows_changed", "{\"step\": 1}", false, SNUG_ERR_CHECKPOINT, "does not say where rows of a step changed"},
        {"options/per_device_train_batch_size", "9223372036854775807", false, 0, ""},
        {"options/gradient_accumulation_steps", "-5", false, 0, ""},
    };
    const char *out = join(folder, "out"), *two = join(out, "step-00000002"), *model = join(folder, "model");
    const char *const *run = ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--threads",
                                  "1", "--device", "cpu", "--save-steps", "2", "--output-dir", out);
    expect_snug(0, said(), run, ARGS("--max-steps", "2"));
    json_t *whole = json_load_file(join(two, "state.json"), 0, NULL);
    assert_non_null(whole);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *doc = json_deep_copy(whole);
        set_member(doc, cases[i].member, cases[i].value);
        forge_state(two, doc);
        json_decref(doc);
        int code =
            cases[i].export
                ? snug(said(), ARGS("export", two, "--output-dir", model), NULL)
                : snug(said(), run, ARGS("--max-steps", "2", "--resume-from-checkpoint", two, "--allow-option-change"));
        if (code != cases[i].code || !file_has(said(), cases[i].text)) {
            size_t n;
            fail_msg("%s %s: exit %d, %s", cases[i].member, cases[i].value, code, read_text(said(), &n));
        }
        if (!code && cases[i].export)
            remove_tree(model);
    }
    forge_state(two, whole);
    json_decref(whole);
    forge_file(two, "rank-0000.safetensors", "not one");
    expect_snug(SNUG_ERR_CHECKPOINT, said(), ARGS("export", two, "--output-dir", model), NULL);
    expect_snug(SNUG_ERR_CHECKPOINT, said(), run, ARGS("--max-steps", "4", "--resume-from-checkpoint", two));
    remove_tree(out);
}

/* As those were that had more rows than there are now: a step had more than all of them, and short ones are left out. */
static void fewer_rows_than_a_step_had(void **state)
{
    (void)state;
    const char *out = join(folder, "out"), *fewer = make_rows(folder, 5, 12, 2, true);
    const char *const *run = ARGS("train", "--model", fixture("golden/trainer/init"), "--threads", "1", "--device",
                                  "cpu", "--save-steps", "2", "--output-dir", out, "--dataloader-drop-last");
    expect_snug(0, said(), run, ARGS("--max-steps", "2", "--train-data", rows, "--batch-size", "8"));
    expect_snug(0, said(), run,
                ARGS("--max-steps", "4", "--train-data", fewer, "--batch-size", "2", "--resume-from-checkpoint", "true",
                     "--allow-option-change", "--allow-data-change"));
    assert_true(file_has(said(), "from step 2 on: --per-device-train-batch-size: 8 -> 2"));
    assert_true(file_has(said(), "checkpoint of step 4 complete"));
    remove_tree(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_is_looked_at),
        cmocka_unit_test(fewer_rows_than_a_step_had),
    };
    return cmocka_run_group_tests_name("forged", tests, open_few_rows, close_folder);
}
