/* Sums of tensors over ranks. Each makes a part of them: the others send it that part of their tensors, piece by piece as they lie in
 * memory, into a slot for each, and it adds up in the order of ranks: the bits do not depend on who comes when, nor on how they are sent.
 * Then everybody gets the sums, or they stay where one rank alone wants them. That goes in rounds of as much as a slot takes, and the sums
 * of a round travel with the parts of the next. All ranks have the same plan: each knows what the others send. Bound by the links: of n
 * ranks each gets 2 (n - 1)/n of the tensors' bytes, and sends as many. */
#include "cuda/peers/exchange.h"

#include "base/mem.h"
#include "cuda/launch.h"
#include "cuda/peers/peers.h"
#include "cuda/peers/room.h"
#include "cuda/peers/transport.h"
#include "ranks/shard.h"

#include <stdlib.h>

enum { PACK = 16 };

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
    const struct transport *by;
    struct stretch *of; /* (n) */
    int n;
    struct slots slots;
    struct pieces pieces;
};

/* rank: that wants its sum, or has it; 0: all do. chunk: not 0 where each rank has its shard. `room`: with what lies behind the elements. */
static void add_tensor(struct exchange *x, const struct tensor *t, int rank, int64_t chunk, bool room)
{
    int64_t elements = tensor_elements(t), all = room ? tensor_room(t) : elements, bytes = dtype_bytes(t->dtype, all);
    x->slots.bytes += exchange_slot(x->peers->n, x->peers->slot_most, bytes, exchange_chunk(t->dtype, chunk));
    if (!chunk)
        x->of[x->n++] = (struct stretch){.at = t->data, .bytes = bytes, .rank = rank, .type = t->dtype};
    for (int k = 0; chunk && k < x->peers->n; k++) {
        struct shard s = shard_of_room(elements, all, chunk, x->peers->n, k);
        if (s.n)
            x->of[x->n++] = (struct stretch){.at = (char *)t->data + dtype_bytes(t->dtype, s.first),
                                             .bytes = dtype_bytes(t->dtype, s.n),
                                             .rank = k + 1,
                                             .type = t->dtype};
    }
}

static int by_place(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : (x->at > y->at) - (x->at < y->at);
}

/* Makes one of those that lie behind one another: copies are few then. `packs`: whole packs, since what follows a tensor up to the next
 * one is nobody's. */
static void join_stretches(struct exchange *x, bool packs)
{
    int n = 0;
    qsort(x->of, (size_t)x->n, sizeof *x->of, by_place);
    for (int i = 0; i < x->n; i++) {
        const struct stretch s = x->of[i];
        struct stretch *last = n ? &x->of[n - 1] : NULL;
        int64_t gap = last ? s.at - (last->at + last->bytes) : -1;
        bool follows =
            last && last->rank == s.rank && last->type == s.type && gap >= 0 && gap < (packs ? EXCHANGE_ALIGN : 1);
        if (!follows) {
            last = &x->of[n++];
            *last = s;
        }
        last->bytes = exchange_round_up(s.at + s.bytes - last->at, packs ? PACK : 1);
    }
    x->n = n;
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
    int64_t from = p.first + round * x->slots.bytes, end = from + x->slots.bytes, place = 0;
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
    return (most + x->slots.bytes - 1) / x->slots.bytes;
}

/* ---- on the links ---- */

static int give_part(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    (void)type;
    return x->by->give_part(x->call, peer, &x->slots, there, at, bytes);
}

static int take_part(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    (void)at, (void)type;
    return x->by->take_part ? x->by->take_part(x->call, peer, &x->slots, there, bytes) : SNUG_OK;
}

static int give(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    (void)there, (void)type;
    return x->by->give(x->call, peer, at, bytes);
}

static int take(struct exchange *x, int peer, char *at, int64_t there, int64_t bytes, enum dtype type)
{
    (void)there, (void)type;
    return x->by->take ? x->by->take(x->call, peer, at, bytes) : SNUG_OK;
}

/* From all others, what they have of the part that this rank adds up. All turn to another one at a time: a link has what one rank sends,
 * not what all do. */
