/* Runs that must give the same numbers: however the batch is cut, whatever is recomputed, on any number of threads,
 * with any amount of saving and logging. */
#include "runs_help.h"

/* 45 rows: the last window of each epoch is shorter. With dropout the curves agree only if a mask does not depend on
 * how the batch is cut. In bf16 gradients that are added up are wider than those that are not. */
static void a_cut_batch_gives_the_same_curve(void **state)
{
    (void)state;
    static const char *const cuts[][3] = {
        {"cut-1", "16", "1"}, {"cut-2", "8", "2"}, {"cut-4", "4", "4"}, {"cut-16", "1", "16"}};
    for (int d = 0; d < n_devices(); d++) {
        const char *whole = NULL;
        for (int c = 0; c < 4; c++) {
            const char *out = train(cuts[c][0], device(d), ARGS(MODEL, DROPOUT, EVERY_STEP),
                                    ARGS("--batch-size", cuts[c][1], "--gradient-accumulation-steps", cuts[c][2]));
            whole = c ? whole : out;
            assert_true(log_distance(whole, out, "loss") <= device(d)->cut_error);
            assert_true(log_distance(whole, out, "grad_norm") <= 20 * device(d)->cut_error);
        }
        const char *without = train("without", device(d), ARGS(MODEL, EVERY_STEP), ARGS("--batch-size", "16"));
        assert_true(log_distance(whole, without, "loss") > 1e-4); /* there was dropout */
    }
}

/* Dropout's masks, the order of the rows and the schedule are the same everywhere: in fp32 the curves of different
 * devices differ by rounding, in training and in evaluation. */
static void the_cpu_gives_the_same_curve(void **state)
{
    (void)state;
    static const struct device cpu = {.name = "cpu", .dtype = "fp32"};
    const char *const *const models[] = {ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows),
                                         ARGS("--model", fixture("golden/gpt2"), "--train-data", texts)};
    for (int m = 0; m < 2; m++)
        for (int d = 0; d < n_devices(); d++) {
            const char *const *run = ARGS(DROPOUT, "--learning-rate", "1e-3", "--logging-steps", "1", "--save-strategy",
                                          "no", "--gradient-accumulation-steps", "2", "--max-steps", "20");
            if (!is_fp32(device(d)))
                continue;
            const char *here = train("here", device(d), models[m], run), *there = train("there", &cpu, models[m], run);
            assert_true(log_distance(here, there, "loss") <= 1e-5);
            assert_true(log_distance(here, there, "grad_norm") <= 2e-4);
            const char *data = m ? texts : other_rows;
            double loss[2];
            for (int i = 0; i < 2; i++) {
                expect_snug(0, said(), ARGS("eval", "--model", there, "--data", data, "--json", "--threads", "1"),
                            ARGS("--device", i ? "cpu" : device(d)->name));
                json_t *metrics = said_object();
                loss[i] = number(metrics, "loss");
                json_decref(metrics);
            }
            assert_true(fabs(loss[0] - loss[1]) <= 1e-5 * loss[1]);
        }
}

/* group NULL: of the plan itself. */
static long long planned_member(const char *group, const char *what, const char *const *first,
                                const char *const *second)
{
    expect_snug(0, said(), first, second);
    json_t *plan = said_object();
    long long bytes = json_integer_value(json_object_get(group ? json_object_get(plan, group) : plan, what));
    json_decref(plan);
    return bytes;
}

static long long planned_bytes(const char *what, const char *const *first, const char *const *second)
{
    return planned_member(NULL, what, first, second);
}

/* The gradients of products over tokens are half as large: in a layer 4 H^2 + 2 H F weights, but of the last one only
 * the 3 H^2 of query, key and value, since what follows is done for the first token alone. The curve stays, within the
 * rounding of the sums; the bits do not. */
