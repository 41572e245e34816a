/* What each form of the command line gives, and the message of each refusal. */
#include "options/value.h"
#include "parse.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_default_is_read(void **state)
{
    (void)state;
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option_row *r = &option_rows[i];
        if (r->type == OPTION_SECTION || r->parent >= 0 || strcmp(r->unset, "none") == 0)
            continue;
        struct options o;
        struct snug_err e;
        unsigned first = r->commands & -r->commands;
        options_init(&o, first);
        if (options_set(&o, r->name, r->unset, &e))
            fail_msg("%s", e.text);
        options_free(&o);
    }
}

static void every_row_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option_row *r = &option_rows[i];
        if (r->type == OPTION_SECTION)
            continue;
        assert_true(r->commands);
        assert_true((r->needed & ~r->commands) == 0);
        assert_true(strlen(r->help) > 2);
        bool interval = r->type == OPTION_INT || r->type == OPTION_REAL || r->type == OPTION_STEPS;
        assert_true(!interval || strchr("[(", r->domain[0]));
        for (int k = 0; k < i; k++)
            assert_true(option_rows[k].parent != r->parent || strcmp(option_rows[k].name, r->name) != 0);
    }
    for (size_t i = 0; i < n_option_values; i++) /* another word leads to a real one, and hides none */
        assert_true(word_in(option_values[i].value, option_rows[option_values[i].option].domain, NULL) &&
                    !word_in(option_values[i].spelling, option_rows[option_values[i].option].domain, NULL));
    for (size_t i = 0; i < n_option_spellings; i++) /* a spelling hides no option's name */
        for (int k = 0; k < N_OPTIONS; k++)
            if (option_rows[k].type != OPTION_SECTION && option_rows[k].parent < 0 &&
                strcmp(option_spellings[i].spelling, option_rows[k].name) == 0)
                fail_msg("%s", option_rows[k].name);
    for (unsigned bit = 1; bit < 1u << N_COMMANDS; bit <<= 1) {
        int usual = 0;
        for (size_t i = 0; i < n_option_usuals; i++) {
            usual += !!(option_usuals[i].commands & bit);
            assert_true((option_usuals[i].commands & ~option_rows[option_usuals[i].option].commands) == 0);
        }
        assert_true(usual == 0 || usual == 10);
    }
    for (size_t i = 0; i < n_option_needs; i++)
        assert_true(strcmp(option_needs[i].values, "*") == 0 ||
                    option_rows[option_needs[i].other].type == OPTION_WORD ||
                    option_rows[option_needs[i].other].type == OPTION_BOOL);
}

static void forms_of_the_command_line(void **state)
{
    (void)state;
    struct options o =
        accepted("--learning_rate 2e-5 --weight-decay=0.01 --gradient-checkpointing --load_best_model_at_end "
                 "false --seed 18446744073709551615 --max-steps -1 --warmup-steps 0.1 --logging-steps 10 "
                 "--memory-budget 8GiB --delimiter tab --batch-size 3 --optim-args "
                 "momentum=0.9,~nesterov=True --optim sgd --gradient_checkpointing_kwargs "
                 "{\"every_n_layers\":~2,\"use_reentrant\":false}");
    assert_true(o.learning_rate == 2e-5);
    assert_true(o.weight_decay == 0.01);
    assert_true(o.gradient_checkpointing);
    assert_false(o.load_best_model_at_end);
    assert_true(o.seed == UINT64_MAX);
    assert_int_equal(o.max_steps, -1);
    assert_true(o.warmup_steps.steps == 0 && o.warmup_steps.ratio == 0.1);
    assert_true(o.logging_steps.steps == 10 && o.logging_steps.ratio == 0);
    assert_int_equal(o.memory_budget, 8589934592);
    assert_int_equal(o.delimiter, '\t');
    assert_int_equal(o.per_device_train_batch_size, 3);
    assert_int_equal(o.optim, OPTIM_SGD);
    assert_true(o.optim_args_momentum == 0.9 && o.optim_args_nesterov);
    assert_int_equal(o.gradient_checkpointing_kwargs_every_n_layers, 2);
    assert_string_equal(o.model, "m");
    assert_true(option_given(&o, weight_decay) && !option_given(&o, adam_beta1) && !option_given(&o, num_labels));
    assert_int_equal(o.n_notes, 0);
    options_free(&o);

    o = accepted("--memory-budget 1.5GB --delimiter ; --bf16 --use_cpu --tf32 false --logging-steps 500.0 "
                 "--logging-first-step true");
    assert_int_equal(o.memory_budget, 1500000000);
    assert_int_equal(o.delimiter, ';');
    assert_int_equal(o.dtype, OPT_DTYPE_BF16);
    assert_int_equal(o.device, BACKEND_CPU);
    assert_int_equal(o.logging_steps.steps, 500);
    assert_true(o.logging_first_step);
    options_free(&o);
}

