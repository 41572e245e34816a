/* plan.h: where every value of a run lies. One arena, allocated once, one in the host's memory where some values are to lie
 * there, and one in a file. First comes what persists (inputs, with room for those
 * on their way, weights, states, accumulated gradients), at the same place in every program of the run; behind it the
 * values of one program at a time, packed by lifetime. All sizes are for the largest micro-batch, so a step never allocates. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/stop.h"
#include "graph/graph.h"

enum { PLAN_MAX_PROGRAMS = 8 };

/* A program of the run, such as the micro-step or the evaluation. */
struct program {
    const char *name;
    struct graph graph;
    struct dims max; /* the largest micro-batch it gets */
    int64_t *at; /* by value id: byte offset in the arena of its memory, -1 where it takes no room; slices resolved */
    /* By value id, of roots only: the first and the last node of a value's life. The first writes it and the last reads
     * it, or they run at the same time as the nodes that do. */
    int *first, *last;
    /* By value id: what lanes still use when the program ends lives on in its next run, up to this node; 0: it does not. The next run waits
     * for them before node `settle`, and so does whatever else comes next before it begins. 0: the end of the program waits. */
    int *again, settle;
    bool trails;               /* it is run again and again, and lanes may work on; set by the owner */
    int64_t peak_bytes;        /* the transient part: its size, */
    int64_t lower_bound_bytes; /* and the largest sum of what lives at once, which no packing can beat */
    int peak_node;             /* where that sum is reached */
    int recomputed_layers;     /* whose activations are dropped after the forward pass; set by the owner */
};

struct plan {
    struct program programs[PLAN_MAX_PROGRAMS];
    int n_programs;
    int64_t align;                /* of every value: a power of two, 0 means 64; set by the owner, as is */
    int staging;                  /* how many further rooms of inputs_bytes stand behind the inputs */
    const struct stop_flag *stop; /* NULL: never; likewise */
    bool trial;                   /* nobody runs it, so plan_pack does not prove it; likewise */
    int64_t trial_most;       /* of a trial: more bytes are of no use, so then arena_bytes is INT64_MAX; 0: any are */
    int64_t inputs_bytes;     /* all inputs, at the start of the arena */
    int64_t persistent_bytes; /* rounded up to `align` for each value: of the rank that has most of its own */
    int64_t least_bytes;      /* likewise of the rank that has least; the same where nothing is of one rank */
    /* Where begins what is of one rank: in the arena of each there are others of these values. */
    int64_t owned_at[MEMORY_COUNT];
    int fullest;         /* the rank that has most of its own, counted from 1; 0: nothing is of one rank */
    int64_t arena_bytes; /* persistent + the largest program's transient part */
    int64_t lower_bound_bytes;
    int64_t host_bytes;            /* the arena in the host's memory; 0: there is none */
    int64_t host_persistent_bytes; /* of it, at its start; behind lies what one program at a time has there */
    int64_t disk_bytes;            /* the arena in a file, which all persists; 0: there is none */
    int64_t images_bytes;     /* likewise in the host's memory: the inputs' images, one for each room of `staging` */
    int largest;              /* the program whose transient part is largest */
    int64_t results_bytes;    /* in the host's memory: results on their way to it; set by the owner */
    int64_t checkpoint_bytes; /* besides the arena: the copy of a checkpoint that is being written; set by the owner */
    int64_t metrics_bytes;    /* likewise, in the host's memory: what the metrics of an evaluation keep of all rows */
};

/* Where the arenas of a plan begin; NULL where there is none. */
struct arenas {
    char *of[MEMORY_COUNT];
};

/* Adds an empty program (graph initialised) and gives it; NULL with err set where memory is out. */
struct program *plan_add(struct plan *p, const char *name, struct dims max, struct snug_err *err);

/* Lifetimes and offsets for all programs. SNUG_STOPPED where p->stop asks for it. */
int plan_pack(struct plan *p, struct snug_err *err);

/* Of each memory: the arena's bytes, and those of what persists, at its start. */
static inline int64_t plan_bytes(const struct plan *p, enum memory m)
{
    return m == MEMORY_DEVICE ? p->arena_bytes : m == MEMORY_HOST ? p->host_bytes : p->disk_bytes;
}

static inline int64_t plan_persistent_bytes(const struct plan *p, enum memory m)
{
    return m == MEMORY_DEVICE ? p->persistent_bytes : m == MEMORY_HOST ? p->host_persistent_bytes : p->disk_bytes;
}

/* Proves that no two values that live at once share a byte, that everything lies inside the arena and aligned, and that
 * what persists lies at one place in all programs. A failure is a bug. */
int plan_check(const struct plan *p, struct snug_err *err);

int plan_check_stop(const struct plan *p, struct snug_err *err); /* SNUG_STOPPED, or SNUG_OK */

/* In the host's memory, on a device pinned: what is on its way to it and from it. */
static inline int64_t plan_transfer_bytes(const struct plan *p)
{
    return p->images_bytes + p->results_bytes;
}

void plan_free(struct plan *p);

#endif
