/* Choosing algorithms by time. Each candidate of a product is timed in the very form it will run in, as nodes of a CUDA
 * graph, over copies of its operands that together exceed the L2 cache, filled with random numbers (zeros would run
 * faster). All candidates once; then the best few again, taking turns, and of each the median; of a large product, on a
 * warm chip, the best of these once more, for as long as the chip needs to come to the clock that its power allows, which
 * depends on the algorithm. (BERT-large, 32 x 512 tokens, on an H200: 1.0 to 1.2 % of the whole step.) */
#include "cuda/kernels.h"
#include "cuda/products/products_internal.h"

#include "base/mem.h"
#include "base/philox.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATTERN_BYTES = 1 << 20, /* of random numbers, repeated over all operands */
    MAX_SETS = 64,           /* copies of the operands */
    MIN_LAUNCHES = 4,        /* in one graph */
    MAX_LAUNCHES = 16,       /* unless there are more sets */
    MAX_CANDIDATES = 64,
    FINALISTS = 5,
    REPEATS = 9,
    WARM_MS = 40,      /* of work until the chip's clock has come down, */
    SETTLE_MS = 15,    /* until it is that of another algorithm, */
    SUSTAINED_MS = 45, /* and that is timed then */
    ROUNDS = 2,
};

/* Products with fewer operations never draw the power that the chip is limited to; of others, those within so much of the
 * best may turn out to be better. Very small ones take the time of a launch, whatever the algorithm. */
static const double LARGE_FLOPS = 5e10, CLOSE = 1.03, SMALL_FLOPS = 1e9;

struct tuner {
    struct cuda_products *p;
    bool tf32;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    char *pool; /* device memory of the product at hand, and the workspace at its end */
    void *pattern;
    enum dtype pattern_type;
    struct cuda_call device; /* what a call says of it */
    int64_t l2_bytes;
    bool no_memory; /* the device's ran out */
    struct snug_err *err;
};

/* Operands of a node, one set behind the other in the pool. */
struct sets {
    struct cuda_product_node node;
    const struct tensor *tensors[OP_MAX_SLOTS]; /* those of the node that are present */
    int64_t at[OP_MAX_SLOTS], set_bytes;
    int n_tensors, n_sets, launches;
    void *workspace;
    int64_t workspace_bytes;
};

static int check(struct tuner *t, int code)
{
    t->no_memory |= code == cudaErrorMemoryAllocation;
    return cuda_check(code, "tuning of products", t->err);
}

/* ---- the node ---- */

static int run_node(const struct cuda_product_node *n, const struct cuda_call *c)
{
    const union args_any *a = &n->args;
    return n->op == OP_linear      ? cuda_linear(&a->linear, c)
           : n->op == OP_linear_dx ? cuda_linear_dx(&a->linear_dx, c)
           : n->op == OP_linear_dw ? cuda_linear_dw(&a->linear_dw, c)
                                   : cuda_linear_dx_act(&a->linear_dx_act, c);
}

static int64_t node_workspace(const struct cuda_product_node *n, const struct cuda_call *c)
{
    const union args_any *a = &n->args;
    return n->op == OP_linear      ? cuda_linear_workspace(&a->linear, c)
           : n->op == OP_linear_dx ? cuda_linear_dx_workspace(&a->linear_dx, c)
           : n->op == OP_linear_dw ? cuda_linear_dw_workspace(&a->linear_dw, c)
                                   : cuda_linear_dx_act_workspace(&a->linear_dx_act, c);
}

/* ---- operands ---- */

static int64_t tensor_bytes(const struct tensor *t)
{
    return dtype_bytes(t->dtype, tensor_room(t));
}