static void what_follows_from_other_options(void **state)
{
    (void)state;
    struct options o = accepted("--seed 7 --logging-steps 20 --eval-data e.csv --eval-strategy steps");
    assert_true(o.data_seed == 7);
    assert_int_equal(o.eval_steps.steps, 20);
    assert_string_equal(o.metric_for_best_model, "loss");
    assert_false(o.greater_is_better);
    options_free(&o);
    o = accepted("--eval-data e.csv --eval-strategy epoch --metric-for-best-model accuracy --data-seed 3");
    assert_true(o.greater_is_better);
    assert_true(o.data_seed == 3);
    options_free(&o);
    /* transformers: math.ceil(num_training_steps * ratio) */
    assert_int_equal(opt_steps_of((struct opt_steps){.ratio = 0.1}, 101), 11);
    assert_int_equal(opt_steps_of((struct opt_steps){.steps = 5}, 101), 5);
}

static void batch_size_is_the_commands_own(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    assert_int_equal(options_of(&o, CMD_PREDICT, "--model m --data d.csv --batch-size 4", &e), 0);
    assert_int_equal(o.per_device_eval_batch_size, 4);
    options_free(&o);
}

static void numbers(void **state)
{
    (void)state;
    /* O2 */
    static const char *const bad[] = {"abc", "nan", "inf", "0x10", "1,5", "~1", "1~", "1e", ".", "1d5", "1.5.2"},
                             *const outside[] = {"-1", "1e400", "1e-400", "1000.1"};
    char line[64], text[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(line, sizeof line, "--learning-rate=%s", bad[i]);
        snprintf(text, sizeof text, "--learning-rate: '%s' is not a number; give one of at least 0 and at most 1000",
                 bad[i]);
        for (char *s = text; *s; s++)
            *s = *s == '~' ? ' ' : *s;
        refused(line, text);
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        snprintf(line, sizeof line, "--learning-rate %s", outside[i]);
        snprintf(text, sizeof text,
                 "--learning-rate: '%s' is out of range; give a number of at least 0 and at most 1000", outside[i]);
        refused(line, text);
    }
    refused("--learning-rate=", "--learning-rate: '' is not a number; give one of at least 0 and at "
                                "most 1000");
    /* O3, O4, O5 */
    refused("--num-train-epochs 0",
            "--num-train-epochs: '0' is out of range; give a number above 0 and at most 1000000");
    refused("--num-train-epochs -2",
            "--num-train-epochs: '-2' is out of range; give a number above 0 and at most 1000000");
    refused("--num-train-epochs 9223372036854775808",
            "--num-train-epochs: '9223372036854775808' is out of range; give a number above 0 and at most 1000000");
    refused("--batch-size 0",
            "--batch-size: '0' is out of range; give a whole number of at least 1 and at most 1000000");
    refused("--batch-size 2.0", "--batch-size: '2.0' is not a whole number; give one of at least 1 "
                                "and at most 1000000");
    refused("--seed -1", "--seed: '-1' is out of range; give a whole number from 0 to 18446744073709551615");
    refused("--seed 18446744073709551616",
            "--seed: '18446744073709551616' is out of range; give a whole number from 0 to 18446744073709551615");
    refused("--max-steps 99999999999999999999",
            "--max-steps: '99999999999999999999' is out of range; give a whole number "
            "of at least -1 and at most 1000000000");
    refused("--max-steps 0", "--max-steps: 0 steps train nothing; give 1 or more, or -1 for --num-train-epochs");
    refused("--warmup-steps 1.5",
            "--warmup-steps: '1.5' is out of range; give a whole number of steps from 0 on, or a share "
            "of all steps below 1");
    refused("--logging-steps 0",
            "--logging-steps: '0' is out of range; give a whole number of steps from 1 on, or a share "
            "of all steps below 1");
    refused("--memory-budget 8Q",
            "--memory-budget: '8Q' is not a size; give a number with a unit, such as 8GiB or 900MB");
    refused("--memory-budget 8", "--memory-budget: '8' would be bytes; did you mean 8GiB?");
    refused("--memory-budget 16000", "--memory-budget: '16000' would be bytes; did you mean 16000MiB?");
    refused("--memory-budget 0GiB",
            "--memory-budget: '0GiB' is not a size; give a number with a unit, such as 8GiB or 900MB");
    refused("--delimiter ab", "--delimiter: 'ab' is not one ASCII character; give one, or tab");
}

