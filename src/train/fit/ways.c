#include "train/fit/ways.h"

#include "search/recompute.h"
#include "train/fit/offload.h"
#include "train/session/batches.h"

#include <math.h>
#include <stdlib.h>

bool ways_may_cut(const struct options *o)
{
    return o->auto_find_batch_size || ((o->memory_budget || o->gpu) && !option_given(o, gradient_accumulation_steps));
}

bool ways_are_open(const struct session *s)
{
    return (s->o->memory_budget || s->o->gpu || s->o->auto_find_batch_size) && s->compile.train && !s->compile.separate;
}

/* Nobody has said what is computed again, or it was left to the plan. */
static bool may_recompute(const struct options *o)
{
    return options_recompute(o) == RECOMPUTE_AUTO || (!o->recompute && !o->gradient_checkpointing);
}

bool ways_are_all(const struct options *o)
{
    return ways_may_cut(o) && may_recompute(o) && !option_given(o, head_chunk) && o->weight_copies == OPT_KEEP_AUTO &&
           o->dropout_masks == OPT_KEEP_AUTO && o->offload_optimizer == OPT_OFFLOAD_AUTO &&
           o->offload_param == OPT_OFFLOAD_AUTO && options_activations(o) == OPT_OFFLOAD_AUTO;
}

/* How much is given up to make room, if the options leave it open. */
enum level { NOTHING, LOGITS, EXTRAS, LEVELS };

static bool has_many_logits(const struct session *s)
{
    return model_task(&s->model)->tied && s->model.vocab_size >= s->compile.head_vocabulary;
}

static struct choices without(const struct session *s, struct choices c, enum level level)
{
    const struct options *o = s->o;
    if (level >= LOGITS && !option_given(o, head_chunk) && has_many_logits(s))
        c.whole_logits = false;
    if (level < EXTRAS)
        return c;
    c.keep_masks &= o->dropout_masks != OPT_KEEP_AUTO;
    c.copies &= o->weight_copies != OPT_KEEP_AUTO || c.host_weights;
    c.updates_at_end &= o->nan_policy != OPT_NAN_STOP || o->max_grad_norm != 0;
    return c;
}

static bool is_same(const struct choices *a, const struct choices *b)
{
    return a->keep_masks == b->keep_masks && a->copies == b->copies && a->updates_at_end == b->updates_at_end &&
           a->whole_logits == b->whole_logits;
}

/* Choices that were tried, and whose arena cannot have fewer bytes than `bound`. */
struct tried {
    struct way *way; /* whose rows they have */
    struct choices choices;
    int64_t bound;
};

/* Bytes of the arena, and of what is offloaded. To find the way of the least bytes takes longer than to find out that none fits, so it
 * comes second. */
struct hunt {
    int64_t limit, host;
    int64_t least; /* of the ways so far, none of which fits; 0: whether one does is not known yet */
    struct tried *tried;
    size_t n, cap;
};

/* For find_least. */
static int remember(struct hunt *h, struct way *way, const struct choices *choices, int64_t bound, struct snug_err *err)
{
    if (!MEM_GROW(h->tried, h->cap, h->n + 1))
        return err_no_memory(err, 2 * h->cap * sizeof *h->tried);
    h->tried[h->n++] = (struct tried){way, *choices, bound};
    return SNUG_OK;
}

/* Takes these choices if they are better than what the way has. */
static int try_choices(const struct session *s, struct hunt *h, const struct choices *choices, struct way *way,
                       struct snug_err *err)
{
    struct recomputed r;
    bool may = may_recompute(s->o);
    struct recompute_aim aim = {.limit = h->limit,
                                .host = h->host,
                                .below = h->least,
                                .seconds = way->fits ? way->seconds : INFINITY,
                                .sends = offload_may_send_activations(s)};
    TRY(may ? recompute_search(&s->compile, choices, &aim, &r, err)
            : recompute_measure(&s->compile, choices, &aim, &r, err));
    if (may && aim.sends && r.host_bytes > h->host) { /* which has no room for them */
        mem_free(r.sets);
        aim.sends = false;
        TRY(recompute_search(&s->compile, choices, &aim, &r, err));
    }
    bool first = !way->choices.accumulation;
    bool better = first || (r.fits ? !way->fits || r.seconds < way->seconds : !way->fits && r.arena_bytes < way->bytes);
    if (!better) {
        mem_free(r.sets);
        return h->least ? SNUG_OK : remember(h, way, choices, r.bound, err);
    }
    mem_free(way->recompute);
    way->choices = *choices;
    if (may)
        way->choices.recompute_every_n = r.every_n;
    way->choices.recompute = way->recompute = r.sets;
    way->layers = r.layers;
    way->fits = r.fits;
    way->bytes = r.arena_bytes;
    way->host_bytes = r.host_bytes;
    way->seconds = r.seconds;
    return h->least ? SNUG_OK : remember(h, way, choices, r.bound, err);
}

static bool keeps_all(const struct way *w)
{
    return w->fits && !w->recompute && !w->choices.recompute_every_n;
}

/* The way has the states of some layers there. They take longer than what may be computed again for them, so as few go as will do. */
static int send_fewer(const struct session *s, struct hunt *h, struct way *way, struct choices now,
                      struct snug_err *err)
{
    const int step = 1 + (int)s->model.layers / 32; /* closer is not worth the time of a search */
    for (int low = 1, high = way->choices.host_layers; low + step <= high;) {
        now.host_layers = (low + high) / 2;
        TRY(try_choices(s, h, &now, way, err));
        if (way->choices.host_layers == now.host_layers)
            high = now.host_layers;
        else
            low = now.host_layers + 1;
    }
    return SNUG_OK;
}

