/* rows.h: what must hold for every dataset that was accepted, whatever it was read from; and a small tokenizer. */
#ifndef TESTS_FUZZ_ROWS_H
#define TESTS_FUZZ_ROWS_H

#include "../memory_io.h"
#include "data/dataset.h"
#include "fuzz.h"
#include "tokenizer/tokenizer.h"

#include <math.h>

/* Opened once, and kept. */
static inline const struct tokenizer *small_tokenizer(void)
{
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##a\nab\n\xc3\xa9\n";
    static const struct memory_file file = {"m/vocab.txt", vocab, sizeof vocab - 1};
    static struct memory_io m;
    static struct tokenizer *t;
    if (!t) {
        memory_io_init(&m, &file, 1);
        MUST(!tokenizer_open(&m.io, "m", &t, NULL));
    }
    return t;
}

static inline void must_be_labels(const struct dataset *d)
{
    MUST(d->labels.n == d->num_labels);
    MUST(!d->classes == (d->task != TASK_CLASS));
    MUST(!d->values == (d->task != TASK_REGRESSION && d->task != TASK_MULTI_LABEL));
    for (int64_t r = 0; d->classes && r < d->n_rows; r++)
        MUST(d->classes[r] >= 0 && d->classes[r] < d->num_labels);
    for (int64_t i = 0; d->values && i < d->n_rows * d->num_labels; i++)
        MUST(isfinite(d->values[i]) && (d->task == TASK_REGRESSION || (d->values[i] >= 0 && d->values[i] <= 1)));
    for (int32_t i = 0; i < d->num_labels; i++)
        MUST(label_map_find(&d->labels, d->labels.names[i]) == i);
}

static inline void must_be_rows(const struct dataset *d, const struct dataset_options *o)
{
    int32_t longest = 0, vocabulary = tokenizer_vocab_size(o->tokenizer);
    MUST(d->n_rows > 0 && d->offsets[0] == 0 && d->offsets[d->n_rows] == d->n_tokens);
    for (int64_t r = 0; r < d->n_rows; r++) {
        MUST(d->offsets[r + 1] > d->offsets[r] && dataset_length(d, r) <= o->max_length);
        longest = dataset_length(d, r) > longest ? dataset_length(d, r) : longest;
    }
    MUST(d->longest == longest);
    for (int64_t i = 0; i < d->n_tokens; i++)
        MUST(d->ids[i] >= 0 && d->ids[i] < vocabulary && d->ids[i] <= d->max_id);
    for (int64_t i = 0; i < d->n_tokens && d->types; i++)
        MUST(d->types[i] <= d->max_type);
    MUST(d->truncated >= 0 && d->truncated <= d->n_rows && d->empty >= 0 && d->ignored >= 0);
    must_be_labels(d);
}

#endif
