/* all_reduce: ranks are threads that see each other's memory, or processes that send each other their parts. F32 and BF16; sums are in F32,
 * the first rank's first, and rounded once. Bound by memory: each rank reads its part of everybody's gradients once, and writes it once. A
 * sum that one rank alone wants is made by all of them, too. broadcast: each rank copies what it has not. pull: so it does, beside what is
 * its own. Bound by memory. */
#include "cpu/kernels.h"

#include "ranks/ranks.h"
#include "ranks/shard.h"

/* Vectors start at multiples of this, whatever the number of ranks. */
enum { STRIDE = 64 };

/* `to` … to_end - 1 of `of` get the sum. */
SIMD void add_up(void *const *of, int ranks, int to, int to_end, int64_t first, int64_t end, int threads, bool narrow)
{
#pragma omp parallel for schedule(static) num_threads(end - first <= PARALLEL_FROM ? 1 : threads)
    for (int64_t start = first; start < end; start += STRIDE)
        for (int64_t i = start; i < start + STRIDE && i < end; i += VF_LANES) {
            vf sum = vf_get_upto(of[0], i, end - i, narrow);
            for (int k = 1; k < ranks; k++)
                sum = sum + vf_get_upto(of[k], i, end - i, narrow);
            for (int k = to; k < to_end; k++)
                vf_put_upto(of[k], i, sum, end - i, narrow);
        }
}

static void add_wide(void *ctx, void *const *of, int64_t count, int me)
{
    const struct call *c = ctx;
    add_up(of, c->rank->n, me, me + 1, 0, count, c->threads, false);
}

static void add_narrow(void *ctx, void *const *of, int64_t count, int me)
{
    const struct call *c = ctx;
    add_up(of, c->rank->n, me, me + 1, 0, count, c->threads, true);
}

/* one: the rank that alone wants it, counted from 1; 0: all. chunk: each wants its shard; 0: they do not. */
static void add_in_memory(void *data, int64_t n, int one, int64_t chunk, bool narrow, const struct call *c)
{
    one = chunk ? c->rank->me + 1 : one;
    int to = one ? one - 1 : 0, to_end = one ? one : c->rank->n;
    struct shard s = shard_of(n, chunk ? chunk : STRIDE, c->rank->n, c->rank->me);
    void *const *of = ranks_meet(c->rank, data);
    if (!of)
        return;
    if (narrow)
        add_up(of, c->rank->n, to, to_end, s.first, s.first + s.n, c->threads, true);
    else
        add_up(of, c->rank->n, to, to_end, s.first, s.first + s.n, c->threads, false);
    ranks_meet(c->rank, NULL);
}

void ISA(cpu_all_reduce)(const struct args_all_reduce *a, const struct call *c)
{
    bool narrow = a->g.dtype == DT_BF16;
    if (!c->rank)
        return;
    if (ranks_share_memory(c->rank))
        add_in_memory(a->g.data, tensor_elements(&a->g), (int)a->to, a->chunk, narrow, c);
    else
        ranks_sum(c->rank, a->g.data, tensor_elements(&a->g), a->chunk ? a->chunk : STRIDE,
                  (size_t)dtype_bytes(a->g.dtype, 1), a->chunk ? RANKS_STAY : (int)a->to,
                  narrow ? add_narrow : add_wide, (void *)c);
}

static void copy(char *to, const char *from, int64_t bytes, int threads)
{
    const int64_t piece = 64 << 10;
#pragma omp parallel for schedule(static) num_threads(bytes <= piece ? 1 : threads)
    for (int64_t at = 0; at < bytes; at += piece)
        memcpy(to + at, from + at, (size_t)(bytes - at < piece ? bytes - at : piece));
}

void ISA(cpu_pull)(const struct args_pull *a, const struct call *c)
{
    if (a->chunk) { /* bytes are moved, whatever their type */
        ref_pull(a, c);
        return;
    }
    int64_t bytes = dtype_bytes(a->y.dtype, tensor_room(&a->y));
    bool here = !c->rank || ranks_share_memory(c->rank);
    if (here || c->rank->me == a->from - 1)
        copy(a->y.data, a->x.data, bytes, c->threads);
    if (!here)
        ranks_take(c->rank, (int)a->from - 1, a->y.data, (size_t)bytes);
}

void ISA(cpu_broadcast)(const struct args_broadcast *a, const struct call *c)
{
    ref_broadcast(a, c);
}
