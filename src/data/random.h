/* random.h: the Philox keys of the data layer. One seed gives an own key to each purpose, so that the order of the rows
 * and the masking of their tokens have nothing to do with each other. */
#ifndef DATA_RANDOM_H
#define DATA_RANDOM_H

#include "base/philox.h"

enum data_purpose {
    FOR_ORDER = 0x4F524452,     /* ORDR */
    FOR_MASKING = 0x4D41534B,   /* MASK */
    FOR_SYNTHETIC = 0x53594E54, /* SYNT */
    FOR_SPLIT = 0x53504C54,     /* SPLT */
    FOR_SAMPLING = 0x53414D50,  /* SAMP */
};

static inline void data_key(uint64_t seed, enum data_purpose purpose, uint32_t key[2])
{
    struct philox r = philox4x32((struct philox){{(uint32_t)purpose, 0, 0, 0}}, (uint32_t)seed, (uint32_t)(seed >> 32));
    key[0] = r.w[0];
    key[1] = r.w[1];
}

/* A number in [0, n) from 32 random bits; the bias is below n / 2^32. */
static inline int32_t data_below(uint32_t bits, int32_t n)
{
    return (int32_t)((uint64_t)bits * (uint32_t)n >> 32);
}

#endif
