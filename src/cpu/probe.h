/* probe.h: is the processor's own instruction for products of bf16 worth it? */
#ifndef CPU_PROBE_H
#define CPU_PROBE_H

#include <stdbool.h>

/* Whether it multiplies bf16 at more than four thirds of the rate of fp32's multiply-adds; else nothing is won that the rest
 * of a product would not lose, and bf16 is better widened. Measured in a tenth of a millisecond. To be called only where
 * the instruction is. */
bool cpu_bf16_pays(void);

#endif
