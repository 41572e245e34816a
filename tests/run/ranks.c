/* --ranks: several copies of the model that train side by side are as one that trains on all of their rows. */
#include "runs_help.h"

/* A step of 12 rows of 45, cut in 4: the last step of an epoch has 9 rows, and with 4 ranks nothing for one of them. */
static const struct {
    const char *const *args;
    int ranks;
} cuts[] = {
    {ARGS("--batch-size", "3", "--gradient-accumulation-steps", "4"), 1},
    {ARGS("--batch-size", "3", "--gradient-accumulation-steps", "2"), 2},
    {ARGS("--batch-size", "3"), 4},
    {ARGS("--batch-size", "4"), 3},
};
enum { CUTS = sizeof cuts / sizeof *cuts };

static void any_number_of_ranks_gives_the_same_curve(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        static const char *const names[] = {"ranks-1", "ranks-2", "ranks-4", "ranks-3"};
        const char *whole = NULL;
        for (int c = 0; c < CUTS; c++) {
            const char *out = train(names[c], device(d), ARGS(MODEL, DROPOUT, EVERY_STEP),
                                    ranks(device(d), cuts[c].ranks, cuts[c].args));
            whole = c ? whole : out;
            double bound = is_fp32(device(d)) ? 1e-6 : device(d)->cut_error;
            assert_true(log_distance(whole, out, "loss") <= bound);
            assert_true(log_distance(whole, out, "grad_norm") <= 20 * bound);
        }
    }
}

/* Of 45 rows 42 are whole batches of 6, be they of one rank or of two: as accelerate deals them out. */
static void ranks_drop_the_last_batch_of_all(void **state)
{
    (void)state;
#define DROPS "--dataloader-drop-last", "--gradient-accumulation-steps", "2", "--num-train-epochs", "2"
    for (int d = 0; d < n_devices(); d++) {
        const char *one =
            train("one", device(d), ARGS(MODEL, "--logging-steps", "1", DROPS, "--batch-size", "6"), NULL);
        const char *two = train("two", device(d), ARGS(MODEL, "--logging-steps", "1", DROPS),
                                ranks(device(d), 2, ARGS("--batch-size", "3")));
        double bound = is_fp32(device(d)) ? 1e-6 : device(d)->cut_error;
        json_t *log = read_log(two);
        assert_int_equal(json_array_size(log), 8); /* 12, 12, 12, 6 */
        json_decref(log);
        assert_true(log_distance(one, two, "loss") <= bound);
    }
}

/* Nothing depends on which rank comes first. */
static void the_same_run_has_the_same_bits(void **state)
{
    (void)state;
    const struct {
        int ranks;
        const char *const *args;
    } ways[] = {
        {3, ARGS("--batch-size", "4")},
        {2, ARGS("--batch-size", "2", "--gradient-accumulation-steps", "3", "--optim", "adafactor")},
        {2, ARGS("--batch-size", "4", "--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=1")},
        {2, ARGS("--batch-size", "6", "--gradient-checkpointing", "--max-tokens-per-batch", "30")},
    };
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *const *way = ranks(device(d), ways[i].ranks, ways[i].args);
            const char *one = train("one", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), way);
            const char *two = train("two", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), way);
            assert_same_run(one, two);
        }
}

