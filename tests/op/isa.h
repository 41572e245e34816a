/* isa.h: may this processor run what this test was compiled for? If not, the test ends with 77, which Meson counts as
 * skipped. */
#ifndef TESTS_OP_ISA_H
#define TESTS_OP_ISA_H

#include <stdbool.h>

static inline bool isa_supported(void)
{
#if defined __AVX512BF16__
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl");
#elif defined __AVX2__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

#endif
