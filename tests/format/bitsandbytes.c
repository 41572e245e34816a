/* format/quantised/bitsandbytes: the numbers of weights that bitsandbytes has quantised, as its own functions give them
 * (bitsandbytes/record.py); what does not fit together; faults. */
#define RECORDED "bitsandbytes"
#include "quantised_folder.h"

static void has_the_numbers_of_bitsandbytes(void **state)
{
    static const struct {
        const char *name;
        struct model_bits bits;
    } cases[] = {{"nested", {.bits = 4, .nested = true}},
                 {"fp4", {.bits = 4, .fp4 = true}},
                 {"storage", {.bits = 4}},
                 {"int8", {.bits = 8}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_dir d = {0};
        struct snug_err err;
        assert_int_equal(model_dir_open(&io_posix, recorded(cases[i].name), &d, &err), 0);
        assert_null(json_object_get(d.config, "quantization_config"));
        assert_int_equal(d.bits.bits, cases[i].bits.bits);
        assert_int_equal(d.bits.nested, cases[i].bits.nested);
        if (d.bits.bits == 4)
            assert_int_equal(d.bits.fp4, cases[i].bits.fp4);
        size_t others = d.n_tensors - has_recorded_numbers(&d, cases[i].name); /* embeddings and three norms; a layer */
        assert_int_equal(others, strcmp(cases[i].name, "storage") ? 4 : 5);
        model_dir_close(&d);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    static const struct {
        const char *name, *from, *to, *part;
    } rows[] = {
        {"fp4", "down_proj.weight.absmax", "down_proj.weight.absmay",
         "has no model.layers.0.mlp.down_proj.weight.absmax, which bitsandbytes keeps beside the weight"},
        {"fp4", "\"shape\": [16, 48]}", "\"shape\": [16, 49]}",
         "model.layers.0.mlp.down_proj.weight, U8 [384, 1], does not fit the weight"},
        {"fp4", "\"shape\": [16, 48]}", "\"shape\": [16, -8]}", "fp4, U8 [78], does not fit the weight"},
        {"fp4", "\"shape\": [16, 48]}", "\"shape\": 16      }", "fp4, U8 [78], does not fit the weight"},
        {"fp4", "\"blocksize\": 64", "\"blocksize\": 32", "absmax, F32 [12], does not fit the weight"},
        {"fp4", "\"blocksize\": 64", "\"blocksize\": 0 ", "blocksize is 0; expected an integer from 2 to"},
        {"fp4", "\"blocksize\": 64", "\"blocksize\": 6,", "fp4:1:"},
        {"int8", "k_proj.SCB", "k_proz.SCB", "has no model.layers.0.self_attn.k_proz.weight"},
        {"int8", "\"dtype\":\"I8\",\"shape\":[16,48]", "\"dtype\":\"U8\",\"shape\":[16,48]",
         "down_proj.weight, U8 [16, 48], does not fit the weight"},
        {"int8", "\"dtype\":\"I8\",\"shape\":[16,48]", "\"dtype\":\"I8\",\"shape\":[48,16]",
         "down_proj.SCB, F32 [16], does not fit the weight"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses_bytes(rows[i].name, rows[i].from, rows[i].to, rows[i].part);
}

static void survives_changed_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"fp4", "storage", "int8"};
    for (uint32_t i = 0; i < (SANITIZED ? 300 : 3000); i++)
        survives_changes_of(names[i % 3], i);
}

static void survives_a_lack_of_memory(void **state)
{
    (void)state;
    survives_a_lack_of_memory_in("fp4");
    survives_a_lack_of_memory_in("int8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_numbers_of_bitsandbytes),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(survives_changed_bytes),
        cmocka_unit_test(survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
