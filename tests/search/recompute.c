/* search/: what is chosen to be computed again, against every other choice there is. A program's arena and the time of its nodes
 * come from compiling it; nothing of the search's own arithmetic is used to judge it. */
#include "search/recompute.h"

#include "base/hash.h"
#include "cuda/sheet.h"
#include "search/prefixes.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_LAYERS = 6, MOST_SETS = 256 };

struct setup {
    json_t *config; /* which the model points into */
    struct model_config model;
    struct compile_settings s;
    struct choices choices;
};

/* A model of tests/golden with so many layers, on many tokens: small weights, large activations. */
static void set_up(struct setup *t, const char *name, int layers, enum dtype narrow)
{
    char path[512];
    struct snug_err err;
    snprintf(path, sizeof path, "%s/tests/golden/%s/config.json", getenv("SNUG_SOURCE"), name);
    *t = (struct setup){.config = json_load_file(path, 0, NULL),
                        .choices = {.micro = {.T = 1 << 16, .B = 1 << 13}, .accumulation = 1, .updates_at_end = true}};
    if (model_config_read(t->config, path, &t->model, &err))
        fail_msg("%s", err.text);
    t->model.layers = layers;
    t->s = (struct compile_settings){
        .model = &t->model,
        .backend = backend_cpu(),
        .threads = 2,
        .precision = {.wide = DT_F32, .narrow = narrow, .narrow_grads = true},
        .train = true,
        .dropout = true,
        .update = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1, .state_type = DT_F32}};
}

static void tear_down(struct setup *t)
{
    json_decref(t->config);
}

static void compile(const struct setup *t, const struct recompute_set *sets, struct plan *plan, struct programs *where)
{
    struct snug_err err;
    struct choices choices = t->choices;
    choices.recompute = sets;
    *plan = (struct plan){0};
    if (compile_run(&t->s, &choices, plan, where, &err))
        fail_msg("%s", err.text);
}

static double seconds_of(const struct setup *t, const struct plan *plan)
{
    struct rates r = rates_of(t->s.backend, &t->s.precision, t->s.threads, (struct dims){0});
    return rates_program(&r, &plan->programs[0]);
}

/* Sets of one layer that give different programs, of which the first keeps all. */
static int distinct_sets(const struct setup *t, int layer, int nodes, uint64_t *out)
{
    struct hash128 seen[MOST_SETS];
    int n = 0;
    for (uint64_t set = 0; set < UINT64_C(1) << nodes; set++) {
        struct recompute_set sets[MOST_LAYERS + 2] = {{0}};
        sets[layer].nodes = set;
        struct plan plan;
        struct programs where;
        struct arena arena = {0};
        struct snug_err err;
        char *text;
        compile(t, sets, &plan, &where);
        assert_int_equal(graph_print(&plan.programs[0].graph, &arena, &text, &err), SNUG_OK);
        struct hash_state *h = hash_new();
        hash_add(h, text, strlen(text));
        struct hash128 now = hash_now(h);
        hash_end(h);
        arena_free(&arena);
        plan_free(&plan);
        int i = 0;
        while (i < n && memcmp(&seen[i], &now, sizeof now))
            i++;
        if (i < n)
            continue;
        assert_true(n < MOST_SETS);
        seen[n] = now;
        out[n++] = set;
    }
    return n;
}

/* Of every pair of sets for two layers, what they take. */
struct pair {
    int64_t bytes;
    double seconds;
};

static struct pair measure(const struct setup *t, const struct recompute_set *sets)
{
    struct plan plan;
    struct programs where;
    compile(t, sets, &plan, &where);
    struct pair p = {plan.arena_bytes, seconds_of(t, &plan)};
    plan_free(&plan);
    return p;
}

/* The search against the best of n ways, for budgets from the least to the most that any of them takes; more bytes are never
 * slower. */
