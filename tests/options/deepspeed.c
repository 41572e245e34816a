/* --deepspeed: which files say otherwise than the options, as transformers' Trainer finds it (deepspeed.py has recorded that); what a file
 * sets where an option is not given; and what is refused. */
#include "../failing_memory.h"
#include "format/json.h"
#include "parse.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void write_object(const json_t *object)
{
    char *text = json_dumps(object, 0);
    write_config(text);
    free(text);
}

/* Options of `line` beside the file. */
static int read_both(struct options *o, const char *line, struct snug_err *err)
{
    char whole[1024];
    snprintf(whole, sizeof whole, TRAIN_LINE "%s --deepspeed %s", line, config_file);
    return options_of(o, CMD_TRAIN, whole, err);
}

/* Line `line` beside a file of this text is refused with this code and the text behind the file's name. */
static void file_refused(const char *json, const char *line, int expected, const char *text)
{
    struct options o;
    struct snug_err e;
    write_config(json);
    int code = read_both(&o, line, &e);
    if (code != expected || strncmp(e.text, config_file, strlen(config_file)) != 0 ||
        strcmp(e.text + strlen(config_file), text) != 0)
        fail_msg("%s %s\n  gave     %d %s\n  expected %d FILE%s", json, line, code, e.text, expected, text);
    options_free(&o);
}

static json_t *recorded(void)
{
    char path[512];
    struct snug_err e;
    json_t *all;
    snprintf(path, sizeof path, "%s/tests/options/deepspeed.json", getenv("SNUG_SOURCE"));
    if (json_read_file(&io_posix, path, 1 << 20, &all, &e))
        fail_msg("%s", e.text);
    return all;
}

static double filled(const json_t *row, const char *path)
{
    return json_number_value(json_object_get(json_object_get(row, "filled"), path));
}

/* What the Trainer puts where the file has "auto". */
static void expect_filled(const json_t *row, const struct options *o)
{
    const struct {
        const char *path;
        double value;
    } values[] = {{"train_micro_batch_size_per_gpu", (double)o->per_device_train_batch_size},
                  {"gradient_accumulation_steps", (double)o->gradient_accumulation_steps},
                  {"gradient_clipping", o->max_grad_norm},
                  {"optimizer.params.lr", o->learning_rate},
                  {"optimizer.params.eps", o->adam_epsilon},
                  {"optimizer.params.weight_decay", o->weight_decay},
                  {"scheduler.params.warmup_num_steps", (double)o->warmup_steps.steps},
                  {"scheduler.params.total_num_steps", (double)o->max_steps}};
    const json_t *all = json_object_get(row, "filled");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (json_object_get(all, values[i].path) && values[i].value != filled(row, values[i].path))
            fail_msg("%s: %s is %g", json_string_value(json_object_get(row, "name")), values[i].path, values[i].value);
    const char *flags[] = {"fp16.enabled", "bf16.enabled"};
    for (int i = 0; i < 2; i++)
        if (json_object_get(all, flags[i]))
            assert_int_equal(json_is_true(json_object_get(all, flags[i])),
                             o->dtype == (i ? OPT_DTYPE_BF16 : OPT_DTYPE_FP16));
}

static void files_disagree_as_in_the_trainer(void **state)
{
    (void)state;
    json_t *all = recorded(), *row;
    size_t i;
    json_array_foreach(json_object_get(all, "rows"), i, row)
    {
        struct options o;
        struct snug_err e;
        const json_t *config = json_object_get(row, "config"), *mismatches = json_object_get(row, "mismatches");
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *member = json_string_value(json_array_get(mismatches, 0));
        write_object(config);
        int code = read_both(&o, json_string_value(json_object_get(row, "line")), &e);
        if (!member && code)
            fail_msg("%s: %s", name, e.text);
        if (member && (code != SNUG_ERR_USAGE || !strstr(e.text, member)))
            fail_msg("%s: is taken, or refused with %s", name, e.text);
        if (!member)
            expect_filled(row, &o);
        options_free(&o);
    }
    assert_int_equal(i, 21);
    json_decref(all);
}

