/* coding.h: writing a weight that is kept in codes, of 4 bits (op/codes/quantize.h) or of 8 (op/codes/fp8.h), from numbers that come piece by piece, and
 * reading it. */
#ifndef RUN_CODING_H
#define RUN_CODING_H

#include "op/codes/quantize.h"
#include "run/run.h"

/* Whether a weight is one. */
static inline bool weight_is_coded(const struct run_value *w)
{
    return w->dtype == DT_F4 || w->dtype == DT_F8_E4M3;
}

/* So many elements one after the other have what they are multiplied with in common: those of a block, or of a row. */
static inline int64_t coding_unit(const struct run_value *w)
{
    return w->dtype == DT_F4 ? QUANT_BLOCK : w->shape[w->ndim - 1];
}

struct coding {
    const struct run *r;
    struct run_value weight;
    enum quant_type type; /* of 4 bits */
    int64_t unit;
    uint8_t *codes; /* of a piece */
    float *times;   /* of all units: absmax, or scales */
    float *begun;   /* of a row that the last piece has cut: its first elements, */
    int64_t n_begun;
    /* What absmax is made of where that is codes: given between open and finish, the caller's. 0: it is calculated. */
    const float *nested;
    int64_t n_nested;
};

/* Pieces have at most so many elements. After success coding_close is owed, whatever fails behind it. */
int coding_open(struct coding *c, const struct run *r, const struct run_value *weight, enum quant_type type,
                int64_t piece, struct snug_err *err);
/* Elements [first, first + n), piece by piece in their order; `first` a multiple of QUANT_BLOCK. */
int coding_put(struct coding *c, const float *x, int64_t first, int64_t n, struct snug_err *err);
/* When all have been put: writes what the codes are multiplied with. */
int coding_finish(struct coding *c, struct snug_err *err);
void coding_close(struct coding *c);

/* The numbers of elements [first, first + n) of such a weight, `first` a multiple of coding_unit; 0 for what lies in other processes. */
int coding_read(const struct run *r, const struct run_value *weight, enum quant_type type, int64_t first, int64_t n,
                float *to, struct snug_err *err);

#endif
