/* llama3.h: the rotary scaling of Llama 3.1, which a GGUF file keeps as the numbers that frequencies are divided by. */
#ifndef FORMAT_GGUF_LLAMA3_H
#define FORMAT_GGUF_LLAMA3_H

#include "format/json.h"

#include <math.h>

struct llama3_scaling {
    double factor, low, high, original; /* as in `rope_scaling` */
};

static inline int llama3_scaling_read(json_t *o, const char *path, struct llama3_scaling *s, struct snug_err *err)
{
    TRY(json_get_real(o, path, "factor", true, 1, 1e9, &s->factor, err));
    TRY(json_get_real(o, path, "low_freq_factor", true, 1e-9, 1e9, &s->low, err));
    TRY(json_get_real(o, path, "high_freq_factor", true, 1e-9, 1e9, &s->high, err));
    return json_get_real(o, path, "original_max_position_embeddings", true, 1, 1e9, &s->original, err);
}

/* What the frequency of pair i of n is divided by, as transformers' _compute_llama3_parameters has it. */
static inline double llama3_divisor(const struct llama3_scaling *s, double theta, int64_t i, int64_t n)
{
    const double two_pi = 6.28318530717958647692;
    double wave = two_pi * pow(theta, (double)i / (double)n);
    double smooth = (s->original / wave - s->low) / (s->high - s->low);
    smooth = fmin(fmax(smooth, 0), 1);
    return 1 / ((1 - smooth) / s->factor + smooth);
}

#endif
