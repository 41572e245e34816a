#include "train/fit/advice.h"

#include "base/size.h"
#include "train/fit/needs.h"
#include "train/session/batches.h"
#include "train/session/settings.h"

#include <stdio.h>
#include <string.h>

/* A run as it is asked for, or with some options changed. Nothing else of it moves. */
struct variant {
    struct choices choices; /* what a plan may choose */
    /* What only the user may: */
    enum dtype narrow;
    enum optimizer optimizer;
    int64_t head_chunk;
    int zero_stage;
    bool saves;
    char options[192]; /* what is changed */
    int64_t bytes;     /* what it needs */
};

/* Those first that leave the mathematics as it is. */
enum change {
    CHUNKS,
    NO_MASKS,
    TRANSIENT,
    CHECKPOINTING,
    ZERO_3,
    SPLIT,
    NO_SAVES,
    ON_DISK,
    NARROW,
    STATES_8BIT,
    ADAFACTOR,
    CHANGES
};

static int plan_variant(const struct session *s, struct variant *v, struct snug_err *err)
{
    struct compile_settings c = s->compile;
    struct run r = {.backend = c.backend, .threads = c.threads};
    c.precision.narrow = v->narrow;
    c.update.optimizer = v->optimizer;
    c.head_chunk = v->head_chunk;
    c.zero_stage = v->zero_stage;
    c.dump = NULL;
    c.trial = true;
    int code = compile_run(&c, &v->choices, &r.plan, &r.where, err);
    if (!code)
        code = needs_besides(s, &r, err);
    if (!v->saves)
        r.plan.checkpoint_bytes = 0;
    v->bytes = needs_bytes(c.backend, &r.plan);
    plan_free(&r.plan);
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

/* c: what was asked for. */
static bool is_possible(const struct compile_settings *c, const struct variant *v, enum change change)
{
    const struct choices *choices = &v->choices;
    switch (change) {
    case CHUNKS:
        return choices->whole_logits;
    case NO_MASKS:
        return choices->keep_masks;
    case TRANSIENT:
        return choices->copies && !choices->host_weights;
    case CHECKPOINTING:
        return !choices->recompute_every_n;
    case ZERO_3:
        return c->ranks > 1 && v->zero_stage < 3;
    case SPLIT:
        return choices->micro.B % 2 == 0;
    case NO_SAVES:
        return v->saves && c->backend->facts.host_memory && !c->separate;
    case ON_DISK:
        return !choices->states_on_disk && !choices->host_layers && !c->separate;
    case NARROW:
        return v->narrow == DT_F32 && c->backend->facts.narrow_types >> DT_BF16 & 1;
    case STATES_8BIT:
        return v->optimizer == OPTIM_ADAMW && !c->separate;
    case ADAFACTOR:
        return (v->optimizer == OPTIM_ADAMW || v->optimizer == OPTIM_ADAMW_8BIT) && !c->separate;
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
    static const char *const options[CHANGES] = {[CHUNKS] = "--head-chunk %lld",
                                                 [NO_MASKS] = "--dropout-masks transient",
                                                 [TRANSIENT] = "--weight-copies transient",
                                                 [CHECKPOINTING] = "--gradient-checkpointing",
                                                 [ZERO_3] = "--zero-stage 3",
                                                 [SPLIT] = "--batch-size %lld --gradient-accumulation-steps %lld",
                                                 [NO_SAVES] = "--save-strategy no",
                                                 [ON_DISK] = "--offload-optimizer disk --offload-dir DIR",
                                                 [NARROW] = "--bf16",
                                                 [STATES_8BIT] = "--optim adamw_8bit",
                                                 [ADAFACTOR] = "--optim adafactor"};
    switch (change) {
    case CHUNKS:
        v->choices.whole_logits = false;
        v->head_chunk = HEAD_CHUNK;
        break;
    case NO_MASKS:
        v->choices.keep_masks = false;
        break;
    case TRANSIENT:
        v->choices.copies = false;
        break;
    case CHECKPOINTING:
        v->choices.recompute_every_n = 1;
        break;
    case ZERO_3:
        v->zero_stage = 3;
        break;
    case SPLIT:
        TRY(split_batch(s, limit, v, err));
        break;
    case NO_SAVES:
        v->saves = false;
        break;
    case ON_DISK:
        v->choices.states_on_disk = true;
        break;
    case NARROW:
        v->narrow = DT_BF16;
        v->choices.copies = v->choices.keep_masks = false; /* as auto has it where room is short */
        break;
    default:
        v->optimizer = change == STATES_8BIT ? OPTIM_ADAMW_8BIT : OPTIM_ADAFACTOR;
    }
    int64_t number = change == CHUNKS ? v->head_chunk : v->choices.micro.B;
    add_option(v, options[change], (long long)number, (long long)v->choices.accumulation);
    return change == SPLIT ? SNUG_OK : plan_variant(s, v, err);
}

static void note_variant(const struct session *s, int64_t limit, const struct variant *v)
{
    int64_t now = needs_bytes(s->compile.backend, &s->run.plan);
    char takes[SIZE_TEXT_MAX], less[SIZE_TEXT_MAX], over[SIZE_TEXT_MAX];
    if (v->bytes >= now)
        return;
    size_text(v->bytes, takes);
    size_text(now - v->bytes, less);
    if (v->bytes <= limit)
        session_note(s, "with %s: %s, %s less: it fits", v->options, takes, less);
    else
        session_note(s, "with %s: %s, %s less, still %s too many", v->options, takes, less,
                     size_text(v->bytes - limit, over));
}

int advise(const struct session *s, int64_t limit, char advice[ADVICE_MAX], struct snug_err *err)
{
    const struct compile_settings *c = &s->compile;
    const struct variant now = {.choices = s->choices,
                                .narrow = c->precision.narrow,
                                .optimizer = c->update.optimizer,
                                .head_chunk = c->head_chunk,
                                .zero_stage = c->zero_stage,
                                .saves = s->run.plan.checkpoint_bytes > 0};
    struct variant v, together = now;
    int fitting = 0, n = 0;
    for (enum change i = 0; i < CHANGES; i++) {
        v = now;
        if (!is_possible(c, &v, i))
            continue;
        TRY(apply(s, limit, i, &v, err));
        note_variant(s, limit, &v);
        if (v.bytes <= limit && fitting++ < 2)
            n +=
                snprintf(advice + n, ADVICE_MAX - (size_t)n, "%s with %s", fitting > 1 ? ", or" : "it fits", v.options);
    }
    if (fitting)
        return SNUG_OK;
    together.bytes = INT64_MAX;
    for (enum change i = 0; i < CHANGES && together.bytes > limit; i++)
        if (is_possible(c, &together, i))
            TRY(apply(s, limit, i, &together, err));
    note_variant(s, limit, &together);
    snprintf(advice, ADVICE_MAX,
             together.bytes > limit          ? "no choice of options is enough: take a smaller model"
             : strlen(together.options) > 96 ? "it fits with all that the last note names"
                                             : "it fits with %s",
             together.options);
    return SNUG_OK;
}
