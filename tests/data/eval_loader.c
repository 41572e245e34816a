/* data/eval_loader: batches of an evaluation. */
#include "loader_fixture.h"

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
            assert_int_equal(eval_largest(e).T, largest_tokens);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_sees_each_row_once),
        cmocka_unit_test(evaluation_masks_are_fixed),
    };
    return cmocka_run_group_tests_name("eval_loader", tests, NULL, NULL);
}
