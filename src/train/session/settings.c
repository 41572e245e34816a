#include "train/session/settings.h"

#include "cuda/sheet.h"
#include "run/weights.h"
#include "train/forecast/exchange.h"
#include "train/session/prompts.h"

#include <math.h>

static enum backend_kind backend_of(const struct options *o)
{
    return o->device_profile || o->gpus ? BACKEND_CUDA : (enum backend_kind)o->device;
}

int settings_check_backend(const struct options *o, struct snug_err *err)
{
    const struct gpu_sheet *sheet;
    if (o->gpu && o->device_profile)
        return err_set(err, SNUG_ERR_USAGE, "--gpu %s: --device-profile is of a GPU already; leave one of them out",
                       o->gpu);
    if (o->gpu)
        return gpu_sheet_find(o->gpu, &sheet, err);
    return backend_check(backend_of(o), err);
}

/* What a policy of 16 bits leaves in fp32 may be multiplied in tf32, which is finer than the rest of it. */
static bool may_round_to_tf32(const struct options *o)
{
    return o->dtype != OPT_DTYPE_FP32;
}

int settings_ranks(const struct options *o)
{
    return o->command & (CMD_TRAIN | CMD_PLAN | CMD_EVAL | CMD_PREDICT) ? (int)o->ranks : 1;
}

/* By what was measured on such a GPU, if this build can use that, or else by its data sheet. */
static int open_gpu(const struct options *o, const struct backend **out, struct snug_err *err)
{
    const struct gpu_sheet *sheet;
    struct str path = {0};
    bool tf32 = may_round_to_tf32(o);
    TRY(gpu_sheet_find(o->gpu, &sheet, err));
    int code = backend_cuda_arch(0) ? gpu_sheet_profile(&io_posix, sheet, o->cache_dir, &path, err) : SNUG_OK;
    struct cuda_settings cuda = {
        .profile = str_text(&path), .tf32 = tf32, .ranks = settings_ranks(o), .cache_dir = o->cache_dir};
    if (!code)
        code = path.n ? backend_open(BACKEND_CUDA, &cuda, out, err)
                      : gpu_sheet_open(sheet, tf32, settings_ranks(o), out, err);
    str_free(&path);
    return code;
}

/* Processes of a machine have its GPUs in turn, or those of --gpus; a launcher may have given each its own. */
static int device_of(const struct options *o, const struct gpus *g, int local)
{
    int n = o->num_processes > 1 && !o->device_profile ? backend_cuda_count() : 0;
    return n > 0 && !g->n ? local % n : g->of[g->n ? local % g->n : 0];
}

int settings_backend(const struct options *o, int local, const struct backend **out, struct snug_err *err)
{
    struct gpus gpus;
    if (o->gpu)
        return open_gpu(o, out, err);
    TRY(options_gpus(o, &gpus, err));
    return backend_open(backend_of(o),
                        &(struct cuda_settings){.device = device_of(o, &gpus, local),
                                                .profile = o->device_profile,
                                                .tf32 = may_round_to_tf32(o),
                                                .ranks = settings_ranks(o),
                                                .cache_dir = o->cache_dir},
                        out, err);
}

int settings_precision(const struct options *o, const struct backend *b, struct precision *out, struct snug_err *err)
{
#define WORD(id, text) text,
    static const char *const words[] = {WORDS_DTYPE(WORD)};
#undef WORD
    enum dtype type = options_dtype(o);
    *out = (struct precision){.wide = b->facts.float_type,
                              .narrow = b->facts.float_type,
                              .pure = o->dtype == OPT_DTYPE_PURE_BF16,
                              .fp8 = o->fp8,
                              .narrow_grads = true,
                              .narrow_sums = o->gradient_accumulation_dtype == OPT_GRADIENTS_MODEL};
    if (b->facts.float_type != DT_F32)
        return SNUG_OK;
    if (o->dtype == OPT_DTYPE_TF32 ? !b->facts.tf32 : type != DT_F32 && !(b->facts.narrow_types >> type & 1))
        return err_set(err, SNUG_ERR_USAGE, "--%s: the %s device does not know it; use --bf16, or a GPU",
                       words[o->dtype], b->name);
    if (o->fp8 && type != DT_BF16)
        return err_set(err, SNUG_ERR_USAGE,
                       "--fp8: goes with --bf16 or --pure-bf16, not with --dtype %s; give one of these",
                       words[o->dtype]);
    if (o->fp8 && !(b->facts.narrow_types >> DT_F8_E4M3 & 1))
        return err_set(err, SNUG_ERR_USAGE,
                       "--fp8: the %s device has no products of 8 bits; leave it out, or use a GPU of compute "
                       "capability 8.9 or later",
                       b->name);
    out->narrow = type;
    return SNUG_OK;
}