/* Normal numbers of a size that sums of many of them stay finite in F16. */
static int make_pattern(struct tuner *t, enum dtype type)
{
    if (t->pattern && t->pattern_type == type)
        return SNUG_OK;
    int64_t n = PATTERN_BYTES / dtype_bytes(type, 1);
    float *normal = mem_alloc((size_t)n * sizeof *normal);
    if (!t->pattern)
        t->pattern = mem_alloc(PATTERN_BYTES);
    if (!normal || !t->pattern) {
        mem_free(normal);
        return err_no_memory(t->err, (unsigned long long)n * sizeof *normal);
    }
    for (int64_t i = 0; i < n; i += 2) {
        struct philox r = philox4x32((struct philox){{(uint32_t)i, 0, 0, 0}}, 1, 2);
        float radius = 0.05f * sqrtf(-2 * logf(((float)(r.w[0] >> 8) + 0.5f) * 0x1p-24f));
        float angle = 6.2831853f * (float)(r.w[1] >> 8) * 0x1p-24f;
        normal[i] = radius * cosf(angle);
        normal[i + 1] = radius * sinf(angle);
    }
    dtype_convert(t->pattern, type, normal, DT_F32, n);
    t->pattern_type = type;
    mem_free(normal);
    return SNUG_OK;
}

static double flops_of(const struct sets *s)
{
    return op_table[s->node.op].flops(&s->node.args);
}

static void add_tensor(struct sets *s, const struct tensor *t)
{
    if (!t->ndim)
        return;
    s->tensors[s->n_tensors] = t;
    s->at[s->n_tensors++] = s->set_bytes;
    s->set_bytes += (tensor_bytes(t) + 255) / 256 * 256;
}

static struct cuda_call call_of(const struct tuner *t, const struct sets *s)
{
    struct cuda_call c = t->device;
    c.stream = t->stream;
    c.workspace = s->workspace;
    c.tf32 = t->tf32;
    c.products = t->p;
    c.err = t->err;
    return c;
}

static int make_sets(struct tuner *t, const struct cuda_product_node *node, struct sets *s)
{
    *s = (struct sets){.node = *node};
    const union args_any *a = &s->node.args;
    for (int i = 0; i < op_table[node->op].n_slots; i++)
        add_tensor(s, &a->slot[i]);
    double flops = flops_of(s);
    int64_t n = 1 + 2 * t->l2_bytes / s->set_bytes;
    s->n_sets = n < MAX_SETS ? (int)n : MAX_SETS;
    bool fp32 = a->slot[0].dtype == DT_F32 && !t->tf32;
    double enough = (fp32 ? 1e10 : 8e10) / (flops + 1); /* for 0.2 ms at 50 or 400 TFLOP/s */
    s->launches = enough < MIN_LAUNCHES ? MIN_LAUNCHES : enough > MAX_LAUNCHES ? MAX_LAUNCHES : (int)enough;
    if (s->launches < s->n_sets)
        s->launches = s->n_sets;
    int64_t bytes = s->n_sets * s->set_bytes;
    /* Any algorithm's workspace, and room for the bias behind it (linear.cu); or what the node wants beside a product. */
    struct cuda_call c = call_of(t, s);
    int64_t wants = node_workspace(node, &c);
    s->workspace_bytes = wants > 2 * PRODUCT_WORKSPACE_CAP ? wants : 2 * PRODUCT_WORKSPACE_CAP;
    TRY(check(t, cudaMalloc((void **)&t->pool, (size_t)(bytes + s->workspace_bytes))));
    s->workspace = t->pool + bytes;
    TRY(make_pattern(t, a->slot[0].dtype)); /* x, or dy */
    int64_t filled = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES;
    TRY(check(t, cudaMemcpyAsync(t->pool, t->pattern, (size_t)filled, cudaMemcpyHostToDevice, t->stream)));
    for (int64_t more; filled < bytes; filled += more) {
        more = bytes - filled < filled ? bytes - filled : filled;
        TRY(check(t, cudaMemcpyAsync(t->pool + filled, t->pool, (size_t)more, cudaMemcpyDeviceToDevice, t->stream)));
    }
    return SNUG_OK;
}

static void release_sets(struct tuner *t)
{
    cudaStreamSynchronize(t->stream);
    cudaFree(t->pool);
    t->pool = NULL;
}