/* A checkpoint of 3 ranks, gone on with by 3: as if nobody had stopped. By one, with as many rows of a step: the same curve. */
static void runs_go_on_with_other_ranks(void **state)
{
    (void)state;
#define SAVED MODEL, DROPOUT, "--logging-steps", "1", "--max-steps", "8", "--save-steps", "4"
    for (int d = 0; d < n_devices(); d++) {
        const char *const *three = ranks(device(d), 3, ARGS("--batch-size", "4"));
        const char *whole = train("whole", device(d), ARGS(SAVED), three);
        const char *from = join(whole, "step-00000004");
        const char *same =
            train("same", device(d), ARGS(SAVED, "--resume-from-checkpoint", from, "--require-bitexact"), three);
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
    const char *whole = train("whole", on, ARGS(SAVED), ranks(on, 3, ARGS("--batch-size", "4")));
    for (int n = 1; n < 3; n++) {
        const char *out = train(
            "other", on, ARGS(SAVED, "--resume-from-checkpoint", join(whole, "step-00000008"), "--allow-option-change"),
            ranks(on, n, n == 1 ? ARGS("--batch-size", "12") : ARGS("--batch-size", "6")));
        assert_true(same_bytes(join(whole, "model.safetensors"), join(out, "model.safetensors")));
    }
}

/* The arguments with a stage. */
static const char *const *at_stage(const char *stage, const char *const *args)
{
    return and_more(args, ARGS("--zero-stage", stage));
}

/* Who keeps what changes no bit of a run, whatever the optimizer and what is combined with it. */
static void stages_have_the_same_bits(void **state)
{
    (void)state;
    const struct {
        int ranks;
        const char *const *args;
    } ways[] = {
        {3, ARGS("--batch-size", "4")},
        {4, ARGS("--batch-size", "3", "--optim", "adafactor", "--gradient-checkpointing")},
        {2, ARGS("--batch-size", "6", "--optim", "muon", "--gradient-checkpointing")},
        {2, ARGS("--batch-size", "6", "--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=1")},
        {3, ARGS("--batch-size", "4", "--optim", "schedule_free_adamw", "--max-grad-norm", "0.1")},
        {3, ARGS("--batch-size", "4", "--use-peft", "--lora-r", "2", "--optim", "lion_32bit")},
        {2, ARGS("--batch-size", "6", "--use-peft", "--lora-r", "2", "--use-dora")},
        {2, ARGS("--batch-size", "6", "--optim", "sgd", "--nan-policy", "skip")},
        {3, ARGS("--batch-size", "4", "--offload-optimizer", "cpu")},
    };
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *const *way = ranks(device(d), ways[i].ranks, ways[i].args);
            const char *none = train("none", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("0", way));
            const char *states = train("states", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("1", way));
            assert_same_log(none, states);
            const char *gradients = train("gradients", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("2", way));
            assert_same_log(none, gradients);
            const char *weights = train("weights", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("3", way));
            assert_same_log(none, weights);
        }
}

/* On a GPU ranks add up beside the backward pass: at stages 0 and 1 in a program with the update, at stages 2 and 3 what each keeps. */
static void sums_beside_the_backward_pass(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const char *const *way = ranks(device(d), 2, ARGS("--batch-size", "1", "--max-steps", "3"));
        const char *none = train("none", device(d), ARGS(MODEL, "--logging-steps", "1"), at_stage("0", way));
        const char *states = train("states", device(d), ARGS(MODEL, "--logging-steps", "1"), at_stage("1", way));
        const char *gradients = train("gradients", device(d), ARGS(MODEL, "--logging-steps", "1"), at_stage("2", way));
        assert_same_run(none, states);
        const char *weights = train("weights", device(d), ARGS(MODEL, "--logging-steps", "1"), at_stage("3", way));
        assert_same_run(none, gradients);
        assert_same_run(none, weights);
    }
}

/* Weights, gradients and states in 16 bits. */
static void stages_of_pure_bf16(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        struct device pure = *device(d);
        if (strcmp(pure.dtype, "bf16"))
            continue;
        pure.dtype = "pure-bf16";
        const char *const *way = ranks(&pure, 3, ARGS("--batch-size", "4"));
        const char *none = train("none", &pure, ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("0", way));
        const char *gradients = train("gradients", &pure, ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("2", way));
        assert_same_log(none, gradients);
        const char *weights = train("weights", &pure, ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("3", way));
        assert_same_run(none, weights);
    }
}

/* The fp32 weights of a rank's copies lie in the host's memory, and others pull the copies. */
static void stages_offload_weights(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        if (strcmp(device(d)->dtype, "bf16"))
            continue;
        const char *const *way = ranks(device(d), 3, ARGS("--batch-size", "4", "--offload-param", "cpu"));
        const char *far = train("far", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("3", way));
        way = ranks(device(d), 3, ARGS("--batch-size", "4"));
        const char *none = train("none", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("0", way));
        assert_same_run(none, far);
    }
}

/* With accumulation stage 2 adds up the ranks' gradients in each micro-step, the others those of a rank's micro-steps first. In the step of
 * 9 rows the second rank has one micro-batch less. */
