/* What options ask of each other. */
#include "metrics/metrics.h"
#include "options/gpus.h"
#include "options/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An option's flag, or the place of a key. */
static const char *place(int i, char buf[2 * OPTION_NAME_MAX])
{
    char flag[OPTION_NAME_MAX];
    const struct option_row *row = &option_rows[i];
    if (row->parent < 0)
        return option_flag(row->name, buf);
    snprintf(buf, (size_t)2 * OPTION_NAME_MAX, "%s %s", option_flag(option_rows[row->parent].name, flag), row->name);
    return buf;
}

/* How the option was given, else its place. */
static const char *label(const struct options *o, int i, char buf[2 * OPTION_NAME_MAX])
{
    return o->source[i] > FROM_CHECK ? o->from[i] : place(i, buf);
}

static bool other_serves(const struct options *o, int option)
{
    for (size_t k = 0; k < n_option_eithers; k++)
        if (option_eithers[k].option == option && o->source[option_eithers[k].other] != FROM_DEFAULT)
            return true;
    return false;
}

static int check_needed(const struct options *o, struct snug_err *err)
{
    char flag[OPTION_NAME_MAX];
    const char *command = command_name(o->command);
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].needed & o->command && o->source[i] == FROM_DEFAULT && !other_serves(o, i)) {
            option_flag(option_rows[i].name, flag);
            return err_set(err, SNUG_ERR_USAGE, "%s: 'snug %s' needs it; give %s %s, see 'snug %s --help'", flag,
                           command, flag, option_rows[i].domain, command);
        }
    return SNUG_OK;
}

/* The value of a BOOL or WORD row as text. */
static const char *value_word(const struct options *o, int i, char buf[64])
{
    const char *words = option_rows[i].domain;
    int index = 0;
    if (option_rows[i].type == OPTION_WORD)
        index = *(const int *)option_member(o, i);
    else
        index = !*(const bool *)option_member(o, i); /* "true|false" */
    for (; index > 0; index--)
        words = strchr(words, '|') + 1;
    snprintf(buf, 64, "%.*s", (int)strcspn(words, "|"), words);
    return buf;
}

/* Whether row `i` asks for something: it was given, and differs from its default, or it is a number or name that a
 * person typed. A config file that spells out defaults asks for nothing. */
static bool asks_something(const struct options *o, const struct options *defaults, int i)
{
    const void *now = option_member(o, i), *unset = option_member(defaults, i);
    if (o->source[i] <= FROM_CHECK)
        return false;
    bool typed = o->source[i] != FROM_CONFIG || strcmp(option_rows[i].unset, "none") == 0;
    switch (option_rows[i].type) {
    case OPTION_BOOL:
        return *(const bool *)now != *(const bool *)unset;
    case OPTION_WORD:
        return *(const int *)now != *(const int *)unset;
    case OPTION_INT:
    case OPTION_BYTES:
        return typed || *(const int64_t *)now != *(const int64_t *)unset;
    case OPTION_UINT:
        return typed || *(const uint64_t *)now != *(const uint64_t *)unset;
    case OPTION_REAL:
        return typed || *(const double *)now != *(const double *)unset;
    case OPTION_STEPS: {
        const struct opt_steps *a = now, *b = unset;
        return typed || a->steps != b->steps || a->ratio != b->ratio;
    }
    default:
        return true;
    }
}

bool option_asks(const struct options *o, int i)
{
    struct options defaults;
    options_init(&defaults, o->command);
    return asks_something(o, &defaults, i);
}

int options_idle(const struct options *o, int other, const char *word)
{
    struct options defaults;
    options_init(&defaults, o->command);
    for (size_t k = 0; k < n_option_needs; k++) {
        const struct option_needs *n = &option_needs[k];
        if (n->other == other && option_rows[n->option].commands & o->command &&
            asks_something(o, &defaults, n->option) && !word_in(word, n->values, NULL))
            return n->option;
    }
    return -1;
}

/* Option n->option, which has no effect with `word` for the other. On a command line that is a mistake; a config file of the
 * Trainer's has many a number that its strategy does not use. */