/* An update by layer cannot wait for the norm of all gradients: it is not clipped unless that is asked for. */
static double max_grad_norm(const struct options *o)
{
    return optimizer_by_layer((enum optimizer)o->optim) && !option_given(o, max_grad_norm) ? 0 : o->max_grad_norm;
}

struct update settings_update(const struct options *o, const struct backend *b)
{
    return (struct update){.optimizer = (enum optimizer)o->optim,
                           .beta1 = option_given(o, optim_args_beta1) ? o->optim_args_beta1 : o->adam_beta1,
                           .beta2 = option_given(o, optim_args_beta2) ? o->optim_args_beta2 : o->adam_beta2,
                           .eps = o->adam_epsilon,
                           .momentum = option_given(o, optim_args_momentum) ? o->optim_args_momentum : NAN,
                           .dampening = o->optim_args_dampening,
                           .nesterov = o->optim_args_nesterov,
                           .adafactor = {.eps1 = o->optim_args_eps1,
                                         .eps2 = o->optim_args_eps2,
                                         .clip_threshold = o->optim_args_clip_threshold,
                                         .decay_rate = o->optim_args_decay_rate,
                                         .beta1 = option_given(o, optim_args_beta1) ? o->optim_args_beta1 : -1,
                                         .scale_parameter = o->optim_args_scale_parameter,
                                         .relative_step = o->optim_args_relative_step,
                                         .warmup_init = o->optim_args_warmup_init},
                           .own_eps = option_given(o, optim_args_eps) ? o->optim_args_eps : NAN,
                           .alpha = option_given(o, optim_args_alpha) ? o->optim_args_alpha : NAN,
                           .beta3 = o->optim_args_beta3,
                           .t_alpha = (double)o->optim_args_t_alpha,
                           .t_beta3 = (double)o->optim_args_t_beta3,
                           .lr_decay = o->optim_args_lr_decay,
                           .centered = o->optim_args_centered,
                           .ns_steps = o->optim_args_ns_steps,
                           .muon_rate = (enum muon_rate)o->optim_args_adjust_lr_fn,
                           .min_8bit_size = o->optim_args_min_8bit_size,
                           .embeddings_8bit = o->optim_args_embeddings_8bit,
                           .weight_decay = o->weight_decay,
                           .max_grad_norm = max_grad_norm(o),
                           .state_type = b->facts.float_type,
                           .rounds = o->dtype == OPT_DTYPE_PURE_BF16};
}

static bool is_quantized(const void *ctx, const char *weight)
{
    const struct session *s = ctx;
    const struct model_tensor *t = weights_find(&s->dir, &s->model, weight);
    return t && model_dir_has_quantized(&s->dir, t);
}

struct quantization settings_quantization(const struct options *o)
{
    return (struct quantization){.bits = o->load_in_4bit   ? 4
                                         : o->load_in_8bit ? 8
                                                           : 0,
                                 .type = (enum quant_type)o->bnb_4bit_quant_type,
                                 .nested = o->use_bnb_nested_quant};
}

/* What the options say, or as the folder has its weights, where these are not trained. */
static struct quantization choose_quantization(struct session *s)
{
    const struct model_bits *has = &s->dir.bits;
    /* A record of a run spells out what nobody gave. */
    bool said = option_given(s->o, load_in_4bit) && s->o->source[OPTION_load_in_4bit] != FROM_CONFIG;
    if (said || s->o->load_in_4bit || s->o->load_in_8bit || has->bits != 4)
        return settings_quantization(s->o);
    if (s->compile.train && !s->adapter.wanted) {
        session_note(s, "the weights of 4 bits are numbers here, as they are trained");
        return (struct quantization){0};
    }
    return (struct quantization){.bits = 4,
                                 .type = has->fp4 ? QUANT_FP4 : QUANT_NF4,
                                 .nested = has->nested,
                                 .of = s->dir.n_tensors ? is_quantized : NULL,
                                 .ctx = s};
}

struct choices settings_choices(const struct options *o, const struct backend *b, const struct model_config *model)
{
    bool travel = o->ranks > 1 && o->zero_stage > 2; /* 16 bits are half the way */
    bool stay =
        o->weight_copies == OPT_KEEP_RESIDENT ||
        (o->weight_copies == OPT_KEEP_AUTO && (!b->facts.host_memory || travel || o->offload_param == OPT_OFFLOAD_CPU));
    int all = (int)model->layers + 2; /* with the embeddings and the head */
    bool copied = options_dtype(o) != DT_F32 && o->dtype != OPT_DTYPE_PURE_BF16 &&
                  !optimizer_averages((enum optimizer)o->optim); /* training and evaluation have different ones */
    return (struct choices){
        .accumulation = o->gradient_accumulation_steps,
        .recompute_every_n = options_recompute(o) > 0 ? options_recompute(o) : 0,
        .keep_masks = o->dropout_masks != OPT_KEEP_TRANSIENT && b->reads_mask,
        .whole_logits = !o->head_chunk, /* until fit_plan knows how many they are */
        .copies = stay && copied && b->facts.float_type == DT_F32,
        .states_on_disk = o->offload_optimizer == OPT_OFFLOAD_DISK,
        .host_layers = o->offload_optimizer == OPT_OFFLOAD_CPU ? all : 0,
        .host_weights = o->offload_param == OPT_OFFLOAD_CPU ? all : 0,
        .host_activations = options_activations(o) == OPT_OFFLOAD_CPU ? all : 0,
        .prefetch = true,
        /* where those of many layers run at the same time, until fit_plan needs the room */
        .updates_at_end = o->nan_policy != OPT_NAN_STOP ||
                          (backend_together(b, OP_adamw) && !optimizer_by_layer((enum optimizer)o->optim) &&
                           o->offload_optimizer != OPT_OFFLOAD_CPU &&
                           o->offload_optimizer != OPT_OFFLOAD_DISK)}; /* whose copies run beside the backward pass */
}

