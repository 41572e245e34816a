/* Runs in which some weights are not trained: the others have the bits that full training gives them, the frozen ones keep
 * theirs, and what training them would take is not there. What torch computes is in golden.c. */
#include "command.h"

#include <unistd.h>

static const char *rows;

#define FROZEN "bert.embeddings.*,bert.encoder.layer.0.*,*.layer.1.*.self.key.*,*.LayerNorm.weight"

static bool is_frozen(const char *name)
{
    return !strncmp(name, "bert.embeddings.", 16) || !strncmp(name, "bert.encoder.layer.0.", 21) ||
           !strncmp(name, "bert.encoder.layer.1.attention.self.key.", 40) || strstr(name, ".LayerNorm.weight");
}

/* One update by plain SGD without clipping, into folder/NAME. */
static const char *train(const char *name, const struct device *on, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", out,
                     "--device", on->name, "--dtype", on->dtype, "--threads", "1", "--optim", "sgd", "--learning-rate",
                     "0.1", "--lr-scheduler-type", "constant", "--max-grad-norm", "0", "--max-steps", "1",
                     "--save-strategy", "no"),
                more);
    return out;
}

static void compare(const char *frozen, const char *full)
{
    struct st_file a, b, begun;
    int counted[2] = {0};
    assert_int_equal(st_open(&io_posix, join(frozen, "model.safetensors"), &a, NULL), SNUG_OK);
    assert_int_equal(st_open(&io_posix, join(full, "model.safetensors"), &b, NULL), SNUG_OK);
    assert_int_equal(st_open(&io_posix, fixture("golden/trainer/init/model.safetensors"), &begun, NULL), SNUG_OK);
    for (size_t i = 0; i < a.n_tensors; i++) {
        const char *name = a.tensors[i].name;
        int64_t n, m;
        double *have = read_tensor(&a, name, &n), *want = read_tensor(is_frozen(name) ? &begun : &b, name, &m);
        assert_int_equal(n, m);
        if (memcmp(have, want, (size_t)n * sizeof *have))
            fail_msg("%s: %s differs", frozen, name);
        counted[is_frozen(name)]++;
        free(have);
        free(want);
    }
    assert_true(counted[0] > 10 && counted[1] > 20);
    st_close(&a);
    st_close(&b);
    st_close(&begun);
}

static void the_others_have_the_bits_of_full_training(void **state)
{
    (void)state;
    const char *const *const ways[] = {
        ARGS("--batch-size", "8"), ARGS("--batch-size", "8", "--gradient-checkpointing"),
        ARGS("--batch-size", "4", "--gradient-accumulation-steps", "2"),
        ARGS("--batch-size", "8", "--hidden-dropout-prob", "0.2", "--attention-probs-dropout-prob", "0.2")};
    for (int d = 0; d < n_devices(); d++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            const char *args[16] = {"--freeze", FROZEN};
            for (size_t i = 0; ways[w][i]; i++)
                args[2 + i] = ways[w][i];
            const char *full = train("full", device(d), ways[w]), *frozen = train("frozen", device(d), args);
            compare(frozen, full);
        }
}

static json_t *plan(const char *const *more)
{
    expect_snug(0, said(),
                ARGS("plan", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--device", "cpu",
                     "--threads", "1", "--json"),
                more);
    return said_object();
}

static long long component(json_t *plan, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(plan, "components"), name));
}

/* Only the head's 51 numbers are trained: two states of 4 bytes each, rounded up to 64 bytes a tensor; the backward pass ends
 * in the head, so that a layer's activations live no longer than in an evaluation. */
static void the_plan_has_no_room_for_what_is_not_trained(void **state)
{
    (void)state;
    json_t *full = plan(NULL), *head = plan(ARGS("--freeze", "bert.*"));
    assert_int_equal(component(head, "optimizer states"), 2 * 192 + 2 * 64);
    assert_int_equal(component(head, "weights"), component(full, "weights"));
    long long weights = component(head, "weights"), frozen = json_integer_value(json_object_get(head, "frozen_bytes"));
    assert_int_equal(weights - frozen, 192 + 64);
    assert_int_equal(json_integer_value(json_object_get(full, "frozen_bytes")), 0);
    assert_true(component(head, "activations") < component(full, "activations") / 2);
    json_decref(full);
    json_decref(head);
}

static const char *long_run(const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", out,
                     "--threads", "1", "--device", "cpu", "--max-steps", "8", "--log-hash", "--logging-steps", "1",
                     "--save-steps", "3", "--batch-size", "4"),
                more);
    return out;
}

/* With every optimizer: the first checkpoint goes on to the bits of the run that was not interrupted, and does not take other
 * patterns. */
static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adamw_torch", "adamw_bnb_8bit", "sgd", "adafactor"};
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        const char *dtype = i % 2 ? "bf16" : "fp32";
        const char *whole = long_run("whole", ARGS("--optim", optimizers[i], "--dtype", dtype, "--freeze", FROZEN));
        const char *from = join(whole, "step-00000003");
        const char *resumed = long_run("resumed", ARGS("--optim", optimizers[i], "--dtype", dtype, "--freeze", FROZEN,
                                                       "--resume-from-checkpoint", from, "--require-bitexact"));
        assert_true(same_bytes(join(whole, "model.safetensors"), join(resumed, "model.safetensors")));
        remove_tree(resumed);
        int code = snug(said(),
                        ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir",
                             resumed, "--threads", "1", "--device", "cpu", "--max-steps", "8", "--save-steps", "3",
                             "--batch-size", "4"),
                        ARGS("--optim", optimizers[i], "--dtype", dtype, "--resume-from-checkpoint", from));
        assert_int_equal(code, SNUG_ERR_CHECKPOINT);
        assert_true(file_has(said(), "freeze"));
        remove_tree(whole);
    }
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
        cmocka_unit_test(the_others_have_the_bits_of_full_training),
        cmocka_unit_test(the_plan_has_no_room_for_what_is_not_trained),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
    };
    return cmocka_run_group_tests_name("freeze", tests, make_data, close_folder);
}
