/* Dynamic programming over the layers, from the first to the last. While the nodes of a layer run, going forward or back, what the
 * layers before it hold is there, and nothing of those behind it. So of two ways to treat the first layers, one is better if it
 * holds less and takes less time; few are left for each prefix. */
#include "search/prefixes.h"

#include <math.h>
#include <stdlib.h>

/* A way for the layers up to one. */
struct way {
    int64_t held;
    double seconds;
    int before;         /* the way of fewer layers that it goes on from, by its place among those */
    int option, length; /* of the last segment: its option, its layers */
    bool drops_inner;   /* as that option */
};

struct front {
    struct way *all;
    size_t cap;
    int n;
    int64_t needs; /* bytes with which nothing is refused, all along these layers: with more it is the same */
};

struct prefixes {
    struct front *fronts; /* by the last layer; that of all layers has the best way alone */
    int n;                /* the first so many are made, */
    int64_t live;         /* for this limit */
};

static const struct option_list *options_at(const struct menu *m, int layer, int length)
{
    return &m->of[layer * SEGMENT_MOST + length - 1];
}

static int list_options(struct menu *m, const struct rates *r, int layer, struct snug_err *err)
{
    struct option_list *here = &m->of[layer * SEGMENT_MOST];
    const struct layers *l = &m->layers;
    for (int i = layer - 1; i >= 1 && !here->n; i--)
        if (options_equal_layers(l, i, layer)) {
            const struct option_list *like = options_at(m, i, 1);
            if (!MEM_GROW(here->all, here->cap, (size_t)like->n))
                return err_no_memory(err, (unsigned long long)like->n * sizeof *like->all);
            for (; here->n < like->n; here->n++)
                here->all[here->n] = like->all[here->n];
            TRY(options_move(l, r, layer, here, err));
        }
    if (!here->n)
        TRY(options_of(l, r, layer, layer, here, err));
    for (int length = 2; length <= SEGMENT_MOST && layer + length - 1 <= l->n; length++)
        if (l->spans[layer].backward)
            TRY(options_of(l, r, layer, layer + length - 1, here + length - 1, err));
    return SNUG_OK;
}

int menu_open(struct menu *m, const struct plan *p, const struct program *g, struct snug_err *err)
{
    *m = (struct menu){0};
    return layers_open(&m->layers, p, g, err);
}

int menu_list(struct menu *m, const struct rates *r, struct snug_err *err)
{
    size_t n = (size_t)(m->layers.n > 0 ? m->layers.n + 1 : 1) * SEGMENT_MOST;
    if (!(m->of = mem_alloc(n * sizeof *m->of)))
        return err_no_memory(err, n * sizeof *m->of);
    for (int i = 1; i <= m->layers.n; i++)
        TRY(list_options(m, r, i, err));
    return SNUG_OK;
}

static void forget(struct menu *m)
{
    for (int i = 0; m->known && m->known->fronts && i <= m->layers.n; i++)
        mem_free(m->known->fronts[i].all);
    if (m->known)
        mem_free(m->known->fronts);
    mem_free(m->known);
}

void menu_close(struct menu *m)
{
    forget(m);
    for (int i = 0; m->of && i < (m->layers.n + 1) * SEGMENT_MOST; i++)
        mem_free(m->of[i].all);
    mem_free(m->of);
    layers_close(&m->layers);
    *m = (struct menu){0};
}

static int by_held(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->held != y->held)
        return (x->held > y->held) - (x->held < y->held);
    if (x->seconds != y->seconds)
        return (x->seconds > y->seconds) - (x->seconds < y->seconds);
    return x->drops_inner - y->drops_inner;
}

/* What a front is made of: every way of fewer layers, and every option of a segment that goes on from there to its last layer. */
struct source {
    const struct front *from;
    const struct option_list *list;
    int length;
};