static void stages_accumulate(void **state)
{
    (void)state;
    const char *const *more[] = {ARGS("--optim", "muon"),
                                 ARGS("--use-peft", "--lora-r", "2", "--gradient-checkpointing"),
                                 ARGS("--gradient-accumulation-dtype", "model")}; /* 16 bits: not of fp32 */
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < (is_fp32(device(d)) ? 2 : 3); i++) {
            static const char *all[24];
            size_t n = 0;
            for (const char *const *a = ARGS("--batch-size", "3", "--gradient-accumulation-steps", "2"); *a; a++)
                all[n++] = *a;
            for (const char *const *a = more[i]; *a; a++)
                all[n++] = *a;
            all[n] = NULL;
            const char *const *way = ranks(device(d), 2, all);
            const char *none = train("none", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("0", way));
            const char *states = train("states", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("1", way));
            assert_same_log(none, states);
            const char *one = train("one", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("2", way));
            const char *two = train("two", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("2", way));
            assert_same_log(one, two);
            const char *weights = train("weights", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), at_stage("3", way));
            assert_same_log(one, weights);
            double bound = is_fp32(device(d)) ? 1e-6 : device(d)->cut_error;
            assert_true(log_distance(none, one, "loss") <= bound);
            assert_true(log_distance(none, one, "grad_norm") <= 20 * bound);
        }
}

/* A checkpoint of 4 ranks with states of their own is that of 4 ranks with all states. Others go on from it, at any stage, to the same
 * bits. */
static void stages_have_the_same_checkpoints(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const char *const *four = ranks(device(d), 4, ARGS("--batch-size", "3"));
        const char *none = train("none", device(d), ARGS(SAVED), at_stage("0", four));
        const char *states = train("states", device(d), ARGS(SAVED), at_stage("1", four));
        const char *saved = "step-00000004/rank-0000.safetensors";
        assert_true(same_bytes(join(none, saved), join(states, saved)));
        const char *gradients = train("gradients", device(d), ARGS(SAVED), at_stage("2", four));
        assert_true(same_bytes(join(none, saved), join(gradients, saved)));
        const char *weights = train("weights", device(d), ARGS(SAVED), at_stage("3", four));
        assert_same_run(none, weights);
        assert_true(same_bytes(join(none, saved), join(weights, saved)));
        const char *from = join(d % 2 ? weights : states, "step-00000004");
        for (int n = 1; n <= 3; n++) {
            static const char *const rows_each[] = {"12", "6", "4"};
            const char *const *other = ranks(device(d), n, ARGS("--batch-size", rows_each[n - 1]));
            const char *const *go_on = ARGS(SAVED, "--resume-from-checkpoint", from, "--allow-option-change");
            const char *a = train("a", device(d), go_on, at_stage("0", other));
            static const char *const stages[] = {"2", "1", "3"};
            const char *b = train("b", device(d), go_on, at_stage(stages[n - 1], other));
            assert_same_run(a, b);
            saved = "step-00000008/rank-0000.safetensors";
            assert_true(same_bytes(join(a, saved), join(b, saved)));
        }
    }
}

/* With accumulation stage 2 has other bits than the others, of which a run that goes on says so, or is refused. */
static void another_order_of_sums_is_said(void **state)
{
    (void)state;
    const struct device *on = device(0);
    const char *const *two = ranks(on, 2, ARGS("--batch-size", "3", "--gradient-accumulation-steps", "2"));
    const char *from = join(train("states", on, ARGS(SAVED), at_stage("1", two)), "step-00000004");
    const char *const *go_on = ARGS(SAVED, "--resume-from-checkpoint", from);
    const char *why =
        "not bit-exact from here: --zero-stage 2 and 3 add up the gradients of micro-steps in another order";
    train("on", on, go_on, at_stage("0", two));
    assert_false(file_has(said(), "not bit-exact"));
    const char *sums = train("on", on, go_on, at_stage("2", two));
    assert_true(file_has(said(), why));
    train_until(6, "refused", on, ARGS(SAVED, "--require-bitexact", "--resume-from-checkpoint", from),
                at_stage("2", two));
    assert_true(file_has(said(), why));
    from = join(sums, "step-00000008");
    train("refused", on, ARGS(SAVED, "--require-bitexact", "--resume-from-checkpoint", from), at_stage("2", two));
}

