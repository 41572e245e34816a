#include "base/threads.h"

#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

static void *wait_at(void *arg)
{
    struct gate *g = arg;
    pthread_mutex_lock(&g->lock);
    while (!g->open)
        pthread_cond_wait(&g->opened, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

int threads_check(int n, struct snug_err *err)
{
    struct gate g = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    pthread_t *ids = n > 0 ? mem_alloc((size_t)n * sizeof *ids) : NULL;
    int started = 0, failed = 0;
    if (n <= 0)
        return SNUG_OK;
    if (!ids)
        return err_no_memory(err, (size_t)n * sizeof *ids);
    sigset_t all, before; /* a signal is not for these */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < n && !(failed = pthread_create(&ids[started], NULL, wait_at, &g)))
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.opened);
    pthread_mutex_unlock(&g.lock);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    mem_free(ids);
    if (!failed)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_ENV,
                   "only %d of %d threads can be started: %s; raise the limit (ulimit -u), or give fewer --threads",
                   started, n, strerror(failed));
}
