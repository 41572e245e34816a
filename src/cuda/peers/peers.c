#include "cuda/peers/peers.h"

#include "cuda/nccl/connection.h"

#include <cuda_runtime_api.h>
#include <string.h>

/* What a rank tells the others. */
struct introduction {
    int device;
    char *arena;
    struct cuda_gate *gate;
};

/* Nobody waits any more for a rank that has left. */
static void let_go(void *gate)
{
    *(volatile int *)&((struct cuda_gate *)gate)->left = 1;
}

static int open_gate(struct cuda_peers *p, const struct rank *r, struct snug_err *err)
{
    void *gate;
    CUDA("memory for ranks to meet", cudaHostAlloc(&gate, sizeof *p->gate, cudaHostAllocPortable));
    memset(gate, 0, sizeof *p->gate);
    p->gate = gate;
    ranks_ring(r->all, let_go, gate);
    return SNUG_OK;
}

/* Kernels on `device`, the current one, may then use the memory of `other`. */
static int reach(int device, int other, struct snug_err *err)
{
    int can = device == other;
    if (!can)
        CUDA("asking for peers", cudaDeviceCanAccessPeer(&can, device, other));
    if (!can)
        return err_set(
            err, SNUG_ERR_ENV,
            "--gpus: GPU %d cannot reach the memory of GPU %d; choose GPUs that nvidia-smi topo -p2p r shows as OK",
            device, other);
    if (device == other)
        return SNUG_OK;
    cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        return SNUG_OK;
    }
    return cuda_check((int)code, "access to a peer", err);
}

static int failed_elsewhere(const struct rank *r, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_ENV, "rank %d: another rank has failed", r->me);
}

static int meet(const struct cuda_peers *p, struct snug_err *err)
{
    return ranks_meet(&p->rank, NULL) ? SNUG_OK : failed_elsewhere(&p->rank, err);
}

int cuda_peers_begin(const struct cuda_peers *p, struct snug_err *err)
{
    return p->nccl ? cuda_nccl_begin(p->nccl, err) : meet(p, err);
}

int cuda_peers_end(const struct cuda_peers *p, int code, struct snug_err *err)
{
    if (p->nccl)
        cuda_nccl_end(p->nccl);
    return code || p->nccl ? code : meet(p, err);
}

static int join_threads(struct cuda_peers *p, const struct rank *r, int device, char *arena, struct snug_err *err)
{
    if (r->me == 0)
        TRY(open_gate(p, r, err));
    struct introduction mine = {device, arena, p->gate};
    void *const *all = ranks_meet(r, &mine);
    if (!all)
        return failed_elsewhere(r, err);
    int devices[CUDA_MAX_PEERS];
    for (int k = 0; k < r->n; k++) {
        const struct introduction *its = all[k];
        devices[k] = its->device;
        p->arena[k] = its->arena;
        p->gate = k == 0 ? its->gate : p->gate;
    }
    TRY(meet(p, err)); /* all have read what is on this thread's stack */
    for (int k = 0; k < r->n; k++)
        TRY(reach(device, devices[k], err));
    return SNUG_OK;
}

int cuda_peers_join(struct cuda_peers *p, const struct rank *r, int device, char *arena, struct snug_err *err)
{
    p->me = r->me;
    p->rank = *r;
    if (ranks_share_memory(r))
        TRY(join_threads(p, r, device, arena, err));
    p->joined = ranks_share_memory(r) || p->nccl;
    return SNUG_OK;
}

void cuda_peers_leave(struct cuda_peers *p)
{
    if (p->me == 0 && p->gate)
        cudaFreeHost(p->gate);
    p->gate = NULL;
    p->joined = false;
}
