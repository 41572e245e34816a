/* The permutation is a Feistel network with Philox as its round function, on the smallest even number of bits that
 * holds n, walked until it lands below n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002): at
 * most 4 walks on average. On very few bits a Feistel network does not reach all orders equally often, so there are at
 * least 8: a handful of rows costs more walks instead. */
#include "data/order.h"

#include "base/mem.h"
#include "data/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 8, LEAST_HALF_BITS = 4, MEGA_BATCH_STEPS = 50 };

static uint64_t round_bits(const struct order *o, int64_t epoch, int round, uint64_t half)
{
    struct philox c = {{(uint32_t)half, (uint32_t)round, (uint32_t)epoch, (uint32_t)((uint64_t)epoch >> 32)}};
    return philox4x32(c, o->key[0], o->key[1]).w[0] & (((uint64_t)1 << o->half_bits) - 1);
}

static uint64_t feistel(const struct order *o, int64_t epoch, uint64_t x)
{
    uint64_t left = x >> o->half_bits, right = x & (((uint64_t)1 << o->half_bits) - 1);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ round_bits(o, epoch, round, right);
        left = right;
        right = next;
    }
    return left << o->half_bits | right;
}

static uint64_t feistel_inverse(const struct order *o, int64_t epoch, uint64_t y)
{
    uint64_t left = y >> o->half_bits, right = y & (((uint64_t)1 << o->half_bits) - 1);
    for (int round = ROUNDS - 1; round >= 0; round--) {
        uint64_t before = right ^ round_bits(o, epoch, round, left);
        right = left;
        left = before;
    }
    return left << o->half_bits | right;
}

static int64_t shuffled(const struct order *o, int64_t epoch, int64_t position)
{
    uint64_t x = (uint64_t)position;
    do
        x = feistel(o, epoch, x);
    while (x >= (uint64_t)o->n);
    return (int64_t)x;
}

static int64_t position_of(const struct order *o, int64_t epoch, int64_t row)
{
    uint64_t x = (uint64_t)row;
    do
        x = feistel_inverse(o, epoch, x);
    while (x >= (uint64_t)o->n);
    return (int64_t)x;
}

static int64_t length_of(const struct order *o, int64_t row)
{
    return o->offsets[row + 1] - o->offsets[row];
}

/* Either the rows of the greatest length are few, and kept, or every (n / n_longest)-th row is one: both ways the first
 * of them in an epoch is found by looking at about sqrt(n) rows at most. */
static int find_longest(struct order *o, struct snug_err *err)
{
    for (int64_t row = 0; row < o->n; row++) {
        int64_t length = length_of(o, row);
        if (length > o->longest)
            o->longest = length, o->n_longest = 0;
        o->n_longest += length == o->longest;
    }
    if (o->n_longest > o->n / o->n_longest)
        return SNUG_OK;
    size_t bytes = (size_t)o->n_longest * sizeof *o->longest_rows;
    o->longest_rows = mem_alloc(bytes);
    if (!o->longest_rows)
        return err_no_memory(err, bytes);
    for (int64_t row = 0, i = 0; row < o->n; row++)
        if (length_of(o, row) == o->longest)
            o->longest_rows[i++] = row;
    return SNUG_OK;
}

static int64_t first_longest(const struct order *o, int64_t epoch)
{
    int64_t first = o->n;
    for (int64_t i = 0; o->longest_rows && i < o->n_longest; i++) {
        int64_t position = position_of(o, epoch, o->longest_rows[i]);
        first = position < first ? position : first;
    }
    for (int64_t position = 0; !o->longest_rows && first == o->n; position++)
        if (length_of(o, shuffled(o, epoch, position)) == o->longest)
            first = position;
    return first;
}

int order_open(struct order *o, enum order_kind kind, int64_t n, uint64_t seed, const int64_t *offsets,
               int64_t step_rows, struct snug_err *err)
{
    *o = (struct order){.kind = kind, .n = n, .half_bits = LEAST_HALF_BITS};
    while (o->half_bits < 31 && (int64_t)1 << 2 * o->half_bits < n)
        o->half_bits++;
    data_key(seed, FOR_ORDER, o->key);
    if (kind != ORDER_BY_LENGTH)
        return SNUG_OK;
    int64_t steps = n / (step_rows * 4);
    steps = steps > MEGA_BATCH_STEPS ? MEGA_BATCH_STEPS : steps < 1 ? 1 : steps;
    o->mega_batch = steps * step_rows;
    o->offsets = offsets;
    return find_longest(o, err);
}

void order_close(struct order *o)
{
    mem_free(o->longest_rows);
    o->longest_rows = NULL;
}

int64_t order_row(const struct order *o, int64_t epoch, int64_t position)
{
    assert(o->kind != ORDER_BY_LENGTH && position >= 0 && position < o->n);
    return o->kind == ORDER_RANDOM ? shuffled(o, epoch, position) : position;
}

struct entry {
    int64_t length, position, row;
};

/* Longest first; equal lengths stay in the order of the permutation. */
static int by_length(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int64_t longest_of_first_mega_batch(const struct order *o, int64_t epoch)
{
    int64_t best = shuffled(o, epoch, 0);
    for (int64_t position = 1; position < o->mega_batch && position < o->n; position++) {
        int64_t row = shuffled(o, epoch, position);
        best = length_of(o, row) > length_of(o, best) ? row : best;
    }
    return best;
}

/* Sorts mega-batch m of the epoch into e and returns its number of rows. The longest row of all changes places with the
 * head of the first mega-batch, so that the first step of an epoch is the one that needs the most memory. */
static int64_t sort_mega_batch(const struct order *o, int64_t epoch, int64_t m, struct entry *e)
{
    int64_t start = m * o->mega_batch;
    int64_t n = o->n - start < o->mega_batch ? o->n - start : o->mega_batch;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = shuffled(o, epoch, start + i);
        e[i] = (struct entry){length_of(o, row), start + i, row};
    }
    qsort(e, (size_t)n, sizeof *e, by_length);
    int64_t longest = first_longest(o, epoch);
    if (m == 0)
        e[0].row = shuffled(o, epoch, longest);
    else if (m == longest / o->mega_batch)
        e[0].row = longest_of_first_mega_batch(o, epoch);
    return n;
}

int order_rows(const struct order *o, int64_t epoch, int64_t from, int64_t n_rows, int64_t *rows, struct snug_err *err)
{
    assert(from >= 0 && n_rows >= 0 && from + n_rows <= o->n);
    if (o->kind != ORDER_BY_LENGTH) {
        for (int64_t i = 0; i < n_rows; i++)
            rows[i] = order_row(o, epoch, from + i);
        return SNUG_OK;
    }
    size_t bytes = (size_t)(o->mega_batch < o->n ? o->mega_batch : o->n) * sizeof(struct entry);
    struct entry *e = mem_alloc(bytes);
    if (!e)
        return err_no_memory(err, bytes);
    for (int64_t done = 0; done < n_rows;) {
        int64_t m = (from + done) / o->mega_batch, skip = (from + done) % o->mega_batch;
        int64_t n = sort_mega_batch(o, epoch, m, e);
        for (; skip < n && done < n_rows; skip++)
            rows[done++] = e[skip].row;
    }
    mem_free(e);
    return SNUG_OK;
}
