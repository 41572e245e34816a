/* Names, defaults and words of transformers' TrainingArguments, recorded by training_arguments.py, and what they are here. */
#include "options/training_arguments.h"
#include "format/json.h"
#include "options/value.h"
#include "parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What transformers' TrainingArguments are: loads the recorded file. */
static json_t *training_arguments(const char *version)
{
    char path[512];
    struct snug_err e;
    json_t *j;
    snprintf(path, sizeof path, "%s/tests/options/training_arguments_%s.json", getenv("SNUG_SOURCE"), version);
    if (json_read_file(&io_posix, path, 1 << 20, &j, &e))
        fail_msg("%s", e.text);
    return j;
}

/* A saved TrainingArguments of defaults loads without a note, and changes nothing but what it stands for, and the size
 * of evaluation's batches, on which no result depends: ours go by tokens. */
static void load_training_arguments(const char *version)
{
    json_t *recorded = training_arguments(version), *fields = json_object_get(recorded, "fields");
    char *dump = json_dumps(fields, 0), line[128];
    write_config(dump);
    snprintf(line, sizeof line, "--config %s", config_file);
    struct options o = accepted(line), defaults = accepted("");
    expect_notes(&o, "");
    json_t *a, *b;
    struct snug_err e;
    assert_int_equal(options_to_json(&o, false, &a, &e), 0);
    assert_int_equal(options_to_json(&defaults, false, &b, &e), 0);
    const char *name;
    json_t *v;
    json_object_foreach(b, name, v) if (strcmp(name, "per_device_eval_batch_size") &&
                                        !json_equal(v, json_object_get(a, name))) fail_msg("%s differs", name);
    json_decref(a);
    json_decref(b);
    options_free(&o);
    options_free(&defaults);
    free(dump);
    json_decref(recorded);
}

static void saved_training_arguments_load(void **state)
{
    (void)state;
    load_training_arguments("4.57");
    load_training_arguments("5.17");
    load_training_arguments("5.23");
}

/* What Seq2SeqTrainingArguments of transformers 5.24 saves besides: its defaults ask for nothing, the rest says what to use. */
static void those_of_seq2seq_are_known(void **state)
{
    (void)state;
    write_config("{\"sortish_sampler\": false, \"predict_with_generate\": false, \"generation_max_length\": null, "
                 "\"generation_num_beams\": null, \"generation_config\": null}");
    char line[128];
    snprintf(line, sizeof line, "--config %s", config_file);
    struct options o = accepted(line);
    expect_notes(&o, "");
    options_free(&o);
    write_config("{\"task\": \"seq2seq-lm\", \"predict_with_generate\": true, \"generation_num_beams\": 3}");
    o = accepted(line);
    assert_int_equal(o.num_beams, 3);
    options_free(&o);
    config_refused("{\"sortish_sampler\": true}", SNUG_ERR_USAGE,
                   ": sortish_sampler: refused; there is no such sampler; use --train-sampling-strategy "
                   "group_by_length");
    config_refused("{\"generation_max_length\": 20}", SNUG_ERR_USAGE,
                   ": generation_max_length: refused; use --max-new-tokens with one less: the token that begins a "
                   "target is not counted");
}

/* The names that docs/options.md has a row for are those of transformers 5.17; each is an option, or ignored, or refused
 * with what to do instead. */
static void every_training_argument_is_known(void **state)
{
    (void)state;
    static const char *const names[] = {
#define NAME(name) #name,
        TRAINING_ARGUMENTS(NAME)
#undef NAME
    };
    json_t *recorded = training_arguments("5.17"), *fields = json_object_get(recorded, "fields"), *v;
    const char *name;
    size_t n = 0;
    assert_int_equal(json_object_size(fields), 112);
    assert_int_equal(sizeof names / sizeof *names, 112);
    json_object_foreach(fields, name, v)
    {
        struct options o;
        options_init(&o, CMD_TRAIN);
        assert_string_equal(names[n++], name);
        struct option_meaning m = option_lookup(&o, name);
        assert_true(m.kind == MEANS_OPTION || m.kind == MEANS_ACCEPTED || m.kind == MEANS_REFUSED);
        if (m.foreign && strstr(m.foreign->why, "nothing corresponds"))
            fail_msg("%s: %s", name, m.foreign->why);
        if (m.kind == MEANS_REFUSED && !strchr(m.foreign->why, ';') && strncmp(m.foreign->why, "use ", 4) != 0)
            fail_msg("%s: what instead? %s", name, m.foreign->why);
        options_free(&o);
    }
    json_decref(recorded);
}

/* Every word of the Trainer is one of ours, or refused by name. */
static void every_word_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int option;
    } lists[] = {{"optim", OPTION_optim},
                 {"lr_scheduler_type", OPTION_lr_scheduler_type},
                 {"eval_strategy", OPTION_eval_strategy},
                 {"eval_strategy", OPTION_logging_strategy},
                 {"save_strategy", OPTION_save_strategy}};
    json_t *recorded = training_arguments("5.23");
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        size_t at;
        json_t *word;
        json_array_foreach(json_object_get(recorded, lists[k].list), at, word)
        {
            struct options o;
            struct snug_err e = {0};
            options_init(&o, CMD_TRAIN);
            int code = options_set(&o, option_rows[lists[k].option].name, json_string_value(word), &e);
            if (code && !strstr(e.text, "is not there yet; "))
                fail_msg("%s", e.text);
            options_free(&o);
        }
    }
    json_decref(recorded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_training_arguments_load),
        cmocka_unit_test(those_of_seq2seq_are_known),
        cmocka_unit_test(every_training_argument_is_known),
        cmocka_unit_test(every_word_is_known),
    };
    return cmocka_run_group_tests(tests, make_config_folder, remove_config_folder);
}
