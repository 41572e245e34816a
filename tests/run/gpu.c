/* snug plan --gpu: GPUs by their data sheets, in every build. Bytes and rates are held against those of an H200 (docs/benchmarks.md). */
#include "command.h"

#include "cuda/sheet.h"

#include <math.h>

static json_t *planned(const char *const *args)
{
    expect_snug(0, said(),
                ARGS("plan", "--json", "--cache-dir", folder, "--model", fixture("../bench/models/bert-large"),
                     "--init-from-config", "--train-data", "synthetic:65536x512"),
                args);
    return said_object();
}

static double number(const json_t *o, const char *name)
{
    assert_non_null(json_object_get(o, name));
    return json_number_value(json_object_get(o, name));
}

/* What an H200 took, and how many rows a second it did. */
static void as_it_was_measured(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *rows;
        double bytes, samples;
    } runs[] = {{"bf16", "32", 17400812544, 510},
                {"bf16", "128", 0, 537.7},
                {"bf16", "4", 6293e6, 351},
                {"tf32", "4", 7248e6, 170},
                {"fp32", "4", 7251e6, 41.4}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        json_t *o = planned(ARGS("--gpu", "h200", "--dropout-masks", "transient", "--batch-size", runs[i].rows,
                                 "--dtype", runs[i].dtype));
        double off = number(json_object_get(o, "time"), "samples_per_second") / runs[i].samples - 1;
        if (fabs(off) > 0.15)
            fail_msg("%s, %s rows: %.1f %% off", runs[i].dtype, runs[i].rows, 100 * off);
        if (runs[i].bytes > 0)
            assert_true(fabs(number(o, "arena_bytes") / runs[i].bytes - 1) < 0.01);
        assert_string_equal(json_string_value(json_object_get(json_object_get(o, "time"), "basis")), "estimated");
        json_decref(o);
    }
}

/* Without a budget the GPU's memory is one. */
static void what_fits_is_taken(void **state)
{
    (void)state;
    const struct gpu_sheet *sheet;
    assert_int_equal(gpu_sheet_find("rtx4090", &sheet, NULL), SNUG_OK);
    json_t *o = planned(ARGS("--gpu", "rtx4090", "--batch-size", "32"));
    json_t *first = json_array_get(json_object_get(o, "ways"), 0);
    assert_true(number(o, "arena_bytes") <= (double)(sheet->memory_mib << 20));
    assert_true(json_is_true(json_object_get(first, "taken")) && number(first, "bytes") == number(o, "arena_bytes"));
    assert_true(number(first, "batch_size") * number(first, "gradient_accumulation_steps") == 32);
    assert_true(json_array_size(json_object_get(o, "ways")) > 1);
    json_decref(o);
}

/* Of t5-3b (Raffel et al., arXiv 1910.10683, section 3.7): weights, and what Adafactor (arXiv 1804.04235) keeps of them, a number for each
 * row and each column. Both stacks have a table of biases and a last norm; each block has a norm. */
static void count_t5_3b(int64_t *weights, int64_t *factors)
{
    enum { D = 1024, F = 16384, INNER = 32 * 128, V = 32128, L = 24, BUCKETS = 32, HEADS = 32 };
    int64_t attentions = 3 * L, feed_forwards = 2 * L, norms = attentions + feed_forwards + 2;
    *weights = V * D + 2 * BUCKETS * HEADS + attentions * 4 * D * INNER + feed_forwards * 2 * D * F + norms * D;
    *factors = V + D + 2 * (BUCKETS + HEADS) + attentions * 4 * (D + INNER) + feed_forwards * 2 * (D + F) + norms * D;
}

static json_t *t5_3b(const char *gpu, const char *optim)
{
    expect_snug(0, said(),
                ARGS("plan", "--json", "--cache-dir", folder, "--model", fixture("../bench/models/t5-3b"),
                     "--init-from-config", "--gpu", gpu, "--optim", optim, "--bf16", "--max-length", "512",
                     "--batch-size", "4"),
                NULL);
    return said_object();
}

/* The guides' arithmetic for a model of 3 billion weights: AdamW's states are 8 bytes a weight, Adafactor's next to nothing. With these
 * it trains on 40 GB with nothing computed twice; with those and clipping it does not. */
