/* Plans that cannot be tried, from the times of nodes that a device's profile keeps. The device is the CPU's kernels; its times are
 * replaced by ones that follow from the nodes' work, so that the sum is known. */
#include "command.h"

#include "run/node_time.h"
#include "train/session/session.h"

#include <math.h>

enum { MOST_TIMES = 512, LENGTH = 12 };
static const double once = 1e-9, each_unit = 1e-12, ratio = 1.25;

static struct {
    char key[128];
    double seconds;
} times[MOST_TIMES];
static size_t n_times;
static int64_t memory_free;

static double recall(const struct backend *b, const char *key)
{
    (void)b;
    for (size_t i = 0; i < n_times; i++)
        if (!strcmp(times[i].key, key))
            return times[i].seconds;
    return -1;
}

static int keep(const struct backend *b, const struct backend_time *t, size_t n, struct snug_err *err)
{
    (void)err;
    for (size_t i = 0; i < n; i++) {
        assert_true(n_times < MOST_TIMES && recall(b, t[i].key) < 0 && t[i].seconds > 0);
        snprintf(times[n_times].key, sizeof times->key, "%s", t[i].key);
        times[n_times++].seconds = t[i].seconds;
    }
    return SNUG_OK;
}

static void each(const struct backend *b, void (*see)(void *ctx, const char *key, double seconds), void *ctx)
{
    (void)b;
    for (size_t i = 0; i < n_times; i++)
        see(ctx, times[i].key, times[i].seconds);
}

static int nothing_to_tune(const struct backend *b, const struct work *nodes, int n, void (*begins)(void *ctx),
                           void *ctx, bool *changed, struct snug_err *err)
{
    (void)b, (void)nodes, (void)n, (void)begins, (void)ctx, (void)err;
    *changed = false;
    return SNUG_OK;
}

static int64_t free_on_device(const struct backend *b)
{
    (void)b;
    return memory_free;
}

static bool updates_together(enum op op)
{
    return op == OP_adamw || op == OP_sumsq;
}

static struct backend gpu;
static struct backend_arena device_arena;
static const struct backend_profile profile = {.tune = nothing_to_tune, .recall = recall, .keep = keep, .each = each};

/* A long run with so many rows in a micro-batch, on such a device. */
static void open_run(struct options *o, struct session *s, const char *batch_size)
{
    const struct {
        const char *name, *value;
    } given[] = {{"model", fixture("golden/trainer/init")},
                 {"train_data", "synthetic:240x12"},
                 {"device", "cpu"},
                 {"threads", "1"},
                 {"max_steps", "10000000"},
                 {"per_device_train_batch_size", batch_size},
                 {"gradient_accumulation_steps", "3"},
                 {"save_strategy", "no"}};
    struct snug_err err = {0};
    options_init(o, CMD_PLAN);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (options_set(o, given[i].name, given[i].value, &err))
            fail_msg("%s", err.text);
    assert_int_equal(options_check(o, &err), 0);
    assert_int_equal(session_open(s, &io_posix, o, false, (struct session_events){0}, NULL, &err), 0);
    gpu = *s->compile.backend;
    gpu.facts.host_memory = false;
    device_arena = *gpu.arena;
    device_arena.available = free_on_device;
    gpu.arena = &device_arena;
    gpu.profile = &profile;
    gpu.together = updates_together;
    s->compile.backend = s->run.backend = &gpu;
}

static struct op_times ops;    /* that the last forecast knew, */
static double of_op[OP_COUNT]; /* and what they take by their work */

/* *seconds: what the step's nodes take by their work. */
static struct forecast forecast(const char *batch_size, int64_t memory, double *seconds)
{
    struct options o;
    struct session s;
    struct forecast f;
    struct snug_err err;
    open_run(&o, &s, batch_size);
    memory_free = memory;
    assert_int_equal(forecast_run(&s, &f, &err), SNUG_OK);
    assert_int_equal(forecast_ops(&s, &ops, &err), SNUG_OK);
    *seconds = 0;
    memset(of_op, 0, sizeof of_op);
    struct dims dims = s.choices.micro;
    const struct programs *p = &s.run.where;
    for (int k = 0; k < s.run.plan.n_programs; k++)
        for (int i = 1; i < s.run.plan.programs[k].graph.n_nodes; i++) {
            const struct program *g = &s.run.plan.programs[k];
            double work = node_work(g, &g->graph.nodes[i], dims);
            double takes = work > 0 ? (k == p->next ? 2 : 1) * (once + each_unit * work) : 0;
            *seconds += ratio * takes;
            of_op[g->graph.nodes[i].op] += takes;
        }
    assert_int_equal(dims.T, dims.B * LENGTH);
    session_close(&s);
    options_free(&o);
    return f;
}

/* Every time that is kept of a node becomes that of its work. */
static int replace_times(void)
{
    int nodes = 0;
    for (size_t i = 0; i < n_times; i++) {
        double number;
        if (sscanf(times[i].key, "node %*s %*s %*s %lf", &number) == 1)
            times[i].seconds = once + each_unit * number, nodes++;
        else if (sscanf(times[i].key, "nodes %lf", &number) == 1)
            times[i].seconds = ratio * number;
    }
    return nodes;
}

static void a_plan_is_the_sum_of_its_nodes(void **state)
{
    (void)state;
    double seconds;
    struct forecast f = forecast("4", INT64_MAX, &seconds);
    assert_true(f.known && f.measured);
    int of_one = replace_times();
    assert_true(of_one > 20 && of_one < 120);
    f = forecast("12", INT64_MAX, &seconds);
    assert_true(f.known && f.measured && replace_times() > of_one);
    f = forecast("8", 0, &seconds); /* between the two */
    assert_true(f.known && !f.measured);
    if (fabs(f.step_seconds - seconds) > 1e-5 * seconds)
        fail_msg("%g s, not %g", f.step_seconds, seconds);
    assert_int_equal(ops.steps, 1);
    for (int op = 1; op < OP_COUNT; op++)
        if (fabs(ops.of[op].seconds - of_op[op]) > 1e-5 * of_op[op])
            fail_msg("%s: %g s, not %g", op_table[op].name, ops.of[op].seconds, of_op[op]);
    f = forecast("4", 0, &seconds); /* what was measured stays so */
    assert_true(f.known && f.measured);
}

/* Nothing is said where nodes of some op were never measured. */
static void a_plan_of_other_nodes_is_not_guessed(void **state)
{
    (void)state;
    double seconds;
    for (size_t i = 0; i < n_times; i++)
        if (!strncmp(times[i].key, "node attention_bwd ", 19))
            snprintf(times[i].key, sizeof times->key, "another %zu", i);
    assert_false(forecast("8", 0, &seconds).known);
    assert_int_equal(ops.steps, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_the_sum_of_its_nodes),
        cmocka_unit_test(a_plan_of_other_nodes_is_not_guessed),
    };
    return cmocka_run_group_tests_name("known_nodes", tests, open_folder, close_folder);
}
