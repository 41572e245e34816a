/* Runs that must end, and say why: NaN in a weight, a learning rate that nothing survives; and how they go on. */
#include "runs_help.h"

static void ends_with(int status, const char *const parts[3], const char *const *first, const char *const *second)
{
    expect_snug(status, said(), first, second);
    for (int i = 0; i < 3; i++)
        if (!file_has(said(), parts[i])) {
            size_t n;
            fail_msg("\"%s\" is not in: %s", parts[i], read_text(said(), &n));
        }
}

static void numbers_that_are_not_finite_are_named(void **state)
{
    (void)state;
    static const char *const tensors[] = {"bert.embeddings.position_embeddings.weight",
                                          "bert.encoder.layer.1.attention.self.value.bias", "classifier.weight"};
    const char *out = join(folder, "ends");
    for (int d = 0; d < n_devices(); d++) {
        const char *const *where = ARGS("--device", device(d)->name, "--dtype", device(d)->dtype, "--threads", "1");
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
            for (int clip = 0; clip <= 1; clip++) {
                const char *model = make_poisoned(tensors[i], 2, i ? NAN : INFINITY);
                ends_with(7, (const char *const[]){"step 1: ", tensors[i], "nan"},
                          ARGS("train", "--model", model, "--train-data", rows, "--output-dir", out, "--save-steps",
                               "1", "--max-grad-norm", clip ? "1" : "0"),
                          where);
                assert_int_equal(access(join(out, "model.safetensors"), F_OK), -1);
                remove_tree(out);
            }
        const char *model = fixture("golden/bert_regression");
        ends_with(7, (const char *const[]){"step ", "first in ", "--learning-rate"},
                  ARGS("train", "--model", model, "--train-data", join(model, "inputs.safetensors"), "--output-dir",
                       out, "--learning-rate", "1000", "--optim", "sgd", "--max-grad-norm", "0", "--batch-size", "2",
                       "--num-train-epochs", "100"),
                  where);
        remove_tree(out);
    }
}

/* The weights of a checkpoint are those of the model folder, to the bit; and there is no result. */
static void assert_learned_nothing(const char *out, const char *step, const char *model)
{
    struct st_file a, b;
    assert_int_equal(access(join(out, "model.safetensors"), F_OK), -1);
    assert_int_equal(st_open(&io_posix, join(model, "model.safetensors"), &a, NULL), SNUG_OK);
    assert_int_equal(st_open(&io_posix, join(join(out, step), "rank-0000.safetensors"), &b, NULL), SNUG_OK);
    for (size_t i = 0; i < a.n_tensors; i++) {
        int64_t n, m;
        double *x = read_tensor(&a, a.tensors[i].name, &n), *y = read_tensor(&b, a.tensors[i].name, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
        free(x);
        free(y);
    }
    st_close(&a);
    st_close(&b);
}

/* Every step is skipped, so nothing is learned, which is said in the end; what is saved between two lines of the log
 * holds a sum that is not a number. */
static void a_run_that_skips_can_be_resumed(void **state)
{
    (void)state;
    const char *model = make_poisoned("classifier.bias", 2, NAN), *out = NULL;
    for (int d = 0; d < 2 * n_devices(); d++) {
        const struct device *on = device(d / 2);
        const char *const *run =
            ARGS("--max-grad-norm", d % 2 ? "0" : "1", "--model", model, "--train-data", rows, "--nan-policy", "skip",
                 "--logging-steps", "3", "--save-steps", "1", "--max-steps", "8");
        const char *whole = train_until(7, "skipped", on, run, NULL);
        assert_true(file_has(said(), "step 8: ") && file_has(said(), "all 8 updates were skipped"));
        assert_learned_nothing(whole, "step-00000008", model);
        out = train_until(7, "skipped-again", on, run, ARGS("--resume-from-checkpoint", join(whole, "step-00000004")));
        json_t *a = read_log(whole), *b = read_log(out);
        assert_int_equal(json_array_size(a), 3);
        assert_int_equal(json_array_size(b), 2); /* a new folder has a new log */
        for (size_t i = 0; i < 2; i++)
            assert_true(json_equal(json_array_get(a, i + 1), json_array_get(b, i)));
        json_decref(a);
        json_decref(b);
    }
}

/* More micro-batches than losses are waited for at once: the bad one is seen before there is an update. */
static void so_is_a_step_of_many_micro_batches(void **state)
{
    (void)state;
    const char *model = make_poisoned("classifier.bias", 2, NAN);
    for (int d = 0; d < 2 * n_devices(); d++) {
        bool ranks = d % 2; /* of which each must come to the exchange of gradients */
        if (ranks && !is_host(device(d / 2)))
            continue;
        const char *out = train_until(
            7, "skipped-parts", device(d / 2),
            ARGS("--model", model, "--train-data", ranks ? "synthetic:2052x4" : "synthetic:1026x4", "--batch-size", "1",
                 "--gradient-accumulation-steps", "513", "--nan-policy", "skip", "--max-steps", "2"),
            ARGS("--ranks", ranks ? "2" : "1"));
        assert_true(file_has(said(), "step 2: loss is nan"));
        assert_learned_nothing(out, "step-00000002", model);
    }
}

/* Makes the checkpoint one of a version that had neither 8-bit embeddings nor Muon, and recorded no momentum as 0. */
static void make_older(const char *step)
{
    json_t *state = json_load_file(join(step, "state.json"), 0, NULL), *options = json_object_get(state, "options"),
           *args = json_object_get(options, "optim_args");
    assert_int_equal(json_object_del(args, "embeddings_8bit"), 0);
    assert_int_equal(json_object_del(args, "ns_steps"), 0);
    assert_int_equal(json_object_del(args, "adjust_lr_fn"), 0);
    assert_true(json_is_null(json_object_get(args, "momentum")));
    assert_int_equal(json_object_set_new(args, "momentum", json_real(0)), 0);
    forge_state(step, state);
    json_decref(state);
}

static void a_checkpoint_from_before_an_option_is_read(void **state)
{
    (void)state;
    const char *const *run = ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, "--optim",
                                  "adamw_8bit", "--max-steps", "4", "--save-steps", "2");
    const char *whole = train("before", device(0), run, NULL);
    make_older(join(whole, "step-00000002"));
    const char *out =
        train("before-again", device(0), run, ARGS("--resume-from-checkpoint", join(whole, "step-00000002")));
    assert_true(same_bytes(join(whole, "model.safetensors"), join(out, "model.safetensors")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_not_finite_are_named),
        cmocka_unit_test(a_run_that_skips_can_be_resumed),
        cmocka_unit_test(so_is_a_step_of_many_micro_batches),
        cmocka_unit_test(a_checkpoint_from_before_an_option_is_read),
    };
    return cmocka_run_group_tests_name("ends", tests, set_up, close_folder);
}
