/* Sums of tensors over processes. Each makes a part of them: the others send it that part of their tensors, piece by piece as they lie in
 * memory, into a slot for each, and it adds up in the order of ranks: the bits do not depend on who comes when, and are those of threads.
 * Then everybody gets the sums, or they stay where one rank alone wants them. That goes in rounds of as much as a slot takes, and the sums
 * of a round travel with the parts of the next. All ranks have the same plan: each knows what the others send. Bound by the links: of n
 * ranks each gets 2 (n - 1)/n of the tensors' bytes, and sends as many. */
#include "cuda/nccl/exchange.h"

#include "cuda/launch.h"
#include "cuda/nccl/connection.h"
#include "cuda/peers/peers.h"

/* ROUND_BYTES: of all tensors, in a round. */
enum { PACK = 16, ALIGN = 256, ROUND_BYTES = 512 << 20 };

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

int64_t cuda_nccl_slot_most(int ranks)
{
    return round_up(ROUND_BYTES / ranks, ALIGN);
}

int64_t cuda_nccl_room_most(const struct cuda_peers *p)
{
    return p->nccl ? (p->n - 1) * p->slot_most : INT64_MAX;
}

/* Of one slot, for the part of a tensor that a rank adds up. */
static int64_t slot_bytes(const struct cuda_peers *p, int64_t bytes)
{
    int64_t slot = round_up((bytes + p->n - 1) / p->n, ALIGN);
    return slot < p->slot_most ? slot : p->slot_most;
}

int64_t cuda_nccl_room(const struct cuda_peers *p, enum op op, const union args_any *args)
{
    const struct tensor *g = &args->all_reduce.g;
    return op == OP_all_reduce && p->nccl ? (p->n - 1) * slot_bytes(p, dtype_bytes(g->dtype, tensor_elements(g))) : 0;
}

/* ---- what is exchanged ---- */

/* Tensors that lie behind one another, of the same type and rank. */
struct stretch {
    char *at;
    int64_t bytes;
    int rank; /* which alone gets the sum, or has the values, counted from 1; 0: all get it */
    enum dtype type;
};

struct pieces {
    struct cuda_sum of[CUDA_LAUNCH_MANY];
    const struct cuda_sum *list[CUDA_LAUNCH_MANY];
    int n;
};

struct exchange {
    const struct cuda_call *call;
    const struct cuda_peers *peers;
    struct stretch of[CUDA_LAUNCH_MANY];
    int n;
    int64_t slot; /* bytes of one */
    struct pieces pieces;
};

/* `packs`: whole packs, since what follows such a tensor up to the next one is nobody's. */
static void add_tensor(struct exchange *x, const struct tensor *t, int64_t elements, int rank, bool packs)
{
    char *at = t->data;
    struct stretch *last = x->n ? &x->of[x->n - 1] : NULL;
    int64_t bytes = dtype_bytes(t->dtype, elements), gap = last ? at - (last->at + last->bytes) : -1;
    bool follows = last && last->rank == rank && last->type == t->dtype && gap >= 0 && gap < (packs ? ALIGN : 1);
    if (!follows) {
        last = &x->of[x->n++];
        *last = (struct stretch){.at = at, .rank = rank, .type = t->dtype};
    }
    last->bytes = round_up(at + bytes - last->at, packs ? PACK : 1);
    x->slot += slot_bytes(x->peers, bytes);
}

/* What rank k makes, or has: of the stretches of `rank` so many bytes, from `first` on. */
struct part {
    int rank;
    int64_t first, bytes;
};

static int64_t bytes_of(const struct exchange *x, int rank)
{
    int64_t bytes = 0;
    for (int i = 0; i < x->n; i++)
        bytes += x->of[i].rank == rank ? x->of[i].bytes : 0;
    return bytes;
}

static struct part part_of(const struct exchange *x, int k)
{
    if (x->of[0].rank) /* and so the others */
        return (struct part){k + 1, 0, bytes_of(x, k + 1)};
    int64_t packs = bytes_of(x, 0) / PACK, first = packs * k / x->peers->n * PACK;
    return (struct part){0, first, packs * (k + 1) / x->peers->n * PACK - first};
}

/* What is done with a piece of a part in a round, which begins `there` bytes behind the round's first; `peer`: the other rank. */
typedef int piece_fn(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type);

static int each_piece(struct exchange *x, int k, int64_t round, piece_fn *fn, int peer)
{
    struct part p = part_of(x, k);
    int64_t from = p.first + round * x->slot, end = from + x->slot, place = 0;
    end = end < p.first + p.bytes ? end : p.first + p.bytes;
    for (int i = 0; i < x->n; i++) {
        const struct stretch *s = &x->of[i];
        if (s->rank != p.rank)
            continue;
        int64_t a = from > place ? from : place, b = end < place + s->bytes ? end : place + s->bytes;
        if (a < b)
            TRY(fn(x, peer, s->at + (a - place), a - from, b - a, s->type));
        place += s->bytes;
    }
    return SNUG_OK;
}

