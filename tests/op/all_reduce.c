/* What several ranks exchange, on every instruction set and on the reference. all_reduce: each rank, or the one that wants it alone, has
 * the sum, in the order of ranks, with the same bits, or that of its shard. broadcast: each has what one had, or all shards. pull: likewise.
 * base/ranks: a rank that leaves keeps nobody waiting. */
#include "base/dtype.h"
#include "base/mem.h"
#include "cpu/isa.h"
#include "graph/op.h"
#include "ranks/ranks.h"
#include "ranks/shard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 5, LARGEST = 40003, CHUNK = 64, EACH = -1 };

struct side {
    struct rank rank;
    const struct cpu_kernels *kernels; /* NULL: the reference */
    enum op op;
    union args_any args;
};

static void *run(void *arg)
{
    struct side *s = arg;
    const struct call call = {.threads = 2, .rank = &s->rank};
    if (s->kernels)
        s->kernels->run[s->op](&s->args, &call);
    else if (s->op == OP_all_reduce)
        ref_all_reduce(&s->args.all_reduce, &call);
    else
        ref_broadcast(&s->args.broadcast, &call);
    return NULL;
}

/* Numbers whose sums are rounded differently in another order. */
static double number(int rank, int64_t i)
{
    return (double)((i * 37 + rank * 101) % 1009 - 500) * (rank % 2 ? 1e-3 : 1) / 7;
}

/* What element i must become. */
static double sum(int ranks, int64_t i, enum dtype type)
{
    double wide = 0;
    float narrow = 0;
    for (int r = 0; r < ranks; r++) {
        float x = (float)number(r, i);
        x = type == DT_BF16 ? bf16_to_float(bf16_from_float(x)) : x;
        narrow = r ? narrow + x : x;
        wide += number(r, i);
    }
    return type == DT_F64 ? wide : type == DT_F32 ? narrow : bf16_to_float(bf16_from_float(narrow));
}

/* Who has element i of n in its shard, counted from 1. */
static int owner(int ranks, int64_t n, int64_t i)
{
    for (int k = 0; k < ranks; k++) {
        struct shard s = shard_of(n, CHUNK, ranks, k);
        if (i >= s.first && i < s.first + s.n)
            return k + 1;
    }
    fail_msg("element %lld of %lld is in no shard of %d", (long long)i, (long long)n, ranks);
    return 0;
}

/* What rank `rank` has behind the op for element i. one: the rank that it is to or from, counted from 1; 0: all. */
static double wanted(enum op op, int one, int rank, int ranks, int64_t i, enum dtype type)
{
    bool sums = op == OP_all_reduce && (!one || one == rank + 1);
    int from = op == OP_broadcast ? one - 1 : rank;
    double own = number(from, i);
    float x = (float)own;
    return sums ? sum(ranks, i, type) : type == DT_F64 ? own : type == DT_F32 ? x : bf16_to_float(bf16_from_float(x));
}

static void check(enum op op, int one, const struct cpu_kernels *kernels, enum dtype type, int ranks, int64_t n)
{
    struct side sides[MOST];
    pthread_t threads[MOST];
    double *as_double = mem_alloc((size_t)(n + 1) * sizeof *as_double);
    struct ranks *all;
    assert_int_equal(ranks_open(ranks, &all, NULL), SNUG_OK);
    for (int r = 0; r < ranks; r++) {
        sides[r] = (struct side){.rank = {all, r, ranks}, .kernels = kernels, .op = op};
        sides[r].args.slot[0] = (struct tensor){
            .data = mem_alloc((size_t)dtype_bytes(type, n) + 64), .dtype = type, .ndim = 1, .shape = {n}};
        if (op == OP_all_reduce)
            sides[r].args.all_reduce.to = one == EACH ? 0 : one;
        else
            sides[r].args.broadcast.from = one == EACH ? 0 : one;
        int64_t *chunk = op == OP_all_reduce ? &sides[r].args.all_reduce.chunk : &sides[r].args.broadcast.chunk;
        *chunk = one == EACH ? CHUNK : 0;
        for (int64_t i = 0; i < n; i++)
            as_double[i] = number(r, i);
        dtype_convert(sides[r].args.slot[0].data, type, as_double, DT_F64, n);
        assert_int_equal(pthread_create(&threads[r], NULL, run, &sides[r]), 0);
    }
    for (int r = 0; r < ranks; r++) {
        pthread_join(threads[r], NULL);
        dtype_convert(as_double, DT_F64, sides[r].args.slot[0].data, type, n);
        for (int64_t i = 0; i < n; i++) {
            double must = wanted(op, one == EACH ? owner(ranks, n, i) : one, r, ranks, i, type);
            if (as_double[i] != must)
                fail_msg("%s, %d, %d ranks, element %lld of %lld of rank %d: %.17g, must be %.17g", op_table[op].name,
                         one, ranks, (long long)i, (long long)n, r, as_double[i], must);
        }
    }
    for (int r = 0; r < ranks; r++)
        mem_free(sides[r].args.slot[0].data);
    ranks_close(all);
    mem_free(as_double);
}

static void check_everywhere(enum op op, int one, int ranks, int64_t n)
{
    const struct cpu_isa *isa;
    check(op, one, NULL, DT_F64, ranks, n);
    for (int i = 0; (isa = cpu_isa_usable(i)); i++) {
        check(op, one, isa->kernels, DT_F32, ranks, n);
        check(op, one, isa->kernels, DT_BF16, ranks, n);
    }
}

static const int64_t sizes[] = {0, 1, 3, 63, 64, 65, 1000, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void ranks_have_the_sum(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int k = 0; k < SIZES; k++)
            check_everywhere(OP_all_reduce, 0, ranks, sizes[k]);
}

