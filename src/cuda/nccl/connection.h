/* connection.h: the GPU of this process, connected by NCCL with those of the other ranks. */
#ifndef CUDA_NCCL_CONNECTION_H
#define CUDA_NCCL_CONNECTION_H

#include "cuda/nccl/library.h"
#include "ranks/ranks.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cuda_nccl {
    struct nccl_library library;
    struct ncclComm *comm;
    struct rank rank;
    int64_t bytes; /* of the device's memory that it takes */

    pthread_mutex_t lock; /* guards what follows: nothing is begun on the device after a rank has left */
    bool lost;
    pthread_t watcher; /* ends what waits on the device when it is told that a rank has left */
    bool watches;      /* it is there */
    sem_t told;        /* that a rank has left, or that the connection is closed */
    atomic_bool left;
};

/* All ranks call it, each with its device the current one, before their arenas are there. SNUG_ERR_ENV: there is no NCCL, or not the
 * same, or it cannot connect them; two of them have one GPU. SNUG_ERR_PEER, SNUG_STOPPED: another rank has left meanwhile. */
int cuda_nccl_open(const struct rank *r, int device, struct cuda_nccl **out, struct snug_err *err);
/* NULL: does nothing. Graphs that exchange over it have been destroyed. */
void cuda_nccl_close(struct cuda_nccl *n);

/* Around what is put on the device and exchanges something. SNUG_ERR_PEER, SNUG_STOPPED: a rank has left; there is no end then. */
int cuda_nccl_begin(struct cuda_nccl *n, struct snug_err *err);
void cuda_nccl_end(struct cuda_nccl *n);

/* Of a result: SNUG_OK, or a line that names what was done. */
int cuda_nccl_check(const struct cuda_nccl *n, int result, const char *what, struct snug_err *err);

#endif
