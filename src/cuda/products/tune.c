/* Choosing algorithms by time. Each candidate of a product is timed in the very form it will run in, as nodes of a CUDA
 * graph, over copies of its operands that together exceed the L2 cache, filled with random numbers (zeros would run
 * faster). All candidates are timed once; then the best few again, taking turns, and of each the median counts. The
 * best of these of a large product are timed once more on a warm chip. That lasts until the chip has come to the clock
 * that its power allows, which depends on the algorithm. (BERT-large, 32 x 512 tokens, on an H200: 1.0 to 1.2 % of the
 * whole step.) */
#include "cuda/products/tune.h"

#include "base/mem.h"
#include "cuda/launch.h"
#include "cuda/products/nodes.h"
#include "cuda/products/race.h"

#include <string.h>

enum { MAX_CANDIDATES = 64 };

/* Very small products take the time of a launch, whatever the algorithm. */
static const double SMALL_FLOPS = 1e9;
static const double NEVER = 1e9; /* microseconds of what does not run */

static bool timed(const struct tuner *t, const struct cuda_product *product)
{
    const struct algorithm *c = algorithm_find(t->p, product);
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
    if (c->n < MAX_CANDIDATES && !known(c, algo) &&
        problem_takes(&t->p->lt, problem, algo, PRODUCT_WORKSPACE_CAP, &wants))
        c->all[c->n++] = (cublasLtMatmulHeuristicResult_t){.algo = *algo, .workspaceSize = (size_t)wants};
}

/* The heuristic proposes no more than eight for a form, and others for its relatives, among them better ones: on an
 * H200 by 5 % for BERT-large's forward products with bias, by 10 % for F32. (More tiles and clusters than it proposes
 * for any of them can be asked for; they brought nothing.) */
static int add_relatives(struct tuner *t, const struct algorithm *c, struct candidates *to)
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
        TRY(problem_make(&t->p->lt, &relative[i], &problem, t->err));
        int code = problem_candidates(&t->p->lt, &relative[i], &problem, PRODUCT_WORKSPACE_CAP, 8, found, &n, t->err);
        problem_free(&t->p->lt, &problem);
        TRY(code);
        for (int k = 0; k < n; k++)
            add_candidate(t, &c->problem, &found[k].algo, to);
    }
    return SNUG_OK;
}

/* us: of the heuristic's first that runs, and of the best. */
static int best_of(struct tuner *t, struct operands *o, struct algorithm *c, struct candidates *all, double us[2])
{
    double once[MAX_CANDIDATES] = {0}, final[FINALISTS + 1] = {0};
    int best[FINALISTS + 1];
    TRY(problem_candidates(&t->p->lt, &c->product, &c->problem, PRODUCT_WORKSPACE_CAP, MAX_CANDIDATES, all->all,
                           &all->n, t->err));
    c->supported = all->n > 0;
    c->us = NEVER;
    if (!c->supported)
        return SNUG_OK;
    if (operands_flops(o) >= SMALL_FLOPS)
        TRY(add_relatives(t, c, all));
    for (int i = 0; i < all->n; i++)
        TRY(race_once(t, o, &(struct subject){&c->product, &c->problem, &all->all[i]}, &once[i]));
    int n = race_finalists(once, all->n, best), winner = 0;
    c->supported = n > 0;
    if (!c->supported) /* unless it is the device that fails */
        return tuner_check(t, cudaStreamSynchronize(t->stream));
    struct subject subjects[FINALISTS + 1] = {0};
    for (int i = 0; i < n; i++)
        subjects[i] = (struct subject){&c->product, &c->problem, &all->all[best[i]]};
    TRY(race(t, o, subjects, n, final));
    for (int i = 1; i < n; i++)
        if (final[i] < final[winner])
            winner = i;
    us[0] = final[0];
    us[1] = c->us = final[winner];
    c->algo = all->all[best[winner]].algo;
    c->workspace = (int64_t)all->all[best[winner]].workspaceSize;
    return SNUG_OK;
}

static int tune_product(struct tuner *t, struct operands *o, const struct cuda_product *product,
                        const struct cuda_tuning *tuning)
{
    if (timed(t, product))
        return SNUG_OK;
    struct algorithm c = {.product = *product, .ready = true};
    struct candidates all = {0};
    double us[2] = {0};
    TRY(problem_make(&t->p->lt, product, &c.problem, t->err));
    all.all = mem_alloc(MAX_CANDIDATES * sizeof *all.all);
    int code = all.all ? best_of(t, o, &c, &all, us) : err_no_memory(t->err, MAX_CANDIDATES * sizeof *all.all);
    if (!code)
        code = algorithm_put(t->p, &c, t->err);
    if (code)
        problem_free(&t->p->lt, &c.problem);
    else if (c.supported && tuning->tell)
        tuning->tell(tuning->ctx, product, all.n, us);
    mem_free(all.all);
    return code;
}

