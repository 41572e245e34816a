/* hybrid.h: small numbers as Parquet packs levels, truth values and places in a dictionary: runs of one number, and
 * numbers of `width` bits each. */
#ifndef FORMAT_PARQUET_HYBRID_H
#define FORMAT_PARQUET_HYBRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HYBRID_WIDTH = 32 }; /* bits at most */

struct hybrid {
    const uint8_t *p, *end;
    int width;
    uint64_t left; /* numbers of the run */
    bool packed;
    uint32_t value; /* of a run of one number */
    int bit;        /* of packed ones: bits of *p that are used up */
};

void hybrid_start(struct hybrid *h, const uint8_t *bytes, size_t n, int width);
bool hybrid_next(struct hybrid *h, uint32_t *value); /* false: there are no more, or what is there is no run */

/* The next `width` (to 64) bits of a stream, the lowest first. *bit: how many of *p are used up. false: there are not so many. */
bool unpack_bits(const uint8_t **p, const uint8_t *end, int *bit, int width, uint64_t *value);

#endif
