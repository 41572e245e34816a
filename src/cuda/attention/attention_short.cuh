/* attention_short.cuh: what the loaders and the groups of attention_short_sm90.cu share: the shared memory of a block, and its part
 * of the work. */
#ifndef CUDA_ATTENTION_ATTENTION_SHORT_CUH
#define CUDA_ATTENTION_ATTENTION_SHORT_CUH

#include "cuda/attention/attention_backward.cuh"
#include "cuda/attention/attention_wgmma.cuh"
#include "cuda/kernels/barrier.cuh"

constexpr int LONGEST = 512, GROUPS = 2, THREADS = 128 * (GROUPS + 1), STAGES = 4;
constexpr int HALF_TILE = TILE * 128, STAGE = 2 * HALF_TILE; /* bytes of a tile of 16-bit values; of two */
constexpr int SUM_TILE = TILE * 64 * 4, FLAGS = GROUPS * 512;

enum mask_from { NO_MASK, MADE, KEPT }; /* whether the dropout mask is made here, or the forward pass has kept it */

/* Offsets in shared memory. */
enum {
    AT_SUMS = 0, /* dQ^T of each query tile, 16 bytes of one thread behind those of the next: nobody else's */
    AT_STAGES = AT_SUMS + LONGEST / TILE * SUM_TILE,       /* K and V of a group, or Q and dO */
    AT_DS = AT_STAGES + STAGES * STAGE,                    /* of each group */
    AT_FLAGS = AT_DS + GROUPS * HALF_TILE,                 /* which scores are kept, of each stage */
    AT_SHIFTS = AT_FLAGS + STAGES * FLAGS,                 /* of each query: -lse in units of log 2, */
    AT_DELTAS = AT_SHIFTS + LONGEST * 4,                   /* and -do . o / keep_scale */
    AT_FULL = AT_DELTAS + LONGEST * 4,                     /* barriers: a stage has arrived; */
    AT_EMPTY = AT_FULL + STAGES * 8,                       /* is done with; */
    AT_ADDED = AT_EMPTY + STAGES * 8,                      /* a group has added to a tile of dQ, once a pass */
    AT_COLUMNS = AT_ADDED + GROUPS * (LONGEST / TILE) * 8, /* sums over rows (struct columns) */
    SHARED_BYTES = AT_COLUMNS + (4 * GROUPS * 2 + GROUPS) * 64 * 4
};

/* One head of one sequence, and the block's part in it: it is number `rank` of the SPLIT blocks of a cluster. */
template <int SPLIT> struct work {
    int rank, head, sequence;
    int first, length;        /* rows of the sequence */
    int tiles;                /* of keys */
    int queries, query_tiles; /* rows that ask */
    int causal;

    /* The key tile of group w in a pass. The order turns round each time: with a causal mask the first ones have the
     * most queries. */
    __device__ int key_tile(int pass, int w) const
    {
        constexpr int N = SPLIT * GROUPS;
        return pass * N + (pass % 2 ? N - 1 - rank * GROUPS - w : rank * GROUPS + w);
    }
    __device__ int first_key_tile(int pass) const
    {
        return key_tile(pass, pass % 2 ? GROUPS - 1 : 0);
    }
    __device__ bool has_pass(int pass) const
    {
        return first_key_tile(pass) < tiles;
    }
    __device__ int first_query_tile(int pass) const
    {
        return causal ? first_key_tile(pass) : 0;
    }
};

#endif
