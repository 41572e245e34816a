/* --offload-optimizer: states in the host's memory change no bit, and the plan knows where every byte is. */
#include "command.h"

#include <math.h>

static const char *rows, *deep;

/* Of states that are as large as their weight, factored, in codes; clipped or updated by layer; accumulated; of parts of groups alone. */
static const char *const *const ways[] = {
    ARGS("--batch-size", "4"),
    ARGS("--batch-size", "4", "--max-grad-norm", "0", "--dtype", "bf16"),
    ARGS("--batch-size", "2", "--gradient-accumulation-steps", "2", "--optim", "adafactor"),
    ARGS("--batch-size", "4", "--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=1,embeddings_8bit=true"),
    ARGS("--batch-size", "4", "--optim", "adagrad", "--freeze", "*.self.query.*"),
    ARGS("--batch-size", "4", "--pure-bf16", "--gradient-checkpointing"),
};
enum { LAYERS = 6 }; /* of the model `deep` */
enum { WAYS = sizeof ways / sizeof *ways };

static const char *train(const char *name, const struct device *on, const char *const *way, const char *where,
                         const char *from)
{
    const char *out = join(folder, name), *args[32];
    int n = 0;
    for (; way[n]; n++)
        args[n] = way[n];
    args[n++] = "--offload-optimizer";
    args[n++] = where;
    if (from) {
        args[n++] = "--resume-from-checkpoint";
        args[n++] = from;
        args[n++] = "--require-bitexact";
    }
    args[n] = NULL;
    expect_snug(0, said(),
                ARGS("train", "--json", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--output-dir",
                     out, "--threads", "1", "--device", on->name, "--max-steps", "5", "--save-steps", "2",
                     "--learning-rate", "1e-3"),
                args);
    return out;
}

/* What the last line of --json says: `name`. */
static double printed(const char *name)
{
    size_t n;
    char *text = read_text(said(), &n);
    json_t *all = json_loads(strstr(text, "{\"first_step\""), JSON_DISABLE_EOF_CHECK, NULL);
    double x = json_number_value(json_object_get(all, name));
    assert_non_null(json_object_get(all, name));
    json_decref(all);
    free(text);
    return x;
}

/* Whether `arena` bytes here and `host` there are what all took on the device. A GPU has buffers besides, for what is on its way, and
 * updates that wait for it elsewhere. */
static bool is_split(double arena, double host, double all, const struct device *on)
{
    return strncmp(on->name, "cuda", 4) ? arena + host == all : arena + host >= 0.9 * all && arena <= all;
}

/* Whole runs, and runs that go on with states elsewhere than where they began. What the device has less, the host has more. */
static void states_elsewhere_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++)
        for (int i = 0; i < WAYS; i++) {
            const struct device *on = device(d);
            const char *near = train("near", on, ways[i], "none", NULL);
            double arena = printed("arena_bytes");
            assert_true(printed("host_bytes") == 0);
            const char *far = train("far", on, ways[i], "cpu", NULL);
            assert_true(printed("host_bytes") > 0 &&
                        is_split(printed("arena_bytes"), printed("host_bytes"), arena, on));
            assert_true(same_bytes(join(near, "model.safetensors"), join(far, "model.safetensors")));
            const char *back = train("back", on, ways[i], "none", join(far, "step-00000002"));
            assert_true(same_bytes(join(near, "model.safetensors"), join(back, "model.safetensors")));
            const char *forth = train("forth", on, ways[i], "cpu", join(near, "step-00000002"));
            assert_true(same_bytes(join(near, "model.safetensors"), join(forth, "model.safetensors")));
            const char *const names[] = {near, far, back, forth};
            for (size_t k = 0; k < 4; k++)
                remove_tree(names[k]);
        }
}

/* The fp32 weights of 16-bit copies, by themselves and with the states: of a model that ties its table to the head, with accumulation, a
 * frozen weight, an evaluation beside it, adapters, an optimizer whose update is several nodes. */