static int sources_of(const struct menu *m, const struct front *fronts, int layer, struct source sources[SEGMENT_MOST])
{
    int n = 0;
    for (int length = layer < SEGMENT_MOST ? layer : SEGMENT_MOST; length >= 1; length--)
        sources[n++] = (struct source){&fronts[layer - length], options_at(m, layer - length + 1, length), length};
    return n;
}

static bool is_allowed(const struct way *w, const struct option *o, int64_t limit)
{
    return w->held + o->most <= limit && !(w->drops_inner && o->reads_inner);
}

static struct way go_on(const struct source *s, int i, int k)
{
    const struct way *w = &s->from->all[i];
    const struct option *o = &s->list->all[k];
    return (struct way){w->held + o->held, w->seconds + o->seconds, i, k, s->length, o->drops_inner};
}

/* How many ways a source makes, and their times. */
struct extent {
    size_t n;
    double least, most;
};

/* Options by the bytes that they need; of the first so many of them, the least and the most time. */
struct sorted_option {
    int64_t most;
    double seconds, least_before, most_before;
};

static int by_most(const void *a, const void *b)
{
    const struct sorted_option *x = a, *y = b;
    return (x->most > y->most) - (x->most < y->most);
}

/* Of all options, or of those alone that read nothing inner. */
static int sort_options(const struct option_list *list, bool all, struct sorted_option *sorted)
{
    int n = 0;
    for (int k = 0; k < list->n; k++)
        if (all || !list->all[k].reads_inner)
            sorted[n++] = (struct sorted_option){list->all[k].most, list->all[k].seconds, 0, 0};
    qsort(sorted, (size_t)n, sizeof *sorted, by_most);
    for (int k = 0; k < n; k++) {
        const struct sorted_option *o = &sorted[k], *before = k ? o - 1 : o;
        sorted[k].least_before = k && before->least_before < o->seconds ? before->least_before : o->seconds;
        sorted[k].most_before = k && before->most_before > o->seconds ? before->most_before : o->seconds;
    }
    return n;
}

