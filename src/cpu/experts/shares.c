/* expert_shares (op/experts/shares.c), in one thread: a number for each expert. */
#include "cpu/kernels.h"

void ISA(cpu_expert_shares)(const struct args_expert_shares *a, const struct call *c)
{
    (void)c;
    const int32_t *places = a->places.data, *offsets = a->offsets.data;
    const float *before = a->before.data;
    float *y = a->y.data, most = 0, least = 0;
    int64_t real = a->k * ((const int32_t *)a->cu.data)[a->cu.shape[0] - 1];
    for (int64_t e = 0; e < a->offsets.shape[0] - 1 && real > 0; e++) {
        int32_t n = offsets[e + 1] - offsets[e];
        for (int64_t i = real; i < a->places.shape[0]; i++)
            n -= places[i] >= offsets[e] && places[i] < offsets[e + 1];
        float share = (float)n / (float)real;
        most = share > most ? share : most;
        least = e == 0 || share < least ? share : least;
    }
    y[0] = before && before[0] > most ? before[0] : most;
    y[1] = before && before[1] < least ? before[1] : least;
}
