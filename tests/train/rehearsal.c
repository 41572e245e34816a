/* How long timing a model's nodes may take. */
#include "train/forecast/rehearsal.h"

#include "model/model.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Two rows of eight tokens of a small decoder. */
static int times_of(const struct rehearsal_limits *limits, double *seconds, struct snug_err *err)
{
    char path[512];
    struct model_config model;
    struct typical typical;
    struct rehearsal r;
    struct node_times times = {0};
    snprintf(path, sizeof path, "%s/tests/golden/llama/config.json", getenv("SNUG_SOURCE"));
    json_t *config = json_load_file(path, 0, NULL);
    if (model_config_read(config, path, &model, err))
        fail_msg("%s", err->text);
    struct compile_settings s = {
        .model = &model,
        .backend = backend_cpu(),
        .threads = 1,
        .precision = {.wide = DT_F32, .narrow = DT_F32},
        .train = true,
        .update = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1, .state_type = DT_F32}};
    struct choices choices = {.micro = {.T = 16, .B = 2}, .accumulation = 1, .updates_at_end = true};
    if (typical_open(&typical, &model, NULL, 8, 0, 2, (struct dims){.T = 16}, err))
        fail_msg("%s", err->text);
    int code = rehearsal_open(&r, &s, &choices, limits, err);
    if (!code)
        code = rehearsal_nodes(&r, &typical.batch, &times, err);
    *seconds = node_times_sum(&times);
    node_times_free(&times);
    rehearsal_close(&r);
    typical_close(&typical);
    json_decref(config);
    return code;
}

static void a_large_model_has_a_limit_of_time(void **state)
{
    (void)state;
    struct snug_err err;
    double seconds;
    struct rehearsal_limits limits = {.bytes = 1 << 30, .large_bytes = 1024, .seconds = 1e-6};
    assert_int_equal(times_of(&limits, &seconds, &err), SNUG_ERR_ENV);
    assert_string_equal(err.text, "a rehearsal takes too long");
    assert_true(seconds == 0);
    limits.large_bytes = 1 << 30; /* a small one is never too slow */
    assert_int_equal(times_of(&limits, &seconds, &err), SNUG_OK);
    assert_true(seconds > 0);
    limits.bytes = 1024;
    assert_int_equal(times_of(&limits, &seconds, &err), SNUG_ERR_ENV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_model_has_a_limit_of_time)};
    return cmocka_run_group_tests_name("rehearsal", tests, NULL, NULL);
}