/* E12, O2: a locale with a decimal comma changes nothing. Skipped where none is installed. */
static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE"))
        skip();
    struct options o = accepted("--learning-rate 2.5e-5");
    refused("--learning-rate 1,5", "--learning-rate: '1,5' is not a number; give one of at least 0 "
                                   "and at most 1000");
    setlocale(LC_ALL, "C");
    assert_true(o.learning_rate == 2.5e-5);
    options_free(&o);
}

static void names_and_values(void **state)
{
    (void)state;
    /* O1 */
    refused("--lerning-rate 1",
            "--lerning-rate: unknown option; did you mean --learning-rate? see 'snug train --help'");
    refused("--frobnicate", "--frobnicate: unknown option; see 'snug train --help'");
    refused("--data x", "--data: not an option of 'snug train'; give --train-data and --eval-data");
    refused("--dump grad", "--dump: not an option of 'snug train'; see 'snug train --help'");
    refused("-x", "-x: unknown option; options begin with --, see 'snug train --help'");
    refused("extra", "extra: unexpected argument; options begin with --, see 'snug train --help'");
    refused("--seed", "--seed: its value is missing; give --seed VALUE, see 'snug train --help'");
    refused("--seed --bf16", "--seed: its value is missing; give --seed VALUE, see 'snug train --help'");
    refused("--seed 1 --seed 2", "--seed: given twice; give it once");
    refused("--model=", "--model: given twice; give it once");
    refused("--text-column=", "--text-column: is empty; give a value, or leave the option out");
    refused("--bf16=maybe", "--bf16: 'maybe' is neither true nor false; give one of them");
    refused("--strict=1", "--strict: '1' is neither true nor false; give one of them");
    /* O6 */
    refused("--dtype fp17", "--dtype: 'fp17' is unknown; use one of fp32, bf16, pure-bf16, fp16, tf32");
    refused("--optim adamm", "--optim: 'adamm' is unknown; 'snug train --help-all' lists what there is");
    refused("--optim galore_adamw", "--optim: 'galore_adamw' is not there yet; the nearest in memory is adafactor");
    refused("--lr-scheduler-type polinomial", "--lr-scheduler-type: 'polinomial' is unknown; did you mean polynomial? "
                                              "'snug train --help-all' lists what there is");
    refused("--lr-scheduler-type step",
            "--lr-scheduler-type: 'step' is unknown; 'snug train --help-all' lists what there is");
    /* O7 */
    refused("--bf16 --dtype fp32", "--dtype: sets the same option as --bf16; give one of them");
    refused("--use-cpu --no-cuda", "--no-cuda: sets the same option as --use-cpu; give one of them");
    /* names of TrainingArguments that are refused */
    refused("--ddp_backend nccl", "--ddp_backend: refused; GPUs of one machine train side by side with --gpus, and it "
                                  "has no such settings; leave it out");
    refused("--fsdp full_shard",
            "--fsdp: refused; there is no FSDP; --gpus with --zero-stage 3 shards weights, gradients and states");
    refused("--push-to-hub", "--push-to-hub: refused; nothing is uploaded; --output-dir holds a folder that can be");
    refused("--hub_model_id x",
            "--hub_model_id: refused; nothing is uploaded; --output-dir holds a folder that can be");
    refused("--neftune-noise-alpha 5",
            "--neftune-noise-alpha: refused; noise on embeddings is not there yet; use --hidden-dropout-prob");
    refused("--save-safetensors false", "--save-safetensors: refused; weights are always safetensors; leave it out");
    /* keys */
    refused("--optim sgd --optim-args momentun=0.9",
            "--optim-args: 'momentun' is no key of optim_args; there are momentum, dampening, nesterov, eps1, "
            "eps...a, centered, lr_decay, beta3, t_alpha, t_beta3, ns_steps, adjust_lr_fn, r, weight_lr_power, "
            "min_8bit_size, embeddings_8bit");
    refused("--optim sgd --optim-args momentum=x", "--optim-args momentum: 'x' is not a number; give one of "
                                                   "at least 0 and below 1");
    refused("--optim sgd --optim-args momentum",
            "--optim-args: 'momentum' is not KEY=VALUE; give KEY=VALUE,… or a JSON object");
    refused("--lr-scheduler-kwargs {num_cycles", "--lr-scheduler-kwargs: '{num_cycles' is not a JSON object; give "
                                                 "KEY=VALUE,... or {\"KEY\": VALUE}");
}

