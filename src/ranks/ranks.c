/* What all kinds of ranks have in common, made of one exchange. */
#include "ranks/ranks.h"

#include "base/mem.h"
#include "ranks/kind.h"
#include "ranks/shard.h"

#include <stdio.h>
#include <string.h>

int ranks_init(struct ranks *all, const struct ranks_kind *kind, int n, struct snug_err *err)
{
    *all = (struct ranks){.kind = kind, .n = n, .left = -1};
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    pthread_mutex_init(&all->bell, NULL);
    for (int i = 0; i < 2; i++) {
        all->gathered[i] = mem_alloc((size_t)n * sizeof *all->gathered[i]);
        all->parts[i] = mem_alloc((size_t)n * sizeof *all->parts[i]);
        if (!all->gathered[i] || !all->parts[i])
            return err_no_memory(err, (unsigned long long)n * sizeof *all->gathered[i]);
    }
    return SNUG_OK;
}

void ranks_end(struct ranks *all)
{
    for (int i = 0; i < 2; i++) {
        for (int k = 0; all->gathered[i] && k < all->n; k++)
            mem_free(all->gathered[i][k].data);
        mem_free(all->gathered[i]);
        mem_free(all->parts[i]);
    }
    mem_free(all->scratch);
    pthread_mutex_destroy(&all->bell);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
}

void ranks_close(struct ranks *all)
{
    if (all)
        all->kind->close(all);
}

/* ---- exchange ---- */

bool ranks_exchange(const struct rank *r, const struct piece *out, const struct piece *in)
{
    return r->all->kind->exchange(r, out, in);
}

/* To and from each rank the same place. */
static bool exchange_with_all(const struct rank *r, const struct piece *out, struct piece (*in)(void *ctx, int from),
                              void *ctx)
{
    struct piece *pieces = mem_alloc(2 * (size_t)r->n * sizeof *pieces);
    for (int i = 0; pieces && i < r->n; i++) {
        pieces[i] = *out;
        pieces[r->n + i] = in(ctx, i);
    }
    bool met = pieces && ranks_exchange(r, pieces, pieces + r->n);
    if (!pieces)
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for an exchange");
    mem_free(pieces);
    return met;
}

struct rows {
    char *data;
    size_t bytes; /* of one */
};

static struct piece row_of(void *ctx, int from)
{
    const struct rows *rows = ctx;
    return (struct piece){rows->data + (size_t)from * rows->bytes, rows->bytes};
}

bool ranks_gather_all(const struct rank *r, const void *mine, size_t bytes, void *all)
{
    struct rows rows = {all, bytes};
    return exchange_with_all(r, &(struct piece){(void *)mine, bytes}, row_of, &rows);
}

struct one {
    struct piece whole;
    int from;
};

static struct piece from_one(void *ctx, int from)
{
    const struct one *one = ctx;
    return (struct piece){one->whole.data, from == one->from ? one->whole.bytes : 0};
}

static bool spread(const struct rank *r, int from, void *data, size_t bytes)
{
    struct one one = {{data, bytes}, from};
    return exchange_with_all(r, &(struct piece){data, r->me == from ? bytes : 0}, from_one, &one);
}

bool ranks_share(const struct rank *r, void *data, size_t bytes)
{
    return spread(r, 0, data, bytes);
}

void ranks_take(const struct rank *r, int from, void *data, size_t bytes)
{
    if (!ranks_share_memory(r)) {
        spread(r, from, data, bytes);
        return;
    }
    void *const *of = ranks_meet(r, data);
    if (of && r->me != from)
        memcpy(data, of[from], bytes);
    if (of)
        ranks_meet(r, NULL);
}

/* Ranks without a common memory: each shard goes to all. */
static void exchange_shards(const struct rank *r, const struct piece *shards)
{
    struct piece *out = mem_alloc(2 * (size_t)r->n * sizeof *out), *in = out + r->n;
    for (int k = 0; out && k < r->n; k++) {
        if (k == r->me)
            continue;
        out[k] = shards[r->me];
        in[k] = shards[k];
    }
    if (out)
        ranks_exchange(r, out, in);
    else
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for an exchange");
    mem_free(out);
}