static void gradients_are_added_up_in_16_bits(void **state)
{
    (void)state;
    enum { H = 16, F = 24, LAYERS = 2, NARROW = (LAYERS - 1) * (4 * H * H + 2 * H * F) + 3 * H * H };
    const char *const *cut = ARGS("--batch-size", "4", "--gradient-accumulation-steps", "4");
    const char *const *narrow =
        ARGS("--batch-size", "4", "--gradient-accumulation-steps", "4", "--gradient-accumulation-dtype", "model");
    for (int d = 0; d < n_devices(); d++) {
        const char *dtype = device(d)->dtype;
        if (strcmp(dtype, "bf16") && strcmp(dtype, "fp16"))
            continue;
        const char *const *plan = ARGS("plan", "--json", "--model", fixture("golden/trainer/init"), "--train-data",
                                       rows, "--device", device(d)->name, "--dtype", dtype, "--threads", "1");
        const char *narrow_type = strcmp(dtype, "bf16") ? "F16" : "BF16";
        long long before = planned_member("accumulated_gradients", "F32", plan, cut);
        assert_int_equal(planned_member("accumulated_gradients", narrow_type, plan, cut), 0);
        assert_int_equal(planned_member("accumulated_gradients", narrow_type, plan, narrow), 2 * NARROW);
        assert_int_equal(planned_member("accumulated_gradients", "F32", plan, narrow), before - 4 * NARROW);
        assert_int_equal(planned_member("components", "gradients", plan, cut) -
                             planned_member("components", "gradients", plan, narrow),
                         2 * NARROW);
        assert_true(planned_bytes("persistent_bytes", plan, cut) - planned_bytes("persistent_bytes", plan, narrow) >=
                    2 * NARROW - 16 * 256); /* values are aligned */
        if (is_host(device(d))) /* ranks add up one micro-batch's, which have the type that they have on one */
            assert_int_equal(
                planned_member("components", "gradients", plan, cut) -
                    planned_member("components", "gradients", plan, ARGS("--batch-size", "4", "--ranks", "2")),
                2 * NARROW);
        const char *a = train("sums-32", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), cut);
        const char *b = train("sums-16", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), narrow);
        assert_true(log_distance(a, b, "loss") <= device(d)->cut_error);
        assert_true(log_distance(a, b, "grad_norm") <= 20 * device(d)->cut_error);
        assert_false(same_bytes(join(a, "model.safetensors"), join(b, "model.safetensors")));
    }
}

/* Five layers and six, in segments of one to all of them; the arena shrinks, the numbers stay. The plan says how many
 * layers that are: a classifier's last segment is none of them. */
static void recomputed_activations_give_the_same_bits(void **state)
{
    (void)state;
    const char *const models[][2] = {{make_deeper(folder, "golden/trainer/init", 5), rows},
                                     {make_deeper(folder, "golden/gpt2", 6), texts}};
    for (int m = 0; m < 2; m++)
        for (int d = 0; d < n_devices(); d++)
            for (int accumulation = 1; accumulation <= 2; accumulation++) {
                const char *const *run =
                    ARGS("--model", models[m][0], "--init-from-config", "--train-data", models[m][1],
                         "--hidden-dropout-prob", "0.2", "--attention-probs-dropout-prob", "0.2", EVERY_STEP,
                         "--max-steps", "4", "--gradient-accumulation-steps", accumulation == 1 ? "1" : "2");
                const char *kept = train("kept", device(d), run, NULL);
                static const struct {
                    const char *every, *layers[2];
                } cases[] = {{"every_n_layers=1", {"4 of 5", "6 of 6"}},
                             {"every_n_layers=2", {"4 of 5", "6 of 6"}},
                             {"every_n_layers=3", {"3 of 5", "6 of 6"}},
                             {"every_n_layers=9", {"0 of 5", "6 of 6"}}};
                for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
                    char line[64];
                    const char *again =
                        train("recomputed", device(d), run,
                              ARGS("--gradient-checkpointing", "--gradient-checkpointing-kwargs", cases[n].every));
                    snprintf(line, sizeof line, "activations of %s layers are computed again", cases[n].layers[m]);
                    assert_true(file_has(said(), line));
                    assert_same_run(kept, again);
                }
                const char *const *plan = ARGS("plan", "--model", models[m][0], "--train-data", models[m][1],
                                               "--device", device(d)->name, "--dtype", device(d)->dtype, "--json");
                assert_true(planned_bytes("arena_bytes", plan, ARGS("--gradient-checkpointing")) <
                            planned_bytes("arena_bytes", plan, NULL));
            }
}

/* Where nothing is clipped and a step that is not finite ends the run, a layer's gradients are gone with its updates: less
 * memory, the same bits. A GPU does so where there is no room for all gradients. */
