#include "train/session/session.h"

#include "base/machine.h"
#include "base/str.h"
#include "base/threads.h"
#include "ranks/ranks.h"
#include "run/coding.h"
#include "train/fit/fit.h"
#include "train/fit/table.h"
#include "train/output_dir.h"
#include "train/rate_search.h"
#include "train/session/batches.h"
#include "train/session/chat.h"
#include "train/session/class_weights.h"
#include "train/session/datasets.h"
#include "train/session/freeze.h"
#include "train/session/model_folder.h"
#include "train/session/processes/distant.h"
#include "train/session/processes/processes.h"
#include "train/session/prompts.h"
#include "train/session/settings.h"
#include "train/state.h"

#include <stdarg.h>
#include <stdio.h>

void session_note(const struct session *s, const char *format, ...)
{
    char raw[512], line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    text_escape(line, sizeof line, raw);
    if (s->events.note)
        s->events.note(s->events.ctx, line);
}

void session_note_line(void *ctx, const char *line)
{
    session_note(ctx, "%s", line);
}

struct ckpt_notes session_notes(struct session *s)
{
    return (struct ckpt_notes){.fn = session_note_line, .ctx = s};
}

/* ctx: the backend. */
static int get(void *ctx, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    const struct backend *b = ctx;
    return b->arena->download(b, to, from, bytes, err);
}

static int put(void *ctx, void *to, const void *from, int64_t bytes, struct snug_err *err)
{
    const struct backend *b = ctx;
    return b->arena->upload(b, to, from, bytes, err);
}

static int open_backend(struct session *s, struct snug_err *err)
{
    if (!s->processes) /* which have one each */
        TRY(options_gpus(s->o, &s->gpus, err));
    TRY(settings_backend(s->o, s->local, &s->compile.backend, err));
    const struct backend *b = s->compile.backend;
    if (b->note && b->note(b))
        session_note(s, "%s", b->note(b));
    if (!s->compile.backend->facts.host_memory)
        s->memory = (struct ckpt_memory){.get = get, .put = put, .ctx = (void *)s->compile.backend};
    return SNUG_OK;
}

/* Which tensors have states of 8 bits, and which not. */
static int note_8bit(struct session *s, struct snug_err *err)
{
    struct run_value *v;
    size_t n, tensors[2] = {0};
    long long elements[2] = {0};
    enum optimizer optimizer = s->compile.update.optimizer;
    enum kin state = optimizer == OPTIM_RMSPROP_8BIT ? KIN_EXP_AVG_SQ : KIN_EXP_AVG; /* which each tensor has */
    if (!s->compile.train || !optimizer_is_8bit(optimizer))
        return SNUG_OK;
    TRY(run_list(&s->run, 1u << ROLE_STATE, &v, &n, err));
    for (size_t i = 0; i < n; i++)
        if (v[i].kin == state) {
            tensors[v[i].dtype == DT_U8]++;
            elements[v[i].dtype == DT_U8] += v[i].elements;
        }
    mem_free(v);
    session_note(s, "optimizer states: 8 bits for %zu tensors (%lld elements), 32 for %zu %s (%lld elements)",
                 tensors[1], elements[1], tensors[0],
                 s->o->optim_args_embeddings_8bit ? "small ones" : "embeddings and small ones", elements[0]);
    return SNUG_OK;
}

/* How much of the model is in codes. */
static int note_codes(struct session *s, struct snug_err *err)
{
    struct run_value *w;
    size_t n, tensors = 0;
    long long coded = 0, others = 0;
    int bits = s->compile.quantization.bits;
    if (!bits)
        return SNUG_OK;
    TRY(run_list(&s->run, 1u << ROLE_WEIGHT, &w, &n, err));
    for (size_t i = 0; i < n; i++) {
        tensors += weight_is_coded(&w[i]);
        *(weight_is_coded(&w[i]) ? &coded : &others) += w[i].elements;
    }
    mem_free(w);
    if (!tensors && s->o->load_in_4bit)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: no linear layer has a multiple of %d weights, as --load-in-4bit wants; leave it out",
                       s->o->model, QUANT_BLOCK);
    session_note(s, "weights: %d bits for %zu tensors (%lld elements), more for the others (%lld elements)", bits,
                 tensors, coded, others);
    return SNUG_OK;
}

