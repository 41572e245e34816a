/* stored.h: a weight or one of its states as an update reads and writes it: F32 as it is, or bf16, which is rounded
 * stochastically as it is stored (op/optimizer/rounding.h). One vectorised Philox call has the random numbers of 8 VF_LANES
 * neighbouring elements; a thread goes through them with a struct of its own, in any order. `narrow` is whether the tensor
 * is bf16: a constant after inlining. */
#ifndef CPU_OPTIMIZER_STORED_H
#define CPU_OPTIMIZER_STORED_H

#include "cpu/simd/simd_philox.h"
#include "op/optimizer/rounding.h"

enum { STORED_RUN = ROUNDING_BLOCK * VF_LANES };

struct stored {
    void *data; /* NULL: the tensor is absent, and is neither read nor written */
    struct rounding rounding;
    enum rounding_part part;
    int64_t from; /* `numbers` are those of the elements [from, from + STORED_RUN) */
    uint32_t numbers[STORED_RUN / 2];
};

/* step: the update's input; noise: its attribute. */
SIMD struct stored stored_of(const struct tensor *t, const double *step, int64_t noise, enum rounding_part part)
{
    return (struct stored){.data = t->data,
                           .rounding = rounding_of(step, noise, t->first),
                           .part = part,
                           .from = -STORED_RUN /* none yet */};
}

SIMD void stored_draw(struct stored *s, int64_t i)
{
    int64_t block = i / ROUNDING_BLOCK;
    struct philox first = rounding_counter(s->rounding, s->part, block);
    vu lanes = (vu)vi_iota(), low = lanes + first.w[2];
    /* the low word may run over within the vector */
    struct vphilox c = {{vu_set1(first.w[0]), vu_set1(first.w[1]), low, first.w[3] - (vu)(low < first.w[2])}};
    vphilox_store(s->numbers, vphilox4x32(c, s->rounding.key[0], s->rounding.key[1]));
    s->from = block * ROUNDING_BLOCK;
}

/* Elements [i, i + left), at most a vector of them. */
SIMD vf stored_get(const struct stored *s, int64_t i, int64_t left, bool narrow)
{
    return vf_get_upto(s->data, i, left, narrow);
}

SIMD void stored_put(struct stored *s, int64_t i, vf x, int64_t left, bool narrow)
{
    if (!narrow) {
        vf_put_upto(s->data, i, x, left, false);
        return;
    }
    if (i < s->from || i + VF_LANES > s->from + STORED_RUN)
        stored_draw(s, i);
    vu number = vu_from_vh(vh_load((const uint16_t *)s->numbers + (i - s->from))), bits = (vu)x;
    vu nan = (vu)(x != x), rounded = (nan & (bits | 0x400000)) | (~nan & (bits + number));
    vh h = __builtin_convertvector(rounded >> 16, vh);
    if (left >= VF_LANES)
        vh_store((uint16_t *)s->data + i, h);
    else
        vh_store_n((uint16_t *)s->data + i, h, (int)left);
}

#endif
