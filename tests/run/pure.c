/* Runs whose weights and states are bf16 (--pure-bf16): what they take by the definition, that they learn where rounding to the
 * nearest would stand still, that bits do not depend on threads or interruptions, and what becomes of their files. */
#include "command.h"

#include <math.h>

static const char *rows;

#define MODEL fixture("golden/trainer/init")

/* Of the last one of the table: the CPU, or a GPU. */
static const char *device_name(void)
{
    return device(n_devices() - 1)->name;
}

static const char *train(const char *name, const char *dtype, const char *const *more)
{
    const char *out = join(folder, name), *args[40];
    size_t n = 0;
    for (; more[n]; n++)
        args[n] = more[n];
    args[n] = NULL;
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--train-data", rows, "--output-dir", out, "--device", device_name(), "--dtype", dtype,
                     "--log-hash", "--logging-steps", "1", "--batch-size", "4"),
                args);
    return out;
}

static json_t *plan(const char *const *more)
{
    expect_snug(0, said(),
                ARGS("plan", "--model", MODEL, "--train-data", rows, "--device", "cpu", "--threads", "1", "--json",
                     "--dtype", "pure-bf16"),
                more);
    return said_object();
}

static long long component(json_t *plan, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(plan, "components"), name));
}

/* `bytes` for each of the model's weights, and up to 64 for each tensor so that the next one is aligned. */
static void assert_about(long long have, double bytes)
{
    struct st_file f;
    int64_t elements = 0;
    open_tensors(join(MODEL, "model.safetensors"), &f);
    for (size_t i = 0; i < f.n_tensors; i++)
        elements += st_elements(&f.tensors[i]);
    long long least = (long long)(bytes * (double)elements), room = (long long)(64 * f.n_tensors);
    if (have < least || have > least + 2 * room)
        fail_msg("%lld bytes where %lld and up to %lld more are due", have, least, 2 * room);
    st_close(&f);
}

/* Weights 2 bytes, m and v 2 bytes each; Adafactor without a first moment has next to nothing. No copy of a weight stands beside it,
 * even where one is asked for. */
static void the_plan_has_what_the_definition_says(void **state)
{
    (void)state;
    json_t *adamw = plan(ARGS("--weight-copies", "resident")), *sgd = plan(ARGS("--optim", "sgd"));
    json_t *momentum = plan(ARGS("--optim", "sgd", "--optim-args", "momentum=0.9"));
    json_t *eight = plan(ARGS("--optim", "adamw_8bit", "--optim-args", "min_8bit_size=1,embeddings_8bit=true"));
    assert_about(component(adamw, "weights"), 2);
    assert_about(component(adamw, "optimizer states"), 4);
    assert_int_equal(component(adamw, "weight copies"), 0);
    assert_int_equal(component(sgd, "optimizer states"), 0);
    assert_about(component(momentum, "optimizer states"), 2);
    assert_true(component(eight, "optimizer states") < component(adamw, "optimizer states"));
    json_decref(adamw);
    json_decref(sgd);
    json_decref(momentum);
    json_decref(eight);
}

static double dot(const double *x, const double *y, const double *from, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - from[i]) * (y[i] - from[i]);
    return sum;
}

/* AdamW moves a weight by about the learning rate, 1e-5, a step. The weights are about 0.02, where half a unit of bf16 is 3e-5 or
 * more: to the nearest, none would move. 30 steps at random go where 30 steps in fp32 go. */
static void small_steps_arrive(void **state)
{
    (void)state;
    const char *const *run = ARGS("--model", MODEL, "--learning-rate", "1e-5", "--lr-scheduler-type", "constant",
                                  "--max-steps", "30", "--save-strategy", "no");
    const char *pure = train("pure", "pure-bf16", run), *full = train("full", "fp32", run);
    struct st_file begun, a, b;
    open_tensors(join(MODEL, "model.safetensors"), &begun);
    open_tensors(join(pure, "model.safetensors"), &a);
    open_tensors(join(full, "model.safetensors"), &b);
    const char *name = "bert.encoder.layer.1.output.dense.weight";
    int64_t n;
    double *from = read_tensor(&begun, name, &n), *x = read_tensor(&a, name, &n), *y = read_tensor(&b, name, &n);
    double along = dot(x, y, from, n) / dot(y, y, from, n); /* how far it went along the way of fp32 */
    if (!(along > 0.7 && along < 1.3))
        fail_msg("%g of the way of fp32", along);
    free(from);
    free(x);
    free(y);
    st_close(&begun);
    st_close(&a);
    st_close(&b);
}

