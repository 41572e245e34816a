/* cases.h: sample inputs for every op, as a table. Every check over ops runs over this table, for every backend; an op
 * without a case fails the test. To add an op, add rows in cases.c, the length of its sums in tolerance.h and, if its
 * inputs must agree with each other (statistics of a forward pass), how to make them in inputs.c. */
#ifndef TEST_OP_CASES_H
#define TEST_OP_CASES_H

#include "graph/op.h"

enum { MAX_SEQUENCES = 40 };

struct op_case {
    enum op op;
    const char *name;
    /* Shapes and attributes; no data. A tensor with ndim 0 is absent. DT_BF16 stands for the policy's type: such a case runs
     * with F32, with BF16 and where kernels have it with F16. */
    union args_any args;
    int n_sequences, lengths[MAX_SEQUENCES];
    int key_lengths[MAX_SEQUENCES]; /* of the sequences that those attend to, where these are others */
    int update;                     /* step[STEP_UPDATE]; 0 means 3 */
    bool skip;                      /* the gradients are not finite: partials infinite, coef -1 */
    double condition;               /* how much worse conditioned than the error model supposes; 0 means 1 */
    double offset;                  /* added to the random inputs named x */
    uint32_t stream;                /* of its random numbers; 0: its place in op_cases, which it must then be in */
    bool once;                      /* its result is never added into: a product with an addend */
    bool rounds;                    /* stochastically, what it stores in BF16: such a case runs with that type alone */
    bool long_only; /* large, to use threads and loops fully: left out of the sanitizer's and the gradient's runs */
};

extern const struct op_case op_cases[];
extern const int n_op_cases;

/* inputs.c: a case with data. Slots have two buffers: `ref` in F64 and `data` in the tensor's own type, holding the
 * same numbers. Output slots are not filled. */
struct slot_data {
    struct tensor shape; /* data NULL */
    bool present;
    int64_t elements, bytes;
    void *data;
    double *ref; /* for integer slots NULL: the reference reads `data` */
};

struct op_inputs {
    const struct op_case *c;
    struct slot_data slot[OP_MAX_SLOTS];
};

void inputs_make(struct op_inputs *in, const struct op_case *c, enum dtype narrow); /* the policy's type */
void inputs_free(struct op_inputs *in);
bool is_float(enum dtype t);
bool case_has_narrow(const struct op_case *c);                     /* some tensor follows the policy */
int case_slot(const struct op_case *c, const char *name);          /* -1: the op has none of that name */
uint32_t case_stream(const struct op_case *c);                     /* of random numbers */
double random_uniform(uint32_t stream, uint32_t slot, uint32_t i); /* in (0, 1) */
double random_normal(uint32_t stream, uint32_t slot, uint32_t i);

/* floats.c: fills `ref` of a slot of floats. */
void fill_floats(const struct op_case *c, int slot, struct slot_data *s);
/* Some elements of an update whose first moment is in codes: that is 0 there, and the gradient so little below it that the nearest code
 * would be 0 again. A negative one never becomes that. */
bool case_falls_below_zero(const struct op_case *c, int64_t i);

/* The reference kernels by op. */
extern void (*const reference_kernels[OP_COUNT])(const union args_any *, const struct call *);

#endif