/* Points the node's tensors at the i-th set. */
static void use_set(const struct tuner *t, struct sets *s, int i)
{
    for (int k = 0; k < s->n_tensors; k++)
        ((struct tensor *)s->tensors[k])->data = t->pool + (i % s->n_sets) * s->set_bytes + s->at[k];
}

/* ---- time ---- */

/* What is timed: an algorithm, or the whole node as the launcher runs it. */
struct subject {
    const struct cuda_product *product; /* NULL: the node */
    const struct problem *problem;
    const cublasLtMatmulHeuristicResult_t *candidate;
};

static int enqueue(struct tuner *t, struct sets *s, const struct subject *u)
{
    const union args_any *a = &s->node.args;
    if (!u->product) {
        struct cuda_call c = call_of(t, s);
        return run_node(&s->node, &c);
    }
    struct product_data d = {.workspace = s->workspace};
    if (s->node.op == OP_linear) {
        d.rows = a->linear.x.data;
        d.factor = a->linear.w.data;
        d.result = a->linear.y.data;
        d.bias = a->linear.b.data; /* read as the product's type, which is no wider */
    } else if (s->node.op == OP_linear_dx) {
        d.rows = a->linear_dx.dy.data;
        d.factor = a->linear_dx.w.data;
        d.result = a->linear_dx.dx.data;
    } else if (s->node.op == OP_linear_dx_act) {
        d.rows = a->linear_dx_act.dy.data;
        d.factor = a->linear_dx_act.w.data;
        d.result = a->linear_dx_act.du.data;
    } else {
        d.rows = a->linear_dw.dy.data;
        d.factor = a->linear_dw.x.data;
        d.result = a->linear_dw.dw.data;
    }
    return problem_run(t->p, u->product, u->problem, &u->candidate->algo, (int64_t)u->candidate->workspaceSize, &d,
                       t->stream, t->err);
}

static int capture(struct tuner *t, struct sets *s, const struct subject *u, cudaGraphExec_t *exec)
{
    cudaGraph_t graph = NULL;
    *exec = NULL;
    TRY(check(t, cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal)));
    int code = SNUG_OK;
    for (int i = 0; i < s->launches && !code; i++) {
        use_set(t, s, i);
        code = enqueue(t, s, u);
    }
    int ended = cuda_check(cudaStreamEndCapture(t->stream, &graph), "tuning of products", code ? NULL : t->err);
    code = code ? code : ended;
    if (!code)
        code = check(t, cudaGraphInstantiate(exec, graph, 0));
    if (graph)
        cudaGraphDestroy(graph);
    return code;
}

/* Microseconds of one launch, in n replays that follow on `warm` others. */
static int replay(struct tuner *t, const struct sets *s, cudaGraphExec_t exec, int warm, int n, double *us)
{
    float ms;
    for (int i = 0; i < warm + n; i++) {
        if (i == warm)
            TRY(check(t, cudaEventRecord(t->start, t->stream)));
        TRY(check(t, cudaGraphLaunch(exec, t->stream)));
    }
    TRY(check(t, cudaEventRecord(t->stop, t->stream)));
    TRY(check(t, cudaEventSynchronize(t->stop)));
    TRY(check(t, cudaEventElapsedTime(&ms, t->start, t->stop)));
    *us = 1000.0 * ms / s->launches / n;
    return SNUG_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Replays that take about so long, of nodes of `us` each. */
static int replays_of(const struct sets *s, double ms, double us)
{
    return 1 + (int)(1000 * ms / (us * s->launches));
}

/* Replaces the times of the best by those at the clock that the chip keeps up under each, and of the others in proportion. */
static int race_long(struct tuner *t, const struct sets *s, cudaGraphExec_t *exec, int n, double *us)
{
    double slowest = 1, sums[FINALISTS + 1] = {0}, once;
    int best = 0;
    for (int i = 1; i < n; i++)
        best = us[i] < us[best] ? i : best;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < n; i++)
            if (us[i] <= CLOSE * us[best]) {
                TRY(replay(t, s, exec[i], replays_of(s, SETTLE_MS, us[i]), replays_of(s, SUSTAINED_MS, us[i]), &once));
                sums[i] += once / ROUNDS;
                slowest = sums[i] / us[i] > slowest ? sums[i] / us[i] : slowest;
            }
    for (int i = 0; i < n; i++)
        us[i] = sums[i] > 0 ? sums[i] : us[i] * slowest;
    return SNUG_OK;
}

