/* data/loader, batch, masking, eval_loader: what is in the batches of a step, however they are cut, sought or timed. */
#include "data/loader.h"
#include "../failing_memory.h"

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

static int64_t row_length(int64_t row)
{
    return 1 + row * 7 % 23;
}

static int32_t row_id(int64_t row, int64_t i)
{
    return (int32_t)((row * 29 + i * 3) % VOCABULARY);
}

static void make(struct fixture *f, enum data_task task, int64_t rows, enum order_kind kind, int64_t step_rows)
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

static void unmake(struct fixture *f)
{
    order_close(&f->o);
    dataset_close(&f->d);
}

static struct loader_options options(const struct fixture *f, int32_t batch, int32_t accumulation)
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

static struct loader *open_loader(const struct loader_options *o)
{
    struct loader *l;
    struct snug_err e;
    if (loader_open(o, &l, &e))
        fail_msg("%s", e.text);
    return l;
}

static const struct window *next(struct loader *l)
{
    const struct window *w;
    struct snug_err e;
    if (loader_next(l, &w, &e))
        fail_msg("%s", e.text);
    return w;
}

/* Everything that a window's samples are, without the places where it is cut. */
static struct hash128 content(const struct window *w)
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

static void check_sequence(const struct batch *b, int32_t i)
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

/* Windows of two epochs of `rows` rows: sizes by arithmetic, contents by row. */
static void check_epochs(int64_t rows, int32_t batch, int32_t accumulation, bool drop_last)
{
    struct fixture f;
    make(&f, TASK_CLASS, rows, ORDER_RANDOM, 0);
    struct loader_options o = options(&f, batch, accumulation);
    o.drop_last = drop_last;
    int64_t full = rows / (batch * accumulation), rest = rows % (batch * accumulation);
    int64_t steps = full + (rest && !drop_last);
    assert_int_equal(loader_steps_per_epoch(rows, batch, accumulation, drop_last), steps);
    o.end_step = 2 * steps;
    struct loader *l = open_loader(&o);
    for (int64_t step = 0; step < 2 * steps; step++) {
        const struct window *w = next(l);
        int64_t in_epoch = step % steps, want = in_epoch < full ? batch * accumulation : rest, done = 0;
        assert_int_equal(w->step, step);
        assert_int_equal(w->epoch, step / steps);
        assert_int_equal(w->epoch_step, in_epoch);
        assert_int_equal(w->ends_epoch, in_epoch == steps - 1);
        assert_int_equal(w->n_samples, want);
        assert_int_equal(w->n_targets, want);
        assert_int_equal(w->n_micro, (want + batch - 1) / batch);
        for (int32_t m = 0; m < w->n_micro; m++) {
            const struct batch *b = &w->micro[m];
            assert_int_equal(b->B, want - done < batch ? want - done : batch);
            assert_int_equal(b->T, b->cu_seqlens[b->B]);
            assert_int_equal(b->cu_seqlens[0], 0);
            for (int32_t i = 0; i < b->B; i++, done++) {
                assert_int_equal(b->sample[i], done);
                assert_int_equal(b->rows[i], order_row(&f.o, step / steps, in_epoch * batch * accumulation + done));
                assert_int_equal(b->classes[i], b->rows[i] % 3);
                check_sequence(b, i);
            }
        }
    }
    assert_null(next(l));
    assert_null(next(l));
    loader_close(l);
    unmake(&f);
}

static void windows_are_cut_by_arithmetic(void **state)
{
    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        check_epochs(50, 4, 4, drop); /* 16, 16, 16, 2 */
        check_epochs(48, 4, 4, drop); /* no rest */
        check_epochs(21, 4, 4, drop); /* the last window has a full and a short micro-batch */
        check_epochs(7, 1, 1, drop);
        check_epochs(100, 7, 3, drop);
    }
    check_epochs(5, 5, 8, false); /* one short window is the whole epoch */
}

static void contents_of(const struct fixture *f, int32_t batch, int32_t accumulation, int64_t start, int32_t prefetch,
                        struct hash128 *out, int n)
{
    struct loader_options o = options(f, batch, accumulation);
    o.start_step = start;
    o.end_step = start + n;
    o.prefetch = prefetch;
    struct loader *l = open_loader(&o);
    for (int i = 0; i < n; i++)
        out[i] = content(next(l));
    loader_close(l);
}

