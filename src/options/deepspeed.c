/* --deepspeed: what a configuration of DeepSpeed, as the Trainer takes it, says of this run. A value "auto" is left to the other options.
 * Any other stands for the option of the same meaning, which must say the same where it is given too. */
#include "options/deepspeed.h"
#include "base/str.h"
#include "format/json.h"
#include "options/gpus.h"
#include "options/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 20 };

const struct deepspeed_key deepspeed_keys[] = {
    {"", DEEPSPEED_OBJECT, 0,
     "activation_checkpointing aio autotuning checkpoint comms_logger communication_data_type csv_monitor "
     "dataloader_drop_last dump_state "
     "flops_profiler gradient_predivide_factor memory_breakdown prescale_gradients sparse_gradients steps_per_print "
     "tensorboard wandb "
     "wall_clock_breakdown zero_allow_untested_optimizer zero_force_ds_cpu_optimizer",
     NULL},
    {"train_micro_batch_size_per_gpu", DEEPSPEED_SETS, OPTION_per_device_train_batch_size, NULL, NULL},
    {"gradient_accumulation_steps", DEEPSPEED_SETS, OPTION_gradient_accumulation_steps, NULL, NULL},
    {"train_batch_size", DEEPSPEED_BATCH, 0, NULL, NULL},
    {"gradient_clipping", DEEPSPEED_SETS, OPTION_max_grad_norm, NULL, NULL},
    {"fp16", DEEPSPEED_OBJECT, 0,
     "auto_cast consecutive_hysteresis hysteresis initial_scale_power loss_scale_window min_loss_scale", NULL},
    {"fp16.enabled", DEEPSPEED_FLAG, OPTION_dtype, "fp16", NULL},
    {"fp16.loss_scale", DEEPSPEED_ONLY, 0, "0", "the scale follows the gradients; give 0"},
    {"bf16", DEEPSPEED_OBJECT, 0, "auto_cast immediate_grad_update", NULL},
    {"bf16.enabled", DEEPSPEED_FLAG, OPTION_dtype, "bf16", NULL},
    {"data_types", DEEPSPEED_OBJECT, 0, NULL, NULL},
    {"data_types.grad_accum_dtype", DEEPSPEED_ONLY, 0, "\"fp32\"",
     "give fp32 here, and --gradient-accumulation-dtype model for 16 bits"},
    {"zero_optimization", DEEPSPEED_OBJECT, 0,
     "allgather_bucket_size allgather_partitions contiguous_gradients elastic_checkpoint grad_hooks "
     "ignore_unused_parameters "
     "load_from_fp32_weights memory_efficient_linear overlap_comm param_persistence_threshold prefetch_bucket_size "
     "reduce_bucket_size "
     "reduce_scatter round_robin_gradients stage3_gather_16bit_weights_on_model_save "
     "stage3_gather_fp16_weights_on_model_save "
     "stage3_max_live_parameters stage3_max_reuse_distance stage3_module_granularity_threshold "
     "stage3_param_persistence_threshold "
     "stage3_prefetch_bucket_size sub_group_size use_multi_rank_bucket_allreduce",
     NULL},
    {"zero_optimization.stage", DEEPSPEED_SETS, OPTION_zero_stage, "0 1 2 3", "stages are 0 to 3; give one of them"},
    {"zero_optimization.cpu_offload", DEEPSPEED_FLAG, OPTION_offload_optimizer, "cpu", NULL},
    {"zero_optimization.cpu_offload_params", DEEPSPEED_FLAG, OPTION_offload_param, "cpu", NULL},
    {"zero_optimization.offload_optimizer", DEEPSPEED_OBJECT, 0,
     "buffer_count fast_init pin_memory pipeline_read pipeline_write ratio super_offload", NULL},
    {"zero_optimization.offload_optimizer.device", DEEPSPEED_SETS, OPTION_offload_optimizer, "none cpu nvme=disk",
     "states lie on the device, in the host's memory or on disk; give none, cpu or nvme"},
    {"zero_optimization.offload_optimizer.nvme_path", DEEPSPEED_PATH, OPTION_offload_dir, NULL, NULL},
    {"zero_optimization.offload_param", DEEPSPEED_OBJECT, 0, "buffer_count buffer_size max_in_cpu nvme_path pin_memory",
     NULL},
    {"zero_optimization.offload_param.device", DEEPSPEED_SETS, OPTION_offload_param, "none cpu",
     "weights lie on the device or in the host's memory; give none or cpu"},
    {"optimizer", DEEPSPEED_OBJECT, 0, NULL, NULL},
    {"optimizer.type", DEEPSPEED_SETS, OPTION_optim,
     "AdamW=adamw_torch adamw=adamw_torch Adam=adamw_torch adam=adamw_torch Lion=lion_32bit Adagrad=adagrad "
     "RMSprop=rmsprop SGD=sgd",
     "known are AdamW, Adam, Lion, Adagrad, RMSprop and SGD; leave it out and give --optim"},
    {"optimizer.params", DEEPSPEED_OBJECT, 0, "torch_adam", NULL},
    {"optimizer.params.lr", DEEPSPEED_SETS, OPTION_learning_rate, NULL, NULL},
    {"optimizer.params.betas", DEEPSPEED_BETAS, 0, NULL, NULL},
    {"optimizer.params.eps", DEEPSPEED_SETS, OPTION_adam_epsilon, NULL, NULL},
    {"optimizer.params.weight_decay", DEEPSPEED_SETS, OPTION_weight_decay, NULL, NULL},
    {"optimizer.params.adam_w_mode", DEEPSPEED_ONLY, 0, "true", "decay is decoupled from the gradient; leave it out"},
    {"optimizer.params.bias_correction", DEEPSPEED_ONLY, 0, "true", "moments are always corrected; leave it out"},
    {"scheduler", DEEPSPEED_OBJECT, 0, NULL, NULL},
    {"scheduler.type", DEEPSPEED_SETS, OPTION_lr_scheduler_type, "WarmupLR=constant_with_warmup WarmupDecayLR=linear",
     "known are WarmupLR and WarmupDecayLR; leave it out and give --lr-scheduler-type"},
    {"scheduler.params", DEEPSPEED_OBJECT, 0, NULL, NULL},
    {"scheduler.params.warmup_num_steps", DEEPSPEED_SETS, OPTION_warmup_steps, NULL, NULL},
    {"scheduler.params.warmup_max_lr", DEEPSPEED_SETS, OPTION_learning_rate, NULL, NULL},
    {"scheduler.params.warmup_min_lr", DEEPSPEED_ONLY, 0, "0", "a warm-up begins at 0; give 0"},
    {"scheduler.params.warmup_type", DEEPSPEED_ONLY, 0, "\"linear\"", "a warm-up is linear; give linear"},
    {"scheduler.params.total_num_steps", DEEPSPEED_SETS, OPTION_max_steps, NULL, NULL},
};
const size_t n_deepspeed_keys = sizeof deepspeed_keys / sizeof *deepspeed_keys;

