#include "train/team.h"

#include "base/mem.h"
#include "ranks/ranks.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

/* A rank but the first. */
struct member {
    struct team *team;
    struct rank rank;
    const struct backend *backend; /* its own; NULL: the session's does for all */
    struct ckpt_memory memory;     /* that backend's */
    struct run run;
    struct stepper stepper;
    pthread_t thread;
    struct snug_err err; /* of its last errand */
    int code;
};

/* What the ranks tell each other of a step. */
struct step_report {
    struct step_result result;
    bool stop; /* it was asked to */
};

/* What the members do next: ERRAND_DO is a team_fn. */
enum errand { ERRAND_OPEN, ERRAND_DO, ERRAND_END };

struct team {
    struct session *s;
    struct ranks *ranks;
    struct rank first;
    struct member *members;
    int n;                   /* of them: ranks - 1 */
    const struct run **runs; /* of all ranks */
    char **arenas;           /* theirs on devices, when all are open */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    enum errand errand;
    int64_t given; /* errands so far */
    int busy;      /* members that have not done the last one */
    team_fn *fn;
    void *ctx;
    struct step_report *reports; /* (ranks): of a step */
};

/* ---- members ---- */

static int open_member(struct member *m, struct snug_err *err)
{
    const struct session *s = m->team->s;
    const struct backend *b = s->compile.backend;
    if (b->beside) {
        TRY(b->beside(b, s->gpus.of[m->rank.me], &m->backend, err));
        b = m->backend;
        m->memory = s->memory;
        m->memory.ctx = (void *)(uintptr_t)b;
    }
    m->run = run_beside(&s->run, b);
    TRY(run_alloc(&m->run, err));
    if (b->join)
        TRY(b->join(b, &m->rank, err));
    m->run.rank = &m->rank;
    m->run.ranks = m->team->runs;
    m->run.others = m->team->arenas;
    TRY(stepper_open(&m->stepper, &m->run, &s->model, s->o->seed, err));
    m->stepper.class_weights = s->class_weights;
    return SNUG_OK;
}

/* What it has enqueued may read the memory of others, which goes after it. */
static int end_member(struct member *m, struct snug_err *err)
{
    return m->run.backend ? m->run.backend->arena->sync(m->run.backend, err) : SNUG_OK;
}

/* The others do not wait for one that has failed. */
static void do_errand(struct member *m, enum errand errand)
{
    struct team *t = m->team;
    m->err = (struct snug_err){0};
    m->code = errand == ERRAND_OPEN ? open_member(m, &m->err)
              : errand == ERRAND_DO ? t->fn(t->ctx, &m->stepper, &m->err)
                                    : end_member(m, &m->err);
    if (m->code && m->code != SNUG_STOPPED)
        ranks_leave(&m->rank, m->code, m->err.text);
}

