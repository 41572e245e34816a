/* What a query sees and how scores are capped, in closed form. Queries and keys are all the same, so all scores are one
 * number s, and a query gives each of the n keys that it sees the weight 1 / n: with the unit vectors as values, a row of
 * o shows which. Its lse is s + log n. */
#include "checks.h"
#include "graph/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH = 9 }; /* rows, and elements of a head */

static void check_rows(int causal, int window, double softcap)
{
    double qkv[LENGTH][3][LENGTH], o[LENGTH][LENGTH], lse[LENGTH], s = 0.5 * LENGTH * 4;
    int32_t cu[2] = {0, LENGTH};
    memset(qkv, 0, sizeof qkv);
    for (int i = 0; i < LENGTH; i++) {
        for (int d = 0; d < LENGTH; d++)
            qkv[i][0][d] = qkv[i][1][d] = 2;
        qkv[i][2][i] = 1;
    }
    struct args_attention a = {.qkv = {.data = qkv, .dtype = DT_F64, .ndim = 2, .shape = {LENGTH, 3 * LENGTH}},
                               .cu = {.data = cu, .dtype = DT_I32, .ndim = 1, .shape = {2}},
                               .o = {.data = o, .dtype = DT_F64, .ndim = 2, .shape = {LENGTH, LENGTH}},
                               .lse = {.data = lse, .dtype = DT_F64, .ndim = 2, .shape = {1, LENGTH}},
                               .heads = 1,
                               .kv_heads = 1,
                               .causal = causal,
                               .scale = 0.5,
                               .window = window,
                               .softcap = softcap};
    ref_attention(&a, NULL);
    if (softcap > 0)
        s = softcap * (1 - 2 / (exp(2 * s / softcap) + 1));
    for (int i = 0; i < LENGTH; i++) {
        int seen = 0;
        for (int j = 0; j < LENGTH; j++)
            seen += (window == 0 || abs(i - j) < window) && !(causal && j > i);
        assert_true(fabs(lse[i] - (s + log(seen))) < 1e-12);
        for (int j = 0; j < LENGTH; j++) {
            bool sees = (window == 0 || abs(i - j) < window) && !(causal && j > i);
            assert_true(fabs(o[i][j] - (sees ? 1.0 / seen : 0)) < 1e-15);
        }
    }
}

/* 4 D operations for each key that a query sees; the formula takes half of the diagonal. */
static void check_flops(int causal, int window)
{
    struct args_attention a = {.cu = {.ndim = 1, .shape = {2}},
                               .o = {.ndim = 2, .shape = {1000, 8}},
                               .heads = 1,
                               .kv_heads = 1,
                               .causal = causal,
                               .window = window};
    double seen = 0;
    for (int i = 0; i < 1000; i++)
        for (int j = 0; j < 1000; j++)
            seen += (window == 0 || abs(i - j) < window) && !(causal && j > i);
    assert_true(fabs(flops_attention(&a) / (4 * 8 * seen) - 1) < 0.01);
}

void test_attention(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int window = 0; window <= LENGTH + 1; window++) {
            check_rows(causal, window, 0);
            check_rows(causal, window, 7);
        }
    for (int causal = 0; causal < 2; causal++)
        for (int window = 0; window <= 1100; window += 100)
            check_flops(causal, window);
}
