/* run.h: executing planned programs on a backend. Owns the arena. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "base/files/scratch.h"
#include "compile.h"
#include "run/op_times.h"

struct run {
    const struct backend *backend;
    int threads;
    struct plan plan;
    struct programs where;
    struct arenas arenas;    /* NULL until run_alloc; that of MEMORY_DEVICE is device memory on a device */
    struct mapping disk;     /* what that of MEMORY_DISK is */
    const char *offload_dir; /* where its file is, by way of `io` */
    const struct io *io;
    void *images;      /* of the inputs, in the host's memory; NULL until run_alloc, and where the plan has none */
    struct work *work; /* room for the nodes of the longest program */
    int *place;        /* by node: its number among what was given to the backend, from 1 on */
    int given;         /* the last of these numbers */
    int trailing;      /* the program, counted from 1, that lanes may still work for; 0: none */
    const struct rank *rank; /* of several, each with a run of its own: which one; NULL: there is only this */
    const struct run *const
        *ranks;             /* those of all of them, where what one rank has alone is found; NULL: there is only this */
    char *const *others;    /* and their arenas on devices */
    struct op_times *times; /* what run_program adds to, on backends in the host's memory; NULL: nobody asks */
    bool shares_plan;       /* it is another run's */
};

/* Compiles and plans; nothing of the size of the model is allocated. run_close also after a failure. */
int run_open(struct run *r, const struct compile_settings *s, const struct choices *choices, struct snug_err *err);
/* Measures how the nodes run best, as far as the backend does not know it yet, and plans anew if that asks for other
 * workspaces: *anew. begins(ctx) is called before the first measurement. Call it before run_alloc, and only for a plan that
 * fits: one that is far too large can take minutes. */
int run_tune(struct run *r, const struct compile_settings *s, const struct choices *choices, void (*begins)(void *ctx),
             void *ctx, bool *anew, struct snug_err *err);
int run_alloc(struct run *r, struct snug_err *err); /* the arenas, zeroed, and images */

/* A run of the same plan on another device, or beside it on the same: nothing is allocated. `of` must outlive it. */
struct run run_beside(const struct run *of, const struct backend *backend);
/* Copies what all ranks keep between programs, weights and states, from one run's arenas into those of one beside it. */
int run_copy_persistent(struct run *to, const struct run *from, struct snug_err *err);
void run_close(struct run *r);

/* A persistent value of any program (run_find), or a value of program `k` (run_output); false: no value of that name. */
struct run_value {
    const char *name;
    void *data; /* in the arena */
    enum memory memory;
    int rank; /* that has it alone, counted from 1; 0: all have it */
    enum dtype dtype;
    enum role role;
    enum kin kin;
    bool frozen;
    int ndim;
    int64_t shape[MAX_DIMS]; /* at the largest sizes for inputs, at `dims` for outputs */
    int64_t elements;
    struct init init;
    /* Not 0: its `whole` elements are dealt to so many ranks (ranks/shard.h). These are those from `first` on, wherever they lie; data is where
     * a rank's shard begins. */
    int shards;
    int64_t chunk, whole, first;
};
bool run_has(const struct run *r, const struct run_value *v); /* false: it lies in another process */
/* n elements of it, from the first-th on. */
struct run_value run_part_of(const struct run_value *v, int64_t first, int64_t n);
/* Of what is dealt to ranks, that which rank k has, counted from 0, which begins *at elements behind the first; false: nothing. */
bool run_shard(const struct run *r, const struct run_value *v, int k, struct run_value *out, int64_t *at);
bool run_find(const struct run *r, const char *name, struct run_value *out);
bool run_output(const struct run *r, int k, const char *name, struct dims dims, struct run_value *out);

/* All persistent values with one of the given roles that are tensors of their own (no groups), in the order of the
 * program; *values is mem_free'd by the caller. */
int run_list(const struct run *r, unsigned roles, struct run_value **values, size_t *n, struct snug_err *err);

/* A result that is copied to host memory (from the backend's alloc_host) as soon as it is there. */
struct run_fetch {
    void *to;
    const void *from; /* in the arena */
    int64_t bytes;
    int flight; /* the set that it belongs to; the arena's `wait` takes this number */
};

/* Executes program k for the actual sizes; T is already rounded up to the backend's bucket. Results are fetched before the
 * first update if the norm of all gradients is known there (struct choices: updates_at_end) and no copies run beside it, else at the end.
 * On a device they have arrived when the arena's `wait` returns. */
int run_program(struct run *r, int k, struct dims dims, const struct run_fetch *fetch, int n_fetch,
                struct snug_err *err);
int run_settle(struct run *r, struct snug_err *err); /* what comes next is behind all that lanes still do */
/* Whether ranks work together in program k, if there is one: all execute it. */
bool run_exchanges(const struct run *r, int k);
bool run_updates_wait(const struct run *r, int k); /* for the gradient's norm, in program k */

/* Executes the forward and backward nodes of program k again, and describes the first value that is not finite
 * ("activation y of attention in layer 3", "gradient NAME"): false when all are finite. The inputs and weights must
 * still be those of the step. */
bool run_first_not_finite(struct run *r, int k, struct dims dims, char *text, size_t room);

/* For a program whose updates do not wait, which has run to its end: the first gradient whose norm was not finite. */
bool run_gradient_not_finite(struct run *r, int k, char *text, size_t room);

/* Floating-point operations of program k at these sizes (attention as if the sequences were equally long). */
double run_flops(const struct run *r, int k, struct dims dims);

/* What the backend gets for a node of one of r's programs. */
void run_fill_work(const struct run *r, const struct program *g, const struct node *n, struct dims dims,
                   struct work *w);

/* Executes each node of program k that is `wanted` (NULL: all) again and again, and gives its best time in seconds[node id].
 * Nodes that run at the same time have shares of it. The program must have been run for `dims`, so that inputs are there; it leaves other
 * values behind. Of values that others have overwritten any floats will do. Whole numbers, by which nodes find their rows, would point
 * anywhere: the nodes that make them are executed too. */
int run_time_nodes(struct run *r, int k, struct dims dims, const bool *wanted, double *seconds, struct snug_err *err);

/* Host copies of whole values, or of the shards that are in this process; `type` is any float type. */
int run_read(const struct run *r, const struct run_value *v, void *to, enum dtype type, struct snug_err *err);
int run_write(const struct run *r, const struct run_value *v, const void *from, enum dtype type, int64_t elements,
              struct snug_err *err);

#endif
