/* all_reduce and broadcast on a GPU: ranks on as many devices as there are, several on one where there are fewer. Each, or one of them
 * alone, has the sum, in the order of ranks, with the same bits, or all have what one had, also out of a graph. A rank that leaves keeps
 * nobody waiting. */
#include "ranks/ranks.h"
#include "backend/backend.h"
#include "base/dtype.h"
#include "base/mem.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 5, ALIGN = 256, ROUNDS = 4 };

static const struct {
    enum dtype type;
    int64_t elements;
} tensors[] = {{DT_F32, 5}, {DT_BF16, 12345}, {DT_F32, 40003}, {DT_F32, 1}, {DT_BF16, 8}, {DT_F16, 3001}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

struct side {
    struct rank rank;
    enum op op; /* with `one`: of tensor t the rank 1 + t % n */
    bool one;
    bool leaves; /* instead of adding up */
    pthread_barrier_t *end;
    struct snug_err err;
    double *got; /* (all elements) after the rounds */
};

static int64_t room(int t)
{
    return (dtype_bytes(tensors[t].type, tensors[t].elements) + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t elements(void)
{
    int64_t n = 0;
    for (int t = 0; t < TENSORS; t++)
        n += tensors[t].elements;
    return n;
}

/* Numbers whose sums are rounded differently in another order. */
static double number(int rank, int round, int64_t i)
{
    return (double)((i * 37 + rank * 101 + round * 11) % 1009 - 500) * (rank % 2 ? 1e-3 : 1) / 7;
}

static double rounded(double x, enum dtype type)
{
    char narrow[8];
    dtype_convert(narrow, type, &x, DT_F64, 1);
    dtype_convert(&x, DT_F64, narrow, type, 1);
    return x;
}

static double sum(int ranks, int round, int64_t i, enum dtype type)
{
    float s = (float)rounded(number(0, round, i), type);
    for (int r = 1; r < ranks; r++)
        s += (float)rounded(number(r, round, i), type);
    return rounded(s, type);
}

static int fill(const struct side *s, const struct backend *b, char *arena, int round, struct snug_err *err)
{
    int64_t at = 0;
    for (int t = 0; t < TENSORS; at += room(t), t++) {
        int64_t n = tensors[t].elements;
        double *x = mem_alloc((size_t)n * sizeof *x);
        char *narrow = mem_alloc((size_t)room(t));
        for (int64_t i = 0; i < n; i++)
            x[i] = number(s->rank.me, round, i);
        dtype_convert(narrow, tensors[t].type, x, DT_F64, n);
        int code = b->arena->upload(b, arena + at, narrow, room(t), err);
        mem_free(x);
        mem_free(narrow);
        TRY(code);
    }
    return SNUG_OK;
}

static int read_back(const struct side *s, const struct backend *b, const char *arena, struct snug_err *err)
{
    int64_t at = 0, done = 0;
    for (int t = 0; t < TENSORS; at += room(t), t++) {
        char *narrow = mem_alloc((size_t)room(t));
        int code = b->arena->download(b, narrow, arena + at, room(t), err);
        dtype_convert(s->got + done, DT_F64, narrow, tensors[t].type, tensors[t].elements);
        done += tensors[t].elements;
        mem_free(narrow);
        TRY(code);
    }
    return SNUG_OK;
}

/* Which rank tensor t goes to, or comes from, counted from 1; 0: all. */
static int one_of(int t, int n, bool one)
{
    return one ? 1 + t % n : 0;
}

static int add_up(const struct side *s, const struct backend *b, char *arena, struct snug_err *err)
{
    struct work work[TENSORS] = {0};
    int64_t at = 0;
    for (int t = 0; t < TENSORS; at += room(t), t++) {
        work[t] = (struct work){.op = s->op, .joins = t > 0 && t != 3}; /* two launches */
        work[t].args.slot[0] =
            (struct tensor){.data = arena + at, .shape = {tensors[t].elements}, .dtype = tensors[t].type, .ndim = 1};
        if (s->op == OP_all_reduce)
            work[t].args.all_reduce.to = one_of(t, s->rank.n, s->one);
        else
            work[t].args.broadcast.from = one_of(t, s->rank.n, s->one);
    }
    TRY(b->join(b, &s->rank, err));
    if (s->leaves) {
        ranks_leave(&s->rank, SNUG_ERR_ENV, "as the test wants it");
        return SNUG_OK;
    }
    for (int round = 0; round < ROUNDS; round++) { /* the first makes a graph */
        bool known;
        TRY(fill(s, b, arena, round, err));
        TRY(b->replay(b, &(struct sequence){0}, &known, err));
        assert_int_equal(known, round > 0);
        if (!known)
            TRY(b->run(b, work, TENSORS, err));
        TRY(b->arena->sync(b, err));
    }
    return read_back(s, b, arena, err);
}

static int with_backend(struct side *s, struct snug_err *err)
{
    const struct backend *b;
    void *arena;
    int64_t bytes = 0;
    for (int t = 0; t < TENSORS; t++)
        bytes += room(t);
    TRY(backend_cuda_open(&(struct cuda_settings){.device = s->rank.me % backend_cuda_count()}, &b, err));
    int code = b->arena->alloc(b, bytes, 0, NULL, &arena, err);
    if (!code) {
        code = add_up(s, b, arena, err);
        pthread_barrier_wait(s->end); /* nobody's memory goes while another adds */
        b->arena->free(b, arena, bytes);
    }
    backend_close(b);
    return code;
}

static void *work(void *arg)
{
    struct side *s = arg;
    if (with_backend(s, &s->err))
        ranks_leave(&s->rank, SNUG_ERR_ENV, "as the test wants it");
    return NULL;
}

static void run_ranks(struct side *sides, int n, enum op op, bool one, int leaver)
{
    pthread_t threads[MOST];
    pthread_barrier_t end;
    struct ranks *all;
    assert_int_equal(ranks_open(n, &all, NULL), SNUG_OK);
    assert_int_equal(pthread_barrier_init(&end, NULL, (unsigned)n), 0);
    for (int r = 0; r < n; r++) {
        sides[r] = (struct side){.rank = {all, r, n},
                                 .op = op,
                                 .one = one,
                                 .leaves = r == leaver,
                                 .end = &end,
                                 .got = mem_alloc((size_t)elements() * 8)};
        assert_int_equal(pthread_create(&threads[r], NULL, work, &sides[r]), 0);
    }
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&end);
    ranks_close(all);
}

/* What rank r has of tensor t's element i. */
static double wanted(enum op op, bool one, int r, int n, int t, int64_t i)
{
    int round = ROUNDS - 1, which = one_of(t, n, one);
    if (op == OP_all_reduce && (!which || which == r + 1))
        return sum(n, round, i, tensors[t].type);
    return rounded(number(op == OP_broadcast ? which - 1 : r, round, i), tensors[t].type);
}

static void check(enum op op, bool one)
{
    for (int n = 1; n <= MOST; n++) {
        struct side sides[MOST];
        run_ranks(sides, n, op, one, -1);
        for (int r = 0; r < n; r++) {
            int64_t at = 0;
            assert_int_equal(sides[r].err.code, 0);
            for (int t = 0; t < TENSORS; at += tensors[t].elements, t++)
                for (int64_t i = 0; i < tensors[t].elements; i++)
                    if (sides[r].got[at + i] != wanted(op, one, r, n, t, i))
                        fail_msg("%s, rank %d of %d, tensor %d, element %lld: %.9g, not %.9g", op_table[op].name, r, n,
                                 t, (long long)i, sides[r].got[at + i], wanted(op, one, r, n, t, i));
            mem_free(sides[r].got);
        }
    }
}

static void ranks_have_the_sum(void **state)
{
    (void)state;
    check(OP_all_reduce, false);
}

static void one_rank_has_the_sum(void **state)
{
    (void)state;
    check(OP_all_reduce, true);
}

static void ranks_have_what_one_had(void **state)
{
    (void)state;
    check(OP_broadcast, true);
}

static void nobody_waits_for_who_has_left(void **state)
{
    (void)state;
    struct side sides[3];
    run_ranks(sides, 3, OP_all_reduce, false, 1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(sides[r].err.code, r == 1 ? SNUG_OK : SNUG_ERR_ENV);
        mem_free(sides[r].got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_have_the_sum), cmocka_unit_test(one_rank_has_the_sum),
                                       cmocka_unit_test(ranks_have_what_one_had),
                                       cmocka_unit_test(nobody_waits_for_who_has_left)};
    if (!backend_cuda_present()) {
        printf("skipped: no NVIDIA GPU here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