/* Activations go to the host's memory by snug's own option, TRL's, and the Trainer's argument of checkpointing, which says nothing by
 * itself. */
static void where_activations_go(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int where;
    } lines[] = {
        {"--offload-activations none", OPT_OFFLOAD_NONE},
        {"--offload-activations cpu", OPT_OFFLOAD_CPU},
        {"--activation-offloading", OPT_OFFLOAD_CPU},
        {"--activation-offloading false", OPT_OFFLOAD_AUTO},
        {"--gradient-checkpointing", OPT_OFFLOAD_AUTO},
        {"--gradient-checkpointing --gradient-checkpointing-kwargs {\"offload\":true}", OPT_OFFLOAD_CPU},
        {"--activation-checkpointing --activation-checkpointing-kwargs offload=false", OPT_OFFLOAD_AUTO},
        {"--gradient-checkpointing --gradient-checkpointing-kwargs offload=true --offload-activations none",
         OPT_OFFLOAD_NONE},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct options o = accepted(lines[i].line);
        assert_int_equal(options_activations(&o), lines[i].where);
        options_free(&o);
    }
}

static void options_that_need_each_other(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    assert_int_equal(options_of(&o, CMD_TRAIN, "--model m", &e), SNUG_ERR_USAGE);
    assert_string_equal(e.text, "--train-data: 'snug train' needs it; give --train-data FILE, see 'snug train --help'");
    options_free(&o);
    assert_int_equal(options_of(&o, CMD_PLAN, "--model m", &e), 0);
    options_free(&o);
    refused("--lora-r 8", "--lora-r: no effect without --use-peft; give that too, or leave this out");
    refused("--eval-strategy epoch",
            "--eval-strategy: no effect without --eval-data; give that too, or leave this out");
    refused("--eval-data e.csv --eval-steps 5",
            "--eval-steps: no effect with --eval-strategy no; it goes with steps, so leave one out");
    refused("--early-stopping-patience 2",
            "--early-stopping-patience: no effect with --eval-strategy no; it goes with steps|epoch, so leave one out");
    refused("--early-stopping-threshold 0.1",
            "--early-stopping-threshold: no effect without --early-stopping-patience; give that too, or leave this "
            "out");
    refused("--task causal-lm --mlm-probability 0.3",
            "--mlm-probability: no effect with --task causal-lm; it goes with masked-lm, so leave one out");
    refused("--allow-data-change",
            "--allow-data-change: no effect without --resume-from-checkpoint; give that too, or leave this out");
    refused(
        "--gradient-checkpointing-kwargs every_n_layers=2",
        "--gradient-checkpointing-kwargs every_n_layers: no effect without --gradient-checkpointing; give that too, or "
        "leave this out");
}

static void arguments_of_optimizers(void **state)
{
    (void)state;
    refused("--optim-args momentum=0.9", "--optim-args momentum: no effect with --optim adamw_torch; it goes with "
                                         "sgd|rmsprop|muon|schedule_free_sgd, so leave one out");
    refused("--optim sgd --adam-beta1 0.8", "--adam-beta1: no effect with --optim sgd; leave one out");
    refused("--optim adafactor --optim-args relative_step=true --learning-rate 1e-3",
            "--learning-rate: no effect with --optim-args relative_step true; it goes with false, so leave one out");
    refused("--optim adafactor --optim-args warmup_init=true",
            "--optim-args warmup_init: no effect without --optim-args relative_step; give that too, or leave this out");
    refused("--optim rmsprop --optim-args alpha=1",
            "--optim-args alpha: 1 is not below 1, as a decay must be; give 0.99, say");
    refused("--optim sgd --optim-args nesterov=true",
            "--optim-args nesterov: Nesterov needs momentum; add momentum=0.9 to --optim-args");
    refused("--optim sgd --optim-args nesterov=true,momentum=0.9,dampening=0.1",
            "--optim-args nesterov: Nesterov excludes dampening; leave one out");
}

