/* recompute.h: which activations a run computes again, or has in the host's memory, so that its plan fits, and the step takes the least
 * time. */
#ifndef SEARCH_RECOMPUTE_H
#define SEARCH_RECOMPUTE_H

#include "compile.h"
#include "search/rates.h"

struct recomputed {
    struct recompute_set *sets; /* by layer, mem_free'd by the caller; NULL: every_n is what fits */
    int every_n;                /* as in struct choices; 0: nothing is computed again */
    int layers;                 /* of which something is */
    bool fits;                  /* false also where a step that fits takes too long */
    int64_t arena_bytes;        /* of the plan with them; without a fit, of the smallest that was tried, or INT64_MAX */
    int64_t host_bytes;         /* of the plan, whatever is computed again */
    int64_t bound;              /* of the arena: nothing that may be computed again makes it less */
    double seconds;             /* that a step takes, by the rates */
};

/* What is looked for. */
struct recompute_aim {
    int64_t limit;  /* bytes of the arena, at most, */
    int64_t host;   /* and of the arena in the host's memory */
    int64_t below;  /* where nothing fits, what takes fewer bytes than this, which takes longer to find; 0: nothing */
    double seconds; /* a step that takes as long, or longer, is of no use; INFINITY: any is */
    bool sends;     /* activations may leave for the host's memory */
};

/* Sets out for a run with these choices, of which those on recomputation do not matter. More bytes never make it slower. Nothing is
 * allocated of the model's size. */
int recompute_search(const struct compile_settings *s, const struct choices *choices, const struct recompute_aim *aim,
                     struct recomputed *out, struct snug_err *err);

/* The same of a run as its choices are. */
int recompute_measure(const struct compile_settings *s, const struct choices *choices, const struct recompute_aim *aim,
                      struct recomputed *out, struct snug_err *err);

#endif