/* The Trainer wants what is fixed to be given twice; here once is enough. */
static void a_file_gives_options(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    json_t *all = recorded(), *row;
    size_t i;
    json_array_foreach(json_object_get(all, "rows"), i,
                       row) if (!strcmp(json_string_value(json_object_get(row, "name")), "fixed"))
        write_object(json_object_get(row, "config"));
    if (read_both(&o, "", &e))
        fail_msg("%s", e.text);
    assert_int_equal(o.per_device_train_batch_size, 4);
    assert_int_equal(o.gradient_accumulation_steps, 3);
    assert_true(o.max_grad_norm == 0.5 && o.learning_rate == 3e-5 && o.weight_decay == 3e-7);
    assert_true(o.adam_beta1 == 0.8 && o.adam_beta2 == 0.999 && o.adam_epsilon == 1e-7);
    assert_int_equal(o.warmup_steps.steps, 5);
    assert_int_equal(o.lr_scheduler_type, OPT_SCHEDULE_CONSTANT_WITH_WARMUP);
    assert_int_equal(o.optim, OPTIM_ADAMW);
    options_free(&o);
    json_decref(all);
}

/* Members that the Trainer hands on to DeepSpeed unread. */
static void members_are_options(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum option_id option;
        int value;
    } of[] = {
        {"{\"zero_optimization\": {\"stage\": 1}}", OPTION_zero_stage, 1},
        {"{\"zero_optimization\": {\"stage\": 2}}", OPTION_zero_stage, 2},
        {"{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 1e7}}", OPTION_zero_stage, 3},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}", OPTION_offload_optimizer,
         OPT_OFFLOAD_CPU},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"none\"}}}", OPTION_offload_optimizer,
         OPT_OFFLOAD_NONE},
        {"{\"zero_optimization\": {\"cpu_offload\": true}}", OPTION_offload_optimizer, OPT_OFFLOAD_CPU},
        {"{\"zero_optimization\": {\"offload_param\": {\"device\": \"cpu\"}}}", OPTION_offload_param, OPT_OFFLOAD_CPU},
        {"{\"fp16\": {\"enabled\": true}}", OPTION_dtype, OPT_DTYPE_FP16},
        {"{\"bf16\": {\"enabled\": true}}", OPTION_dtype, OPT_DTYPE_BF16},
        {"{\"optimizer\": {\"type\": \"Lion\"}}", OPTION_optim, OPTIM_LION},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": true}}}", OPTION_optim, OPTIM_ADAMW},
        {"{\"optimizer\": {\"type\": \"SGD\"}}", OPTION_optim, OPTIM_SGD},
        {"{\"scheduler\": {\"type\": \"WarmupDecayLR\"}}", OPTION_lr_scheduler_type, OPT_SCHEDULE_LINEAR},
        {"{\"scheduler\": {\"params\": {\"total_num_steps\": 70}}}", OPTION_max_steps, 70},
        {"{\"train_batch_size\": 48, \"gradient_accumulation_steps\": 2}", OPTION_gradient_accumulation_steps, 2},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct options o;
        struct snug_err e;
        write_config(of[i].json);
        if (read_both(&o, "--ranks 3", &e))
            fail_msg("%s: %s", of[i].json, e.text);
        const void *member = (const char *)&o + option_rows[of[i].option].offset;
        int64_t value = option_rows[of[i].option].type == OPTION_INT ? *(const int64_t *)member : *(const int *)member;
        if (value != of[i].value)
            fail_msg("%s: gave %lld", of[i].json, (long long)value);
        assert_int_equal(o.source[of[i].option], FROM_DEEPSPEED);
        options_free(&o);
    }
}

/* An option of a --config file is an argument, too. What is left out or "auto" asks for nothing. */
static void options_go_with_the_file(void **state)
{
    (void)state;
    write_config(
        "{\"gradient_clipping\": 0.5, \"optimizer\": {\"params\": {\"lr\": \"auto\"}}, \"zero_optimization\": "
        "{\"stage\": 1, \"overlap_comm\": true, \"reduce_bucket_size\": \"auto\", \"round_robin_gradients\": false}}");
    struct options o;
    struct snug_err e;
    char notes[256];
    if (read_both(&o, "--max-grad-norm 5e-1 --learning-rate 1e-3", &e))
        fail_msg("%s", e.text);
    assert_true(o.max_grad_norm == 0.5 && o.learning_rate == 1e-3);
    snprintf(notes, sizeof notes, "%s: no effect here: overlap_comm", config_file);
    expect_notes(&o, notes);
    json_t *record;
    assert_int_equal(options_to_json(&o, false, &record, &e), SNUG_OK); /* the file's values, not its name */
    assert_null(json_object_get(record, "deepspeed"));
    assert_true(json_number_value(json_object_get(record, "max_grad_norm")) == 0.5);
    json_decref(record);
    assert_int_equal(options_read_deepspeed(&o, &io_posix, &e), SNUG_OK); /* once */
    assert_int_equal(o.n_notes, 1);
    options_free(&o);
}