static void arguments_of_schedules(void **state)
{
    (void)state;
    refused("--lr-scheduler-type constant --warmup-steps 10",
            "--warmup-steps: no effect with --lr-scheduler-type constant; leave one out");
    refused("--lr-scheduler-type constant --optim schedule_free_radam --warmup-steps 10",
            "--warmup-steps: no effect with --lr-scheduler-type constant; leave one out");
    struct options o;
    struct snug_err e;
    assert_int_equal(options_of(&o, CMD_TRAIN,
                                "--model m --train-data d.csv --output-dir o --lr-scheduler-type constant --optim "
                                "schedule_free_sgd --warmup-steps 10",
                                &e),
                     0); /* the optimizer's own */
    options_free(&o);
    refused("--lr-scheduler-type cosine --lr-scheduler-kwargs power=2",
            "--lr-scheduler-kwargs power: no effect with --lr-scheduler-type cosine; it goes with polynomial, so leave "
            "one out");
    refused("--lr-scheduler-type polynomial --lr-scheduler-kwargs lr_end=1e-4",
            "--lr-scheduler-kwargs lr_end: 0.0001 is not below --learning-rate 5e-05; give less");
    refused("--lr-scheduler-type cosine_with_min_lr",
            "--lr-scheduler-type: cosine_with_min_lr needs one of min_lr and min_lr_rate; give it in "
            "--lr-scheduler-kwargs");
    refused("--lr-scheduler-type cosine_warmup_with_min_lr --lr-scheduler-kwargs min_lr=1e-5,min_lr_rate=0.1",
            "--lr-scheduler-type: cosine_warmup_with_min_lr needs one of min_lr and min_lr_rate; give it in "
            "--lr-scheduler-kwargs");
    refused("--lr-scheduler-type cosine_with_min_lr --lr-scheduler-kwargs min_lr=1",
            "--lr-scheduler-kwargs min_lr: 1 is above --learning-rate 5e-05; give less");
    refused("--lr-scheduler-type warmup_stable_decay",
            "--lr-scheduler-type: warmup_stable_decay needs num_decay_steps; give it in --lr-scheduler-kwargs");
    refused("--lr-scheduler-type reduce_lr_on_plateau",
            "--lr-scheduler-type: reduce_lr_on_plateau goes by evaluations; give --eval-data and --eval-strategy steps "
            "or epoch");
    refused("--lr-scheduler-type greedy --eval-data e.csv --eval-strategy epoch --metric-for-best-model accuracy",
            "--lr-scheduler-kwargs: more accuracy is better, and greedy takes less for better unless told; give "
            "mode=max, or mode=min for what the Trainer does");
    refused("--lr-scheduler-type greedy --lr-scheduler-kwargs smooth=true",
            "--lr-scheduler-kwargs: smooth is refused: not there yet; greedy compares each evaluation's own metric");
}

/* As _validate_args of training_args.py has it. */
static void saving_goes_with_evaluating(void **state)
{
    (void)state;
    refused("--eval-data e --eval-strategy steps --load-best-model-at-end --save-strategy epoch",
            "--load-best-model-at-end: --save-strategy is epoch and --eval-strategy steps; make them the same, or save "
            "best");
    refused("--eval-data e --eval-strategy steps --eval-steps 100 --save-steps 150 --load-best-model-at-end",
            "--load-best-model-at-end: --save-steps 150 is not a multiple of --eval-steps 100; change one");
    refused("--save-strategy best",
            "--save-strategy: 'best' needs evaluations to choose by; give --eval-strategy steps or epoch");
    struct options o =
        accepted("--eval-data e --eval-strategy steps --eval-steps 100 --save-steps 300 --load-best-model-at-end");
    options_free(&o);
}

static void check_paths(const struct opt_paths *p, const char *first, const char *const *more, size_t n_more)
{
    assert_string_equal(p->first, first);
    assert_int_equal(p->n_more, n_more);
    for (size_t i = 0; i < n_more; i++)
        assert_string_equal(p->more[i], more[i]);
}