struct file {
    struct options *o;
    const char *path;
    struct str idle; /* what has no effect, with commas */
};

static const struct deepspeed_key *find_key(const char *path)
{
    for (size_t i = 0; i < n_deepspeed_keys; i++)
        if (!strcmp(deepspeed_keys[i].path, path))
            return &deepspeed_keys[i];
    return NULL;
}

/* Whether `word` is one of "a b c". */
static bool among(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *w = words; w && *w; w += strcspn(w, " "), w += strspn(w, " "))
        if (strcspn(w, " ") == n && !strncmp(w, word, n))
            return true;
    return false;
}

static bool is_auto(const json_t *v)
{
    return json_is_string(v) && !strcmp(json_string_value(v), "auto");
}

/* As it would be typed. */
static int text_of(struct options *o, const json_t *v, const char **out, struct snug_err *err)
{
    struct str text = {0};
    if (json_is_string(v))
        str_append(&text, json_string_value(v));
    else
        options_json_value(v, &text);
    *out = text.failed ? NULL : arena_strdup(&o->arena, str_text(&text));
    str_free(&text);
    return *out ? SNUG_OK : err_no_memory(err, 64);
}

/* ---- Giving an option what the file says. ---- */

static bool is_given(const struct options *o, int option)
{
    return o->source[option] >= FROM_DEEPSPEED;
}

/* Whether the option has that value already. */
static int compare(struct options *o, int option, const char *from, const char *text, bool *same, struct snug_err *err)
{
    static const size_t sizes[] = {
        [OPTION_INT] = sizeof(int64_t), [OPTION_REAL] = sizeof(double), [OPTION_WORD] = sizeof(int)};
    struct options asked;
    const struct option_row *row = &option_rows[option];
    options_init(&asked, o->command);
    int code = option_read_value(&asked, option, from, text, err);
    const void *a = option_member(&asked, option), *b = option_member(o, option);
    const struct opt_steps *x = a, *y = b;
    if (!code)
        *same = row->type == OPTION_STEPS ? x->steps == y->steps && x->ratio == y->ratio
                : row->type == OPTION_STR ? !strcmp(*(const char *const *)a, *(const char *const *)b)
                                          : !memcmp(a, b, sizes[row->type]);
    options_free(&asked);
    return code;
}

static int disagree(const struct file *f, const char *from, const char *text, int option, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_USAGE, "%s: is %s, but %s says otherwise; give one of them, or \"auto\" in the file",
                   from, text, f->o->from[option]);
}