/* DeepSpeed's file may have the path whatever the device is. */
static void a_path_goes_with_nvme(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    char notes[256];
    write_config("{\"zero_optimization\": {\"offload_optimizer\": {\"nvme_path\": \"/a\", \"device\": \"nvme\"}}}");
    if (read_both(&o, "--offload-dir /a", &e))
        fail_msg("%s", e.text);
    assert_true(o.offload_optimizer == OPT_OFFLOAD_DISK && !strcmp(o.offload_dir, "/a"));
    options_free(&o);
    write_config("{\"zero_optimization\": {\"offload_optimizer\": {\"nvme_path\": \"/a\", \"device\": \"cpu\"}}}");
    if (read_both(&o, "", &e))
        fail_msg("%s", e.text);
    assert_true(o.offload_optimizer == OPT_OFFLOAD_CPU && !o.offload_dir);
    snprintf(notes, sizeof notes, "%s: no effect here: nvme_path", config_file);
    expect_notes(&o, notes);
    options_free(&o);
}

static void a_warm_up_is_noted(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    write_config("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 5}}}");
    assert_int_equal(read_both(&o, "", &e), SNUG_OK);
    assert_int_equal(o.n_notes, 1);
    assert_non_null(strstr(o.notes[0], "the warm-up is linear here"));
    options_free(&o);
    write_config("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 5, \"warmup_type\": "
                 "\"linear\"}}}");
    assert_int_equal(read_both(&o, "", &e), SNUG_OK);
    assert_int_equal(o.n_notes, 0);
    options_free(&o);
}