/* The others keep what they have. */
static void one_rank_has_the_sum(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int k = 0; k < SIZES; k++)
            check_everywhere(OP_all_reduce, 1 + k % ranks, ranks, sizes[k]);
}

static void ranks_have_what_one_had(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int k = 0; k < SIZES; k++)
            check_everywhere(OP_broadcast, 1 + k % ranks, ranks, sizes[k]);
}

static void each_has_the_sum_of_its_shard(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int k = 0; k < SIZES; k++)
            check_everywhere(OP_all_reduce, EACH, ranks, sizes[k]);
}

static void ranks_have_all_shards(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MOST; ranks++)
        for (int k = 0; k < SIZES; k++)
            check_everywhere(OP_broadcast, EACH, ranks, sizes[k]);
}

/* Each has its shard at the same place of its arena; behind the elements of a matrix are rows of zeros, which the last one has. */
static void shards_are_pulled(void **state)
{
    (void)state;
    enum { RANKS = 3, ROWS = 30, COLUMNS = 11, ZEROS = 2, ALL = ROWS * COLUMNS, ROOM = ALL + ZEROS * COLUMNS };
    const struct cpu_isa *isa;
    float arenas[RANKS][1 + ALL + ROOM], *begins[RANKS], y[ROOM];
    struct ranks *all;
    assert_int_equal(ranks_open(RANKS, &all, NULL), SNUG_OK);
    for (int k = 0; k < RANKS; k++) {
        struct shard s = shard_of_room(ALL, ROOM, CHUNK, RANKS, k);
        begins[k] = arenas[k];
        for (int64_t i = 0; i < s.n; i++)
            arenas[k][1 + i] = s.first + i < ALL ? (float)(s.first + i + 1) : 0;
    }
    for (int i = -1; i < 0 || (isa = cpu_isa_usable(i)); i++) {
        const struct rank rank = {all, 1, RANKS};
        const struct call call = {.threads = 2, .rank = &rank, .arenas = (char *const *)begins};
        union args_any args = {0};
        struct shard mine = shard_of(ALL, CHUNK, RANKS, rank.me);
        args.pull.x = (struct tensor){
            .data = arenas[rank.me] + 1, .dtype = DT_F32, .ndim = 1, .shape = {mine.n}, .first = mine.first};
        args.pull.y =
            (struct tensor){.data = y, .dtype = DT_F32, .ndim = 2, .shape = {ROWS, COLUMNS}, .pad_rows = ZEROS};
        args.pull.chunk = CHUNK;
        memset(y, -1, sizeof y);
        if (i < 0)
            ref_pull(&args.pull, &call);
        else
            isa->kernels->run[OP_pull](&args, &call);
        for (int k = 0; k < ROOM; k++)
            assert_true(y[k] == (k < ALL ? (float)(k + 1) : 0));
    }
    ranks_close(all);
}

/* Of ranks in one memory each takes it by itself: one alone does not wait for others. */
static void one_rank_pulls(void **state)
{
    (void)state;
    const struct cpu_isa *isa;
    char from[4099], to[4099];
    struct ranks *all;
    assert_int_equal(ranks_open(3, &all, NULL), SNUG_OK);
    const struct rank rank = {all, 1, 3};
    const struct call call = {.threads = 2, .rank = &rank};
    union args_any args = {0};
    args.pull.x = (struct tensor){.data = from, .dtype = DT_U8, .ndim = 1, .shape = {sizeof from}};
    args.pull.y = (struct tensor){.data = to, .dtype = DT_U8, .ndim = 1, .shape = {sizeof to}};
    args.pull.from = 3;
    for (int i = -1; i < 0 || (isa = cpu_isa_usable(i)); i++) {
        for (size_t k = 0; k < sizeof from; k++)
            from[k] = (char)((int)k * 5 + i), to[k] = 0;
        if (i < 0)
            ref_pull(&args.pull, &call);
        else
            isa->kernels->run[OP_pull](&args, &call);
        assert_memory_equal(from, to, sizeof from);
    }
    ranks_close(all);
}

static void *meet(void *arg)
{
    return (void *)ranks_meet(arg, arg);
}

/* Two wait, the third leaves: both are told. So is who comes later. */
static void nobody_waits_for_who_has_left(void **state)
{
    (void)state;
    struct ranks *all;
    pthread_t threads[2];
    void *met;
    assert_int_equal(ranks_open(3, &all, NULL), SNUG_OK);
    struct rank of[3] = {{all, 0, 3}, {all, 1, 3}, {all, 2, 3}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, meet, &of[i]), 0);
    assert_int_equal(ranks_left(all), -1);
    ranks_leave(&of[2], SNUG_ERR_ENV, "its device is gone");
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &met);
        assert_null(met);
    }
    ranks_leave(&of[0], SNUG_ERR_ENV, "another has left");
    assert_int_equal(ranks_left(all), 2);
    struct snug_err err;
    assert_int_equal(ranks_failure(all, &err), SNUG_ERR_PEER);
    assert_string_equal(err.text, "rank 2: its device is gone");
    assert_null(ranks_meet(&of[0], NULL));
    ranks_close(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_the_sum),      cmocka_unit_test(one_rank_has_the_sum),
        cmocka_unit_test(ranks_have_what_one_had), cmocka_unit_test(each_has_the_sum_of_its_shard),
        cmocka_unit_test(ranks_have_all_shards),   cmocka_unit_test(shards_are_pulled),
        cmocka_unit_test(one_rank_pulls),          cmocka_unit_test(nobody_waits_for_who_has_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
