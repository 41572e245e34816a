/* cpu/product/matmul.c against plain loops in double, for sizes round the edges of its tiles, panels and blocks, in every
 * layout; equal bits for any number of threads and whatever other rows are in the product. Built and run for every
 * instruction set. */
#include "cpu/product/product.h"
#include "op/act.h"
#include "tests/op/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t seed = 1;

/* Uniform in [-1, 1), of 12 bits. */
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 52) / 2048 - 1;
}

static void *random_tensor(int64_t n, enum dtype type, bool whole)
{
    void *p = calloc((size_t)n + 1, sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        double x = whole ? (double)(int)(4 * uniform()) : uniform();
        dtype_convert((char *)p + dtype_bytes(type, i), type, &x, DT_F64, 1);
    }
    return p;
}

static double element(const void *p, enum dtype type, int64_t i)
{
    double x;
    dtype_convert(&x, DT_F64, (const char *)p + dtype_bytes(type, i), type, 1);
    return x;
}

struct sums {
    double sum, size; /* of the terms and of their magnitudes */
};

static struct sums exact(const struct product *p, int64_t i, int64_t j)
{
    struct sums s = {0};
    for (int64_t k = 0; k < p->K; k++) {
        double a = element(p->a, p->in, p->a_by_k ? i * p->K + k : k * p->M + i);
        double b = element(p->b, p->in, p->b_by_k ? j * p->K + k : k * p->N + j);
        s.sum += a * b;
        s.size += fabs(a * b);
    }
    if (p->bias) {
        s.sum += (double)p->bias[j];
        s.size += fabs((double)p->bias[j]);
    }
    return s;
}

static void run(const struct product *p, int threads)
{
    size_t bytes = (size_t)ISA(product_workspace)(p, threads);
    unsigned char *workspace = aligned_alloc(64, bytes + 64);
    memset(workspace, 0xFF, bytes + 64); /* NaN */
    ISA(product_run)(p, workspace, threads);
    for (int i = 0; i < 64; i++)
        assert_int_equal(workspace[bytes + (size_t)i], 0xFF);
    free(workspace);
}

/* One product in one form. */
static void check(int64_t M, int64_t N, int64_t K, bool a_by_k, bool b_by_k, enum dtype in, enum dtype out,
                  enum act act, bool add)
{
    float *bias = random_tensor(N, DT_F32, false);
    struct product p = {.M = M,
                        .N = N,
                        .K = K,
                        .a = random_tensor(M * K, in, false),
                        .b = random_tensor(N * K, in, false),
                        .a_by_k = a_by_k,
                        .b_by_k = b_by_k,
                        .in = in,
                        .c = random_tensor(M * N, out, false),
                        .slope = act ? random_tensor(M * N, out, false) : NULL,
                        .out = out,
                        .add = add,
                        .bias = add ? NULL : bias,
                        .act = act};
    size_t bytes = (size_t)dtype_bytes(out, M * N);
    void *before = malloc(bytes + 1), *again = malloc(bytes + 1);
    memcpy(before, p.c, bytes);
    run(&p, 2);
    double unit = out == DT_BF16 ? 0x1p-8 : 0x1p-24;
    for (int64_t at = 0; at < M * N; at++) {
        struct sums s = exact(&p, at / N, at % N);
        if (add)
            s.sum += element(before, out, at);
        double bound = (double)(K + 2) * 0x1p-24 * (s.size + 1) + 1e-30;
        if (act) {
            double slope = element(p.slope, out, at), expected = act_slope(act, s.sum);
            double steep =
                act == ACT_relu2 ? 2 * fabs(s.sum) + 2 : 1.13; /* no other activation, nor its slope, is steeper */
            if (!(fabs(slope - expected) <= (act == ACT_relu2 ? 2 : 1) * bound + 1e-6 + unit * fabs(expected)) &&
                !(act == ACT_relu && fabs(s.sum) <= bound)) /* where the slope jumps */
                fail_msg("%ld x %ld x %ld: slope[%ld] = %g instead of %g", (long)M, (long)N, (long)K, (long)at, slope,
                         expected);
            s.sum = act_value(act, s.sum);
            bound = steep * bound + 1e-6 * (fabs(s.sum) + 1e-3);
        }
        bound += unit * fabs(s.sum);
        double c = element(p.c, out, at);
        if (!(fabs(c - s.sum) <= bound))
            fail_msg("%ld x %ld x %ld: c[%ld] = %g instead of %g", (long)M, (long)N, (long)K, (long)at, c, s.sum);
    }
    /* Other numbers of threads; y alone, without its slope. */
    struct product q = p;
    q.c = again;
    q.slope = NULL;
    for (int threads = 1; threads < 8; threads += 3) {
        memcpy(again, before, bytes);
        run(&q, threads);
        assert_memory_equal(again, p.c, bytes);
    }
    /* The last rows by themselves. */
    if (a_by_k && M > 5) {
        q.M = 5;
        q.a = (const char *)p.a + dtype_bytes(in, (M - 5) * K);
        size_t skip = (size_t)dtype_bytes(out, (M - 5) * N);
        memcpy(again, (char *)before + skip, bytes - skip);
        run(&q, 2);
        assert_memory_equal(again, (char *)p.c + skip, bytes - skip);
    }
    free((void *)p.a);
    free((void *)p.b);
    free(p.c);
    free(p.slope);
    free(bias);
    free(before);
    free(again);
}