/* The same samples with the same sample indices, labels, masks and N for any cut, and from any starting step. */
static void cut_and_start_do_not_show(void **state)
{
    (void)state;
    static const enum data_task tasks[] = {TASK_CLASS, TASK_MULTI_LABEL, TASK_MASKED_LM, TASK_CAUSAL_LM};
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
        for (int kind = 0; kind < ORDER_COUNT; kind++) {
            enum { STEPS = 20 };
            struct fixture f;
            struct hash128 one[STEPS], other[STEPS];
            make(&f, tasks[t], 135, (enum order_kind)kind, 16); /* 9 steps an epoch, the last of 7 rows */
            contents_of(&f, 16, 1, 0, 0, one, STEPS);
            static const int32_t batches[] = {8, 4, 2, 1};
            for (int i = 0; i < 4; i++) {
                contents_of(&f, batches[i], 16 / batches[i], 0, 1 + i * 3, other, STEPS);
                assert_memory_equal(one, other, sizeof one);
            }
            for (int start = 1; start < STEPS; start += 4) {
                contents_of(&f, 4, 4, start, 0, other, STEPS - start);
                assert_memory_equal(one + start, other, (size_t)(STEPS - start) * sizeof *one);
            }
            contents_of(&f, 16, 1, 900000000000, 0, other, 1); /* 10^11 epochs on, at once */
            assert_true(memcmp(&one[0], &other[0], sizeof *one) != 0);
            unmake(&f);
        }
    }
}

static void next_tokens_are_the_targets(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_CAUSAL_LM, 3, ORDER_SEQUENTIAL, 0); /* rows of 1, 8 and 15 tokens */
    struct loader_options o = options(&f, 3, 1);
    struct loader *l = open_loader(&o);
    const struct window *w = next(l);
    const struct batch *b = w->micro;
    assert_int_equal(w->n_targets, 0 + 7 + 14);
    for (int32_t i = 0; i < 3; i++)
        for (int32_t t = b->cu_seqlens[i]; t < b->cu_seqlens[i + 1]; t++)
            assert_int_equal(b->targets[t], t + 1 < b->cu_seqlens[i + 1] ? b->ids[t + 1] : IGNORE_INDEX);
    loader_close(l);
    /* given labels are shifted too, and those that are ignored do not count */
    f.d.targets = mem_alloc((size_t)f.d.n_tokens * sizeof *f.d.targets);
    for (int64_t i = 0; i < f.d.n_tokens; i++)
        f.d.targets[i] = i < 5 ? IGNORE_INDEX : (int32_t)(1000 + i);
    l = open_loader(&o);
    w = next(l);
    b = w->micro;
    assert_int_equal(w->n_targets, 4 + 14); /* labels 5 to 8 in the second row, 10 to 23 in the third */
    assert_int_equal(b->targets[0], IGNORE_INDEX);
    assert_int_equal(b->targets[3], IGNORE_INDEX);
    assert_int_equal(b->targets[4], 1005);
    assert_int_equal(b->targets[8], IGNORE_INDEX);
    assert_int_equal(b->targets[9], 1010);
    loader_close(l);
    /* masked language models take them as they are */
    f.d.task = TASK_MASKED_LM;
    l = open_loader(&o);
    w = next(l);
    assert_int_equal(w->n_targets, 19);
    assert_memory_equal(w->micro->targets, f.d.targets, 24 * sizeof(int32_t));
    assert_memory_equal(w->micro->ids, f.d.ids, 24 * sizeof(int32_t));
    loader_close(l);
    unmake(&f);
}

