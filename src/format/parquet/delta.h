/* delta.h: DELTA_BINARY_PACKED: whole numbers as differences, which are packed in blocks above the least one of each.
 *
 * In front: the numbers of a block, its miniblocks, how many numbers there are (varints), the first one (zigzag). A block: the least
 * difference (zigzag), bits of a number for each miniblock (a byte), the miniblocks. Those behind the last number are not there. */
#ifndef FORMAT_PARQUET_DELTA_H
#define FORMAT_PARQUET_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct delta {
    const uint8_t *p, *end;
    uint64_t minis, per_mini; /* miniblocks of a block, numbers of each */
    uint64_t left;            /* numbers */
    uint64_t value, least;    /* the last number; the least difference */
    bool begun;
    const uint8_t *widths;  /* (minis) of the block */
    uint64_t mini, in_mini; /* the next miniblock; numbers that are left in this one */
    int width, bit;
};

bool delta_start(struct delta *d, const uint8_t *bytes, size_t n);
bool delta_next(struct delta *d, int64_t *value);
/* What follows the last number; NULL: the bytes do not reach so far. */
const uint8_t *delta_behind(struct delta d);

#endif
