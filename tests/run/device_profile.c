/* snug plan for a GPU that is not there, from its profile (--device-profile). */
#include "command.h"

#include "backend/backend.h"
#include "base/io.h"
#include "base/size.h"
#include "base/str.h"

#include <sys/stat.h>

static const char *profile;

/* Of an H200. */
static void write_profile(const char *version, long long free_bytes, const char *products)
{
    struct snug_err err;
    struct str text = {0};
    str_printf(
        &text,
        "{\"format\": \"snug-device-profile\", \"version\": %s, \"device\": \"NVIDIA H200\", \"arch\": 90, "
        "\"multiprocessors\": 132, \"free_bytes\": %lld, \"cublaslt\": 130100, \"products\": [%s], \"times\": {}}",
        version, free_bytes, products);
    assert_int_equal(io_write_file(&io_posix, profile, text.s, text.n, &err), 0);
    str_free(&text);
}

static json_t *planned(const char *const *args)
{
    expect_snug(0, said(), ARGS("plan", "--json", "--device-profile", profile, "--save-strategy", "no"), args);
    return said_object();
}

static long long bytes(const char *component, const char *const *args)
{
    json_t *plan = planned(args), *parts = component ? json_object_get(plan, "components") : plan;
    long long n = json_integer_value(json_object_get(parts, component ? component : "arena_bytes"));
    json_decref(plan);
    return n;
}

/* BERT-large, 32 rows of 512 tokens: what an H100 allocated. */
static void as_on_the_device(void **state)
{
    (void)state;
    const char *const *run =
        ARGS("--model", fixture("../bench/models/bert-large"), "--init-from-config", "--train-data",
             "synthetic:65536x512", "--bf16", "--batch-size", "32", "--dropout-masks", "resident");
    const char *const *without =
        ARGS("--model", fixture("../bench/models/bert-large"), "--init-from-config", "--train-data",
             "synthetic:65536x512", "--bf16", "--batch-size", "32", "--dropout-masks", "transient");
    if (!backend_cuda_arch(0))
        skip();
    write_profile("2", 150000000000, "");
    assert_int_equal(bytes(NULL, run), 17798036480);
    assert_int_equal(bytes(NULL, without), 17400855552);
}

/* Several of that GPU, of whose steps nothing was measured: the time is by its data sheet. */
static void what_was_not_measured_is_reckoned(void **state)
{
    (void)state;
    if (!backend_cuda_arch(0))
        skip();
    write_profile("2", 1000000000, "");
    json_t *plan = planned(
        ARGS("--model", fixture("golden/trainer/init"), "--train-data", "synthetic:64x12", "--bf16", "--gpus", "2"));
    json_t *time = json_object_get(plan, "time");
    assert_false(json_is_true(json_object_get(time, "measured")));
    assert_true(json_number_value(json_object_get(time, "step_seconds")) > 0);
    json_decref(plan);
}

/* All layers of the tiny model have algorithms that want 1 MiB; without any 32 MiB are reckoned with, and that is said. */
static void workspaces_are_the_profiles(void **state)
{
    (void)state;
    static const int layers[][2] = {{16, 48}, {16, 16}, {16, 24}, {24, 16}, {16, 3}};
    static const char *const ops[] = {"linear", "linear_dx", "linear_dw"};
    const char *const *run = ARGS("--model", fixture("golden/trainer/init"), "--train-data", "synthetic:64x12");
    struct str products = {0};
    if (!backend_cuda_arch(0))
        skip();
    for (int i = 0; i < 15; i++)
        str_printf(&products,
                   "%s{\"op\": \"%s\", \"N\": 96, \"I\": %d, \"O\": %d, \"in\": \"F32\", \"out\": \"F32\", \"in_out\": "
                   "false, \"add\": false, \"tf32\": false, \"act\": \"none\", \"own\": false, \"used\": true, "
                   "\"align\": 16, \"us\": 1, \"workspace\": 1048576, \"algo\": \"%0128d\"}",
                   i ? ", " : "", ops[i % 3], layers[i / 3][0], layers[i / 3][1], 0);
    write_profile("2", 1000000000, products.s);
    assert_int_equal(bytes("workspaces", run), 1 << 20);
    assert_false(file_has(said(), "were never measured"));
    write_profile("2", 1000000000, "");
    assert_int_equal(bytes("workspaces", run), 32 << 20);
    assert_true(file_has(said(), "matrix products were never measured on that device"));
    write_profile("2", 1000, "");
    long long arena = bytes(NULL, run);
    char line[128], more[SIZE_TEXT_MAX], there[SIZE_TEXT_MAX];
    snprintf(line, sizeof line, "the plan needs %s more than the %s that are free for it on the device",
             size_text(arena - 1000, more), size_text(1000, there));
    assert_true(file_has(said(), line));
    str_free(&products);
}

static void refused(void **state)
{
    (void)state;
    const char *const *run = ARGS("--model", fixture("golden/trainer/init"), "--train-data", "synthetic:64x12");
    if (!backend_cuda_arch(0))
        skip();
    write_profile("1", 1000000000, "");
    expect_snug(3, said(), ARGS("plan", "--device-profile", profile), run);
    assert_true(file_has(said(), "version is 1"));
    expect_snug(2, said(), ARGS("plan", "--device", "cpu", "--device-profile", profile), run);
    expect_snug(2, said(), ARGS("train", "--device-profile", profile), run);
}

/* The model of the trainer's fixture in other sizes: a folder with its config.json. */
static const char *sized(const char *name, int hidden_size, int heads)
{
    const char *dir = join(folder, name);
    json_t *config = json_load_file(fixture("golden/trainer/init/config.json"), 0, NULL);
    assert_non_null(config);
    json_object_set_new(config, "hidden_size", json_integer(hidden_size));
    json_object_set_new(config, "num_attention_heads", json_integer(heads));
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(json_dump_file(config, join(dir, "config.json"), 0), 0);
    json_decref(config);
    return dir;
}

static void what_no_kernel_takes_is_not_planned(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int hidden_size, heads;
        const char *message; /* NULL: it is planned */
    } models[] = {{"small-heads", 16, 4,
                   "attention: a head of 4 elements in F32; on CUDA it has 8, 16, ... or 128: use --device cpu"},
                  {"large-heads", 1024, 4, "attention: a head of 256 elements in F32"},
                  {"wide", 9216, 96, "norm: rows of 9216 features; on CUDA they have at most 8192: use --device cpu"},
                  {"widest", 8192, 64, NULL}};
    if (!backend_cuda_arch(0))
        skip();
    write_profile("2", 150000000000, "");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        expect_snug(models[i].message ? 2 : 0, said(), ARGS("plan", "--device-profile", profile),
                    ARGS("--model", sized(models[i].name, models[i].hidden_size, models[i].heads), "--init-from-config",
                         "--train-data", "synthetic:64x12"));
        assert_true(!models[i].message || file_has(said(), models[i].message));
    }
}

static int set_up(void **state)
{
    open_folder(state);
    profile = join(folder, "device.json");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_on_the_device), cmocka_unit_test(what_was_not_measured_is_reckoned),
        cmocka_unit_test(workspaces_are_the_profiles), cmocka_unit_test(what_no_kernel_takes_is_not_planned),
        cmocka_unit_test(refused)};
    return cmocka_run_group_tests_name("device_profile", tests, set_up, close_folder);
}
