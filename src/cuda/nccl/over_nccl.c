#include "cuda/nccl/connection.h"
#include "cuda/peers/peers.h"
#include "cuda/peers/transport.h"

static int check(const struct cuda_call *c, int result)
{
    return cuda_nccl_check(c->peers->nccl, result, "exchange", c->err);
}

static int begin(const struct cuda_call *c, bool parts)
{
    (void)parts;
    return check(c, c->peers->nccl->library.GroupStart());
}

static int end(const struct cuda_call *c)
{
    return check(c, c->peers->nccl->library.GroupEnd());
}

static int give(const struct cuda_call *c, int peer, const char *at, int64_t bytes)
{
    const struct cuda_nccl *n = c->peers->nccl;
    return check(c, n->library.Send(at, (size_t)bytes, NCCL_BYTES, peer, n->comm, c->stream));
}

static int take(const struct cuda_call *c, int peer, char *at, int64_t bytes)
{
    const struct cuda_nccl *n = c->peers->nccl;
    return check(c, n->library.Recv(at, (size_t)bytes, NCCL_BYTES, peer, n->comm, c->stream));
}

static int give_part(const struct cuda_call *c, int peer, const struct slots *s, int64_t there, const char *at,
                     int64_t bytes)
{
    (void)s, (void)there;
    return give(c, peer, at, bytes);
}

static int take_part(const struct cuda_call *c, int peer, const struct slots *s, int64_t there, int64_t bytes)
{
    return take(c, peer, s->at + slot_of(peer, c->peers->me) * s->bytes + there, bytes);
}

const struct transport cuda_over_nccl = {
    .begin = begin, .end = end, .give_part = give_part, .give = give, .take_part = take_part, .take = take};
