/* backend.h: what executes a program. A backend is a few functions and a kernel for every op; kernels get every buffer
 * from the plan and allocate nothing. */
#ifndef RUN_BACKEND_H
#define RUN_BACKEND_H

#include "base/err.h"
#include "graph/op.h"

struct backend {
    const char *name;
    enum dtype
        float_type; /* F32, or F64 on the reference: what the precision pass makes of a float it does not narrow */

    /* Whether it can run here: SNUG_ERR_USAGE for an environment variable that it reads, SNUG_ERR_ENV for what the
     * machine lacks. Before anything else. */
    int (*check)(struct snug_err *err);
    /* Which kernels run here, such as "avx512": the same name gives the same bits. */
    const char *(*kernels)(void);
    /* Rows that a micro-batch of T tokens is rounded up to, so that few distinct sizes occur. */
    int64_t (*bucket)(int64_t T);
    /* Bytes of workspace that a node needs at these shapes (data pointers NULL); 0 for most. */
    int64_t (*workspace_bytes)(enum op op, const union args_any *args, int threads);
    int (*run)(const struct backend *b, enum op op, const union args_any *args, const struct call *c,
               struct snug_err *err);

    int (*alloc)(const struct backend *b, int64_t bytes, void **p, struct snug_err *err); /* aligned to 64, zeroed */
    void (*free)(const struct backend *b, void *p, int64_t bytes);
    int (*upload)(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err);
    int (*download)(const struct backend *b, void *to, const void *from, int64_t bytes, struct snug_err *err);
};

/* Contracts of every kernel:
 * - outputs are written whole (an ACC slot with `add` is added to), nothing outside them is;
 * - an absent slot has data NULL;
 * - the same inputs give the same bits, for any number of threads: sums are cut by shape, not by thread;
 * - T may be 0; rows from cu[B] on are padding: finite on input, and their gradients are 0 because attention_bwd,
 * gather_bwd and the losses write 0 there. */

const struct backend *backend_reference(void);
const struct backend *backend_cpu(void);

#endif