static int no_effect(struct options *o, const struct option_needs *n, const char *word, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX], b[2 * OPTION_NAME_MAX], use[160] = "";
    const struct option_row *row = &option_rows[n->option];
    bool none = strcmp(row->unset, "none") == 0;
    place(n->other, b);
    if (o->source[n->option] == FROM_CONFIG && (!none || row->type == OPTION_STR)) {
        TRY(option_note(o, err, "%s is ignored: no effect with %s %s", o->from[n->option], b, word));
        o->source[n->option] = FROM_DEFAULT;
        if (!none)
            return option_read_value(o, n->option, "", row->unset, err);
        *(const char **)option_member(o, n->option) = NULL;
        return SNUG_OK;
    }
    if (strcmp(n->values, "true") == 0)
        return err_set(err, SNUG_ERR_USAGE, "%s: no effect without %s; give that too, or leave this out",
                       label(o, n->option, a), b);
    if (strlen(n->values) < 120)
        snprintf(use, sizeof use, " it goes with %s, so",
                 strncmp(n->values, "auto|", 5) == 0 ? n->values + 5 : n->values);
    return err_set(err, SNUG_ERR_USAGE, "%s: no effect with %s %s;%s leave one out", label(o, n->option, a), b, word,
                   use);
}

static int check_eithers(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX], b[2 * OPTION_NAME_MAX];
    for (size_t k = 0; k < n_option_eithers; k++) {
        const struct option_either *e = &option_eithers[k];
        if (o->source[e->option] != FROM_DEFAULT && o->source[e->other] != FROM_DEFAULT)
            return err_set(err, SNUG_ERR_USAGE, "%s: serves the same as %s; give one of them", label(o, e->other, a),
                           label(o, e->option, b));
    }
    return SNUG_OK;
}

static bool has_effect_by(const struct options *o, int option)
{
    char word[64];
    for (size_t k = 0; k < n_option_serves; k++) {
        const struct option_needs *n = &option_serves[k];
        if (n->option != option)
            continue;
        if (strcmp(n->values, "*") == 0 ? o->source[n->other] != FROM_DEFAULT
                                        : word_in(value_word(o, n->other, word), n->values, NULL))
            return true;
    }
    return false;
}

static int check_effect(struct options *o, struct snug_err *err)
{
    struct options defaults;
    options_init(&defaults, o->command);
    for (size_t k = 0; k < n_option_needs; k++) {
        const struct option_needs *n = &option_needs[k];
        char a[2 * OPTION_NAME_MAX], b[2 * OPTION_NAME_MAX], word[64];
        if (!(option_rows[n->option].commands & o->command) || !(option_rows[n->other].commands & o->command) ||
            !asks_something(o, &defaults, n->option))
            continue;
        if (strcmp(n->values, "*") == 0) {
            if (o->source[n->other] == FROM_DEFAULT && !other_serves(o, n->other) && !has_effect_by(o, n->option))
                return err_set(err, SNUG_ERR_USAGE, "%s: no effect without %s; give that too, or leave this out",
                               label(o, n->option, a), place(n->other, b));
            continue;
        }
        if (!word_in(value_word(o, n->other, word), n->values, NULL) && !has_effect_by(o, n->option))
            TRY(no_effect(o, n, word, err));
    }
    return SNUG_OK;
}

static int check_rate_test(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX], b[2 * OPTION_NAME_MAX];
    if (o->lr_find && o->resume_from_checkpoint)
        return err_set(err, SNUG_ERR_USAGE, "%s: tests rates from the weights of --model; leave it out, or %s",
                       label(o, OPTION_lr_find, a), label(o, OPTION_resume_from_checkpoint, b));
    return SNUG_OK;
}

static int check_optimizer(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX];
    bool adds_up = o->gradient_accumulation_steps > 1, may = o->memory_budget || o->auto_find_batch_size;
    if (o->gradient_accumulation_dtype != OPT_GRADIENTS_FP32 && !adds_up && !may)
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: no effect without accumulation; give --gradient-accumulation-steps, or leave this out",
                       label(o, OPTION_gradient_accumulation_dtype, a));
    if (o->optim_args_nesterov && !(o->optim_args_momentum > 0))
        return err_set(err, SNUG_ERR_USAGE, "%s: Nesterov needs momentum; add momentum=0.9 to --optim-args",
                       label(o, OPTION_optim_args_nesterov, a));
    if (o->optim_args_nesterov && o->optim_args_dampening > 0)
        return err_set(err, SNUG_ERR_USAGE, "%s: Nesterov excludes dampening; leave one out",
                       label(o, OPTION_optim_args_nesterov, a));
    if (o->optim_args_alpha >= 1 && (o->optim == OPTIM_RMSPROP || o->optim == OPTIM_RMSPROP_8BIT))
        return err_set(err, SNUG_ERR_USAGE, "%s: %g is not below 1, as a decay must be; give 0.99, say",
                       label(o, OPTION_optim_args_alpha, a), o->optim_args_alpha);
    if (o->max_steps == 0)
        return err_set(err, SNUG_ERR_USAGE, "%s: 0 steps train nothing; give 1 or more, or -1 for --num-train-epochs",
                       label(o, OPTION_max_steps, a));
    return SNUG_OK;
}

