#include "train/fit/offers.h"

#include "plan/anatomy.h"
#include "train/fit/needs.h"
#include "train/fit/offload.h"
#include "train/fit/ways.h"
#include "train/session/adapter.h"
#include "train/session/settings.h"

#include <stdio.h>
#include <string.h>

/* Bits: an offer is one of them, or several together. */
enum change {
    NO_SAVES = 1,
    BF16 = 2,
    PURE_BF16 = 4,
    STATES_8BIT = 8,
    ADAFACTOR = 16,
    NO_CLIPPING = 32,
    LORA = 64,
    ZERO_3 = 128,
    IN_4_BITS = 256, /* the base of an adapter */
};
enum { CHANGES = 9 };

static const char *const change_options[CHANGES] = {
    "--save-strategy no", "--bf16",     "--pure-bf16",    "--optim adamw_8bit", "--optim adafactor",
    "--max-grad-norm 0",  "--use-peft", "--zero-stage 3", "--load-in-4bit"};

/* So few bytes of states, as adapters have, that those of another optimizer make no difference. */
static bool has_few_states(const struct session *s)
{
    const struct plan *p = &s->run.plan;
    struct anatomy a;
    plan_anatomy(p, p->largest, 1, &a, NULL, 0);
    return 100 * (a.by_component[COMPONENT_STATES] + p->host_bytes) < p->arena_bytes;
}

static bool is_possible(const struct session *s, enum change change)
{
    const struct compile_settings *c = &s->compile;
    enum optimizer optimizer = c->update.optimizer;
    bool has_bf16 = c->backend->facts.narrow_types >> DT_BF16 & 1;
    switch (change) {
    case NO_SAVES:
        return s->o->save_strategy != OPT_SAVE_NO &&
               (c->backend->facts.host_memory || offload_room(s, &s->run.plan) < INT64_MAX);
    case BF16:
        return has_bf16 && c->precision.narrow == DT_F32;
    case PURE_BF16:
        return has_bf16 && !c->precision.pure && c->precision.narrow != DT_F16;
    case STATES_8BIT:
        return optimizer == OPTIM_ADAMW && !has_few_states(s);
    case ADAFACTOR:
        return (optimizer == OPTIM_ADAMW || optimizer == OPTIM_ADAMW_8BIT) && !has_few_states(s);
    case NO_CLIPPING:
        return c->update.max_grad_norm > 0 && s->o->nan_policy == OPT_NAN_STOP;
    case ZERO_3:
        return c->ranks > 1 && c->zero_stage < 3;
    case IN_4_BITS:
        return s->adapter.wanted && !c->quantization.bits;
    default:
        return !s->adapter.wanted && !s->o->freeze;
    }
}

static void set_options(struct options *o, unsigned changes)
{
    if (changes & NO_SAVES)
        o->save_strategy = OPT_SAVE_NO;
    if (changes & (BF16 | PURE_BF16))
        o->dtype = changes & BF16 ? OPT_DTYPE_BF16 : OPT_DTYPE_PURE_BF16;
    if (changes & STATES_8BIT)
        o->optim = (int)OPTIM_ADAMW_8BIT;
    if (changes & ADAFACTOR)
        o->optim = (int)OPTIM_ADAFACTOR;
    if (changes & NO_CLIPPING)
        o->max_grad_norm = 0;
    if (changes & ZERO_3)
        o->zero_stage = 3;
    if (changes & IN_4_BITS)
        o->load_in_4bit = true;
}

/* Settings and choices of a session with such options. What an adapter adds is freed by session_adapter_close. */
static int change_session(struct session *s, const struct choices *asked, unsigned changes, struct snug_err *err)
{
    s->adapter.wanted |= (changes & LORA) != 0;
    TRY(settings_set(s, err));
    s->choices.micro = asked->micro;
    s->choices.usual = asked->usual;
    s->choices.accumulation = asked->accumulation;
    s->choices.whole_logits &= asked->whole_logits;
    if (!(changes & LORA))
        return SNUG_OK;
    s->dir.n_tensors = 0; /* what the folder lacks is a note to those who train the adapter */
    return session_adapter_match(s, err);
}

