/* shard.h: which elements of a tensor each of several ranks has where all of them share it out (ZeRO: Rajbhandari et al., arXiv
 * 1910.02054). Shards are of whole chunks, follow one another in the order of ranks, and differ by a chunk at most. */
#ifndef RANKS_SHARD_H
#define RANKS_SHARD_H

#include <stdint.h>

struct shard {
    int64_t first, n; /* elements [first, first + n) */
};

/* Of rank 0 <= me < ranks. */
static inline struct shard shard_of(int64_t elements, int64_t chunk, int64_t ranks, int64_t me)
{
    int64_t chunks = (elements + chunk - 1) / chunk, first = chunks * me / ranks * chunk,
            end = chunks * (me + 1) / ranks * chunk;
    return (struct shard){first, (end < elements ? end : elements) - first};
}

/* The first of the ranks that have most: of those with a chunk more than others, where chunks do not come out even. */
static inline int64_t shard_largest(int64_t elements, int64_t chunk, int64_t ranks)
{
    int64_t more = (elements + chunk - 1) / chunk % ranks;
    return more ? (ranks + more - 1) / more - 1 : 0;
}

/* The shard of rank `me` with what lies behind the elements, which is the last rank's. */
static inline struct shard shard_of_room(int64_t elements, int64_t room, int64_t chunk, int64_t ranks, int64_t me)
{
    struct shard s = shard_of(elements, chunk, ranks, me);
    s.n += me == ranks - 1 ? room - elements : 0;
    return s;
}

#endif