static int check_ranks(const struct session *s, struct snug_err *err)
{
    const struct compile_settings *c = &s->compile;
    if (c->ranks == 1 || !c->backend->beside || s->gpus.n || s->processes)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "--ranks %d: on the %s device each rank has a GPU; give --gpus %d", c->ranks,
                   c->backend->name, c->ranks);
}

/* What one rank has updated the others take from the memory of its device; where they pull copies, weights may lie elsewhere. */
static int check_zero(const struct session *s, struct snug_err *err)
{
    const struct compile_settings *c = &s->compile;
    if (c->ranks == 1 || !c->zero_stage || c->zero_stage > 2)
        return SNUG_OK;
    if (s->o->offload_param == OPT_OFFLOAD_CPU)
        return err_set(err, SNUG_ERR_USAGE,
                       "--zero-stage %d: --offload-param cpu has weights where other ranks do not reach them; take "
                       "--zero-stage 3, "
                       "or leave one out",
                       c->zero_stage);
    return SNUG_OK;
}

/* Whether weights are kept in 16 bits though nobody says so: nothing is trained, and each token that is written reads them all. */
static bool keeps_narrow_weights(const struct session *s)
{
    const struct options *o = s->o;
    return o->dtype == OPT_DTYPE_BF16 && s->compile.precision.narrow != s->compile.precision.wide &&
           (o->command == CMD_GENERATE || prompts_are_predicted(s)) && o->weight_copies == OPT_KEEP_AUTO;
}

int settings_set(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    struct compile_settings *c = &s->compile;
    c->model = &s->model;
    c->stop = s->stop;
    c->zero_stage = (int)o->zero_stage;
    TRY(check_ranks(s, err));
    TRY(check_zero(s, err));
    if (c->backend->facts.host_memory && c->ranks > 1 && !s->processes) /* which have one machine */
        c->threads = c->threads > c->ranks ? c->threads / c->ranks : 1;
    TRY(settings_precision(o, c->backend, &c->precision, err));
    c->head_chunk = option_given(o, head_chunk) ? o->head_chunk : HEAD_CHUNK;
    c->head_vocabulary = option_given(o, head_chunk) ? 0 : HEAD_VOCABULARY;
    c->link_seconds = exchange_seconds_of_byte(s);
    c->train = o->command == CMD_TRAIN || o->command == CMD_PLAN;
    c->longest = s->max_length + s->max_target_length; /* both: a rehearsal cuts rows where it likes (typical.h) */
    c->dropout = true;
    c->smoothing = o->label_smoothing_factor;
    c->class_weights = s->class_weights;
    c->offload_dir = o->offload_dir;
    c->io = s->io;
    c->quantization = choose_quantization(s);
    if (c->train && (o->load_in_4bit || o->load_in_8bit) && !s->adapter.wanted)
        return err_set(
            err, SNUG_ERR_USAGE,
            "--load-in-%dbit: weights of %d bits are not trained; give --use-peft, or --adapter, or leave it out",
            c->quantization.bits, c->quantization.bits);
    c->freeze = c->train ? o->freeze : NULL;
    c->dump = s->events.dump;
    c->dump_ctx = s->events.ctx;
    c->update = settings_update(o, c->backend);
    s->choices = settings_choices(o, c->backend, &s->model);
    if (keeps_narrow_weights(s)) {
        c->precision.pure = true;
        s->choices.copies = false;
    }
    if (s->choices.host_activations && c->backend->facts.host_memory)
        session_note(s, "activations stay where they are: the %s device computes in the host's memory",
                     c->backend->name);
    if (s->choices.host_weights && !s->choices.copies)
        return err_set(
            err, SNUG_ERR_USAGE,
            "--offload-param cpu: no 16-bit copies of weights stay with these options; take --bf16 or --fp16, "
            "--weight-copies resident, and no schedule_free optimizer, or leave it out");
    return SNUG_OK;
}