/* With optimizer states in the host's memory: those of as many layers as it takes for nothing to be computed again, and all of them, or as
 * many as the host has room for, and fewer; then with the weights, whose copies stay. */
static int offload(const struct session *s, struct hunt *h, struct choices asked, struct way *way, struct snug_err *err)
{
    struct choices now = without(s, asked, EXTRAS);
    struct offload layers;
    int all = (int)s->model.layers + 2;
    TRY(offload_find(s, &now, h->limit, h->host, &layers, err));
    if (layers.fewest < layers.most) {
        now.host_layers = layers.fewest;
        TRY(try_choices(s, h, &now, way, err));
    }
    if (!layers.most)
        return SNUG_OK;
    now.host_layers = layers.most;
    TRY(try_choices(s, h, &now, way, err));
    if (way->fits && way->choices.host_layers)
        TRY(send_fewer(s, h, way, now, err));
    if (keeps_all(way) || layers.most < all || !offload_may_send_weights(s, &asked))
        return SNUG_OK;
    now.copies = true;
    now.host_weights = all;
    return try_choices(s, h, &now, way, err);
}

/* What is computed again was chosen with as little on its way to the device and from it as can be. More is, where that fits. */
static int prefetch(const struct session *s, const struct hunt *h, struct way *way, struct snug_err *err)
{
    struct recomputed r;
    struct choices now = way->choices;
    const struct recompute_aim aim = {.limit = h->limit, .host = h->host, .below = h->limit + 1};
    if (!way->fits || (!now.host_layers && !choices_sent_layers(&now, (int)s->model.layers + 2)))
        return SNUG_OK;
    now.prefetch = true;
    TRY(recompute_measure(&s->compile, &now, &aim, &r, err));
    if (!r.fits || r.seconds >= way->seconds)
        return SNUG_OK;
    way->choices.prefetch = true;
    way->bytes = r.arena_bytes;
    way->seconds = r.seconds;
    return SNUG_OK;
}

static int find_way(const struct session *s, struct hunt *h, struct way *way, struct snug_err *err)
{
    struct choices asked = s->choices, last;
    TRY(batches_cut(s, way->rows, way->times, &asked, err));
    asked.prefetch = false;
    for (enum level i = NOTHING; i < LEVELS && !keeps_all(way); i++) {
        struct choices now = without(s, asked, i);
        if (i == NOTHING || !is_same(&now, &last))
            TRY(try_choices(s, h, &now, way, err));
        last = now;
    }
    if (!keeps_all(way) && offload_is_open(s))
        TRY(offload(s, h, asked, way, err));
    return prefetch(s, h, way, err);
}

/* Those that fit, then the fastest, then that of most rows. */
static int by_speed(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return x->rows > y->rows ? -1 : 1;
}

/* The best of each cut that fits. */
static int find_ways(const struct session *s, struct hunt *h, struct ways *ways, bool *fits, struct snug_err *err)
{
    int64_t rows = s->o->per_device_train_batch_size, most_parts = ways_may_cut(s->o) ? rows : 1;
    *fits = false;
    for (int64_t parts = 1; parts <= most_parts && ways->n < WAYS_MOST; parts++) {
        if (rows % parts)
            continue;
        struct way *w = &ways->of[ways->n++];
        *w = (struct way){.rows = rows / parts, .times = s->o->gradient_accumulation_steps * parts};
        TRY(find_way(s, h, w, err));
        *fits |= w->fits;
    }
    return SNUG_OK;
}

static int by_bound(const void *a, const void *b)
{
    const struct tried *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->way > y->way) - (x->way < y->way);
}

/* Where no way fits, the one of the least bytes. What cannot be less than one that was found is not looked at. */
static int find_least(const struct session *s, struct hunt *h, struct snug_err *err)
{
    qsort(h->tried, h->n, sizeof *h->tried, by_bound);
    h->least = INT64_MAX - 1;
    for (size_t i = 0; i < h->n && h->tried[i].bound < h->least; i++) {
        struct way *w = h->tried[i].way;
        TRY(try_choices(s, h, &h->tried[i].choices, w, err));
        h->least = w->bytes < h->least ? w->bytes : h->least;
    }
    return SNUG_OK;
}

int ways_find(const struct session *s, int64_t limit, int64_t host, struct ways *ways, struct snug_err *err)
{
    struct hunt h = {.limit = limit, .host = host};
    bool fits;
    ways->n = 0;
    int code = find_ways(s, &h, ways, &fits, err);
    if (!code && !fits)
        code = find_least(s, &h, err);
    mem_free(h.tried);
    if (code)
        return code;
    const struct way asked = ways->of[0];
    size_t others = keeps_all(&asked) && is_same(&asked.choices, &s->choices); /* what fits as it is stays so */
    qsort(ways->of + others, (size_t)ways->n - others, sizeof *ways->of, by_speed);
    return SNUG_OK;
}

const struct way *ways_least(const struct ways *ways)
{
    const struct way *least = &ways->of[0];
    for (int i = 1; i < ways->n; i++)
        least = ways->of[i].bytes < least->bytes ? &ways->of[i] : least;
    return least;
}

void ways_free(struct ways *ways)
{
    for (int i = 0; i < ways->n; i++)
        mem_free(ways->of[i].recompute);
    ways->n = 0;
}
