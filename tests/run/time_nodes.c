/* Nodes that are timed: on a device many times at once, each in its own part of the workspace that they share. */
#include "command.h"

#include "train/session/session.h"

#include <string.h>

static struct backend gpu; /* the CPU's plans; nothing is computed */
static int64_t most_bytes; /* of workspace, by nodes that were given at once */
static int most_nodes[OP_COUNT];

static int64_t some_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    (void)b, (void)threads;
    return op == OP_adafactor ? 256 + tensor_elements(&args->adafactor.p) : 0;
}

static bool adafactors_run_together(enum op op)
{
    return op == OP_adafactor;
}

static int look(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    int64_t bytes = 0;
    (void)err;
    for (int i = 0; i < n; i++) {
        assert_int_equal(work[i].op, work[0].op);
        bytes += some_bytes(b, work[i].op, &work[i].args, 1);
    }
    most_bytes = bytes > most_bytes ? bytes : most_bytes;
    most_nodes[work->op] = n > most_nodes[work->op] ? n : most_nodes[work->op];
    return SNUG_OK;
}

static void open_plan(struct options *o, struct session *s, const char *model)
{
    static const struct {
        const char *name, *value;
    } given[] = {{"train_data", "synthetic:8x8"}, {"device", "cpu"}, {"optim", "adafactor"}};
    struct snug_err err = {0};
    options_init(o, CMD_PLAN);
    assert_int_equal(options_set(o, "model", fixture(model), &err), 0);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (options_set(o, given[i].name, given[i].value, &err))
            fail_msg("%s", err.text);
    assert_int_equal(options_check(o, &err), 0);
    if (session_open(s, &io_posix, o, false, (struct session_events){0}, NULL, &err))
        fail_msg("%s", err.text);
}

static void within_the_workspace(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct run r;
    struct snug_err err = {0};
    open_plan(&o, &s, "golden/trainer/init");
    gpu = *s.compile.backend;
    gpu.facts.host_memory = false;
    gpu.workspace_bytes = some_bytes;
    gpu.together = adafactors_run_together;
    gpu.run = look;
    s.compile.backend = &gpu;
    assert_int_equal(run_open(&r, &s.compile, &s.choices, &err), 0);
    assert_int_equal(run_alloc(&r, &err), 0);
    const struct program *g = &r.plan.programs[r.where.step];
    double *seconds = mem_alloc((size_t)g->graph.n_nodes * sizeof *seconds);
    int64_t all = 0, largest = 0;
    for (int i = 1; i < g->graph.n_nodes; i++) {
        union args_any args;
        compile_args(g, &g->graph.nodes[i], g->max, NULL, -1, &args);
        int64_t bytes = some_bytes(&gpu, g->graph.nodes[i].op, &args, 1);
        all += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    assert_true(largest > 0 && 32 * largest > all); /* too much for as many as of others */
    assert_int_equal(run_time_nodes(&r, r.where.step, g->max, NULL, seconds, &err), 0);
    assert_true(most_bytes >= largest && most_bytes <= all);
    assert_true(most_nodes[OP_linear] == 32 && most_nodes[OP_adafactor] > 1); /* a bias's is small */
    mem_free(seconds);
    run_close(&r);
    session_close(&s);
    options_free(&o);
}

static bool goes_by_places(enum op op)
{
    return op == OP_take_bwd || op == OP_combine || op == OP_combine_bwd || op == OP_linear_experts_dw;
}

/* Of a mixture of experts only nodes that follow the router's choices, in memory that other values have had since: what they find there
 * as numbers of rows would lie gigabytes on. */
static void in_memory_of_others(void **state)
{
    (void)state;
    struct options o;
    struct session s;
    struct run r;
    struct snug_err err = {0};
    int timed = 0;
    open_plan(&o, &s, "golden/mixtral");
    assert_int_equal(run_open(&r, &s.compile, &s.choices, &err), 0);
    assert_int_equal(run_alloc(&r, &err), 0);
    const struct program *g = &r.plan.programs[r.where.step];
    size_t n = (size_t)g->graph.n_nodes;
    double *seconds = mem_alloc(n * sizeof *seconds);
    bool *wanted = mem_alloc(n * sizeof *wanted);
    for (size_t i = 1; i < n; i++)
        wanted[i] = goes_by_places(g->graph.nodes[i].op);
    memset((char *)r.arenas.of[MEMORY_DEVICE] + r.plan.persistent_bytes, 0x7F,
           (size_t)(r.plan.arena_bytes - r.plan.persistent_bytes));
    assert_int_equal(run_time_nodes(&r, r.where.step, g->max, wanted, seconds, &err), 0);
    for (size_t i = 1; i < n; i++)
        timed += wanted[i] && seconds[i] > 0;
    assert_int_equal(timed, 2 * (1 + 1 + 1 + 2)); /* of two layers */
    mem_free(wanted);
    mem_free(seconds);
    run_close(&r);
    session_close(&s);
    options_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(within_the_workspace), cmocka_unit_test(in_memory_of_others)};
    return cmocka_run_group_tests_name("time_nodes", tests, open_folder, close_folder);
}
