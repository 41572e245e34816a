/* Runs with products of 8-bit floats (--fp8): they learn as runs in bf16 do; how memory, threads and ranks are cut changes no bit;
 * evaluation knows nothing of it. */
#include "processes.h"

/* Of multiples of 16. */
#define EVEN                                                                                                           \
    "--model", sized_model("even", "golden/trainer/init/config.json", 64, 128), "--init-from-config", "--train-data",  \
        rows, "--learning-rate", "1e-3"
/* Of matrices that are dealt to ranks. */
#define WIDE                                                                                                           \
    "--model", sized_model("wide", "golden/trainer/init/config.json", 256, 512), "--init-from-config", "--train-data", \
        rows, "--learning-rate", "1e-3"
#define SHORT "--max-steps", "4", "--batch-size", "6", EVERY_STEP

/* The devices that have such products: the CPU, and Hopper. */
static const struct device *fp8_device(int d)
{
    const struct device *on = device(d);
    bool has = !strcmp(on->name, "cpu") || (!is_host(on) && backend_cuda_arch(0) == 90 && !getenv("SNUG_TEST_SHORT"));
    return has && !strcmp(on->dtype, "bf16") ? on : NULL;
}

static void bits_are_those_of_any_cut(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = fp8_device(d);
        if (!on)
            continue;
        const char *const *run = ARGS(EVEN, SHORT, DROPOUT, "--fp8");
        const char *plain = train("plain", on, run, NULL);
        assert_same_run(plain, train("again", on, run, ARGS("--gradient-checkpointing")));
        const char *const *quarters = ARGS(EVEN, EVERY_STEP, "--max-steps", "4", "--batch-size", "3", "--fp8");
        const char *whole = train("whole", on, quarters, ranks(on, 2, ARGS(NULL)));
        assert_same_run(whole, train("dealt", on, quarters, ranks(on, 2, ARGS("--zero-stage", "3"))));
        const char *const *eights =
            ARGS(WIDE, EVERY_STEP, "--max-steps", "4", "--batch-size", "3", "--fp8", "--use-peft", "--load-in-8bit");
        whole = train("whole", on, eights, ranks(on, 2, ARGS(NULL)));
        assert_same_log(whole, train("dealt", on, eights, ranks(on, 2, ARGS("--zero-stage", "3"))));
        const char *const *codes = ARGS(EVEN, SHORT, "--fp8", "--use-peft", "--lora-r", "4", "--load-in-4bit");
        assert_same_log(train("codes", on, codes, NULL), train("again", on, codes, ARGS("--gradient-checkpointing")));
    }
}

#define OF_TOKENS "--train-data", "synthetic:24x12", "--task", "causal-lm", "--learning-rate", "1e-3"

/* A base in codes of 8 bits is a factor as it lies: the first loss, before anything is trained, is that of a base whose factors are made for
 * each product. In bf16 it is another. */
static void a_base_of_8_bits_gives_the_same_products(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = fp8_device(d);
        if (!on)
            continue;
        struct device pure = *on; /* its weights are exact in 16 bits, in which they otherwise stay */
        pure.dtype = "pure-bf16";
        const char *base = train("base", &pure,
                                 ARGS("--model", sized_model("decoder", "golden/llama/config.json", 64, 128),
                                      "--init-from-config", OF_TOKENS, "--max-steps", "1"),
                                 NULL);
        const char *const *run =
            ARGS("--model", base, OF_TOKENS, SHORT, "--use-peft", "--lora-r", "4", "--target-modules", "all-linear");
        const char *kept = train("kept", on, run, ARGS("--fp8", "--load-in-8bit"));
        assert_same_log(kept, train("again", on, run, ARGS("--fp8", "--load-in-8bit", "--gradient-checkpointing")));
        const char *made = train("made", on, run, ARGS("--fp8")), *bf16 = train("bf16", on, run, NULL);
        json_t *a = read_log(kept), *b = read_log(made), *c = read_log(bf16);
        assert_true(number(json_array_get(a, 0), "loss") == number(json_array_get(b, 0), "loss"));
        assert_true(number(json_array_get(a, 0), "loss") != number(json_array_get(c, 0), "loss"));
        json_decref(a);
        json_decref(b);
        json_decref(c);
    }
}