/* What the functions of transformers that make a schedule refuse, and a mode that would turn the schedule round. */
static int check_schedule(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX], word[64];
    const char *type = value_word(o, OPTION_lr_scheduler_type, word);
    bool follows =
        o->lr_scheduler_type == OPT_SCHEDULE_REDUCE_ON_PLATEAU || o->lr_scheduler_type == OPT_SCHEDULE_GREEDY;
    bool least = o->lr_scheduler_type == OPT_SCHEDULE_COSINE_WITH_MIN_LR ||
                 o->lr_scheduler_type == OPT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR;
    bool rate = option_given(o, lr_scheduler_kwargs_min_lr), share = option_given(o, lr_scheduler_kwargs_min_lr_rate);
    if (least && rate == share)
        return err_set(err, SNUG_ERR_USAGE,
                       "--lr-scheduler-type: %s needs one of min_lr and min_lr_rate; give it in --lr-scheduler-kwargs",
                       type);
    if (least && o->lr_scheduler_kwargs_min_lr > o->learning_rate)
        return err_set(err, SNUG_ERR_USAGE, "%s: %g is above --learning-rate %g; give less",
                       label(o, OPTION_lr_scheduler_kwargs_min_lr, a), o->lr_scheduler_kwargs_min_lr, o->learning_rate);
    if (o->lr_scheduler_type == OPT_SCHEDULE_POLYNOMIAL && !(o->lr_scheduler_kwargs_lr_end < o->learning_rate))
        return err_set(err, SNUG_ERR_USAGE, "%s: %g is not below --learning-rate %g; give less",
                       label(o, OPTION_lr_scheduler_kwargs_lr_end, a), o->lr_scheduler_kwargs_lr_end, o->learning_rate);
    if (o->lr_scheduler_type == OPT_SCHEDULE_WARMUP_STABLE_DECAY &&
        !option_given(o, lr_scheduler_kwargs_num_decay_steps))
        return err_set(err, SNUG_ERR_USAGE,
                       "--lr-scheduler-type: %s needs num_decay_steps; give it in --lr-scheduler-kwargs", type);
    if (follows && o->eval_strategy == OPT_WHEN_NO)
        return err_set(
            err, SNUG_ERR_USAGE,
            "--lr-scheduler-type: %s goes by evaluations; give --eval-data and --eval-strategy steps or epoch", type);
    if (follows && o->greater_is_better && !option_given(o, lr_scheduler_kwargs_mode))
        return err_set(err, SNUG_ERR_USAGE,
                       "--lr-scheduler-kwargs: more %s is better, and %s takes less for better unless told; give "
                       "mode=max, or mode=min for what the Trainer does",
                       o->metric_for_best_model, type);
    return SNUG_OK;
}

/* The best model is one of those that were saved, so every save falls on an evaluation; there may be more of these. */
static int check_best_model(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX];
    if (o->save_strategy == OPT_SAVE_BEST && o->eval_strategy == OPT_WHEN_NO)
        return err_set(err, SNUG_ERR_USAGE,
                       "--save-strategy: 'best' needs evaluations to choose by; give --eval-strategy steps or epoch");
    if (!o->load_best_model_at_end || o->save_strategy == OPT_SAVE_BEST)
        return SNUG_OK;
    label(o, OPTION_load_best_model_at_end, a);
    char save[64], eval[64];
    value_word(o, OPTION_save_strategy, save);
    value_word(o, OPTION_eval_strategy, eval);
    if (strcmp(save, eval) != 0)
        return err_set(err, SNUG_ERR_USAGE,
                       "--load-best-model-at-end: --save-strategy is %s and --eval-strategy %s; make them the same, or "
                       "save best",
                       save, eval);
    if (o->eval_strategy != OPT_WHEN_STEPS)
        return SNUG_OK;
    struct opt_steps s = o->save_steps, e = o->eval_steps;
    bool fits = s.ratio > 0 || e.ratio > 0 ? s.ratio == e.ratio : s.steps % e.steps == 0;
    if (fits)
        return SNUG_OK;
    if (s.ratio > 0 || e.ratio > 0)
        return err_set(err, SNUG_ERR_USAGE,
                       "--load-best-model-at-end: --save-steps and --eval-steps must be the same "
                       "share of all steps, or both numbers; change one");
    return err_set(err, SNUG_ERR_USAGE,
                   "--load-best-model-at-end: --save-steps %lld is not a multiple of --eval-steps %lld; change one",
                   (long long)s.steps, (long long)e.steps);
}