/* The times of n subjects that take turns. */
static int race(struct tuner *t, struct sets *s, const struct subject *subjects, int n, double *us)
{
    cudaGraphExec_t exec[FINALISTS + 1] = {0};
    double times[FINALISTS + 1][REPEATS] = {{0}}, once;
    bool large = flops_of(s) >= LARGE_FLOPS;
    int code = SNUG_OK;
    for (int i = 0; i < n && !code; i++)
        code = capture(t, s, &subjects[i], &exec[i]);
    for (int i = 0; i < n && !code; i++)
        code = replay(t, s, exec[i], 0, 1, &times[i][0]); /* the first of each is slow */
    if (large && !code)
        code = replay(t, s, exec[0], replays_of(s, WARM_MS, times[0][0]), 1, &once);
    for (int r = 0; r < REPEATS && !code; r++)
        for (int i = 0; i < n && !code; i++)
            code = replay(t, s, exec[i], 0, 1, &times[i][r]);
    for (int i = 0; i < n; i++) {
        qsort(times[i], REPEATS, sizeof times[i][0], by_value);
        us[i] = times[i][REPEATS / 2];
    }
    if (large && !code)
        code = race_long(t, s, exec, n, us);
    for (int i = 0; i < n; i++)
        if (exec[i])
            cudaGraphExecDestroy(exec[i]);
    return code;
}

/* ---- choosing ---- */

static const double NEVER = 1e9; /* microseconds of what does not run */

static bool timed(const struct tuner *t, const struct cuda_product *product)
{
    const struct choice *c = choice_find(t->p, product);
    return c && c->us > 0;
}

struct candidates {
    cublasLtMatmulHeuristicResult_t *all;
    int n;
};

static bool known(const struct candidates *c, const cublasLtMatmulAlgo_t *algo)
{
    for (int i = 0; i < c->n; i++)
        if (!memcmp(&c->all[i].algo, algo, sizeof *algo))
            return true;
    return false;
}

static void add_candidate(struct tuner *t, const struct problem *problem, const cublasLtMatmulAlgo_t *algo,
                          struct candidates *c)
{
    int64_t wants;
    if (c->n < MAX_CANDIDATES && !known(c, algo) && problem_takes(t->p, problem, algo, PRODUCT_WORKSPACE_CAP, &wants))
        c->all[c->n++] = (cublasLtMatmulHeuristicResult_t){.algo = *algo, .workspaceSize = (size_t)wants};
}

/* The heuristic proposes no more than eight for a form, and others for its relatives, among them better ones: on an
 * H200 by 5 % for BERT-large's forward products with bias, by 10 % for F32. (More tiles and clusters than it proposes
 * for any of them can be asked for; they brought nothing.) */
static int add_relatives(struct tuner *t, const struct choice *c, struct candidates *to)
{
    enum { RELATIVES = 7 };
    struct cuda_product relative[RELATIVES];
    for (int i = 0; i < RELATIVES; i++)
        relative[i] = c->product;
    relative[0].add = !c->product.add;
    relative[1].bias = DT_U8;
    relative[2].N *= 2;
    relative[3].N = (relative[3].N + 1) / 2;
    relative[4].N *= 4;
    relative[5].N = (relative[5].N + 3) / 4;
    relative[6].N = relative[6].N * 3 / 4 + 1;
    for (int i = 0; i < RELATIVES; i++) {
        cublasLtMatmulHeuristicResult_t found[8];
        struct problem problem;
        int n;
        TRY(problem_make(t->p, &relative[i], &problem, t->err));
        int code = problem_candidates(t->p, &relative[i], &problem, PRODUCT_WORKSPACE_CAP, 8, found, &n, t->err);
        problem_free(t->p, &problem);
        TRY(code);
        for (int k = 0; k < n; k++)
            add_candidate(t, &c->problem, &found[k].algo, to);
    }
    return SNUG_OK;
}