static char *place_of(const struct file *f, const char *path, struct snug_err *err)
{
    char *from = arena_printf(&f->o->arena, "%s: %s", f->path, path);
    if (!from)
        err_no_memory(err, strlen(path));
    return from;
}

static int set(struct file *f, const char *path, int option, const char *text, struct snug_err *err)
{
    bool same;
    char *from = place_of(f, path, err);
    if (!from)
        return err->code;
    if (!is_given(f->o, option))
        return option_assign(f->o, &(struct option_meaning){.kind = MEANS_OPTION, .option = option}, FROM_DEEPSPEED,
                             from, text, err);
    TRY(compare(f->o, option, from, text, &same, err));
    return same ? SNUG_OK : disagree(f, from, text, option, err);
}

/* What a word of DeepSpeed's is here. */
static int translate(struct file *f, const struct deepspeed_key *key, const char **text, struct snug_err *err)
{
    size_t n = strlen(*text);
    for (const char *w = key->words; w && *w; w += strcspn(w, " "), w += strspn(w, " ")) {
        if (strcspn(w, " =") != n || strncmp(w, *text, n))
            continue;
        if (w[n] == '=' && !(*text = arena_strndup(&f->o->arena, w + n + 1, strcspn(w + n + 1, " "))))
            return err_no_memory(err, n);
        return SNUG_OK;
    }
    return key->words ? err_set(err, SNUG_ERR_USAGE, "%s: %s: is %s; %s", f->path, key->path, *text, key->why)
                      : SNUG_OK;
}

/* ---- Members by what is done with them. ---- */

static int take_value(struct file *f, const struct deepspeed_key *key, const json_t *v, struct snug_err *err)
{
    const char *text;
    TRY(text_of(f->o, v, &text, err));
    TRY(translate(f, key, &text, err));
    return set(f, key->path, key->option, text, err);
}

static int take_flag(struct file *f, const struct deepspeed_key *key, const json_t *v, struct snug_err *err)
{
    bool same = false;
    if (!json_is_boolean(v))
        return err_set(err, SNUG_ERR_USAGE, "%s: %s: is neither true nor false; give one of them, or \"auto\"", f->path,
                       key->path);
    if (json_is_true(v))
        return set(f, key->path, key->option, key->words, err);
    char *from = place_of(f, key->path, err);
    if (!from)
        return err->code;
    if (is_given(f->o, key->option))
        TRY(compare(f->o, key->option, from, key->words, &same, err));
    return same ? disagree(f, from, "false", key->option, err) : SNUG_OK;
}

static int take_betas(struct file *f, const char *path, const json_t *v, struct snug_err *err)
{
    static const int options[] = {OPTION_adam_beta1, OPTION_adam_beta2};
    if (json_array_size(v) != 2)
        return err_set(err, SNUG_ERR_USAGE, "%s: %s: is no pair of numbers; give two such as [0.9, 0.999]", f->path,
                       path);
    for (size_t i = 0; i < 2; i++) {
        const char *text;
        TRY(text_of(f->o, json_array_get(v, i), &text, err));
        TRY(set(f, path, options[i], text, err));
    }
    return SNUG_OK;
}

