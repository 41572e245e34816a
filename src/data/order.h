/* order.h: which row stands at which position of an epoch.
 *
 * A keyed permutation has no state: the row at any position of any epoch is computed from (seed, epoch, position), so a
 * resumed run continues at once, and neither batch size nor accumulation changes the order of the samples. */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H

#include "base/err.h"

#include <stdint.h>

/* With the words of --train-sampling-strategy. ORDER_BY_LENGTH is transformers' group_by_length: shuffled, then sorted by
 * length within mega-batches. */
#define ORDERS(W) W(ORDER_RANDOM, "random") W(ORDER_SEQUENTIAL, "sequential") W(ORDER_BY_LENGTH, "group_by_length")
#define ORDER_ID(id, text) id,
enum order_kind { ORDERS(ORDER_ID) ORDER_COUNT };
#undef ORDER_ID

struct order {
    enum order_kind kind;
    int64_t n;
    uint32_t key[2];
    int half_bits;          /* the permutation acts on numbers of 2 * half_bits bits */
    const int64_t *offsets; /* ORDER_BY_LENGTH from here on: the dataset's, borrowed */
    int64_t mega_batch;     /* rows */
    int64_t longest;        /* tokens */
    int64_t n_longest;      /* rows of that length */
    int64_t *longest_rows;  /* kept when they are few, else NULL: one is then soon met by looking */
};

/* For n rows; `offsets` (n + 1) are those of the dataset and `step_rows` the rows of an optimizer step (batch size
 * times accumulation), both only used, and offsets only kept, for ORDER_BY_LENGTH. */
int order_open(struct order *o, enum order_kind kind, int64_t n, uint64_t seed, const int64_t *offsets,
               int64_t step_rows, struct snug_err *err);
void order_close(struct order *o);

/* The row at `position` (in [0, n)) of `epoch` (from 0) in O(1). Not for ORDER_BY_LENGTH. */
int64_t order_row(const struct order *o, int64_t epoch, int64_t position);

/* The rows at [from, from + n_rows) of `epoch`; any kind. ORDER_BY_LENGTH sorts the mega-batches touched, O(m log m).
 */
int order_rows(const struct order *o, int64_t epoch, int64_t from, int64_t n_rows, int64_t *rows, struct snug_err *err);

#endif
