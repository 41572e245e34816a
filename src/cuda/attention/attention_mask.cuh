/* attention_mask.cuh: the dropout masks of op/mask.h, made where the kernels need them. Every Philox call is made by
 * one lane only, and what it gives leaves it, if at all, as one bit a decision.
 *
 * Of the ten rounds, the first two depend on the query or on the block of 16 keys alone; a loop over either keeps the
 * other's half. */
#ifndef CUDA_ATTENTION_MASK_CUH
#define CUDA_ATTENTION_MASK_CUH

#include "cuda/kernels/kernel.cuh"

constexpr uint32_t PHILOX_A = 0xD2511F53u, PHILOX_B = 0xCD9E8D57u, PHILOX_KEY0 = 0x9E3779B9u, PHILOX_KEY1 = 0xBB67AE85u;

/* What one (sequence, head) has in common. */
struct mask_stream {
    uint32_t key0, key1, sample, head, site; /* head and site are in their place in the counter */
    uint32_t step_high, step_low;            /* the product of the first round */
    uint32_t add, below_half;                /* see mask_flags */
};

struct mask_query {
    uint32_t w0, w2, w3;
};

struct mask_keys {
    uint32_t w0, w1;
};

__device__ static inline uint32_t same_in_warp(uint32_t x) /* tells the compiler */
{
    return __shfl_sync(0xFFFFFFFFu, x, 0);
}

__device__ static inline void multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
    uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

/* Of the sequence whose first row is `first`. All lanes of a warp call it, with the same arguments. */
__device__ static inline struct mask_stream mask_stream(const int32_t *rng, const int32_t *coords, int first, int head,
                                                        uint32_t site, uint32_t threshold)
{
    struct mask_stream m;
    m.key0 = same_in_warp((uint32_t)rng[0]);
    m.key1 = same_in_warp((uint32_t)rng[1]);
    m.sample = same_in_warp((uint32_t)coords[2 * (int64_t)first]);
    m.head = (uint32_t)head << 20;
    m.site = site << 20;
    multiply(PHILOX_A, same_in_warp((uint32_t)rng[2]), &m.step_high, &m.step_low);
    m.below_half = threshold <= 128 ? 0xFFFFFFFFu : 0;
    m.add = (threshold <= 128 ? 128 - threshold : 256 - threshold) * 0x01010101u;
    return m;
}

/* The part of rounds 1 and 2 that depends on the query, which counts from its sequence's first. */
__device__ static inline struct mask_query mask_query(const struct mask_stream *m, uint32_t query)
{
    uint32_t high, low, high2, low2;
    multiply(PHILOX_B, m->head | query, &high, &low);
    multiply(PHILOX_A, high ^ m->sample ^ m->key0, &high2, &low2);
    return {low ^ (m->key0 + PHILOX_KEY0), high2 ^ m->step_low ^ (m->key1 + PHILOX_KEY1), low2};
}

/* The part that depends on the block of 16 keys: key / 16, from the sequence's first. */
__device__ static inline struct mask_keys mask_keys(const struct mask_stream *m, uint32_t block)
{
    struct mask_keys k;
    multiply(PHILOX_B, m->step_high ^ (m->site | block) ^ m->key1, &k.w0, &k.w1);
    return k;
}

/* The other eight rounds: the 16 bytes of the decisions. */
__device__ static inline struct philox mask_bits(const struct mask_stream *m, struct mask_query q, struct mask_keys k)
{
    uint32_t w0 = k.w0 ^ q.w0, w1 = k.w1, w2 = q.w2, w3 = q.w3;
#pragma unroll
    for (uint32_t round = 2; round < 10; round++) {
        uint32_t high_a, low_a, high_b, low_b;
        multiply(PHILOX_A, w0, &high_a, &low_a);
        multiply(PHILOX_B, w2, &high_b, &low_b);
        w0 = high_b ^ w1 ^ (m->key0 + round * PHILOX_KEY0);
        w2 = high_a ^ w3 ^ (m->key1 + round * PHILOX_KEY1);
        w1 = low_b;
        w3 = low_a;
    }
    return {{w0, w1, w2, w3}};
}

/* Four decisions at once: the top bit of every byte is 1 where that byte of x is not below the threshold. With x =
 * 128 h + r and a threshold of at most 128 that is h or (r + 128 - threshold >= 128); above 128, h and (r + 256 -
 * threshold >= 128). Both are the majority of three. */
__device__ static inline uint32_t mask_flags(const struct mask_stream *m, uint32_t x)
{
    uint32_t y = (x & 0x7F7F7F7Fu) + m->add;
    return (x & y) | (x & m->below_half) | (y & m->below_half);
}

/* The decisions of two queries and 16 keys in one word, as they are kept: bit 4e + i of byte b is the flag of byte b in
 * flags[e][i], key 4i + b. */
__device__ static inline uint32_t mask_word(const uint32_t (&flags)[2][4])
{
    uint32_t bits = 0;
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            bits = bits >> 1 | (flags[e][i] & 0x80808080u);
    return bits;
}

__device__ static inline uint32_t permute_bytes(uint32_t x, uint32_t selector)
{
    uint32_t y; /* the fourth bit of a selector's digit spreads the top bit over the byte, which __byte_perm lacks */
    asm("prmt.b32 %0, %1, %1, %2;" : "=r"(y) : "r"(x), "r"(selector));
    return y;
}

/* p where the flag of byte i is up, else 0. */
__device__ static inline float mask_float(float p, uint32_t flags, int i)
{
    return __uint_as_float(__float_as_uint(p) & permute_bytes(flags, 0x1111u * (8 + (uint32_t)i)));
}

/* Two 16-bit values, of bytes i and i + 1 (i is 0 or 2). */
__device__ static inline uint32_t mask_pair(uint32_t pair, uint32_t flags, int i)
{
    return pair & permute_bytes(flags, i ? 0xBBAAu : 0x9988u);
}

#endif
