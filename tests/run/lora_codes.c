/* Adapters above weights in codes: what peft computed, runs that must agree, memory, and folders that others have quantised. */
#include "adapters.h"
#include "op/codes/quantize.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *rows;

/* With the base's weights in 4 bits, as bitsandbytes has them. */
#define NF4 ARGS("--load-in-4bit")
#define NESTED_NF4 ARGS("--load-in-4bit", "--use-bnb-nested-quant")
#define FP4 ARGS("--load-in-4bit", "--bnb-4bit-quant-type", "fp4")
#define E4M3 ARGS("--load-in-8bit")
static const struct {
    const char *adapter, *base;
    const char *const *how;
} quantized[] = {
    {"llama_nf4", "llama", NF4},
    {"llama_nested", "llama", NESTED_NF4},
    {"phi3_fp4", "phi3", FP4},
    {"roberta_nf4", "roberta", NF4},
    {"llama_nested_dora", "llama", NESTED_NF4},
    {"llama_e4m3", "llama", E4M3},
    {"gpt2_e4m3", "gpt2", E4M3},
    {"gpt_oss_nf4", "gpt_oss", NF4},
    {"lfm2_nested", "lfm2_biases", NESTED_NF4},
};

static void gradients_above_codes_are_those_of_peft(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof quantized / sizeof *quantized; m++)
        for (int d = 0; d < n_devices(); d++) {
            const struct device *on = device(d);
            const char *base = golden(quantized[m].base), *inputs = join(base, "inputs.safetensors");
            const char *adapter = golden_adapter(quantized[m].adapter);
            const char *got = join(folder, "gradients"), *again = join(folder, "recomputed");
            const char *const *how =
                and_more(ARGS("--device", on->name, "--dtype", on->dtype, "--threads", "1", "--adapter", adapter),
                         quantized[m].how);
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, got), how);
            compare_adapter_gradients(got, join(adapter, "expected.safetensors"),
                                      gradient_bound(quantized[m].adapter, on));
            expect_snug(0, said(), ARGS("debug", "grad", base, inputs, again, "--gradient-checkpointing"), how);
            assert_true(same_bytes(got, again));
        }
}

static const struct {
    const char *dtype, *says;
    const char *const *how;
} above[] = {
    {"fp32", "4 bits for 12 tensors", NF4},
    {"bf16", "4 bits for 12 tensors", ARGS("--load-in-4bit", "--bnb-4bit-quant-type", "fp4", "--use-bnb-nested-quant")},
    {"fp32", "4 bits for 12 tensors", NESTED_NF4},
    {"fp32", "8 bits for 12 tensors", E4M3},
    {"bf16", "8 bits for 12 tensors", E4M3}};

static const char *train_above(const char *name, size_t k, const char *const *more)
{
    return train_adapter(
        rows, name,
        and_more(and_more(ARGS("--target-modules", "all-linear", "--dtype", above[k].dtype, "--batch-size", "8"),
                          above[k].how),
                 more));
}

/* Likewise above weights in codes, each of which one rank has at stage 3. */
static void runs_above_codes_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof above / sizeof *above; k++) {
        const char *one = train_above("one", k, ARGS("--threads", "1")), *first = join(one, "step-00000002");
        assert_true(file_has(said(), above[k].says));
        assert_true(same_adapter(one, train_above("three", k, ARGS("--threads", "3"))));
        assert_true(same_adapter(one, train_above("again", k, ARGS("--threads", "1", "--gradient-checkpointing"))));
        assert_true(same_adapter(
            one, train_above("resumed", k,
                             ARGS("--threads", "1", "--resume-from-checkpoint", first, "--require-bitexact"))));
        const char *two = train_above("two", k, ARGS("--threads", "2", "--ranks", "2"));
        for (int stage = 1; stage <= 3; stage++) {
            const char *const stages[] = {"0", "1", "2", "3"};
            assert_true(same_adapter(
                two, train_above("dealt", k, ARGS("--threads", "2", "--ranks", "2", "--zero-stage", stages[stage]))));
        }
    }
}

/* Each value begins at a multiple of 64 bytes. */
static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Half a byte a weight and four for every 64 of them; nested one, and four for every 256 of those and for their mean. Of 8 bits a byte a
 * weight, and four a row. */