static void compare(const struct setup *t, const struct pair *all, int n)
{
    enum { BUDGETS = 24 };
    int64_t least = INT64_MAX, most = 0;
    double before = 1e30;
    for (int i = 0; i < n; i++) {
        least = all[i].bytes < least ? all[i].bytes : least;
        most = all[i].bytes > most ? all[i].bytes : most;
    }
    for (int b = 0; b <= BUDGETS; b++) {
        struct snug_err err;
        struct recomputed r;
        int64_t budget = least + (most - least) * b / BUDGETS;
        double best = 1e30;
        for (int i = 0; i < n; i++)
            best = all[i].bytes <= budget && all[i].seconds < best ? all[i].seconds : best;
        const struct recompute_aim aim = {.limit = budget, .host = INT64_MAX, .below = INT64_MAX, .seconds = INFINITY};
        if (recompute_search(&t->s, &t->choices, &aim, &r, &err))
            fail_msg("%s", err.text);
        if (!r.fits || r.arena_bytes > budget || r.seconds > 1.01 * best || r.seconds > before)
            fail_msg("in %lld bytes: %g s in %lld bytes, of a fit %d; the best is %g s, less had %g s",
                     (long long)budget, r.seconds, (long long)r.arena_bytes, r.fits, best, before);
        before = r.seconds;
        mem_free(r.sets);
    }
}

/* All ways to compute two layers again. */
static void as_good_as_every_other_choice(void **state)
{
    (void)state;
    static struct pair all[MOST_SETS * MOST_SETS];
    uint64_t sets[MOST_SETS];
    struct setup t;
    set_up(&t, "bert_mlm", 2, DT_BF16);
    int n = distinct_sets(&t, 1, 7, sets);
    for (int i = 0; i < n * n; i++)
        all[i] = measure(&t, (const struct recompute_set[]){{0}, {.nodes = sets[i / n]}, {.nodes = sets[i % n]}, {0}});
    compare(&t, all, n * n);
    tear_down(&t);
}

/* Five layers, of which all but some at the end do the same. */
static void better_than_one_choice_for_all_layers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int nodes;
    } models[] = {{"bert_mlm", 7}, {"llama", 9}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        static struct pair all[5 * MOST_SETS];
        uint64_t sets[MOST_SETS];
        struct setup t;
        set_up(&t, models[m].name, 5, DT_BF16);
        int n = distinct_sets(&t, 1, models[m].nodes, sets), ways = 0;
        for (int i = 0; i < n; i++)
            for (int same = 1; same <= 5; same++) {
                struct recompute_set way[MOST_LAYERS + 2] = {{0}};
                for (int l = 1; l <= same; l++)
                    way[l].nodes = sets[i];
                all[ways++] = measure(&t, way);
            }
        compare(&t, all, ways);
        tear_down(&t);
    }
}

/* What the search goes by is what its choices come to as programs, so that it need not compile those that are too large. */
static void choices_take_what_is_reckoned(void **state)
{
    (void)state;
    static const char *const models[] = {"bert_mlm", "llama", "gpt2"};
    int exact = 0, joined = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct setup t;
        struct plan plan, other;
        struct programs where;
        struct menu menu;
        struct snug_err err;
        struct recompute_set sets[MOST_LAYERS + 2];
        set_up(&t, models[m], MOST_LAYERS, DT_BF16);
        compile(&t, NULL, &plan, &where);
        struct rates r = rates_of(t.s.backend, &t.s.precision, t.s.threads, (struct dims){0});
        if (menu_open(&menu, &plan, &plan.programs[0], &err) || menu_list(&menu, &r, &err))
            fail_msg("%s", err.text);
        int64_t least =
            menu.layers.beside_most > menu.layers.head_most ? menu.layers.beside_most : menu.layers.head_most;
        int64_t held = INT64_MAX; /* in the end it is so little that layers are joined */
        for (int i = 16; i > -8; i--) {
            struct chosen chosen;
            struct limits limits = {least + (plan.programs[0].lower_bound_bytes - least) / 16 * (i > 0 ? i : 8), held};
            assert_int_equal(menu_choose(&menu, limits, sets, &chosen, &err), SNUG_OK);
            if (!chosen.fits)
                continue;
            held = i > 1 ? INT64_MAX : chosen.held * 2 / 3;
            compile(&t, sets, &other, &where);
            int64_t bytes = other.programs[0].lower_bound_bytes;
            assert_true(bytes >= menu.layers.least);
            assert_true(chosen.joins ? bytes <= chosen.live : bytes == chosen.live);
            exact += !chosen.joins;
            joined += chosen.joins;
            plan_free(&other);
        }
        menu_close(&menu);
        plan_free(&plan);
        tear_down(&t);
    }
    print_message("%d exact, %d with layers joined\n", exact, joined);
    assert_true(exact >= 20 && joined >= 1);
}

