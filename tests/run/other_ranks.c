/* Nodes that another rank executes are left out, and what they wait for is waited for by what follows: by the plan, what a lane uses lives
 * until then. The backend notes what it is given. What each has a shard of is read and written wherever it lies. */
#include "../plan/by_hand.h"

#include "graph/lanes.h"
#include "ranks/ranks.h"
#include "ranks/shard.h"
#include "run/run.h"

#include <stddef.h>
#include <string.h>

enum { MOST = 8 };

static struct work given[MOST];
static int n_given;

static int note(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b, (void)err;
    for (int i = 0; i < n && n_given < MOST; i++)
        given[n_given++] = work[i];
    return SNUG_OK;
}

/* Two sums of a lane, 2 and 3, from what 1 makes. Node 4 waits for the first, node 5 for the second, node 6 for none of them. Of these
 * the first two are of rank 2. */
static void waits_are_kept(void **state)
{
    (void)state;
    struct backend b = *backend_cpu();
    struct run r = {.backend = &b, .threads = 1};
    struct ranks *all;
    struct snug_err err;
    b.run = note;
    struct program *g = add_program(&r.plan, "ranks", (struct dims){0});
    int x = bytes_value(g, 64), sums[2] = {bytes_value(g, 64), bytes_value(g, 64)};
    touch(g, x, 0);
    touch(g, sums[0], x);
    touch(g, sums[1], x);
    touch(g, 0, sums[0]);
    touch(g, 0, sums[1]);
    touch(g, 0, x);
    struct node *n = g->graph.nodes;
    n[2].lane = n[3].lane = LANE_SUMS;
    n[4].rank = n[5].rank = 2;
    lanes_find(&g->graph);
    assert_true(n[4].after[LANE_SUMS] == 2 && n[5].after[LANE_SUMS] == 3 && n[6].after[LANE_SUMS] == 0);
    pack(&r.plan);
    assert_int_equal(run_alloc(&r, &err), SNUG_OK);
    assert_int_equal(ranks_open(2, &all, &err), SNUG_OK);
    for (int me = 0; me < 2; me++) {
        struct rank rank = {all, me, 2};
        r.rank = &rank;
        n_given = 0;
        assert_int_equal(run_program(&r, 0, (struct dims){0}, NULL, 0, &err), SNUG_OK);
        assert_int_equal(n_given, me ? 6 : 4);
        assert_int_equal(given[3].after[LANE_SUMS], me ? 2 : 3);
        assert_int_equal(given[n_given - 1].after[LANE_SUMS], me ? 0 : 3);
    }
    ranks_close(all);
    run_close(&r);
}

/* Any elements of a value in shards, from where each rank has them: in pieces that begin and end within shards. */
static void pieces_are_found_in_shards(void **state)
{
    (void)state;
    enum { RANKS = 3, CHUNK = 4, WHOLE = 30, AT = 5 };
    float arenas[RANKS][AT + 12], back[WHOLE], numbers[WHOLE];
    struct run runs[RANKS] = {0};
    const struct run *ranks[RANKS];
    const struct rank first = {.me = 0, .n = RANKS};
    struct snug_err err;
    for (int k = 0; k < RANKS; k++) {
        runs[k] = (struct run){.backend = backend_cpu(), .threads = 1, .rank = &first, .ranks = ranks};
        runs[k].arenas.of[MEMORY_DEVICE] = (char *)arenas[k];
        ranks[k] = &runs[k];
    }
    for (int i = 0; i < WHOLE; i++)
        numbers[i] = (float)(i + 1);
    struct run_value v = {
        .data = arenas[0] + AT, .dtype = DT_F32, .elements = WHOLE, .shards = RANKS, .chunk = CHUNK, .whole = WHOLE};
    for (int piece = 1; piece <= WHOLE; piece++) {
        memset(arenas, 0, sizeof arenas);
        for (int i = 0; i < WHOLE; i += piece) {
            struct run_value part = run_part_of(&v, i, WHOLE - i < piece ? WHOLE - i : piece);
            assert_int_equal(run_write(&runs[0], &part, numbers + i, DT_F32, part.elements, &err), SNUG_OK);
        }
        for (int k = 0; k < RANKS; k++) {
            struct shard s = shard_of(WHOLE, CHUNK, RANKS, k);
            for (int64_t i = 0; i < s.n; i++)
                assert_true(arenas[k][AT + i] == numbers[s.first + i]);
            assert_true(arenas[k][AT - 1] == 0 && (s.n == 12 || arenas[k][AT + s.n] == 0));
        }
        for (int i = 0; i < WHOLE; i += piece) {
            struct run_value part = run_part_of(&v, i, WHOLE - i < piece ? WHOLE - i : piece);
            assert_int_equal(run_read(&runs[0], &part, back + i, DT_F32, &err), SNUG_OK);
        }
        assert_memory_equal(back, numbers, sizeof back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_are_kept), cmocka_unit_test(pieces_are_found_in_shards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