static void copy_shards(const struct rank *r, char *data, const struct piece *shards)
{
    void *const *of = ranks_meet(r, data);
    for (int k = 0; of && k < r->n; k++)
        if (k != r->me)
            memcpy(shards[k].data, (const char *)of[k] + ((char *)shards[k].data - data), shards[k].bytes);
    if (of)
        ranks_meet(r, NULL);
}

void ranks_spread(const struct rank *r, void *data, int64_t n, int64_t room, int64_t chunk, enum dtype type)
{
    struct piece *shards = mem_alloc((size_t)r->n * sizeof *shards);
    for (int k = 0; shards && k < r->n; k++) {
        struct shard s = shard_of_room(n, room, chunk, r->n, k);
        shards[k] = (struct piece){(char *)data + dtype_bytes(type, s.first), (size_t)dtype_bytes(type, s.n)};
    }
    if (!shards)
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for an exchange");
    else if (ranks_share_memory(r))
        copy_shards(r, data, shards);
    else
        exchange_shards(r, shards);
    mem_free(shards);
}

int ranks_any(const struct rank *r, bool yes)
{
    char said = yes, *all = mem_alloc((size_t)r->n);
    int any = -1;
    if (!all)
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for an exchange");
    else if (ranks_gather_all(r, &said, 1, all))
        any = memchr(all, 1, (size_t)r->n) != NULL;
    mem_free(all);
    return any;
}

/* Room for what each rank brings to the first. */
static bool make_room(const struct rank *r, struct piece *room, const uint64_t *bytes)
{
    for (int i = 0; i < r->n; i++) {
        size_t more = r->me ? 0 : (size_t)bytes[i];
        if (more > room[i].bytes || !room[i].data) {
            mem_free(room[i].data);
            room[i] = (struct piece){mem_alloc(more + 1), more};
        }
        if (!room[i].data)
            return false;
    }
    return true;
}

static bool gather_into(const struct rank *r, const void *brought, const uint64_t *bytes, struct piece *room)
{
    struct piece *pieces = mem_alloc(2 * (size_t)r->n * sizeof *pieces);
    bool there = pieces && make_room(r, room, bytes);
    if (!there)
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for an exchange");
    for (int i = 0; there && i < r->n; i++) {
        pieces[i] = (struct piece){(void *)brought, i ? 0 : (size_t)bytes[r->me]};
        pieces[r->n + i] = (struct piece){room[i].data, r->me ? 0 : (size_t)bytes[i]};
    }
    bool met = there && ranks_exchange(r, pieces, pieces + r->n);
    mem_free(pieces);
    return met;
}

void *const *ranks_gather(const struct rank *r, const void *brought, size_t bytes)
{
    if (ranks_share_memory(r))
        return ranks_meet(r, (void *)brought);
    int which = (int)(r->all->gatherings++ % 2);
    struct piece *room = r->all->gathered[which];
    uint64_t mine = bytes, *of_all = mem_alloc((size_t)r->n * sizeof *of_all);
    bool met = of_all && ranks_gather_all(r, &mine, sizeof mine, of_all) && gather_into(r, brought, of_all, room);
    if (!of_all)
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for an exchange");
    mem_free(of_all);
    for (int i = 0; i < r->n; i++)
        r->all->parts[which][i] = room[i].data;
    return met ? r->all->parts[which] : NULL;
}

/* ---- sums ---- */

/* Of all ranks together, beside the gradients; at least LEAST of each. */
enum { SUM_BYTES = 4 << 20, SUM_LEAST = 64 << 10 };

/* A sum, as ranks_sum is asked for it. */
struct sum {
    char *data;
    int64_t n, chunk;
    size_t size; /* of an element */
    int to;
    int64_t at_once; /* elements of a shard */
};

/* The elements of rank k's shard that are added up in round `round`. */
static struct shard span_of(const struct rank *r, const struct sum *s, int k, int64_t round)
{
    struct shard all = shard_of(s->n, s->chunk, r->n, k);
    int64_t left = all.n - round * s->at_once;
    return (struct shard){all.first + round * s->at_once, left < 0 ? 0 : left < s->at_once ? left : s->at_once};
}

