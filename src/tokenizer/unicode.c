#include "tokenizer/unicode.h"

#include "base/hash.h"
#include "base/mem.h"
#include "tokenizer/unicode_tables.h"

#include <string.h>

enum { N_RUNS = sizeof char_runs / sizeof *char_runs };

uint8_t *char_flags_new(void)
{
    enum { PLANE = 0x10000 };
    uint8_t *flags = mem_alloc(PLANE);
    for (size_t i = 0; flags && i < N_RUNS && char_runs[i] >> 8 < PLANE; i++) {
        uint32_t first = char_runs[i] >> 8, end = i + 1 < N_RUNS ? char_runs[i + 1] >> 8 : PLANE;
        memset(flags + first, (int)(char_runs[i] & 0xFF), (end < PLANE ? end : PLANE) - first);
    }
    return flags;
}

uint8_t char_flags_search(uint32_t c)
{
    size_t low = 0, high = N_RUNS; /* the run is in [low, high) */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (char_runs[middle] >> 8 <= c)
            low = middle;
        else
            high = middle;
    }
    return char_runs[low] & 0xFF;
}

uint32_t char_lower(uint32_t c)
{
    size_t low = 0, high = sizeof lower_rows / sizeof *lower_rows;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (lower_rows[middle].first <= c)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)((int32_t)c + lower_rows[low].delta);
}

struct hash128 char_tables_hash(void)
{
    struct hash128 h[2] = {hash_bytes(char_runs, sizeof char_runs), hash_bytes(lower_rows, sizeof lower_rows)};
    return hash_bytes(h, sizeof h);
}
