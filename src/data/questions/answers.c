/* The answers of a question: of the likeliest starts and the likeliest ends of each window, every pair that is a stretch of the context
 * and not too long, by the sum of both logits. */
#include "base/mem.h"
#include "data/questions/questions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    double score;
    size_t start, end; /* bytes of the context */
    bool none;
    int64_t nth; /* in the order in which they were found, which equal ones keep */
};

struct candidates {
    struct candidate *list;
    size_t n, cap;
};

static int add(struct candidates *c, struct candidate one, struct snug_err *err)
{
    if (!MEM_GROW(c->list, c->cap, c->n + 1))
        return err_no_memory(err, (c->n + 1) * sizeof *c->list);
    one.nth = (int64_t)c->n;
    c->list[c->n++] = one;
    return SNUG_OK;
}

static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : (x->nth > y->nth) - (x->nth < y->nth);
}

/* The `most` tokens of a row with the largest logits of one side, the largest first: how many. */
static int likeliest(const double *logits, int32_t tokens, int side, int most, int32_t *to)
{
    int n = 0;
    for (int32_t t = 0; t < tokens; t++) {
        double z = logits[2 * t + side];
        if (n == most && z <= logits[2 * to[n - 1] + side])
            continue;
        int at = n < most ? n++ : n - 1;
        for (; at && logits[2 * to[at - 1] + side] < z; at--)
            to[at] = to[at - 1];
        to[at] = t;
    }
    return n;
}

static int of_window(const struct dataset *d, int64_t row, const double *logits, const struct answer_settings *s,
                     int32_t *starts, int32_t *ends, struct candidates *c, struct snug_err *err)
{
    const struct context_window *w = &d->questions->windows[row];
    const struct answer_place *places = d->questions->places + w->places;
    const double *z = logits + 2 * d->offsets[row];
    int32_t length = dataset_length(d, row);
    int n = likeliest(z, length, 0, s->most, starts);
    likeliest(z, length, 1, s->most, ends);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            int32_t from = starts[i] - w->at, to = ends[k] - w->at;
            if (from < 0 || to >= w->tokens || to < from || to - from + 1 > s->longest)
                continue;
            struct candidate one = {
                .score = z[2 * starts[i]] + z[2 * ends[k] + 1], .start = places[from].start, .end = places[to].end};
            if (one.end >= one.start)
                TRY(add(c, one, err));
        }
    return SNUG_OK;
}

/* That there is none: the least of the windows' scores of token 0. */
static double score_of_none(const struct dataset *d, const struct question *q, const double *logits)
{
    double least = INFINITY;
    for (int64_t row = q->first_row; row < q->first_row + q->n_rows; row++) {
        const double *z = logits + 2 * d->offsets[row];
        least = z[0] + z[1] < least ? z[0] + z[1] : least;
    }
    return least;
}

/* Sorted candidates as answers; how many. */
static int give(const struct question *q, const struct candidates *c, const struct answer_settings *s, double none,
                struct answer *out)
{
    int n = 0;
    bool has_none = false;
    for (size_t i = 0; i < c->n && n < s->most; i++) {
        const struct candidate *one = &c->list[i];
        out[n++] = (struct answer){
            .text = q->context + one->start, .bytes = one->none ? 0 : one->end - one->start, .score = one->score};
        has_none |= one->none;
    }
    if (s->may_be_none && !has_none)
        out[n++] = (struct answer){.text = "", .score = none};
    if (!n)
        out[n++] = (struct answer){.text = ""};
    double sum = 0, max = -INFINITY;
    for (int i = 0; i < n; i++)
        max = out[i].score > max ? out[i].score : max;
    for (int i = 0; i < n; i++)
        sum += out[i].probability = exp(out[i].score - max);
    for (int i = 0; i < n; i++)
        out[i].probability /= sum;
    return n;
}

/* Puts answer i first. */
static void put_first(struct answer *out, int i)
{
    struct answer first = out[i];
    memmove(out + 1, out, (size_t)i * sizeof *out);
    out[0] = first;
}

/* SQuAD 2: the best answer, or none where that scores more by none_above. */
static void choose(struct answer *out, int n, const struct answer_settings *s, double none)
{
    int best = 0, without = 0;
    while (best < n && !out[best].bytes)
        best++;
    while (without < n && out[without].bytes)
        without++;
    if (best < n && none - out[best].score <= s->none_above)
        put_first(out, best);
    else if (without < n)
        put_first(out, without);
}

int answers_find(const struct dataset *d, int64_t i, const double *logits, const struct answer_settings *s,
                 struct answer *out, int *n, struct snug_err *err)
{
    const struct question *q = &d->questions->list[i];
    struct candidates c = {0};
    int32_t *tokens = mem_alloc(2 * (size_t)s->most * sizeof *tokens);
    int code = tokens ? SNUG_OK : err_no_memory(err, 2 * (size_t)s->most * sizeof *tokens);
    for (int64_t row = q->first_row; row < q->first_row + q->n_rows && !code; row++)
        code = of_window(d, row, logits, s, tokens, tokens + s->most, &c, err);
    double none = score_of_none(d, q, logits);
    if (!code && s->may_be_none)
        code = add(&c, (struct candidate){.score = none, .none = true}, err);
    if (!code) {
        if (c.n)
            qsort(c.list, c.n, sizeof *c.list, compare);
        *n = give(q, &c, s, none, out);
        if (s->may_be_none)
            choose(out, *n, s, none);
    }
    mem_free(tokens);
    mem_free(c.list);
    return code;
}
