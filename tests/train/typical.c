/* A typical micro-batch: lengths of a small data set worked out by hand; every input in range. */
#include "train/forecast/typical.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Rows of 9, 1, 4, 2, 5 and 3 tokens: 24, 4 on the average, and the squares add up to 136. */
static int64_t offsets[] = {0, 9, 10, 14, 16, 21, 24};
static const struct dataset data = {.n_rows = 6, .n_tokens = 24, .longest = 9, .offsets = offsets};
static const struct model_config classifier = {
    .task = MODEL_SEQUENCE_CLASSIFICATION, .problem = PROBLEM_SINGLE_LABEL, .vocab_size = 7, .num_labels = 3};

static struct typical made(const struct model_config *m, const struct dataset *d, int64_t B, int64_t most)
{
    struct typical t;
    struct snug_err err;
    if (typical_open(&t, m, d, 5, 0, B, (struct dims){.T = most}, &err))
        fail_msg("%s", err.text);
    return t;
}

static void lengths_are(const struct batch *b, const int32_t *lengths)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < b->B; i++) {
        assert_int_equal(b->cu_seqlens[i + 1] - b->cu_seqlens[i], lengths[i]);
        longest = lengths[i] > longest ? lengths[i] : longest;
    }
    assert_int_equal(b->cu_seqlens[0], 0);
    assert_int_equal(b->cu_seqlens[b->B], b->T);
    assert_int_equal(b->longest, longest);
}

static void lengths_follow_the_data(void **state)
{
    (void)state;
    struct typical_lengths l = typical_lengths_of(&data);
    assert_true(l.mean == 4);
    assert_true(fabs(l.unevenness - 136.0 / 6 / 16) < 1e-15);

    struct typical t = made(&classifier, &data, 6, 24); /* all of them */
    lengths_are(&t.batch, (int32_t[]){1, 2, 3, 4, 5, 9});
    typical_close(&t);
    t = made(&classifier, &data, 3, 18); /* the second of each two, 15 tokens, made 12: 1.6, 3.2, 7.2 */
    lengths_are(&t.batch, (int32_t[]){2, 3, 7});
    typical_close(&t);
    t = made(&classifier, &data, 1, 9);
    lengths_are(&t.batch, (int32_t[]){4});
    typical_close(&t);
    t = made(&classifier, &data, 3, 10); /* no more than fit */
    lengths_are(&t.batch, (int32_t[]){2, 3, 5});
    typical_close(&t);
    t = made(&classifier, NULL, 2, 10);
    lengths_are(&t.batch, (int32_t[]){5, 5});
    typical_close(&t);
}

static void inputs_are_in_range(void **state)
{
    (void)state;
    struct model_config models[] = {classifier, classifier, classifier};
    models[1].task = MODEL_CAUSAL_LM;
    models[2].problem = PROBLEM_MULTI_LABEL;
    for (int m = 0; m < 3; m++) {
        struct typical t = made(&models[m], &data, 6, 24);
        const struct batch *b = &t.batch;
        bool seen[7] = {false};
        for (int32_t i = 0; i < b->T; i++) {
            assert_true(b->ids[i] >= 0 && b->ids[i] < 7);
            seen[b->ids[i]] = true;
        }
        for (int i = 0; i < 7; i++)
            assert_true(seen[i]);
        for (int32_t i = 0; i < b->B; i++)
            for (int32_t k = b->cu_seqlens[i]; k < b->cu_seqlens[i + 1]; k++)
                assert_int_equal(b->positions[k], k - b->cu_seqlens[i]);
        assert_int_equal(b->classes != NULL, m == 0);
        assert_int_equal(b->targets != NULL, m == 1);
        assert_int_equal(b->values != NULL, m == 2);
        assert_int_equal(b->n_targets, m == 1 ? 24 : 6);
        for (int32_t i = 0; b->classes && i < b->B; i++)
            assert_int_equal(b->classes[i], i % 3);
        typical_close(&t);
    }
}

/* A quarter of the tokens are sources', and each row has one of each kind. */
static void rows_are_divided(void **state)
{
    (void)state;
    static int32_t sources[] = {3, 0, 1, 0, 1, 1};
    struct dataset d = data;
    d.sources = sources;
    assert_true(typical_share(&d) == 0.25);
    assert_true(typical_share(&data) == 0);
    struct model_config m = classifier;
    m.task = MODEL_SEQ2SEQ_LM;
    struct typical t;
    assert_int_equal(typical_open(&t, &m, NULL, 8, 0.25, 3, (struct dims){.T = 17, .S = 6}, NULL), 0);
    assert_int_equal(t.batch.T, 17); /* 3 times 6, but for one that has no room */
    assert_int_equal(t.batch.S, 6);
    lengths_are(&t.batch, (int32_t[]){6, 6, 5});
    assert_memory_equal(t.batch.source_cu_seqlens, ((const int32_t[]){0, 2, 4, 6}), 4 * sizeof(int32_t));
    for (int i = 0; i < 6; i++) {
        assert_true(t.batch.source_ids[i] >= 0 && t.batch.source_ids[i] < 7);
        assert_int_equal(t.batch.source_positions[i], i % 2);
    }
    typical_close(&t);
    assert_int_equal(typical_open(&t, &m, NULL, 2, 0.01, 2, (struct dims){.T = 9, .S = 9}, NULL), 0);
    assert_int_equal(t.batch.T, 2);
    assert_int_equal(t.batch.S, 2);
    typical_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_follow_the_data),
        cmocka_unit_test(inputs_are_in_range),
        cmocka_unit_test(rows_are_divided),
    };
    return cmocka_run_group_tests_name("typical", tests, NULL, NULL);
}
