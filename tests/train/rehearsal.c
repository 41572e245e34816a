/* How long timing a model's nodes may take. */
#include "train/forecast/rehearsal.h"

#include "model/model.h"
#include "run/nodes.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct choices once = {
    .micro = {.T = 16, .B = 2}, .accumulation = 1, .updates_at_end = true, .copies = true};

/* A small decoder, and two rows of eight tokens of it. */
static struct compile_settings open_small(struct model_config *model, struct typical *typical)
{
    char path[512];
    struct snug_err err;
    snprintf(path, sizeof path, "%s/tests/golden/llama/config.json", getenv("SNUG_SOURCE"));
    json_t *config = json_load_file(path, 0, NULL);
    if (model_config_read(config, path, model, &err) ||
        typical_open(typical, model, NULL, 8, 0, 2, (struct dims){.T = 16}, &err))
        fail_msg("%s", err.text);
    json_decref(config);
    return (struct compile_settings){
        .model = model,
        .backend = backend_cpu(),
        .threads = 1,
        .precision = {.wide = DT_F32, .narrow = DT_F32},
        .train = true,
        .update = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1, .state_type = DT_F32}};
}

static int times_of(const struct rehearsal_limits *limits, double *seconds, struct snug_err *err)
{
    struct model_config model;
    struct typical typical;
    struct rehearsal r;
    struct node_times times = {0};
    struct compile_settings s = open_small(&model, &typical);
    int code = rehearsal_open(&r, &s, &once, limits, err);
    if (!code)
        code = rehearsal_nodes(&r, &typical.batch, &times, err);
    *seconds = node_times_sum(&times);
    node_times_free(&times);
    rehearsal_close(&r);
    typical_close(&typical);
    return code;
}

static void a_large_model_has_a_limit_of_time(void **state)
{
    (void)state;
    struct snug_err err;
    double seconds;
    struct rehearsal_limits limits = {.bytes = 1 << 30, .large_bytes = 1024, .seconds = 1e-6};
    assert_int_equal(times_of(&limits, &seconds, &err), SNUG_ERR_ENV);
    assert_string_equal(err.text, "a rehearsal takes too long");
    assert_true(seconds == 0);
    limits.large_bytes = 1 << 30; /* a small one is never too slow */
    assert_int_equal(times_of(&limits, &seconds, &err), SNUG_OK);
    assert_true(seconds > 0);
    limits.bytes = 1024;
    assert_int_equal(times_of(&limits, &seconds, &err), SNUG_ERR_ENV);
}

/* The weight of the missing rank, and the place of what is read for it. */
static bool is_alike(const struct run *r, const struct program *g, const struct value *x, const void *place)
{
    bool found = false;
    for (int i = 1; i < g->graph.n_values; i++) {
        const struct value *v = &g->graph.values[i];
        found |= v->persists && v->rank == 1 && r->arenas.of[v->memory] + g->at[i] == (const char *)place &&
                 v->dtype == x->dtype && v->kin == x->kin;
    }
    return found;
}

/* At stage 3 most weights are other ranks', which are not there: what lies at their places may be no numbers of their type. */
static void what_other_ranks_have_is_numbers(void **state)
{
    (void)state;
    struct model_config model;
    struct typical typical;
    struct rehearsal r;
    struct snug_err err;
    double seconds;
    struct compile_settings s = open_small(&model, &typical);
    s.precision.narrow = DT_BF16;
    s.ranks = 3;
    s.zero_stage = 3;
    if (rehearsal_open(&r, &s, &once, &(struct rehearsal_limits){.bytes = 1 << 30}, &err) ||
        rehearsal_step(&r, &typical.batch, 1, 0, &seconds, &err))
        fail_msg("%s", err.text);
    int k = r.run.where.step >= 0 ? r.run.where.step : r.run.where.first, pulls = 0;
    const struct program *g = &r.run.plan.programs[k];
    for (int i = 1; i < g->graph.n_nodes; i++) {
        const struct node *n = &g->graph.nodes[i];
        struct work w;
        if (n->op != OP_pull || !run_executes(&r.run, n))
            continue;
        run_fill_work(&r.run, g, n, once.micro, &w);
        assert_true(is_alike(&r.run, g, graph_value(&g->graph, n->u.pull.x), w.args.pull.x.data));
        pulls++;
    }
    assert_true(pulls > 0);
    struct run_value loss;
    assert_true(run_output(&r.run, k, "loss", once.micro, &loss));
    assert_true(isfinite(*(const float *)loss.data));
    rehearsal_close(&r);
    typical_close(&typical);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_model_has_a_limit_of_time),
                                       cmocka_unit_test(what_other_ranks_have_is_numbers)};
    return cmocka_run_group_tests_name("rehearsal", tests, NULL, NULL);
}
