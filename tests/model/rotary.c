/* The frequencies of rotary positions are those of transformers (rotary.py), in both spellings of config.json; what is said of
 * values that are out of range. */
#include "model/rotary.h"
#include "../folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As transformers 5 writes it. */
static json_t *new_spelling(json_t *old)
{
    json_t *o = json_object(), *parameters = json_deep_copy(json_object_get(old, "rope_scaling"));
    if (!json_is_object(parameters)) {
        json_decref(parameters);
        parameters = json_pack("{s:s}", "rope_type", "default");
    }
    json_object_set(parameters, "rope_theta", json_object_get(old, "rope_theta"));
    json_object_set_new(o, "rope_parameters", parameters);
    return o;
}

/* transformers': float32, its exponents too. */
static void compare_list(const char *name, const double *got, json_t *want)
{
    for (size_t i = 0; i < json_array_size(want); i++) {
        double f = json_number_value(json_array_get(want, i));
        if (!(fabs(got[i] - f) <= 2e-6 * f))
            fail_msg("%s: frequency %d is %.9g, transformers has %.9g", name, (int)i, got[i], f);
    }
}

static void compare(const char *name, json_t *c, json_t *config)
{
    struct snug_err err;
    struct rotary r;
    json_t *want = json_object_get(c, "frequencies");
    const struct rotary_model m = {
        .head_size = json_integer_value(json_object_get(c, "head_size")),
        .positions = json_integer_value(json_object_get(json_object_get(c, "config"), "max_position_embeddings")),
        .theta = 1.5};
    if (rotary_read(config, name, &m, &r, &err))
        fail_msg("%s", err.text);
    assert_int_equal(r.pairs, json_array_size(want));
    json_t *longer = json_object_get(c, "longer");
    assert_int_equal(r.original, longer ? 4096 : 0);
    assert_true(fabs(r.factor - json_number_value(json_object_get(c, "factor"))) < 1e-6);
    compare_list(name, rotary_frequencies(&r, 4096), want);
    compare_list(name, rotary_frequencies(&r, 4097), longer ? longer : want);
}

static void frequencies_are_those_of_transformers(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/model/rotary.json", getenv("SNUG_SOURCE"));
    json_t *all = json_load_file(path, 0, NULL), *c;
    const char *name;
    assert_true(json_object_size(json_object_get(all, "cases")) > 0);
    json_object_foreach(json_object_get(all, "cases"), name, c)
    {
        json_t *old = json_object_get(c, "config"), *new = new_spelling(old);
        compare(name, c, old);
        if (!json_object_get(old, "rope_parameters"))
            compare(name, c, new);
        json_decref(new);
    }
    json_decref(all);
}

/* Only the first entries of a head turn, and their number is the dimension. */
static void a_part_of_a_head_turns(void **state)
{
    (void)state;
    struct snug_err err;
    struct rotary r;
    json_t *o = json_pack("{s:f,s:f}", "partial_rotary_factor", 0.25, "rope_theta", 10000.0);
    struct rotary_model m = {.head_size = 32, .theta = 2, .part = 1};
    assert_int_equal(rotary_read(o, "m", &m, &r, &err), SNUG_OK);
    assert_int_equal(r.pairs, 4);
    for (int i = 0; i < 4; i++) /* 10000^(-2i/8) */
        assert_true(fabs(r.frequency[i] - pow(10, -i)) < 1e-12);
    m.part = 0; /* as Llama, of whose heads transformers turns all, whatever is said */
    assert_int_equal(rotary_read(o, "m", &m, &r, &err), SNUG_OK);
    assert_int_equal(r.pairs, 16);
    json_decref(o);
}

/* An alpha of the type dynamic is a base of theta alpha^(d / (d - 2)), for an architecture that knows it. */
static void an_alpha_is_another_base(void **state)
{
    (void)state;
    struct snug_err err;
    struct rotary r;
    json_t *o =
        json_pack("{s:f,s:{s:s,s:f}}", "rope_theta", 10000.0, "rope_scaling", "type", "dynamic", "alpha", 1000.0);
    struct rotary_model m = {.head_size = 128, .theta = 2, .alpha = true};
    assert_int_equal(rotary_read(o, "m", &m, &r, &err), SNUG_OK);
    assert_int_equal(r.pairs, 64);
    for (int i = 0; i < 64; i++)
        assert_true(fabs(r.frequency[i] * pow(10000 * pow(1000, 128.0 / 126), i / 64.0) - 1) < 1e-12);
    m.alpha = false;
    assert_int_equal(rotary_read(o, "m", &m, &r, &err), SNUG_OK);
    assert_true(fabs(r.frequency[63] * pow(10000, 63 / 64.0) - 1) < 1e-12);
    json_decref(o);
}

static void what_is_not_known_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *error;
    } cases[] = {
        {"{\"rope_scaling\": {\"rope_type\": \"mrope\"}}",
         "m: rope_type is \"mrope\"; supported are default, linear, dynamic, llama3, yarn, longrope"},
        {"{\"rope_scaling\": {\"type\": \"linear\"}}", "m: factor is absent; it must be given"},
        {"{\"rope_scaling\": 4}", "m: rope_scaling is 4; write {\"rope_type\": ...}"},
        {"{\"rope_parameters\": {\"rope_theta\": 1}}", "m: rope_theta is 1; "},
        {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
         "\"high_freq_factor\": 1, \"original_max_position_embeddings\": 64}}",
         "m: low_freq_factor 4 is not below high_freq_factor 1; correct one"},
        {"{\"partial_rotary_factor\": 0.1}", "m: 3 entries of a head of 32 have rotary positions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct snug_err err;
        struct rotary r;
        json_t *o = json_loads(cases[i].config, 0, NULL);
        assert_non_null(o);
        assert_int_equal(
            rotary_read(o, "m", &(struct rotary_model){.head_size = 32, .theta = 1e4, .part = 1}, &r, &err),
            SNUG_ERR_INPUT);
        if (strncmp(err.text, cases[i].error, strlen(cases[i].error)))
            fail_msg("%s", err.text);
        json_decref(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers), cmocka_unit_test(a_part_of_a_head_turns),
        cmocka_unit_test(an_alpha_is_another_base), cmocka_unit_test(what_is_not_known_is_refused)};
    return cmocka_run_group_tests_name("rotary", tests, NULL, NULL);
}
