/* all_reduce, broadcast and pull on a GPU: ranks on as many devices as there are, several on one where there are fewer; and ranks that are
 * connected by NCCL as processes are, each with its device. Each, or one of them alone, has the sum, in the order of ranks, with the same
 * bits, or all have what one had, also out of a graph. Likewise in shards. A rank that leaves keeps nobody waiting. */
#include "ranks/processes.h"

#include "../port.h"

#include "base/dtype.h"
#include "base/mem.h"
#include "cuda/device.h"
#include "cuda/products/algorithms.h"
#include "cuda/products/nodes.h"
#include "ranks/shard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 5, ALIGN = 256, ROUNDS = 4, FEW_BYTES = 4096, SLICE_ALIGN = 4, CHUNK = 1024 };

/* Who gets a tensor, or has it: all of them, of tensor t the rank 1 + t % n, or each its shard. */
enum whose { ALL, ONE, EACH };

static const struct {
    enum dtype type;
    int64_t elements;
} tensors[] = {{DT_F32, 5},   {DT_BF16, 12345}, {DT_F32, 40003}, {DT_F32, 1},
               {DT_F32, 300}, {DT_BF16, 8},     {DT_F16, 3001}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

struct side {
    struct rank rank;
    int port; /* where ranks that are as processes meet; 0: they are threads */
    bool few; /* little is on its way at once */
    enum op op;
    enum whose whose;
    bool leaves; /* instead of adding up */
    bool alone;  /* the others are only thought of */
    pthread_barrier_t *end;
    struct snug_err err;
    double *got; /* (all elements) after the rounds */
};

/* Of tensor t. What is broadcast may be slices, which lie side by side. */
static int64_t room(const struct side *s, int t)
{
    int64_t to = s->op == OP_broadcast ? SLICE_ALIGN : ALIGN;
    return (dtype_bytes(tensors[t].type, tensors[t].elements) + to - 1) / to * to;
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

static int64_t all_rooms(const struct side *s)
{
    int64_t bytes = 0;
    for (int t = 0; t < TENSORS; t++)
        bytes += room(s, t);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* A rank has what it brings; of what it pulls, its shard behind where all of it comes to. */
static int fill(const struct side *s, const struct backend *b, char *arena, int round, struct snug_err *err)
{
    int64_t at = s->op == OP_pull ? all_rooms(s) : 0;
    for (int t = 0; t < TENSORS; at += room(s, t), t++) {
        int64_t n = tensors[t].elements;
        double *x = mem_alloc((size_t)n * sizeof *x);
        char *narrow = mem_alloc((size_t)room(s, t));
        for (int64_t i = 0; i < n; i++)
            x[i] = number(s->rank.me, round, i);
        struct shard mine = shard_of(n, CHUNK, s->rank.n, s->rank.me);
        if (s->op == OP_pull)
            dtype_convert(narrow, tensors[t].type, x + mine.first, DT_F64, mine.n);
        else
            dtype_convert(narrow, tensors[t].type, x, DT_F64, n);
        int code = b->arena->upload(b, arena + at, narrow, room(s, t), err);
        mem_free(x);
        mem_free(narrow);
        TRY(code);
    }
    return SNUG_OK;
}

static int read_back(const struct side *s, const struct backend *b, const char *arena, struct snug_err *err)
{
    int64_t at = 0, done = 0;
    for (int t = 0; t < TENSORS; at += room(s, t), t++) {
        char *narrow = mem_alloc((size_t)room(s, t));
        int code = b->arena->download(b, narrow, arena + at, room(s, t), err);
        dtype_convert(s->got + done, DT_F64, narrow, tensors[t].type, tensors[t].elements);
        done += tensors[t].elements;
        mem_free(narrow);
        TRY(code);
    }
    return SNUG_OK;
}

/* Of each of the two launches. */
static void give_workspaces(const struct backend *b, struct work *work, char *room)
{
    for (int t = 0, first = 0; t < TENSORS; t++) {
        int64_t bytes = backend_workspace_bytes(b, work[t].op, &work[t].args, 1);
        first = work[t].joins ? first : t;
        work[first].call.workspace = bytes ? room : NULL;
    }
}

static int64_t workspace_bytes(const struct backend *b, const struct work *work)
{
    int64_t sum = 0, most = b->workspace_most(b, work[0].op);
    for (int t = 0; t < TENSORS; t++)
        sum += backend_workspace_bytes(b, work[t].op, &work[t].args, 1);
    return sum < most ? sum : most;
}

/* Which rank tensor t goes to, or comes from, counted from 1; 0: all. */
static int one_of(int t, int n, enum whose whose)
{
    return whose == ONE ? 1 + t % n : 0;
}

static void make_work(const struct side *s, struct work *work, char *arena)
{
    int64_t at = 0;
    for (int t = 0; t < TENSORS; at += room(s, t), t++) {
        work[t] = (struct work){.op = s->op, .joins = t > 0 && t != 3}; /* two launches */
        work[t].args.slot[0] =
            (struct tensor){.data = arena + at, .shape = {tensors[t].elements}, .dtype = tensors[t].type, .ndim = 1};
        int one = one_of(t, s->rank.n, s->whose);
        int64_t chunk = s->whose == EACH ? CHUNK : 0, n = tensors[t].elements;
        if (s->op == OP_all_reduce)
            work[t].args.all_reduce.to = one, work[t].args.all_reduce.chunk = chunk;
        else if (s->op == OP_broadcast)
            work[t].args.broadcast.from = one, work[t].args.broadcast.chunk = chunk;
        if (s->op != OP_pull)
            continue;
        work[t].args.pull.y = work[t].args.slot[0];
        work[t].args.pull.x = work[t].args.slot[0];
        work[t].args.pull.x.shape[0] = shard_of(n, CHUNK, s->rank.n, s->rank.me).n;
        work[t].args.pull.x.data = arena + all_rooms(s) + at;
        work[t].args.pull.chunk = chunk;
    }
}

/* What is pulled does not change meanwhile. */
static void wait_for_others(const struct side *s)
{
    if (s->op == OP_pull)
        pthread_barrier_wait(s->end);
}

static int add_up(const struct side *s, const struct backend *b, char *arena, struct work *work, struct snug_err *err)
{
    TRY(s->alone ? SNUG_OK : b->join(b, &s->rank, err));
    if (s->leaves) {
        ranks_leave(&s->rank, SNUG_ERR_ENV, "as the test wants it");
        return SNUG_OK;
    }
    for (int round = 0; round < ROUNDS; round++) { /* the first makes a graph */
        bool known;
        TRY(fill(s, b, arena, round, err));
        wait_for_others(s);
        TRY(b->replay(b, &(struct sequence){0}, &known, err));
        bool waits = !s->alone && (s->op != OP_pull || s->port);
        assert_int_equal(known, round > !waits); /* a graph of what nobody waits for comes later */
        if (!known)
            TRY(b->run(b, work, TENSORS, err));
        TRY(b->arena->sync(b, err));
        wait_for_others(s);
    }
    return read_back(s, b, arena, err);
}

static int with_backend(struct side *s, struct snug_err *err)
{
    const struct backend *b;
    struct work work[TENSORS] = {0};
    void *arena;
    int64_t values = 2 * all_rooms(s);
    struct cuda_settings settings = {.device = s->rank.me % backend_cuda_count(), .ranks = s->rank.n};
    TRY(backend_cuda_open(&settings, &b, err));
    int code = s->port ? b->connect(b, &s->rank, err) : SNUG_OK;
    if (!code && s->few)
        cuda_of(b)->peers.slot_most = FEW_BYTES;
    make_work(s, work, NULL);
    int64_t bytes = values + workspace_bytes(b, work);
    if (!code)
        code = b->arena->alloc(b, bytes, 0, NULL, &arena, err);
    if (!code) {
        make_work(s, work, arena);
        give_workspaces(b, work, (char *)arena + values);
        code = add_up(s, b, arena, work, err);
        pthread_barrier_wait(s->end); /* nobody's memory goes while another adds */
        b->arena->free(b, arena, bytes);
    }
    backend_close(b);
    return code;
}

static void *work(void *arg)
{
    struct side *s = arg;
    struct processes p = {
        .me = s->rank.me, .n = s->rank.n, .host = "127.0.0.1", .port = s->port, .wait = 20, .silence = 10, .agree = ""};
    if (s->port && processes_open(&p, &s->rank.all, &s->err))
        return NULL;
    if (with_backend(s, &s->err))
        ranks_leave(&s->rank, SNUG_ERR_ENV, "as the test wants it");
    if (s->port)
        ranks_close(s->rank.all);
    return NULL;
}

enum kind { THREADS, CONNECTED, CONNECTED_WITH_LITTLE, KINDS };

static void run_ranks(struct side *sides, int n, enum kind kind, enum op op, enum whose whose, int leaver)
{
    pthread_t threads[MOST];
    pthread_barrier_t end;
    struct ranks *all = NULL;
    int port = kind < CONNECTED ? 0 : free_port();
    if (!port)
        assert_int_equal(ranks_open(n, &all, NULL), SNUG_OK);
    assert_int_equal(pthread_barrier_init(&end, NULL, (unsigned)n), 0);
    for (int r = 0; r < n; r++) {
        sides[r] = (struct side){.rank = {all, r, n},
                                 .port = port,
                                 .few = kind == CONNECTED_WITH_LITTLE,
                                 .op = op,
                                 .whose = whose,
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
static double wanted(enum op op, enum whose whose, int r, int n, int t, int64_t i)
{
    int round = ROUNDS - 1, which = one_of(t, n, whose);
    for (int k = 0; whose == EACH && k < n; k++) {
        struct shard s = shard_of(tensors[t].elements, CHUNK, n, k);
        which = i >= s.first && i < s.first + s.n ? k + 1 : which;
    }
    if (op == OP_all_reduce && (!which || which == r + 1))
        return sum(n, round, i, tensors[t].type);
    return rounded(number(op == OP_all_reduce ? r : which - 1, round, i), tensors[t].type);
}

/* Each of them wants a device. */
static int most_ranks(enum kind kind)
{
    int devices = backend_cuda_count();
    return kind < CONNECTED || devices > MOST ? MOST : devices;
}

static void check_ranks(enum kind kind, int n, enum op op, enum whose whose)
{
    struct side sides[MOST];
    run_ranks(sides, n, kind, op, whose, -1);
    for (int r = 0; r < n; r++) {
        int64_t at = 0;
        assert_int_equal(sides[r].err.code, 0);
        for (int t = 0; t < TENSORS; at += tensors[t].elements, t++)
            for (int64_t i = 0; i < tensors[t].elements; i++)
                if (sides[r].got[at + i] != wanted(op, whose, r, n, t, i))
                    fail_msg("%s, kind %d, rank %d of %d, tensor %d, element %lld: %.9g, not %.9g", op_table[op].name,
                             kind, r, n, t, (long long)i, sides[r].got[at + i], wanted(op, whose, r, n, t, i));
        mem_free(sides[r].got);
    }
}

static void check(enum op op, enum whose whose)
{
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int n = kind < CONNECTED ? 1 : 2; n <= most_ranks(kind); n++)
            check_ranks(kind, n, op, whose);
}

static void ranks_have_the_sum(void **state)
{
    (void)state;
    check(OP_all_reduce, ALL);
}

static void one_rank_has_the_sum(void **state)
{
    (void)state;
    check(OP_all_reduce, ONE);
}

static void ranks_have_what_one_had(void **state)
{
    (void)state;
    check(OP_broadcast, ONE);
}

static void each_has_the_sum_of_its_shard(void **state)
{
    (void)state;
    check(OP_all_reduce, EACH);
}

static void ranks_have_all_shards(void **state)
{
    (void)state;
    check(OP_broadcast, EACH);
    check(OP_pull, EACH);
}

/* So that what reads shards of ranks which are not there reads numbers. */
static void who_is_alone_has_its_shard_for_all(void **state)
{
    enum { RANKS = 3 };
    (void)state;
    pthread_barrier_t end;
    struct side s = {.rank = {NULL, 0, RANKS}, .op = OP_broadcast, .whose = EACH, .alone = true, .end = &end};
    s.got = mem_alloc((size_t)elements() * 8);
    assert_int_equal(pthread_barrier_init(&end, NULL, 1), 0);
    assert_int_equal(with_backend(&s, &s.err), SNUG_OK);
    for (int64_t t = 0, at = 0; t < TENSORS; at += tensors[t].elements, t++)
        for (int k = 0; k < RANKS; k++) {
            struct shard mine = shard_of(tensors[t].elements, CHUNK, RANKS, 0),
                         of = shard_of(tensors[t].elements, CHUNK, RANKS, k);
            for (int64_t i = 0; i < of.n && mine.n; i++) /* a tensor of fewer chunks than ranks is not shared out */
                assert_true(s.got[at + of.first + i] == rounded(number(0, ROUNDS - 1, i % mine.n), tensors[t].type));
        }
    pthread_barrier_destroy(&end);
    mem_free(s.got);
}

static void nobody_waits_for_who_has_left(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind <= CONNECTED; kind++) {
        struct side sides[3];
        int n = most_ranks(kind) < 3 ? most_ranks(kind) : 3;
        if (n < 2)
            continue;
        run_ranks(sides, n, kind, OP_all_reduce, ALL, 1);
        for (int r = 0; r < n; r++) {
            assert_int_equal(sides[r].err.code, r == 1 ? SNUG_OK : kind < CONNECTED ? SNUG_ERR_ENV : SNUG_ERR_PEER);
            mem_free(sides[r].got);
        }
    }
}

/* Only the first rank plans the run. What its products may use of workspaces the others know: else they would run by other algorithms. */
static void others_have_the_workspaces_of_products(void **state)
{
    (void)state;
    const struct backend *first, *other;
    const struct cuda_settings settings = {.ranks = 2};
    union args_any args = {0};
    args.linear.x = (struct tensor){.dtype = DT_F32, .ndim = 2, .shape = {272, 272}};
    args.linear.w = args.linear.y = args.linear.x;
    assert_int_equal(backend_cuda_open(&settings, &first, NULL), SNUG_OK);
    struct cuda_product product = cuda_product_of(cuda_of(first)->call.products, OP_linear, &args, false);
    backend_workspace_bytes(first, OP_linear, &args, 1);
    int64_t bytes = algorithms_granted(cuda_of(first)->call.products, &product);
    assert_true(bytes >= 0);
    assert_int_equal(first->beside(first, 0, &other, NULL), SNUG_OK);
    assert_int_equal(algorithms_granted(cuda_of(other)->call.products, &product), bytes);
    backend_close(other);
    backend_close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_have_the_sum),
                                       cmocka_unit_test(one_rank_has_the_sum),
                                       cmocka_unit_test(ranks_have_what_one_had),
                                       cmocka_unit_test(each_has_the_sum_of_its_shard),
                                       cmocka_unit_test(ranks_have_all_shards),
                                       cmocka_unit_test(who_is_alone_has_its_shard_for_all),
                                       cmocka_unit_test(nobody_waits_for_who_has_left),
                                       cmocka_unit_test(others_have_the_workspaces_of_products)};
    if (!backend_cuda_present()) {
        printf("skipped: no NVIDIA GPU here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
