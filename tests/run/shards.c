/* --zero-stage with matrices that are dealt to the ranks: each has a shard of their states, gradients and weights. It changes no bit. */
#include "processes.h"

static const char *wide_model(const char *name, const char *type)
{
    return sized_model(name, type, 272, 300);
}

#define OF(model)                                                                                                      \
    "--model", model, "--init-from-config", "--train-data", rows, "--learning-rate", "1e-3", "--logging-steps", "1"
#define WIDE OF(wide_model("wide", "golden/trainer/init/config.json"))
#define SHORT "--max-steps", "3", "--save-strategy", "no"
#define SAVED "--max-steps", "4", "--save-steps", "2"

/* What a run keeps is in its log, as a hash, whoever has it. */
static void compare_stages(const struct device *on, int n, const char *const *args)
{
    const char *none = train("none", on, and_more(ARGS(SHORT, "--zero-stage", "0"), args), ranks(on, n, ARGS(NULL)));
    static const char *const stages[] = {"1", "2", "3"};
    for (int k = 0; k < 3; k++)
        assert_same_log(
            none, train("dealt", on, and_more(ARGS(SHORT, "--zero-stage", stages[k]), args), ranks(on, n, ARGS(NULL))));
}

static void stages_have_the_same_bits(void **state)
{
    (void)state;
    const struct {
        int ranks;
        const char *const *args;
    } ways[] = {
        {2, ARGS(WIDE, "--batch-size", "6", DROPOUT)},
        {3, ARGS(WIDE, "--batch-size", "4", "--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=1")},
        {4, ARGS(WIDE, "--batch-size", "3", "--optim", "schedule_free_adamw", "--max-grad-norm", "0.1")},
        {3,
         ARGS(WIDE, "--batch-size", "4", "--optim", "adafactor", "--gradient-checkpointing")}, /* tensors are whole */
        {3, ARGS(WIDE, "--batch-size", "4", "--use-peft", "--lora-r", "2", "--use-dora")},
        {3, ARGS(WIDE, "--batch-size", "4", "--use-peft", "--lora-r", "2", "--load-in-4bit")},
        {3, ARGS(WIDE, "--batch-size", "4", "--use-peft", "--lora-r", "2", "--load-in-8bit")},
        {2, ARGS(WIDE, "--batch-size", "6", "--use-peft", "--lora-r", "2", "--use-dora", "--load-in-4bit",
                 "--use-bnb-nested-quant")},
        {3, ARGS(WIDE, "--batch-size", "4", "--offload-optimizer", "cpu")},
    };
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            compare_stages(device(d), ways[i].ranks, ways[i].args);
}

/* Shards are of whole tiles of 128 rows, and have what follows from all rows from each other. Any number of ranks goes on from its
 * checkpoint, at any stage. */
static void adafactor_has_shards_of_tiles(void **state)
{
    (void)state;
#define EVEN OF(sized_model("even", "golden/trainer/init/config.json", 256, 1024)), "--batch-size", "6", "--optim"
    for (int d = 0; d < n_devices(); d++) {
        struct device pure = *device(d);
        const char *const *one = ARGS(EVEN, "adafactor", SAVED, "--zero-stage");
        compare_stages(device(d), 2, ARGS(EVEN, "adafactor", "--max-grad-norm", "0"));
        compare_stages(
            device(d), 2,
            ARGS(EVEN, "adafactor", "--optim-args", "beta1=0.9,scale_parameter=true", "--offload-optimizer", "cpu"));
        compare_stages(device(d), 3, ARGS(EVEN, "adalomo"));
        pure.dtype = "pure-bf16";
        if (!strcmp(device(d)->dtype, "bf16"))
            compare_stages(&pure, 2, ARGS(EVEN, "adafactor", "--optim-args", "beta1=0.9"));
        const char *none = train("none", device(d), and_more(one, ARGS("0")), ranks(device(d), 2, ARGS(NULL)));
        const char *dealt = train("dealt", device(d), and_more(one, ARGS("3")), ranks(device(d), 2, ARGS(NULL)));
        assert_same_run(none, dealt);
        const char *const *go_on = ARGS(EVEN, "adafactor", SAVED, "--resume-from-checkpoint",
                                        join(dealt, "step-00000002"), "--allow-option-change", "--zero-stage");
        const char *a = train("a", device(d), and_more(go_on, ARGS("0")), ranks(device(d), 3, ARGS(NULL)));
        assert_same_run(a, train("b", device(d), and_more(go_on, ARGS("2")), ranks(device(d), 3, ARGS(NULL))));
    }
}

