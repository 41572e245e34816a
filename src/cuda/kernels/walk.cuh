/* walk.cuh: kernels whose threads own N neighbouring columns of a matrix and walk down its rows, ROWS at a time so that enough reads are
 * under way. Where they sum over rows, chunk i of `chunks` (row_blocks) takes rows i ROWS to i ROWS + ROWS - 1, and those that are chunks
 * ROWS further, in order; columns.cuh adds the chunks. */
#ifndef CUDA_WALK_CUH
#define CUDA_WALK_CUH

#include "cuda/kernels/vector.cuh"

enum { THREADS = 256, ROWS = 4, CHUNKS = 528, MAX_CHUNKS = 65535 };

/* Blocks side by side over O columns, and threads of one. */
struct column_grid {
    int threads;
    int64_t blocks;
};

static inline struct column_grid column_grid(int64_t O, int width)
{
    int64_t packs = (O + width - 1) / width;
    int threads = packs < THREADS ? (int)(packs + 31) / 32 * 32 : THREADS;
    return (struct column_grid){threads, packs > 0 ? (packs + threads - 1) / threads : 0};
}

static inline int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Blocks one below the other over N rows: one for each ROWS of them, or so many as leave few partial sums. */
static inline int64_t row_blocks(int64_t N, bool summed)
{
    return at_most((N + ROWS - 1) / ROWS, summed ? CHUNKS : MAX_CHUNKS);
}

#endif
