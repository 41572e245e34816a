/* format/quantised: the numbers of weights in floats of 8 bits and of those that compressed-tensors, GPTQ and AWQ have quantised, as
 * their own functions give them (quantised/record.py); what does not fit together; what else there is; faults. */
#define RECORDED "quantised"
#include "quantised_folder.h"

static const char *const names[] = {"fp8",   "fp8_tensor", "fbgemm",     "packed", "odd", "plain",
                                    "mixed", "gptq",       "gptq_order", "gptq_2", "awq"};
enum { NAMES = sizeof names / sizeof *names, WEIGHTS = 7, OTHERS = 4 };

static char note[1024];

static void keep_note(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(note, sizeof note, "%s", line);
}

static void has_the_numbers_of_others(void **state)
{
    (void)state;
    static const char *const makers[NAMES] = {[0] = "FP8 has quantised 7 tensors",
                                              [2] = "FBGEMM has quantised 7 tensors",
                                              [3] = "compressed-tensors has quantised 7 tensors",
                                              [7] = "GPTQ has quantised 7 tensors",
                                              [10] = "AWQ has quantised 7 tensors"};
    for (size_t i = 0; i < NAMES; i++) {
        struct model_dir d = {.note = keep_note};
        struct snug_err err;
        assert_int_equal(model_dir_open(&io_posix, recorded(names[i]), &d, &err), 0);
        assert_null(json_object_get(d.config, "quantization_config"));
        assert_int_equal(d.bits.bits, 0); /* numbers, wherever they go */
        assert_int_equal(has_recorded_numbers(&d, names[i]), WEIGHTS);
        assert_int_equal(d.n_tensors, WEIGHTS + OTHERS);
        if (makers[i])
            assert_non_null(strstr(note, makers[i]));
        model_dir_close(&d);
    }
}

/* Weights that are read in turns are those that are read one after another. */
static void reads_weights_in_turns(void **state)
{
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    enum { HALF = 100, N = 128 }; /* k_proj and v_proj: (8,16) */
    float whole[2][N], turns[2][N];
    assert_int_equal(model_dir_open(&io_posix, recorded("gptq_order"), &d, &err), 0);
    const struct model_tensor *t[] = {model_dir_find(&d, "model.layers.0.self_attn.k_proj.weight"),
                                      model_dir_find(&d, "model.layers.0.self_attn.v_proj.weight")};
    for (int i = 0; i < 2; i++)
        assert_int_equal(st_read(t[i]->file, t[i]->tensor, whole[i], &err), 0);
    for (int64_t at = 0; at < N; at += HALF)
        for (int i = 0; i < 2; i++) {
            size_t bytes = sizeof(float) * (size_t)(at ? N - HALF : HALF);
            assert_int_equal(st_read_part(t[i]->file, t[i]->tensor, at * 4, turns[i] + at, bytes, &err), 0);
        }
    assert_memory_equal(turns, whole, sizeof whole);
    model_dir_close(&d);
}

/* ---- what does not fit ---- */

