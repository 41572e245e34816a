/* What holds for every optimizer alike, through the command: a resumed run has the same bits, a batch may be cut, the plan has
 * room for the states that docs/optimizers.md names. Trajectories are in golden.c. */
#include "command.h"

#include <math.h>

static const char *rows;

/* states: tensors of the weight's size. */
enum { ROW_AND_COLUMN = -1 /* of a matrix */, ONE_OF_MATRICES = -2 /* of layers; else two */ };
static const struct {
    const char *name, *args; /* args: of --optim-args */
    int states;
    bool codes;
} optimizers[] = {
    {"adamw_torch", NULL, 2, false},
    {"sgd", "momentum=0.9", 1, false},
    {"adafactor", NULL, ROW_AND_COLUMN, false},
    {"adamw_bnb_8bit", "min_8bit_size=1,embeddings_8bit=true", 2, true},
    {"rmsprop", NULL, 1, false},
    {"rmsprop", "centered=true,momentum=0.9", 3, false},
    {"rmsprop_bnb_8bit", "min_8bit_size=1,embeddings_8bit=true,eps=1e-4", 1, true},
    {"adagrad", NULL, 1, false},
    {"lion_32bit", NULL, 1, false},
    {"lion_8bit", "min_8bit_size=1,embeddings_8bit=true", 1, true},
    {"ademamix", "t_alpha=5,t_beta3=6", 3, false},
    {"ademamix_8bit", "min_8bit_size=1,embeddings_8bit=true", 3, true},
    {"lomo", NULL, 0, false},
    {"adalomo", NULL, ROW_AND_COLUMN, false},
    {"stable_adamw", NULL, 2, false},
    {"muon", NULL, ONE_OF_MATRICES, false},
    {"schedule_free_adamw", NULL, 2, false},
    {"schedule_free_radam", NULL, 2, false},
    {"schedule_free_sgd", "momentum=0.8,r=1", 1, false},
};
enum { N_OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

/* The options of the i-th, with those of `more` behind them; until the next call. */
static const char *const *with(size_t i, const char *const *more)
{
    static const char *args[32];
    size_t n = 0;
    args[n++] = "--optim";
    args[n++] = optimizers[i].name;
    if (optimizers[i].args) {
        args[n++] = "--optim-args";
        args[n++] = optimizers[i].args;
    }
    while (*more)
        args[n++] = *more++;
    args[n] = NULL;
    return args;
}

static const char *train(const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir", out,
                     "--threads", "1", "--device", "cpu", "--max-steps", "5", "--log-hash", "--logging-steps", "1",
                     "--save-steps", "2", "--learning-rate", "1e-4", "--weight-decay", "0.1"),
                more);
    return out;
}

/* Of all weights, of some of them, and of an adapter; clipped, accumulated, and in bf16. */
static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    const char *const *ways[] = {
        ARGS("--dtype", "bf16", "--batch-size", "4"),
        ARGS("--freeze", "bert.embeddings.*,*.self.query.*", "--batch-size", "2", "--gradient-accumulation-steps", "2"),
        ARGS("--use-peft", "--lora-r", "2", "--batch-size", "4", "--max-grad-norm", "0.05")};
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        const char *const *way = ways[i % 3], *again[16];
        size_t n = 0;
        for (; way[n]; n++)
            again[n] = way[n];
        const char *whole = train("whole", with(i, way));
        again[n++] = "--resume-from-checkpoint";
        again[n++] = join(whole, "step-00000002");
        again[n++] = "--require-bitexact";
        again[n] = NULL;
        const char *resumed = train("resumed", with(i, again));
        const char *file = i % 3 == 2 ? "adapter_model.safetensors" : "model.safetensors";
        if (!same_bytes(join(whole, file), join(resumed, file)))
            fail_msg("%s: a resumed run has other bits", optimizers[i].name);
        remove_tree(whole);
        remove_tree(resumed);
    }
}

/* The losses of a batch of 4, and of 2 times 2. */
static void a_batch_may_be_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        const char *whole = train("whole", with(i, ARGS("--batch-size", "4")));
        const char *cut = train("cut", with(i, ARGS("--batch-size", "2", "--gradient-accumulation-steps", "2")));
        json_t *a = read_log(whole), *b = read_log(cut);
        assert_int_equal(json_array_size(a), 5);
        for (size_t k = 0; k < 5; k++) {
            double x = json_number_value(json_object_get(json_array_get(a, k), "loss"));
            double y = json_number_value(json_object_get(json_array_get(b, k), "loss"));
            if (!(fabs(x - y) <= 1e-5 * fabs(x)))
                fail_msg("%s: the loss of step %zu is %.9g, of a batch that is cut %.9g", optimizers[i].name, k, x, y);
        }
        json_decref(a);
        json_decref(b);
        remove_tree(whole);
        remove_tree(cut);
    }
}

/* Without clipping updates follow the backward pass of their layer, Muon's with all their products; a limit that never binds makes them
 * wait for the norm. */
static void updates_by_layer_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        const char *by_layer = train("by_layer", with(i, ARGS("--batch-size", "4", "--max-grad-norm", "0")));
        const char *behind = train("behind", with(i, ARGS("--batch-size", "4", "--max-grad-norm", "1e6")));
        if (!same_bytes(join(by_layer, "model.safetensors"), join(behind, "model.safetensors")))
            fail_msg("%s: updates by layer have other bits", optimizers[i].name);
        remove_tree(by_layer);
        remove_tree(behind);
    }
}

