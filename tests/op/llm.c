/* The ops of decoder language models in numbers that are known without them: by hand, from published values of the functions,
 * and from what a rotation keeps. */
#include "cases.h"
#include "checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TENSOR(d, n, ...)                                                                                              \
    (struct tensor)                                                                                                    \
    {                                                                                                                  \
        .data = (d), .ndim = (n), .dtype = DT_F64, .shape = { __VA_ARGS__ }                                            \
    }

static const struct call CALL = {.threads = 1};

static void close_to(double x, double y)
{
    if (!(fabs(x - y) <= 1e-14 * fmax(1, fabs(y))))
        fail_msg("%.17g is not %.17g", x, y);
}

/* Root mean square of 3 and 4: sqrt(12.5). */
static void rms_of_two(void)
{
    double x[] = {1, 3}, res[] = {2, 1}, gamma[] = {1, 0.5}, y[2], h[2], rstd;
    struct args_rms_norm a = {.x = TENSOR(x, 2, 1, 2),
                              .res = TENSOR(res, 2, 1, 2),
                              .gamma = TENSOR(gamma, 1, 2),
                              .y = TENSOR(y, 2, 1, 2),
                              .h = TENSOR(h, 2, 1, 2),
                              .rstd = TENSOR(&rstd, 1, 1)};
    ref_rms_norm(&a, &CALL);
    close_to(h[0], 3);
    close_to(h[1], 4);
    close_to(rstd, 1 / sqrt(12.5));
    close_to(y[0], 3 / sqrt(12.5));
    close_to(y[1], 2 / sqrt(12.5));
    a.one_plus = 1;
    ref_rms_norm(&a, &CALL);
    close_to(y[0], 6 / sqrt(12.5));
    close_to(y[1], 6 / sqrt(12.5));
    a.eps = 12.5;
    ref_rms_norm(&a, &CALL);
    close_to(rstd, 0.2);
}

/* Of 1, by tables: the logistic function, the normal distribution. The activation is of the first half. */
static void gates(void)
{
    double x[] = {1, -1, 2, 10}, y[2];
    struct args_glu a = {.x = TENSOR(x, 2, 1, 4), .y = TENSOR(y, 2, 1, 2), .act = ACT_silu};
    ref_glu(&a, &CALL);
    close_to(y[0], 2 * 0.73105857863000487926);
    close_to(y[1], -10 * 0.26894142136999512074);
    a.act = ACT_gelu;
    ref_glu(&a, &CALL);
    close_to(y[0], 2 * 0.84134474606854294859);
    close_to(y[1], -10 * 0.15865525393145705141);
}

static void soft_cap(void)
{
    double x[] = {0, 30, -30}, y[3];
    struct args_softcap a = {.x = TENSOR(x, 2, 1, 3), .y = TENSOR(y, 2, 1, 3), .cap = 30};
    ref_softcap(&a, &CALL);
    close_to(y[0], 0);
    close_to(y[1], 30 * 0.76159415595576488812); /* tanh 1 */
    close_to(y[2], -y[1]);
}

enum { T = 4, D = 6, R = 4, WIDTH = 3 * D };

/* One head each of q, k and v, whose first R elements are rotated by positions[n] times the frequencies. */
static void rotate(const int32_t *positions, const double *frequencies, double factor, double *qkv, double *y)
{
    double table[T * R];
    struct args_rotary_table t = {
        .positions = {.data = (void *)positions, .ndim = 1, .dtype = DT_I32, .shape = {T}},
        .frequencies = TENSOR((void *)frequencies, 1, R / 2),
        .table = TENSOR(table, 2, T, R),
        .factor = factor,
    };
    struct args_rotary a = {
        .qkv = TENSOR(qkv, 2, T, WIDTH), .table = t.table, .y = TENSOR(y, 2, T, WIDTH), .heads = 1, .kv_heads = 1};
    ref_rotary_table(&t, &CALL);
    ref_rotary(&a, &CALL);
}

