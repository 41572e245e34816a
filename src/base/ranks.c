#include "base/ranks.h"

#include "base/mem.h"

#include <pthread.h>

struct ranks {
    int n;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int left;           /* as ranks_left */
    volatile int *bell; /* NULL: none */
    unsigned meeting;   /* how many are over */
    int here;           /* at the one that is not */
    void **brought;     /* (2,n): of this meeting, and of the one before, which others may still be looking at */
};

int ranks_open(int n, struct ranks **out, struct snug_err *err)
{
    struct ranks *all = mem_alloc(sizeof *all);
    *out = NULL;
    if (!all || !(all->brought = mem_alloc(2 * (size_t)n * sizeof *all->brought))) {
        mem_free(all);
        return err_no_memory(err, 2 * (unsigned long long)n * sizeof *all->brought);
    }
    all->n = n;
    all->left = -1;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    *out = all;
    return SNUG_OK;
}

void ranks_close(struct ranks *all)
{
    if (!all)
        return;
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    mem_free(all->brought);
    mem_free(all);
}

void *const *ranks_meet(const struct rank *r, void *brought)
{
    struct ranks *all = r->all;
    pthread_mutex_lock(&all->lock);
    unsigned meeting = all->meeting;
    void **of_this = all->brought + (meeting & 1) * (unsigned)all->n;
    of_this[r->me] = brought;
    if (all->left < 0 && ++all->here == all->n) { /* after one has left nobody is counted: who gave up here still is */
        all->here = 0;
        all->meeting++;
        pthread_cond_broadcast(&all->changed);
    }
    while (meeting == all->meeting && all->left < 0)
        pthread_cond_wait(&all->changed, &all->lock);
    bool met = meeting != all->meeting; /* also where one has left since */
    pthread_mutex_unlock(&all->lock);
    return met ? of_this : NULL;
}

void *const *ranks_gather(const struct rank *r, const void *brought, size_t bytes)
{
    (void)bytes;
    return ranks_meet(r, (void *)brought);
}

int ranks_any(const struct rank *r, bool yes)
{
    void *const *of = ranks_meet(r, yes ? r->all : NULL);
    for (int i = 0; of && i < r->n; i++)
        if (of[i])
            return 1;
    return of ? 0 : -1;
}

void ranks_leave(const struct rank *r)
{
    struct ranks *all = r->all;
    pthread_mutex_lock(&all->lock);
    all->left = all->left < 0 ? r->me : all->left;
    if (all->bell)
        *all->bell = 1;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

int ranks_left(struct ranks *all)
{
    pthread_mutex_lock(&all->lock);
    int left = all->left;
    pthread_mutex_unlock(&all->lock);
    return left;
}

void ranks_ring(struct ranks *all, volatile int *bell)
{
    pthread_mutex_lock(&all->lock);
    all->bell = bell;
    if (all->left >= 0)
        *bell = 1;
    pthread_mutex_unlock(&all->lock);
}
