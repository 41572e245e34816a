/* Ranks that are threads of one process: they see each other's memory. */
#include "base/mem.h"
#include "ranks/kind.h"

#include <string.h>

struct thread_ranks {
    struct ranks all; /* whose lock guards what follows */
    unsigned meeting; /* how many are over */
    int here;         /* at the one that is not */
    void **brought;   /* (2,n): of this meeting, and of the one before, which others may still be looking at */
};

/* What a rank brings to an exchange. */
struct offer {
    const struct piece *out;
};

static bool exchange(const struct rank *r, const struct piece *out, const struct piece *in)
{
    struct offer mine = {out};
    void *const *of = ranks_meet(r, &mine);
    for (int k = 0; of && k < r->n; k++) {
        const struct piece *from = &((const struct offer *)of[k])->out[r->me];
        if (from->bytes && in[k].data != from->data)
            memcpy(in[k].data, from->data, from->bytes);
    }
    return of && ranks_meet(r, NULL); /* what was brought is no longer read */
}

static void close_threads(struct ranks *all)
{
    struct thread_ranks *t = (struct thread_ranks *)all;
    ranks_end(all);
    mem_free(t->brought);
    mem_free(t);
}

static const struct ranks_kind threads = {.exchange = exchange, .close = close_threads};

int ranks_open(int n, struct ranks **out, struct snug_err *err)
{
    struct thread_ranks *t = mem_alloc(sizeof *t);
    *out = NULL;
    if (!t)
        return err_no_memory(err, sizeof *t);
    int code = ranks_init(&t->all, &threads, n, err);
    if (!code && !(t->brought = mem_alloc(2 * (size_t)n * sizeof *t->brought)))
        code = err_no_memory(err, 2 * (unsigned long long)n * sizeof *t->brought);
    if (code)
        close_threads(&t->all);
    else
        *out = &t->all;
    return code;
}

bool ranks_share_memory(const struct rank *r)
{
    return r->all->kind == &threads;
}

void *const *ranks_meet(const struct rank *r, void *brought)
{
    struct ranks *all = r->all;
    struct thread_ranks *t = (struct thread_ranks *)all;
    pthread_mutex_lock(&all->lock);
    unsigned meeting = t->meeting;
    void **of_this = t->brought + (meeting & 1) * (unsigned)all->n;
    of_this[r->me] = brought;
    if (all->left < 0 && ++t->here == all->n) { /* after one has left nobody is counted: who gave up here still is */
        t->here = 0;
        t->meeting++;
        pthread_cond_broadcast(&all->changed);
    }
    while (meeting == t->meeting && all->left < 0)
        pthread_cond_wait(&all->changed, &all->lock);
    bool met = meeting != t->meeting; /* also where one has left since */
    pthread_mutex_unlock(&all->lock);
    return met ? of_this : NULL;
}
