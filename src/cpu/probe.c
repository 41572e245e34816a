#include "cpu/probe.h"

#include "base/seconds.h"

#include <string.h>

#if defined __x86_64__
#include <immintrin.h>

/* AMD's processors make as many vdpbf16ps as fused multiply-adds, each of twice the work. Intel's make half as many. */
enum { SUMS = 12, WORK = 2 };
#define SUM __m512
#define SUM_REGISTER "+v"
#define FMA_TARGET "avx512f"
#define FMA(sum, x) _mm512_fmadd_ps(x, x, sum)
#define BF16_TARGET "avx512f,avx512bf16"
#define BF16_VECTOR __m512bh
#define BF16_STEP(sum, x) _mm512_dpbf16_ps(sum, x, x)

#elif defined __aarch64__
#include <arm_neon.h>

/* BFMMLA does the work of four multiply-adds. */
enum { SUMS = 24, WORK = 4 };
#define SUM float32x4_t
#define SUM_REGISTER "+w"
#define FMA_TARGET "arch=armv8-a"
#define FMA(sum, x) vfmaq_f32(sum, x, x)
#define BF16_TARGET "arch=armv8.2-a+bf16"
#define BF16_VECTOR bfloat16x8_t
#define BF16_STEP(sum, x) vbfmmlaq_f32(sum, x, x)
#endif

#if defined SUM

/* Seconds of so many steps, with as many sums at a time as hide the latency. */
#define PROBE(name, target_, type, step)                                                                               \
    __attribute__((target(target_), noinline)) static double name(void)                                                \
    {                                                                                                                  \
        enum { STEPS = 500 };                                                                                          \
        SUM sum[SUMS];                                                                                                 \
        type x;                                                                                                        \
        memset(&x, 0, sizeof x);                                                                                       \
        memset(sum, 0, sizeof sum);                                                                                    \
        double start = seconds_now();                                                                                  \
        for (int s = 0; s < STEPS; s++)                                                                                \
            _Pragma("GCC unroll 24") for (int i = 0; i < SUMS; i++)                                                    \
            {                                                                                                          \
                sum[i] = step(sum[i], x);                                                                              \
                __asm__ volatile("" : SUM_REGISTER(sum[i]));                                                           \
            }                                                                                                          \
        return seconds_now() - start;                                                                                  \
    }
PROBE(seconds_of_bf16, BF16_TARGET, BF16_VECTOR, BF16_STEP)
PROBE(seconds_of_fmas, FMA_TARGET, SUM, FMA)

/* By most of several times, so that neither what else runs nor a clock that stumbles decides: each process must decide the same. */
bool cpu_bf16_pays(void)
{
    enum { TIMES = 16 };
    int pays = 0;
    for (int i = 0; i < TIMES; i++) {
        double bf16 = seconds_of_bf16(), fmas = seconds_of_fmas();
        pays += bf16 < 0.75 * WORK * fmas;
    }
    return pays > TIMES / 2;
}

#else

bool cpu_bf16_pays(void)
{
    return false;
}

#endif
