/* --ranks: several copies of the model that train side by side are as one that trains on all of their rows. */
#include "runs_help.h"

/* A step of 12 rows of 45, cut in 4: the last step of an epoch has 9 rows, and with 4 ranks nothing for one of them. */
static const char *const *const cuts[] = {
    ARGS("--batch-size", "3", "--gradient-accumulation-steps", "4"),
    ARGS("--batch-size", "3", "--gradient-accumulation-steps", "2", "--ranks", "2"),
    ARGS("--batch-size", "3", "--ranks", "4"),
    ARGS("--batch-size", "4", "--ranks", "3"),
};
enum { CUTS = sizeof cuts / sizeof *cuts };

static bool has_ranks(const struct device *on)
{
    return is_host(on);
}

static void any_number_of_ranks_gives_the_same_curve(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices() && has_ranks(device(d)); d++) {
        static const char *const names[] = {"ranks-1", "ranks-2", "ranks-4", "ranks-3"};
        const char *whole = NULL;
        for (int c = 0; c < CUTS; c++) {
            const char *out = train(names[c], device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), cuts[c]);
            whole = c ? whole : out;
            double bound = is_fp32(device(d)) ? 1e-6 : device(d)->cut_error;
            assert_true(log_distance(whole, out, "loss") <= bound);
            assert_true(log_distance(whole, out, "grad_norm") <= 20 * bound);
        }
    }
}

/* Nothing depends on which rank comes first. */
static void the_same_run_has_the_same_bits(void **state)
{
    (void)state;
    const char *const *const ways[] = {
        ARGS("--batch-size", "4", "--ranks", "3"),
        ARGS("--batch-size", "2", "--ranks", "2", "--gradient-accumulation-steps", "3", "--optim", "adafactor"),
        ARGS("--batch-size", "4", "--ranks", "2", "--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=1"),
        ARGS("--batch-size", "6", "--ranks", "2", "--gradient-checkpointing", "--max-tokens-per-batch", "30"),
    };
    for (int d = 0; d < n_devices() && has_ranks(device(d)); d++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *one = train("one", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), ways[i]);
            const char *two = train("two", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), ways[i]);
            assert_same_run(one, two);
        }
}

/* A checkpoint of 3 ranks, gone on with by 3: as if nobody had stopped. By one, with as many rows of a step: the same curve. */
static void runs_go_on_with_other_ranks(void **state)
{
    (void)state;
#define SAVED MODEL, DROPOUT, "--logging-steps", "1", "--max-steps", "8", "--save-steps", "4"
    for (int d = 0; d < n_devices() && has_ranks(device(d)); d++) {
        const char *whole = train("whole", device(d), ARGS(SAVED), ARGS("--batch-size", "4", "--ranks", "3"));
        const char *from = join(whole, "step-00000004");
        const char *same = train("same", device(d), ARGS(SAVED, "--resume-from-checkpoint", from, "--require-bitexact"),
                                 ARGS("--batch-size", "4", "--ranks", "3"));
        assert_true(same_bytes(join(whole, "model.safetensors"), join(same, "model.safetensors")));
        const char *alone =
            train("alone", device(d), ARGS(SAVED, "--resume-from-checkpoint", from, "--allow-option-change"),
                  ARGS("--batch-size", "4", "--gradient-accumulation-steps", "3"));
        json_t *x = read_log(whole), *y = read_log(alone);
        double a = number(json_array_get(x, 7), "loss"), b = number(json_array_get(y, 3), "loss");
        assert_true(fabs(a - b) <= (is_fp32(device(d)) ? 1e-6 : device(d)->cut_error) * a);
        json_decref(x);
        json_decref(y);
    }
}

/* The state after a load is that of the checkpoint, whoever loads it. */
static void each_number_of_ranks_loads_the_same_state(void **state)
{
    (void)state;
    const struct device *on = device(0);
    if (!has_ranks(on))
        return;
    const char *whole = train("whole", on, ARGS(SAVED), ARGS("--batch-size", "4", "--ranks", "3"));
    const char *const *const others[] = {ARGS("--batch-size", "12"), ARGS("--batch-size", "6", "--ranks", "2")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *out = train(
            "other", on, ARGS(SAVED, "--resume-from-checkpoint", join(whole, "step-00000008"), "--allow-option-change"),
            others[i]);
        assert_true(same_bytes(join(whole, "model.safetensors"), join(out, "model.safetensors")));
    }
}

/* Who has a bad loss says where it came from, and nobody waits for who has stopped. */
static void a_bad_loss_stops_all_ranks(void **state)
{
    (void)state;
    const char *model = fixture("golden/bert_regression");
    for (int d = 0; d < n_devices() && has_ranks(device(d)); d++) {
        train_until(7, "burst", device(d),
                    ARGS("--model", model, "--train-data", join(model, "inputs.safetensors"), "--learning-rate", "1000",
                         "--optim", "sgd", "--max-grad-norm", "0", "--num-train-epochs", "100"),
                    ARGS("--batch-size", "1", "--ranks", "3"));
        assert_true(file_has(said(), "first in activation"));
    }
}

/* What is planned for each rank is what each has. Ranks of one machine share its threads. */
static void a_plan_is_of_each_rank(void **state)
{
    (void)state;
    const char *const *ways = ARGS(MODEL, "--batch-size", "4", "--ranks", "4", "--threads", "8", "--max-steps", "2");
    expect_snug(0, said(), ARGS("plan", "--json", "--device", "cpu"), ways);
    json_t *plan = said_object();
    assert_int_equal(json_integer_value(json_object_get(plan, "ranks")), 4);
    assert_int_equal(json_integer_value(json_object_get(plan, "threads")), 2);
    expect_snug(
        0, said(),
        ARGS("train", "--json", "--device", "cpu", "--save-strategy", "no", "--output-dir", join(folder, "planned")),
        ways);
    size_t n;
    char *text = read_text(said(), &n);
    json_t *result = json_loads(strstr(text, "{\"first_step\""), JSON_DISABLE_EOF_CHECK, NULL);
    assert_true(json_integer_value(json_object_get(plan, "arena_bytes")) > 0);
    assert_true(json_equal(json_object_get(plan, "arena_bytes"), json_object_get(result, "arena_bytes")));
    free(text);
    json_decref(result);
    json_decref(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_number_of_ranks_gives_the_same_curve),
                                       cmocka_unit_test(the_same_run_has_the_same_bits),
                                       cmocka_unit_test(runs_go_on_with_other_ranks),
                                       cmocka_unit_test(each_number_of_ranks_loads_the_same_state),
                                       cmocka_unit_test(a_bad_loss_stops_all_ranks),
                                       cmocka_unit_test(a_plan_is_of_each_rank)};
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
