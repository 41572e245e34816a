/* facts.h: what a plan for a GPU goes by, whether the GPU is there (cuda.c) or is known from its data sheet (sheet.c). */
#ifndef CUDA_FACTS_H
#define CUDA_FACTS_H

#include "backend/backend.h"

enum { CUDA_STAGING = 2 };

/* Ada's matrix units (8.9) and later ones multiply numbers of 8 bits. */
static inline unsigned cuda_narrow_types(int arch)
{
    return 1u << DT_BF16 | 1u << DT_F16 | (arch >= 89 ? 1u << DT_F8_E4M3 : 0);
}

/* On Hopper alone cuBLASLt multiplies what it has added up by the scales of rows. */
static inline bool cuda_scales_rows(int arch)
{
    return arch == 90;
}

static inline struct backend_facts cuda_facts(int arch)
{
    return (struct backend_facts){.float_type = DT_F32,
                                  .align = 256,
                                  .narrow_types = cuda_narrow_types(arch),
                                  .tf32 = true,
                                  .narrow_bias = true,
                                  .product_sizes = 64,
                                  .busy_tokens = 16384,
                                  .staging = CUDA_STAGING};
}

/* At most a sixteenth of the rows is padding, and few sizes occur: each is captured once. */
static inline int64_t cuda_bucket(int64_t T)
{
    int64_t step = 16;
    while (T > 16 * step)
        step *= 2;
    return (T + step - 1) / step * step;
}

#endif
