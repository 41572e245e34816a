#include "cuda/peers/peers.h"
#include "cuda/peers/transport.h"

#include <cuda_runtime_api.h>

/* What all ranks do before the gate has been done behind it. */
static int begin(const struct cuda_call *c, bool parts)
{
    return parts ? cuda_gate(c) : SNUG_OK;
}

/* `at` is of this rank's arena: that place in a peer's. */
static char *place(const struct cuda_call *c, int peer, const char *at)
{
    return c->peers->arena[peer] + (at - c->peers->arena[c->peers->me]);
}

static int copy(const struct cuda_call *c, char *to, const char *from, int64_t bytes)
{
    cudaError_t code = cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, c->stream);
    return cuda_check((int)code, "copying to another GPU", c->err);
}

static int give_part(const struct cuda_call *c, int peer, const struct slots *s, int64_t there, const char *at,
                     int64_t bytes)
{
    int64_t slot = slot_of(c->peers->me, peer) * s->bytes;
    return copy(c, place(c, peer, s->at) + slot + there, at, bytes);
}

static int give(const struct cuda_call *c, int peer, const char *at, int64_t bytes)
{
    return copy(c, place(c, peer, at), at, bytes);
}

const struct transport cuda_copies = {.begin = begin, .end = cuda_gate, .give_part = give_part, .give = give};
