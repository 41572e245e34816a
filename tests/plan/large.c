/* plan/: large programs. Packing is what its definition says, whose time goes with the square of the number of values; a
 * thousand layers are planned, which takes minutes where any pass does that; and planning stops when it is asked to. */
#include "base/philox.h"
#include "compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The definition: one value after another in the tightest hole beside those before it that live at the same time, in four
 * orders until one reaches the bound. */

struct box {
    int id, first, last;
    int64_t bytes, at;
    double weight;
};

static int heavy_first(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight) : x->id - y->id;
}

static bool meet(const struct box *a, const struct box *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The byte behind the last of boxes 0 … k-1 that covers byte `at` while box k lives; `at` where none does. */
static int64_t free_from(const struct box *v, int k, int64_t at)
{
    for (int j = 0; j < k; j++)
        if (meet(&v[j], &v[k]) && v[j].at <= at && at < v[j].at + v[j].bytes)
            return free_from(v, k, v[j].at + v[j].bytes);
    return at;
}

/* Where the next box above `at` begins; INT64_MAX where there is none. */
static int64_t free_to(const struct box *v, int k, int64_t at)
{
    int64_t to = INT64_MAX;
    for (int j = 0; j < k; j++)
        if (meet(&v[j], &v[k]) && v[j].at >= at && v[j].at < to)
            to = v[j].at;
    return to;
}

static int64_t place_all(struct box *v, int n)
{
    int64_t peak = 0;
    qsort(v, (size_t)n, sizeof *v, heavy_first);
    for (int k = 0; k < n; k++) {
        int64_t tightest = INT64_MAX, from = free_from(v, k, 0), to = free_to(v, k, from);
        for (v[k].at = from; to != INT64_MAX; from = free_from(v, k, to), to = free_to(v, k, from)) {
            if (to - from >= v[k].bytes && to - from < tightest)
                v[k].at = from, tightest = to - from;
        }
        if (tightest == INT64_MAX)
            v[k].at = from;
        peak = v[k].at + v[k].bytes > peak ? v[k].at + v[k].bytes : peak;
    }
    return peak;
}

static int64_t peak_by_definition(struct box *v, int n, int64_t bound)
{
    int64_t best = INT64_MAX;
    for (int order = 0; order < 4 && best > bound; order++) {
        for (int i = 0; i < n; i++) {
            double size = (double)v[i].bytes, life = v[i].last - v[i].first + 1;
            v[i].weight = order == 0 ? size * life : order == 1 ? size : order == 2 ? life : -v[i].first;
        }
        int64_t peak = place_all(v, n);
        best = peak < best ? peak : best;
    }
    return best;
}

/* Random lives, of which most are short, as a step's are. */
static void packing_is_what_it_is_defined_to_be(void **state)
{
    (void)state;
    enum { CASES = 30, VALUES = 150, SEED = 14 };
    for (uint32_t c = 0; c < CASES; c++) {
        struct plan p = {0};
        struct snug_err err;
        struct box v[VALUES];
        struct program *g = plan_add(&p, "random", (struct dims){0}, &err);
        assert_non_null(g);
        struct node nodes[2 * VALUES] = {0};
        for (int i = 0; i < 2 * VALUES; i++)
            nodes[i].op = OP_cast;
        for (int i = 0; i < VALUES; i++) {
            struct philox r = philox4x32((struct philox){{c, (uint32_t)i, 0, 0}}, SEED, 0);
            int life = r.w[0] % 4 ? (int)(r.w[1] % 8) : (int)(r.w[1] % (2 * VALUES));
            int first = i, last = first + 1 + life < 2 * VALUES ? first + 1 + life : 2 * VALUES - 1;
            while (last > 0 && nodes[last].u.cast.x)
                last--;
            last = last < first ? first : last;
            int64_t bytes = 64 * (1 + r.w[2] % 40);
            int id = graph_add_value(&g->graph, NULL, ROLE_ACTIVATION, DT_U8, 1, &DIM(bytes));
            nodes[first].u.cast.y = id;
            if (last > first)
                nodes[last].u.cast.x = id;
            v[i] = (struct box){.id = id, .first = first + 1, .last = last + 1, .bytes = bytes};
        }
        graph_set_nodes(&g->graph, nodes, 2 * VALUES);
        if (plan_pack(&p, &err))
            fail_msg("%s", err.text);
        assert_int_equal(g->peak_bytes, peak_by_definition(v, VALUES, g->lower_bound_bytes));
        plan_free(&p);
    }
}

/* ---- Depth. */

static const struct model_config narrow_bert = {
    .task = MODEL_SEQUENCE_CLASSIFICATION,
    .problem = PROBLEM_SINGLE_LABEL,
    .hidden_size = 16,
    .heads = 2,
    .vocab_size = 40,
    .longest = 16,
    .type_vocab_size = 2,
    .num_labels = 2,
    .init_std = 0.02,
    .dropout_hidden = 0.1,
    .dropout_attention = 0.1,
    .dropout_classifier = -1,
    .own.encoder = {.intermediate_size = 32, .act = ACT_gelu, .norm_eps = 1e-12}};

static int compile_layers(int layers, const struct stop_flag *stop, struct plan *plan, struct snug_err *err)
{
    extern const struct model_arch arch_bert;
    struct model_config model = narrow_bert;
    struct programs where;
    model.arch = &arch_bert;
    model.layers = layers;
    struct compile_settings s = {
        .model = &model,
        .backend = backend_cpu(),
        .threads = 1,
        .stop = stop,
        .precision = {.wide = DT_F32, .narrow = DT_BF16, .narrow_grads = true},
        .train = true,
        .dropout = true,
        .update = {.optimizer = OPTIM_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .state_type = DT_F32}};
    const struct choices choices = {
        .micro = {.T = 64, .B = 4}, .accumulation = 1, .recompute_every_n = layers / 50, .copies = true};
    return compile_run(&s, &choices, plan, &where, err);
}

/* Each further layer adds the same nodes and the same persistent bytes. */
static void a_thousand_layers(void **state)
{
    (void)state;
    static const int layers[] = {100, 150, 1000};
    int64_t nodes[3], bytes[3];
    for (int i = 0; i < 3; i++) {
        struct plan plan = {0};
        struct snug_err err;
        if (compile_layers(layers[i], NULL, &plan, &err))
            fail_msg("%s", err.text);
        nodes[i] = plan.programs[0].graph.n_nodes;
        bytes[i] = plan.persistent_bytes;
        plan_free(&plan);
    }
    assert_int_equal(nodes[2] - nodes[0], 18 * (nodes[1] - nodes[0]));
    assert_int_equal(bytes[2] - bytes[0], 18 * (bytes[1] - bytes[0]));
}

static void planning_stops_when_asked_to(void **state)
{
    (void)state;
    struct plan plan = {0};
    struct snug_err err;
    struct stop_flag stop = {.signal = 15};
    assert_int_equal(compile_layers(4, &stop, &plan, &err), SNUG_STOPPED);
    plan_free(&plan);
    struct program *g = plan_add(&plan, "packed", (struct dims){0}, &err);
    assert_non_null(g);
    plan.stop = &stop;
    assert_int_equal(plan_pack(&plan, &err), SNUG_STOPPED);
    assert_non_null(strstr(err.text, "stopped by a signal"));
    plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_is_what_it_is_defined_to_be),
        cmocka_unit_test(a_thousand_layers),
        cmocka_unit_test(planning_stops_when_asked_to),
    };
    return cmocka_run_group_tests_name("plan-large", tests, NULL, NULL);
}
