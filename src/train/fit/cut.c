#include "train/fit/cut.h"

#include "search/recompute.h"
#include "train/session/batches.h"

#include <stdlib.h>

/* What takes room to save time is given up if the options leave it open. */
static struct choices without_extras(const struct session *s, struct choices c)
{
    const struct options *o = s->o;
    c.keep_masks &= o->dropout_masks != OPT_KEEP_AUTO;
    c.copies &= o->weight_copies != OPT_KEEP_AUTO;
    c.updates_at_end &= o->nan_policy != OPT_NAN_STOP || o->max_grad_norm != 0;
    return c;
}

static bool is_same(const struct choices *a, const struct choices *b)
{
    return a->keep_masks == b->keep_masks && a->copies == b->copies && a->updates_at_end == b->updates_at_end;
}

/* Takes these choices if they are better than what the cut has. */
static int try_choices(const struct session *s, int64_t limit, const struct choices *choices, struct cut *cut,
                       struct snug_err *err)
{
    struct recomputed r;
    bool open = !s->o->recompute && !s->o->gradient_checkpointing; /* nobody has said what is computed again */
    bool may = open || options_recompute(s->o) == RECOMPUTE_AUTO;
    TRY(may ? recompute_search(&s->compile, choices, limit, &r, err)
            : recompute_measure(&s->compile, choices, limit, &r, err));
    bool better = cut->choices.accumulation ? r.fits && (!cut->fits || r.seconds < cut->seconds) : true;
    if (!better) {
        mem_free(r.sets);
        return SNUG_OK;
    }
    mem_free(cut->recompute);
    cut->choices = *choices;
    if (may)
        cut->choices.recompute_every_n = r.every_n;
    cut->choices.recompute = cut->recompute = r.sets;
    cut->fits = r.fits;
    cut->bytes = r.arena_bytes;
    cut->seconds = r.seconds;
    return SNUG_OK;
}

static int find_cut(const struct session *s, int64_t limit, struct cut *cut, struct snug_err *err)
{
    struct choices choices = s->choices;
    TRY(batches_cut(s, cut->rows, cut->times, &choices, err));
    TRY(try_choices(s, limit, &choices, cut, err));
    struct choices less = without_extras(s, choices);
    bool kept_all = cut->fits && !cut->recompute && !cut->choices.recompute_every_n;
    return kept_all || is_same(&less, &choices) ? SNUG_OK : try_choices(s, limit, &less, cut, err);
}

/* Those that fit, then the fastest, then that of most rows. */
static int by_speed(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return x->rows > y->rows ? -1 : 1;
}

int cuts_find(const struct session *s, int64_t limit, struct cut cuts[CUTS_MOST], int *n, struct snug_err *err)
{
    int64_t rows = s->o->per_device_train_batch_size;
    *n = 0;
    for (int64_t parts = 1; parts <= rows && *n < CUTS_MOST; parts++) {
        if (rows % parts)
            continue;
        cuts[*n] = (struct cut){.rows = rows / parts, .times = s->o->gradient_accumulation_steps * parts};
        TRY(find_cut(s, limit, &cuts[(*n)++], err));
    }
    qsort(cuts, (size_t)*n, sizeof *cuts, by_speed);
    return SNUG_OK;
}

void cuts_free(struct cut *cuts, int n)
{
    for (int i = 0; i < n; i++)
        mem_free(cuts[i].recompute);
}