/* One replay of each; those that do not run after all are left out, INFINITY. */
static int time_once(struct tuner *t, struct sets *s, const struct choice *c, const struct candidates *from, double *us)
{
    for (int i = 0; i < from->n; i++) {
        struct subject u = {&c->product, &c->problem, &from->all[i]};
        cudaGraphExec_t exec = NULL;
        us[i] = INFINITY;
        int code = capture(t, s, &u, &exec);
        if (code && t->no_memory) /* which says nothing of the algorithm */
            return code;
        if (code)
            continue;
        code = replay(t, s, exec, 1, 1, &us[i]);
        cudaGraphExecDestroy(exec);
        TRY(code);
    }
    return SNUG_OK;
}

/* The heuristic's first, if that runs, and the fastest others, in `best`. */
static int finalists(const double *us, int n, int best[FINALISTS + 1])
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

/* us: of the heuristic's first that runs, and of the best. */
static int best_of(struct tuner *t, struct sets *s, struct choice *c, struct candidates *all, double us[2])
{
    double once[MAX_CANDIDATES] = {0}, final[FINALISTS + 1] = {0};
    int best[FINALISTS + 1];
    TRY(problem_candidates(t->p, &c->product, &c->problem, PRODUCT_WORKSPACE_CAP, MAX_CANDIDATES, all->all, &all->n,
                           t->err));
    c->supported = all->n > 0;
    c->us = NEVER;
    if (!c->supported)
        return SNUG_OK;
    if (flops_of(s) >= SMALL_FLOPS)
        TRY(add_relatives(t, c, all));
    TRY(time_once(t, s, c, all, once));
    int n = finalists(once, all->n, best), winner = 0;
    c->supported = n > 0;
    if (!c->supported) /* unless it is the device that fails */
        return check(t, cudaStreamSynchronize(t->stream));
    struct subject subjects[FINALISTS + 1] = {0};
    for (int i = 0; i < n; i++)
        subjects[i] = (struct subject){&c->product, &c->problem, &all->all[best[i]]};
    TRY(race(t, s, subjects, n, final));
    for (int i = 1; i < n; i++)
        if (final[i] < final[winner])
            winner = i;
    us[0] = final[0];
    us[1] = c->us = final[winner];
    c->algo = all->all[best[winner]].algo;
    c->workspace = (int64_t)all->all[best[winner]].workspaceSize;
    return SNUG_OK;
}

static int tune_product(struct tuner *t, struct sets *s, const struct cuda_product *product,
                        const struct cuda_tuning *tuning)
{
    if (timed(t, product))
        return SNUG_OK;
    struct choice c = {.product = *product, .ready = true};
    struct candidates all = {0};
    double us[2] = {0};
    TRY(problem_make(t->p, product, &c.problem, t->err));
    all.all = mem_alloc(MAX_CANDIDATES * sizeof *all.all);
    int code = all.all ? best_of(t, s, &c, &all, us) : err_no_memory(t->err, MAX_CANDIDATES * sizeof *all.all);
    if (!code)
        code = choice_put(t->p, &c, t->err);
    if (code)
        problem_free(t->p, &c.problem);
    else if (c.supported && tuning->tell)
        tuning->tell(tuning->ctx, product, all.n, us);
    mem_free(all.all);
    return code;
}

/* The whole node as the launcher runs it. */
static int race_node(struct tuner *t, struct sets *s, double *us)
{
    struct cuda_call c = call_of(t, s);
    struct subject node = {.product = NULL};
    t->p->n_grants = 0; /* the product may have been measured since */
    int64_t bytes = node_workspace(&s->node, &c);
    if (bytes > s->workspace_bytes)
        return err_set(t->err, SNUG_ERR_ENV, "cuda: %s wants %lld bytes of workspace; report this",
                       op_table[s->node.op].name, (long long)bytes);
    return race(t, s, &node, 1, us);
}

/* Whether the node is faster by our own kernel, if there is one for it: timed right behind the plain product, it has to win by
 * more than a warmer chip explains. */