static void products_in_every_form(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 2, 5},    {12, 32, 16}, {13, 33, 17},  {6, 8, 1},
                                       {25, 64, 40}, {61, 95, 33}, {1, 300, 70}, {300, 1, 70},  {50, 40, 511},
                                       {4, 7, 515},  {7, 3, 1027}, {5, 6, 2060}, {0, 4, 4},     {4, 4, 0},
                                       {241, 37, 9}, {65, 98, 32}, {33, 5, 288}, {1030, 33, 5}, {16, 70, 64},
                                       {17, 70, 64}, {9, 129, 320}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int form = 0; form < 16; form++) {
            const int64_t *n = sizes[s];
            bool a_by_k = form & 1, b_by_k = form & 2;
            enum dtype in = form & 4 ? DT_BF16 : DT_F32, out = form & 4 && form & 8 ? DT_BF16 : DT_F32;
            check(n[0], n[1], n[2], a_by_k, b_by_k, in, out, ACT_none, false);
            check(n[0], n[1], n[2], a_by_k, b_by_k, in, out, ACT_none, true);
            if (a_by_k)
                check(n[0], n[1], n[2], a_by_k, b_by_k, in, out, (enum act)(1 + (form >> 1) % (ACT_COUNT - 1)), false);
        }
}

/* More columns than fit into one chunk of packed B; whole numbers, where every sum is exact. */
static void wide_product_is_exact(void **state)
{
    (void)state;
    struct product p = {.M = 3, .N = 700, .K = 9001, .in = DT_BF16, .out = DT_F32, .a_by_k = true, .add = true};
    p.a = random_tensor(p.M * p.K, p.in, true);
    p.b = random_tensor(p.N * p.K, p.in, true);
    p.c = calloc((size_t)(p.M * p.N), 4);
    run(&p, 3);
    run(&p, 1);
    for (int64_t i = 0; i < p.M; i++)
        for (int64_t j = 0; j < p.N; j += 13)
            assert_true(element(p.c, DT_F32, i * p.N + j) == 2 * exact(&p, i, j).sum);
    free((void *)p.a);
    free((void *)p.b);
    free(p.c);
}

/* A thread that does several parts of the same rows, of which it packs a part of k at a time. */
static void long_rows_are_exact(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++) {
        struct product p = {.M = 52, .N = 130, .K = 2200, .in = type ? DT_BF16 : DT_F32, .out = DT_F32, .b_by_k = true};
        p.a = random_tensor(p.M * p.K, p.in, true);
        p.b = random_tensor(p.N * p.K, p.in, true);
        p.c = calloc((size_t)(p.M * p.N), 4);
        run(&p, 4);
        for (int64_t i = 0; i < p.M; i += 3)
            for (int64_t j = 0; j < p.N; j += 7)
                assert_true(element(p.c, DT_F32, i * p.N + j) == exact(&p, i, j).sum);
        free((void *)p.a);
        free((void *)p.b);
        free(p.c);
    }
}

/* The plan asks at the largest sizes; smaller ones must fit. */
static void workspace_grows_with_the_sizes(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++)
        for (int64_t other = 1; other < 5000; other = other * 7 + 1) {
            int64_t last[3] = {0};
            for (int64_t n = 0; n < 9000; n += 1 + n / 7) {
                struct product p[3] = {{.M = n, .N = other, .K = other},
                                       {.M = other, .N = n, .K = other},
                                       {.M = other, .N = other, .K = n}};
                for (int k = 0; k < 3; k++) {
                    p[k].in = type ? DT_BF16 : DT_F32;
                    int64_t bytes = ISA(product_workspace)(&p[k], 3);
                    assert_true(bytes >= last[k] && bytes < 64 << 20);
                    last[k] = bytes;
                }
            }
        }
}

int main(void)
{
    if (!ISA_SUPPORTED())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_every_form),
        cmocka_unit_test(wide_product_is_exact),
        cmocka_unit_test(long_rows_are_exact),
        cmocka_unit_test(workspace_grows_with_the_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