/* Where a fit is all that is asked for, the same one is found; where none is, nothing but that. */
static void less_is_looked_for_where_it_is_asked_for(void **state)
{
    (void)state;
    struct setup t;
    struct plan plan;
    struct programs where;
    set_up(&t, "llama", MOST_LAYERS, DT_BF16);
    compile(&t, NULL, &plan, &where);
    for (int i = 1; i < 16; i++) {
        struct snug_err err;
        struct recomputed all, fit;
        struct recompute_aim aim = {
            .limit = plan.arena_bytes / 16 * i, .host = INT64_MAX, .below = INT64_MAX, .seconds = INFINITY};
        assert_int_equal(recompute_search(&t.s, &t.choices, &aim, &all, &err), SNUG_OK);
        aim.below = 0;
        assert_int_equal(recompute_search(&t.s, &t.choices, &aim, &fit, &err), SNUG_OK);
        assert_int_equal(fit.fits, all.fits);
        assert_true(all.fits ? fit.arena_bytes == all.arena_bytes && fit.seconds == all.seconds
                             : fit.arena_bytes == INT64_MAX && all.arena_bytes > aim.limit);
        mem_free(fit.sets);
        if (all.fits) { /* and one that is as slow is none */
            aim.seconds = all.seconds;
            assert_int_equal(recompute_search(&t.s, &t.choices, &aim, &fit, &err), SNUG_OK);
            assert_false(fit.fits && fit.seconds < all.seconds);
            mem_free(fit.sets);
        }
        mem_free(all.sets);
    }
    plan_free(&plan);
    tear_down(&t);
}

/* On a GPU what is kept may leave for the host's memory as well. That is never slower, it goes below what is there without, and the step
 * takes as long as was reckoned: the lanes of the program say so. */
static void what_leaves_costs_no_time(void **state)
{
    (void)state;
    enum { BUDGETS = 24 };
    int faster = 0, below = 0;
    const struct gpu_sheet *sheet;
    struct snug_err err;
    struct setup t;
    struct plan plan;
    struct programs where;
    set_up(&t, "../../bench/models/llama-3.1-8b", 24, DT_BF16); /* as wide and deep as models are in practice */
    t.s.freeze = "*proj*";                                      /* and activations are most of what it takes */
    if (gpu_sheet_find("h100", &sheet, &err) || gpu_sheet_open(sheet, false, 1, &t.s.backend, &err))
        fail_msg("%s", err.text);
    compile(&t, NULL, &plan, &where);
    for (int i = BUDGETS; i > 0; i--) {
        struct recomputed with, without;
        struct recompute_aim aim = {
            .limit = plan.arena_bytes / BUDGETS * i, .host = INT64_MAX, .below = 0, .seconds = INFINITY};
        assert_int_equal(recompute_search(&t.s, &t.choices, &aim, &without, &err), SNUG_OK);
        aim.sends = true;
        assert_int_equal(recompute_search(&t.s, &t.choices, &aim, &with, &err), SNUG_OK);
        assert_true(with.fits || !without.fits);
        if (with.fits) {
            struct plan chosen;
            compile(&t, with.sets, &chosen, &where);
            double lanes = seconds_of(&t, &chosen);
            assert_true(chosen.arena_bytes == with.arena_bytes && chosen.host_bytes == with.host_bytes);
            assert_true(fabs(with.seconds - lanes) < 0.03 * lanes);
            assert_true(!without.fits || with.seconds <= 1.01 * without.seconds); /* either is found roughly */
            faster += without.fits && with.seconds < 0.99 * without.seconds && with.host_bytes > 0;
            below += !without.fits && with.host_bytes > 0;
            plan_free(&chosen);
        }
        mem_free(with.sets);
        mem_free(without.sets);
    }
    print_message("%d budgets faster, %d lower\n", faster, below);
    assert_true(faster > 0 && below > 0);
    backend_close(t.s.backend);
    plan_free(&plan);
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_good_as_every_other_choice), cmocka_unit_test(better_than_one_choice_for_all_layers),
        cmocka_unit_test(choices_take_what_is_reckoned), cmocka_unit_test(less_is_looked_for_where_it_is_asked_for),
        cmocka_unit_test(what_leaves_costs_no_time),
    };
    return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
