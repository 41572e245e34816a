/* failing_memory.h: an allocator that fails, for tests that make every allocation fail once. */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct failing_memory {
    struct mem_ops ops;
    atomic_long calls; /* so far, by any thread */
    long fail_call;    /* 1 fails the first call; 0 none */
    bool for_ever;     /* and all that come after it */
};

static inline void *failing_realloc(void *ctx, void *p, size_t bytes)
{
    struct failing_memory *m = ctx;
    long k = atomic_fetch_add(&m->calls, 1) + 1;
    bool fails = m->fail_call && (k == m->fail_call || (m->for_ever && k > m->fail_call));
    return fails ? NULL : realloc(p, bytes);
}

static inline void plain_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* From here to mem_set_ops(NULL) the allocations of snug are counted in *m, and one of them fails. */
static inline void failing_memory_set(struct failing_memory *m, long fail_call, bool for_ever)
{
    *m = (struct failing_memory){.ops = {.realloc = failing_realloc, .free = plain_free, .ctx = m},
                                 .fail_call = fail_call,
                                 .for_ever = for_ever};
    mem_set_ops(&m->ops);
}

static inline bool failing_memory_hit(const struct failing_memory *m)
{
    return m->fail_call && m->calls >= m->fail_call;
}

#endif