static int open_session(struct session *s, bool own_loop, struct snug_err *err)
{
    const struct options *o = s->o;
    if (o->lr_find && own_loop)
        return err_set(err, SNUG_ERR_USAGE, "--lr-find: an own loop chooses its rates itself; leave it out");
    if (o->lr_find) {
        s->settled = *o;
        rate_search_settle(&s->settled);
        o = s->o = &s->settled;
    }
    TRY(settings_check_backend(o, err));
    if (own_loop && o->ranks > 1)
        return err_set(err, SNUG_ERR_USAGE, "--ranks %lld: an own loop has one rank; leave it out",
                       (long long)o->ranks);
    s->compile.threads = o->threads ? (int)o->threads : machine_cpus();
    s->compile.ranks = settings_ranks(o);
    TRY(processes_join(s, err));
    s->compile.in_turn = s->processes != NULL;
    TRY(model_folder_open(s, err));
    /* Beside the caller's thread those of OpenMP; in training the loader's and the one that writes checkpoints. */
    TRY(threads_check(s->compile.threads - 1 + 2 * (o->command == CMD_TRAIN), err));
    if (o->command == CMD_TRAIN && !own_loop && !s->follows)
        TRY(output_dir_claim(s, err));
    TRY(s->o->command == CMD_GENERATE ? prompts_open(s, err) : datasets_open(s, err));
    TRY(chat_show_sample(s, err));
    if (!own_loop || o->predict_with_generate)
        TRY(prompts_of_data(s, err));
    TRY(class_weights_open(s, err));
    TRY(open_backend(s, err));
    TRY(settings_set(s, err));
    TRY(state_take_before(s, err));
    TRY(processes_connect(s, err));
    s->compile.separate = own_loop;
    if (s->prompts.n || prompts_are_predicted(s))
        TRY(beams_read(s, err));
    TRY(batches_size(s, err));
    TRY(session_adapter_match(s, err));
    TRY(freeze_check(s, err));
    TRY(fit_plan(s, err));
    TRY(note_8bit(s, err));
    TRY(note_codes(s, err));
    if (s->dir.n_tensors || !s->dir.weights_optional) {
        struct weight_options w = {.seed = o->seed,
                                   .random = o->init_from_config,
                                   .adapter = s->adapter.opened_dir ? &s->adapter.dir : NULL,
                                   .new_head = s->head_replaced,
                                   .strict = o->strict,
                                   .replaced = s->has_checkpoint,
                                   .trained_head =
                                       o->command & (CMD_EVAL | CMD_PREDICT | CMD_GENERATE) && !o->allow_new_head};
        TRY(weights_check(&s->dir, &s->run, &s->model, &w, err));
    }
    TRY(fit_tune(s, err));
    return s->compile.dump || s->follows ? SNUG_OK : forecast_run(s, &s->forecast, err);
}

int session_open(struct session *s, const struct io *io, const struct options *o, bool own_loop,
                 struct session_events events, const struct stop_flag *stop, struct snug_err *err)
{
    *s = (struct session){.io = io, .o = o, .events = events, .stop = stop};
    return processes_end(s, open_session(s, own_loop, err), err);
}

static int lost(const struct session *s, struct snug_err *err)
{
    if (s->compile.ranks > 1 && s->compile.zero_stage > 2)
        return err_set(
            err, SNUG_ERR_USAGE,
            "the ranks that had the weights have ended (--zero-stage 3); open a session on the output folder");
    return err_set(err, SNUG_ERR_USAGE, "the weights are lost to a load or save that failed; open another session");
}

int session_alloc(struct session *s, struct snug_err *err)
{
    if (s->run.arenas.of[MEMORY_DEVICE])
        return SNUG_OK;
    if (s->run.work)
        return lost(s, err);
    TRY(fit_room(s, err));
    TRY(run_alloc(&s->run, err));
    s->run.rank = s->processes ? &s->here : NULL; /* what is loaded is its own */
    TRY(stepper_open(&s->stepper, &s->run, &s->model, s->o->seed, err));
    s->opened_stepper = true;
    s->stepper.class_weights = s->class_weights;
    return SNUG_OK;
}

int session_load(struct session *s, struct snug_err *err)
{
    struct weight_options w = {.seed = s->o->seed,
                               .adapter = s->adapter.opened_dir ? &s->adapter.dir : NULL,
                               .base = s->adapter.wanted ? &s->base : NULL,
                               .codes = s->compile.quantization.type,
                               .random = s->o->init_from_config,
                               .bf16 = s->compile.precision.pure,
                               .new_head = s->head_replaced,
                               .strict = s->o->strict};
    if (s->loaded && s->run.arenas.of[MEMORY_DEVICE])
        return SNUG_OK;
    if (s->loading && !s->loaded)
        return lost(s, err);
    TRY(session_alloc(s, err));
    s->loading = true;
    TRY(states_start(&s->run, err));
    TRY(weights_load(&s->dir, &s->run, &s->model, &w, err));
    s->loaded = true;
    return SNUG_OK;
}

void session_close(struct session *s)
{
    output_dir_release(s);
    if (s->opened_stepper)
        stepper_close(&s->stepper);
    run_close(&s->run);
    eval_close(s->eval);
    row_stream_close(s->stream);
    if (s->has_train)
        dataset_close(&s->train);
    if (s->has_data)
        dataset_close(&s->data);
    mem_free(s->class_weights);
    mem_free(s->recompute);
    table_free(s->table);
    prompts_close(s);
    label_map_free(&s->labels);
    json_decref(s->option_changes);
    chat_close(s);
    tokenizer_close(s->tokenizer);
    session_adapter_close(s);
    if (s->opened_dir)
        model_dir_close(&s->dir);
    backend_close(s->compile.backend);
    ranks_close(s->processes);
    distant_close(s);
    *s = (struct session){0};
}