static int64_t count_rounds(const struct exchange *x)
{
    int64_t most = 0;
    for (int k = 0; k < x->peers->n; k++) {
        int64_t bytes = part_of(x, k).bytes;
        most = bytes > most ? bytes : most;
    }
    return (most + x->slot - 1) / x->slot;
}

/* ---- on the links ---- */

static int check(const struct exchange *x, int result)
{
    return cuda_nccl_check(x->peers->nccl, result, "exchange", x->call->err);
}

static int receive(const struct exchange *x, int peer, char *to, int64_t bytes)
{
    const struct cuda_nccl *n = x->peers->nccl;
    return check(x, n->library.Recv(to, (size_t)bytes, NCCL_BYTES, peer, n->comm, x->call->stream));
}

static int receive_in_place(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    (void)there, (void)type;
    return receive(x, peer, at, bytes);
}

static int receive_into_slot(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    (void)at, (void)type;
    return receive(x, peer, (char *)x->call->workspace + (peer < x->peers->me ? peer : peer - 1) * x->slot + there,
                   bytes);
}

static int give(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    const struct cuda_nccl *n = x->peers->nccl;
    (void)there, (void)type;
    return check(x, n->library.Send(at, (size_t)bytes, NCCL_BYTES, peer, n->comm, x->call->stream));
}

/* From all others, what they have of the part that this rank adds up. */
static int collect(struct exchange *x, int64_t round)
{
    for (int k = 0; k < x->peers->n; k++) {
        if (k == x->peers->me)
            continue;
        TRY(each_piece(x, k, round, give, k));
        TRY(each_piece(x, x->peers->me, round, receive_into_slot, k));
    }
    return SNUG_OK;
}

/* From all others their parts: sums, or values. */
static int spread(struct exchange *x, int64_t round)
{
    for (int k = 0; k < x->peers->n; k++) {
        if (k == x->peers->me)
            continue;
        TRY(each_piece(x, x->peers->me, round, give, k));
        TRY(each_piece(x, k, round, receive_in_place, k));
    }
    return SNUG_OK;
}

/* The sums of the round before, and parts of this one, where there are any. */
static int exchange(struct exchange *x, int64_t round, bool spreads, bool collects)
{
    const struct cuda_nccl *n = x->peers->nccl;
    TRY(check(x, n->library.GroupStart()));
    int code = spreads ? spread(x, round - 1) : SNUG_OK;
    if (!code && collects)
        code = collect(x, round);
    int ended = n->library.GroupEnd();
    return code ? code : check(x, ended);
}

/* ---- on the device ---- */

static int list_piece(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    struct pieces *p = &x->pieces;
    (void)peer;
    p->of[p->n] = (struct cuda_sum){.mine = at, .there = there, .bytes = bytes, .type = type};
    p->list[p->n] = &p->of[p->n];
    p->n++;
    return SNUG_OK;
}

static int add_up(struct exchange *x, int64_t round)
{
    struct pieces *p = &x->pieces;
    p->n = 0;
    TRY(each_piece(x, x->peers->me, round, list_piece, x->peers->me));
    return p->n ? cuda_add_slots(p->list, p->n, x->call->workspace, x->slot, x->call) : SNUG_OK;
}

/* ---- ops ---- */

static void begin(struct exchange *x, const struct cuda_call *c)
{
    x->call = c;
    x->peers = c->peers;
    x->n = 0;
    x->slot = 0;
}

int cuda_nccl_all_reduce(const struct args_all_reduce *const *a, int n, const struct cuda_call *c)
{
    struct exchange x;
    bool to_all = !a[0]->to; /* and so those that follow */
    begin(&x, c);
    for (int i = 0; i < n; i++)
        add_tensor(&x, &a[i]->g, tensor_elements(&a[i]->g), (int)a[i]->to, true);
    x.slot = x.slot < c->peers->slot_most ? x.slot : c->peers->slot_most;
    int64_t rounds = count_rounds(&x);
    for (int64_t i = 0; i < rounds; i++) {
        TRY(exchange(&x, i, to_all && i > 0, true));
        TRY(add_up(&x, i));
    }
    return to_all ? exchange(&x, rounds, true, false) : SNUG_OK;
}

int cuda_nccl_broadcast(const struct args_broadcast *const *a, int n, const struct cuda_call *c)
{
    struct exchange x;
    begin(&x, c);
    for (int i = 0; i < n; i++)
        add_tensor(&x, &a[i]->x, tensor_room(&a[i]->x), (int)a[i]->from, false); /* perhaps a slice */
    x.slot = INT64_MAX / 2;                                                      /* all in one round */
    return exchange(&x, 1, true, false);
}

int cuda_nccl_pull(const struct args_pull *const *a, int n, const struct cuda_call *c)
{
    struct exchange x;
    begin(&x, c);
    for (int i = 0; i < n; i++)
        add_tensor(&x, &a[i]->y, tensor_room(&a[i]->y), (int)a[i]->from, false);
    x.slot = INT64_MAX / 2;
    return exchange(&x, 1, true, false);
}
