/* ranks/processes: what ranks exchange over sockets arrives whole, in the order of ranks, and their sums are those of ranks in one
 * memory; a stranger at the port is sent away; who leaves is known to all, with what it says. Each rank is a thread here, with sockets of
 * its own. */
#include "ranks/processes.h"

#include "../port.h"

#include "base/seconds.h"
#include "cpu/isa.h"
#include "graph/op.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 4 };

struct side {
    int me, n, port;
    void (*play)(struct side *s);
    struct rank rank;
    int code; /* of opening */
    struct snug_err err;
    const char *agree;
    int64_t elements; /* of a sum */
    enum dtype type;
    bool right;
};

static void *be(void *arg)
{
    struct side *s = arg;
    struct processes p = {.me = s->me,
                          .n = s->n,
                          .host = "127.0.0.1",
                          .port = s->port,
                          .wait = 20,
                          .silence = 10,
                          .agree = s->agree ? s->agree : "a 1\nb 2\n"};
    struct ranks *all;
    s->code = processes_open(&p, &all, &s->err);
    s->rank = (struct rank){all, s->me, s->n};
    if (!s->code)
        s->play(s);
    if (!s->code && !s->right)
        ranks_failure(all, &s->err); /* for who asks why */
    ranks_close(all);
    return NULL;
}