static int take_only(const struct file *f, const struct deepspeed_key *key, const json_t *v, struct snug_err *err)
{
    const char *text;
    json_t *only = json_loads(key->words, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(v) && json_is_number(only) ? json_number_value(v) == json_number_value(only)
                                                          : json_equal(v, only);
    json_decref(only);
    if (same)
        return SNUG_OK;
    TRY(text_of(f->o, v, &text, err));
    return err_set(err, SNUG_ERR_USAGE, "%s: %s: is %s; %s", f->path, key->path, text, key->why);
}

static int take_object(struct file *f, const struct deepspeed_key *in, const json_t *object, struct snug_err *err);

static int take(struct file *f, const struct deepspeed_key *key, const json_t *v, struct snug_err *err)
{
    switch (key->what) {
    case DEEPSPEED_OBJECT:
        return take_object(f, key, v, err);
    case DEEPSPEED_SETS:
    case DEEPSPEED_PATH:
        return take_value(f, key, v, err);
    case DEEPSPEED_FLAG:
        return take_flag(f, key, v, err);
    case DEEPSPEED_BETAS:
        return take_betas(f, key->path, v, err);
    case DEEPSPEED_ONLY:
        return take_only(f, key, v, err);
    case DEEPSPEED_BATCH: /* when all else is read */
        break;
    }
    return SNUG_OK;
}

static int note_idle(struct file *f, struct snug_err *err)
{
    int code = f->idle.failed ? err_no_memory(err, f->idle.n)
               : f->idle.n    ? option_note(f->o, err, "%s: no effect here: %s", f->path, str_text(&f->idle))
                              : SNUG_OK;
    str_free(&f->idle);
    return code;
}

/* A note has room for one line. */
static int take_idle(struct file *f, const char *name, struct snug_err *err)
{
    enum { LINE = 140 };
    if (f->idle.n + strlen(name) > LINE)
        TRY(note_idle(f, err));
    str_printf(&f->idle, "%s%s", f->idle.n ? ", " : "", name);
    return SNUG_OK;
}

static bool has_effect(const struct deepspeed_key *key, const json_t *object)
{
    const char *device = json_string_value(json_object_get(object, "device"));
    return key && (key->what != DEEPSPEED_PATH || (device && !strcmp(device, "nvme")));
}

static int take_object(struct file *f, const struct deepspeed_key *in, const json_t *object, struct snug_err *err)
{
    const char *name;
    json_t *v;
    if (!json_is_object(object))
        return err_set(err, SNUG_ERR_USAGE, "%s: %s: is no object; give one such as {\"NAME\": \"auto\"}", f->path,
                       in->path);
    json_object_foreach((json_t *)(uintptr_t)object, name, v)
    {
        char path[256];
        snprintf(path, sizeof path, "%s%s%s", in->path, *in->path ? "." : "", name);
        const struct deepspeed_key *key = find_key(path);
        if (!key && !among(in->words, name))
            return err_set(err, SNUG_ERR_USAGE, "%s: %s: is not known here; leave it out", f->path, path);
        if (is_auto(v) || json_is_null(v) || (!key && json_is_false(v)))
            continue;
        TRY(has_effect(key, object) ? take(f, key, v, err) : take_idle(f, name, err));
    }
    return SNUG_OK;
}

/* ---- The file. ---- */

static int check_batch(const struct file *f, json_t *file, struct snug_err *err)
{
    const struct options *o = f->o;
    const json_t *v = json_object_get(file, "train_batch_size");
    struct gpus gpus;
    char text[64];
    TRY(options_gpus(o, &gpus, err));
    long long ranks = o->gpus                ? gpus.n
                      : o->num_processes > 1 ? o->num_processes
                                             : o->ranks,
              rows = o->per_device_train_batch_size, times = o->gradient_accumulation_steps;
    if (!v || is_auto(v) || (json_is_integer(v) && json_integer_value(v) == rows * times * ranks))
        return SNUG_OK;
    return err_set(
        err, SNUG_ERR_USAGE,
        "%s: train_batch_size: is %s, but %lld rows x %lld micro-batches x %lld ranks are %lld; give that, or \"auto\"",
        f->path, json_value_text((json_t *)(uintptr_t)v, text), rows, times, ranks, rows * times * ranks);
}

/* total_num_steps is how long a run is, as epochs would say too. */
static int check_steps(const struct file *f, struct snug_err *err)
{
    const struct options *o = f->o;
    char steps[32];
    snprintf(steps, sizeof steps, "%lld", (long long)o->max_steps);
    return o->source[OPTION_max_steps] == FROM_DEEPSPEED && is_given(o, OPTION_num_train_epochs)
               ? disagree(f, o->from[OPTION_max_steps], steps, OPTION_num_train_epochs, err)
               : SNUG_OK;
}

/* DeepSpeed's schedules warm up by the logarithm of steps, unless they are told otherwise. */
static int note_warmup(const struct file *f, const json_t *file, struct snug_err *err)
{
    const json_t *scheduler = json_object_get(file, "scheduler"), *params = json_object_get(scheduler, "params");
    if (!json_object_get(scheduler, "type") || json_object_get(params, "warmup_type") ||
        (!f->o->warmup_steps.steps && !(f->o->warmup_steps.ratio > 0)))
        return SNUG_OK;
    return option_note(
        f->o, err,
        "%s: scheduler: the warm-up is linear here, as that of --lr-scheduler-type; DeepSpeed's is logarithmic",
        f->path);
}

int options_read_deepspeed(struct options *o, const struct io *io, struct snug_err *err)
{
    bool itself = o->deepspeed && *o->deepspeed == '{'; /* as the Trainer tells it from a file's name */
    struct file f = {.o = o, .path = itself ? o->from[OPTION_deepspeed] : o->deepspeed};
    json_t *file = NULL;
    if (!o->deepspeed || o->deepspeed_read)
        return SNUG_OK;
    int code = itself ? json_parse(o->deepspeed, strlen(o->deepspeed), f.path, &file, err)
                      : json_read_object(io, f.path, CONFIG_LIMIT, &file, err);
    if (!code)
        code = take_object(&f, &deepspeed_keys[0], file, err);
    if (!code)
        code = check_batch(&f, file, err);
    if (!code)
        code = check_steps(&f, err);
    if (!code)
        code = note_warmup(&f, file, err);
    if (!code)
        code = note_idle(&f, err);
    o->deepspeed_read = !code;
    str_free(&f.idle);
    json_decref(file);
    return code;
}
