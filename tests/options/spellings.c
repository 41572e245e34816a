/* Names of other programs and of older versions, on the command line and in the environment. */
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

/* Names of the Trainer's example scripts (run_classification.py, run_mlm.py), of Accelerate's and Lightning's options. */
static void names_of_other_programs(void **state)
{
    (void)state;
    struct options o =
        accepted("--lr 3e-4 --epochs 2 --wd 0.1 --optimizer adamw --fp32 --batch_size 4 --validation_file e.csv "
                 "--max_seq_length 64 --num_warmup_steps 7 --lr_scheduler cosine --grad_accum_steps 2 --grad_clip 0.5");
    assert_true(o.learning_rate == 3e-4 && o.num_train_epochs == 2 && o.weight_decay == 0.1 && o.max_grad_norm == 0.5);
    assert_int_equal(o.optim, OPTIM_ADAMW);
    assert_int_equal(o.dtype, OPT_DTYPE_FP32);
    assert_int_equal(o.per_device_train_batch_size, 4);
    assert_string_equal(o.eval_data.first, "e.csv");
    assert_int_equal(o.max_length, 64);
    assert_int_equal(o.warmup_steps.steps, 7);
    assert_int_equal(o.lr_scheduler_type, OPT_SCHEDULE_COSINE);
    assert_int_equal(o.gradient_accumulation_steps, 2);
    assert_int_equal(o.n_notes, 0);
    options_free(&o);
    struct snug_err e;
    if (options_of(
            &o, CMD_TRAIN,
            "--model_name_or_path m --train_file d.csv --output_dir out --num-epochs 1.5 --mixed_precision bf16 --cpu",
            &e))
        fail_msg("%s", e.text);
    assert_string_equal(o.model, "m");
    assert_string_equal(o.train_data.first, "d.csv");
    assert_true(o.num_train_epochs == 1.5);
    assert_int_equal(o.dtype, OPT_DTYPE_BF16);
    assert_int_equal(o.device, BACKEND_CPU);
    options_free(&o);
    assert_int_equal(options_of(&o, CMD_PREDICT, "--model m --test_file d.csv --precision 16-mixed", &e), 0);
    assert_string_equal(o.data, "d.csv");
    assert_int_equal(o.dtype, OPT_DTYPE_FP16);
    options_free(&o);
    refused("--lr 1e-3 --learning-rate 1e-3", "--learning-rate: sets the same option as --lr; give one of them");
    refused("--dropout 0.1",
            "--dropout: unknown option; give --hidden-dropout-prob and --attention-probs-dropout-prob");
    refused("--dataset-name imdb", "--dataset-name: unknown option; give files, or OWNER/NAME for a dataset of the "
                                   "hub, with --train-data and --eval-data");
    refused("--epoch 3", "--epoch: unknown option; did you mean --num-train-epochs? see 'snug train --help'");
    refused("--optimiser x", "--optimiser: unknown option; did you mean --optim? see 'snug train --help'");
}

static void refused_by(unsigned command, const char *line, const char *text)
{
    struct options o;
    struct snug_err e;
    assert_int_equal(options_of(&o, command, line, &e), SNUG_ERR_USAGE);
    assert_string_equal(e.text, text);
    options_free(&o);
}

/* An option of another command, or of none, for which there is something else. */
static void hints(void **state)
{
    (void)state;
    refused_by(CMD_GENERATE, "--max_length 4", "--max_length: not an option of 'snug generate'; give --max-new-tokens");
    refused_by(CMD_EXPORT, "--max_length 4", "--max_length: not an option of 'snug export'; see 'snug export --help'");
    refused_by(CMD_EVAL, "--eval_file a.csv", "--eval_file: not an option of 'snug eval'; give --data");
    refused_by(CMD_PREDICT, "--metric f1", "--metric: unknown option; see 'snug predict --help'");
    refused_by(CMD_EVAL, "--metric f1", "--metric: unknown option; all are counted and printed; leave it out");
}

/* The beginning of a name is near, as argparse would take it; of a short word nothing is that has half other letters. */
static void near_names(void **state)
{
    (void)state;
    refused("--early_stop 3",
            "--early_stop: unknown option; did you mean --early-stopping-patience? see 'snug train --help'");
    refused("--Learning_Rate 1",
            "--Learning_Rate: unknown option; did you mean --learning-rate? see 'snug train --help'");
    refused("--o out", "--o: unknown option; see 'snug train --help'");
    refused("--abc 1", "--abc: unknown option; see 'snug train --help'");
    refused("--optim AdaFactor",
            "--optim: 'AdaFactor' is unknown; did you mean adafactor? 'snug train --help-all' lists what there is");
}

