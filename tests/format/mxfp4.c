/* format/quantised/mxfp4: the numbers of experts in MXFP4, as transformers has them (mxfp4/record.py); what does not fit together; changed
 * bytes; faults. */
#define RECORDED "mxfp4"
#include "quantised_folder.h"

static void has_the_numbers_of_transformers(void **state)
{
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    assert_int_equal(model_dir_open(&io_posix, recorded("folder"), &d, &err), 0);
    assert_null(json_object_get(d.config, "quantization_config"));
    assert_int_equal(has_recorded_numbers(&d, "folder"), 2);
    for (size_t i = 0; i < d.n_tensors; i++)
        assert_null(strstr(d.tensors[i].tensor->name, "_blocks"));
    model_dir_close(&d);
}

/* The expert that was read last is one of a certain weight. */
static void reads_weights_in_turns(void **state)
{
    (void)state;
    struct model_dir d = {0};
    struct snug_err err;
    enum { EXPERT = 32 * 64, OTHER = 64 * 64 };
    static float first[2][EXPERT], other[OTHER];
    assert_int_equal(model_dir_open(&io_posix, recorded("folder"), &d, &err), 0);
    const struct model_tensor *down = model_dir_find(&d, "model.layers.0.mlp.experts.down_proj");
    const struct model_tensor *up = model_dir_find(&d, "model.layers.0.mlp.experts.gate_up_proj");
    for (int k = 0; k < 2; k++) {
        assert_int_equal(st_read_part(down->file, down->tensor, 0, first[k], sizeof first[k], &err), 0);
        assert_int_equal(st_read_part(up->file, up->tensor, 0, other, sizeof other, &err), 0);
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    assert_true(memcmp(first[0], other, sizeof first[0]) != 0);
    model_dir_close(&d);
}

static void refuses_what_does_not_fit(void **state)
{
    static const struct {
        const char *from, *to, *part;
    } rows[] = {
        {"down_proj_scales", "down_proj_scalez",
         "has no model.layers.0.mlp.experts.down_proj_scales, which MXFP4 keeps beside the weight"},
        {"[3,64,1,16]", "[3,16,1,64]",
         "down_proj_blocks, U8 [3, 16, 1, 64], does not fit the weight that MXFP4 has quantised"},
        {"[3,64,1,16]", "[3,32,2,16]", "down_proj_blocks, U8 [3, 32, 2, 16], does not fit"},
        {"\"U8\",\"shape\":[3,64,1]", "\"I8\",\"shape\":[3,64,1]", "down_proj_blocks, U8 [3, 64, 1, 16], does not fit"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses_bytes("folder", rows[i].from, rows[i].to, rows[i].part);
}

static void survives_changed_bytes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < (SANITIZED ? 100 : 1000); i++)
        survives_changes_of("folder", i);
}

static void survives_a_lack_of_memory(void **state)
{
    (void)state;
    survives_a_lack_of_memory_in("folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_numbers_of_transformers), cmocka_unit_test(reads_weights_in_turns),
        cmocka_unit_test(refuses_what_does_not_fit),       cmocka_unit_test(survives_changed_bytes),
        cmocka_unit_test(survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
