/* plan/pack.c beside a brute-force packer: no two values that live at once share a byte, nine of ten arenas are the smallest
 * that there is, and none is more than a quarter larger. */
#include "base/philox.h"
#include "by_hand.h"

enum { MOST = 7 };

struct interval {
    int first, last; /* nodes */
    int64_t bytes, at;
};

static bool meet(const struct interval *a, const struct interval *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place that is free beside what was placed before. */
static int64_t lowest(const struct interval *v, const int *order, int k)
{
    const struct interval *x = &v[order[k]];
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < k; j++) {
            const struct interval *y = &v[order[j]];
            if (meet(x, y) && at < y->at + y->bytes && y->at < at + x->bytes) {
                at = y->at + y->bytes;
                moved = true;
            }
        }
    }
    return at;
}

/* The smallest arena. Some order of placing each value as low as it goes reaches it: that of the places in an arena
 * where everything has sunk as low as it can. */
static int64_t smallest(struct interval *v, int *order, int k, int n, int64_t end, int64_t best)
{
    if (end >= best)
        return best;
    if (k == n)
        return end;
    for (int i = k; i < n; i++) {
        int swap = order[k];
        order[k] = order[i], order[i] = swap;
        struct interval *x = &v[order[k]];
        x->at = lowest(v, order, k);
        int64_t top = x->at + x->bytes;
        best = smallest(v, order, k + 1, n, top > end ? top : end, best);
        swap = order[k];
        order[k] = order[i], order[i] = swap;
    }
    return best;
}

static int64_t most_at_once(const struct interval *v, int n, int nodes)
{
    int64_t most = 0;
    for (int t = 1; t <= nodes; t++) {
        int64_t live = 0;
        for (int i = 0; i < n; i++)
            live += v[i].first <= t && t <= v[i].last ? v[i].bytes : 0;
        most = live > most ? live : most;
    }
    return most;
}

static void packing_is_sound_and_near_the_best(void **state)
{
    (void)state;
    enum { CASES = 400, SEED = 20261121 };
    int best = 0;
    for (uint32_t c = 0; c < CASES; c++) {
        uint32_t drawn = 0;
#define DRAW(below) ((int)(philox4x32((struct philox){{c, drawn++, 0, 0}}, SEED, 0).w[0] % (uint32_t)(below)))
        struct plan p = {0};
        struct program *g = add_program(&p, "random", (struct dims){0});
        struct interval v[MOST];
        int n = 2 + DRAW(MOST - 1), id[MOST], begun[MOST], n_begun = 0, order[MOST];
        for (int i = 0; i < n; i++) {
            int64_t bytes = 1 + DRAW(600);
            id[i] = bytes_value(g, bytes);
            v[i] = (struct interval){.bytes = (bytes + 63) / 64 * 64};
            order[i] = i;
        }
        for (int made = 0, node = 1; made < n || n_begun; node++) { /* one begins, or one ends */
            if (made < n && (!n_begun || DRAW(2))) {
                touch(g, id[made], 0);
                v[made].first = node;
                begun[n_begun++] = made++;
            } else {
                int which = DRAW(n_begun), i = begun[which];
                touch(g, 0, id[i]);
                v[i].last = node;
                begun[which] = begun[--n_begun];
            }
        }
        pack(&p);
        int nodes = g->graph.n_nodes - 1;
        int64_t bound = most_at_once(v, n, nodes), least = smallest(v, order, 0, n, 0, INT64_MAX);
        assert_int_equal(g->lower_bound_bytes, bound);
        assert_int_equal(p.arena_bytes, g->peak_bytes);
        assert_true(bound <= least && least <= g->peak_bytes);
        assert_true(4 * g->peak_bytes <= 5 * least);
        best += g->peak_bytes == least;
        for (int i = 0; i < n; i++) {
            int64_t at = g->at[id[i]];
            assert_true(at >= 0 && at % 64 == 0 && at + v[i].bytes <= p.arena_bytes);
            assert_true(g->first[id[i]] == v[i].first && g->last[id[i]] == v[i].last);
            for (int j = 0; j < i; j++)
                assert_true(!meet(&v[i], &v[j]) || at >= g->at[id[j]] + v[j].bytes || g->at[id[j]] >= at + v[i].bytes);
        }
        plan_free(&p);
    }
    print_message("%d of %d packings are the best there is\n", best, CASES);
    assert_true(best >= CASES * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_is_sound_and_near_the_best),
    };
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