static void older_spellings_get_a_note(void **state)
{
    (void)state;
    struct options o = accepted("--per_gpu_train_batch_size 4 --evaluation_strategy epoch --eval-data e --no_cuda "
                                "--group_by_length --warmup_ratio 0.25 --optim adamw_hf");
    assert_int_equal(o.per_device_train_batch_size, 4);
    assert_int_equal(o.eval_strategy, OPT_WHEN_EPOCH);
    assert_int_equal(o.device, BACKEND_CPU);
    assert_int_equal(o.train_sampling_strategy, ORDER_BY_LENGTH);
    assert_true(o.warmup_steps.ratio == 0.25);
    expect_notes(&o, "--per_gpu_train_batch_size is an older spelling: it is now --per-device-train-batch-size\n"
                     "--evaluation_strategy is an older spelling: it is now --eval-strategy\n"
                     "--no_cuda is an older spelling: it is now --device cpu\n"
                     "--group_by_length is an older spelling: it is now --train-sampling-strategy group_by_length\n"
                     "--optim: adamw_hf means adamw_torch, which adds epsilon after the bias correction, not before\n"
                     "--warmup_ratio is an older spelling: it is now --warmup-steps, which takes a share of all steps "
                     "too");
    options_free(&o);
    o = accepted("--warmup-ratio 0.25 --warmup-steps 10");
    assert_int_equal(o.warmup_steps.steps, 10);
    expect_notes(&o, "--warmup-ratio is ignored: --warmup-steps wins");
    options_free(&o);
    o = accepted("--report_to wandb --disable_tqdm true --dataloader-num-workers 4");
    expect_notes(&o, "--disable_tqdm is ignored: there is a progress line on a terminal, and plain lines elsewhere\n"
                     "--dataloader-num-workers is ignored: batches are prepared ahead by threads\n"
                     "--report_to: wandb is ignored: the log is a file of JSON lines");
    options_free(&o);
    o = accepted("--report-to wandb,tensorboard --logging-dir logs");
    expect_notes(&o, "--report-to: wandb is ignored: the log is a file of JSON lines");
    assert_true(options_report_to(&o, "tensorboard"));
    options_free(&o);
    o = accepted("--report-to all");
    assert_true(options_report_to(&o, "tensorboard"));
    options_free(&o);
    o = accepted("--report-to none --logging-dir logs");
    assert_false(options_report_to(&o, "tensorboard"));
    expect_notes(&o, "--logging-dir is ignored: without --report-to tensorboard there is nothing to put there");
    options_free(&o);
    /* what is so anyway */
    o = accepted(
        "--save-safetensors true --push_to_hub False --ddp_find_unused_parameters false --fsdp \"\" --report_to none "
        "--average_tokens_across_devices --disable_tqdm");
    expect_notes(&o, "--disable_tqdm is ignored: there is a progress line on a terminal, and plain lines elsewhere");
    options_free(&o);
    refused("--warmup-ratio 1.0", "--warmup-ratio: '1.0' is no share of all steps; give a number from 0 to below 1");
}

static void environment(void **state)
{
    (void)state;
    struct options o;
    struct snug_err e;
    assert_string_equal(options_env(0), "SNUG_THREADS");
    options_init(&o, CMD_TRAIN);
    assert_int_equal(options_set_env(&o, "SNUG_THREADS", "3", &e), 0);
    assert_int_equal(o.threads, 3);
    char *argv[] = {"--threads", "5"};
    assert_int_equal(options_parse(&o, &io_posix, 2, argv, NULL, &e), 0);
    assert_int_equal(o.threads, 5);
    options_free(&o);
    options_init(&o, CMD_TRAIN);
    assert_int_equal(options_set_env(&o, "SNUG_THREADS", "x", &e), SNUG_ERR_USAGE); /* O13 */
    assert_string_equal(e.text, "SNUG_THREADS: 'x' is not a whole number; give one of at least 1 and "
                                "at most 4096");
    options_free(&o);
    options_init(&o, CMD_INFO); /* a command that takes no threads */
    assert_int_equal(options_set_env(&o, "SNUG_THREADS", "x", &e), 0);
    options_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_other_programs),    cmocka_unit_test(hints),       cmocka_unit_test(near_names),
        cmocka_unit_test(older_spellings_get_a_note), cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
