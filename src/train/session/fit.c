#include "train/session/fit.h"

#include "base/machine.h"
#include "base/size.h"
#include "train/evaluate.h"
#include "train/session/batches.h"
#include "train/state.h"

#include <stdio.h>
#include <string.h>

/* What a run takes besides the arena, in the host's memory. Checkpoints are copied before they are written, so that
 * training goes on meanwhile; metrics keep something of every row. */
static int plan_besides(struct session *s, struct snug_err *err)
{
    struct ckpt_tensor *tensors;
    size_t n;
    if (s->has_data && s->o->command != CMD_PREDICT) {
        struct metrics_setup setup = evaluate_setup(s);
        s->run.plan.metrics_bytes = metrics_bytes(&setup);
    }
    if (!s->compile.train || s->compile.separate || s->o->save_strategy == OPT_SAVE_NO)
        return SNUG_OK;
    TRY(state_tensors(s, s->o->save_only_model, &tensors, &n, err));
    s->run.plan.checkpoint_bytes = ckpt_snapshot_bytes(tensors, n);
    mem_free(tensors);
    return SNUG_OK;
}

static int64_t besides(const struct plan *p)
{
    return p->checkpoint_bytes + p->metrics_bytes;
}

/* Bytes in the memory where the arena is. */
static int64_t needed(const struct session *s)
{
    const struct plan *p = &s->run.plan;
    return p->arena_bytes + (s->compile.backend->host_memory ? besides(p) : 0);
}

/* ---- what would take less ---- */

/* A run as it is asked for, or with some options changed: what a plan may choose, and what only the user may. */
struct variant {
    struct compile_settings c;
    struct choices choices;
    bool saves;
    char options[192]; /* what is changed */
    int64_t bytes;     /* what it needs */
};

/* Those first that leave the mathematics as it is. */
enum change { NO_MASKS, TRANSIENT, CHECKPOINTING, SPLIT, NO_SAVES, NARROW, STATES_8BIT, ADAFACTOR, CHANGES };

static int plan_variant(const struct session *s, struct variant *v, struct snug_err *err)
{
    struct session t = *s; /* borrows everything but the plan */
    t.compile = v->c;
    t.choices = v->choices;
    t.compile.dump = NULL;
    t.run = (struct run){.backend = v->c.backend, .threads = v->c.threads};
    int code = compile_run(&t.compile, &t.choices, &t.run.plan, &t.run.where, err);
    if (!code)
        code = plan_besides(&t, err);
    if (!v->saves)
        t.run.plan.checkpoint_bytes = 0;
    v->bytes = needed(&t);
    plan_free(&t.run.plan);
    return code;
}

/* The same step in micro-batches of half as many rows, as often as it takes to fit. */
static int split_batch(const struct session *s, int64_t limit, struct variant *v, struct snug_err *err)
{
    for (v->bytes = INT64_MAX; v->choices.micro.B % 2 == 0 && v->bytes > limit;) {
        TRY(batches_train_max(s, v->choices.micro.B / 2, &v->choices.micro, err));
        v->choices.accumulation *= 2;
        TRY(plan_variant(s, v, err));
    }
    return SNUG_OK;
}

static bool is_possible(const struct variant *v, enum change change)
{
    const struct compile_settings *c = &v->c;
    const struct choices *choices = &v->choices;
    switch (change) {
    case NO_MASKS:
        return choices->keep_masks;
    case TRANSIENT:
        return choices->copies;
    case CHECKPOINTING:
        return !choices->recompute_every_n;
    case SPLIT:
        return choices->micro.B % 2 == 0;
    case NO_SAVES:
        return v->saves && c->backend->host_memory && !c->separate;
    case NARROW:
        return c->precision.narrow == DT_F32 && c->backend->narrow_types >> DT_BF16 & 1;
    case STATES_8BIT:
        return c->update.optimizer == OPTIM_ADAMW && !c->separate;
    case ADAFACTOR:
        return (c->update.optimizer == OPTIM_ADAMW || c->update.optimizer == OPTIM_ADAMW_8BIT) && !c->separate;
    default:
        return false;
    }
}

static void add_option(struct variant *v, const char *format, long long a, long long b)
{
    static const char optim[] = " --optim ";
    char *before = strstr(v->options, optim);
    if (before && !strncmp(format, optim + 1, strlen(optim) - 1)) /* the one in place of the other: it comes last */
        *before = 0;
    size_t n = strlen(v->options);
    n += (size_t)snprintf(v->options + n, sizeof v->options - n, "%s", n ? " " : "");
    snprintf(v->options + n, sizeof v->options - n, format, a, b);
}

