/* Memory that runs out while an adapter is read and matched, or made of options: an error of its kind at each allocation, nothing kept;
 * with enough of it the modules that PEFT takes. */
#include "../failing_memory.h"
#include "adapter/match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char model[] =
    "{\"model_type\":\"gpt_neox\",\"architectures\":[\"GPTNeoXForCausalLM\"],\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":8,\"vocab_size\":9,\"rotary_pct\":1}";

static const struct {
    const char *config;
    size_t modules, saved;
} cases[] = {
    {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"query_key_value\",\"attention.dense\"],"
     "\"rank_pattern\":{\"layers.1.attention.dense\":2},\"modules_to_save\":[\"embed_in\"]}",
     4, 1},
    {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":\"all-linear\"}", 8, 0},
    {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"dense\"],\"layers_to_transform\":[1]}", 1,
     0},
    {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":\".*(dense_h_to_4h|query_key_value)\"}", 4,
     0},
};

static json_t *parsed(const char *text)
{
    json_t *o;
    assert_int_equal(json_parse(text, strlen(text), "a file", &o, NULL), SNUG_OK);
    return o;
}

/* Reads and matches case i; *n: what is adapted and saved. */
static int match(size_t i, json_t *doc, const struct model_config *m, const struct graph *g, struct snug_err *err)
{
    struct adapter_config c;
    struct adapter_set set = {0};
    int code = adapter_config_read(doc, "a file", &c, err);
    code = code ? code : adapter_match(&c, m, g, &set, err);
    if (!code) {
        assert_int_equal(set.adapters.n, cases[i].modules);
        assert_int_equal(set.adapters.n_saved, cases[i].saved);
    }
    adapter_set_free(&set);
    return code;
}

static void a_match_without_memory_is_an_error(void **state)
{
    (void)state;
    json_t *config = parsed(model);
    struct model_config m;
    struct graph g;
    struct built built;
    struct snug_err err;
    assert_int_equal(model_config_read(config, "config.json", &m, &err), SNUG_OK);
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    assert_int_equal(model_build(&m, (struct build_settings){.mode = BUILD_TRAIN}, &g, &built, &err), SNUG_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *doc = parsed(cases[i].config);
        bool hit = true;
        for (long k = 1; hit; k++) {
            struct failing_memory memory;
            failing_memory_set(&memory, k, k % 2);
            int code = match(i, doc, &m, &g, &err);
            mem_set_ops(NULL);
            hit = failing_memory_hit(&memory);
            /* a regular expression does without its machine code */
            bool tolerated = hit && !memory.for_ever && code == SNUG_OK;
            if (code != (hit ? SNUG_ERR_ENV : SNUG_OK) && !tolerated)
                fail_msg("case %zu, call %ld: %d", i, k, code);
        }
        json_decref(doc);
    }
    graph_free(&g);
    json_decref(config);
}

static void a_new_configuration_without_memory_is_an_error(void **state)
{
    (void)state;
    const struct adapter_wishes w = {.r = 4,
                                     .alpha = 8,
                                     .targets = "query_key_value,dense",
                                     .saved = "embed_in",
                                     .base = "m",
                                     .task_type = "CAUSAL_LM"};
    bool hit = true;
    for (long k = 1; hit; k++) {
        struct failing_memory memory;
        json_t *made = NULL;
        struct snug_err err;
        failing_memory_set(&memory, k, k % 2);
        int code = adapter_config_make(&w, &made, &err);
        mem_set_ops(NULL);
        hit = failing_memory_hit(&memory);
        assert_int_equal(code, hit ? SNUG_ERR_ENV : SNUG_OK);
        json_decref(made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_match_without_memory_is_an_error),
                                       cmocka_unit_test(a_new_configuration_without_memory_is_an_error)};
    return cmocka_run_group_tests_name("adapter", tests, NULL, NULL);
}