/* Bytes that count besides the arena, and room for what is offloaded. */
static int besides(const struct session *s, int64_t *bytes, int64_t *room, struct snug_err *err)
{
    struct run r = {.backend = s->compile.backend, .threads = s->compile.threads};
    struct compile_settings c = s->compile;
    c.trial = true;
    c.trial_most = 1; /* which spares the packing */
    int code = compile_run(&c, &s->choices, &r.plan, &r.where, err);
    if (!code)
        code = needs_besides(s, &r, err);
    r.plan.arena_bytes = 0;
    *bytes = needs_bytes(s->compile.backend, &r.plan);
    *room = offload_room(s, &r.plan);
    plan_free(&r.plan);
    return code;
}

static int find_offer(const struct session *s, int64_t limit, struct offer *out, struct snug_err *err)
{
    struct ways *ways = mem_alloc(sizeof *ways);
    if (!ways)
        return err_no_memory(err, sizeof *ways);
    int64_t room;
    int code = besides(s, &out->besides_bytes, &room, err);
    if (!code)
        code = ways_find(s, limit - out->besides_bytes, room, ways, err);
    if (!code) {
        const struct way *best = ways_least(ways);
        best = ways->of[0].fits ? &ways->of[0] : best;
        out->fits = best->fits;
        out->rows = best->rows;
        out->times = best->times;
        out->bytes = best->bytes;
        out->seconds = best->seconds;
    }
    ways_free(ways);
    mem_free(ways);
    return code;
}

static int add_offer(const struct session *s, const struct choices *asked, int64_t limit, unsigned changes,
                     struct offers *o, struct snug_err *err)
{
    struct options options = *s->o;
    struct session other = *s;
    struct offer *offer = &o->of[o->n];
    *offer = (struct offer){0};
    for (int i = 0; i < CHANGES; i++)
        if (changes >> i & 1) {
            size_t n = strlen(offer->options);
            snprintf(offer->options + n, sizeof offer->options - n, "%s%s", n ? " " : "", change_options[i]);
        }
    set_options(&options, changes);
    other.o = &options;
    other.events = (struct session_events){0};
    if (changes & LORA)
        other.adapter = (struct session_adapter){0};
    int code = change_session(&other, asked, changes, err);
    if (!code)
        code = find_offer(&other, limit, offer, err);
    if (changes & LORA)
        session_adapter_close(&other);
    o->n += !code;
    return code;
}

static int add_singles(const struct session *s, const struct choices *asked, int64_t limit, unsigned changes,
                       struct offers *o, struct snug_err *err)
{
    o->n = 0;
    for (unsigned c = 1; c < 1u << CHANGES; c <<= 1)
        if (changes & c && is_possible(s, (enum change)c))
            TRY(add_offer(s, asked, limit, c, o, err));
    return SNUG_OK;
}

int offers_find(const struct session *s, const struct choices *asked, int64_t limit, struct offers *o,
                struct snug_err *err)
{
    return add_singles(s, asked, limit, PURE_BF16 | STATES_8BIT | ADAFACTOR | LORA | IN_4_BITS, o, err);
}

int offers_find_all(const struct session *s, const struct choices *asked, int64_t limit, struct offers *o,
                    struct snug_err *err)
{
    static const unsigned together[] = {ZERO_3 | PURE_BF16 | STATES_8BIT,
                                        ZERO_3 | PURE_BF16 | ADAFACTOR,
                                        ZERO_3 | PURE_BF16 | ADAFACTOR | NO_CLIPPING,
                                        ZERO_3 | PURE_BF16 | ADAFACTOR | NO_CLIPPING | NO_SAVES,
                                        ZERO_3 | PURE_BF16 | LORA,
                                        ZERO_3 | PURE_BF16 | LORA | IN_4_BITS};
    unsigned before = 0;
    TRY(add_singles(s, asked, limit, (1u << CHANGES) - 1, o, err));
    for (int i = 0; i < o->n; i++)
        if (o->of[i].fits)
            return SNUG_OK;
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        unsigned changes = 0;
        for (unsigned c = 1; c < 1u << CHANGES; c <<= 1)
            changes |=
                together[i] & c && (is_possible(s, (enum change)c) || (c == IN_4_BITS && changes & LORA)) ? c : 0;
        if ((changes & (changes - 1)) && changes != before)
            TRY(add_offer(s, asked, limit, changes, o, err));
        before = changes;
    }
    return SNUG_OK;
}
