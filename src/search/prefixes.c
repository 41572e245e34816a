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

int menu_open(struct menu *m, const struct plan *p, const struct program *g, const struct rates *r,
              struct snug_err *err)
{
    *m = (struct menu){0};
    TRY(layers_open(&m->layers, p, g, err));
    size_t n = (size_t)(m->layers.n > 0 ? m->layers.n + 1 : 1) * SEGMENT_MOST;
    if (!(m->of = mem_alloc(n * sizeof *m->of)))
        return err_no_memory(err, n * sizeof *m->of);
    for (int i = 1; i <= m->layers.n; i++)
        TRY(list_options(m, r, i, err));
    return SNUG_OK;
}

void menu_close(struct menu *m)
{
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

/* Of ways whose times lie within the same `step`, leaves the one that holds least, and that of those that hold what their last layer
 * passes on. */
static int thin_roughly(struct front *f, double step, struct snug_err *err)
{
    double least = INFINITY, most = 0;
    for (int i = 0; i < f->n; i++) {
        least = fmin(least, f->all[i].seconds);
        most = fmax(most, f->all[i].seconds);
    }
    size_t steps = (size_t)((most - least) / step) + 1;
    int(*best)[2] = mem_alloc(steps * sizeof *best), n = 0; /* their numbers, from 1 on; 0: none */
    if (!best)
        return err_no_memory(err, steps * sizeof *best);
    for (int i = 0; i < f->n; i++) {
        int *b = &best[(size_t)((f->all[i].seconds - least) / step)][f->all[i].drops_inner];
        if (!*b || f->all[i].held < f->all[*b - 1].held)
            *b = i + 1;
    }
    for (int i = 0; i < f->n; i++)
        if (best[(size_t)((f->all[i].seconds - least) / step)][f->all[i].drops_inner] == i + 1)
            f->all[n++] = f->all[i];
    mem_free(best);
    f->n = n;
    return SNUG_OK;
}

/* Leaves those that are faster than all that hold less; where they are very many, about one for each `step` of time. */
static int thin(struct front *f, double step, struct snug_err *err)
{
    enum { VERY_MANY = 2000 };
    double least[2] = {INFINITY, INFINITY}; /* of ways that hold what their last layer passes on; of all */
    int n = 0;
    if (f->n > VERY_MANY && step > 0)
        TRY(thin_roughly(f, step, err));
    qsort(f->all, (size_t)f->n, sizeof *f->all, by_held);
    for (int i = 0; i < f->n; i++) {
        const struct way w = f->all[i];
        if (w.seconds >= (w.drops_inner ? least[1] : least[0]))
            continue;
        least[1] = fmin(least[1], w.seconds);
        if (!w.drops_inner)
            least[0] = w.seconds;
        f->all[n++] = w;
    }
    f->n = n;
    return SNUG_OK;
}

/* Goes on from every way up to `layer` by every option that begins behind it. */
static int extend(const struct menu *m, struct front *fronts, int layer, int64_t limit, struct snug_err *err)
{
    const struct front *from = &fronts[layer];
    for (int length = 1; length <= SEGMENT_MOST && layer + length <= m->layers.n; length++) {
        const struct option_list *list = options_at(m, layer + 1, length);
        struct front *to = &fronts[layer + length];
        if (!MEM_GROW(to->all, to->cap, (size_t)to->n + (size_t)from->n * (size_t)list->n + 1))
            return err_no_memory(err, (unsigned long long)from->n * (unsigned)list->n * sizeof *to->all);
        for (int i = 0; i < from->n; i++)
            for (int k = 0; k < list->n; k++) {
                const struct way *w = &from->all[i];
                const struct option *o = &list->all[k];
                if (w->held + o->most > limit || (w->drops_inner && o->reads_inner))
                    continue;
                to->all[to->n++] =
                    (struct way){w->held + o->held, w->seconds + o->seconds, i, k, length, o->drops_inner};
            }
    }
    return SNUG_OK;
}

static void write_sets(const struct menu *m, const struct front *fronts, const struct way *w,
                       struct recompute_set *sets)
{
    int n = m->layers.n;
    for (int i = 0; i <= n + 1; i++)
        sets[i] = (struct recompute_set){0};
    for (int layer = n; layer > 0; w = &fronts[layer].all[w->before]) {
        int first = layer - w->length + 1;
        for (int i = first; i <= layer; i++)
            sets[i] = (struct recompute_set){.nodes = options_at(m, first, w->length)->all[w->option].nodes,
                                             .joins = i > first};
        layer -= w->length;
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

int menu_choose(const struct menu *m, struct limits limits, struct recompute_set *sets, struct chosen *chosen,
                struct snug_err *err)
{
    const double precision = 1e-2; /* of the time that everything again would take, which is a quarter of a step */
    int n = m->layers.n, code = SNUG_OK;
    struct front *fronts = mem_alloc((size_t)(n + 1) * sizeof *fronts);
    chosen->fits = false;
    if (!fronts)
        return err_no_memory(err, (unsigned long long)(n + 1) * sizeof *fronts);
    double step = precision * menu_all_seconds(m) / n;
    if (!MEM_GROW(fronts[0].all, fronts[0].cap, 1))
        code = err_no_memory(err, sizeof *fronts[0].all);
    else
        fronts[0].all[fronts[0].n++] = (struct way){0};
    for (int i = 0; i < n && !code; i++) {
        code = thin(&fronts[i], step, err);
        if (!code)
            code = extend(m, fronts, i, limits.live, err);
    }
    const struct way *best = NULL;
    for (int i = 0; !code && m->layers.beside_most <= limits.live && i < fronts[n].n; i++) {
        const struct way *w = &fronts[n].all[i];
        if (w->held + m->layers.head_most <= limits.live && w->held <= limits.held &&
            (!best || w->seconds < best->seconds || (w->seconds == best->seconds && w->held < best->held)))
            best = w;
    }
    if (best) {
        *chosen = (struct chosen){.fits = true, .held = best->held, .seconds = best->seconds};
        write_sets(m, fronts, best, sets);
    }
    for (int i = 0; i <= n; i++)
        mem_free(fronts[i].all);
    mem_free(fronts);
    return code;
}