/* It sees whole tensors. Not on the reference, which would take half a minute for its products. */
static void muon_has_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++)
        if (strcmp(device(d)->name, "reference"))
            compare_stages(device(d), 2, ARGS(WIDE, "--batch-size", "6", "--optim", "muon"));
}

/* On a GPU that is emulated: sums beside the backward pass, pulls ahead of a layer, states that come from the host's memory. */
static void two_ranks_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const char *const *args = ARGS(WIDE, "--batch-size", "1", "--max-steps", "2", "--save-strategy", "no");
        const char *none = train("none", device(d), args, ranks(device(d), 2, ARGS(NULL)));
        const char *const *ways[] = {ARGS("--zero-stage", "1", "--offload-optimizer", "cpu"), ARGS("--zero-stage", "2"),
                                     ARGS("--zero-stage", "3", "--offload-optimizer", "cpu")};
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            assert_same_run(none, train("dealt", device(d), and_more(args, ways[i]), ranks(device(d), 2, ARGS(NULL))));
        setenv("CUDA_LAUNCH_BLOCKING", "1", 1); /* node by node */
        assert_same_run(none, train("dealt", device(d), and_more(args, ways[0]), ranks(device(d), 2, ARGS(NULL))));
        unsetenv("CUDA_LAUNCH_BLOCKING");
    }
}

/* Rounding is by an element's number in its weight, not in a shard. With accumulation stages 2 and 3 add up in another order. */
static void noise_is_that_of_the_weight(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adamw_torch", "sgd", "rmsprop", "adagrad", "lion_8bit", "ademamix_8bit"};
    for (int d = 0; d < n_devices(); d++) {
        struct device pure = *device(d);
        if (strcmp(pure.dtype, "bf16"))
            continue;
        pure.dtype = "pure-bf16";
        for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
            const char *const *args = ARGS(WIDE, SHORT, "--batch-size", "4", "--optim", optimizers[i], "--zero-stage");
            const char *none = train("none", &pure, and_more(args, ARGS("0")), ranks(&pure, 3, ARGS(NULL)));
            assert_same_log(none, train("one", &pure, and_more(args, ARGS("1")), ranks(&pure, 3, ARGS(NULL))));
            assert_same_log(none, train("three", &pure, and_more(args, ARGS("3")), ranks(&pure, 3, ARGS(NULL))));
        }
        const char *const *args =
            ARGS(WIDE, SHORT, "--batch-size", "2", "--gradient-accumulation-steps", "3", "--zero-stage");
        const char *two = train("two", &pure, and_more(args, ARGS("2")), ranks(&pure, 2, ARGS(NULL)));
        assert_same_log(two, train("three", &pure, and_more(args, ARGS("3")), ranks(&pure, 2, ARGS(NULL))));
    }
}

/* A checkpoint has each tensor whole, whoever has which part; any number of ranks goes on from it, at any stage. */
static void checkpoints_are_whole(void **state)
{
    (void)state;
    const char *saved = "step-00000002/rank-0000.safetensors";
    for (int d = 0; d < n_devices(); d++) {
        const char *const *three = ARGS(WIDE, SAVED, "--batch-size", "4", "--zero-stage");
        const char *none = train("none", device(d), and_more(three, ARGS("0")), ranks(device(d), 3, ARGS(NULL)));
        const char *dealt = train("dealt", device(d), and_more(three, ARGS("3")), ranks(device(d), 3, ARGS(NULL)));
        assert_true(same_bytes(join(none, saved), join(dealt, saved)));
        assert_same_run(none, dealt);
        const char *from = join(dealt, "step-00000002");
        const char *const *go_on = ARGS(WIDE, SAVED, "--resume-from-checkpoint", from, "--allow-option-change",
                                        "--batch-size", "6", "--zero-stage");
        const char *a = train("a", device(d), and_more(go_on, ARGS("0")), ranks(device(d), 2, ARGS(NULL)));
        static const char *const stages[] = {"1", "2", "3"};
        for (int k = 0; k < 3; k++)
            assert_same_run(a,
                            train("b", device(d), and_more(go_on, ARGS(stages[k])), ranks(device(d), 2, ARGS(NULL))));
    }
}

