/* --config files: JSON, YAML, what a checkpoint records, and memory that runs out. */
#include "../failing_memory.h"
#include "format/json.h"
#include "parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A list of names is what would be typed with commas. */
static void lists_in_config_files(void **state)
{
    (void)state;
    char line[256];
    write_config("{\"report_to\": [\"tensorboard\"], \"freeze\": [\"a.*\", \"b\", \"c[01]\"]}");
    snprintf(line, sizeof line, "--config %s", config_file);
    struct options o = accepted(line);
    assert_string_equal(o.freeze, "a.*,b,c[01]");
    assert_true(options_report_to(&o, "tensorboard"));
    options_free(&o);
}

static void config_files(void **state)
{
    (void)state;
    char line[256];
    write_config("{\"learning_rate\": 1e-4, \"max_steps\": 7, \"bf16\": true, \"optim\": \"sgd\", \"seed\": 3,"
                 " \"optim_args\": \"momentum=0.5\", \"lr_scheduler_type\": \"cosine\","
                 " \"lr_scheduler_kwargs\": {\"num_cycles\": 2}, \"warmup_ratio\": 0.1, \"warmup_steps\": 0,"
                 " \"logging_steps\": 5.0, \"data\": \"for another command\", \"eval_steps\": null,"
                 " \"push_to_hub\": false, \"save_safetensors\": true, \"report_to\": [],"
                 " \"local_rank\": 0, \"use_ipex\": false}"); /* of one process, as 4.x saves it */
    snprintf(line, sizeof line, "--max-steps 9 --config %s", config_file);
    struct options o = accepted(line);
    assert_true(o.learning_rate == 1e-4);
    assert_int_equal(o.max_steps, 9); /* the command line wins */
    assert_int_equal(o.dtype, OPT_DTYPE_BF16);
    assert_true(o.optim_args_momentum == 0.5);
    assert_true(o.lr_scheduler_kwargs_num_cycles == 2);
    assert_true(o.warmup_steps.ratio == 0.1);
    assert_int_equal(o.logging_steps.steps, 5);
    assert_int_equal(o.n_notes, 2); /* warmup_ratio, local_rank */
    options_free(&o);
}

/* A flag that is false takes back what the file asks for by it, and nothing else. */
static void flags_that_are_false(void **state)
{
    (void)state;
    char line[256];
    write_config("{\"bf16\": true, \"adafactor\": true}");
    snprintf(line, sizeof line, "--config %s --bf16 false --fp16 false --adafactor false", config_file);
    struct options o = accepted(line);
    assert_int_equal(o.dtype, OPT_DTYPE_FP32);
    assert_int_equal(o.optim, OPTIM_ADAMW);
    options_free(&o);
    snprintf(line, sizeof line, "--config %s --fp16 false --tf32 false", config_file);
    o = accepted(line);
    assert_int_equal(o.dtype, OPT_DTYPE_BF16);
    options_free(&o);
}

/* transformers 5.23 writes both names. */
static void both_names_of_an_option(void **state)
{
    (void)state;
    char line[256];
    write_config("{\"activation_checkpointing\": true, \"activation_checkpointing_kwargs\": {\"every_n_layers\": 2},"
                 " \"gradient_checkpointing\": true, \"gradient_checkpointing_kwargs\": {\"every_n_layers\": 2},"
                 " \"resume_from_checkpoint\": true}");
    snprintf(line, sizeof line, "--config %s", config_file);
    struct options o = accepted(line);
    assert_true(o.gradient_checkpointing);
    assert_int_equal(o.gradient_checkpointing_kwargs_every_n_layers, 2);
    assert_string_equal(o.resume_from_checkpoint, "true");
    options_free(&o);
    char twice[256];
    snprintf(twice, sizeof twice,
             ": gradient_checkpointing: sets the same option as %s: activation_checkpointing; give one of them",
             config_file);
    config_refused("{\"activation_checkpointing\": true, \"gradient_checkpointing\": false}", 2, twice);
}

