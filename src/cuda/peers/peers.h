/* peers.h: ranks, each with a device. Kernels of those of one process read and write each other's memory; processes are connected by
 * NCCL. */
#ifndef CUDA_PEERS_PEERS_H
#define CUDA_PEERS_PEERS_H

#include "backend/backend.h"
#include "cuda/errors.h"
#include "ranks/ranks.h"

struct cuda_call; /* cuda/kernels.h */
struct cuda_nccl; /* cuda/nccl/connection.h */

enum { CUDA_MAX_PEERS = BACKEND_GPUS, GATE_LINE = 32 };

/* Where they wait for each other: in the host's memory, which all devices reach, and which the host can open. */
struct cuda_gate {
    unsigned come[CUDA_MAX_PEERS][GATE_LINE]; /* [rank][0]: how often it has come; a line of the cache for each */
    int left;                                 /* a rank has failed, so nobody waits any more */
};

struct cuda_peers {
    int n;             /* of the run's ranks */
    int64_t slot_most; /* bytes that go from one to another at once, to be added up; a multiple of 256 */
    bool joined;       /* they have their arenas, and exchange; what follows is known since */
    int me;
    struct rank rank;
    struct cuda_nccl *nccl;      /* of processes, before they join; NULL: ranks are threads, */
    char *arena[CUDA_MAX_PEERS]; /* of every rank: the same plan, so values lie at the same place in each */
    struct cuda_gate *gate;      /* the first rank's, for all */
};

/* The rank that is i behind this one; behind the last comes the first. */
static inline int cuda_peer_behind(const struct cuda_peers *p, int i)
{
    return (p->me + i) % p->n;
}

/* For a rank whose arena is there; all of them call it, each on its thread, with its device the current one. SNUG_ERR_ENV: the devices
 * do not reach each other's memory. Leave when no rank works any more, also after a failure. */
int cuda_peers_join(struct cuda_peers *p, const struct rank *r, int device, char *arena, struct snug_err *err);
void cuda_peers_leave(struct cuda_peers *p);

/* Around what a rank launches and exchanges something in. Of threads none begins before all are ready, nor goes on before all have begun.
 * SNUG_ERR_ENV, SNUG_ERR_PEER, SNUG_STOPPED: a rank has left; after that there is no end. `code`: of the launch. */
int cuda_peers_begin(const struct cuda_peers *p, struct snug_err *err);
int cuda_peers_end(const struct cuda_peers *p, int code, struct snug_err *err);

/* In a stream of each rank of one process: what comes behind it begins when all have come to it. */
int cuda_gate(const struct cuda_call *c);

#endif
