/* simd_lookup.h: a table's numbers, lane by lane (simd.h). */
#ifndef CPU_SIMD_SIMD_LOOKUP_H
#define CPU_SIMD_SIMD_LOOKUP_H

#include "cpu/simd/simd.h"

/* Lane by lane table[i]. */
SIMD vf vf_gather(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_i32gather_ps((__m512i)i, table, 4);
#elif defined __AVX2__
    return (vf)_mm256_i32gather_ps(table, (__m256i)i, 4);
#else
    vf v;
    for (int k = 0; k < VF_LANES; k++)
        v[k] = table[i[k]];
    return v;
#endif
}

/* The same for tables of 8 and of 16 numbers, which a register can hold (16: only with AVX-512). */
SIMD vf vf_lookup8(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_permutexvar_ps((__m512i)i, _mm512_castps256_ps512(_mm256_loadu_ps(table)));
#elif defined __AVX2__
    return (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
#else
    return vf_gather(table, i);
#endif
}

SIMD vf vf_lookup16(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_permutexvar_ps((__m512i)i, _mm512_loadu_ps(table));
#else
    return vf_gather(table, i);
#endif
}

/* The same for 32 numbers, in two registers of AVX-512; of i only the lowest five bits count. */
SIMD vf vf_lookup32(const float *table, vi i)
{
#if defined __AVX512F__
    return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)i, _mm512_loadu_ps(table + 16));
#else
    return vf_gather(table, i & 31);
#endif
}

#endif
