/* In place of the kernels for an instruction set that a build leaves out (meson's option cpu_isas): there are none. */
#include "cpu/kernels.h"

const struct cpu_kernels ISA(cpu_kernels) = {0};