/* What a strategy does not use is left out with a note. Where what it needs is missing altogether, it is refused. */
static void values_without_effect(void **state)
{
    (void)state;
    char line[256];
    write_config(
        "{\"save_strategy\": \"epoch\", \"save_steps\": 100, \"logging_strategy\": \"epoch\", \"logging_steps\": 50,"
        " \"lr_scheduler_type\": \"constant\", \"warmup_steps\": 500, \"metric_for_best_model\": \"f1\"}");
    snprintf(line, sizeof line, "--config %s", config_file);
    struct options o = accepted(line);
    assert_true(o.save_steps.steps == 500 && o.logging_steps.steps == 500 && o.warmup_steps.steps == 0);
    assert_null(o.metric_for_best_model);
    assert_int_equal(o.n_notes, 4);
    assert_non_null(strstr(o.notes[0], "is ignored: no effect with --"));
    options_free(&o);
    config_refused("{\"eval_strategy\": \"epoch\"}", 2,
                   ": eval_strategy: no effect without --eval-data; give that too, or leave this out");
}

static void config_files_refused(void **state)
{
    (void)state;
    config_refused("{\"lerning_rate\": 1}", 2,
                   ": lerning_rate: unknown option; did you mean --learning-rate? see 'snug train --help'");
    config_refused("{\"learning_rate\": \"x\"}", 2,
                   ": learning_rate: 'x' is not a number; give one of at least 0 and at most 1000");
    config_refused("{\"learning_rate\": [1]}", 2, ": learning_rate: [1] is of the wrong kind; give a number");
    config_refused("{\"max_steps\": 1.5}", 2, ": max_steps: 1.5 is of the wrong kind; give a whole number");
    config_refused("{\"bf16\": 1}", 2, ": bf16: 1 is of the wrong kind; give true or false");
    config_refused("{\"batch_size\": 0}", 2,
                   ": batch_size: '0' is out of range; give a whole number of at least 1 and at most 1000000");
    config_refused("{\"push_to_hub\": true}", 2,
                   ": push_to_hub: refused; nothing is uploaded; --output-dir holds a folder that can be");
    config_refused("{\"save_safetensors\": false}", 2,
                   ": save_safetensors: refused; weights are always safetensors; leave it out");
    config_refused("{\"config\": \"x\"}", 2, ": config: a config file cannot name another; leave it out");
    config_refused("[1]", 3, ": not a JSON object; give {\"option\": value, ...}");
}

/* The same file as PyYAML's dump of a TrainingArguments has it, which writes 5e-05; what readers of YAML 1.1 make a text
 * of in JSON; and where a mistake stands. */
static void yaml_config_files(void **state)
{
    (void)state;
    char line[256];
    write_config("# of a run\nlearning_rate: 5e-4\nmax_steps: 7\nbf16: true\noptim: sgd\noptim_args: {momentum: 0.5}\n"
                 "warmup_steps: 0.1\neval_steps: null\nsave_strategy: no\nseed: \"3\"\nreport_to: []\n"
                 "memory_budget: 8g\ntext_column: größe\nfsdp:\nddp_timeout: 1800\n");
    snprintf(line, sizeof line, "--config %s", config_file);
    struct options o = accepted(line);
    assert_true(o.learning_rate == 5e-4 && o.optim_args_momentum == 0.5 && o.warmup_steps.ratio == 0.1);
    assert_int_equal(o.max_steps, 7);
    assert_int_equal(o.dtype, OPT_DTYPE_BF16);
    assert_int_equal(o.save_strategy, OPT_SAVE_NO);
    assert_true(o.seed == 3);
    assert_int_equal(o.memory_budget, (int64_t)8 << 30);
    assert_string_equal(o.text_column, "größe");
    assert_int_equal(o.n_notes, 0);
    options_free(&o);

    write_config("{\"learning_rate\": \"5e-5\", \"max_steps\": \"7\", \"bf16\": \"true\", \"warmup_ratio\": \"0.1\"}");
    o = accepted(line);
    assert_true(o.learning_rate == 5e-5 && o.max_steps == 7 && o.dtype == OPT_DTYPE_BF16 &&
                o.warmup_steps.ratio == 0.1);
    options_free(&o);

    config_refused("max_steps: 1\nlearning_rate: fast\n", 2,
                   ":2: learning_rate: 'fast' is not a number; give one of at least 0 and at most 1000");
    config_refused("max_steps: 1\n\nlerning_rate: 1\n", 2,
                   ":3: lerning_rate: unknown option; did you mean --learning-rate? see 'snug train --help'");
    config_refused("push_to_hub: true\n", 2,
                   ":1: push_to_hub: refused; nothing is uploaded; --output-dir holds a folder that can be");
    config_refused("max_steps: 1\n- a\n", 3,
                   ":2:1: not valid YAML; give lines of NAME: VALUE, those of one level indented alike");
    config_refused("fast and good\n", 3, ": not lines of NAME: VALUE; give them");
}