/* Applies a change, and plans. */
static int apply(const struct session *s, int64_t limit, enum change change, struct variant *v, struct snug_err *err)
{
    static const char *const options[CHANGES] = {[NO_MASKS] = "--dropout-masks transient",
                                                 [TRANSIENT] = "--weight-copies transient",
                                                 [CHECKPOINTING] = "--gradient-checkpointing",
                                                 [SPLIT] = "--batch-size %lld --gradient-accumulation-steps %lld",
                                                 [NO_SAVES] = "--save-strategy no",
                                                 [NARROW] = "--bf16",
                                                 [STATES_8BIT] = "--optim adamw_8bit",
                                                 [ADAFACTOR] = "--optim adafactor"};
    switch (change) {
    case NO_MASKS:
        v->choices.keep_masks = false;
        break;
    case TRANSIENT:
        v->choices.copies = false;
        break;
    case CHECKPOINTING:
        v->choices.recompute_every_n = 1;
        break;
    case SPLIT:
        TRY(split_batch(s, limit, v, err));
        break;
    case NO_SAVES:
        v->saves = false;
        break;
    case NARROW:
        v->c.precision.narrow = DT_BF16;
        v->choices.copies = v->choices.keep_masks = false; /* as auto has it where room is short */
        break;
    default:
        v->c.update.optimizer = change == STATES_8BIT ? OPTIM_ADAMW_8BIT : OPTIM_ADAFACTOR;
    }
    add_option(v, options[change], (long long)v->choices.micro.B, (long long)v->choices.accumulation);
    return change == SPLIT ? SNUG_OK : plan_variant(s, v, err);
}

static void note_variant(const struct session *s, int64_t limit, const struct variant *v)
{
    char takes[SIZE_TEXT_MAX], less[SIZE_TEXT_MAX], over[SIZE_TEXT_MAX];
    if (v->bytes >= needed(s))
        return;
    size_text(v->bytes, takes);
    size_text(needed(s) - v->bytes, less);
    if (v->bytes <= limit)
        session_note(s, "with %s: %s, %s less: it fits", v->options, takes, less);
    else
        session_note(s, "with %s: %s, %s less, still %s too many", v->options, takes, less,
                     size_text(v->bytes - limit, over));
}

/* Plans each change by itself and, where none is enough, more and more of them together; notes what each gives, and
 * names the first two that fit. */
static int advise(const struct session *s, int64_t limit, char advice[192], struct snug_err *err)
{
    const struct variant now = {.c = s->compile, .choices = s->choices, .saves = s->run.plan.checkpoint_bytes > 0};
    struct variant v, together = now;
    int fitting = 0, n = 0;
    for (enum change i = 0; i < CHANGES; i++) {
        v = now;
        if (!is_possible(&v, i))
            continue;
        TRY(apply(s, limit, i, &v, err));
        note_variant(s, limit, &v);
        if (v.bytes <= limit && fitting++ < 2)
            n += snprintf(advice + n, 192 - (size_t)n, "%s with %s", fitting > 1 ? ", or" : "it fits", v.options);
    }
    if (fitting)
        return SNUG_OK;
    together.bytes = INT64_MAX;
    for (enum change i = 0; i < CHANGES && together.bytes > limit; i++)
        if (is_possible(&together, i))
            TRY(apply(s, limit, i, &together, err));
    note_variant(s, limit, &together);
    snprintf(advice, 192,
             together.bytes > limit          ? "no choice of options is enough: take a smaller model"
             : strlen(together.options) > 96 ? "it fits with all that the last note names"
                                             : "it fits with %s",
             together.options);
    return SNUG_OK;
}

/* `where`: what has not so many bytes. */
static int refuse(const struct session *s, int64_t limit, const char *where, struct snug_err *err)
{
    char advice[192] = "use a smaller --per-device-eval-batch-size or --max-length";
    char needs[SIZE_TEXT_MAX], more[SIZE_TEXT_MAX];
    if (s->compile.train)
        TRY(advise(s, limit, advice, err));
    else if (s->run.plan.persistent_bytes > limit)
        snprintf(advice, sizeof advice, "weights and inputs alone need %s: take a smaller model",
                 size_text(s->run.plan.persistent_bytes, needs));
    return err_set(err, SNUG_ERR_ENV, "the plan needs %s%s, %s more than %s; %s", size_text(needed(s), needs),
                   s->compile.backend->host_memory && s->run.plan.checkpoint_bytes ? " with a checkpoint's copy" : "",
                   size_text(needed(s) - limit, more), where, advice);
}