static void refuses_weights_that_do_not_fit(void **state)
{
#define DOWN "model.layers.0.mlp.down_proj."
    static const struct {
        const char *name, *from, *to, *part;
    } rows[] = {
        {"fp8", "down_proj.weight_scale_inv", "down_proj.weight_scale_inw",
         "has no " DOWN "weight_scale_inv, which FP8 keeps beside the weight; get the model again"},
        {"fp8", DOWN "weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,14]",
         DOWN "weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[14,2]",
         "weight_scale_inv, F32 [14, 2], does not fit the weight that FP8 has quantised"},
        {"fp8", DOWN "weight_scale_inv\":{\"dtype\":\"F32\"", DOWN "weight_scale_inv\":{\"dtype\":\"I32\"",
         "I32 [2, 14]"},
        {"fbgemm", DOWN "weight_scale\":{\"dtype\":\"F32\",\"shape\":[16,1]",
         DOWN "weight_scale\":{\"dtype\":\"F32\",\"shape\":[1,16]", "weight_scale, F32 [1, 16], does not fit"},
        {"packed", "down_proj.weight_shape", "down_proj.weight_shapf", "has no " DOWN "weight_shape"},
        {"packed", "down_proj.weight_scale", "down_proj.weight_scalf", "has no " DOWN "weight_scale"},
        {"packed", "down_proj.weight_zero_point", "down_proj.weight_zero_poinu", "has no " DOWN "weight_zero_point"},
        {"packed", DOWN "weight_packed\":{\"dtype\":\"I32\",\"shape\":[16,34]",
         DOWN "weight_packed\":{\"dtype\":\"I32\",\"shape\":[34,16]", "weight_packed, I32 [34, 16], does not fit"},
        {"packed", DOWN "weight_zero_point\":{\"dtype\":\"I32\",\"shape\":[2,17]",
         DOWN "weight_zero_point\":{\"dtype\":\"I32\",\"shape\":[17,2]",
         "weight_zero_point, I32 [17, 2], does not fit"},
        {"plain", DOWN "weight\":{\"dtype\":\"I8\"", DOWN "weight\":{\"dtype\":\"U8\"",
         "weight, U8 [16, 48], does not fit"},
        {"mixed", DOWN "weight_scale\":{\"dtype\":\"F32\",\"shape\":[1]",
         DOWN "weight_scale\":{\"dtype\":\"I32\",\"shape\":[1]", "weight_scale, I32 [1], does not fit"},
        {"gptq", "down_proj.scales", "down_proj.scalez", "has no " DOWN "scales, which GPTQ keeps beside the weight"},
        {"gptq", "down_proj.qzeros", "down_proj.qzerot", "has no " DOWN "qzeros"},
        {"gptq", DOWN "scales\":{\"dtype\":\"F16\",\"shape\":[17,16]",
         DOWN "scales\":{\"dtype\":\"F16\",\"shape\":[16,17]",
         "scales, F16 [16, 17], does not fit the weight that GPTQ has quantised"},
        {"gptq", DOWN "qzeros\":{\"dtype\":\"I32\",\"shape\":[17,2]",
         DOWN "qzeros\":{\"dtype\":\"I32\",\"shape\":[2,17]", "qzeros, I32 [2, 17], does not fit"},
        {"gptq", DOWN "g_idx\":{\"dtype\":\"I32\",\"shape\":[272]", DOWN "g_idx\":{\"dtype\":\"F32\",\"shape\":[272]",
         "g_idx, F32 [272], does not fit"},
        {"awq", "down_proj.scales", "down_proj.scalez", "has no " DOWN "scales, which AWQ keeps beside the weight"},
        {"awq", DOWN "scales\":{\"dtype\":\"F16\",\"shape\":[34,16]",
         DOWN "scales\":{\"dtype\":\"F16\",\"shape\":[16,34]",
         "scales, F16 [16, 34], does not fit the weight that AWQ has quantised"},
        {"awq", DOWN "qweight\":{\"dtype\":\"I32\"", DOWN "qweight\":{\"dtype\":\"U32\"",
         "qweight, U32 [272, 2], does not fit"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses_bytes(rows[i].name, rows[i].from, rows[i].to, rows[i].part);
}

/* A folder whose list of groups of a weight begins with `group`. */
static void begin_groups(const char *name, const char *list, int32_t group)
{
    struct snug_err err;
    size_t bytes;
    char path[600];
    struct st_file f;
    snprintf(path, sizeof path, "%s/model.safetensors", recorded(name));
    assert_int_equal(st_open(&io_posix, path, &f, &err), 0);
    char *data = weights_of(name, &bytes);
    memcpy(data + st_find(&f, list)->at, &group, sizeof group);
    st_close(&f);
    copy_folder(name);
    put_weights(data, bytes);
    free(data);
}

static void refuses_groups_that_are_none(void **state)
{
    (void)state;
    begin_groups("gptq_order", DOWN "g_idx", 6);
    expect_refusal("g_idx: element 0 is 6; expected a group from 0 to 5; get the model again");
    begin_groups("gptq_order", DOWN "g_idx", -1);
    expect_refusal("g_idx: element 0 is -1; expected a group from 0 to 5; get the model again");
}

/* compressed-tensors says so that columns are in their order. */
static void takes_a_list_of_no_groups(void **state)
{
    (void)state;
    struct snug_err err = {0};
    begin_groups("packed", "model.layers.0.self_attn.o_proj.weight_g_idx", -1);
    assert_int_equal(read_folder(&err), SNUG_OK);
    remove_tree(place);
}

static void refuses_what_the_configuration_says(void **state)
{
    static const struct {
        const char *name, *key, *json, *part; /* key of quantization_config, or of the weights of its first group */
    } rows[] = {
        {"gptq", "bits", "3", "quantization_config: bits is 3; of GPTQ 2, 4 or 8 is read; take the model"},
        {"gptq", "bits", "2", "does not fit the weight that GPTQ has quantised"},
        {"gptq", "bits", "null", "bits is null; it must be given"},
        {"gptq", "group_size", "24", "does not fit the weight that GPTQ has quantised"},
        {"gptq", "group_size", "0", "group_size is 0; of GPTQ"},
        {"gptq", "checkpoint_format", "\"marlin\"", "checkpoint_format is marlin; of GPTQ gptq or gptq_v2 is read"},
        {"gptq", "is_marlin_format", "true", "checkpoint_format is marlin; of GPTQ"},
        {"gptq", "pack_dtype", "\"int16\"", "pack_dtype is int16; of GPTQ int32 is read"},
        {"gptq", "quant_method", "\"aqlm\"",
         "quant_method is \"aqlm\"; those that are read are bitsandbytes, fp8, fbgemm_fp8, compressed-tensors, gptq, "
         "awq, mxfp4; take the model that this one was made of"},
        {"gptq", "quant_method", "\"fp8\"", "says that weights are quantised (fp8), but none is; remove it"},
        {"awq", "version", "\"gemv\"", "version is \"gemv\"; of AWQ \"gemm\" is read"},
        {"awq", "bits", "8", "bits is 8; of AWQ 4 is read"},
        {"awq", "group_size", "12", "group_size is 12, which does not divide the 272 inputs of " DOWN "weight"},
        {"awq", "group_size", "0", "group_size is 0, which does not divide the 272 inputs"},
        {"fp8", "weight_block_size", "[128]", "weight_block_size is an array; expected two integers above 0"},
        {"fp8", "weight_block_size", "[12, 16]", "does not fit the weight that FP8 has quantised"},
        {"packed", "format", "\"marlin-24\"",
         "format is marlin-24; of compressed-tensors int-quantized, float-quantized"},
        {"packed", "sparsity_config", "{\"format\": \"sparse-24-bitmask\"}",
         "sparsity_config.format is sparse-24-bitmask"},
        {"packed", "transform_config", "{\"config_groups\": {\"R1\": {}}}", "transform_config is present"},
        {"packed", "weights.num_bits", "9", "num_bits is 9; of compressed-tensors 1 to 8 is read"},
        {"packed", "weights.num_bits", "5", "weight_packed, I32 [16, 34], does not fit the weight"},
        {"packed", "weights.type", "\"float\"", "num_bits is 4; of compressed-tensors 8 (float) is read"},
        {"packed", "weights.type", "\"nf\"", "type is nf; of compressed-tensors int or float is read"},
        {"packed", "weights.group_size", "48",
         "group_size is 48, which does not divide the 272 inputs of " DOWN "weight"},
        {"packed", "weights.group_size", "8", "weight_scale, BF16 [16, 17], does not fit the weight"},
        {"packed", "weights.strategy", "\"tensor_group\"", "strategy is tensor_group; of compressed-tensors"},
        {"packed", "weights.strategy", "\"block\"", "block_structure is not two sizes above 0"},
        {"packed", "weights.symmetric", "true",
         "weight_zero_point, but quantization_config says that its codes are symmetric"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t bytes;
        char *data = weights_of(rows[i].name, &bytes);
        const char *key = rows[i].key;
        copy_folder(rows[i].name);
        put_weights(data, bytes);
        free(data);
        json_t *config = json_load_file(in(place, "config.json"), 0, NULL);
        json_t *o = json_object_get(config, "quantization_config");
        if (!strncmp(key, "weights.", 8)) {
            o = json_object_get(json_object_get(json_object_get(o, "config_groups"), "group_0"), "weights");
            key += 8;
        }
        json_object_set_new(o, key, json_loads(rows[i].json, JSON_DECODE_ANY, NULL));
        assert_int_equal(json_dump_file(config, in(place, "config.json"), 0), 0);
        json_decref(config);
        expect_refusal(rows[i].part);
    }
}

static void survives_changed_bytes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < (SANITIZED ? 1100 : 11000); i++)
        survives_changes_of(names[i / 4 % NAMES], i);
}

static void survives_a_lack_of_memory(void **state)
{
    (void)state;
    static const char *const some[] = {"fp8", "packed", "plain", "gptq_order", "awq"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        survives_a_lack_of_memory_in(some[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_numbers_of_others),       cmocka_unit_test(reads_weights_in_turns),
        cmocka_unit_test(refuses_weights_that_do_not_fit), cmocka_unit_test(refuses_groups_that_are_none),
        cmocka_unit_test(takes_a_list_of_no_groups),       cmocka_unit_test(refuses_what_the_configuration_says),
        cmocka_unit_test(survives_changed_bytes),          cmocka_unit_test(survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
