/* What a query sees and how scores are capped, in closed form. Queries and keys are all the same, so all scores are one
 * number s, and a query gives each of the n keys that it sees the weight 1 / n: with the unit vectors as values, a row of
 * o shows which. Its lse is s + log n. */
#include "cases.h"
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

/* Two sequences that come in pieces of uneven length give what attention gives of them whole. */
enum { HEADS = 4, KV_HEADS = 2, SIZE = 6, WIDTH = (HEADS + 2 * KV_HEADS) * SIZE, ROWS = 11 };

/* moved: rows are in each other's caches. */
static void check_pieces(int window, double softcap, bool moved)
{
    int32_t at[2][ROWS];
    static const int pieces[][2] = {{3, 1}, {1, 1}, {2, 5}, {1, 1}, {1, 2}, {3, 1}};
    double keys[2][ROWS][KV_HEADS * SIZE], values[2][ROWS][KV_HEADS * SIZE];
    double qkv[2 * ROWS][WIDTH], whole[2 * ROWS][HEADS * SIZE], lse[HEADS][2 * ROWS];
    int32_t cu[3] = {0, ROWS, 2 * ROWS}, past[2] = {0};
    for (int i = 0; i < 2 * ROWS; i++)
        for (int d = 0; d < WIDTH; d++)
            qkv[i][d] = random_normal(77, (uint32_t)i, (uint32_t)d);
    struct args_attention a = {.qkv = {.data = qkv, .dtype = DT_F64, .ndim = 2, .shape = {2 * ROWS, WIDTH}},
                               .cu = {.data = cu, .dtype = DT_I32, .ndim = 1, .shape = {3}},
                               .o = {.data = whole, .dtype = DT_F64, .ndim = 2, .shape = {2 * ROWS, HEADS * SIZE}},
                               .lse = {.data = lse, .dtype = DT_F64, .ndim = 2, .shape = {HEADS, 2 * ROWS}},
                               .heads = HEADS,
                               .kv_heads = KV_HEADS,
                               .causal = 1,
                               .scale = 0.4,
                               .window = window,
                               .softcap = softcap};
    ref_attention(&a, NULL);
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        double rows[ROWS][WIDTH], o[ROWS][HEADS * SIZE];
        int32_t now[3] = {0, pieces[k][0], pieces[k][0] + pieces[k][1]};
        for (int i = 0; i < 2 * ROWS; i++)
            at[i / ROWS][i % ROWS] = (i + (i % ROWS % 3 == 1) * ROWS) % (2 * ROWS);
        for (int b = 0; b < 2; b++)
            memcpy(rows[now[b]], qkv[b * ROWS + past[b]], sizeof *rows * (size_t)pieces[k][b]);
        struct tensor cache = {.dtype = DT_F64, .ndim = 3, .shape = {2, ROWS, KV_HEADS * SIZE}};
        struct args_attention_cached c = {.qkv = {.data = rows, .dtype = DT_F64, .ndim = 2, .shape = {now[2], WIDTH}},
                                          .cu = {.data = now, .dtype = DT_I32, .ndim = 1, .shape = {3}},
                                          .past = {.data = past, .dtype = DT_I32, .ndim = 1, .shape = {2}},
                                          .keys = cache,
                                          .values = cache,
                                          .o = {.data = o, .dtype = DT_F64, .ndim = 2, .shape = {now[2], HEADS * SIZE}},
                                          .heads = HEADS,
                                          .kv_heads = KV_HEADS,
                                          .scale = 0.4,
                                          .window = window,
                                          .softcap = softcap};
        if (moved)
            c.at = (struct tensor){.data = at, .dtype = DT_I32, .ndim = 2, .shape = {2, ROWS}};
        c.keys.data = keys;
        c.values.data = values;
        ref_attention_cached(&c, NULL);
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < pieces[k][b]; i++)
                for (int d = 0; d < HEADS * SIZE; d++)
                    assert_true(fabs(o[now[b] + i][d] - whole[b * ROWS + past[b] + i][d]) < 1e-13);
        for (int b = 0; b < 2; b++)
            past[b] += pieces[k][b];
    }
    assert_int_equal(past[0] + past[1], 2 * ROWS);
}

/* Targets in pieces, with a bias by distance, and to sources that come with the first of them: what attention_general gives. */
enum { SOURCE_ROWS = 7, BUCKETS = 6, FURTHEST = 9, INNER = HEADS * SIZE };

