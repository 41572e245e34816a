/* Where ranks of one process wait for each other on their devices, before and behind what they exchange. */
#include "cuda/kernels/kernel.cuh"

extern "C" {
#include "cuda/peers/peers.h"
}

/* Until all ranks are here. What they did before it is seen behind it. Nobody waits for ever for a rank that has failed. */
__global__ static void __launch_bounds__(32) gate_kernel(struct cuda_gate *g, int me, int n)
{
    volatile unsigned *mine = &g->come[me][0];
    unsigned now = *mine + 1;
    __syncthreads(); /* all have read it */
    if (threadIdx.x == 0) {
        __threadfence_system();
        *mine = now;
    }
    __syncthreads();
    if ((int)threadIdx.x < n) {
        volatile unsigned *its = &g->come[threadIdx.x][0];
        volatile int *left = &g->left;
        while ((int)(*its - now) < 0 && !*left)
            __nanosleep(200);
    }
    __threadfence_system();
}

extern "C" int cuda_gate(const struct cuda_call *c)
{
    gate_kernel<<<1, 32, 0, c->stream>>>(c->peers->gate, c->peers->me, c->peers->n);
    return cuda_launched(c, "gate");
}
