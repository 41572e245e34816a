/* The emulation of the matrix unit (amx_emulation.h) against the unit, where the processor has one: the same bits of a tile's sums for
 * operands of any size, so that what other processors test is what this one computes. */
#include "cpu/simd/amx.h"
#include "tests/op/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROWS = 16, HALVES = 32, TIMES = 1000, ROW_BYTES = 64 };

static uint64_t seed = 1;

static uint32_t any(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

/* The upper half of a float of any sign and fraction, its biased exponent in [from, to]. */
static uint16_t half_of(int from, int to)
{
    int exponent = from + (int)(any() % (uint32_t)(to - from + 1));
    return (uint16_t)((any() & 0x807F) | (uint32_t)exponent << 7);
}

static void fill_halves(uint16_t x[ROWS][HALVES], int from, int to)
{
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < HALVES; i++)
            x[r][i] = half_of(from, to);
}

static void unit_dot(float sum[ROWS][ROWS], uint16_t a[ROWS][HALVES], uint16_t b[ROWS][HALVES])
{
    __asm__ volatile("tileloadd (%0,%3,1), %%tmm0\n\t"
                     "tileloadd (%1,%3,1), %%tmm1\n\t"
                     "tileloadd (%2,%3,1), %%tmm2\n\t"
                     "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\t"
                     "tilestored %%tmm0, (%0,%3,1)" ::"r"(sum),
                     "r"(a), "r"(b), "r"((int64_t)ROW_BYTES)
                     : "memory");
}

static void emulated_dot(float sum[ROWS][ROWS], uint16_t a[ROWS][HALVES], uint16_t b[ROWS][HALVES])
{
    AMX_LOAD(0, sum, ROW_BYTES);
    AMX_LOAD(1, a, ROW_BYTES);
    AMX_LOAD(2, b, ROW_BYTES);
    AMX_DOT(0, 1, 2);
    AMX_STORE(0, sum, ROW_BYTES);
}

static void check(int from, int to, int sum_from, int sum_to)
{
    uint16_t a[ROWS][HALVES], b[ROWS][HALVES];
    float unit[ROWS][ROWS], emulated[ROWS][ROWS];
    fill_halves(a, from, to);
    fill_halves(b, from, to);
    for (int i = 0; i < ROWS * ROWS; i++) {
        uint32_t bits = (uint32_t)half_of(sum_from, sum_to) << 16 | (any() & 0xFFFF);
        memcpy(&unit[i / ROWS][i % ROWS], &bits, sizeof bits);
    }
    memcpy(emulated, unit, sizeof unit);
    unit_dot(unit, a, b);
    emulated_dot(emulated, a, b);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++)
            if (memcmp(&unit[i][j], &emulated[i][j], sizeof(float)) && !(isnan(unit[i][j]) && isnan(emulated[i][j])))
                fail_msg("exponents %d to %d: the unit has %a, the emulation %a", from, to, (double)unit[i][j],
                         (double)emulated[i][j]);
}

static void the_emulation_has_the_bits_of_the_unit(void **state)
{
    (void)state;
    /* numbers around 1; whose products are around the least normal float, and denormal; that are denormal themselves; whose products
     * are beyond the largest float; any, with infinities */
    static const int ranges[][4] = {{120, 134, 120, 140}, {60, 70, 1, 14},      {55, 64, 0, 4},
                                    {0, 8, 0, 8},         {186, 195, 240, 254}, {0, 255, 0, 255}};
    struct amx_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.rows[i] = ROWS;
        shapes.row_bytes[i] = ROW_BYTES;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
    AMX_CONFIGURE(&shapes);
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        for (int t = 0; t < TIMES; t++)
            check(ranges[r][0], ranges[r][1], ranges[r][2], ranges[r][3]);
    AMX_RELEASE();
    __asm__ volatile("tilerelease" ::: "memory");
}

int main(void)
{
    if (!isa_supported("amx"))
        return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_emulation_has_the_bits_of_the_unit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
