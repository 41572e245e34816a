/* backend.h: what executes a program. A backend is a few functions and a kernel for every op; kernels get every buffer
 * from the plan and allocate nothing. Work is done in the order in which it is given; a backend may return before it is
 * done (a GPU), and then `download`, `wait` and `sync` are what waits. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/err.h"
#include "graph/dim.h"
#include "graph/graph.h"

/* A node with its buffers. */
struct work {
    enum op op;
    bool joins; /* may run at the same time as the one before it, which is of the same op */
    enum lane lane;
    int after
        [LANE_COUNT]; /* of each other lane, the latest work of the same call that it waits for, counted from 1; 0: none */
    union args_any args;
    struct call call;
};

/* A sequence of nodes that is run again and again: a part of a program at certain sizes. */
struct sequence {
    int program, part;
    struct dims dims;
};

/* Memory of a device. What is not named here is the runtime's: context, kernels, libraries. */
struct backend_memory {
    int64_t used_bytes;   /* in use on the whole device now, as nvidia-smi shows it */
    int64_t before_bytes; /* of them, before this process began: the driver's own, and other processes' */
    int64_t arena_bytes;
    int64_t connected_bytes; /* the connections with other ranks' devices */
    int64_t recorded_bytes;  /* sequences that were recorded, */
    int recorded;            /* how many, */
    double recorded_seconds; /* and how long that took */
};

enum { BACKEND_GPUS = 16 }; /* of one process at most */

enum { BACKEND_FLIGHTS = 2 }; /* sets of results that may be on their way to the host at once: 0 and 1 */

struct backend;
struct rank;

/* What is known of a backend before it does anything. What is 0 is off. */
struct backend_facts {
    /* What the precision pass makes of a float that it does not narrow: F32, and F64 on the reference. */
    enum dtype float_type;
    int64_t align;         /* of values in the arena, in bytes: a power of two, at least 64 */
    unsigned narrow_types; /* bit d: the precision pass may narrow to dtype d; of F8_E4M3: linear_fp8 is known */
    bool tf32;             /* knows products in tf32 */
    bool narrow_bias;      /* linear takes a bias of y's type as well as of F32 */
    bool host_memory;      /* the arena is the host's own memory, and the host's processors do the work */
    bool one_by_one;       /* nodes are to be given and waited for one by one, so that an error can name its node */
    int64_t product_sizes; /* products of other sizes than multiples of this are slow; 0: none is */
    int64_t busy_tokens;   /* a forward pass over so many rows keeps it busy; more only take memory */
    int staging;           /* copies of the inputs' room in the arena, for inputs on their way to the device */
};

/* Where tensors lie, and how they come and go. Backends in the host's memory have host_arena. */
struct backend_arena {
    /* The arena, aligned to `align` and zeroed. Its first inputs_bytes are the program's inputs, and behind them
     * staging copies of them. Of so many copies `images` has the host's side: memory from alloc_host that outlives the
     * arena; NULL where there are none. */
    int (*alloc)(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void *images, void **p,
                 struct snug_err *err);
    void (*free)(const struct backend *b, void *p, int64_t bytes);
    int64_t (*available)(const struct backend *b); /* bytes that an arena may have at present */
    /* Bytes of the host's memory that alloc_host may give at present. NULL: nobody knows, as the device is not there. */
    int64_t (*host_available)(const struct backend *b);

    /* `inputs` gives the memory into which the host writes the next inputs, laid out as in the arena. `send` enqueues
     * their copy into the arena. */
    int (*inputs)(const struct backend *b, void *arena, void **image, struct snug_err *err);
    int (*send)(const struct backend *b, void *arena, struct snug_err *err);

    /* Memory of the host that kernels reach, too: for images of inputs, for results, and for values that a plan puts there.
     * The plan has all of it (plan/plan.h). */
    int (*alloc_host)(const struct backend *b, int64_t bytes, void **p, struct snug_err *err);
    void (*free_host)(const struct backend *b, void *p);

    /* `fetch` enqueues a copy of results into memory from alloc_host, behind all work so far. `flight`, 0 or 1, is the
     * set of results that the copy belongs to. `wait` returns when the copies of that set have arrived. It does not
     * wait for work that was enqueued behind them. */
    int (*fetch)(const struct backend *b, int flight, void *to, const void *from, int64_t bytes, struct snug_err *err);
    int (*wait)(const struct backend *b, int flight, struct snug_err *err);