static void the_plan_counts_codes(void **state)
{
    (void)state;
    const char *base = golden("llama"), *inputs = join(base, "inputs.safetensors");
    const char *const *const ways[] = {NF4, NESTED_NF4, E4M3};
    for (int way = 0; way < 3; way++) {
        struct st_file f;
        int64_t bytes = 0;
        open_tensors(join(base, "model.safetensors"), &f);
        for (size_t i = 0; i < f.n_tensors; i++) {
            const struct st_tensor *t = &f.tensors[i];
            int64_t n = st_elements(t), blocks = n / 64;
            bool coded = t->ndim == 2 && strstr(t->name, ".layers.");
            bool halves =
                strstr(t->name, "gate_proj") || strstr(t->name, "up_proj"); /* a group, of a multiple of 64 bytes */
            bytes += !coded     ? 4 * n
                     : way == 2 ? n + (halves ? 4 * t->shape[0] : aligned(4 * t->shape[0]))
                     : way == 1 ? n / 2 + aligned(blocks) + aligned(4 * (1 + (blocks + 255) / 256))
                                : n / 2 + aligned(4 * blocks);
        }
        st_close(&f);
        expect_snug(0, said(),
                    ARGS("plan", "--model", base, "--train-data", inputs, "--device", "cpu", "--use-peft", "--json"),
                    ways[way]);
        json_t *plan = said_object();
        assert_int_equal(json_integer_value(json_object_get(plan, "frozen_bytes")), bytes);
        json_decref(plan);
    }
}

/* Each row of a matrix of F32 at `at` in a file becomes the numbers that floats of 8 bits have nearest to it, by the least power of 2 with
 * which it is in their range. */