#define DERIVE(o, name, value)                                                                                         \
    do {                                                                                                               \
        if ((o)->source[OPTION_##name] == FROM_DEFAULT) {                                                              \
            (o)->name = (value);                                                                                       \
            (o)->source[OPTION_##name] = FROM_CHECK;                                                                   \
        }                                                                                                              \
    } while (0)

static void derive(struct options *o)
{
    DERIVE(o, data_seed, o->seed);
    if (o->lr_scheduler_type == OPT_SCHEDULE_COSINE_WITH_RESTARTS)
        DERIVE(o, lr_scheduler_kwargs_num_cycles, 1);
    if (o->lr_scheduler_type == OPT_SCHEDULE_GREEDY) {
        DERIVE(o, lr_scheduler_kwargs_factor, 0.95);
        DERIVE(o, lr_scheduler_kwargs_threshold, 1e-6);
        DERIVE(o, lr_scheduler_kwargs_threshold_mode, OPT_THRESHOLD_ABS);
        DERIVE(o, lr_scheduler_kwargs_min_lr, 1e-3);
    }
    if (o->eval_strategy == OPT_WHEN_STEPS)
        DERIVE(o, eval_steps, o->logging_steps);
    if (o->eval_strategy == OPT_WHEN_NO)
        return;
    DERIVE(o, metric_for_best_model, "loss");
    DERIVE(o, greater_is_better, !metric_lower_is_better(o->metric_for_best_model));
}

/* The next name of a list with commas, *n bytes; NULL: no more. */
static const char *next_name(const char **list, size_t *n)
{
    const char *at = *list ? *list + strspn(*list, ", ") : "";
    *n = strcspn(at, ", ");
    *list = at + *n;
    return *n ? at : NULL;
}

static bool is_name(const char *at, size_t n, const char *name)
{
    return n == strlen(name) && strncmp(at, name, n) == 0;
}

bool options_report_to(const struct options *o, const char *name)
{
    const char *list = o->report_to, *at;
    size_t n;
    while ((at = next_name(&list, &n)))
        if (is_name(at, n, name) || is_name(at, n, "all"))
            return true;
    return false;
}

static int check_reports(struct options *o, struct snug_err *err)
{
    const char *list = o->report_to, *at;
    char a[2 * OPTION_NAME_MAX];
    size_t n;
    if (list && !strcmp(list, "none")) { /* the Trainer's word for unset */
        o->report_to = list = NULL;
        o->source[OPTION_report_to] = FROM_DEFAULT;
    }
    while ((at = next_name(&list, &n)))
        if (!is_name(at, n, "none") && !is_name(at, n, "all") && !is_name(at, n, "tensorboard"))
            TRY(option_note(o, err, "%s: %.*s is ignored: the log is a file of JSON lines",
                            label(o, OPTION_report_to, a), (int)n, at));
    if (!o->logging_dir || options_report_to(o, "tensorboard"))
        return SNUG_OK;
    return option_note(o, err, "%s is ignored: without --report-to tensorboard there is nothing to put there",
                       label(o, OPTION_logging_dir, a));
}

int options_recompute(const struct options *o)
{
    char *end;
    if (!o->recompute)
        return o->gradient_checkpointing ? (int)o->gradient_checkpointing_kwargs_every_n_layers : 0;
    if (!strcmp(o->recompute, "off") || !strcmp(o->recompute, "layer"))
        return o->recompute[0] == 'l';
    if (!strcmp(o->recompute, "auto"))
        return RECOMPUTE_AUTO;
    long n = strtol(o->recompute, &end, 10);
    return *end || o->recompute[0] < '0' || o->recompute[0] > '9' || n < 1 || n > 100000 ? RECOMPUTE_UNKNOWN : (int)n;
}

static int check_offload(const struct options *o, struct snug_err *err)
{
    if (o->offload_optimizer != OPT_OFFLOAD_DISK || o->offload_dir)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE,
                   "--offload-optimizer disk: no folder is given; add --offload-dir DIR, on a fast disk");
}

int options_activations(const struct options *o)
{
    bool sent = o->gradient_checkpointing && o->gradient_checkpointing_kwargs_offload;
    return sent && o->offload_activations == OPT_OFFLOAD_AUTO ? OPT_OFFLOAD_CPU : (int)o->offload_activations;
}

static int check_recompute(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX];
    if (options_recompute(o) == RECOMPUTE_UNKNOWN)
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is none of auto, off, layer and a number from 1 to 100000",
                       label(o, OPTION_recompute, a), o->recompute);
    if (o->recompute && o->gradient_checkpointing)
        return err_set(err, SNUG_ERR_USAGE, "%s: serves the same as --gradient-checkpointing; give one of them",
                       label(o, OPTION_recompute, a));
    return SNUG_OK;
}