static int count_allowed(const struct sorted_option *sorted, int n, int64_t room)
{
    int low = 0;
    while (low < n) {
        int middle = (low + n) / 2;
        if (sorted[middle].most <= room)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Bytes that the ways need that a source could make. */
static int64_t needs_of(const struct source *s)
{
    int64_t most = 0;
    for (int k = 0; k < s->list->n; k++)
        most = s->list->all[k].most > most ? s->list->all[k].most : most;
    return s->from->n ? s->from->all[s->from->n - 1].held + most : 0;
}

static int measure_source(const struct source *s, int64_t limit, struct extent *e, struct snug_err *err)
{
    struct sorted_option *sorted[2];
    int n[2];
    size_t bytes = (size_t)(s->list->n + 1) * sizeof **sorted;
    sorted[0] = mem_alloc(bytes);
    sorted[1] = mem_alloc(bytes);
    bool ok = sorted[0] && sorted[1];
    for (int inner = 0; ok && inner < 2; inner++)
        n[inner] = sort_options(s->list, !inner, sorted[inner]);
    for (int i = 0; ok && i < s->from->n; i++) {
        const struct way *w = &s->from->all[i];
        int allowed = count_allowed(sorted[w->drops_inner], n[w->drops_inner], limit - w->held);
        if (!allowed)
            continue;
        double least = w->seconds + sorted[w->drops_inner][allowed - 1].least_before;
        double most = w->seconds + sorted[w->drops_inner][allowed - 1].most_before;
        e->n += (size_t)allowed;
        e->least = least < e->least ? least : e->least;
        e->most = most > e->most ? most : e->most;
    }
    mem_free(sorted[0]);
    mem_free(sorted[1]);
    return ok ? SNUG_OK : err_no_memory(err, bytes);
}

/* Options as columns, so that a loop over them takes several at once. */
struct columns {
    int n;
    double *seconds;
    int64_t *held, *most;
    uint8_t *reads, *drops;
    int *at; /* of each, for one way: its step of time */
};

static void columns_free(struct columns *c)
{
    mem_free(c->seconds);
    mem_free(c->held);
    mem_free(c->most);
    mem_free(c->reads);
    mem_free(c->drops);
    mem_free(c->at);
}

static bool columns_make(const struct option_list *list, struct columns *c)
{
    size_t n = (size_t)list->n + 1;
    *c = (struct columns){.n = list->n};
    c->seconds = mem_alloc(n * sizeof *c->seconds);
    c->held = mem_alloc(n * sizeof *c->held);
    c->most = mem_alloc(n * sizeof *c->most);
    c->reads = mem_alloc(n);
    c->drops = mem_alloc(n);
    c->at = mem_alloc(n * sizeof *c->at);
    if (!c->seconds || !c->held || !c->most || !c->reads || !c->drops || !c->at)
        return false;
    for (int k = 0; k < list->n; k++) {
        c->seconds[k] = list->all[k].seconds;
        c->held[k] = list->all[k].held;
        c->most[k] = list->all[k].most;
        c->reads[k] = list->all[k].reads_inner;
        c->drops[k] = list->all[k].drops_inner;
    }
    return true;
}

/* The best ways of each step of time: first of those that hold what their last layer passes on, then of the others. */
struct best {
    int64_t *held; /* INT64_MAX: none */
    struct {
        int source, i, k;
    } * way;
};

static void try_source(const struct source *s, int number, int64_t limit, double least, double step,
                       const struct columns *c, struct best *best)
{
    for (int i = 0; i < s->from->n; i++) {
        const struct way w = s->from->all[i];
        const int64_t room = limit - w.held;
        for (int k = 0; k < c->n; k++)
            c->at[k] = (int)((w.seconds + c->seconds[k] - least) / step);
        for (int k = 0; k < c->n; k++) {
            if (c->most[k] > room || (w.drops_inner & c->reads[k]))
                continue;
            int64_t held = w.held + c->held[k];
            int at = 2 * c->at[k] + c->drops[k];
            if (held < best->held[at]) {
                best->held[at] = held;
                best->way[at].source = number;
                best->way[at].i = i;
                best->way[at].k = k;
            }
        }
    }
}

/* Makes, of ways whose times lie within the same `step`, the one that holds least, and that of those that hold what their last layer
 * passes on. There may be millions of others, which are nowhere. */
static int extend_roughly(const struct source *sources, int n_sources, int64_t limit, const struct extent *e,
                          double step, struct front *to, struct snug_err *err)
{
    size_t n = 2 * ((size_t)((e->most - e->least) / step) + 1);
    struct best best = {.held = mem_alloc(n * sizeof *best.held), .way = mem_alloc(n * sizeof *best.way)};
    bool ok = best.held && best.way && MEM_GROW(to->all, to->cap, n);
    for (size_t b = 0; ok && b < n; b++)
        best.held[b] = INT64_MAX;
    for (int s = 0; ok && s < n_sources; s++) {
        struct columns c;
        ok = columns_make(sources[s].list, &c);
        if (ok)
            try_source(&sources[s], s, limit, e->least, step, &c, &best);
        columns_free(&c);
    }
    for (size_t b = 0; ok && b < n; b++)
        if (best.held[b] < INT64_MAX)
            to->all[to->n++] = go_on(&sources[best.way[b].source], best.way[b].i, best.way[b].k);
    mem_free(best.held);
    mem_free(best.way);
    return ok ? SNUG_OK : err_no_memory(err, n * sizeof *best.way);
}

static int by_seconds(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->seconds != y->seconds)
        return (x->seconds > y->seconds) - (x->seconds < y->seconds);
    return by_held(a, b);
}

/* They are nearly in order already. */
static void sort_nearly_sorted(struct way *all, int n)
{
    for (int i = 1; i < n; i++) {
        struct way w = all[i];
        int k = i;
        for (; k > 0 && by_seconds(&all[k - 1], &w) > 0; k--)
            all[k] = all[k - 1];
        all[k] = w;
    }
}

/* Leaves those that are faster than all that hold no more, by what they hold. */
static int thin(struct front *f, struct snug_err *err)
{
    int64_t least[2] = {INT64_MAX, INT64_MAX}; /* held, of ways that hold what their last layer passes on; of all */
    int n[2] = {0, 0};
    struct way *kept = mem_alloc((size_t)(2 * f->n + 1) * sizeof *kept), *other = kept ? kept + f->n : NULL;
    if (!kept)
        return err_no_memory(err, (size_t)f->n * sizeof *kept);
    for (int i = 0; i < f->n; i++) {
        const struct way w = f->all[i];
        if (w.held >= (w.drops_inner ? least[1] : least[0]))
            continue;
        least[1] = w.held < least[1] ? w.held : least[1];
        if (!w.drops_inner)
            least[0] = w.held;
        (w.drops_inner ? other : kept)[n[w.drops_inner]++] = w;
    }
    for (f->n = 0; n[0] || n[1];) { /* each of the two holds ever less */
        bool drops = !n[0] || (n[1] && by_held(&other[n[1] - 1], &kept[n[0] - 1]) < 0);
        f->all[f->n++] = drops ? other[--n[1]] : kept[--n[0]];
    }
    mem_free(kept);
    return SNUG_OK;
}

/* The ways up to `layer`, without those that another one is better than. Where they are very many, there is about one for each `step`
 * of time. */
static int make_front(const struct menu *m, struct front *fronts, int layer, int64_t limit, double step,
                      struct snug_err *err)
{
    enum { VERY_MANY = 2000 };
    struct source sources[SEGMENT_MOST];
    struct front *to = &fronts[layer];
    struct extent e = {.least = INFINITY};
    int n = sources_of(m, fronts, layer, sources);
    to->n = 0;
    to->needs = fronts[layer - 1].needs;
    for (int s = 0; s < n; s++) {
        int64_t needs = needs_of(&sources[s]);
        to->needs = needs > to->needs ? needs : to->needs;
        TRY(measure_source(&sources[s], limit, &e, err));
    }
    if (e.n > VERY_MANY && step > 0) {
        TRY(extend_roughly(sources, n, limit, &e, step, to, err));
        sort_nearly_sorted(to->all, to->n);
    } else {
        if (!MEM_GROW(to->all, to->cap, e.n + 1))
            return err_no_memory(err, e.n * sizeof *to->all);
        for (int s = 0; s < n; s++)
            for (int i = 0; i < sources[s].from->n; i++)
                for (int k = 0; k < sources[s].list->n; k++)
                    if (is_allowed(&sources[s].from->all[i], &sources[s].list->all[k], limit))
                        to->all[to->n++] = go_on(&sources[s], i, k);
        qsort(to->all, (size_t)to->n, sizeof *to->all, by_seconds);
    }
    return thin(to, err);
}

/* The best way for all layers that keeps to the limits; its front gets no other. */
static int find_best(const struct menu *m, struct front *fronts, struct limits limits, struct snug_err *err)
{
    struct source sources[SEGMENT_MOST];
    struct front *to = &fronts[m->layers.n];
    int n = sources_of(m, fronts, m->layers.n, sources);
    int64_t held_most =
        limits.live - m->layers.head_most < limits.held ? limits.live - m->layers.head_most : limits.held;
    if (!MEM_GROW(to->all, to->cap, 1))
        return err_no_memory(err, sizeof *to->all);
    for (int s = 0; s < n; s++)
        for (int i = 0; i < sources[s].from->n; i++)
            for (int k = 0; k < sources[s].list->n; k++) {
                const struct way *w = &sources[s].from->all[i];
                const struct option *o = &sources[s].list->all[k];
                double seconds = w->seconds + o->seconds;
                int64_t held = w->held + o->held;
                if (held > held_most || !is_allowed(w, o, limits.live))
                    continue;
                if (!to->n || seconds < to->all->seconds || (seconds == to->all->seconds && held < to->all->held)) {
                    to->all[0] = go_on(&sources[s], i, k);
                    to->n = 1;
                }
            }
    return SNUG_OK;
}

/* Sets and what they come to, from the last layer's way back to the first's. */
static void write_chosen(const struct menu *m, const struct front *fronts, const struct way *w,
                         struct recompute_set *sets, struct chosen *chosen)
{
    int n = m->layers.n;
    int64_t head = m->layers.head_most + w->held, beside = m->layers.beside_most;
    *chosen =
        (struct chosen){.fits = true, .held = w->held, .live = head > beside ? head : beside, .seconds = w->seconds};
    for (int i = 0; i <= n + 1; i++)
        sets[i] = (struct recompute_set){0};
    for (int layer = n; layer > 0;) {
        int first = layer - w->length + 1;
        const struct option *o = &options_at(m, first, w->length)->all[w->option];
        for (int i = first; i <= layer; i++)
            sets[i] = (struct recompute_set){.nodes = o->nodes, .joins = i > first, .sent = o->sent};
        chosen->joins |= w->length > 1;
        layer = first - 1;
        w = &fronts[layer].all[w->before];
        chosen->live = w->held + o->most > chosen->live ? w->held + o->most : chosen->live;
    }
}

double menu_all_seconds(const struct menu *m)
{
    double sum = 0;
    for (int i = 1; i <= m->layers.n; i++) {
        double most = 0;
        for (int k = 0; k < options_at(m, i, 1)->n; k++)
            most = fmax(most, options_at(m, i, 1)->all[k].seconds);
        sum += most;
    }
    return sum;
}

/* Room for a front for each number of layers, of which that of none is there. */
static int make_prefixes(struct menu *m, struct snug_err *err)
{
    size_t n = (size_t)m->layers.n + 1;
    if (m->known)
        return SNUG_OK;
    m->known = mem_alloc(sizeof *m->known);
    if (!m->known || !(m->known->fronts = mem_alloc(n * sizeof *m->known->fronts)) ||
        !MEM_GROW(m->known->fronts[0].all, m->known->fronts[0].cap, 1))
        return err_no_memory(err, n * sizeof *m->known->fronts);
    m->known->fronts[0].all[0] = (struct way){0};
    m->known->fronts[0].n = m->known->n = 1;
    return SNUG_OK;
}

/* Leaves the fronts that are the same for another limit: those that refuse nothing, with either. */
static void keep_known(struct prefixes *p, int64_t live)
{
    int n = 1;
    while (n < p->n && (live == p->live || (p->fronts[n].needs <= live && p->fronts[n].needs <= p->live)))
        n++;
    p->n = n;
    p->live = live;
}

int menu_choose(struct menu *m, struct limits limits, struct recompute_set *sets, struct chosen *chosen,
                struct snug_err *err)
{
    const double precision = 2e-2; /* of the time that everything again would take, which is a quarter of a step */
    double step = precision * menu_all_seconds(m) / m->layers.n;
    chosen->fits = false;
    TRY(make_prefixes(m, err));
    struct prefixes *p = m->known;
    struct front *all = &p->fronts[m->layers.n];
    keep_known(p, limits.live);
    for (; p->n < m->layers.n; p->n++)
        TRY(make_front(m, p->fronts, p->n, limits.live, step, err));
    all->n = 0;
    if (m->layers.beside_most <= limits.live)
        TRY(find_best(m, p->fronts, limits, err));
    if (all->n)
        write_chosen(m, p->fronts, all->all, sets, chosen);
    return SNUG_OK;
}
