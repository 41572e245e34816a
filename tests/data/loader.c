/* data/loader and batch: what is in the batches of a step, however they are cut, sought or timed. */
#include "loader_fixture.h"

/* Windows of two epochs of `all` rows: sizes by arithmetic, contents by row. */
static void check_epochs(int64_t all, int32_t batch, int32_t accumulation, bool drop)
{
    int64_t rows = drop ? all / batch * batch : all;
    struct fixture f;
    make(&f, TASK_CLASS, all, ORDER_RANDOM, 0);
    struct loader_options o = options(&f, batch, accumulation);
    o.drop_below = drop ? batch : 0;
    int64_t full = rows / (batch * accumulation), rest = rows % (batch * accumulation);
    int64_t steps = full + (rest > 0);
    assert_int_equal(loader_steps_per_epoch(all, batch, accumulation, o.drop_below), steps);
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
        check_epochs(43, 4, 3, drop); /* 12, 12, 12, and 7, of which 4 make a whole micro-batch */
        check_epochs(43, 8, 8, drop); /* one short window is the whole epoch */
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

/* With several ranks: each row of the window once, under the index that it has without them; as many micro-batches for each rank, with
 * about as many tokens; and the largest is known before. */
static void check_dealt(int64_t all, int32_t batch, int32_t accumulation, int32_t ranks, bool drop)
{
    int64_t rows = drop ? all / (batch * ranks) * (batch * ranks) : all;
    struct fixture f;
    struct token_count planned;
    int64_t most = 0, dealt_spread = 0, cut_spread = 0;
    make(&f, TASK_CLASS, all, ORDER_RANDOM, 0);
    struct loader_options o = options(&f, batch, accumulation * ranks);
    o.drop_below = drop ? batch * ranks : 0;
    int64_t step_rows = (int64_t)batch * accumulation * ranks, steps = (rows + step_rows - 1) / step_rows, size = batch;
    o.end_step = 2 * steps;
    struct loader *whole = open_loader(&o);
    o.ranks = ranks;
    struct loader *l = open_loader(&o);
    for (int64_t step = 0; step < 2 * steps; step++) {
        const struct window *w = next(l), *v = next(whole);
        int64_t least = INT64_MAX, largest = 0;
        bool full = w->n_samples == step_rows;
        bool seen[101] = {false};
        assert_true(w->n_samples == v->n_samples && w->n_tokens == v->n_tokens && w->n_targets == v->n_targets);
        assert_true(w->n_micro == v->n_samples || w->n_micro % ranks == 0);
        for (int32_t m = 0; m < w->n_micro; m++) {
            int32_t T = w->micro[m].T;
            assert_in_range(w->micro[m].B, drop ? batch : 1, batch);
            for (int32_t i = 0; i < w->micro[m].B; i++) {
                int32_t sample = w->micro[m].sample[i];
                assert_true(sample >= 0 && sample < w->n_samples && !seen[sample]);
                seen[sample] = true;
                assert_int_equal(w->micro[m].rows[i], order_row(&f.o, w->epoch, w->epoch_step * step_rows + sample));
                check_sequence(&w->micro[m], i);
            }
            least = T < least ? T : least;
            largest = T > largest ? T : largest;
        }
        most = largest > most ? largest : most;
        dealt_spread += full ? largest - least : 0;
        least = INT64_MAX, largest = 0;
        for (int32_t m = 0; m < v->n_micro; m++) {
            least = v->micro[m].T < least ? v->micro[m].T : least;
            largest = v->micro[m].T > largest ? v->micro[m].T : largest;
        }
        cut_spread += full ? largest - least : 0;
    }
    assert_int_equal(loader_largest(&o, &size, 1, NULL, &planned, NULL), SNUG_OK);
    assert_int_equal(planned.T, most);
    assert_int_equal(planned.S, 0);
    assert_int_equal(loader_steps_per_epoch(all, batch, accumulation * ranks, o.drop_below), steps);
    assert_true(batch == 1 || !cut_spread || 8 * dealt_spread < cut_spread);
    loader_close(whole);
    loader_close(l);
    unmake(&f);
}

static void ranks_have_as_many_tokens(void **state)
{
    (void)state;
    check_dealt(100, 4, 1, 2, false);
    check_dealt(100, 6, 2, 3, false);
    check_dealt(101, 8, 1, 4, false); /* 5 rows in the last window */
    check_dealt(67, 8, 2, 4, false);  /* 3, for 4 ranks */
    check_dealt(50, 1, 3, 2, false);
    check_dealt(7, 4, 1, 2, false);  /* all rows are less than a window */
    check_dealt(100, 6, 2, 3, true); /* 36, 36, and 18 of 28 */
    check_dealt(85, 8, 2, 2, true);  /* 32, 32, and 16 of 21 */
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

static void check_largest(const struct fixture *f, int32_t step_rows, const int64_t *sizes, int n, int64_t first,
                          int64_t drop_below)
{
    enum { STEPS = 30, MOST = 8 };
    struct token_count found[MOST];
    struct loader_options o = options(f, step_rows, 1);
    o.drop_below = drop_below;
    o.start_step = first;
    o.end_step = STEPS;
    assert_int_equal(loader_largest(&o, sizes, n, NULL, found, NULL), SNUG_OK);
    for (int i = 0; i < n; i++) {
        int64_t largest = 0;
        o.batch_size = (int32_t)sizes[i];
        o.accumulation = (int32_t)(step_rows / sizes[i]);
        struct loader *l = open_loader(&o);
        for (const struct window *w; (w = next(l));)
            for (int32_t m = 0; m < w->n_micro; m++)
                largest = w->micro[m].T > largest ? w->micro[m].T : largest;
        loader_close(l);
        assert_int_equal(found[i].T, largest);
    }
}

/* Of every order and cut, with short last windows and without, from any step on: what the loader will give. */
static void largest_of_an_order_is_known(void **state)
{
    (void)state;
    static const int64_t sizes[] = {12, 6, 4, 3, 2, 1};
    for (int kind = 0; kind < ORDER_COUNT; kind++)
        for (int64_t drop = 0; drop <= 12; drop += 4) {
            struct fixture f;
            make(&f, TASK_CLASS, 77, (enum order_kind)kind, 12); /* 7 steps an epoch, the last of 5 rows */
            check_largest(&f, 12, sizes, 6, 0, drop);
            check_largest(&f, 12, sizes, 6, 23, drop);
            if (!drop)
                check_largest(&f, 96, (const int64_t[]){96, 24}, 2, 0, 0); /* an epoch is less than a window */
            unmake(&f);
        }
    /* what nobody will see is not counted: of these orders the longest rows do not come together */
    struct fixture f;
    struct token_count found;
    make(&f, TASK_CLASS, 46, ORDER_SEQUENTIAL, 6);
    struct loader_options o = options(&f, 6, 1);
    o.end_step = 8;
    assert_int_equal(loader_largest(&o, (const int64_t[]){6}, 1, NULL, &found, NULL), SNUG_OK);
    assert_true(found.T < loader_max_tokens(&f.d, 6));
    struct stop_flag stop = {.signal = 15};
    assert_int_equal(loader_largest(&o, (const int64_t[]){6}, 1, &stop, &found, NULL), SNUG_STOPPED);
    unmake(&f);
}

/* A limit of tokens cuts a window into more micro-batches: the rows and their order stay, and no micro-batch could have
 * taken the next row too. */
static void cut_by_tokens(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, TASK_CAUSAL_LM, 46, ORDER_RANDOM, 0);
    for (int64_t most = 23; most < 80; most += 19) {
        struct loader_options o = options(&f, 8, 2);
        struct loader *plain = open_loader(&o);
        o.max_tokens = most;
        struct loader *l = open_loader(&o);
        for (int step = 0; step < 5; step++) {
            const struct window *w = next(l), *whole = next(plain);
            int64_t rows[16], n = 0;
            for (int m = 0; m < whole->n_micro; m++)
                for (int b = 0; b < whole->micro[m].B; b++)
                    rows[n++] = whole->micro[m].rows[b];
            assert_int_equal(w->n_samples, n);
            assert_int_equal(w->n_targets, whole->n_targets);
            for (int m = 0, at = 0; m < w->n_micro; at += w->micro[m++].B) {
                const struct batch *b = &w->micro[m];
                assert_true(b->T <= most && b->B >= 1 && b->B <= 8);
                assert_memory_equal(b->rows, rows + at, (size_t)b->B * sizeof *rows);
                assert_int_equal(b->sample[0], at);
                if (at + b->B < n && b->B < 8)
                    assert_true(b->T + dataset_length(&f.d, rows[at + b->B]) > most);
            }
        }
        loader_close(l);
        loader_close(plain);
    }
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
    o.drop_below = 6;
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_USAGE);
    assert_string_equal(e.text, "--dataloader-drop-last: 5 rows do not fill one batch of 6 rows, all ranks' together; "
                                "leave the option out or use a smaller --per-device-train-batch-size");
    o = options(&f, 2, 1);
    o.max_tokens = 14; /* rows have 1, 8, 15, 22 and 6 tokens */
    f.d.longest = 22;
    assert_int_equal(loader_open(&o, &l, &e), SNUG_ERR_USAGE);
    assert_string_equal(e.text, "--max-tokens-per-batch 14: the longest row has 22 tokens; use at least as many, or a "
                                "smaller --max-length");
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
        assert_int_equal(loader_steps_per_epoch(5, 8, 4, 0), 1);
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
        cmocka_unit_test(ranks_have_as_many_tokens),
        cmocka_unit_test(largest_batches_are_known),
        cmocka_unit_test(largest_of_an_order_is_known),
        cmocka_unit_test(cut_by_tokens),
        cmocka_unit_test(refused),
        cmocka_unit_test(less_than_a_batch_is_a_short_batch),
        cmocka_unit_test(closing_early_is_fine),
        cmocka_unit_test(a_window_stays),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
