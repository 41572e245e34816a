#include "base/ranks.h"

#include "base/mem.h"

#include <pthread.h>

struct ranks {
    int n;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool left;
    unsigned meeting; /* how many are over */
    int here;         /* at the one that is not */
    void **brought;   /* (2,n): of this meeting, and of the one before, which others may still be looking at */
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
    if (++all->here == all->n) {
        all->here = 0;
        all->meeting++;
        pthread_cond_broadcast(&all->changed);
    }
    while (meeting == all->meeting && !all->left)
        pthread_cond_wait(&all->changed, &all->lock);
    bool left = all->left;
    pthread_mutex_unlock(&all->lock);
    return left ? NULL : of_this;
}

void ranks_leave(struct ranks *all)
{
    pthread_mutex_lock(&all->lock);
    all->left = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

bool ranks_left(struct ranks *all)
{
    pthread_mutex_lock(&all->lock);
    bool left = all->left;
    pthread_mutex_unlock(&all->lock);
    return left;
}