    /* Copies that are over on return: upload's into the arena or memory from alloc_host, from anywhere, such as the arena of another
     * device; download's out of them. */
    int (*upload)(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err);
    int (*download)(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err);
    int (*sync)(const struct backend *b, struct snug_err *err); /* until all work is done */
};

/* A time of the caller's own, in seconds, by a key that it makes up. */
struct backend_time {
    const char *key;
    double seconds;
};

/* What is measured on a device and kept for all later runs on one of its kind. */
struct backend_profile {
    /* Measures how these nodes (shapes only) run best, as far as that is not known yet. Calls begins(ctx) before the
     * first measurement. Sets *changed if nodes may want other workspaces now. Call it before anything is allocated.
     * NULL: the device is not there, so nothing can be measured. */
    int (*tune)(const struct backend *b, const struct work *nodes, int n, void (*begins)(void *ctx), void *ctx,
                bool *changed, struct snug_err *err);
    /* For plans without the device: how many products have no known algorithm. The plan gives each of them the largest
     * workspace that it may want. NULL if `tune` is there. */
    int (*unmeasured)(const struct backend *b);
    /* recall gives -1 for what was not kept. */
    double (*recall)(const struct backend *b, const char *key);
    int (*keep)(const struct backend *b, const struct backend_time *times, size_t n, struct snug_err *err);
    void (*each)(const struct backend *b, void (*see)(void *ctx, const char *key, double seconds), void *ctx);
};

/* Choices of the backend that results depend on, such as the algorithms of products. Another run may choose otherwise, so a
 * checkpoint records them. */
struct backend_record {
    /* The choices as a JSON object. The caller mem_frees *text. */
    int (*give)(const struct backend *b, char **text, struct snug_err *err);
    /* Makes the choices of a checkpoint the backend's own; they win over what is known of the device. Call it before
     * anything is compiled. Sets refused if some of them cannot be made here, and says which in its text. */
    int (*take)(const struct backend *b, const char *text, struct snug_err *refused, struct snug_err *err);
};

/* By a data sheet: operations a second in the narrow types and the wide one, bytes a second of a device's memory, each way between it
 * and the host's, and between two of them. */
struct backend_rates {
    double narrow, wide, bytes, host_bytes, link;
};

struct backend {
    const char *name;
    const char *device; /* what the device calls itself; NULL: it is the host's processor */
    struct backend_facts facts;
    struct backend_rates rates; /* all 0: unknown */
    const struct backend_arena *arena;

    /* Which kernels run here, such as "avx512": the same name gives the same bits. */
    const char *(*kernels)(const struct backend *b);
    /* Executes n nodes. */
    int (*run)(const struct backend *b, const struct work *work, int n, struct snug_err *err);

    /* ---- what may be left out: NULL ---- */

    /* As run, but lanes may still be at work when what was given to LANE_COMPUTE is over. `after` counts on from call to call, until
     * `settle`, behind which LANE_COMPUTE begins when all lanes are free; upload, download and sync settle first. NULL, both: whatever is
     * given is over before what is given next begins. `s`: which sequence that is; the same one has the same nodes each time. */
    int (*run_on)(const struct backend *b, const struct sequence *s, const struct work *work, int n,
                  struct snug_err *err);
    int (*settle)(const struct backend *b, struct snug_err *err);
    /* Bytes of workspace that a node needs at these shapes (data pointers NULL). NULL: none does. */
    int64_t (*workspace_bytes)(const struct backend *b, enum op op, const union args_any *args, int threads);
    /* Bytes that are enough for all nodes of this op that run at the same time (`together`), whatever they need together. NULL: no
     * op has such a bound. */
    int64_t (*workspace_most)(const struct backend *b, enum op op);
    /* SNUG_ERR_USAGE where no kernel takes a node of these shapes (data pointers NULL). NULL: they take all. */
    int (*takes)(enum op op, const union args_any *args, struct snug_err *err);
    /* Rows that a micro-batch of T tokens is rounded up to, so that few distinct sizes occur. NULL: T. */
    int64_t (*bucket)(int64_t T);
    /* Whether nodes of this op run at the same time when they follow one another and none needs another's result.
     * They share one workspace, which is as large as all of theirs. NULL: no op does. */
    bool (*together)(enum op op);
    /* Which nodes read a dropout mask that attention has kept (pass_keep_mask). NULL: none. */
    bool (*reads_mask)(const struct op_attention_bwd *n, int64_t head_size, enum dtype type);
    /* Runs a sequence again if it was recorded, with the same buffers, and sets *known. If it was not, the caller calls
     * `run` once with all of the sequence's nodes. Recordings end with the arena. NULL: nothing is recorded. */
    int (*replay)(const struct backend *b, const struct sequence *s, bool *known, struct snug_err *err);
    /* A line for the user about the choice of kernels; NULL where there is nothing to say. */
    const char *(*note)(const struct backend *b);
    /* Of a device's own memory. Takes less than 0.1 ms. */
    void (*memory)(const struct backend *b, struct backend_memory *out);
    const struct backend_profile *profile;
    const struct backend_record *record;
    /* Of several ranks each has a thread and, on a GPU, a backend of its own. `beside` opens one on another device, with the choices of
     * this one; `join` makes it one of the ranks, when its arena is there. Both are called on the rank's thread, which is then the one to
     * use it, and `join` by all ranks. NULL: one backend does for all, and all_reduce finds the others by its call.
     * Of ranks that are processes each has opened its own. `connect` connects it with the others', before anything is planned: it takes
     * memory of the device, and nodes that exchange something then want workspaces. All ranks call it. */
    int (*beside)(const struct backend *b, int device, const struct backend **out, struct snug_err *err);
    int (*connect)(const struct backend *b, const struct rank *r, struct snug_err *err);
    int (*join)(const struct backend *b, const struct rank *r, struct snug_err *err);
    void (*close)(const struct backend *b); /* NULL for those that are always there */
};