static int tune_own(struct tuner *t, struct sets *s, const struct cuda_product *product,
                    const struct cuda_tuning *tuning)
{
    struct cuda_call c = call_of(t, s);
    struct choice own = {.us = NEVER};
    double us[2];
    if (!cuda_product_own(s->node.op, &s->node.args, product, &c, &own.product))
        return SNUG_OK;
    for (int i = 0; i < 2; i++) {
        own.supported = i == 1;
        TRY(choice_put(t->p, &own, t->err));
        TRY(race_node(t, s, &us[i]));
    }
    own.us = us[1];
    own.supported = us[1] < 0.99 * us[0];
    if (tuning->tell)
        tuning->tell(tuning->ctx, &own.product, 1, us);
    return choice_put(t->p, &own, t->err);
}

/* A program has the same layer many times. */
static bool is_new(struct tuner *t, const struct cuda_product_node *node)
{
    struct cuda_product product = cuda_product_of(t->p, node->op, &node->args, t->tf32), own;
    if (layer_is_recorded(t->p, &product)) /* by the run that goes on here, our own kernel too */
        return false;
    return !timed(t, &product) ||
           (cuda_product_own(node->op, &node->args, &product, &t->device, &own) && !timed(t, &own));
}

static int tune_node(struct tuner *t, const struct cuda_product_node *node, const struct cuda_tuning *tuning)
{
    struct sets s;
    TRY(make_sets(t, node, &s));
    use_set(t, &s, 0);
    struct cuda_product product = cuda_product_of(t->p, node->op, &s.node.args, t->tf32);
    TRY(tune_product(t, &s, &product, tuning));
    return tune_own(t, &s, &product, tuning);
}

static int64_t rows_of(const struct cuda_product_node *n)
{
    bool measured = op_is_product(n->op) && (n->op != OP_linear_dw || n->args.linear_dw.dw.ndim);
    return measured ? n->args.slot[0].shape[0] : 0;
}

static int open_tuner(struct tuner *t)
{
    int device, l2;
    TRY(check(t, cudaGetDevice(&device)));
    TRY(check(t, (cudaError_t)cuda_call_device(&t->device, device)));
    TRY(check(t, cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device)));
    t->l2_bytes = l2;
    TRY(check(t, cudaStreamCreateWithFlags(&t->stream, cudaStreamNonBlocking)));
    TRY(check(t, cudaEventCreate(&t->start)));
    return check(t, cudaEventCreate(&t->stop));
}

static void close_tuner(struct tuner *t)
{
    if (t->stop)
        cudaEventDestroy(t->stop);
    if (t->start)
        cudaEventDestroy(t->start);
    if (t->stream)
        cudaStreamDestroy(t->stream);
    mem_free(t->pattern);
}

int cuda_products_tune(struct cuda_products *p, const struct cuda_product_node *nodes, int n, bool tf32,
                       const struct cuda_tuning *tuning, struct snug_err *err)
{
    struct tuner t = {.p = p, .tf32 = tf32, .err = err};
    bool any = false;
    int code = open_tuner(&t);
    for (int i = 0; i < n && !code; i++) {
        if (rows_of(&nodes[i]) == 0)
            continue;
        if (!is_new(&t, &nodes[i]))
            continue;
        if (!any && tuning->begins)
            tuning->begins(tuning->ctx);
        any = true;
        code = tune_node(&t, &nodes[i], tuning);
        release_sets(&t);
    }
    close_tuner(&t);
    if (any) /* what was promised before knew nothing of these */
        p->n_grants = 0;
    return code;
}

int cuda_products_time_node(struct cuda_products *p, const struct cuda_product_node *node, bool tf32, double *us,
                            struct snug_err *err)
{
    struct tuner t = {.p = p, .tf32 = tf32, .err = err};
    struct sets s;
    int code = open_tuner(&t);
    if (!code)
        code = make_sets(&t, node, &s);
    if (!code)
        code = race_node(&t, &s, us);
    release_sets(&t);
    close_tuner(&t);
    p->n_grants = 0;
    return code;
}
