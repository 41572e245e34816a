/* Packing: one value after another goes into the tightest hole between those placed before it that live at the same time.
 *
 * What is taken while a value lives is found in a tree over the nodes of the program: each inner node of the tree is a range
 * of them, halved by its children. A range keeps the bytes of what lives in some part of it (`within`), and of what lives all
 * through it (`whole`). Both are few spans, since values lie side by side. So the time goes with the number of values, not
 * with its square. */
#include "plan/pack.h"

#include <stdlib.h>
#include <string.h>

struct span {
    int64_t at, end;
};

/* Ascending; none touches the next. */
struct spans {
    struct span *v;
    size_t cap;
    int n;
};

enum { MAX_DEPTH = 32 };

/* Trees as arrays: the halves of range r are 2r and 2r + 1; range 1 is the whole program. */
struct taken {
    struct spans *within, *whole;
    int leaves;                                /* a power of two */
    const struct spans *beside[8 * MAX_DEPTH]; /* what find_hole looks through */
    int n_beside;
    struct spans holes[2];
    const struct stop_flag *stop;
    bool failed; /* no memory */
};

/* Joins it with those that it overlaps or touches. */
static void spans_add(struct spans *s, struct span x, bool *failed)
{
    int from = 0, end = s->n;
    while (from < end) { /* the first that does not end before x */
        int middle = (from + end) / 2;
        if (s->v[middle].end < x.at)
            from = middle + 1;
        else
            end = middle;
    }
    for (; end < s->n && s->v[end].at <= x.end; end++) {
        x.at = s->v[end].at < x.at ? s->v[end].at : x.at;
        x.end = s->v[end].end > x.end ? s->v[end].end : x.end;
    }
    if (from == end) {
        if (!MEM_GROW(s->v, s->cap, (size_t)s->n + 1)) {
            *failed = true;
            return;
        }
        memmove(&s->v[from + 1], &s->v[from], (size_t)(s->n++ - from) * sizeof *s->v);
    } else {
        memmove(&s->v[from + 1], &s->v[end], (size_t)(s->n - end) * sizeof *s->v);
        s->n -= end - from - 1;
    }
    s->v[from] = x;
}

/* Nodes first … last take x. `range` is that of nodes [low, high). */
static void take(struct taken *t, int range, int low, int high, int first, int last, struct span x)
{
    if (last < low || first >= high)
        return;
    spans_add(&t->within[range], x, &t->failed);
    if (first <= low && high - 1 <= last) {
        spans_add(&t->whole[range], x, &t->failed);
        return;
    }
    take(t, 2 * range, low, (low + high) / 2, first, last, x);
    take(t, 2 * range + 1, (low + high) / 2, high, first, last, x);
}

/* Appends to t->beside what is taken during some of nodes first … last. */
static void collect(struct taken *t, int range, int low, int high, int first, int last)
{
    if (last < low || first >= high)
        return;
    bool covered = first <= low && high - 1 <= last;
    const struct spans *s = covered ? &t->within[range] : &t->whole[range];
    if (s->n)
        t->beside[t->n_beside++] = s;
    if (covered)
        return;
    collect(t, 2 * range, low, (low + high) / 2, first, last);
    collect(t, 2 * range + 1, (low + high) / 2, high, first, last);
}

static int by_number(const void *a, const void *b)
{
    const struct spans *const *x = a, *const *y = b;
    return (*x)->n - (*y)->n;
}

/* The first span from x on that ends behind `at`; near x as a rule. */
static const struct span *skip_to(const struct span *x, const struct span *end, int64_t at)
{
    ptrdiff_t step = 1;
    for (; end - x > step && x[step].end <= at; step *= 2)
        x += step;
    end = end - x > step ? x + step : end;
    while (x < end) {
        const struct span *middle = x + (end - x) / 2;
        if (middle->end <= at)
            x = middle + 1;
        else
            end = middle;
    }
    return x;
}

/* What of the holes s leaves, in pieces of `bytes` at least. Skips from what touches to what touches. */
static void subtract(const struct spans *holes, const struct spans *s, int64_t bytes, struct spans *out, bool *failed)
{
    if (!MEM_GROW(out->v, out->cap, (size_t)(holes->n + s->n))) {
        *failed = true;
        return;
    }
    const struct span *h = holes->v, *h_end = h + holes->n, *x = s->v, *x_end = x + s->n;
    struct span *to = out->v;
    while (h < h_end && (x = skip_to(x, x_end, h->at)) < x_end) {
        if (x->at >= h->end) {
            const struct span *next = skip_to(h, h_end, x->at);
            memcpy(to, h, (size_t)(next - h) * sizeof *h);
            to += next - h;
            h = next;
            continue;
        }
        struct span rest = *h++;
        for (; x < x_end && x->at < rest.end; x++) {
            if (x->at - rest.at >= bytes)
                *to++ = (struct span){rest.at, x->at};
            rest.at = x->end;
        }
        if (rest.end - rest.at >= bytes)
            *to++ = rest;
        x--; /* it may reach into the next hole */
    }
    memcpy(to, h, (size_t)(h_end - h) * sizeof *h);
    out->n = (int)(to - out->v + (h_end - h));
}

