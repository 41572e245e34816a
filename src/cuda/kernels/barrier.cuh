/* barrier.cuh: addresses in shared memory; barriers there that count arrivals, and the barrier of a cluster of blocks, for
 * sm_90. A barrier has 8 bytes, aligned to 8. One thread makes it, and a __syncthreads stands between that and its first use. It is
 * waited for by the parity of its phase: the n-th time that all have arrived ends phase n, from 0 on. */
#ifndef CUDA_BARRIER_CUH
#define CUDA_BARRIER_CUH

#include <stdint.h>

__device__ static inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ static inline void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ static inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra finished%=;\n"
                 "bra again%=;\n"
                 "finished%=:\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ static inline void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* The four warps of group 0 to 14 of a block; all 128 threads call it. __syncthreads is number 0 of the same 16 barriers. */
__device__ static inline void group_sync(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}

/* The two halves of a barrier of the cluster: what was stored before one is seen behind the other. */
__device__ static inline void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ static inline void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Until all of the cluster have read what they wanted of each other's shared memory. */
__device__ static inline void cluster_left(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ static inline void cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

#endif