/* With every optimizer: on one thread and three, and from the first checkpoint on. A checkpoint knows which of the two it is of. */
static void bits_are_those_of_any_threads_and_of_a_resumed_run(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adamw_torch", "adamw_bnb_8bit", "sgd", "adafactor"};
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
#define RUN                                                                                                            \
    "--model", MODEL, "--optim", optimizers[i], "--max-steps", "6", "--save-steps", "3", "--learning-rate", "1e-3"
        const char *whole = train("whole", "pure-bf16", ARGS(RUN, "--threads", "1"));
        const char *threads = train("threads", "pure-bf16", ARGS(RUN, "--threads", "3", "--gradient-checkpointing"));
        const char *from = join(whole, "step-00000003");
        const char *resumed =
            train("resumed", "pure-bf16", ARGS(RUN, "--resume-from-checkpoint", from, "--require-bitexact"));
        assert_true(same_bytes(join(whole, "model.safetensors"), join(threads, "model.safetensors")));
        assert_true(same_bytes(join(whole, "model.safetensors"), join(resumed, "model.safetensors")));
        assert_true(same_bytes(join(whole, "step-00000006/rank-0000.safetensors"),
                               join(resumed, "step-00000006/rank-0000.safetensors")));
        remove_tree(resumed);
        int code =
            snug(said(), ARGS("train", "--train-data", rows, "--output-dir", resumed, "--batch-size", "4", "--bf16"),
                 ARGS(RUN, "--device", device_name(), "--resume-from-checkpoint", from));
        assert_int_equal(code, SNUG_ERR_CHECKPOINT);
        assert_true(file_has(said(), "dtype") && file_has(said(), "pure-bf16"));
#undef RUN
    }
    const char *wide = train("wide", "bf16", ARGS("--model", MODEL, "--max-steps", "2", "--save-steps", "1"));
    int code = snug(said(),
                    ARGS("train", "--train-data", rows, "--output-dir", join(folder, "other"), "--model", MODEL,
                         "--batch-size", "4", "--device", device_name(), "--max-steps", "2"),
                    ARGS("--pure-bf16", "--resume-from-checkpoint", join(wide, "step-00000001")));
    assert_int_equal(code, SNUG_ERR_CHECKPOINT);
    assert_true(file_has(said(), "dtype") && file_has(said(), "pure-bf16"));
}

/* What is bf16 stays that, bit for bit, from file to weight to file: nothing that is exact is rounded. The result says what it is; a
 * checkpoint exported has its bytes. */
static void files_are_bf16(void **state)
{
    (void)state;
    const char *first = train("first", "pure-bf16", ARGS("--model", MODEL, "--max-steps", "2", "--save-steps", "1"));
    const char *still =
        train("still", "pure-bf16",
              ARGS("--model", first, "--max-steps", "2", "--learning-rate", "0", "--save-strategy", "no"));
    assert_true(same_bytes(join(first, "model.safetensors"), join(still, "model.safetensors")));
    assert_true(file_has(join(first, "config.json"), "\"dtype\": \"bfloat16\""));
    struct st_file f;
    open_tensors(join(first, "model.safetensors"), &f);
    for (size_t i = 0; i < f.n_tensors; i++)
        assert_int_equal(f.tensors[i].dtype, DT_BF16);
    st_close(&f);
    const char *exported = join(folder, "exported");
    expect_snug(0, said(), ARGS("export", first, "--output-dir", exported), NULL);
    assert_true(same_bytes(join(first, "model.safetensors"), join(exported, "model.safetensors")));
    assert_true(same_bytes(join(first, "config.json"), join(exported, "config.json")));
}

/* The CPU goes where the reference goes, which computes in double and rounds by the same random numbers. The first step's numbers are
 * those of bf16, so the curves part by what one rounding in a hundred is. */
static void the_reference_goes_the_same_way(void **state)
{
    (void)state;
    const char *const *run =
        ARGS("--model", MODEL, "--max-steps", "12", "--learning-rate", "1e-3", "--save-strategy", "no");
    const char *here = train("here", "pure-bf16", run);
    const char *out = join(folder, "exact");
    expect_snug(0, said(),
                ARGS("train", "--train-data", rows, "--output-dir", out, "--device", "reference", "--pure-bf16",
                     "--logging-steps", "1", "--batch-size", "4"),
                run);
    json_t *x = read_log(here), *y = read_log(out);
    assert_int_equal(json_array_size(x), json_array_size(y));
    for (size_t i = 0; i < json_array_size(x); i++) {
        double p = json_number_value(json_object_get(json_array_get(x, i), "loss"));
        double q = json_number_value(json_object_get(json_array_get(y, i), "loss"));
        if (!(fabs(p - q) <= 0.02 * q))
            fail_msg("line %zu: loss %g, reference %g", i, p, q);
    }
    json_decref(x);
    json_decref(y);
}

static int make_data(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 32, 12, 3, true);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_has_what_the_definition_says),
        cmocka_unit_test(small_steps_arrive),
        cmocka_unit_test(bits_are_those_of_any_threads_and_of_a_resumed_run),
        cmocka_unit_test(files_are_bf16),
        cmocka_unit_test(the_reference_goes_the_same_way),
    };
    return cmocka_run_group_tests_name("pure", tests, make_data, close_folder);
}
