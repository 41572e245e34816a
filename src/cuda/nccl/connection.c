/* Whoever waits for other GPUs waits on the device, in kernels of NCCL's, for ever where a rank has died. So when the host learns that a
 * rank has left (ranks/watch.h), a thread aborts the connection, which ends those kernels. */
#include "cuda/nccl/connection.h"

#include "base/mem.h"
#include "cuda/errors.h"
#include "cuda/memory.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE = 5, BEGUN = 1 }; /* seconds for NCCL to give up; and for what is being enqueued */

static struct timespec in_seconds(int seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += seconds;
    return t;
}

int cuda_nccl_check(const struct cuda_nccl *n, int result, const char *what, struct snug_err *err)
{
    if (result == NCCL_SUCCESS)
        return SNUG_OK;
    if (ranks_left(n->rank.all) >= 0)
        return ranks_failure(n->rank.all, err);
    return err_set(err, SNUG_ERR_CHECKPOINT, "cuda: %s: NCCL: %s", what, n->library.GetErrorString(result));
}

/* ---- a rank has left ---- */

/* The thread that ends what waits on the device. It is there from the beginning: later it might not start. */
static void *watch(void *arg)
{
    struct cuda_nccl *n = arg;
    while (sem_wait(&n->told))
        ; /* a signal's handler has run */
    if (!n->left)
        return NULL;
    struct timespec until = in_seconds(BEGUN);
    bool mine = !pthread_mutex_timedlock(&n->lock, &until); /* else who has it waits for the rank that has left */
    n->lost = true;
    if (mine)
        pthread_mutex_unlock(&n->lock);
    n->library.CommAbort(n->comm);
    return NULL;
}

/* On any thread. */
static void lose(void *ctx)
{
    struct cuda_nccl *n = ctx;
    n->left = true;
    sem_post(&n->told);
}

int cuda_nccl_begin(struct cuda_nccl *n, struct snug_err *err)
{
    pthread_mutex_lock(&n->lock);
    if (!n->lost && ranks_left(n->rank.all) < 0)
        return SNUG_OK;
    pthread_mutex_unlock(&n->lock);
    return ranks_failure(n->rank.all, err);
}

void cuda_nccl_end(struct cuda_nccl *n)
{
    pthread_mutex_unlock(&n->lock);
}

/* ---- opening ---- */

/* What a rank tells the others of itself. */
struct introduction {
    char gpu[16];
    int version;
};

static int find_difference(const struct introduction *all, int n, struct snug_err *err)
{
    for (int k = 1; k < n; k++) {
        if (all[k].version != all[0].version)
            return err_set(err, SNUG_ERR_ENV, "rank %d: has NCCL %d, rank 0 NCCL %d; install the same everywhere", k,
                           all[k].version, all[0].version);
        for (int i = 0; i < k; i++)
            if (!memcmp(all[k].gpu, all[i].gpu, sizeof all[k].gpu))
                return err_set(err, SNUG_ERR_ENV,
                               "rank %d: has the GPU of rank %d; start no more processes on a host than it has GPUs, "
                               "and show each of them all (CUDA_VISIBLE_DEVICES), or each its own",
                               k, i);
    }
    return SNUG_OK;
}

static int introduce(const struct cuda_nccl *n, int device, struct snug_err *err)
{
    struct cudaDeviceProp found;
    CUDA("asking for the GPU", cudaGetDeviceProperties(&found, device));
    struct introduction mine = {.version = n->library.version}, *all = mem_alloc((size_t)n->rank.n * sizeof *all);
    if (!all)
        return err_no_memory(err, (unsigned long long)n->rank.n * sizeof *all);
    memcpy(mine.gpu, found.uuid.bytes, sizeof mine.gpu);
    int code = ranks_gather_all(&n->rank, &mine, sizeof mine, all) ? find_difference(all, n->rank.n, err)
                                                                   : ranks_failure(n->rank.all, err);
    mem_free(all);
    return code;
}

static int share_id(const struct cuda_nccl *n, struct nccl_id *id, struct snug_err *err)
{
    int result = n->rank.me ? NCCL_SUCCESS : n->library.GetUniqueId(id);
    if (result)
        return err_set(err, SNUG_ERR_ENV, "cuda: NCCL cannot begin: %s; NCCL_DEBUG=INFO tells more",
                       n->library.GetErrorString(result));
    return ranks_share(&n->rank, id, sizeof *id) ? SNUG_OK : ranks_failure(n->rank.all, err);
}

/* NCCL waits for all ranks without asking whether they are there: on a thread, which is left to itself where one is not. */
struct opening {
    struct cuda_nccl *n;
    struct nccl_id id;
    int device;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int result;
    bool done;
};

