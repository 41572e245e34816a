/* --recompute auto: whatever a plan drops to keep to its budget, the run gives the same bits as one that keeps everything. */
#include "runs_help.h"

static long long member(const char *text, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text, key);
    assert_non_null(at);
    return atoll(at + strlen(key));
}

/* a, then b, in `args`, which lasts. */
static const char *const *joined(const char *const *a, const char *const *b, const char *args[64])
{
    int n = 0;
    for (; a && *a; a++)
        args[n++] = *a;
    for (; b && *b; b++)
        args[n++] = *b;
    args[n] = NULL;
    return args;
}

/* Bytes that count, of a run on a CPU: without checkpoints the arena. */
static long long planned(const struct device *on, const char *const *run, const char *const *more)
{
    size_t n;
    const char *args[64];
    expect_snug(0, said(), ARGS("plan", "--json", "--device", on->name, "--dtype", on->dtype, "--threads", "1"),
                joined(run, more, args));
    char *text = read_text(said(), &n);
    long long bytes = member(text, "arena_bytes");
    free(text);
    return bytes;
}

/* A log without the hashes of what a checkpoint would have, options included. */
static json_t *read_plain_log(const char *out)
{
    json_t *log = read_log(out);
    for (size_t i = 0; i < json_array_size(log); i++)
        json_object_del(json_array_get(log, i), "state_hash");
    return log;
}

/* Every line of the log and the result. */
static void assert_same(const char *a, const char *b, const char *result)
{
    json_t *x = read_plain_log(a), *y = read_plain_log(b);
    assert_true(json_array_size(x) > 2 && json_equal(x, y));
    json_decref(x);
    json_decref(y);
    assert_true(same_bytes(join(a, result), join(b, result)));
}

static void budgets_do_not_change_bits(void **state)
{
    (void)state;
    const char *const *lora = ARGS("--use-peft", "--target-modules", "all-linear", "--lora-dropout", "0.1");
    const struct {
        const char *model, *data;
        const char *const *more;
        const char *result;
    } cases[] = {{make_deeper(folder, "golden/trainer/init", 5), rows, ARGS(DROPOUT), "model.safetensors"},
                 {make_deeper(folder, "golden/gpt2", 6), texts, ARGS(DROPOUT, "--gradient-accumulation-steps", "2"),
                  "model.safetensors"},
                 {make_deeper(folder, "golden/llama", 7), texts, ARGS("--gradient-accumulation-steps", "2"),
                  "model.safetensors"},
                 {make_deeper(folder, "golden/bert", 4), rows, lora, "adapter_model.safetensors"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int d = 0; d < n_devices(); d++) {
            if (!is_host(device(d)))
                continue;
            const char *args[64];
            const char *const *run = joined(ARGS("--model", cases[c].model, "--init-from-config", "--train-data",
                                                 cases[c].data, EVERY_STEP, "--max-steps", "3"),
                                            cases[c].more, args);
            long long all = planned(device(d), run, NULL), most = all, found = 0;
            long long layer = planned(device(d), run, ARGS("--recompute", "layer"));
            assert_true(layer < all);
            const char *kept = train("kept", device(d), run, NULL);
            for (int i = 2; i >= 0; i--) {
                char budget[32];
                long long bytes = layer + (all - layer) * i / 3;
                snprintf(budget, sizeof budget, "%lldB", bytes);
                const char *const *tight = ARGS("--recompute", "auto", "--memory-budget", budget);
                found = planned(device(d), run, tight);
                assert_true(found <= bytes && found <= most);
                most = found;
                const char *out = train("tight", device(d), run, tight);
                assert_same(kept, out, cases[c].result);
                json_t *x = read_log(kept), *y = read_log(out);
                assert_true(json_equal(x, y)); /* the hashes of all states, too */
                json_decref(x);
                json_decref(y);
                assert_true(file_has(said(), "layers are computed again"));
            }
        }
}

/* The batch that is asked for has no room. The run is the one that the note says, with the same bits, and keeps to the budget; a batch
 * that has room stays as it is. */
static void a_batch_is_cut_as_the_note_says(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        if (!is_host(device(d)))
            continue;
        const char *const *all = ARGS(MODEL, DROPOUT, EVERY_STEP, "--batch-size", "16");
        const char *const *halves =
            ARGS(MODEL, DROPOUT, EVERY_STEP, "--batch-size", "8", "--gradient-accumulation-steps", "2");
        long long bytes = planned(device(d), all, NULL), enough = planned(device(d), halves, NULL);
        assert_true(enough < bytes);
        char budget[32], rows_of[16], times[16];
        snprintf(budget, sizeof budget, "%lldB", enough);
        const char *const *find = ARGS("--auto-find-batch-size", "--memory-budget", budget);
        assert_true(planned(device(d), all, find) <= enough);
        const char *cut = train("cut", device(d), all, find);
        size_t n;
        char *text = read_text(said(), &n);
        const char *line = strstr(text, "chosen: --batch-size ");
        assert_non_null(line);
        assert_int_equal(
            sscanf(line, "chosen: --batch-size %15s --gradient-accumulation-steps %15[0-9]", rows_of, times), 2);
        assert_int_equal(atoi(rows_of) * atoi(times), 16);
        free(text);
        const char *given = train("given", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP, "--batch-size", rows_of),
                                  ARGS("--gradient-accumulation-steps", times));
        assert_same(cut, given, "model.safetensors");
        snprintf(budget, sizeof budget, "%lldB", bytes);
        assert_int_equal(planned(device(d), all, find), bytes);
    }
}

/* Of a layer that is computed again a decoder keeps one tensor of its residual's size: the sum that its first norm has made. */
static void a_decoder_keeps_its_residual_alone(void **state)
{
    (void)state;
    enum { LAYERS = 8, TOKENS = 64 * 12, HIDDEN = 16 };
    expect_snug(0, said(),
                ARGS("plan", "--json", "--device", "cpu", "--model", make_deeper(folder, "golden/llama", LAYERS),
                     "--init-from-config", "--train-data", "synthetic:64x12", "--batch-size", "64", "--threads", "1",
                     "--gradient-checkpointing"),
                NULL);
    json_t *o = said_object(), *layers = json_object_get(o, "layers");
    for (size_t l = 2; l < LAYERS - 1; l++) {
        json_t *parts = json_object_get(json_array_get(layers, l), "components");
        assert_int_equal(json_integer_value(json_object_get(parts, "activations")), TOKENS * HIDDEN * 4);
    }
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_do_not_change_bits),
        cmocka_unit_test(a_batch_is_cut_as_the_note_says),
        cmocka_unit_test(a_decoder_keeps_its_residual_alone),
    };
    return cmocka_run_group_tests_name("recompute", tests, set_up, close_folder);
}