static void early_updates_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adamw_torch", "sgd", "adafactor"};
    for (int d = 0; d < n_devices(); d++)
        for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
            const char *const *run = ARGS("--model", fixture("golden/trainer/init"), "--train-data", rows, EVERY_STEP,
                                          "--max-steps", "4", "--max-grad-norm", "0", "--optim", optimizers[i]);
            const char *const *plan = ARGS("plan", "--model", fixture("golden/trainer/init"), "--train-data", rows,
                                           "--device", device(d)->name, "--dtype", device(d)->dtype, "--optim",
                                           optimizers[i], "--max-grad-norm", "0", "--json");
            int64_t late_bytes = planned_bytes("arena_bytes", plan, ARGS("--nan-policy", "skip"));
            char budget[32];
            snprintf(budget, sizeof budget, "%lldB", (long long)late_bytes - 1);
            bool scaled = !strcmp(device(d)->dtype, "fp16"); /* such a step may be left out in any case */
            const char *const *tight = is_host(device(d)) || scaled ? NULL : ARGS("--memory-budget", budget);
            int64_t early_bytes = planned_bytes("arena_bytes", plan, tight);
            assert_true(scaled ? early_bytes == late_bytes : early_bytes < late_bytes);
            const char *late = train("late", device(d), run, ARGS("--nan-policy", "skip"));
            const char *early = train("early", device(d), run, tight);
            assert_true(log_distance(late, early, "loss") == 0 && log_distance(late, early, "grad_norm") == 0);
            assert_true(same_bytes(join(late, "model.safetensors"), join(early, "model.safetensors")));
        }
}

static const char *wide;

/* A model whose matrices, tables and batches are large enough to be cut among threads. */
static const char *make_wide(void)
{
    static const struct {
        const char *key;
        int value;
    } sizes[] = {
        {"vocab_size", 20000}, {"hidden_size", 128}, {"intermediate_size", 512}, {"max_position_embeddings", 64}};
    const char *model = join(folder, "wide");
    json_t *config = json_load_file(join(fixture("golden/trainer/init"), "config.json"), 0, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        json_object_set_new(config, sizes[i].key, json_integer(sizes[i].value));
    assert_int_equal(mkdir(model, 0700), 0);
    assert_int_equal(json_dump_file(config, join(model, "config.json"), 0), 0);
    json_decref(config);
    return model;
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    const char *long_rows = make_rows(folder, 64, 64, 7, true);
    for (int d = 0; d < n_devices(); d++) {
        bool wide_too = strcmp(device(d)->name, "reference") != 0; /* which has one thread */
        for (int w = 0; w <= (wide_too ? 1 : 0); w++) {
            const char *const *run =
                w ? ARGS("--model", wide, "--init-from-config", "--train-data", long_rows, DROPOUT, EVERY_STEP,
                         "--batch-size", "16", "--max-steps", "3", "--learning-rate", "1e-3", "--eval-data", long_rows)
                  : ARGS(MODEL, DROPOUT, EVERY_STEP, "--eval-data", other_rows, "--eval-strategy", "epoch");
            static const char *const threads[] = {"1", "2", "3", "7"};
            for (int t = 0; t < 4; t++) {
                const char *out = join(folder, threads[t]);
                remove_tree(out);
                expect_snug(0, said(),
                            ARGS("train", "--device", device(d)->name, "--dtype", device(d)->dtype, "--log-hash",
                                 "--output-dir", out, "--threads", threads[t]),
                            run);
                if (t)
                    assert_same_run(join(folder, threads[0]), out);
            }
        }
    }
}

/* A member of the state that the newest checkpoint of a run holds. */
static long long saved_number(const char *out, const char *name)
{
    size_t n;
    char *text = read_text(join(out, "latest/state.json"), &n);
    json_t *doc = json_loads(text, 0, NULL), *run = json_object_get(doc, "run");
    assert_true(json_is_integer(json_object_get(run, name)));
    long long x = json_integer_value(json_object_get(run, name));
    json_decref(doc);
    free(text);
    return x;
}

static long long count_tokens(const char *path)
{
    struct st_file f;
    long long tokens = 0;
    assert_int_equal(st_open(&io_posix, path, &f, NULL), SNUG_OK);
    const struct st_tensor *t = st_find(&f, "attention_mask");
    int32_t *mask = malloc((size_t)t->bytes);
    assert_int_equal(st_read(&f, t, mask, NULL), SNUG_OK);
    for (int64_t i = 0; i < st_elements(t); i++)
        tokens += mask[i];
    free(mask);
    st_close(&f);
    return tokens;
}

static void saving_and_looking_change_nothing(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const char *const *run = ARGS(MODEL, DROPOUT, "--save-total-limit", "2");
        const char *plain = train("plain", device(d), ARGS(MODEL, DROPOUT, EVERY_STEP), NULL);
        const char *saved = train("saved", device(d), run, ARGS("--logging-steps", "1", "--save-steps", "1"));
        assert_same_run(plain, saved);
        assert_int_equal(saved_number(saved, "step"), 3 * 6); /* 45 rows, 8 at a time, three times */
        assert_int_equal(saved_number(saved, "updates"), 3 * 6);
        assert_int_equal(saved_number(saved, "samples"), 3 * 45);
        assert_int_equal(saved_number(saved, "tokens"), 3 * count_tokens(rows));
        const char *looked = train("looked", device(d), run,
                                   ARGS("--logging-steps", "5", "--save-steps", "4", "--eval-data", other_rows,
                                        "--eval-strategy", "steps", "--eval-steps", "1", "--eval-on-start"));
        assert_true(same_bytes(join(plain, "model.safetensors"), join(looked, "model.safetensors")));
        const char *again = train("again", device(d), run, ARGS("--logging-steps", "1", "--save-steps", "3"));
        assert_same_run(plain, again);
    }
}