/* One round: everybody's elements of this rank's shard come here, and their sum goes where it is wanted. */
static bool sum_round(const struct rank *r, const struct sum *s, int64_t round, ranks_add_fn *add, void *ctx)
{
    char *data = s->data;
    const size_t size = s->size;
    const int to = s->to;
    const int64_t at_once = s->at_once;
    struct piece *out = (struct piece *)r->all->scratch, *in = out + r->n;
    void **of = (void **)(in + r->n);
    char *room = (char *)(of + r->n);
    struct shard mine = span_of(r, s, r->me, round);
    for (int k = 0; k < r->n; k++) {
        struct shard theirs = span_of(r, s, k, round);
        char *here = k == r->me ? data + (size_t)mine.first * size : room + (size_t)k * (size_t)at_once * size;
        out[k] = (struct piece){data + (size_t)theirs.first * size, k == r->me ? 0 : (size_t)theirs.n * size};
        in[k] = (struct piece){here, k == r->me ? 0 : (size_t)mine.n * size};
        of[k] = here;
    }
    if (!ranks_exchange(r, out, in))
        return false;
    add(ctx, of, mine.n, r->me);
    if (to == RANKS_STAY)
        return true;
    for (int k = 0; k < r->n; k++) {
        struct shard theirs = span_of(r, s, k, round);
        bool goes = k != r->me && (!to || to == k + 1), comes = k != r->me && (!to || to == r->me + 1);
        out[k] = (struct piece){data + (size_t)mine.first * size, goes ? (size_t)mine.n * size : 0};
        in[k] = (struct piece){data + (size_t)theirs.first * size, comes ? (size_t)theirs.n * size : 0};
    }
    return ranks_exchange(r, out, in);
}

bool ranks_sum(const struct rank *r, void *data, int64_t n, int64_t chunk, size_t element_bytes, int to,
               ranks_add_fn *add, void *ctx)
{
    size_t each = SUM_BYTES / (size_t)r->n > SUM_LEAST ? SUM_BYTES / (size_t)r->n : SUM_LEAST;
    struct sum s = {data, n, chunk, element_bytes, to, (int64_t)(each / element_bytes)};
    int64_t most = (n / chunk / r->n + 2) * chunk; /* elements of a shard */
    size_t bytes = (size_t)r->n * (2 * sizeof(struct piece) + sizeof(void *) + each);
    if (!MEM_GROW(r->all->scratch, r->all->scratch_bytes, bytes)) {
        ranks_leave(r, SNUG_ERR_ENV, "there is no memory for adding up gradients");
        return false;
    }
    for (int64_t round = 0; round * s.at_once < most; round++)
        if (!sum_round(r, &s, round, add, ctx))
            return false;
    return true;
}

/* ---- leaving ---- */

static void ring(struct ranks *all)
{
    pthread_mutex_lock(&all->bell);
    if (all->ring)
        all->ring(all->ring_ctx);
    pthread_mutex_unlock(&all->bell);
}

void ranks_lose(struct ranks *all, int who, int code, const char *why, bool tell)
{
    pthread_mutex_lock(&all->lock);
    bool first = all->left < 0;
    if (first) {
        all->left_code = code;
        snprintf(all->why, sizeof all->why, "%s", why);
        all->left = who;
    }
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
    if (first)
        ring(all);
    if (first && tell && all->kind->tell)
        all->kind->tell(all, who);
}

void ranks_leave(const struct rank *r, int code, const char *why)
{
    ranks_lose(r->all, r->me, code, why, true);
}

int ranks_left(struct ranks *all)
{
    pthread_mutex_lock(&all->lock);
    int left = all->left;
    pthread_mutex_unlock(&all->lock);
    return left;
}

int ranks_left_code(struct ranks *all)
{
    return ranks_left(all) < 0 ? SNUG_OK : all->left_code; /* which does not change any more, like the reason */
}

int ranks_failure(struct ranks *all, struct snug_err *err)
{
    int left = ranks_left(all);
    if (left < 0)
        return SNUG_OK;
    if (all->left_code == SNUG_STOPPED)
        return err_set(err, SNUG_STOPPED, "%s", all->why);
    return err_set(err, SNUG_ERR_PEER, "rank %d: %s", left, all->why);
}

void ranks_ring(struct ranks *all, ranks_ring_fn *fn, void *ctx)
{
    pthread_mutex_lock(&all->bell);
    all->ring = fn;
    all->ring_ctx = ctx;
    if (fn && ranks_left(all) >= 0)
        fn(ctx);
    pthread_mutex_unlock(&all->bell);
}