static void masks_are_those_recorded(void **state)
{
    (void)state;
    static const int32_t special[] = {0, 1, 2, 3, 4};
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/masking/cases.json", getenv("SNUG_SOURCE"));
    json_t *cases = json_load_file(path, 0, NULL), *c;
    assert_int_equal(json_array_size(cases), 5);
    struct dataset d = {.task = TASK_MASKED_LM, .max_id = 99};
    size_t k;
    json_array_foreach(cases, k, c)
    {
        struct masker m;
        struct masking o = {(float)json_number_value(json_object_get(c, "probability")), 4, 100, special, 5};
        uint64_t seed = strtoull(json_string_value(json_object_get(c, "seed")), NULL, 10);
        assert_int_equal(masking_open(&m, &d, &o, seed, NULL), 0);
        int64_t row = json_integer_value(json_object_get(c, "row"));
        int32_t ids[60], targets[60];
        for (int32_t i = 0; i < 60; i++)
            ids[i] = i == 0 ? 2 : i == 59 ? 3 : (int32_t)(5 + (row * 31 + (i - 1) * 17) % 95);
        masking_apply(&m, json_integer_value(json_object_get(c, "epoch")), row, ids, targets, 60);
        for (size_t i = 0; i < 60; i++) {
            assert_int_equal(ids[i], json_integer_value(json_array_get(json_object_get(c, "ids"), i)));
            assert_int_equal(targets[i], json_integer_value(json_array_get(json_object_get(c, "targets"), i)));
        }
        masking_close(&m);
    }
    json_decref(cases);
}

/* Shares of hidden, replaced and kept tokens over 10^6 tokens, within five standard deviations. */
static void masks_have_the_right_shares(void **state)
{
    (void)state;
    enum { N = 1000000 };
    struct masker m;
    struct dataset d = {.task = TASK_MASKED_LM, .max_id = 9};
    struct masking o = {.mask_id = 4, .vocab_size = 10};
    assert_int_equal(masking_open(&m, &d, &o, 1, NULL), 0);
    int32_t *ids = malloc(N * sizeof *ids), *targets = malloc(N * sizeof *targets);
    for (int i = 0; i < N; i++)
        ids[i] = 7;
    masking_apply(&m, 0, 5, ids, targets, N);
    double hidden = 0, masked = 0, other = 0;
    for (int i = 0; i < N; i++) {
        hidden += targets[i] == 7;
        masked += targets[i] == 7 && ids[i] == 4;
        other += targets[i] == 7 && ids[i] != 4 && ids[i] != 7;
    }
    assert_true(hidden > 150000 - 1800 && hidden < 150000 + 1800);
    assert_true(masked / hidden > 0.81 - 0.0055 && masked / hidden < 0.81 + 0.0055); /* 0.8, and 0.1 / 10 by chance */
    assert_true(other / hidden > 0.08 - 0.004 && other / hidden < 0.08 + 0.004);
    masking_close(&m);
    free(ids);
    free(targets);
}

static void largest_batches_are_known(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_CLASS, 46, ORDER_BY_LENGTH, 6); /* each length from 1 to 23 twice */
    assert_int_equal(loader_max_tokens(&f.d, 1), 23);
    assert_int_equal(loader_max_tokens(&f.d, 3), 23 + 23 + 22);
    assert_int_equal(loader_max_tokens(&f.d, 46), 2 * 23 * 24 / 2);
    assert_int_equal(loader_max_tokens(&f.d, 1000), 2 * 23 * 24 / 2);
    struct loader_options o = options(&f, 3, 2);
    struct loader *l = open_loader(&o);
    for (int i = 0; i < 40; i++) {
        const struct window *w = next(l);
        for (int m = 0; m < w->n_micro; m++) {
            assert_true(w->micro[m].T <= 23 + 23 + 22);
            if (w->epoch_step == 0 && m == 0) /* grouped by length, the longest row comes first */
                assert_int_equal(w->micro[0].cu_seqlens[1], 23);
        }
    }
    loader_close(l);
    unmake(&f);
}

static void refused(void **state)
{
    (void)state;
    struct fixture f;
    struct snug_err e;
    struct loader *l;
    make(&f, TASK_CLASS, 5, ORDER_RANDOM, 0);
    struct loader_options o = options(&f, 2, 4); /* D19 */
    o.drop_last = true;
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_USAGE);
    assert_non_null(strstr(e.text, "--dataloader-drop-last: 5 rows do not fill one step of 8 rows"));
    o = options(&f, 0, 1);
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_USAGE);
    f.d.task = TASK_MASKED_LM;
    o = options(&f, 2, 1);
    o.masking.mask_id = -1;
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_INPUT);
    o = options(&f, 2, 1);
    o.masking.probability = 1.5f;
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_USAGE);
    o = options(&f, 2, 1);
    o.masking.vocab_size = 50;
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "token id 99 is not in the vocabulary of 50"));
    unmake(&f);
}