static void weights_elsewhere_have_the_same_bits(void **state)
{
    (void)state;
    const struct {
        const char *model;
        const char *const *args;
    } runs[] = {
        {"golden/trainer/init", ARGS("--gradient-accumulation-steps", "2", "--batch-size", "2")},
        {"golden/trainer/init", ARGS("--max-grad-norm", "0", "--freeze", "*.self.query.*", "--gradient-checkpointing")},
        {"golden/gpt2", ARGS("--batch-size", "4", "--eval-data", "synthetic:8x12", "--eval-strategy", "epoch")},
        {"golden/llama", ARGS("--batch-size", "4", "--optim", "muon")},
        {"golden/llama", ARGS("--batch-size", "4", "--optim", "adamw_8bit", "--optim-args", "min_8bit_size=1")},
        {"golden/llama", ARGS("--batch-size", "4", "--use-peft")},
    };
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            const struct device *on = device(d);
            const char *file =
                strcmp(runs[i].args[2], "--use-peft") ? "model.safetensors" : "adapter_model.safetensors";
            double arena = 0, host[3];
            if (strcmp(on->dtype, "bf16"))
                continue;
            for (int k = 0; k < 3; k++) {
                const char *out = join(folder, k ? "far" : "near");
                expect_snug(0, said(),
                            ARGS("train", "--json", "--init-from-config", "--model", fixture(runs[i].model),
                                 "--train-data", "synthetic:24x12", "--output-dir", out, "--threads", "1", "--device",
                                 on->name, "--bf16", "--max-steps", "4", "--save-steps", "2", "--learning-rate", "1e-3",
                                 "--weight-copies", "resident", "--offload-param", k ? "cpu" : "none",
                                 "--offload-optimizer", k == 2 ? "cpu" : "none"),
                            runs[i].args);
                host[k] = printed("host_bytes");
                if (!k)
                    arena = printed("arena_bytes");
                assert_true(is_split(printed("arena_bytes"), host[k], arena, on));
                if (k) {
                    assert_true(same_bytes(join(join(folder, "near"), file), join(out, file)));
                    remove_tree(out);
                }
            }
            assert_true(host[0] == 0 && host[1] > 0 && host[2] > host[1]);
            remove_tree(join(folder, "near"));
        }
}

/* Activations of all layers: kept or computed again, with and without accumulation, of a decoder, an encoder-decoder and experts; beside
 * states that pass through buffers, too. On a device they leave, and less of its memory is planned. */
static void activations_elsewhere_have_the_same_bits(void **state)
{
    (void)state;
    const char *encoder = make_deeper(folder, "golden/bert", LAYERS + 1);
    const struct {
        const char *model, *data;
        const char *const *args;
    } runs[] = {
        {encoder, "synthetic:384x12", ARGS("--batch-size", "128")},
        {encoder, "synthetic:384x12",
         ARGS("--batch-size", "128", "--gradient-checkpointing", "--gradient-accumulation-steps", "2")},
        {deep, "synthetic:384x12", ARGS("--batch-size", "128", "--offload-optimizer", "cpu", "--max-grad-norm", "0")},
        {deep, "synthetic:384x12", ARGS("--batch-size", "128", "--recompute", "2", "--use-peft")},
        {make_deeper(folder, "golden/qwen3_moe", LAYERS - 1), "synthetic:384x12", ARGS("--batch-size", "128")},
    };
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            const struct device *on = device(d);
            bool lora = i == 3, elsewhere = !strncmp(on->name, "cuda", 4);
            const char *file = lora ? "adapter_model.safetensors" : "model.safetensors";
            double arena[2], host[2];
            for (int k = 0; k < 2; k++) {
                const char *out = join(folder, k ? "far" : "near");
                expect_snug(0, said(),
                            ARGS("train", "--json", "--init-from-config", "--model", runs[i].model, "--train-data",
                                 runs[i].data, "--output-dir", out, "--threads", "1", "--device", on->name,
                                 "--max-steps", "3", "--save-strategy", "no", "--learning-rate", "1e-3", "--dtype",
                                 on->dtype, "--offload-activations", k ? "cpu" : "none"),
                            runs[i].args);
                arena[k] = printed("arena_bytes");
                host[k] = printed("host_bytes");
            }
            assert_true(same_bytes(join(join(folder, "near"), file), join(join(folder, "far"), file)));
            assert_true(elsewhere ? arena[1] <= arena[0] && host[1] > host[0] : arena[1] == arena[0]);
            assert_true(!elsewhere || i > 0 ||
                        arena[1] < arena[0]); /* which others have elsewhere than at activations */
            assert_true(host[0] == 0 || i == 2);
            remove_tree(join(folder, "near"));
            remove_tree(join(folder, "far"));
        }
}

/* host: --host-memory-budget, NULL: none. NULL where it is refused. */
static json_t *plan(const char *budget, const char *where, const char *host)
{
    int status = snug(
        said(),
        ARGS("plan", "--json", "--gpu", "l4", "--model", deep, "--init-from-config", "--train-data", "synthetic:64x12",
             "--batch-size", "8", "--gradient-accumulation-steps", "1", "--pure-bf16", "--save-strategy", "no"),
        ARGS("--memory-budget", budget, "--offload-optimizer", where, host ? "--host-memory-budget" : NULL, host));
    return status ? NULL : said_object();
}

static double number(const json_t *o, const char *name)
{
    assert_non_null(json_object_get(o, name));
    return json_number_value(json_object_get(o, name));
}