static void a_model_of_3_billion_on_40_gb(void **state)
{
    (void)state;
    int64_t weights, factors;
    count_t5_3b(&weights, &factors);
    assert_int_equal(weights, 2851598336); /* as transformers counts */
    json_t *o = t5_3b("a100-40gb", "adafactor"), *parts = json_object_get(o, "components");
    double states = number(parts, "optimizer states") - 4.0 * (double)factors;
    assert_true(number(parts, "weights") == 4.0 * (double)weights);
    assert_true(states >= 0 && states <= 1024); /* rounding up to what the device aligns to */
    assert_true(number(o, "arena_bytes") <= 30e9 && number(o, "host_bytes") == 0);
    json_t *way = json_array_get(json_object_get(o, "ways"), 0);
    assert_true(json_is_true(json_object_get(way, "taken")) && number(way, "batch_size") == 4);
    json_decref(o);
    o = t5_3b("a100-80gb", "adamw_torch");
    assert_true(number(json_object_get(o, "components"), "optimizer states") == 8.0 * (double)weights);
    assert_true(number(o, "arena_bytes") > 40960.0 * (1 << 20));
    json_decref(o);
}

static void names(void **state)
{
    (void)state;
    static const char *const same[][2] = {{"rtx4090", "NVIDIA GeForce RTX 4090"},
                                          {"rtx4090", "RTX-4090"},
                                          {"a100-80gb", "A100 80GB"},
                                          {"a100-80gb", "a10080gb"},
                                          {"h200", "nvidia h200"},
                                          {"l4", "L4"}};
    static const char *const none[] = {"", "rtx", "l40", "a100", "h2000", "nvidia"};
    const struct gpu_sheet *s, *before = NULL;
    struct snug_err err;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_int_equal(gpu_sheet_find(same[i][1], &s, &err), SNUG_OK);
        assert_string_equal(s->name, same[i][0]);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(gpu_sheet_find(none[i], &s, &err), SNUG_ERR_USAGE);
    assert_non_null(strstr(err.text, "a10, a10g, a100-40gb"));
    assert_non_null(strstr(err.text, "rtx5090, t4;"));
    for (int i = 0; (s = gpu_sheet_at(i)); before = s, i++)
        assert_true(!before || strcmp(before->name, s->name));
    expect_snug(0, said(), ARGS("plan", "--gpu", "t4", "--model", fixture("golden/trainer/init"), "--fp16"), NULL);
    assert_true(file_has(said(), "snug does not run on it"));
    expect_snug(2, said(), ARGS("plan", "--gpu", "t4", "--model", fixture("golden/trainer/init"), "--bf16"), NULL);
}

/* The newest profile of just that GPU. */
static void a_profile_is_found(void **state)
{
    (void)state;
    static const char *const files[] = {"device-NVIDIA-L40S-8.9-cublaslt-130100.json",
                                        "device-NVIDIA-A100-SXM4-40GB-8.0-cublaslt-130100.json",
                                        "device-NVIDIA-A100-SXM4-80GB-8.0-cublaslt-130100.json",
                                        "device-NVIDIA-A100-SXM4-80GB-8.0-cublaslt-130200.json",
                                        "device-NVIDIA-GeForce-RTX-4090-8.9-cublaslt-130100.json",
                                        "device-NVIDIA-H200-9.0-cublaslt-1.json.new"};
    static const char *const found[][2] = {
        {"l40s", "L40S-8.9"},    {"l4", NULL},   {"a100-80gb", "80GB-8.0-cublaslt-130200"},
        {"rtx4090", "RTX-4090"}, {"h200", NULL}, {"a100-40gb", "40GB-8.0"}};
    const char *dir = join(folder, "profiles");
    struct snug_err err;
    assert_int_equal(io_make_dirs(&io_posix, dir, &err), SNUG_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(io_write_file(&io_posix, join(dir, files[i]), "{}", 2, &err), SNUG_OK);
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        const struct gpu_sheet *s;
        struct str path = {0};
        assert_int_equal(gpu_sheet_find(found[i][0], &s, &err), SNUG_OK);
        assert_int_equal(gpu_sheet_profile(&io_posix, s, dir, &path, &err), SNUG_OK);
        if (found[i][1])
            assert_non_null(strstr(str_text(&path), found[i][1]));
        else
            assert_int_equal(path.n, 0);
        str_free(&path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_was_measured),
        cmocka_unit_test(what_fits_is_taken),
        cmocka_unit_test(a_model_of_3_billion_on_40_gb),
        cmocka_unit_test(names),
        cmocka_unit_test(a_profile_is_found),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