/* As in the Trainer: one step an epoch, with all there is; whatever the order, and each row once. */
static void less_than_a_batch_is_a_short_batch(void **state)
{
    (void)state;
    for (int kind = 0; kind < ORDER_COUNT; kind++) {
        struct fixture f;
        make(&f, TASK_CLASS, 5, (enum order_kind)kind, 32);
        struct loader_options o = options(&f, 8, 4);
        assert_int_equal(loader_steps_per_epoch(5, 8, 4, false), 1);
        struct loader *l = open_loader(&o);
        for (int64_t step = 0; step < 3; step++) {
            const struct window *w = next(l);
            int seen = 0;
            assert_int_equal(w->epoch, step);
            assert_true(w->ends_epoch);
            assert_int_equal(w->n_micro, 1);
            assert_int_equal(w->n_samples, 5);
            assert_int_equal(w->micro[0].B, 5);
            for (int i = 0; i < 5; i++)
                seen |= 1 << w->micro[0].rows[i];
            assert_int_equal(seen, 31);
        }
        loader_close(l);
        unmake(&f);
    }
}

/* The thread may be stopped at any time: before, while and after it waits. */
static void closing_early_is_fine(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_CLASS, 64, ORDER_RANDOM, 0);
    for (int i = 0; i < 60; i++) {
        struct loader_options o = options(&f, 2, 2);
        o.prefetch = 1 + i % 3;
        struct loader *l = open_loader(&o);
        for (int k = 0; k < i % 5; k++)
            assert_int_equal(next(l)->step, k);
        if (i % 2)
            nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        loader_close(l);
    }
    loader_close(NULL);
    unmake(&f);
}

/* A window in use is never written to, however far the thread is ahead. */
static void a_window_stays(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_CLASS, 64, ORDER_RANDOM, 0);
    struct loader_options o = options(&f, 4, 2);
    o.prefetch = 3;
    struct loader *l = open_loader(&o);
    for (int i = 0; i < 10; i++) {
        const struct window *w = next(l);
        struct hash128 before = content(w);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        struct hash128 after = content(w);
        assert_memory_equal(&before, &after, sizeof before);
    }
    loader_close(l);
    unmake(&f);
}

/* Every allocation fails once, in loader_open or later in the thread: an error, and nothing is lost. */
static void memory_runs_out(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_MASKED_LM, 64, ORDER_BY_LENGTH, 8);
    struct loader_options o = options(&f, 4, 2);
    o.end_step = 5;
    o.prefetch = 1;
    bool failed = true;
    for (long k = 1; failed && k <= 200; k++) {
        struct snug_err e = {0};
        struct loader *l;
        const struct window *w;
        struct failing_memory memory;
        failing_memory_set(&memory, k, false);
        int code = loader_open(&o, &l, &e);
        for (int i = 0; !code && i < 5; i++)
            code = loader_next(l, &w, &e);
        loader_close(l);
        mem_set_ops(NULL);
        failed = failing_memory_hit(&memory);
        assert_int_equal(code, failed ? SNUG_ERR_ENV : 0);
    }
    assert_false(failed);
    unmake(&f);
}

static void evaluation_sees_each_row_once(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_CLASS, 100, ORDER_SEQUENTIAL, 0);
    static const struct {
        int32_t rows;
        int64_t tokens;
    } cases[] = {{8, 0}, {8, 100}, {1, 23}, {1000, 0}, {1000, 64}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct eval_loader *e;
        assert_int_equal(eval_open(&f.d, cases[c].rows, cases[c].tokens, 42, &(struct masking){0}, &e, NULL), 0);
        for (int pass = 0; pass < 2; pass++) {
            int seen[100] = {0}, rows = 0, largest_rows = 0;
            int64_t largest_tokens = 0, before = 23, tokens = 0;
            for (const struct batch *b; (b = eval_next(e)); rows += b->B) {
                for (int32_t i = 0; i < b->B; i++) {
                    seen[b->rows[i]]++;
                    assert_true(row_length(b->rows[i]) <= before); /* longest first */
                    before = row_length(b->rows[i]);
                    assert_int_equal(b->classes[i], b->rows[i] % 3);
                    assert_int_equal(b->sample[i], i);
                    check_sequence(b, i);
                }
                largest_rows = b->B > largest_rows ? b->B : largest_rows;
                largest_tokens = b->T > largest_tokens ? b->T : largest_tokens;
                tokens += b->T;
                assert_true(b->B <= cases[c].rows);
                assert_true(!cases[c].tokens || b->T <= cases[c].tokens);
            }
            for (int i = 0; i < 100; i++)
                assert_int_equal(seen[i], 1);
            assert_int_equal(rows, 100);
            assert_int_equal(tokens, f.d.n_tokens);
            assert_int_equal(eval_max_tokens(e), largest_tokens);
            assert_int_equal(eval_max_rows(e), largest_rows);
            eval_rewind(e);
        }
        eval_close(e);
    }
    struct eval_loader *e;
    struct snug_err err;
    assert_int_equal(eval_open(&f.d, 8, 22, 42, &(struct masking){0}, &e, &err), SNUG_ERR_USAGE);
    assert_non_null(strstr(err.text, "the longest row has 23 tokens, over the 22 of an evaluation batch"));
    assert_int_equal(eval_open(&f.d, 0, 0, 42, &(struct masking){0}, &e, &err), SNUG_ERR_USAGE);
    unmake(&f);
}