static int collect(struct exchange *x, int64_t round)
{
    const struct cuda_peers *p = x->peers;
    for (int i = 1; i < p->n; i++) {
        int to = cuda_peer_behind(p, i), from = cuda_peer_behind(p, p->n - i);
        TRY(each_piece(x, to, round, give_part, to));
        TRY(each_piece(x, p->me, round, take_part, from));
    }
    return SNUG_OK;
}

/* From all others their parts: sums, or values. */
static int spread(struct exchange *x, int64_t round)
{
    const struct cuda_peers *p = x->peers;
    for (int i = 1; i < p->n; i++) {
        int to = cuda_peer_behind(p, i), from = cuda_peer_behind(p, p->n - i);
        TRY(each_piece(x, p->me, round, give, to));
        TRY(each_piece(x, from, round, take, from));
    }
    return SNUG_OK;
}

/* The sums of the round before, and parts of this one, where there are any. */
static int exchange(struct exchange *x, int64_t round, bool spreads, bool collects)
{
    TRY(x->by->begin(x->call, collects));
    int code = spreads ? spread(x, round - 1) : SNUG_OK;
    if (!code && collects)
        code = collect(x, round);
    int ended = x->by->end(x->call);
    return code ? code : ended;
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
    return p->n ? cuda_add_slots(p->list, p->n, x->slots.at, x->slots.bytes, x->call) : SNUG_OK;
}

/* ---- ops ---- */

/* Of so many tensors. */
static int begin(struct exchange *x, int n, const struct cuda_call *c)
{
    x->call = c;
    x->peers = c->peers;
    x->by = c->peers->nccl ? &cuda_over_nccl : &cuda_copies;
    x->n = 0;
    x->slots = (struct slots){.at = c->workspace};
    size_t bytes = (size_t)(n * c->peers->n) * sizeof *x->of;
    x->of = mem_alloc(bytes);
    return x->of ? SNUG_OK : err_no_memory(c->err, bytes);
}

static int add_up_rounds(struct exchange *x, bool to_all)
{
    int64_t rounds = count_rounds(x);
    for (int64_t i = 0; i < rounds; i++) {
        TRY(exchange(x, i, to_all && i > 0, true));
        TRY(add_up(x, i));
    }
    return to_all ? exchange(x, rounds, true, false) : SNUG_OK;
}

int cuda_all_reduce_many(const struct args_all_reduce *const *a, int n, const struct cuda_call *c)
{
    struct exchange x;
    bool to_all = !a[0]->to && !a[0]->chunk; /* and so those that follow */
    if (!c->peers || !c->peers->joined)
        return SNUG_OK;
    TRY(begin(&x, n, c));
    for (int i = 0; i < n; i++)
        add_tensor(&x, &a[i]->g, (int)a[i]->to, a[i]->chunk, false);
    join_stretches(&x, true);
    x.slots.bytes = x.slots.bytes < c->peers->slot_most ? x.slots.bytes : c->peers->slot_most;
    int code = add_up_rounds(&x, to_all);
    mem_free(x.of);
    return code;
}

int cuda_all_reduce(const struct args_all_reduce *a, const struct cuda_call *c)
{
    return cuda_all_reduce_many(&a, 1, c);
}

/* What is only sent goes in one round. */
static int send_all(struct exchange *x)
{
    join_stretches(x, false); /* perhaps slices */
    x->slots.bytes = INT64_MAX / 2;
    int code = exchange(x, 1, true, false);
    mem_free(x->of);
    return code;
}

int cuda_send_broadcast(const struct args_broadcast *const *a, int n, const struct cuda_call *c)
{
    struct exchange x;
    TRY(begin(&x, n, c));
    for (int i = 0; i < n; i++)
        add_tensor(&x, &a[i]->x, (int)a[i]->from, a[i]->chunk, true);
    return send_all(&x);
}

int cuda_send_pull(const struct args_pull *const *a, int n, const struct cuda_call *c)
{
    struct exchange x;
    TRY(begin(&x, n, c));
    for (int i = 0; i < n; i++)
        add_tensor(&x, &a[i]->y, (int)a[i]->from, a[i]->chunk, true);
    return send_all(&x);
}