/* All sides play the same; `sides` (n) may have been filled besides. */
static void play(struct side *sides, int n, void (*what)(struct side *s))
{
    pthread_t threads[MOST];
    int port = free_port();
    for (int i = 0; i < n; i++) {
        sides[i].me = i, sides[i].n = n, sides[i].port = port, sides[i].play = what;
        assert_int_equal(pthread_create(&threads[i], NULL, be, &sides[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- exchange ---- */

/* Rank a sends rank b so many bytes; more than sockets hold at once. */
static size_t bytes_of(int a, int b)
{
    return a == b ? 10 : (size_t)(a * 7 + b) * 300007 % 2000003;
}

static bool exchanges(struct side *s)
{
    struct piece out[MOST], in[MOST];
    bool right = true;
    for (int k = 0; k < s->n; k++) {
        out[k] = (struct piece){malloc(bytes_of(s->me, k) + 1), bytes_of(s->me, k)};
        in[k] = (struct piece){malloc(bytes_of(k, s->me) + 1), bytes_of(k, s->me)};
        memset(out[k].data, 16 * s->me + k + 1, out[k].bytes);
    }
    right &= ranks_exchange(&s->rank, out, in);
    for (int k = 0; k < s->n; k++) {
        for (size_t i = 0; i < in[k].bytes; i++)
            right &= ((unsigned char *)in[k].data)[i] == 16 * k + s->me + 1;
        free(out[k].data);
        free(in[k].data);
    }
    return right;
}

static bool gathers(struct side *s)
{
    bool right = true;
    char text[64], shared[8] = "nothing";
    for (int round = 0; round < 5; round++) { /* of other lengths each time */
        snprintf(text, sizeof text, "%.*s rank %d", 3 * round * (s->me + 1), "..................................",
                 s->me);
        void *const *all = ranks_gather(&s->rank, text, strlen(text) + 1);
        right &= all != NULL;
        for (int k = 0; all && !s->me && k < s->n; k++) {
            char want[64];
            snprintf(want, sizeof want, "%.*s rank %d", 3 * round * (k + 1), "..................................", k);
            right &= !strcmp(all[k], want);
        }
    }
    if (s->me == 0)
        strcpy(shared, "of all");
    right &= ranks_share(&s->rank, shared, sizeof shared) && !strcmp(shared, "of all");
    right &= ranks_any(&s->rank, false) == 0 && ranks_any(&s->rank, s->me == s->n - 1) == 1;
    return right;
}

static void exchange_all(struct side *s)
{
    s->right = !ranks_share_memory(&s->rank) && exchanges(s) && gathers(s) && exchanges(s);
}

static void what_is_sent_arrives(void **state)
{
    (void)state;
    for (int n = 2; n <= MOST; n++) {
        struct side sides[MOST] = {0};
        play(sides, n, exchange_all);
        for (int i = 0; i < n; i++)
            assert_true(sides[i].code == SNUG_OK && sides[i].right);
    }
}

/* ---- sums ---- */

static float number(int rank, int64_t i)
{
    return (float)((i * 37 + rank * 101) % 1009 - 500) * (rank % 2 ? 1e-3F : 1) / 7;
}

static float get(const void *data, enum dtype type, int64_t i)
{
    return type == DT_F32   ? ((const float *)data)[i]
           : type == DT_F64 ? (float)((const double *)data)[i]
                            : bf16_to_float(((const uint16_t *)data)[i]);
}

/* By the kernels of this processor, or the reference. */
static void add_up(struct side *s)
{
    union args_any args = {0};
    const struct call call = {.threads = 2, .rank = &s->rank};
    int64_t n = s->elements;
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    void *data = malloc((size_t)dtype_bytes(s->type, n) + 64);
    for (int64_t i = 0; i < n; i++)
        x[i] = number(s->me, i);
    dtype_convert(data, s->type, x, DT_F32, n);
    args.all_reduce.g = (struct tensor){.data = data, .dtype = s->type, .ndim = 1, .shape = {n}};
    if (s->type == DT_F64)
        ref_all_reduce(&args.all_reduce, &call);
    else
        cpu_isa_chosen()->kernels->run[OP_all_reduce](&args, &call);
    s->right = true;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        double wide = 0;
        for (int k = 0; k < s->n; k++) {
            float term = s->type == DT_BF16 ? bf16_to_float(bf16_from_float(number(k, i))) : number(k, i);
            sum = k ? sum + term : term;
            wide += (double)number(k, i);
        }
        float want = s->type == DT_F32 ? sum : s->type == DT_F64 ? (float)wide : bf16_to_float(bf16_from_float(sum));
        s->right &= get(data, s->type, i) == want;
    }
    free(data);
    free(x);
}

/* Of none, of fewer elements than ranks, of more than are added up at once. */
static void sums_are_in_the_order_of_ranks(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 3, 1000, 3000017};
    static const enum dtype types[] = {DT_F32, DT_BF16, DT_F64};
    for (int n = 2; n <= MOST; n++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct side sides[MOST] = {0};
            for (int i = 0; i < n; i++)
                sides[i].elements = sizes[k], sides[i].type = types[(size_t)n % 3];
            play(sides, n, add_up);
            for (int i = 0; i < n; i++)
                if (sides[i].code || !sides[i].right)
                    fail_msg("rank %d of %d, %lld elements: %d %s", i, n, (long long)sizes[k], sides[i].code,
                             sides[i].err.text);
        }
}

/* ---- pulls ---- */

/* Each has something of its own at that place, and takes what the last one has. */
static void pull(struct side *s)
{
    union args_any args = {0};
    const struct call call = {.threads = 2, .rank = &s->rank};
    int64_t n = s->elements;
    char *mine = malloc((size_t)dtype_bytes(s->type, n) + 64), *got = malloc((size_t)dtype_bytes(s->type, n) + 64);
    for (int64_t i = 0; i < dtype_bytes(s->type, n); i++)
        mine[i] = (char)(i * 7 + s->me);
    args.pull.x = (struct tensor){.data = mine, .dtype = s->type, .ndim = 1, .shape = {n}};
    args.pull.y = (struct tensor){.data = got, .dtype = s->type, .ndim = 1, .shape = {n}};
    args.pull.from = s->n;
    if (s->type == DT_F64)
        ref_pull(&args.pull, &call);
    else
        cpu_isa_chosen()->kernels->run[OP_pull](&args, &call);
    s->right = true;
    for (int64_t i = 0; i < dtype_bytes(s->type, n); i++)
        s->right &= got[i] == (char)(i * 7 + s->n - 1) && mine[i] == (char)(i * 7 + s->me);
    free(mine);
    free(got);
}

static void what_one_has_all_can_pull(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 1000, 300017};
    static const enum dtype types[] = {DT_F32, DT_BF16, DT_F64};
    for (int n = 2; n <= MOST; n++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct side sides[MOST] = {0};
            for (int i = 0; i < n; i++)
                sides[i].elements = sizes[k], sides[i].type = types[(size_t)n % 3];
            play(sides, n, pull);
            for (int i = 0; i < n; i++)
                assert_true(sides[i].code == SNUG_OK && sides[i].right);
        }
}

/* ---- leaving ---- */

/* The last one leaves while the others wait for it. */
static void leave(struct side *s)
{
    char all[MOST], mine = 1;
    if (s->me == s->n - 1)
        ranks_leave(&s->rank, SNUG_ERR_ENV, "its disk is full");
    else
        s->right = !ranks_gather_all(&s->rank, &mine, 1, all) && ranks_left(s->rank.all) == s->n - 1 &&
                   ranks_left_code(s->rank.all) == SNUG_ERR_ENV;
    ranks_failure(s->rank.all, &s->err);
}

static void who_leaves_says_why(void **state)
{
    (void)state;
    struct side sides[MOST] = {0};
    play(sides, 3, leave);
    for (int i = 0; i < 2; i++) {
        assert_true(sides[i].right);
        assert_string_equal(sides[i].err.text, "rank 2: its disk is full");
    }
}

/* One makes another call than the rest. */
static void err_in_step(struct side *s)
{
    char few[MOST * 8], mine[8] = {0};
    bool met = ranks_gather_all(&s->rank, mine, s->me == 1 ? 8 : 4, few);
    s->right = !met;
    ranks_failure(s->rank.all, &s->err);
}

static void who_does_something_else_is_noticed(void **state)
{
    (void)state;
    struct side sides[MOST] = {0};
    play(sides, 2, err_in_step);
    assert_true(sides[0].right);
    assert_non_null(strstr(sides[0].err.text, "it does something else than the others"));
}

/* ---- meeting ---- */

static void nothing(struct side *s)
{
    s->right = ranks_any(&s->rank, false) == 0;
}

static void *disturb(void *arg)
{
    const struct side *s = arg;
    struct address a;
    int errnum;
    assert_int_equal(address_find("127.0.0.1", s->port, &a, NULL), SNUG_OK);
    int fd = socket_connect(&a, seconds_now() + 10, &errnum);
    socket_send(
        fd, "GET / HTTP/1.1\r\nHost: somebody looks who is there, and says more than a process of a run would\r\n\r\n",
        90, seconds_now() + 1);
    close(fd);
    return NULL;
}

static void strangers_are_sent_away(void **state)
{
    (void)state;
    struct side sides[2] = {{.n = 2}, {.n = 2}};
    pthread_t threads[3];
    sides[0].port = sides[1].port = free_port();
    sides[1].me = 1;
    sides[0].play = sides[1].play = nothing;
    assert_int_equal(pthread_create(&threads[0], NULL, be, &sides[0]), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, disturb, &sides[0]), 0);
    pthread_join(threads[2], NULL);
    assert_int_equal(pthread_create(&threads[1], NULL, be, &sides[1]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_true(sides[i].code == SNUG_OK && sides[i].right);
    }
}

/* The first line that differs is named, by the first rank alone. */
static void they_must_agree(void **state)
{
    (void)state;
    struct side sides[MOST] = {[1] = {.agree = "a 1\nb 3\n"}};
    play(sides, 3, nothing);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sides[i].code, SNUG_ERR_USAGE);
    assert_string_equal(sides[0].err.text, "rank 1 has b 3, rank 0 b 2; start all alike");
    assert_string_equal(sides[1].err.text, "");
    assert_string_equal(sides[2].err.text, "");
}

static void a_host_must_exist(void **state)
{
    (void)state;
    struct processes p = {.n = 2, .host = "no such host", .port = 1, .wait = 1, .silence = 1, .agree = ""};
    struct ranks *all;
    struct snug_err err;
    assert_int_equal(processes_open(&p, &all, &err), SNUG_ERR_ENV);
    assert_non_null(strstr(err.text, "host no such host: cannot be found"));
    assert_null(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_sent_arrives),
                                       cmocka_unit_test(sums_are_in_the_order_of_ranks),
                                       cmocka_unit_test(what_one_has_all_can_pull),
                                       cmocka_unit_test(who_leaves_says_why),
                                       cmocka_unit_test(who_does_something_else_is_noticed),
                                       cmocka_unit_test(strangers_are_sent_away),
                                       cmocka_unit_test(they_must_agree),
                                       cmocka_unit_test(a_host_must_exist)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