/* again: see struct program. The tightest hole that has `bytes`, the lowest of those; without one the end of all that is taken. */
static int64_t find_hole(struct taken *t, int first, int last, int again, int64_t bytes)
{
    struct spans *holes = &t->holes[0], *less = &t->holes[1];
    holes->v[0] = (struct span){0, INT64_MAX};
    holes->n = 1;
    t->n_beside = 0;
    collect(t, 1, 0, t->leaves, first, last);
    if (again)
        collect(t, 1, 0, t->leaves, 1, again);
    qsort(t->beside, (size_t)t->n_beside, sizeof *t->beside, by_number); /* few holes soon */
    for (int i = 0; i < t->n_beside && !t->failed; i++) {
        subtract(holes, t->beside[i], bytes, less, &t->failed);
        struct spans *swap = holes;
        holes = less;
        less = swap;
    }
    int best = 0;
    for (int i = 1; i < holes->n; i++)
        if (holes->v[i].end - holes->v[i].at < holes->v[best].end - holes->v[best].at)
            best = i;
    return t->failed ? 0 : holes->v[best].at;
}

static void taken_clear(struct taken *t)
{
    for (int i = 0; i < 2 * t->leaves; i++)
        t->within[i].n = t->whole[i].n = 0;
}

static bool taken_open(struct taken *t, int n_nodes)
{
    *t = (struct taken){.leaves = 1};
    while (t->leaves < n_nodes + 1)
        t->leaves *= 2;
    t->within = mem_alloc(2 * (size_t)t->leaves * sizeof *t->within);
    t->whole = mem_alloc(2 * (size_t)t->leaves * sizeof *t->whole);
    return t->within && t->whole && MEM_GROW(t->holes[0].v, t->holes[0].cap, 64) &&
           MEM_GROW(t->holes[1].v, t->holes[1].cap, 64);
}

static void taken_close(struct taken *t)
{
    for (int i = 0; t->within && t->whole && i < 2 * t->leaves; i++) {
        mem_free(t->within[i].v);
        mem_free(t->whole[i].v);
    }
    mem_free(t->holes[0].v);
    mem_free(t->holes[1].v);
    mem_free(t->within);
    mem_free(t->whole);
}

/* ---- orders ---- */

struct item {
    int id;
    int64_t bytes, at;
    double weight; /* large ones are placed first */
};

static int by_weight(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->id - y->id;
}

/* Gives the end of all; `limit` or more, with some not placed, as soon as it is known to be that. */
static int64_t place_in_order(const struct program *g, struct item *items, int n, int64_t limit, struct taken *t)
{
    int64_t peak = 0;
    qsort(items, (size_t)n, sizeof *items, by_weight);
    taken_clear(t);
    for (int k = 0; k < n && peak < limit && !t->failed && !stop_asked(t->stop); k++) {
        struct item *x = &items[k];
        int first = g->first[x->id], last = g->last[x->id];
        int again = g->again[x->id];
        x->at = find_hole(t, first, last, again, x->bytes);
        if (x->bytes)
            take(t, 1, 0, t->leaves, first, last, (struct span){x->at, x->at + x->bytes});
        if (x->bytes && again)
            take(t, 1, 0, t->leaves, 1, again, (struct span){x->at, x->at + x->bytes});
        peak = x->at + x->bytes > peak ? x->at + x->bytes : peak;
    }
    return peak;
}

/* Size x lifetime reached the lower bound on every transformer step measured; the others cost milliseconds. */
static double weigh(const struct program *g, int id, int64_t bytes, int order)
{
    double life = g->last[id] - g->first[id] + 1, size = (double)bytes;
    switch (order) {
    case 0:
        return size * life;
    case 1:
        return size;
    case 2:
        return life;
    default:
        return -(double)g->first[id];
    }
}

enum { ORDERS = 4 };

/* The smallest peak wins; of equal ones the order with the lowest number, whichever is tried first. An order ends as soon
 * as it cannot win, so the slow ones are tried last: by size alone, the holes become many. */
static void try_orders(struct program *g, int64_t most, struct item *items, int n, struct taken *t)
{
    static const int tried[ORDERS] = {0, 3, 2, 1};
    int best = ORDERS;
    g->peak_bytes = INT64_MAX;
    for (int k = 0; k < ORDERS && !t->failed && !stop_asked(t->stop); k++) {
        int order = tried[k];
        int64_t limit = best == ORDERS ? most + 1 : g->peak_bytes + (order < best);
        if (limit <= g->lower_bound_bytes)
            continue;
        for (int i = 0; i < n; i++)
            items[i].weight = weigh(g, items[i].id, items[i].bytes, order);
        int64_t peak = place_in_order(g, items, n, limit, t);
        if (peak >= limit)
            continue;
        g->peak_bytes = peak;
        best = order;
        for (int i = 0; i < n; i++)
            g->at[items[i].id] = items[i].at;
    }
}

int plan_pack_program(const struct plan *p, struct program *g, int64_t most, struct snug_err *err)
{
    int n = 0, n_values = g->graph.n_values;
    struct taken t;
    struct item *items = mem_alloc((size_t)n_values * sizeof *items);
    bool opened = taken_open(&t, g->graph.n_nodes);
    t.stop = p->stop;
    t.failed = !opened || !items;
    for (int i = 1; i < n_values && !t.failed; i++)
        if (plan_is_transient(g, i))
            items[n++] = (struct item){.id = i, .bytes = plan_room(p, g, i)};
    if (!t.failed)
        try_orders(g, most, items, n, &t);
    mem_free(items);
    taken_close(&t);
    return t.failed ? err_no_memory(err, (unsigned long long)n_values * sizeof *items) : plan_check_stop(p, err);
}