/* A resumed run is the run that was not stopped. One in bf16 is another. */
static void resumed_is_as_not_stopped(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = fp8_device(d);
        if (!on)
            continue;
#define SAVED EVEN, "--max-steps", "4", "--save-steps", "2", "--batch-size", "6"
        const char *plain = train("plain", on, ARGS(SAVED, "--fp8"), NULL), *from = join(plain, "step-00000002");
        const char *resumed = train("resumed", on, ARGS(SAVED, "--fp8", "--resume-from-checkpoint", from), NULL);
        assert_true(same_bytes(join(plain, "model.safetensors"), join(resumed, "model.safetensors")));
        train_until(SNUG_ERR_CHECKPOINT, "other", on, ARGS(SAVED, "--resume-from-checkpoint", from), NULL);
        assert_true(file_has(said(), "fp8"));
    }
}

static void learns_as_bf16_does(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = fp8_device(d);
        if (!on)
            continue;
        const char *const *run =
            ARGS(EVEN, EVERY_STEP, "--max-steps", "12", "--batch-size", "8", "--weight-copies", "resident");
        const char *bf16 = train("bf16", on, run, NULL), *fp8 = train("fp8", on, run, ARGS("--fp8"));
        double loss = log_distance(bf16, fp8, "loss"), norm = log_distance(bf16, fp8, "grad_norm");
        if (!(loss > 1e-6 && loss < 0.02 && norm < 0.2))
            fail_msg("losses differ by %g, norms by %g of them", loss, norm);
    }
}

static double last_evaluation(const char *out)
{
    json_t *log = read_log(out);
    double loss = number(json_array_get(log, json_array_size(log) - 1), "eval_loss");
    json_decref(log);
    return loss;
}

/* What is evaluated behind the last step are the weights of the result, in bf16, also where 16-bit copies of others stay. */
static void evaluation_is_of_the_result(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = fp8_device(d);
        if (!on)
            continue;
        static const char *const copies[] = {"resident", "transient"};
        for (int k = 0; k < 2; k++) {
            const char *out = train("fp8", on,
                                    ARGS(EVEN, "--eval-data", other_rows, "--max-steps", "12", "--eval-strategy",
                                         "epoch", "--save-strategy", "no", "--fp8", "--weight-copies", copies[k]),
                                    NULL);
            const char *of_result = join(folder, "evaluation.json");
            expect_snug(0, of_result,
                        ARGS("eval", "--model", out, "--data", other_rows, "--device", on->name, "--bf16", "--threads",
                             "1", "--json"),
                        NULL);
            json_t *result = json_load_file(of_result, 0, NULL);
            assert_true(fabs(number(result, "loss") - last_evaluation(out)) < 1e-6);
            json_decref(result);
        }
    }
}

/* Before the first step both evaluate the same weights. */
static void evaluation_is_in_bf16(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = fp8_device(d);
        if (!on)
            continue;
        const char *const *run = ARGS(EVEN, "--eval-data", other_rows, "--eval-on-start", "--eval-strategy", "no",
                                      "--max-steps", "1", "--save-strategy", "no");
        const char *bf16 = train("bf16", on, run, NULL), *fp8 = train("fp8", on, run, ARGS("--fp8"));
        json_t *x = read_log(bf16), *y = read_log(fp8);
        assert_true(number(json_array_get(x, 0), "eval_loss") == number(json_array_get(y, 0), "eval_loss"));
        json_decref(x);
        json_decref(y);
    }
}

static void refused_without_bf16(void **state)
{
    (void)state;
    const struct device fp32 = {.name = "cpu", .dtype = "fp32"};
    train_until(SNUG_ERR_USAGE, "none", &fp32, ARGS(EVEN, SHORT, "--fp8"), NULL);
    assert_true(file_has(said(), "--fp8: goes with --bf16 or --pure-bf16, not with --dtype fp32"));
    expect_snug(SNUG_ERR_USAGE, said(), ARGS("plan", EVEN, "--gpu", "a100-80gb", "--bf16", "--fp8"), NULL);
    assert_true(file_has(said(), "has no products of 8 bits"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_any_cut),   cmocka_unit_test(resumed_is_as_not_stopped),
        cmocka_unit_test(learns_as_bf16_does),         cmocka_unit_test(a_base_of_8_bits_gives_the_same_products),
        cmocka_unit_test(evaluation_is_of_the_result), cmocka_unit_test(evaluation_is_in_bf16),
        cmocka_unit_test(refused_without_bf16),
    };
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
