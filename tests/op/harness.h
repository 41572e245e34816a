/* harness.h: every case of cases.c on one set of kernels, against the reference kernels within the error model. Every
 * buffer has guard bytes round it, outputs and workspaces are poisoned, tensors are unaligned. Gradients are written or
 * added to, optional outputs are there or left out. Bits are equal from run to run. */
#ifndef TEST_OP_HARNESS_H
#define TEST_OP_HARNESS_H

#include "graph/op.h"

/* A buffer between guards, in host memory; `base` is aligned to GUARD. */
enum { GUARD = 256 };
struct buffer {
    uint8_t *base, *data;
    int64_t bytes, all_bytes; /* at data; at base, guards included */
};

struct op_case;

/* Kernels to be tested. */
struct op_runner {
    const char *name;
    bool fp16;           /* takes F16 where the policy narrows; all take F32 and BF16 */
    bool alignment_free; /* the same bits wherever tensors start */
    int64_t (*workspace)(const struct op_runner *r, enum op op, const union args_any *args, int threads);
    /* Runs the op on the buffers (base NULL: the slot is absent); args has no data pointers yet. What lies in a buffer
     * afterwards, guards included, is looked at. */
    void (*run)(const struct op_runner *r, enum op op, union args_any *args, const struct buffer *slots,
                const struct buffer *workspace, int threads);
    /* NULL: every case; others are passed over, and counted in a message */
    bool (*takes)(const struct op_case *c, enum dtype narrow);
    bool (*takes_unaligned)(enum op op); /* NULL: every op takes tensors that start anywhere */
    const void *kernels;                 /* the runner's own */
};

/* All cases of the ops that `wanted` (NULL: all) says yes to. */
void check_runner(const struct op_runner *r, bool (*wanted)(enum op op));

/* Those of ops that know a pitch, on columns of wider matrices (columns.c). */
void check_columns(const struct op_runner *r, bool (*wanted)(enum op op));

#endif
