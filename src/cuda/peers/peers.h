/* peers.h: ranks of one process, each with a device, whose kernels read and write each other's memory. */
#ifndef CUDA_PEERS_PEERS_H
#define CUDA_PEERS_PEERS_H

#include "backend/backend.h"
#include "cuda/errors.h"
#include "ranks/ranks.h"

enum { CUDA_MAX_PEERS = BACKEND_GPUS, GATE_LINE = 32 };

/* Where they wait for each other: in the host's memory, which all devices reach, and which the host can open. */
struct cuda_gate {
    unsigned come[CUDA_MAX_PEERS][GATE_LINE]; /* [rank][0]: how often it has come; a line of the cache for each */
    int left;                                 /* a rank has failed, so nobody waits any more */
};

struct cuda_peers {
    int me, n;
    char *arena[CUDA_MAX_PEERS]; /* of every rank: the same plan, so values lie at the same place in each */
    struct cuda_gate *gate;      /* the first rank's, for all */
    struct rank rank;
};

/* For a rank whose arena is there; all of them call it, each on its thread, with its device the current one. SNUG_ERR_ENV: the devices
 * do not reach each other's memory. Close it when no rank works any more, also after a failure. */
int cuda_peers_open(struct cuda_peers *p, const struct rank *r, int device, char *arena, struct snug_err *err);
int cuda_peers_meet(const struct cuda_peers *p,
                    struct snug_err *err); /* on the host; SNUG_ERR_ENV: a rank has failed */
void cuda_peers_close(struct cuda_peers *p);

#endif