/* Each GPU is a rank. */
static int check_gpus(struct options *o, struct snug_err *err)
{
    struct gpus g;
    char value[64];
    if (!o->gpus)
        return SNUG_OK;
    if (o->device == BACKEND_CPU || o->device == BACKEND_REFERENCE)
        return err_set(err, SNUG_ERR_USAGE,
                       "--gpus %s: --device %s has no GPU; give --ranks for copies of the model there", o->gpus,
                       value_word(o, OPTION_device, value));
    TRY(options_gpus(o, &g, err));
    if (option_given(o, ranks) && o->ranks != g.n)
        return err_set(err, SNUG_ERR_USAGE, "--ranks %lld: --gpus %s has one rank for each GPU, %d; leave --ranks out",
                       (long long)o->ranks, o->gpus, g.n);
    DERIVE(o, ranks, g.n);
    return SNUG_OK;
}

/* Each process is a rank. */
static int check_processes(struct options *o, struct snug_err *err)
{
    const char *port = o->main_process ? strrchr(o->main_process, ':') : NULL;
    char *end = NULL;
    long number = port ? strtol(port + 1, &end, 10) : 0;
    struct gpus g;
    if (!(o->command & (CMD_TRAIN | CMD_EVAL)) || o->num_processes <= 1)
        return SNUG_OK;
    if (o->process_index >= o->num_processes)
        return err_set(err, SNUG_ERR_USAGE, "--process-index %lld: of --num-processes %lld the last is %lld",
                       (long long)o->process_index, (long long)o->num_processes, (long long)o->num_processes - 1);
    if (!o->main_process && option_given(o, process_index))
        return err_set(
            err, SNUG_ERR_USAGE,
            "--process-index %lld: they have to meet; give --main-process HOST:PORT, the host of process 0, or "
            "no index: then one command starts all",
            (long long)o->process_index);
    if (o->main_process && (!port || port == o->main_process || *end || number < 1 || number > 65535))
        return err_set(err, SNUG_ERR_USAGE, "--main-process %s: is no HOST:PORT; give one such as node1:29500",
                       o->main_process);
    TRY(options_gpus(o, &g, err));
    if (g.n && g.n != o->num_processes)
        return err_set(err, SNUG_ERR_USAGE,
                       "--gpus %s: with --num-processes %lld each has one; give as many, or leave it out", o->gpus,
                       (long long)o->num_processes);
    if (option_given(o, ranks) && o->ranks != o->num_processes)
        return err_set(err, SNUG_ERR_USAGE, "--ranks %lld: with --num-processes %lld each is one; leave --ranks out",
                       (long long)o->ranks, (long long)o->num_processes);
    if (o->command == CMD_TRAIN && o->lr_find)
        return err_set(err, SNUG_ERR_USAGE, "--lr-find: is for one process; give it --gpus or --ranks instead");
    DERIVE(o, ranks, o->num_processes);
    return SNUG_OK;
}

/* A record of a run has both, as false. */
static int check_quantization(const struct options *o, struct snug_err *err)
{
    char a[2 * OPTION_NAME_MAX], b[2 * OPTION_NAME_MAX];
    if (!o->load_in_4bit || !o->load_in_8bit)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: serves the same as %s; give one of them", label(o, OPTION_load_in_8bit, a),
                   label(o, OPTION_load_in_4bit, b));
}

int options_check(struct options *o, struct snug_err *err)
{
    TRY(check_needed(o, err));
    TRY(check_effect(o, err));
    TRY(check_eithers(o, err));
    TRY(check_quantization(o, err));
    TRY(check_gpus(o, err));
    TRY(check_processes(o, err));
    TRY(check_optimizer(o, err));
    if (o->command & (CMD_TRAIN | CMD_PLAN)) {
        TRY(check_reports(o, err));
        TRY(check_recompute(o, err));
        TRY(check_offload(o, err));
        derive(o);
        TRY(check_schedule(o, err));
        TRY(check_best_model(o, err));
        TRY(check_rate_test(o, err));
    }
    return SNUG_OK;
}
