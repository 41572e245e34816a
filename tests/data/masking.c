/* data/masking, and the targets of language models in batches. */
#include "loader_fixture.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_tokens_are_the_targets),
        cmocka_unit_test(masks_are_those_recorded),
        cmocka_unit_test(masks_have_the_right_shares),
    };
    return cmocka_run_group_tests_name("masking", tests, NULL, NULL);
}