/* The whole node as the launcher runs it. */
static int race_node(struct tuner *t, struct operands *o, double *us)
{
    struct cuda_call c = tuner_call(t, o);
    struct subject node = {.product = NULL};
    algorithms_forget_grants(t->p); /* the product may have been measured since */
    int64_t bytes = cuda_launch_workspace(o->node.op, &o->node.args, &c);
    if (bytes > o->workspace_bytes)
        return err_set(t->err, SNUG_ERR_ENV, "cuda: %s wants %lld bytes of workspace; report this",
                       op_table[o->node.op].name, (long long)bytes);
    return race(t, o, &node, 1, us);
}

/* Whether the node is faster by our own kernel, if there is one for it: timed right behind the plain product, it has to win by
 * more than a warmer chip explains. */
static int tune_own(struct tuner *t, struct operands *o, const struct cuda_product *product,
                    const struct cuda_tuning *tuning)
{
    struct cuda_call c = tuner_call(t, o);
    struct algorithm own = {.us = NEVER};
    double us[2];
    if (!cuda_product_own(o->node.op, &o->node.args, product, &c, &own.product))
        return SNUG_OK;
    for (int i = 0; i < 2; i++) {
        own.supported = i == 1;
        TRY(algorithm_put(t->p, &own, t->err));
        TRY(race_node(t, o, &us[i]));
    }
    own.us = us[1];
    own.supported = us[1] < 0.99 * us[0];
    if (tuning->tell)
        tuning->tell(tuning->ctx, &own.product, 1, us);
    return algorithm_put(t->p, &own, t->err);
}

/* A program has the same layer many times. */
static bool is_new(struct tuner *t, const struct cuda_product_node *node)
{
    struct cuda_product product = cuda_product_of(t->p, node->op, &node->args, t->tf32), own;
    if (algorithm_is_recorded(t->p, &product)) /* by the run that goes on here, our own kernel too */
        return false;
    return !timed(t, &product) ||
           (cuda_product_own(node->op, &node->args, &product, &t->device, &own) && !timed(t, &own));
}

static int tune_node(struct tuner *t, const struct cuda_product_node *node, const struct cuda_tuning *tuning)
{
    struct operands o;
    TRY(operands_make(t, node, &o));
    operands_use(t, &o, 0);
    struct cuda_product product = cuda_product_of(t->p, node->op, &o.node.args, t->tf32);
    TRY(tune_product(t, &o, &product, tuning));
    return tune_own(t, &o, &product, tuning);
}

static int64_t rows_of(const struct cuda_product_node *n)
{
    bool measured = op_is_product(n->op) && (n->op != OP_linear_dw || n->args.linear_dw.dw.ndim);
    return measured ? n->args.slot[0].shape[0] : 0;
}

int cuda_products_tune(struct cuda_products *p, const struct cuda_product_node *nodes, int n, bool tf32,
                       const struct cuda_tuning *tuning, struct snug_err *err)
{
    struct tuner t = {.p = p, .tf32 = tf32, .err = err};
    bool any = false;
    int code = tuner_open(&t);
    for (int i = 0; i < n && !code; i++) {
        if (rows_of(&nodes[i]) == 0)
            continue;
        if (!is_new(&t, &nodes[i]))
            continue;
        if (!any && tuning->begins)
            tuning->begins(tuning->ctx);
        any = true;
        code = tune_node(&t, &nodes[i], tuning);
        operands_release(&t);
    }
    tuner_close(&t);
    if (any) /* what was promised before knew nothing of these */
        algorithms_forget_grants(p);
    return code;
}

int cuda_products_time_node(struct cuda_products *p, const struct cuda_product_node *node, bool tf32, double *us,
                            struct snug_err *err)
{
    struct tuner t = {.p = p, .tf32 = tf32, .err = err};
    struct operands o;
    int code = tuner_open(&t);
    if (!code)
        code = operands_make(&t, node, &o);
    if (!code)
        code = race_node(&t, &o, us);
    operands_release(&t);
    tuner_close(&t);
    algorithms_forget_grants(p);
    return code;
}
