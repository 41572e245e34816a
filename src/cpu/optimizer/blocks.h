/* blocks.h: updates of single elements, in blocks of MAP_BLOCK that stay in the first cache. An optimizer is a rule on floats;
 * what lies in memory in another type, weights, gradients and states in codes of 8 bits, is brought and written here. */
#ifndef CPU_OPTIMIZER_BLOCKS_H
#define CPU_OPTIMIZER_BLOCKS_H

#include "cpu/kernels.h"
#include "op/optimizer/dynamic_map.h"

enum { BLOCK_STATES = 3 /* at most */ };

/* A state: F32, bf16, or codes with absmax; tensor NULL or without data: there is none. */
struct block_state {
    const struct tensor *tensor, *absmax;
    bool is_signed;
};

struct block_update {
    const struct tensor *p, *g, *step, *coef, *copy;
    int64_t noise; /* of stochastic rounding, where p is bf16 (op/optimizer/rounding.h) */
    struct block_state state[BLOCK_STATES];
};

/* The members before the states, of any update's arguments, which have them under the same names. */
#define BLOCK_OPERANDS(a) &(a)->p, &(a)->g, &(a)->step, &(a)->coef, &(a)->copy, (a)->noise

/* Makes p and the states s (NULL: there is none) of MAP_BLOCK elements new, with the gradient g, which is scaled already. */
typedef void block_rule(float *p, const float *g, float *const s[BLOCK_STATES], const void *factors);

/* All blocks of a tensor; nothing where coef is negative. Same bits for any number of threads. */
void ISA(cpu_update_blocks)(const struct block_update *u, block_rule *rule, const void *factors, int threads);

/* For each vector of a block. */
#define BLOCK_VECTORS(i) (int i = 0; i < MAP_BLOCK; i += VF_LANES)

#endif