/* Who has a bad loss says where it came from, and nobody waits for who has stopped. */
static void a_bad_loss_stops_all_ranks(void **state)
{
    (void)state;
    const char *model = fixture("golden/bert_regression");
    static const char *const stages[] = {"0", "2", "3"};
    for (int d = 0; d < 3 * n_devices(); d++) {
        train_until(7, "burst", device(d / 3),
                    ARGS("--model", model, "--train-data", join(model, "inputs.safetensors"), "--learning-rate", "1000",
                         "--optim", "sgd", "--max-grad-norm", "0", "--num-train-epochs", "100"),
                    at_stage(stages[d % 3], ranks(device(d / 3), 3, ARGS("--batch-size", "1"))));
        assert_true(file_has(said(), "first in activation"));
    }
}

/* What is planned for each rank is what each has. Ranks of one machine share its threads. */
static void a_plan_is_of_each_rank(void **state)
{
    (void)state;
    const struct device *on = device(0);
    const char *const *ways =
        ranks(on, 4, ARGS(MODEL, "--batch-size", "4", "--threads", "8", "--max-steps", "2", "--device", on->name));
    expect_snug(0, said(), ARGS("plan", "--json"), ways);
    json_t *plan = said_object();
    assert_int_equal(json_integer_value(json_object_get(plan, "ranks")), 4);
    assert_int_equal(json_integer_value(json_object_get(plan, "threads")), is_host(on) ? 2 : 8);
    expect_snug(0, said(), ARGS("train", "--json", "--save-strategy", "no", "--output-dir", join(folder, "planned")),
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

/* The bytes of a plan, or of a run, by name. */
static int64_t plan_bytes(const char *name, const char *stage, const char *const *way)
{
    expect_snug(0, said(), ARGS("plan", "--json"), at_stage(stage, way));
    json_t *plan = said_object();
    int64_t bytes = json_integer_value(json_object_get(plan, name));
    json_decref(plan);
    return bytes;
}

static int64_t run_bytes(const char *stage, const char *const *way)
{
    size_t n;
    expect_snug(0, said(),
                ARGS("train", "--json", "--save-strategy", "no", "--overwrite-output-dir", "--output-dir",
                     join(folder, "planned-of-stage")),
                at_stage(stage, way));
    char *text = read_text(said(), &n);
    json_t *result = json_loads(strstr(text, "{\"first_step\""), JSON_DISABLE_EOF_CHECK, NULL);
    int64_t bytes = json_integer_value(json_object_get(result, "arena_bytes"));
    json_decref(result);
    free(text);
    return bytes;
}

/* Of the 5091 weights each has two states. What one of four ranks has more than a fourth of them is the largest weight's doing,
 * and what aligns values. */
static void a_plan_has_the_states_of_a_rank(void **state)
{
    (void)state;
    const struct device *on = device(0);
    const char *const *way =
        ranks(on, 4, ARGS(MODEL, "--batch-size", "4", "--threads", "4", "--max-steps", "2", "--device", on->name));
    int64_t all = plan_bytes("persistent_bytes", "0", way), own = plan_bytes("persistent_bytes", "1", way);
    int64_t others = 5091 * (strcmp(on->name, "reference") ? 8 : 16) * 3 / 4;
    assert_true(own <= all - others + 4096 && own >= all - others - 33 * 2 * 256);
    assert_true(plan_bytes("least_rank_bytes", "1", way) <= plan_bytes("arena_bytes", "1", way));
    assert_int_equal(plan_bytes("least_rank_bytes", "0", way), plan_bytes("arena_bytes", "0", way));
    assert_int_equal(plan_bytes("arena_bytes", "1", way), run_bytes("1", way));
    int64_t sums = plan_bytes("persistent_bytes", "2", way),
            left = others / 2; /* a gradient has half the bytes of its states */
    assert_true(sums <= own - left + 4096 && sums >= own - left - 33 * 256);
    assert_true(plan_bytes("least_rank_bytes", "2", way) <= plan_bytes("arena_bytes", "2", way));
    assert_int_equal(plan_bytes("arena_bytes", "2", way), run_bytes("2", way));
    int64_t weights = plan_bytes("persistent_bytes", "3", way), vectors = sums - weights - left;
    assert_true(vectors <= 4096 && vectors >= -(33 * 256 + 5091));
    assert_true(plan_bytes("least_rank_bytes", "3", way) <= plan_bytes("arena_bytes", "3", way));
    assert_int_equal(plan_bytes("arena_bytes", "3", way), run_bytes("3", way));
}

/* What reads weights beside the training: evaluations of unevenly many batches, and the best model in the end. */
static void stages_evaluate(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const char *const *args =
            ARGS(MODEL, DROPOUT, "--logging-steps", "1", "--max-steps", "6", "--save-steps", "2", "--eval-data",
                 other_rows, "--eval-strategy", "steps", "--eval-steps", "2", "--load-best-model-at-end");
        const char *const *way = ranks(device(d), 3, ARGS("--batch-size", "4", "--per-device-eval-batch-size", "3"));
        const char *none = train("none", device(d), args, at_stage("0", way));
        const char *weights = train("weights", device(d), args, at_stage("3", way));
        assert_same_run(none, weights);
    }
}

/* How many ranks a plan has for these GPUs, and how long they exchange gradients. */
static double exchange_seconds(const char *gpus, int ranks, const char *const *way)
{
    expect_snug(0, said(), ARGS("plan", "--json", "--gpu", "h100", "--gpus", gpus), way);
    json_t *plan = said_object(), *time = json_object_get(plan, "time");
    assert_int_equal(json_integer_value(json_object_get(plan, "ranks")), ranks);
    double seconds = json_number_value(json_object_get(time, "exchange_seconds"));
    json_decref(plan);
    return seconds;
}

/* GPUs of a plan that are elsewhere are counted, not looked for. Of n GPUs each gets and sends (n-1)/n of the gradients, at three fourths
 * of what NVLink has, 450 GB/s each way. The model has 5091 weights, whose gradients are added up in fp32. */
static void gpus_are_ranks(void **state)
{
    (void)state;
    const char *const *at_once = ARGS(MODEL, "--batch-size", "4", "--max-steps", "2", "--bf16");
    const char *const *way =
        ARGS(MODEL, "--batch-size", "4", "--max-steps", "2", "--bf16", "--gradient-accumulation-steps", "2");
    double of_four = 2 * 3 / 4. * 5091 * 4 / (0.75 * 450e9), of_two = 2 / 2. * 5091 * 4 / (0.75 * 450e9);
    assert_true(fabs(exchange_seconds("4", 4, way) - of_four) < 1e-5 * of_four);
    assert_true(fabs(exchange_seconds("1,3", 2, way) - of_two) < 1e-5 * of_two);
    assert_true(exchange_seconds("1,3,", 2, way) == exchange_seconds("1,3", 2, way));
    assert_true(exchange_seconds("4", 4, at_once) < 0.9 * of_four); /* beside the backward pass */
    assert_true(exchange_seconds("1", 1, way) == 0 && exchange_seconds("3,", 1, way) == 0);
    static const struct {
        const char *gpus, *says;
    } wrong[] = {{"0", "--gpus 0: says how many; for GPU 0 give 0, with the comma"},
                 {",", "--gpus ,: give how many"},
                 {"two", "--gpus two: give how"},
                 {"1,,2", "--gpus 1,,2: give how many"},
                 {"-1", "--gpus -1: give how many"},
                 {"all", "--gpus all: a plan for GPUs that are elsewhere"},
                 {"1025", "--gpus 1025: a plan has 1024"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_snug(2, said(), ARGS("plan", "--gpu", "h100", "--gpus", wrong[i].gpus), way);
        assert_true(file_has(said(), wrong[i].says));
    }
    expect_snug(2, said(), ARGS("plan", "--gpu", "h100", "--gpus", "2", "--ranks", "3"), way);
    assert_true(file_has(said(), "--ranks 3: --gpus 2 has one rank for each GPU, 2; leave --ranks out"));
    expect_snug(4, said(), ARGS("plan", "--gpus", "1000"), way);
    assert_true(file_has(said(), "--gpus 1000: this machine or this build of snug has not as many; to plan for GPUs"));
    expect_snug(2, said(), ARGS("plan", "--device", "cpu", "--gpus", "2"), way);
    assert_true(file_has(said(), "--gpus 2: --device cpu has no GPU"));
}

/* A run that is too large fits where each GPU keeps its own weights alone. */
static void a_stage_is_offered(void **state)
{
    (void)state;
    const char *const *way =
        ARGS(MODEL, "--batch-size", "1", "--max-steps", "2", "--bf16", "--gpu", "h100", "--gpus", "4",
             "--offload-optimizer", "none", "--gradient-checkpointing", "--save-strategy", "no");
    char budget[32];
    snprintf(budget, sizeof budget, "%lldB", (long long)plan_bytes("arena_bytes", "3", way) + 16384);
    expect_snug(4, said(), ARGS("plan", "--memory-budget", budget), way);
    assert_true(file_has(said(), "with --zero-stage 3: ") && file_has(said(), "it fits with --zero-stage 3"));
    expect_snug(0, said(), ARGS("plan", "--memory-budget", budget), at_stage("3", way));
}

/* 16 GPUs in two hosts: with 8 of the 15 others each exchanges by the network, at three fourths of what that has. */
static void several_hosts_have_a_network(void **state)
{
    (void)state;
#define WAY MODEL, "--batch-size", "4", "--max-steps", "2", "--bf16", "--gradient-accumulation-steps", "2"
    const char *const *way = ARGS(WAY), *const *slow = ARGS(WAY, "--network", "400");
    const char *const *fast = ARGS(WAY, "--network", "8000");
    const char *const *one = ARGS(WAY, "--network", "400", "--gpus-per-host", "16");
    double bytes = 2 * 15 / 16. * 5091 * 4, in_host = bytes * 7 / 15 / (0.75 * 450e9);
    double by_network = bytes * 8 / 15 / (0.75 * 400e9 / 8), all = bytes / (0.75 * 450e9);
    assert_true(fabs(exchange_seconds("16", 16, way) - all) < 1e-5 * all);
    assert_true(fabs(exchange_seconds("16", 16, slow) - by_network) < 1e-5 * by_network);
    assert_true(fabs(exchange_seconds("16", 16, fast) - in_host) < 1e-5 * in_host); /* NVLink is the slower one */
    assert_true(fabs(exchange_seconds("16", 16, one) - all) < 1e-5 * all);
    assert_true(fabs(exchange_seconds("1000", 1000, slow) / (2 * 992 / 1000. * 5091 * 4 / (0.75 * 50e9)) - 1) < 1e-5);
    expect_snug(0, said(), ARGS("plan", "--json", "--gpu", "h100", "--gpus", "16"), slow);
    json_t *plan = said_object(), *time = json_object_get(plan, "time");
    assert_int_equal(json_integer_value(json_object_get(time, "exchange_bytes")), (int64_t)bytes);
    assert_int_equal(json_integer_value(json_object_get(time, "network_bytes")), (int64_t)(bytes * 8 / 15));
    json_decref(plan);
    expect_snug(2, said(), ARGS("plan", "--gpu", "h100"), slow);
    assert_true(file_has(said(), "--network"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_number_of_ranks_gives_the_same_curve),
                                       cmocka_unit_test(ranks_drop_the_last_batch_of_all),
                                       cmocka_unit_test(the_same_run_has_the_same_bits),
                                       cmocka_unit_test(runs_go_on_with_other_ranks),
                                       cmocka_unit_test(each_number_of_ranks_loads_the_same_state),
                                       cmocka_unit_test(stages_have_the_same_bits),
                                       cmocka_unit_test(sums_beside_the_backward_pass),
                                       cmocka_unit_test(stages_of_pure_bf16),
                                       cmocka_unit_test(stages_offload_weights),
                                       cmocka_unit_test(stages_accumulate),
                                       cmocka_unit_test(stages_have_the_same_checkpoints),
                                       cmocka_unit_test(another_order_of_sums_is_said),
                                       cmocka_unit_test(a_plan_has_the_states_of_a_rank),
                                       cmocka_unit_test(stages_evaluate),
                                       cmocka_unit_test(a_bad_loss_stops_all_ranks),
                                       cmocka_unit_test(a_plan_is_of_each_rank),
                                       cmocka_unit_test(gpus_are_ranks),
                                       cmocka_unit_test(a_stage_is_offered),
                                       cmocka_unit_test(several_hosts_have_a_network)};
    const struct CMUnitTest few[] = {cmocka_unit_test(sums_beside_the_backward_pass)};
    if (getenv("SNUG_TEST_SHORT")) /* on a GPU that is emulated */
        return cmocka_run_group_tests(few, set_up, close_folder);
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
