/* philox.h: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11). A counter and a key
 * give four 32-bit words; there is no state, so any mask can be made again anywhere. Checked against the known answers
 * of Random123. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

/* Compiled for the GPU too. */
#ifdef __CUDACC__
#define ON_DEVICE __host__ __device__
#else
#define ON_DEVICE
#endif

struct philox {
    uint32_t w[4];
};

ON_DEVICE static inline struct philox philox4x32(struct philox c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c.w[0], b = (uint64_t)0xCD9E8D57u * c.w[2];
        struct philox next = {
            {(uint32_t)(b >> 32) ^ c.w[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ c.w[3] ^ key1, (uint32_t)a}};
        c = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

#endif