/* ---- Memory. */

/* Resident memory of every logged step: what was planned, all of it, and at most 64 MB of program. A GPU's driver takes
 * what it likes. */
static void memory_is(const char *out, const struct device *on, double planned, double used)
{
    json_t *log = read_whole_log(out);
    assert_int_equal(json_array_size(log), 3);
    for (size_t i = 0; i < 3; i++) {
        double resident = number(json_array_get(log, i), "memory");
        if (!is_host(on))
            continue;
        if (!SANITIZED && resident > planned + 64e6)
            fail_msg("%.0f bytes are resident, %.0f were planned", resident, planned);
        assert_true(resident >= 0.9 * used || i == 0);
    }
    json_decref(log);
    remove_tree(out);
}

/* What snug plan says is what snug train says and takes; with checkpoints, the copy that is being written comes on top,
 * and counts against the budget where it is in the same memory. */
static void planned_memory_is_what_is_used(void **state)
{
    (void)state;
    const char *out = join(folder, "memory");
    for (int d = 0; d < n_devices(); d++) {
        const char *const *run = /* the smallest plan: it has nothing that a budget could make it give up */
            ARGS("--model", wide, "--init-from-config", "--train-data", rows, "--device", device(d)->name, "--dtype",
                 device(d)->dtype, "--threads", "2", "--max-steps", "3", "--logging-steps", "1", "--weight-copies",
                 "transient", "--dropout-masks", "transient");
        const char *const *no_saves = ARGS("plan", "--json", "--save-strategy", "no");
        const char *const *saves = ARGS("plan", "--json", "--save-steps", "1", "--save-total-limit", "2");
        long long arena = planned_bytes("arena_bytes", no_saves, run);
        assert_true(arena > 30 << 20);
        assert_int_equal(planned_bytes("checkpoint_bytes", no_saves, run), 0);
        expect_snug(0, said(), ARGS("train", "--json", "--output-dir", out, "--save-strategy", "no"), run);
        char line[64];
        snprintf(line, sizeof line, "\"arena_bytes\": %lld,", arena);
        assert_true(file_has(said(), line));
        memory_is(out, device(d), (double)arena, (double)arena);

        long long copy = planned_bytes("checkpoint_bytes", saves, run);
        assert_true(copy > arena / 2 && copy < arena); /* weights and two states, but no gradients */
        assert_int_equal(planned_bytes("arena_bytes", saves, run), arena);
        expect_snug(0, said(),
                    ARGS("train", "--json", "--output-dir", out, "--save-steps", "1", "--save-total-limit", "2"), run);
        snprintf(line, sizeof line, "\"checkpoint_bytes\": %lld,", copy);
        assert_true(file_has(said(), line));
        memory_is(out, device(d), (double)(arena + copy), (double)(arena + copy));

        char budget[32];
        snprintf(budget, sizeof budget, "%lldB", arena);
        expect_snug(0, said(), ARGS("plan", "--save-strategy", "no", "--memory-budget", budget), run);
        snprintf(budget, sizeof budget, "%lldB", arena - 1);
        expect_snug(4, said(), ARGS("plan", "--save-strategy", "no", "--memory-budget", budget), run);
        copy = is_host(device(d)) ? copy : 0;
        snprintf(budget, sizeof budget, "%lldB", arena + copy);
        expect_snug(0, said(), ARGS("plan", "--memory-budget", budget), run);
        snprintf(budget, sizeof budget, "%lldB", arena + copy - 1);
        expect_snug(4, said(), ARGS("plan", "--memory-budget", budget), run);
    }
}

static int set_up_wide(void **state)
{
    set_up(state);
    wide = make_wide();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_batch_gives_the_same_curve),
        cmocka_unit_test(the_cpu_gives_the_same_curve),
        cmocka_unit_test(gradients_are_added_up_in_16_bits),
        cmocka_unit_test(recomputed_activations_give_the_same_bits),
        cmocka_unit_test(early_updates_give_the_same_bits),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(saving_and_looking_change_nothing),
        cmocka_unit_test(planned_memory_is_what_is_used),
    };
    return cmocka_run_group_tests_name("runs", tests, set_up_wide, close_folder);
}