static long long aligned(long long bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Of the i-th optimizer for one tensor. */
static long long state_bytes(size_t i, const struct st_tensor *t)
{
    long long n = 1, columns = t->ndim > 1 ? t->shape[t->ndim - 1] : 1;
    for (int d = 0; d < t->ndim; d++)
        n *= t->shape[d];
    if (optimizers[i].states == ONE_OF_MATRICES)
        return (t->ndim == 2 && strstr(t->name, "encoder.layer.") ? 1 : 2) * aligned(4 * n);
    if (optimizers[i].states == ROW_AND_COLUMN)
        return t->ndim < 2 ? aligned(4 * n) : aligned(4 * n / columns) + aligned(4 * columns);
    return optimizers[i].states * (optimizers[i].codes ? aligned(n) + aligned((n + 255) / 256 * 4) : aligned(4 * n));
}

static void the_plan_has_room_for_the_states(void **state)
{
    (void)state;
    struct st_file f;
    open_tensors(join(fixture("golden/trainer/init"), "model.safetensors"), &f);
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        long long want = 0;
        for (size_t k = 0; k < f.n_tensors; k++)
            want += state_bytes(i, &f.tensors[k]);
        expect_snug(0, said(), ARGS("plan", "--model", fixture("golden/trainer/init"), "--train-data", rows),
                    with(i, ARGS("--device", "cpu", "--threads", "1", "--json")));
        json_t *plan = said_object();
        json_t *states = json_object_get(json_object_get(plan, "components"), "optimizer states");
        if (json_integer_value(states) != want)
            fail_msg("%s: the plan has %lld bytes of states, not %lld", optimizers[i].name,
                     (long long)json_integer_value(states), want);
        json_decref(plan);
    }
    st_close(&f);
}

static double last_eval_loss(const char *out)
{
    json_t *log = read_log(out);
    double loss = NAN;
    for (size_t i = 0; i < json_array_size(log); i++)
        if (json_object_get(json_array_get(log, i), "eval_loss"))
            loss = json_number_value(json_object_get(json_array_get(log, i), "eval_loss"));
    json_decref(log);
    return loss;
}

/* Schedule-free optimizers train ahead of the average that they evaluate and save. What a run evaluates is what it leaves, whatever the
 * types, and evaluations on the way change nothing. */
static void what_is_evaluated_is_what_is_saved(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        if (!strstr(optimizers[i].name, "schedule_free"))
            continue;
        for (int narrow = 0; narrow < 2; narrow++) {
            const char *type = narrow ? "bf16" : "fp32";
            const char *const *eval = ARGS("--eval-data", rows, "--eval-steps", "1", "--eval-strategy", "steps",
                                           "--batch-size", "4", "--dtype", type, "--warmup-steps", "2");
            const char *out = train("evaluated", with(i, eval));
            const char *alone =
                train("alone", with(i, ARGS("--batch-size", "4", "--dtype", type, "--warmup-steps", "2")));
            double want = last_eval_loss(out);
            if (!same_bytes(join(out, "model.safetensors"), join(alone, "model.safetensors")))
                fail_msg("%s: evaluations change the run", optimizers[i].name);
            expect_snug(0, said(),
                        ARGS("eval", "--model", out, "--data", rows, "--json", "--dtype", type, "--device", "cpu",
                             "--batch-size", "4", "--threads", "1"),
                        NULL);
            json_t *got = said_object();
            double loss = json_number_value(json_object_get(got, "loss"));
            if (!(fabs(loss - want) <= 1e-5 * want))
                fail_msg("%s in %s: the run's last eval_loss is %.9g, its model's %.9g", optimizers[i].name, type, want,
                         loss);
            json_decref(got);
            remove_tree(out);
            remove_tree(alone);
        }
    }
}

/* LOMO and AdaLomo update a layer in the backward pass: gradients take less room than with clipping. */
static void updates_by_layer_need_less_room(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        if (!strstr(optimizers[i].name, "lomo"))
            continue;
        long long bytes[2];
        for (int clipped = 0; clipped < 2; clipped++) {
            expect_snug(0, said(), ARGS("plan", "--model", fixture("golden/trainer/init"), "--train-data", rows),
                        with(i, clipped ? ARGS("--device", "cpu", "--json", "--max-grad-norm", "1")
                                        : ARGS("--device", "cpu", "--json")));
            json_t *plan = said_object();
            bytes[clipped] = json_integer_value(json_object_get(plan, "arena_bytes"));
            json_decref(plan);
        }
        assert_true(bytes[0] < bytes[1]);
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
        cmocka_unit_test(a_resumed_run_has_the_same_bits),     cmocka_unit_test(a_batch_may_be_cut),
        cmocka_unit_test(updates_by_layer_have_the_same_bits), cmocka_unit_test(the_plan_has_room_for_the_states),
        cmocka_unit_test(updates_by_layer_need_less_room),     cmocka_unit_test(what_is_evaluated_is_what_is_saved),
    };
    return cmocka_run_group_tests_name("optimizers", tests, make_data, close_folder);
}