static void recorded_options_load_again(void **state)
{
    (void)state;
    struct options o = accepted("--learning-rate 3.1e-5 --seed 18446744073709551615 --optim sgd --optim-args "
                                "momentum=0.9,nesterov=true --warmup-steps 0.06 --delimiter tab --memory-budget 8GiB "
                                "--bf16 --hidden-dropout-prob 0.2 --eval-data e --eval-strategy epoch"),
                   again;
    json_t *a, *b;
    struct snug_err e;
    char line[128];
    assert_int_equal(options_to_json(&o, false, &a, &e), 0);
    char *dump = json_dumps(a, 0);
    write_config(dump);
    snprintf(line, sizeof line, "--config %s", config_file);
    if (options_of(&again, CMD_TRAIN, line, &e))
        fail_msg("%s", e.text);
    assert_int_equal(options_to_json(&again, false, &b, &e), 0);
    assert_true(json_equal(a, b));
    json_decref(b);

    /* What is compared on resume has no paths and nothing about logging in it. */
    assert_int_equal(options_to_json(&o, true, &b, &e), 0);
    assert_true(json_real_value(json_object_get(b, "learning_rate")) == 3.1e-5);
    assert_string_equal(json_string_value(json_object_get(b, "dtype")), "bf16");
    assert_true(json_is_true(json_object_get(json_object_get(b, "optim_args"), "nesterov")));
    assert_true(json_is_null(json_object_get(b, "num_labels")));
    static const char *const absent[] = {
        "model", "output_dir", "logging_steps", "save_steps", "threads", "config", "gradient_checkpointing_kwargs"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(json_object_get(b, absent[i]));
    json_decref(a);
    json_decref(b);
    free(dump);
    options_free(&o);
    options_free(&again);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    char line[256];
    write_config("{\"max_steps\": 7, \"optim\": \"sgd\", \"optim_args\": {\"momentum\": 0.5}, \"report_to\": \"x\"}");
    snprintf(line, sizeof line, TRAIN_LINE "--no-cuda --config %s", config_file);
    long k = 1;
    for (int code = SNUG_ERR_ENV; code; k++) {
        struct options o;
        struct snug_err e;
        struct failing_memory memory;
        assert_true(k < 1000);
        failing_memory_set(&memory, k, true);
        code = options_of(&o, CMD_TRAIN, line, &e);
        options_free(&o);
        mem_set_ops(NULL);
        assert_true(code == 0 || code == SNUG_ERR_ENV);
    }
    assert_true(k > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_in_config_files), cmocka_unit_test(config_files),
        cmocka_unit_test(flags_that_are_false),  cmocka_unit_test(both_names_of_an_option),
        cmocka_unit_test(values_without_effect), cmocka_unit_test(config_files_refused),
        cmocka_unit_test(yaml_config_files),     cmocka_unit_test(recorded_options_load_again),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_config_folder, remove_config_folder);
}
