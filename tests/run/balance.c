/* The loss that balances experts, from folder to folder: a step whose rows are micro-batches has for each its own, which counts by its
 * targets, as recorded from transformers (tests/golden/make.py). */
#include "command.h"

#include <math.h>

static const char *const models[] = {"mixtral_balanced", "qwen2_moe_balanced", "qwen3_moe_balanced", "gpt_oss_balanced",
                                     "granitemoe_balanced"};
enum { N_MODELS = sizeof models / sizeof *models };

/* Entry i of a tensor that was recorded. */
static void near_entry(double got, const char *file, const char *name, int i, double bound)
{
    struct st_file f;
    int64_t one;
    open_tensors(file, &f);
    double *want = read_tensor(&f, name, &one);
    if (!(fabs(got - want[i]) <= bound * fabs(want[i])))
        fail_msg("%s of %s is %.9g, that of transformers %.9g", name, file, got, want[i]);
    free(want);
    st_close(&f);
}

static void near(double got, const char *file, const char *name, double bound)
{
    near_entry(got, file, name, 0, bound);
}

static void is_of_micro_batches(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++)
        for (int d = 0; d < n_devices(); d++) {
            const char *model = fixture(join("golden", models[m])), *out = join(folder, "out");
            const char *expected = join(model, "expected.safetensors");
            expect_snug(0, said(),
                        ARGS("train", "--model", model, "--train-data", join(model, "inputs.safetensors"),
                             "--output-dir", out, "--batch-size", "1", "--gradient-accumulation-steps", "4",
                             "--max-steps", "1", "--logging-steps", "1", "--save-strategy", "no", "--threads", "1"),
                        ARGS("--device", device(d)->name, "--dtype", device(d)->dtype));
            json_t *log = read_log(out), *step = json_array_get(log, 0);
            near(json_number_value(json_object_get(step, "loss")), expected, "rows.loss", device(d)->gradient_error);
            near(json_number_value(json_object_get(step, "grad_norm")), expected, "rows.grad_norm",
                 device(d)->gradient_error);
            json_decref(log);
            remove_tree(out);
        }
}

/* All rows are one micro-batch, on a GPU with padding behind them. */
static void shares_are_in_the_log(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++)
        for (int d = 0; d < n_devices(); d++) {
            const char *model = fixture(join("golden", models[m])), *out = join(folder, "out");
            const char *expected = join(model, "expected.safetensors");
            expect_snug(0, said(),
                        ARGS("train", "--model", model, "--train-data", join(model, "inputs.safetensors"),
                             "--output-dir", out, "--batch-size", "4", "--max-steps", "1", "--logging-steps", "1",
                             "--save-strategy", "no", "--threads", "1"),
                        ARGS("--device", device(d)->name, "--dtype", device(d)->dtype));
            json_t *log = read_log(out), *step = json_array_get(log, 0);
            near_entry(json_number_value(json_object_get(step, "expert_share_max")), expected, "rows.expert_shares", 0,
                       1e-6);
            near_entry(json_number_value(json_object_get(step, "expert_share_min")), expected, "rows.expert_shares", 1,
                       1e-6);
            json_decref(log);
            remove_tree(out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_of_micro_batches), cmocka_unit_test(shares_are_in_the_log)};
    return cmocka_run_group_tests_name("balance", tests, open_folder, close_folder);
}
