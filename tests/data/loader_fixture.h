/* loader_fixture.h: data whose ids tell row and position, and a loader over them. */
#ifndef TEST_DATA_LOADER_FIXTURE_H
#define TEST_DATA_LOADER_FIXTURE_H

#include "../failing_memory.h"
#include "data/loader.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { VOCABULARY = 100 };

/* Rows of lengths 1 to 23 whose ids tell row and position; label r % 3, types 0 and 1. */
struct fixture {
    struct dataset d;
    struct order o;
};

static inline int64_t row_length(int64_t row)
{
    return 1 + row * 7 % 23;
}

static inline int32_t row_id(int64_t row, int64_t i)
{
    return (int32_t)((row * 29 + i * 3) % VOCABULARY);
}

static inline void make(struct fixture *f, enum data_task task, int64_t rows, enum order_kind kind, int64_t step_rows)
{
    struct dataset *d = &f->d;
    *d = (struct dataset){.task = task, .n_rows = rows, .longest = 23, .max_id = VOCABULARY - 1};
    d->num_labels = task == TASK_CLASS ? 3 : task == TASK_MULTI_LABEL ? 2 : 0;
    d->offsets = mem_alloc((size_t)(rows + 1) * sizeof *d->offsets);
    for (int64_t r = 0; r < rows; r++)
        d->offsets[r + 1] = d->offsets[r] + row_length(r);
    d->n_tokens = d->offsets[rows];
    d->ids = mem_alloc((size_t)d->n_tokens * sizeof *d->ids);
    d->types = mem_alloc((size_t)d->n_tokens);
    d->classes = task == TASK_CLASS ? mem_alloc((size_t)rows * sizeof *d->classes) : NULL;
    d->values = task == TASK_MULTI_LABEL ? mem_alloc((size_t)rows * 2 * sizeof *d->values) : NULL;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < row_length(r); i++) {
            d->ids[d->offsets[r] + i] = row_id(r, i);
            d->types[d->offsets[r] + i] = (uint8_t)(i & 1);
        }
        if (d->classes)
            d->classes[r] = (int32_t)(r % 3);
        if (d->values)
            d->values[2 * r] = (float)r, d->values[2 * r + 1] = (float)-r;
    }
    assert_int_equal(order_open(&f->o, kind, rows, 42, d->offsets, step_rows, NULL), 0);
}

static inline void unmake(struct fixture *f)
{
    order_close(&f->o);
    dataset_close(&f->d);
}

static inline struct loader_options options(const struct fixture *f, int32_t batch, int32_t accumulation)
{
    static const int32_t special[] = {0, 1, 2, 3, 4};
    return (struct loader_options){
        .data = &f->d,
        .order = &f->o,
        .batch_size = batch,
        .accumulation = accumulation,
        .end_step = INT64_MAX,
        .seed = 42,
        .masking = {.mask_id = 4, .vocab_size = VOCABULARY, .special_ids = special, .n_special = 5},
    };
}

static inline struct loader *open_loader(const struct loader_options *o)
{
    struct loader *l;
    struct snug_err e;
    if (loader_open(o, &l, &e))
        fail_msg("%s", e.text);
    return l;
}

static inline const struct window *next(struct loader *l)
{
    const struct window *w;
    struct snug_err e;
    if (loader_next(l, &w, &e))
        fail_msg("%s", e.text);
    return w;
}

/* Everything that a window's samples are, without the places where it is cut. */
static inline struct hash128 content(const struct window *w)
{
    struct hash_state *h = hash_new();
    hash_add(h, &w->step, sizeof w->step);
    hash_add(h, &w->n_targets, sizeof w->n_targets);
    for (int32_t m = 0; m < w->n_micro; m++) {
        const struct batch *b = &w->micro[m];
        for (int32_t i = 0; i < b->B; i++) {
            int32_t from = b->cu_seqlens[i], n = b->cu_seqlens[i + 1] - from;
            hash_add(h, &b->sample[i], sizeof *b->sample);
            hash_add(h, &b->rows[i], sizeof *b->rows);
            hash_add(h, b->ids + from, (size_t)n * sizeof *b->ids);
            hash_add(h, b->positions + from, (size_t)n * sizeof *b->positions);
            hash_add(h, b->types + from, (size_t)n * sizeof *b->types);
            if (b->classes)
                hash_add(h, &b->classes[i], sizeof *b->classes);
            if (b->values)
                hash_add(h, &b->values[2 * i], 2 * sizeof *b->values);
            if (b->targets)
                hash_add(h, b->targets + from, (size_t)n * sizeof *b->targets);
        }
    }
    return hash_end(h);
}

static inline void check_sequence(const struct batch *b, int32_t i)
{
    int64_t row = b->rows[i];
    int32_t from = b->cu_seqlens[i];
    assert_int_equal(b->cu_seqlens[i + 1] - from, row_length(row));
    for (int32_t t = 0; t < row_length(row); t++) {
        assert_int_equal(b->ids[from + t], row_id(row, t));
        assert_int_equal(b->positions[from + t], t);
        assert_int_equal(b->types[from + t], t & 1);
    }
}

#endif