/* Less memory: nothing is elsewhere, then the states of some layers, then of all; always within the budget, and never faster. */
static void states_go_where_there_is_room(void **state)
{
    (void)state;
    enum { BUDGETS = 12 };
    json_t *o = plan("1GiB", "auto", NULL);
    double most = number(o, "arena_bytes"), before = 0;
    assert_true(number(o, "host_bytes") == 0);
    json_decref(o);
    o = plan("1GiB", "cpu", NULL);
    assert_true(number(json_array_get(json_object_get(o, "ways"), 0), "host_layers") == LAYERS + 2);
    double states = number(o, "host_bytes");
    assert_true(states > 0 && number(o, "arena_bytes") == most - states);
    json_decref(o);
    int none = 0, some = 0, all = 0;
    for (int i = 0; i <= BUDGETS; i++) {
        char budget[32];
        double bytes = most - states * i / BUDGETS;
        snprintf(budget, sizeof budget, "%.0fB", bytes);
        o = plan(budget, "auto", NULL);
        json_t *way = json_array_get(json_object_get(o, "ways"), 0);
        double host = number(o, "host_bytes"), seconds = number(way, "typical_seconds");
        assert_true(number(o, "arena_bytes") <= bytes && host <= states && seconds >= before);
        assert_true((number(way, "host_layers") > 0) == (host > 0));
        none += host == 0, some += host > 0 && host < states, all += host == states;
        before = seconds;
        json_decref(o);
    }
    assert_true(none > 0 && some > 0 && all > 0);
}

/* No way has more offloaded than the host is said to have, one with less is never faster, and with all that is wanted it is as if nobody
 * had asked: which a note says. */
static void no_way_is_over_the_hosts_memory(void **state)
{
    (void)state;
    enum { BUDGETS = 6 };
    char budget[32], host[32];
    size_t k;
    json_t *o = plan("1GiB", "auto", NULL), *way;
    assert_false(file_has(said(), "is taken to have"));
    double most = number(o, "arena_bytes");
    json_decref(o);
    o = plan("1GiB", "cpu", NULL);
    snprintf(budget, sizeof budget, "%.0fB", most - number(o, "host_bytes") / 2);
    json_decref(o);
    o = plan(budget, "auto", NULL);
    assert_true(file_has(said(), "the host of that GPU is taken to have"));
    double all = number(o, "host_bytes"), transfer = number(o, "transfer_bytes"), before = INFINITY;
    double free_choice = number(json_array_get(json_object_get(o, "ways"), 0), "typical_seconds");
    assert_true(number(o, "host_bytes") > 0);
    json_decref(o);
    for (int i = 0; i <= BUDGETS; i++) {
        double there = transfer + floor(all * i / BUDGETS);
        snprintf(host, sizeof host, "%.0fB", there);
        o = plan(budget, "auto", host);
        assert_false(file_has(said(), "is taken to have"));
        assert_non_null(o);
        json_array_foreach(json_object_get(o, "ways"), k, way)
            assert_true(number(way, "host_bytes") <= there - transfer);
        double seconds = number(json_array_get(json_object_get(o, "ways"), 0), "typical_seconds");
        assert_true(seconds <= before && (i > 0 || seconds > free_choice));
        before = seconds;
        json_decref(o);
    }
    assert_true(before == free_choice);
    assert_null(plan("1GiB", "cpu", "1KiB"));
    assert_true(file_has(said(), "of the host's memory, and 1.00 KiB are --host-memory-budget"));
}

/* A checkpoint's copy takes the memory that states need. A refusal says that it fits without, and then it does. */
static void a_refusal_says_what_a_checkpoint_takes(void **state)
{
    (void)state;
    const char *const *large = ARGS("plan", "--gpu", "rtx3090", "--model", fixture("../bench/models/bert-large"),
                                    "--batch-size", "8", "--memory-budget", "4GiB", "--host-memory-budget", "4GiB");
    expect_snug(4, said(), large, ARGS("--save-strategy", "steps"));
    assert_true(file_has(said(), "it fits with --save-strategy no"));
    expect_snug(0, said(), large, ARGS("--save-strategy", "no"));
    assert_true(file_has(said(), "lie in the host's memory: "));
}

static int set_up(void **state)
{
    int code = open_folder(state);
    rows = "synthetic:24x12";
    deep = make_deeper(folder, "golden/llama", LAYERS);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_elsewhere_have_the_same_bits),
        cmocka_unit_test(weights_elsewhere_have_the_same_bits),
        cmocka_unit_test(activations_elsewhere_have_the_same_bits),
        cmocka_unit_test(states_go_where_there_is_room),
        cmocka_unit_test(no_way_is_over_the_hosts_memory),
        cmocka_unit_test(a_refusal_says_what_a_checkpoint_takes),
    };
    return cmocka_run_group_tests_name("offload", tests, set_up, close_folder);
}