static void *work(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;
    bool ends = false;
    for (int64_t done = 0; !ends; done++) {
        pthread_mutex_lock(&t->lock);
        while (t->given == done)
            pthread_cond_wait(&t->changed, &t->lock);
        enum errand errand = t->errand;
        pthread_mutex_unlock(&t->lock);
        ends = errand == ERRAND_END;
        do_errand(m, errand);
        pthread_mutex_lock(&t->lock);
        t->busy--;
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

static void give(struct team *t, enum errand errand)
{
    pthread_mutex_lock(&t->lock);
    t->errand = errand;
    t->given++;
    t->busy = t->n;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void wait_for_all(struct team *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->busy)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* ---- opening ---- */

static int start(struct member *m, struct snug_err *err)
{
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&m->thread, NULL, work, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return err_set(err, SNUG_ERR_ENV, "cannot start the thread of rank %d: %s; raise the process limit (ulimit -u)",
                       m->rank.me, strerror(failed));
    return SNUG_OK;
}

/* What is to be said of something that all have done, this rank with `code`: of the rank that failed first, since others then fail, too.
 * A process that has done its part whole is not concerned by one that has left since. */
static int outcome(const struct team *t, int code, struct snug_err *err)
{
    int who = ranks_left(t->ranks);
    if (!code && t->s->processes)
        return SNUG_OK;
    return who < 0 || who == t->first.me ? code : ranks_failure(t->ranks, err);
}

/* Members open on their own threads, which is where a GPU is chosen. */
static int open_members(struct team *t, struct snug_err *err)
{
    int code = SNUG_OK;
    const struct backend *b = t->s->compile.backend;
    t->members = mem_alloc((size_t)(t->first.n - 1) * sizeof *t->members);
    t->runs = mem_alloc((size_t)t->first.n * sizeof *t->runs);
    t->arenas = mem_alloc((size_t)t->first.n * sizeof *t->arenas);
    if (!t->members || !t->runs || !t->arenas)
        return err_no_memory(err, (unsigned long long)(t->first.n - 1) * sizeof *t->members);
    t->runs[0] = &t->s->run;
    for (; t->n < t->first.n - 1 && !code; t->n += !code) {
        t->members[t->n] = (struct member){.team = t, .rank = {.all = t->ranks, .me = t->n + 1, .n = t->first.n}};
        t->runs[t->n + 1] = &t->members[t->n].run;
        code = start(&t->members[t->n], err);
    }
    if (code)
        return code;
    give(t, ERRAND_OPEN);
    if (b->join)
        code = b->join(b, &t->first, err);
    if (code)
        ranks_leave(&t->first, code, err ? err->text : "");
    wait_for_all(t);
    for (int i = 0; i < t->n && !code; i++) /* as it would be of the first: too little memory is no fault of a rank */
        if (t->members[i].code && ranks_left(t->ranks) == i + 1)
            return err_set(err, t->members[i].code, "rank %d: %s", i + 1, t->members[i].err.text);
    for (int i = 0; i <= t->n; i++)
        t->arenas[i] = t->runs[i]->arenas.of[MEMORY_DEVICE];
    return code;
}

static int open_team(struct team *t, struct snug_err *err)
{
    struct session *s = t->s;
    int n = s->compile.ranks;
    s->run.rank = &t->first;
    if (!(t->reports = mem_alloc((size_t)n * sizeof *t->reports)))
        return err_no_memory(err, (unsigned long long)n * sizeof *t->reports);
    if (s->processes) {
        t->ranks = s->processes;
        t->first = s->here;
        return s->compile.backend->join ? s->compile.backend->join(s->compile.backend, &t->first, err) : SNUG_OK;
    }
    TRY(ranks_open(n, &t->ranks, err));
    t->first = (struct rank){.all = t->ranks, .me = 0, .n = n};
    TRY(open_members(t, err));
    s->run.ranks = t->runs;
    s->run.others = t->arenas;
    return SNUG_OK;
}

int team_open(struct session *s, struct snug_err *err)
{
    if (s->compile.ranks == 1 || s->team)
        return SNUG_OK;
    struct team *t = s->team = mem_alloc(sizeof *t);
    if (!t)
        return err_no_memory(err, sizeof *t);
    t->s = s;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    return open_team(t, err);
}

static void close_member(struct member *m)
{
    pthread_join(m->thread, NULL);
    if (m->stepper.run)
        stepper_close(&m->stepper);
    run_close(&m->run);
    backend_close(m->backend);
}

void team_close(struct session *s)
{
    struct team *t = s->team;
    if (!t)
        return;
    s->run.rank = NULL;
    s->run.ranks = NULL;
    s->run.others = NULL;
    give(t, ERRAND_END);
    if (t->n)
        s->compile.backend->arena->sync(s->compile.backend, NULL);
    wait_for_all(t);
    for (int i = 0; i < t->n; i++)
        close_member(&t->members[i]);
    if (!s->processes)
        ranks_close(t->ranks);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->members);
    mem_free(t->runs);
    mem_free(t->arenas);
    mem_free(t->reports);
    mem_free(t);
    s->team = NULL;
}

int team_do(struct session *s, team_fn *fn, void *ctx, struct snug_err *err)
{
    struct team *t = s->team;
    if (!t)
        return fn(ctx, &s->stepper, err);
    t->fn = fn;
    t->ctx = ctx;
    give(t, ERRAND_DO);
    int code = fn(ctx, &s->stepper, err);
    if (code && code != SNUG_STOPPED)
        ranks_leave(&t->first, code, err ? err->text : "");
    wait_for_all(t);
    return outcome(t, code, err);
}

/* Of what a rank has alone it makes the copies itself, before others pull them. */
static int share_with_rank(void *ctx, struct stepper *stepper, struct snug_err *err)
{
    const struct session *s = ctx;
    struct run *r = stepper->run;
    if (stepper == &s->stepper)
        return SNUG_OK;
    TRY(run_copy_persistent(r, &s->run, err));
    TRY(weights_changed(r, err));
    return r->backend->arena->sync(r->backend, err);
}

int team_share(struct session *s, struct snug_err *err)
{
    if (!s->team || s->processes)
        return SNUG_OK;
    TRY(s->compile.backend->arena->sync(s->compile.backend, err)); /* what the others copy is there */
    return team_do(s, share_with_rank, s, err);
}

const struct ckpt_memory *team_memory(const struct session *s, int rank)
{
    const struct team *t = s->team;
    bool other = t && rank > 1 && rank <= t->n + 1 && t->members[rank - 2].backend;
    return other ? &t->members[rank - 2].memory : NULL;
}

void team_leave_arenas(struct session *s)
{
    s->run.arenas = (struct arenas){0};
    for (int i = 0; s->team && i < s->team->n; i++)
        s->team->members[i].run.arenas = (struct arenas){0};
}

/* ---- steps ---- */

/* The loss is a sum over micro-batches, added in the order of ranks. Norm and its being finite are the same on all: a norm is made of
 * gradients that have been added up. */
static void add_result(struct step_result *sum, const struct step_result *r)
{
    bool knows =
        isfinite(sum->loss) && !isfinite(r->loss); /* of the rank whose loss it is more is known than of the norm */
    if (r->where[0] && (!sum->where[0] || knows))
        memcpy(sum->where, r->where, sizeof sum->where);
    sum->loss += r->loss;
    sum->finite &= r->finite;
}

struct team_window {
    const struct stop_flag *stop;
    const struct window *window;
    const struct step_inputs *inputs;
    struct step_report *reports; /* (ranks) */
};

static int step_of_rank(void *ctx, struct stepper *stepper, struct snug_err *err)
{
    const struct team_window *w = ctx;
    const struct rank *r = stepper->run->rank;
    struct step_report *mine = &w->reports[r ? r->me : 0], report;
    TRY(stepper_step(stepper, w->window, w->inputs, &mine->result, err));
    if (!r || ranks_share_memory(r))
        return SNUG_OK;
    report = *mine;
    report.stop = stop_asked(w->stop);
    return ranks_gather_all(r, &report, sizeof report, w->reports) ? SNUG_OK : ranks_failure(r->all, err);
}

int team_step(struct session *s, const struct window *w, const struct step_inputs *in, struct step_result *out,
              struct snug_err *err)
{
    struct team *t = s->team;
    struct step_report alone;
    struct team_window ctx = {.stop = s->stop, .window = w, .inputs = in, .reports = t ? t->reports : &alone};
    TRY(team_do(s, step_of_rank, &ctx, err));
    *out = ctx.reports[0].result;
    for (int i = 1; t && i < t->first.n; i++)
        add_result(out, &t->reports[i].result);
    out->sent = ctx.reports[s->here.me].result.sent; /* clocks of other processes say nothing here */
    for (int i = 0; s->processes && i < t->first.n; i++)
        s->stops |= t->reports[i].stop;
    return SNUG_OK;
}