/* Of processes each reads, keeps and gives what is its own: the first one writes what threads would. They go on from the threads'
 * checkpoint, with whose products a GPU goes on, too. */
static void processes_have_shards(void **state)
{
    (void)state;
    const struct device *on = device(n_devices() - 1);
    int n = most_processes(on) < 3 ? most_processes(on) : 3;
    const char *saved = "step-00000002/rank-0000.safetensors";
    const struct {
        const char *stage, *more[5], *result;
    } ways[] = {{"1", {NULL}, "model.safetensors"},
                {"2", {"--optim", "lion_32bit", NULL}, "model.safetensors"},
                {"3", {NULL}, "model.safetensors"},
                {"3", {"--use-peft", "--use-dora", NULL}, "adapter_model.safetensors"},
                {"3", {"--use-peft", "--use-dora", "--load-in-8bit", NULL}, "adapter_model.safetensors"},
                {"3",
                 {"--use-peft", "--use-dora", "--load-in-4bit", "--use-bnb-nested-quant", NULL},
                 "adapter_model.safetensors"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *const *args =
            and_more(ARGS(WIDE, SAVED, "--batch-size", "4", "--eval-data", other_rows, "--eval-strategy", "steps",
                          "--eval-steps", "2", "--zero-stage", ways[i].stage),
                     ways[i].more);
        const char *threads = train("threads", on, args, ranks(on, n, ARGS(NULL))), *out = join(folder, "processes");
        struct processes_run r = start_processes(n, run_of(on, out, args));
        assert_ends(&r, 0);
        if (is_host(on)) {
            assert_same_log(threads, out);
            assert_true(same_bytes(join(threads, saved), join(out, saved)));
            assert_true(same_bytes(join(threads, ways[i].result), join(out, ways[i].result)));
        }
        out = join(folder, "again");
        args = and_more(args, ARGS("--require-bitexact", "--resume-from-checkpoint", join(threads, "step-00000002")));
        r = start_processes(n, run_of(on, out, args));
        assert_ends(&r, 0);
        assert_true(same_bytes(join(threads, ways[i].result), join(out, ways[i].result)));
        assert_true(same_bytes(join(threads, "step-00000004/rank-0000.safetensors"),
                               join(out, "step-00000004/rank-0000.safetensors")));
    }
}

/* Each rank has as much: a plan for the weights that are dealt, and no more than their share. */
static void all_have_as_much(void **state)
{
    (void)state;
    const struct device *on = device(0);
    const char *const *all =
        ranks(on, 4, ARGS(WIDE, "--batch-size", "4", "--threads", "4", "--max-steps", "2", "--device", on->name));
    double persistent[4];
    for (int stage = 0; stage < 4; stage++) {
        char text[2] = {(char)('0' + stage), 0};
        expect_snug(0, said(), ARGS("plan", "--json"), and_more(all, ARGS("--zero-stage", text)));
        json_t *plan = said_object();
        double most = number(plan, "arena_bytes"), least = number(plan, "least_rank_bytes");
        persistent[stage] = number(plan, "persistent_bytes");
        assert_true(least <= most && least >= 0.9 * most);
        json_decref(plan);
        if (!stage)
            continue;
        expect_snug(0, said(),
                    ARGS("train", "--json", "--save-strategy", "no", "--overwrite-output-dir", "--output-dir",
                         join(folder, "planned")),
                    and_more(all, ARGS("--zero-stage", text)));
        size_t n;
        char *line = read_text(said(), &n);
        json_t *result = json_loads(strstr(line, "{\"first_step\""), JSON_DISABLE_EOF_CHECK, NULL);
        assert_true(number(result, "arena_bytes") == most);
        json_decref(result);
        free(line);
    }
    /* A weight, its gradient, two states: of a shard a fourth, and of an uneven one a chunk of 65536 more, of 12 matrices at most. */
    double uneven = 12 * 65536. * (strcmp(on->name, "reference") ? 4 : 8);
    assert_true(persistent[1] < persistent[0] * (2 + 2 / 4.) / 4 + 2 * uneven);
    assert_true(persistent[2] < persistent[0] * (1 + 3 / 4.) / 4 + 3 * uneven);
    assert_true(persistent[3] < persistent[0] / 4 + 4 * uneven);
}

/* A group's own value is gone where its weights lie by themselves, with its copy: nothing persists that has no name in the plan. */
static void nothing_lies_twice(void **state)
{
    (void)state;
    const struct device *on = device(n_devices() - 1);
    expect_snug(0, said(),
                ARGS("plan", "--json", "--bf16", "--batch-size", "4", "--device", on->name, "--zero-stage", "3", WIDE),
                ranks(on, 4, ARGS(NULL)));
    json_t *plan = said_object(), *parts = json_object_get(plan, "components");
    double named = number(parts, "weights") + number(parts, "weight copies") + number(parts, "optimizer states") +
                   number(parts, "gradients");
    assert_true(number(plan, "persistent_bytes") <= named); /* with a layer's gradients, which do not persist */
    json_decref(plan);
}

/* Of 1,247,296 bytes of weights nine tenths are codes and what they are multiplied with, a tenth that for itself. */
static void codes_are_dealt(void **state)
{
    (void)state;
    double weights[2];
    for (int i = 0; i < 2; i++) {
        expect_snug(0, said(),
                    ARGS("plan", "--json", "--device", "cpu", "--ranks", "2", "--batch-size", "4", "--use-peft",
                         "--lora-r", "2", "--load-in-4bit", "--zero-stage", i ? "3" : "0"),
                    ARGS(OF(sized_model("even", "golden/trainer/init/config.json", 256, 1024))));
        json_t *plan = said_object();
        weights[i] = number(json_object_get(plan, "components"), "weights");
        json_decref(plan);
    }
    assert_true(weights[0] - weights[1] > 0.3 * weights[0]);
}

/* Tables with rows of zeros behind them, and weights as (inputs, outputs). */
static void decoders_have_shards(void **state)
{
    (void)state;
    const char *model = wide_model("decoder", "golden/gpt2/config.json");
    for (int d = 0; d < n_devices(); d++) {
        const char *const *args =
            ARGS("--model", model, "--init-from-config", "--train-data", "synthetic:24x12", "--batch-size", "3",
                 "--task", "causal-lm", "--logging-steps", "1", SHORT, "--zero-stage");
        const char *none = train("none", device(d), and_more(args, ARGS("0")), ranks(device(d), 2, ARGS(NULL)));
        static const char *const stages[] = {"1", "2", "3"};
        for (int k = 0; k < 3; k++)
            assert_same_run(
                none, train("dealt", device(d), and_more(args, ARGS(stages[k])), ranks(device(d), 2, ARGS(NULL))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_have_the_same_bits), cmocka_unit_test(adafactor_has_shards_of_tiles),
        cmocka_unit_test(muon_has_the_same_bits),    cmocka_unit_test(noise_is_that_of_the_weight),
        cmocka_unit_test(checkpoints_are_whole),     cmocka_unit_test(processes_have_shards),
        cmocka_unit_test(all_have_as_much),          cmocka_unit_test(nothing_lies_twice),
        cmocka_unit_test(codes_are_dealt),           cmocka_unit_test(decoders_have_shards)};
    const struct CMUnitTest few[] = {cmocka_unit_test(two_ranks_have_the_same_bits)};
    if (getenv("SNUG_TEST_SHORT")) /* on a GPU that is emulated */
        return cmocka_run_group_tests(few, set_up, close_folder);
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
