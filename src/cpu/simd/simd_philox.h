/* simd_philox.h: Philox4x32-10 (base/philox.h), VF_LANES calls at once. */
#ifndef CPU_SIMD_SIMD_PHILOX_H
#define CPU_SIMD_SIMD_PHILOX_H

#include "base/philox.h"
#include "cpu/simd/simd.h"

struct vphilox {
    vu w[4];
};

/* The high and low halves of a * m. */
SIMD vu vu_mul_wide(vu a, uint32_t m, vu *low)
{
#if defined __AVX512F__
    __m512i by = _mm512_set1_epi32((int)m), even = _mm512_mul_epu32((__m512i)a, by);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), by);
    *low = (vu)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    return (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
#elif defined __AVX2__
    __m256i by = _mm256_set1_epi32((int)m), even = _mm256_mul_epu32((__m256i)a, by);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), by);
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    return (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
#else
    vu high;
    for (int i = 0; i < VF_LANES; i++)
        high[i] = (uint32_t)((uint64_t)a[i] * m >> 32);
    *low = a * m;
    return high;
#endif
}

SIMD struct vphilox vphilox4x32(struct vphilox c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        vu a_low, b_low, a_high = vu_mul_wide(c.w[0], 0xD2511F53u, &a_low),
                         b_high = vu_mul_wide(c.w[2], 0xCD9E8D57u, &b_low);
        c = (struct vphilox){{b_high ^ c.w[1] ^ key0, b_low, a_high ^ c.w[3] ^ key1, a_low}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

/* out (VF_LANES, 4): the words call by call, as VF_LANES scalar calls would leave them. */
SIMD void vphilox_store(uint32_t *out, struct vphilox c)
{
    vu even_low = VU_ZIP_LOW(c.w[0], c.w[2]), even_high = VU_ZIP_HIGH(c.w[0], c.w[2]);
    vu odd_low = VU_ZIP_LOW(c.w[1], c.w[3]), odd_high = VU_ZIP_HIGH(c.w[1], c.w[3]);
    vu all[4] = {VU_ZIP_LOW(even_low, odd_low), VU_ZIP_HIGH(even_low, odd_low), VU_ZIP_LOW(even_high, odd_high),
                 VU_ZIP_HIGH(even_high, odd_high)};
    memcpy(out, all, sizeof all);
}

#endif