static struct tensor doubles(void *data, int64_t rows, int64_t width)
{
    return (struct tensor){.data = data, .dtype = DT_F64, .ndim = 2, .shape = {rows, width}};
}

static struct tensor caches(void *data, int64_t rows)
{
    return (struct tensor){.data = data, .dtype = DT_F64, .ndim = 3, .shape = {2, rows, INNER}};
}

static struct tensor ints(int32_t *data, int64_t n)
{
    return (struct tensor){.data = data, .dtype = DT_I32, .ndim = 1, .shape = {n}};
}

static void check_general_pieces(bool to_source, bool moved)
{
    int32_t at[2] = {SOURCE_ROWS, 0};
    static double keys[2][ROWS][INNER], values[2][ROWS][INNER], q[2 * ROWS][3 * INNER], kv[2 * SOURCE_ROWS][2 * INNER];
    static double whole[2 * ROWS][INNER], lse[HEADS][2 * ROWS], table[BUCKETS][HEADS];
    int32_t cu[3] = {0, ROWS, 2 * ROWS}, kv_cu[3] = {0, SOURCE_ROWS, 2 * SOURCE_ROWS}, none[3] = {0}, past[2] = {0};
    int32_t known[2] = {SOURCE_ROWS, SOURCE_ROWS};
    int64_t width = to_source ? INNER : 3 * INNER;
    for (int i = 0; i < 2 * ROWS * 3 * INNER; i++)
        (&q[0][0])[i] = random_normal(78, 0, (uint32_t)i);
    for (int i = 0; i < 2 * SOURCE_ROWS * 2 * INNER; i++)
        (&kv[0][0])[i] = random_normal(78, 1, (uint32_t)i);
    for (int i = 0; i < BUCKETS * HEADS; i++)
        (&table[0][0])[i] = random_normal(78, 2, (uint32_t)i);
    struct args_attention_general a = {.q = doubles(q, 2 * ROWS, width),
                                       .cu = ints(cu, 3),
                                       .o = doubles(whole, 2 * ROWS, INNER),
                                       .lse = doubles(lse, HEADS, 2 * ROWS),
                                       .heads = HEADS,
                                       .furthest = FURTHEST,
                                       .causal = !to_source,
                                       .scale = 0.4};
    if (to_source) {
        a.kv = doubles(kv, 2 * SOURCE_ROWS, 2 * INNER);
        a.kv_cu = ints(kv_cu, 3);
    } else
        a.table = doubles(table, BUCKETS, HEADS);
    ref_attention_general(&a, NULL);
    for (int k = 0; past[0] < ROWS; k++) {
        double rows[4][3 * INNER], o[4][INNER];
        int32_t first = past[0] + 2 > ROWS ? 1 : 2, now[3] = {0, first, first + (past[1] < ROWS)};
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < now[b + 1] - now[b]; i++)
                memcpy((double *)rows + (now[b] + i) * width, (double *)q + (b * ROWS + past[b] + i) * width,
                       sizeof(double) * (size_t)width);
        struct args_attention_cached c = {.qkv = doubles(rows, now[2], width),
                                          .table = a.table,
                                          .cu = ints(now, 3),
                                          .past = ints(to_source ? known : past, 2),
                                          .keys = caches(keys, to_source ? SOURCE_ROWS : ROWS),
                                          .values = caches(values, to_source ? SOURCE_ROWS : ROWS),
                                          .o = doubles(o, now[2], INNER),
                                          .heads = HEADS,
                                          .kv_heads = HEADS,
                                          .furthest = FURTHEST,
                                          .scale = 0.4};
        if (moved)
            c.at = ints(at, 2);
        if (to_source) {
            c.kv = doubles(kv, k ? 0 : 2 * SOURCE_ROWS, 2 * INNER);
            c.kv_cu = ints(k ? none : kv_cu, 3);
        }
        ref_attention_cached(&c, NULL);
        for (int b = 0; b < 2; past[b] += now[b + 1] - now[b], b++)
            for (int i = 0; i < now[b + 1] - now[b]; i++)
                for (int d = 0; d < INNER; d++)
                    assert_true(fabs(o[now[b] + i][d] - whole[b * ROWS + past[b] + i][d]) < 1e-13);
    }
}

void test_attention_cached(void **state)
{
    (void)state;
    check_general_pieces(false, false);
    check_general_pieces(true, false);
    check_general_pieces(true, true);
    for (int moved = 0; moved < 2; moved++) {
        check_pieces(0, 0, moved);
        check_pieces(3, 0, moved);
        check_pieces(1, 2, moved);
    }
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