/* At position 0 nothing turns; at a quarter of a turn the first of a pair becomes the second, R/2 further. */
static void turns(void)
{
    const double quarter = 1.57079632679489661923;
    double qkv[T * WIDTH] = {0}, y[T * WIDTH];
    for (int n = 0; n < T; n++)
        for (int i = 0; i < WIDTH; i++)
            qkv[n * WIDTH + i] = i + 1;
    rotate((int32_t[]){0, 1, 2, 3}, (double[]){quarter, 0}, 2, qkv, y);
    for (int i = 0; i < 2 * D; i++)
        close_to(y[i], (i % D < R ? 2 : 1) * (i + 1));
    close_to(y[WIDTH], 2 * -3); /* (1, 3) by a quarter: (-3, 1); the factor is 2 */
    close_to(y[WIDTH + 2], 2 * 1);
    close_to(y[WIDTH + 1], 2 * 2); /* frequency 0 */
    close_to(y[WIDTH + 4], 5);     /* beyond R */
    for (int i = 2 * D; i < WIDTH; i++)
        close_to(y[WIDTH + i], i + 1);
}

/* A head of four: the pairs (1, 2) and (3, 4) by a quarter and by half a turn. */
static void neighbours_turn(void)
{
    const double cosines_and_sines[] = {0, -1, 1, 0};
    double qkv[] = {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8}, y[12];
    static const double turned[] = {-2, 1, -3, -4, -2, 1, -3, -4, 5, 6, 7, 8};
    struct args_rotary a = {.qkv = TENSOR(qkv, 2, 1, 12),
                            .table = TENSOR((void *)cosines_and_sines, 2, 1, 4),
                            .y = TENSOR(y, 2, 1, 12),
                            .heads = 1,
                            .kv_heads = 1,
                            .interleaved = 1};
    ref_rotary(&a, &CALL);
    for (int i = 0; i < 12; i++)
        close_to(y[i], turned[i]);
}

static double score(const double *y, int query, int key)
{
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += y[query * WIDTH + i] * y[key * WIDTH + D + i];
    return sum;
}

/* What a query makes of a key goes by their distance alone. */
static void scores_by_distance(void)
{
    double qkv[T * WIDTH], y[T * WIDTH];
    for (int i = 0; i < 2 * WIDTH; i++)
        qkv[i] = qkv[2 * WIDTH + i] = random_normal(1, 2, (uint32_t)i);
    rotate((int32_t[]){3, 5, 1003, 1005}, (double[]){1, 0.01}, 1, qkv, y);
    assert_true(fabs(score(y, 1, 0) - score(y, 3, 2)) < 1e-12);
    assert_true(fabs(score(y, 0, 1) - score(y, 2, 3)) < 1e-12);
    assert_true(fabs(score(y, 1, 0) - score(y, 1, 2)) > 1e-3);
}

/* Two heads of q with the elements 1 1 and 7 7: each by itself becomes 1 1; together their mean square is 25. */
static void norms_of_heads(void)
{
    double qkv[] = {1, 1, 7, 7, 3, 3, 5, 5}, gamma[] = {1, 1, 1, 1}, y[8], rstd[3];
    struct args_rotary a = {.qkv = TENSOR(qkv, 2, 1, 8),
                            .q_gamma = TENSOR(gamma, 1, 2),
                            .k_gamma = TENSOR(gamma, 1, 2),
                            .y = TENSOR(y, 2, 1, 8),
                            .rstd = TENSOR(rstd, 2, 1, 3),
                            .heads = 2,
                            .kv_heads = 1};
    ref_rotary(&a, &CALL);
    for (int i = 0; i < 6; i++)
        close_to(y[i], 1);
    close_to(y[6], 5);
    a.q_gamma.shape[0] = 4;
    a.rstd.shape[1] = 2;
    ref_rotary(&a, &CALL);
    close_to(y[0], 0.2);
    close_to(y[3], 1.4);
    close_to(y[4], 1);
    close_to(rstd[0], 0.2);
}

/* Two groups of two queries, a key and a value each. */
static void heads_by_group(void)
{
    double qkv[] = {11, 11, 12, 12, 31, 31, 51, 51, 21, 21, 22, 22, 41, 41, 61, 61}, y[16];
    static const double heads[] = {11, 12, 21, 22, 31, 41, 51, 61};
    struct args_rotary a = {
        .qkv = TENSOR(qkv, 2, 1, 16), .y = TENSOR(y, 2, 1, 16), .heads = 4, .kv_heads = 2, .by_group = 1};
    ref_rotary(&a, &CALL);
    for (int i = 0; i < 16; i++)
        close_to(y[i], heads[i / 2]);
}

void test_llm(void **state)
{
    (void)state;
    rms_of_two();
    gates();
    soft_cap();
    turns();
    neighbours_turn();
    scores_by_distance();
    norms_of_heads();
    heads_by_group();
}