/* The Trainer takes the object itself, too: in a file of its arguments, or on the command line. */
static void the_object_itself(void **state)
{
    static const char *const files[] = {
        "{\"deepspeed\": {\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_clipping\": 0.5, "
        "\"zero_optimization\": {\"stage\": 2}}}",
        "deepspeed:\n  train_micro_batch_size_per_gpu: auto\n  gradient_clipping: 0.5\n"
        "  zero_optimization: {stage: 2}\n",
    };
    char line[512], text[512];
    struct options o;
    struct snug_err e;
    (void)state;
    snprintf(line, sizeof line, TRAIN_LINE "--config %s", config_file);
    for (size_t i = 0; i < 2; i++) {
        write_config(files[i]);
        assert_int_equal(options_of(&o, CMD_TRAIN, line, &e), SNUG_OK);
        assert_int_equal(o.zero_stage, 2);
        assert_true(o.max_grad_norm == 0.5);
        assert_int_equal(o.per_device_train_batch_size, 8);
        assert_int_equal(o.n_notes, 0);
        options_free(&o);
    }
    refused("--deepspeed {\"zero_optimization\":{\"stage\":4}}",
            "--deepspeed: zero_optimization.stage: is 4; stages are 0 to 3; give one of them");
    snprintf(
        text, sizeof text,
        ": deepspeed: gradient_clipping: is 1, but %s: max_grad_norm says otherwise; give one of them, or \"auto\" "
        "in the file",
        config_file);
    config_refused("{\"max_grad_norm\": 2, \"deepspeed\": {\"gradient_clipping\": 1}}", SNUG_ERR_USAGE, text);
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *line, *text;
    } of[] = {
        {"{\"zero_optimization\": {\"stage\": 4}}", "",
         ": zero_optimization.stage: is 4; stages are 0 to 3; give one of them"},
        {"{\"zero_optimization\": {\"stage\": 1}}", "--zero-stage 0",
         ": zero_optimization.stage: is 1, but --zero-stage says otherwise; give one of them, or \"auto\" in the file"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"ssd\"}}}", "",
         ": zero_optimization.offload_optimizer.device: is ssd; states lie on the device, in the host's memory or on "
         "disk; give none, cpu or nvme"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/a\"}}}",
         "--offload-dir /b",
         ": zero_optimization.offload_optimizer.nvme_path: is /a, but --offload-dir says otherwise; give one of them, "
         "or "
         "\"auto\" in the file"},
        {"{\"zero_optimization\": {\"zero_quantized_weights\": true}}", "",
         ": zero_optimization.zero_quantized_weights: is not known here; leave it out"},
        {"{\"zero_optimization\": 2}", "", ": zero_optimization: is no object; give one such as {\"NAME\": \"auto\"}"},
        {"{\"optimizer\": {\"type\": \"OneBitAdam\"}}", "",
         ": optimizer.type: is OneBitAdam; known are AdamW, Adam, Lion, Adagrad, RMSprop and SGD; leave it out and "
         "give --optim"},
        {"{\"optimizer\": {\"params\": {\"betas\": [0.9]}}}", "",
         ": optimizer.params.betas: is no pair of numbers; give two such as [0.9, 0.999]"},
        {"{\"optimizer\": {\"params\": {\"adam_w_mode\": false}}}", "",
         ": optimizer.params.adam_w_mode: is false; decay is decoupled from the gradient; leave it out"},
        {"{\"scheduler\": {\"type\": \"OneCycle\"}}", "",
         ": scheduler.type: is OneCycle; known are WarmupLR and WarmupDecayLR; leave it out and give "
         "--lr-scheduler-type"},
        {"{\"scheduler\": {\"params\": {\"warmup_min_lr\": 1e-6}}}", "",
         ": scheduler.params.warmup_min_lr: is 1e-06; a warm-up begins at 0; give 0"},
        {"{\"scheduler\": {\"params\": {\"total_num_steps\": 70}}}", "--epochs 2",
         ": scheduler.params.total_num_steps: is 70, but --epochs says otherwise; give one of them, or \"auto\" in the "
         "file"},
        {"{\"fp16\": {\"loss_scale\": 128}}", "", ": fp16.loss_scale: is 128; the scale follows the gradients; give 0"},
        {"{\"fp16\": {\"enabled\": \"yes\"}}", "",
         ": fp16.enabled: is neither true nor false; give one of them, or \"auto\""},
        {"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "", NULL},
        {"{\"train_batch_size\": 32}", "--batch-size 4 --gradient-accumulation-steps 2 --ranks 3",
         ": train_batch_size: is 32, but 4 rows x 2 micro-batches x 3 ranks are 24; give that, or \"auto\""},
        {"{\"gradient_clipping\": -1}", "",
         ": gradient_clipping: '-1' is out of range; give a number of at least 0 and at most 1e+30"},
        {"{\"train_micro_batch_size_per_gpu\": 2.5}", "", NULL},
        {"{\"pipeline\": {}}", "", ": pipeline: is not known here; leave it out"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct options o;
        struct snug_err e;
        if (of[i].text) {
            file_refused(of[i].json, of[i].line, SNUG_ERR_USAGE, of[i].text);
            continue;
        }
        write_config(of[i].json);
        assert_int_equal(read_both(&o, of[i].line, &e), SNUG_ERR_USAGE);
        options_free(&o);
    }
    file_refused("[]", "", SNUG_ERR_INPUT, ": the document is an array; an object {...} was expected");
    file_refused("{\"a\": ", "", SNUG_ERR_INPUT,
                 ":1:7: not valid JSON: it ends where a value is expected; is the file complete?");
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    write_config("{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 1e-4, \"betas\": "
                 "[0.8, 0.9]}},"
                 " \"bf16\": {\"enabled\": true}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": "
                 "{\"warmup_num_steps\": 9}},"
                 " \"steps_per_print\": 5}");
    int code = SNUG_ERR_ENV;
    for (long k = 1; code; k++) {
        struct options o;
        struct snug_err e;
        struct failing_memory memory;
        assert_true(k < 1000);
        failing_memory_set(&memory, k, true);
        code = read_both(&o, "", &e);
        assert_true(code || (o.n_notes == 2 && o.adam_beta2 == 0.9));
        options_free(&o);
        mem_set_ops(NULL);
        assert_true(code == 0 || code == SNUG_ERR_ENV);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_disagree_as_in_the_trainer),
        cmocka_unit_test(a_file_gives_options),
        cmocka_unit_test(members_are_options),
        cmocka_unit_test(options_go_with_the_file),
        cmocka_unit_test(a_path_goes_with_nvme),
        cmocka_unit_test(a_warm_up_is_noted),
        cmocka_unit_test(the_object_itself),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_config_folder, remove_config_folder);
}