/* ---- what there is ---- */

/* What this process may have where the arena is. */
static int64_t available(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    return b->host_memory ? machine_memory_available() : b->available(b);
}

static int plan_anew(struct session *s, struct snug_err *err)
{
    run_close(&s->run);
    TRY(run_open(&s->run, &s->compile, &s->choices, err));
    return plan_besides(s, err);
}

/* What takes room to save time: given up where there is no room, if it may be. */
static int choose(struct session *s, bool may, bool *kept, const char *without, struct snug_err *err)
{
    if (!may || !*kept)
        return SNUG_OK;
    char size[SIZE_TEXT_MAX];
    int64_t with = needed(s), over = with - (s->o->memory_budget ? s->o->memory_budget : available(s));
    if (over <= 0)
        return SNUG_OK;
    *kept = false;
    TRY(plan_anew(s, err));
    if (needed(s) < with)
        session_note(s, "%s: kept, they take %s more than there is in %s", without, size_text(over, size),
                     s->o->memory_budget ? "--memory-budget" : "the device's free memory");
    return SNUG_OK;
}

static int check_budget(struct session *s, struct snug_err *err)
{
    if (s->o->memory_budget && needed(s) > s->o->memory_budget)
        return refuse(s, s->o->memory_budget, "--memory-budget", err);
    return SNUG_OK;
}

int fit_plan(struct session *s, struct snug_err *err)
{
    TRY(run_open(&s->run, &s->compile, &s->choices, err));
    TRY(plan_besides(s, err));
    TRY(choose(s, s->o->dropout_masks == OPT_COPIES_AUTO, &s->choices.keep_masks,
               "dropout masks of attention are made again", err));
    TRY(choose(s, s->o->nan_policy == OPT_NAN_STOP && s->o->max_grad_norm == 0, &s->choices.updates_at_end,
               "the gradients of a layer are gone when its backward pass is over", err));
    TRY(choose(s, s->o->weight_copies == OPT_COPIES_AUTO, &s->choices.copies,
               "16-bit copies of weights are made at each use", err));
    return check_budget(s, err);
}

int fit_room(struct session *s, struct snug_err *err)
{
    int64_t there = available(s), host = machine_memory_available(), more = besides(&s->run.plan);
    char where[64], size[SIZE_TEXT_MAX], free_size[SIZE_TEXT_MAX];
    snprintf(where, sizeof where, "the %s that are free%s", size_text(there, size),
             s->compile.backend->host_memory ? "" : " for it on the device");
    if (needed(s) > there)
        return refuse(s, there, where, err);
    if (!s->compile.backend->host_memory && more > host)
        return err_set(err, SNUG_ERR_ENV,
                       "%s %s of the host's memory, and %s are free; free some, or use --save-strategy no",
                       s->run.plan.metrics_bytes ? "a checkpoint's copy and metrics need" : "a checkpoint's copy needs",
                       size_text(more, size), size_text(host, free_size));
    return SNUG_OK;
}

static void say_what_is_measured(void *session)
{
    session_note(session, "the fastest algorithms for matrix products of these sizes are not known on this device: "
                          "measuring them, once");
}

/* What a plan tells that a run would be refused for, or would measure. */
static void note_plan(const struct session *s)
{
    const struct backend *b = s->compile.backend;
    char more[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];
    int64_t there = available(s), over = needed(s) - there;
    int n = b->unmeasured ? b->unmeasured(b) : 0;
    if (over > 0)
        session_note(s, "the plan needs %s more than the %s that are free%s", size_text(over, more),
                     size_text(there, size), b->host_memory ? "" : " for it on the device");
    if (n)
        session_note(s,
                     "%d matrix products were never measured on that device: with them the plan is an upper bound, "
                     "where workspaces are at its peak",
                     n);
}

int fit_tune(struct session *s, struct snug_err *err)
{
    if (s->o->command == CMD_PLAN && (needed(s) > available(s) || !s->compile.backend->tune)) {
        note_plan(s);
        return SNUG_OK;
    }
    if (needed(s) > available(s))
        return s->compile.separate ? SNUG_OK : fit_room(s, err);
    TRY(run_tune(&s->run, &s->compile, &s->choices, say_what_is_measured, s, err));
    TRY(plan_besides(s, err));
    return check_budget(s, err);
}