/* The masks of an evaluation are the same each time and for each batch size. */
static void evaluation_masks_are_fixed(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_MASKED_LM, 40, ORDER_SEQUENTIAL, 0);
    struct masking m = options(&f, 1, 1).masking;
    int64_t targets[2] = {0}, sum[2] = {0};
    for (int k = 0; k < 2; k++) {
        struct eval_loader *e;
        assert_int_equal(eval_open(&f.d, k ? 3 : 16, 0, 42, &m, &e, NULL), 0);
        for (const struct batch *b; (b = eval_next(e));) {
            targets[k] += b->n_targets;
            for (int32_t i = 0; i < b->B; i++)
                for (int32_t t = b->cu_seqlens[i]; t < b->cu_seqlens[i + 1]; t++)
                    sum[k] += (b->rows[i] + 1) * (b->positions[t] + 1) * (b->ids[t] + 7 * (b->targets[t] + 100));
        }
        eval_close(e);
    }
    assert_true(targets[0] > 0);
    assert_int_equal(targets[0], targets[1]);
    assert_int_equal(sum[0], sum[1]);
    unmake(&f);
}

/* Steps of 4 rows, and from step 3 on of 3 times 2: of an epoch each row is there once, whatever the order. */
static void other_rows_a_step(void **state)
{
    (void)state;
    for (enum order_kind kind = 0; kind < ORDER_COUNT; kind++) {
        enum { ROWS = 67, CHANGE = 3 };
        struct fixture f;
        int seen[2][ROWS] = {{0}};
        make(&f, TASK_CLASS, ROWS, kind, 4);
        struct loader_options before = options(&f, 4, 1), after = options(&f, 3, 2);
        before.end_step = after.start_step = after.from_step = CHANGE;
        after.from_row = CHANGE * 4;
        after.end_step = CHANGE + 10 + 12; /* 55 rows of the first epoch, and the second */
        for (int part = 0; part < 2; part++) {
            struct loader *l = open_loader(part ? &after : &before);
            for (const struct window *w; (w = next(l));) {
                assert_int_equal(w->ends_epoch, w->step + 1 == CHANGE + 10 || w->step + 1 == CHANGE + 22);
                for (int32_t m = 0; m < w->n_micro; m++)
                    for (int32_t i = 0; i < w->micro[m].B; i++)
                        seen[w->epoch][w->micro[m].rows[i]]++;
            }
            loader_close(l);
        }
        for (int row = 0; row < ROWS; row++)
            assert_true(seen[0][row] == 1 && seen[1][row] == 1);
        unmake(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_rows_a_step),
        cmocka_unit_test(windows_are_cut_by_arithmetic),
        cmocka_unit_test(cut_and_start_do_not_show),
        cmocka_unit_test(next_tokens_are_the_targets),
        cmocka_unit_test(masks_are_those_recorded),
        cmocka_unit_test(masks_have_the_right_shares),
        cmocka_unit_test(largest_batches_are_known),
        cmocka_unit_test(refused),
        cmocka_unit_test(less_than_a_batch_is_a_short_batch),
        cmocka_unit_test(closing_early_is_fine),
        cmocka_unit_test(a_window_stays),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(evaluation_sees_each_row_once),
        cmocka_unit_test(evaluation_masks_are_fixed),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