/* As a list of argparse's on the line, and as an array in JSON; what a checkpoint records gives the same. */
static void several_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *first, *more[2];
        size_t n_more;
    } texts[] = {
        {"a.csv", "a.csv", {NULL}, 0},     {"[\"a.csv\",\"b,c.csv\",\"[d].csv\"]", "a.csv", {"b,c.csv", "[d].csv"}, 2},
        {"[a].csv", "[a].csv", {NULL}, 0}, {"[]", "[]", {NULL}, 0},
        {"[1]", "[1]", {NULL}, 0},         {"[\"[\\\"x\\\"]\"]", "[\"x\"]", {NULL}, 0}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct options o, again;
        struct snug_err e;
        json_t *recorded;
        options_init(&o, CMD_TRAIN);
        assert_int_equal(options_set(&o, "eval_data", texts[i].text, &e), 0);
        check_paths(&o.eval_data, texts[i].first, texts[i].more, texts[i].n_more);
        assert_int_equal(options_to_json(&o, false, &recorded, &e), 0);
        char *text = json_dumps(json_object_get(recorded, "eval_data"), JSON_ENCODE_ANY);
        options_init(&again, CMD_TRAIN);
        const char *value = json_is_string(json_object_get(recorded, "eval_data"))
                                ? json_string_value(json_object_get(recorded, "eval_data"))
                                : text;
        assert_int_equal(options_set(&again, "eval_data", value, &e), 0);
        check_paths(&again.eval_data, texts[i].first, texts[i].more, texts[i].n_more);
        free(text);
        json_decref(recorded);
        options_free(&o);
        options_free(&again);
    }
    struct options o = accepted("--eval-data a.csv b.csv c.csv --seed 3");
    check_paths(&o.eval_data, "a.csv", (const char *const[]){"b.csv", "c.csv"}, 2);
    assert_int_equal(o.seed, 3);
    options_free(&o);
    o = accepted("--use-peft --lora-target-modules q_proj v_proj,k_proj o_proj --report-to wandb tensorboard --seed 3");
    assert_string_equal(o.target_modules, "q_proj,v_proj,k_proj,o_proj");
    assert_string_equal(o.report_to, "wandb,tensorboard");
    assert_int_equal(o.seed, 3);
    options_free(&o);
    refused("--text-column a b", "b: unexpected argument; options begin with --, see 'snug train --help'");
    o = accepted("--eval-data=a.csv --eval-strategy epoch");
    check_paths(&o.eval_data, "a.csv", NULL, 0);
    options_free(&o);
    o = accepted("--eval-split 0.1 --eval-strategy epoch");
    assert_true(o.eval_split == 0.1);
    assert_string_equal(o.metric_for_best_model, "loss");
    options_free(&o);
    refused("--eval-data a b --eval-data c", "--eval-data: given twice; give it once");
    refused("--eval-split 0.1 --eval-data a", "--eval-split: serves the same as --eval-data; give one of them");
    refused("--eval-split 1", "--eval-split: '1' is out of range; give a number above 0 and below 1");
    refused("--seed 1 2", "2: unexpected argument; options begin with --, see 'snug train --help'");
}

static void arguments_are_kept_apart(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    struct arguments args;
    char *argv[] = {"--json", "a", "--utf8", "replace", "-", "--", "--json"};
    options_init(&o, CMD_TOKENIZE);
    assert_int_equal(options_parse(&o, &io_posix, 7, argv, &args, &e), 0);
    assert_true(o.json && o.utf8 == OPT_UTF8_REPLACE);
    assert_int_equal(args.n, 3);
    assert_string_equal(args.items[0], "a");
    assert_string_equal(args.items[1], "-");
    assert_string_equal(args.items[2], "--json");
    options_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_read),
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(forms_of_the_command_line),
        cmocka_unit_test(what_follows_from_other_options),
        cmocka_unit_test(batch_size_is_the_commands_own),
        cmocka_unit_test(numbers),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(names_and_values),
        cmocka_unit_test(where_activations_go),
        cmocka_unit_test(options_that_need_each_other),
        cmocka_unit_test(arguments_of_optimizers),
        cmocka_unit_test(arguments_of_schedules),
        cmocka_unit_test(saving_goes_with_evaluating),
        cmocka_unit_test(several_files),
        cmocka_unit_test(arguments_are_kept_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