/* A byte from each rank to each, so that all connections are there, with the memory that they take. */
static int try_connections(const struct cuda_nccl *n)
{
    const struct nccl_library *l = &n->library;
    struct CUstream_st *stream = NULL;
    void *room;
    if (cudaMalloc(&room, 2 * (size_t)n->rank.n))
        return NCCL_CUDA_ERROR;
    char *bytes = room;
    int result = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) ? NCCL_CUDA_ERROR : l->GroupStart();
    for (int k = 0; k < n->rank.n && !result; k++) {
        if (k == n->rank.me)
            continue;
        result = l->Send(bytes + k, 1, NCCL_BYTES, k, n->comm, stream);
        result = result ? result : l->Recv(bytes + n->rank.n + k, 1, NCCL_BYTES, k, n->comm, stream);
    }
    result = result ? result : l->GroupEnd();
    result = result ? result : cudaStreamSynchronize(stream) ? NCCL_CUDA_ERROR : NCCL_SUCCESS;
    if (stream)
        cudaStreamDestroy(stream);
    cudaFree(room);
    return result;
}

static void *open_all(void *arg)
{
    struct opening *o = arg;
    struct cuda_nccl *n = o->n;
    int result =
        cudaSetDevice(o->device) ? NCCL_CUDA_ERROR : n->library.CommInitRank(&n->comm, n->rank.n, o->id, n->rank.me);
    result = result ? result : try_connections(n);
    pthread_mutex_lock(&o->lock);
    o->result = result;
    o->done = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* False: a rank has left before. */
static bool wait_for(struct opening *o)
{
    bool left = false;
    pthread_mutex_lock(&o->lock);
    while (!o->done && !left) {
        struct timespec until = in_seconds(1);
        pthread_cond_timedwait(&o->changed, &o->lock, &until);
        left = ranks_left(o->n->rank.all) >= 0;
    }
    bool done = o->done;
    pthread_mutex_unlock(&o->lock);
    return done;
}

static int no_thread(int failed, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_ENV, "cannot start a thread: %s; raise the process limit (ulimit -u)",
                   strerror(failed));
}

/* *kept: its thread goes on. */
static int connect_all(struct opening *o, bool *kept, struct snug_err *err)
{
    pthread_t thread;
    struct cuda_nccl *n = o->n;
    int failed = pthread_create(&thread, NULL, open_all, o);
    if (failed)
        return no_thread(failed, err);
    *kept = !wait_for(o);
    if (*kept) {
        pthread_detach(thread);
        return ranks_failure(n->rank.all, err);
    }
    pthread_join(thread, NULL);
    if (o->result)
        return err_set(err, SNUG_ERR_ENV,
                       "cuda: NCCL cannot connect the GPUs of %d ranks: %s (%s); NCCL_DEBUG=INFO "
                       "tells more",
                       n->rank.n, n->library.GetErrorString(o->result), n->library.GetLastError(NULL));
    return SNUG_OK;
}

static int start_watching(struct cuda_nccl *n, struct snug_err *err)
{
    int failed = pthread_create(&n->watcher, NULL, watch, n);
    n->watches = !failed;
    return failed ? no_thread(failed, err) : SNUG_OK;
}

static int open_with(struct cuda_nccl *n, int device, bool *kept, struct snug_err *err)
{
    int64_t room = cuda_free_bytes();
    TRY(nccl_library_open(&n->library, err));
    TRY(introduce(n, device, err));
    setenv("NCCL_NVLS_ENABLE", "0", 0); /* multicast of NVLink, which sums and copies of this kind have no use for */
    struct opening *o = mem_alloc(sizeof *o);
    if (!o)
        return err_no_memory(err, sizeof *o);
    *o = (struct opening){.n = n, .device = device};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    int code = share_id(n, &o->id, err);
    if (!code)
        code = connect_all(o, kept, err);
    if (!*kept)
        mem_free(o);
    n->bytes = room - cuda_free_bytes();
    return code ? code : start_watching(n, err);
}

int cuda_nccl_open(const struct rank *r, int device, struct cuda_nccl **out, struct snug_err *err)
{
    struct cuda_nccl *n = *out = mem_alloc(sizeof *n);
    bool kept = false;
    if (!n)
        return err_no_memory(err, sizeof *n);
    n->rank = *r;
    pthread_mutex_init(&n->lock, NULL);
    sem_init(&n->told, 0, 0);
    int code = open_with(n, device, &kept, err);
    if (!code)
        ranks_ring(r->all, lose, n);
    else if (!kept)
        cuda_nccl_close(n);
    if (code)
        *out = NULL;
    return code;
}

void cuda_nccl_close(struct cuda_nccl *n)
{
    if (!n)
        return;
    ranks_ring(n->rank.all, NULL, NULL);
    sem_post(&n->told);
    struct timespec until = in_seconds(PATIENCE);
    if (n->watches && pthread_timedjoin_np(n->watcher, NULL, &until))
        return; /* which still has it */
    if (!n->lost && n->comm)
        n->library.CommDestroy(n->comm);
    sem_destroy(&n->told);
    pthread_mutex_destroy(&n->lock);
    mem_free(n);
}
