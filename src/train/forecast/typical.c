#include "train/forecast/typical.h"

#include "base/mem.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

struct typical_lengths typical_lengths_of(const struct dataset *d)
{
    double sum = 0, squares = 0, n = (double)d->n_rows;
    for (int64_t r = 0; r < d->n_rows; r++) {
        double length = (double)dataset_length(d, r);
        sum += length;
        squares += length * length;
    }
    return (struct typical_lengths){.mean = sum / n, .unevenness = squares * n / (sum * sum)};
}

double typical_share(const struct dataset *d)
{
    double sum = 0;
    for (int64_t r = 0; d->sources && r < d->n_rows; r++)
        sum += d->sources[r];
    return sum / (double)d->n_tokens;
}

/* Ascending. */
static int choose_lengths(const struct dataset *d, int64_t B, int32_t *lengths, struct snug_err *err)
{
    int64_t *upto = mem_alloc(((size_t)d->longest + 1) * sizeof *upto); /* rows of at most so many tokens */
    if (!upto)
        return err_no_memory(err, ((size_t)d->longest + 1) * sizeof *upto);
    for (int64_t r = 0; r < d->n_rows; r++)
        upto[dataset_length(d, r)]++;
    for (int32_t i = 1; i <= d->longest; i++)
        upto[i] += upto[i - 1];
    double sum = 0;
    int32_t length = 1;
    for (int64_t b = 0; b < B; b++) {
        int64_t middle = (2 * b + 1) * d->n_rows / (2 * B);
        while (upto[length] <= middle)
            length++;
        lengths[b] = length;
        sum += length;
    }
    double more = typical_lengths_of(d).mean * (double)B / sum;
    for (int64_t b = 0; b < B; b++) {
        lengths[b] = (int32_t)lround(lengths[b] * more);
        lengths[b] = lengths[b] < 1 ? 1 : lengths[b] > d->longest ? d->longest : lengths[b];
    }
    mem_free(upto);
    return SNUG_OK;
}

static int allocate(struct typical *t, const struct model_config *m, struct snug_err *err)
{
    size_t T = (size_t)t->batch.T, S = (size_t)t->batch.S, B = (size_t)t->batch.B, labels = (size_t)m->num_labels;
    size_t bytes = (4 * T + 3 * B + 1 + 2 * S + B + 1) * sizeof *t->ints;
    t->ints = mem_alloc(bytes);
    t->rows = mem_alloc(B * sizeof *t->rows);
    t->values = mem_alloc(B * labels * sizeof *t->values + 1);
    return t->ints && t->rows && t->values ? SNUG_OK : err_no_memory(err, bytes);
}

static int32_t random_id(const struct model_config *m, int32_t at, int word)
{
    struct philox r = philox4x32((struct philox){{(uint32_t)at, 0, 0, 0}}, 5, 6);
    return (int32_t)(r.w[word] % (uint32_t)m->vocab_size);
}

/* The sources of so many tokens, in what follows the other arrays. */
static void fill_sources(struct batch *b, const struct model_config *m, const int32_t *lengths, int32_t *room)
{
    int32_t *ids = room, *positions = ids + b->S, *cu = positions + b->S;
    for (int32_t i = 0, at = 0; i < b->B; i++) {
        cu[i + 1] = cu[i] + lengths[i];
        for (int32_t k = 0; k < lengths[i]; k++, at++) {
            ids[at] = random_id(m, at, 2);
            positions[at] = k;
        }
    }
    b->source_ids = ids, b->source_positions = positions, b->source_cu_seqlens = cu;
}

static void fill(struct typical *t, const struct model_config *m, const int32_t *lengths)
{
    struct batch *b = &t->batch;
    int32_t *ids = t->ints, *positions = ids + b->T, *types = positions + b->T, *targets = types + b->T;
    int32_t *cu = targets + b->T, *sample = cu + b->B + 1, *classes = sample + b->B;
    for (int32_t i = 0, at = 0; i < b->B; i++) {
        cu[i + 1] = cu[i] + lengths[i];
        sample[i] = i;
        classes[i] = i % (int32_t)(m->num_labels > 1 ? m->num_labels : 1);
        b->longest = lengths[i] > b->longest ? lengths[i] : b->longest;
        for (int32_t k = 0; k < lengths[i]; k++, at++) {
            ids[at] = random_id(m, at, 0);
            targets[at] = random_id(m, at, 1) % (int32_t)(model_task(m)->tied ? m->vocab_size : m->num_labels);
            positions[at] = k;
        }
    }
    for (int64_t i = 0; i < b->B * m->num_labels; i++)
        t->values[i] = (float)(i % 2);
    bool tokens = model_task(m)->per_token, one = m->problem == PROBLEM_SINGLE_LABEL;
    b->ids = ids, b->positions = positions, b->types = types, b->cu_seqlens = cu, b->sample = sample, b->rows = t->rows;
    b->targets = tokens ? targets : NULL;
    b->classes = !tokens && one ? classes : NULL;
    b->values = tokens || one ? NULL : t->values;
    b->n_targets = tokens ? b->T : b->B;
}

/* Takes from the longest what is over `most`. Gives the sum of what stays. */
static int64_t trim(int32_t *lengths, int64_t B, int64_t most)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < B; b++)
        sum += lengths[b];
    for (int64_t b = B - 1; sum > most && b >= 0; b--) {
        int64_t less = sum - most < lengths[b] - 1 ? sum - most : lengths[b] - 1;
        lengths[b] -= (int32_t)less;
        sum -= less;
    }
    return sum;
}

/* The sources' part of the rows, each of which keeps a token of its own. */
static void divide(int32_t *lengths, int32_t *sources, int64_t B, double share)
{
    for (int64_t b = 0; b < B; b++) {
        int32_t source = (int32_t)lround(lengths[b] * share), most = lengths[b] > 1 ? lengths[b] - 1 : 1;
        sources[b] = source < 1 ? 1 : source > most ? most : source;
        lengths[b] -= lengths[b] > 1 ? sources[b] : 0;
    }
}

int typical_open(struct typical *t, const struct model_config *m, const struct dataset *d, int32_t length, double share,
                 int64_t B, struct dims most, struct snug_err *err)
{
    *t = (struct typical){.batch.B = (int32_t)B};
    int32_t *lengths = mem_alloc(2 * (size_t)B * sizeof *lengths), *sources = lengths + B;
    if (!lengths)
        return err_no_memory(err, 2 * (size_t)B * sizeof *lengths);
    int code = d ? choose_lengths(d, B, lengths, err) : SNUG_OK;
    for (int64_t b = 0; b < B && !d; b++)
        lengths[b] = length;
    if (share > 0) {
        divide(lengths, sources, B, share);
        t->batch.S = (int32_t)trim(sources, B, most.S);
    }
    t->batch.T = (int32_t)trim(lengths, B, most.T); /* what rounding has added */
    if (!code)
        code = allocate(t, m, err);
    if (!code)
        fill(t, m, lengths);
    if (!code && share > 0)
        fill_sources(&t->batch, m, sources, t->ints + 4 * t->batch.T + 3 * B + 1);
    mem_free(lengths);
    return code;
}

void typical_close(struct typical *t)
{
    mem_free(t->ints);
    mem_free(t->rows);
    mem_free(t->values);
    *t = (struct typical){0};
}