static inline int64_t backend_workspace_bytes(const struct backend *b, enum op op, const union args_any *args,
                                              int threads)
{
    return b->workspace_bytes ? b->workspace_bytes(b, op, args, threads) : 0;
}

static inline int64_t backend_bucket(const struct backend *b, int64_t T)
{
    return b->bucket ? b->bucket(T) : T;
}

static inline bool backend_together(const struct backend *b, enum op op)
{
    return b->together && b->together(op);
}

/* Whether it can be measured here how nodes run best. */
static inline bool backend_tunes(const struct backend *b)
{
    return b->profile && b->profile->tune;
}

static inline void backend_close(const struct backend *b)
{
    if (b && b->close)
        b->close(b);
}

/* Contracts of every kernel:
 * - outputs are written whole (an ACC slot with `add` is added to), nothing outside them is;
 * - an absent slot has data NULL;
 * - the same inputs give the same bits, for any number of threads: sums are cut by shape, not by thread;
 * - T may be 0; rows from cu[B] on are padding: finite on input, and their gradients are 0 because attention_bwd,
 *   gather_bwd, pool_bwd and the losses write 0 there. */

const struct backend *backend_reference(void);
const struct backend *backend_cpu(void);
int backend_cpu_check(struct snug_err *err); /* SNUG_ERR_USAGE: SNUG_CPU_ISA names kernels that cannot run here */

/* A GPU. SNUG_ERR_ENV: this build, or the machine, has none. */
struct cuda_settings {
    int device;            /* ordinal */
    const char *profile;   /* NULL, or the file of a device's profile: for planning, the device need not be there */
    bool tf32;             /* products of F32 tensors may round their factors to tf32 */
    int ranks;             /* of the run, which are told of each other later (connect, join); 0 is 1 */
    const char *cache_dir; /* what was measured on a device is kept in its folder snug; NULL: in the user's cache */
};
bool backend_cuda_present(void); /* this build has CUDA, and the machine a GPU of compute capability 8.0 or later */
int backend_cuda_count(void);    /* GPUs that this build could use, if their compute capability is new enough */
/* Whether each of these GPUs reaches the memory of the others. One that is not known does not. */
bool backend_cuda_reach(const int *gpus, int n);
int backend_cuda_arch(int i); /* the i-th compute capability, times ten, that this build has kernels for; 0: no more */
int backend_cuda_open(const struct cuda_settings *s, const struct backend **out, struct snug_err *err);

/* In the host's memory (backend/host.c): the arena is the image of the inputs, everything is done at once. */
extern const struct backend_arena host_arena;

/* With the words of --device. "auto" means a GPU if there is one. */
#define BACKENDS(W)                                                                                                    \
    W(BACKEND_AUTO, "auto") W(BACKEND_CPU, "cpu") W(BACKEND_CUDA, "cuda") W(BACKEND_REFERENCE, "reference")
#define BACKEND_ID(id, text) id,
enum backend_kind { BACKENDS(BACKEND_ID) };
#undef BACKEND_ID
int backend_open(enum backend_kind k, const struct cuda_settings *cuda, const struct backend **out,
                 struct snug_err *err);

/* What can be said against it at once: starting a GPU takes half a second, better spent when all else is in order. */
int backend_check(enum backend_kind k, struct snug_err *err);

#endif