static void round_rows(int fd, int64_t at, int64_t n, int64_t width)
{
    size_t bytes = (size_t)width * sizeof(float);
    float *x = malloc(bytes);
    assert_non_null(x);
    for (int64_t r = 0; r < n; r++) {
        float largest = 0, scale = 0x1p-100f;
        assert_int_equal(pread(fd, x, bytes, at + r * (int64_t)bytes), (ssize_t)bytes);
        for (int64_t i = 0; i < width; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        while (largest / scale > 448)
            scale *= 2;
        for (int64_t i = 0; i < width; i++)
            x[i] = e4m3_to_float(e4m3_from_float(x[i] / scale)) * scale;
        assert_int_equal(pwrite(fd, x, bytes, at + r * (int64_t)bytes), (ssize_t)bytes);
    }
    free(x);
}

static double loss_of(const char *model, const char *const *more)
{
    expect_snug(0, said(), ARGS("eval", "--model", model, "--data", rows, "--device", "cpu", "--json"), more);
    json_t *o = said_object();
    double loss = json_number_value(json_object_get(o, "loss"));
    json_decref(o);
    return loss;
}

/* Of weights that are read in several pieces, which cut rows of an odd width. */
static void rows_are_coded_whole(void **state)
{
    (void)state;
    const char *config = join(folder, "cut"), *base = join(folder, "cut_base"),
               *weights = join(base, "model.safetensors");
    json_t *c = json_load_file(fixture("golden/trainer/init/config.json"), 0, NULL);
    json_object_set_new(c, "hidden_size", json_integer(240));
    json_object_set_new(c, "intermediate_size", json_integer(5003));
    json_object_set_new(c, "num_attention_heads", json_integer(15));
    json_object_set_new(c, "num_hidden_layers", json_integer(1));
    assert_int_equal(mkdir(config, 0700), 0);
    assert_int_equal(json_dump_file(c, join(config, "config.json"), 0), 0);
    json_decref(c);
    expect_snug(0, said(),
                ARGS("train", "--model", config, "--init-from-config", "--train-data", rows, "--output-dir", base,
                     "--device", "cpu", "--max-steps", "1", "--learning-rate", "0", "--save-strategy", "no"),
                NULL);
    double codes = loss_of(base, ARGS("--load-in-8bit")), before = loss_of(base, NULL);
    struct st_file f;
    open_tensors(weights, &f);
    int fd = open(weights, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < f.n_tensors; i++)
        if (f.tensors[i].ndim == 2 && strstr(f.tensors[i].name, ".layer."))
            round_rows(fd, f.tensors[i].at, f.tensors[i].shape[0], f.tensors[i].shape[1]);
    st_close(&f);
    assert_int_equal(close(fd), 0);
    double after = loss_of(base, NULL);
    if (codes != after)
        fail_msg("losses of codes, of their numbers, of the weights: %.9g, %.9g, %.9g", codes, after, before);
    assert_true(codes != before);
}

/* ---- A base that bitsandbytes has quantised (tests/format/bitsandbytes/record.py), or others (tests/format/quantised/record.py). */

static const char *train_on(const char *model, const char *name, const char *const *more)
{
    const char *out = join(folder, name);
    remove_tree(out);
    expect_snug(0, said(),
                ARGS("train", "--model", model, "--train-data", "synthetic:16x10", "--output-dir", out, "--device",
                     "cpu", "--max-steps", "3", "--logging-steps", "1", "--save-strategy", "no"),
                more);
    return out;
}

/* It is kept as the folder has it, without being asked: as its numbers are in codes; where scales are codes the folder's own ones. What
 * has 8 bits are numbers. */
static void a_quantised_base_is_kept_so(void **state)
{
    const struct {
        const char *name, *kept;
        const char *const *asked;
    } cases[] = {
        {"fp4", "4 bits for 7 tensors", ARGS("--use-peft", "--load-in-4bit", "--bnb-4bit-quant-type", "fp4")},
        {"storage", "4 bits for 6 tensors", ARGS("--use-peft")},
        {"nested", "4 bits for 7 tensors", ARGS("--use-peft")},
        {"int8", "bitsandbytes has quantised 7 tensors", ARGS("--use-peft")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *base = join(fixture("format/bitsandbytes"), cases[i].name);
        struct st_file f;
        const char *numbers = train_on(base, "numbers", ARGS("--learning-rate", "0", "--weight-decay", "0"));
        assert_int_equal(file_has(said(), "the weights of 4 bits are numbers here, as they are trained"), i < 3);
        const char *one = train_on(base, "one", ARGS("--use-peft"));
        assert_true(file_has(said(), cases[i].kept));
        assert_true(same_adapter(one, train_on(numbers, "two", cases[i].asked)));
        const char *again = join(folder, "by_record"); /* which has --load-in-4bit, as false */
        remove_tree(again);
        expect_snug(0, said(), ARGS("train", "--config", join(one, "training_args.json"), "--output-dir", again), NULL);
        assert_true(same_adapter(one, again));
        assert_true(same_adapter(one, train_on(base, "two", ARGS("--use-peft", "--load-in-4bit", "false"))));
        assert_false(file_has(said(), "4 bits for"));
        const char *lengths = train_on(base, "of_rows", ARGS("--use-peft", "--use-dora"));
        assert_true(file_has(said(), cases[i].kept));
        assert_true(same_adapter(lengths, train_on(numbers, "two", ARGS("--use-peft", "--use-dora"))));
        const char *merged = join(folder, "merged_numbers");
        remove_tree(merged);
        expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", one, "--output-dir", merged), NULL);
        open_tensors(join(merged, "model.safetensors"), &f);
        for (size_t k = 0; k < f.n_tensors; k++) /* as those that are not quantised */
            assert_int_equal(f.tensors[k].dtype, DT_BF16);
        st_close(&f);
    }
}

/* In other ways its weights are numbers, below an adapter too, unless 4 bits are asked for. */
static void a_base_that_others_quantised_is_numbers(void **state)
{
    static const char *const names[] = {"fp8", "packed", "mixed", "gptq_order", "awq"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *base = join(fixture("format/quantised"), names[i]);
        const char *numbers = train_on(base, "numbers", ARGS("--learning-rate", "0", "--weight-decay", "0"));
        assert_true(file_has(said(), "has quantised 7 tensors"));
        assert_false(file_has(join(numbers, "config.json"), "quantization_config"));
        const char *one = train_on(base, "one", ARGS("--use-peft"));
        assert_false(file_has(said(), "4 bits for"));
        assert_true(same_adapter(one, train_on(numbers, "two", ARGS("--use-peft"))));
        one = train_on(base, "one", ARGS("--use-peft", "--load-in-4bit"));
        assert_true(file_has(said(), "4 bits for 7 tensors"));
        assert_true(same_adapter(one, train_on(numbers, "two", ARGS("--use-peft", "--load-in-4bit"))));
        const char *merged = join(folder, "merged_numbers");
        struct st_file f;
        remove_tree(merged);
        expect_snug(0, said(), ARGS("merge", "--model", base, "--adapter", one, "--output-dir", merged), NULL);
        assert_false(file_has(join(merged, "config.json"), "quantization_config"));
        open_tensors(join(merged, "model.safetensors"), &f);
        assert_int_equal(f.n_tensors, 11);
        for (size_t k = 0; k < f.n_tensors; k++)
            assert_int_equal(f.tensors[k].dtype, DT_BF16);
        st_close(&f);
    }
}

/* A folder with one weight, of more elements than are read at once (run/weights.c), in blocks of unlike sizes; the others are random. */
static const char *make_wide(void)
{
    enum { OUT = 16, IN = 1 << 17, ELEMENTS = OUT * IN, BLOCKS = ELEMENTS / 64 };
#define WIDE "model.layers.0.mlp.down_proj.weight"
    static const char form[] = "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"shape\": [16, 131072]}";
    static uint8_t codes[ELEMENTS / 2];
    static float absmax[BLOCKS], map[16];
    const char *wide = join(folder, "wide");
    struct st_tensor t[] = {
        {.name = WIDE, .dtype = DT_U8, .ndim = 2, .shape = {sizeof codes, 1}},
        {.name = WIDE ".absmax", .dtype = DT_F32, .ndim = 1, .shape = {BLOCKS}},
        {.name = WIDE ".quant_map", .dtype = DT_F32, .ndim = 1, .shape = {16}},
        {.name = WIDE ".quant_state.bitsandbytes__nf4", .dtype = DT_U8, .ndim = 1, .shape = {sizeof form - 1}}};
    struct st_writer w;
    struct snug_err err;
    for (int i = 0; i < ELEMENTS / 2; i++)
        codes[i] = i % 32 ? (uint8_t)(i * 37 + i / 61) : 0xFF; /* each block has its largest number */
    for (int i = 0; i < BLOCKS; i++)
        absmax[i] = 1e-3f * (float)(1 + i % 1000);
    memcpy(map, quant_table[QUANT_NF4], sizeof map);
    remove_tree(wide);
    assert_int_equal(mkdir(wide, 0777), 0);
    json_t *config = json_load_file(join(fixture("format/bitsandbytes/storage"), "config.json"), 0, NULL);
    json_object_set_new(config, "intermediate_size", json_integer(IN));
    assert_int_equal(json_dump_file(config, join(wide, "config.json"), 0), 0);
    json_decref(config);
    assert_int_equal(st_create(&io_posix, join(wide, "model.safetensors"), t, 4, NULL, 0, false, &w, &err), 0);
    for (int i = 0; i < 4; i++) {
        bool is_codes = !strcmp(t[i].name, WIDE), is_absmax = strstr(t[i].name, "absmax") != NULL;
        const void *data = is_codes               ? (const void *)codes
                           : is_absmax            ? absmax
                           : t[i].dtype == DT_F32 ? map
                                                  : (const void *)form;
        assert_int_equal(st_write(&w, &t[i], 0, data, (size_t)t[i].bytes, &err), 0);
    }
    assert_int_equal(st_finish(&w, NULL, &err), 0);
    return wide;
}

/* Lengths begin as those of all pieces. */
static void lengths_are_of_large_weights_too(void **state)
{
    (void)state;
#define OF_LENGTHS "--init-from-config", "--use-peft", "--use-dora", "--target-modules", "down_proj", "--lora-r", "1"
    const char *base = make_wide(), *one = train_on(base, "of_codes", ARGS(OF_LENGTHS));
    assert_true(file_has(said(), "4 bits for 1 tensors"));
    const char *two = train_on(base, "of_numbers", ARGS(OF_LENGTHS, "--load-in-4bit", "false"));
    assert_true(same_adapter(one, two));
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
        cmocka_unit_test(gradients_above_codes_are_those_of_peft),
        cmocka_unit_test(runs_above_codes_have_the_same_bits),
        cmocka_unit_test(the_plan_counts_codes),
        cmocka_unit_test(rows_are_coded_whole),
        cmocka_unit_test(a_quantised_base_is_kept_so),
        cmocka_unit_test(a_base_that_others_quantised_is_numbers),
        cmocka_unit_test(lengths_are_of_large_weights_too),
    };
    return cmocka_run_group_tests_name("lora_codes", tests, make_data, close_folder);
}
