/* amx.h: the matrix unit of Intel's server processors (AMX; Intel SDM, vol. 1, ch. 18). It has eight tiles of 16 rows of
 * 64 bytes. One instruction, AMX_DOT, adds to a tile of 16 x 16 floats the product of a tile of 16 rows of 32 bf16 and a
 * tile of 16 pairs of rows of 16 columns, in the layout of vf_dot_pairs (simd.h).
 *
 * Numerics of AMX_DOT, of its own kind: an element's 16 products at even k are summed in order, likewise those at odd
 * k; the sum of the two is added to what was there. Denormals count as 0. So the bits of an element depend on its row of
 * A and its column of B alone.
 *
 * What is written with AMX_ names compiles for another processor too, with the instructions emulated in C, when
 * SNUG_AMX_EMULATION names a header that has them (tests/op/amx_emulation.h): the tests run there what runs here. */
#ifndef CPU_SIMD_AMX_H
#define CPU_SIMD_AMX_H

#include "cpu/simd/simd.h"

/* Shapes of the tiles, as the instruction wants them. */
struct amx_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#if defined SNUG_AMX_EMULATION
#include SNUG_AMX_EMULATION
enum { AMX = 1 };
#elif defined __AMX_BF16__
enum { AMX = 1 };

/* The tiles of this thread until AMX_RELEASE, which gives their state back: a thread that keeps it is slower to switch. */
#define AMX_CONFIGURE(shapes) __asm__ volatile("ldtilecfg %0" ::"m"(*(shapes)) : "memory")
#define AMX_RELEASE() __asm__ volatile("tilerelease" ::: "memory")
#define AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::: "memory")
/* A tile from, and to, rows that lie `stride` bytes apart. The compiler's own intrinsics do not tell it that memory is
 * read. */
#define AMX_LOAD(tile, from, stride)                                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((int64_t)(stride)) : "memory")
#define AMX_STORE(tile, to, stride)                                                                                    \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((int64_t)(stride)) : "memory")
#define AMX_DOT(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")
#else
enum { AMX = 0 };
#define AMX_CONFIGURE(shapes) (void)(shapes)
#define AMX_RELEASE() (void)0
#define AMX_ZERO(tile) (void)0
#define AMX_LOAD(tile, from, stride) (void)(from), (void)(stride)
#define AMX_STORE(tile, to, stride) (void)(to), (void)(stride)
#define AMX_DOT(sum, a, b) (void)0
#endif

/* Of a block: rows, columns, and 32-bit words along k that a step takes. */
enum { AMX_ROWS = 32, AMX_COLUMNS = 32, AMX_WORDS = 16 };
/* Columns of amx_column. */
enum { AMX_ACROSS = 16 };

/* Before the first and after the last block of a thread. */
SIMD void amx_begin(void)
{
    struct amx_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.rows[i] = 16;
        shapes.row_bytes[i] = 64;
    }
    AMX_CONFIGURE(&shapes);
}

SIMD void amx_end(void)
{
    AMX_RELEASE();
}

/* Where tiles of an operand lie; all in bytes. */
struct amx_operand {
    const void *at;
    int64_t stride; /* from row to row of a tile */
    int64_t second; /* from a tile to the one beside it: of A, 16 rows below; of B, 16 columns on */
    int64_t step;   /* to the tiles of the next step */
};

/* Something else that is done meanwhile: a part of it at each step, since a dot product of tiles takes 16 cycles in which vectors are
 * free. NULL: nothing. */
struct amx_beside {
    void (*part)(void *of);
    void *of;
};

/* c (32,32), rows `stride` bytes apart, = a (32, 16 steps words) times b (16 steps words, 32), or added to it; of c and a
 * only the first 16 rows, unless `lower`. Tiles 0 to 3 are c, 4 and 5 a, 6 and 7 b: each tile that is loaded is used
 * twice. Bound by loading when a and b are not in the first-level cache. */
SIMD void amx_block(float *c, int64_t stride, bool add, bool lower, struct amx_operand a, struct amx_operand b,
                    int64_t steps, struct amx_beside beside)
{
    float *below = (float *)(void *)((char *)c + 16 * stride);
    if (add) {
        AMX_LOAD(0, c, stride);
        AMX_LOAD(1, c + 16, stride);
    } else {
        AMX_ZERO(0);
        AMX_ZERO(1);
    }
    if (add && lower) {
        AMX_LOAD(2, below, stride);
        AMX_LOAD(3, below + 16, stride);
    } else {
        AMX_ZERO(2);
        AMX_ZERO(3);
    }
    const char *pa = a.at, *pb = b.at;
    for (int64_t s = 0; s < steps; s++, pa += a.step, pb += b.step) {
        AMX_LOAD(6, pb, b.stride);
        AMX_LOAD(4, pa, a.stride);
        AMX_LOAD(7, pb + b.second, b.stride);
        if (lower)
            AMX_LOAD(5, pa + a.second, a.stride);
        AMX_DOT(0, 4, 6);
        AMX_DOT(1, 4, 7);
        if (lower) {
            AMX_DOT(2, 5, 6);
            AMX_DOT(3, 5, 7);
        }
        if (beside.part)
            beside.part(beside.of);
    }
    AMX_STORE(0, c, stride);
    AMX_STORE(1, c + 16, stride);
    if (lower) {
        AMX_STORE(2, below, stride);
        AMX_STORE(3, below + 16, stride);
    }
}

/* c (32,16), rows one after another, = a (32, 16 steps words) times b (16 steps words, 16). */
SIMD void amx_column(float *c, struct amx_operand a, struct amx_operand b, int64_t steps)
{
    enum { STRIDE = 4 * AMX_ACROSS };
    const char *pa = a.at, *pb = b.at;
    AMX_ZERO(0);
    AMX_ZERO(1);
    for (int64_t s = 0; s < steps; s++, pa += a.step, pb += b.step) {
        AMX_LOAD(6, pb, b.stride);
        AMX_LOAD(4, pa, a.stride);
        AMX_LOAD(5, pa + a.second, a.stride);
        AMX_DOT(0, 4, 6);
        AMX_DOT(1, 5, 6);
    }
    AMX_STORE(0, c, STRIDE);
    AMX_STORE(1, c + 16 * AMX_ACROSS, STRIDE);
}

#endif
