#include "cuda/products/race.h"

#include "cuda/errors.h"
#include "cuda/launch.h"

#include <math.h>
#include <stdlib.h>

enum {
    REPEATS = 9,
    WARM_MS = 40,      /* of work until the chip's clock has come down, */
    SETTLE_MS = 15,    /* until it is that of another algorithm, */
    SUSTAINED_MS = 45, /* and that is timed then */
    ROUNDS = 2,
};

/* Products with fewer operations never draw the power that the chip is limited to; of others, those within so much of the
 * best may turn out to be better. */
static const double LARGE_FLOPS = 5e10, CLOSE = 1.03;

/* Microseconds of all repeats of one subject: more of them would say nothing new of a product that takes milliseconds. */
static const double REPEATED_US = 10e3;

static int enqueue(struct tuner *t, struct operands *o, const struct subject *u)
{
    const union args_any *a = &o->node.args;
    if (!u->product) {
        struct cuda_call c = tuner_call(t, o);
        return cuda_launch(o->node.op, &o->node.args, &c);
    }
    struct product_data d = {.workspace = o->workspace};
    if (o->node.op == OP_linear) {
        d.rows = a->linear.x.data;
        d.factor = a->linear.w.data;
        d.result = a->linear.y.data;
        d.bias = a->linear.b.data; /* read as the product's type, which is no wider */
    } else if (o->node.op == OP_linear_dx) {
        d.rows = a->linear_dx.dy.data;
        d.factor = a->linear_dx.w.data;
        d.result = a->linear_dx.dx.data;
    } else if (o->node.op == OP_linear_dx_act) {
        d.rows = a->linear_dx_act.dy.data;
        d.factor = a->linear_dx_act.w.data;
        d.result = a->linear_dx_act.du.data;
    } else if (o->node.op == OP_linear_fp8) {
        d.rows = a->linear_fp8.x.data;
        d.rows_scale = (const float *)a->linear_fp8.x_scale.data;
        d.factor = a->linear_fp8.w.data;
        d.factor_scale = (const float *)a->linear_fp8.w_scale.data;
        d.result = a->linear_fp8.y.data;
        d.bias = a->linear_fp8.b.data;
    } else {
        d.rows = a->linear_dw.dy.data;
        d.factor = a->linear_dw.x.data;
        d.result = a->linear_dw.dw.data;
    }
    return problem_run(&t->p->lt, u->product, u->problem, &u->candidate->algo, (int64_t)u->candidate->workspaceSize, &d,
                       t->stream, t->err);
}

static int capture(struct tuner *t, struct operands *o, const struct subject *u, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    *exec = NULL;
    TRY(tuner_check(t, cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal)));
    int code = SNUG_OK;
    for (int i = 0; i < o->launches && !code; i++) {
        operands_use(t, o, i);
        code = enqueue(t, o, u);
    }
    int ended = cuda_check(cudaStreamEndCapture(t->stream, &graph), "tuning of products", code ? NULL : t->err);
    code = code ? code : ended;
    if (!code)
        code = tuner_check(t, cudaGraphInstantiate(exec, graph, 0));
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

/* Microseconds of one launch, in n replays that follow on `warm` others. */
static int replay(struct tuner *t, const struct operands *o, cudaGraphExec_t exec, int warm, int n, double *us)
{
    float ms;
    for (int i = 0; i < warm + n; i++) {
        if (i == warm)
            TRY(tuner_check(t, cudaEventRecord(t->start, t->stream)));
        TRY(tuner_check(t, cudaGraphLaunch(exec, t->stream)));
    }
    TRY(tuner_check(t, cudaEventRecord(t->stop, t->stream)));
    TRY(tuner_check(t, cudaEventSynchronize(t->stop)));
    TRY(tuner_check(t, cudaEventElapsedTime(&ms, t->start, t->stop)));
    *us = 1000.0 * ms / o->launches / n;
    return SNUG_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Replays that take about so long, of nodes of `us` each. */
static int replays_of(const struct operands *o, double ms, double us)
{
    return 1 + (int)(1000 * ms / (us * o->launches));
}

/* Replaces the times of the best by those at the clock that the chip keeps up under each, and of the others in proportion. */
static int race_long(struct tuner *t, const struct operands *o, cudaGraphExec_t *exec, int n, double *us)
{
    double slowest = 1, sums[FINALISTS + 1] = {0}, once;
    int best = 0;
    for (int i = 1; i < n; i++)
        best = us[i] < us[best] ? i : best;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < n; i++)
            if (us[i] <= CLOSE * us[best]) {
                TRY(replay(t, o, exec[i], replays_of(o, SETTLE_MS, us[i]), replays_of(o, SUSTAINED_MS, us[i]), &once));
                sums[i] += once / ROUNDS;
                slowest = sums[i] / us[i] > slowest ? sums[i] / us[i] : slowest;
            }
    for (int i = 0; i < n; i++)
        us[i] = sums[i] > 0 ? sums[i] : us[i] * slowest;
    return SNUG_OK;
}

int race_once(struct tuner *t, struct operands *o, const struct subject *u, double *us)
{
    cudaGraphExec_t exec = NULL;
    *us = INFINITY;
    int code = capture(t, o, u, &exec);
    if (code) /* which says nothing of the algorithm where there is no memory */
        return t->no_memory ? code : SNUG_OK;
    code = replay(t, o, exec, 1, 1, us);
    cudaGraphExecDestroy(exec);
    return code;
}

int race(struct tuner *t, struct operands *o, const struct subject *subjects, int n, double *us)
{
    cudaGraphExec_t exec[FINALISTS + 1] = {0};
    double times[FINALISTS + 1][REPEATS] = {{0}}, once;
    bool large = operands_flops(o) >= LARGE_FLOPS;
    int code = SNUG_OK, repeats = REPEATS;
    for (int i = 0; i < n && !code; i++)
        code = capture(t, o, &subjects[i], &exec[i]);
    for (int i = 0; i < n && !code; i++)
        code = replay(t, o, exec[i], 0, 1, &times[i][0]); /* the first of each is slow */
    if (large && !code)
        code = replay(t, o, exec[0], replays_of(o, WARM_MS, times[0][0]), 1, &once);
    while (repeats > 3 && repeats * o->launches * times[0][0] > REPEATED_US)
        repeats -= 2;
    for (int r = 0; r < repeats && !code; r++)
        for (int i = 0; i < n && !code; i++)
            code = replay(t, o, exec[i], 0, 1, &times[i][r]);
    for (int i = 0; i < n; i++) {
        qsort(times[i], (size_t)repeats, sizeof times[i][0], by_value);
        us[i] = times[i][repeats / 2];
    }
    if (large && !code)
        code = race_long(t, o, exec, n, us);
    for (int i = 0; i < n; i++)
        if (exec[i])
            cudaGraphExecDestroy(exec[i]);
    return code;
}

int race_finalists(const double *us, int n, int best[FINALISTS + 1])
{
    int found = 0;
    if (n > 0 && us[0] < INFINITY)
        best[found++] = 0;
    while (found <= FINALISTS) {
        int next = -1;
        for (int i = 1; i < n; i++) {
            bool taken = us[i] == INFINITY;
            for (int k = 0; k < found; k++)
                taken = taken || best[k] == i;
            if (!taken && (next < 0 || us[i] < us[next]))
                next = i;
        }
        if (next < 0)
            return found;
        best[found++] = next;
    }
    return found;
}
