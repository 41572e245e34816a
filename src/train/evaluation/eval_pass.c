/* Two batches of each rank are on their way: while the device works on one, the next is laid out and given to it, and the results of the
 * one before are taken. A round is a batch of each rank; in the last one some have none. */
#include "train/evaluation/eval_pass.h"

#include "base/mem.h"
#include "ranks/ranks.h"
#include "train/team.h"

#include <string.h>

/* What a rank brings of a batch: this, and the output behind it. */
struct brought {
    double loss;
    double reserved[7]; /* the output is aligned as vectors like it */
};

/* Results stay while the first rank reads them and this one has two more batches on their way. */
enum { RESULTS = BACKEND_FLIGHTS + 1 };

struct pass {
    struct session *s;
    struct eval_loader *loader;
    eval_take_fn *take;
    void *ctx;
};

/* A rank's part of it. */
struct part {
    const struct pass *of;
    struct stepper *stepper;
    int me, n;
    struct eval_loader *share; /* NULL: this is the only rank */
    bool together;             /* all ranks execute the program as often */
    const struct batch *given[BACKEND_FLIGHTS];
    struct brought *results[RESULTS];
};

struct run_value eval_output(const struct run *r, const struct model_config *model, struct dims dims)
{
    struct run_value v = {0};
    run_output(r, r->where.eval, model_task(model)->tied ? "predictions" : "logits", dims, &v);
    return v;
}

static struct run_value output_of(const struct part *p, const struct batch *b)
{
    return eval_output(p->stepper->run, p->stepper->model, (struct dims){.T = b->T, .B = b->B, .S = b->S});
}

/* One of a rank's results. */
static int64_t result_bytes(const struct run *r, const struct model_config *model, struct dims most)
{
    struct run_value v = eval_output(r, model, most);
    return (int64_t)sizeof(struct brought) + dtype_bytes(v.dtype, v.elements);
}

int64_t eval_pass_bytes(const struct run *r, const struct model_config *model, struct dims most)
{
    return RESULTS * result_bytes(r, model, most);
}

static int open_part(struct part *p, struct snug_err *err)
{
    const struct backend *b = p->stepper->run->backend;
    int64_t bytes = result_bytes(p->stepper->run, p->stepper->model, p->of->s->compile.eval_max);
    for (int i = 0; i < RESULTS; i++) {
        void *room;
        TRY(b->arena->alloc_host(b, bytes, &room, err));
        p->results[i] = room;
    }
    return p->n > 1 ? eval_share(p->of->loader, p->me, p->n, &p->share, err) : SNUG_OK;
}

static void close_part(struct part *p)
{
    const struct backend *b = p->stepper->run->backend;
    b->arena->sync(b, NULL); /* after a failure, results may still be on their way */
    for (int i = 0; i < RESULTS; i++)
        if (p->results[i])
            b->arena->free_host(b, p->results[i]);
    eval_close(p->share);
}

static int give(struct part *p, int64_t round, struct snug_err *err)
{
    int flight = (int)(round % BACKEND_FLIGHTS);
    const struct batch *b = eval_next(p->share ? p->share : p->of->loader);
    p->given[flight] = b;
    if (!b && !p->together)
        return SNUG_OK;
    b = b ? b : batch_of_no_rows();
    struct run_value v = output_of(p, b);
    struct run_fetch fetch = {
        .to = p->results[round % RESULTS] + 1, .from = v.data, .bytes = dtype_bytes(v.dtype, v.elements)};
    return stepper_forward_begin(p->stepper, p->stepper->run->where.eval, b, &(struct step_inputs){.n = 1}, &fetch,
                                 flight, err);
}

static int left(const struct part *p, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_PEER, "rank %d: another rank has failed", p->me);
}

static int check_stop(const struct part *p, struct snug_err *err)
{
    bool mine = stop_asked(p->of->s->stop);
    int any = p->share ? ranks_any(p->stepper->run->rank, mine) : mine;
    if (any < 0)
        return left(p, err);
    if (p->of->s->processes)
        p->of->s->stops |= any;
    return any ? err_set(err, SNUG_STOPPED, "stopped by a signal during the evaluation") : SNUG_OK;
}

static int take_one(struct part *p, const struct batch *b, const struct brought *from, struct snug_err *err)
{
    struct eval_result r = {.batch = b, .output = from + 1, .shape = output_of(p, b), .loss = from->loss};
    return p->of->take(p->of->ctx, &r, err);
}

/* The first rank lays the others' batches out itself. */
static int take_all(struct part *p, const struct brought *const *from, struct snug_err *err)
{
    const struct batch *b;
    for (int i = 0; i < p->n && (b = eval_next(p->of->loader)); i++)
        TRY(take_one(p, b, from[i], err));
    return SNUG_OK;
}

static int take(struct part *p, int64_t round, struct snug_err *err)
{
    int flight = (int)(round % BACKEND_FLIGHTS);
    const struct batch *b = p->given[flight];
    struct brought *mine = p->results[round % RESULTS];
    struct run_value v = {0};
    if (b || p->together)
        TRY(stepper_forward_end(p->stepper, flight, &mine->loss, err));
    if (b)
        v = output_of(p, b);
    if (!p->share)
        return take_one(p, b, mine, err);
    size_t bytes = sizeof *mine + (size_t)dtype_bytes(v.dtype, v.elements);
    void *const *from = ranks_gather(p->stepper->run->rank, mine, bytes);
    if (!from)
        return left(p, err);
    return p->me ? SNUG_OK : take_all(p, (const struct brought *const *)from, err);
}

/* A rank's batches, of as many rounds as all have. */
static int go_through(struct part *p, struct snug_err *err)
{
    int64_t rounds = (eval_batches(p->of->loader) + p->n - 1) / p->n;
    for (int64_t i = 0; i < rounds + BACKEND_FLIGHTS - 1; i++) {
        TRY(i < rounds ? check_stop(p, err) : SNUG_OK);
        TRY(i < rounds ? give(p, i, err) : SNUG_OK);
        TRY(i >= BACKEND_FLIGHTS - 1 ? take(p, i - (BACKEND_FLIGHTS - 1), err) : SNUG_OK);
    }
    if (p->share && ranks_any(p->stepper->run->rank, false) < 0) /* the first has read what the others will free */
        return left(p, err);
    return SNUG_OK;
}

static int pass_of_rank(void *ctx, struct stepper *stepper, struct snug_err *err)
{
    const struct rank *r = stepper->run->rank;
    struct part p = {.of = ctx,
                     .stepper = stepper,
                     .me = r ? r->me : 0,
                     .n = r ? r->n : 1,
                     .together = run_exchanges(stepper->run, stepper->run->where.eval)};
    int code = open_part(&p, err);
    if (!code)
        code = go_through(&p, err);
    close_part(&p);
    return code;
}

int eval_pass(struct session *s, struct eval_loader *loader, eval_take_fn *fn, void *ctx, struct snug_err *err)
{
    struct pass p = {.s = s, .loader = loader, .take = fn, .ctx = ctx};
    eval_rewind(loader);
    return team_do(s, pass_of_rank, &p, err);
}
