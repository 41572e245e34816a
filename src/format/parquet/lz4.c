/* A block of LZ4 (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md): sequences of a token, literals, and a copy of what came
 * before. The token has the number of literals in its upper half, the length of the copy less 4 in the lower one. 15 there means
 * that bytes follow, which are added, up to one below 255. The copy's distance has two bytes. The last sequence ends with its literals. */
#include "format/parquet/codec.h"

#include <string.h>

enum { LEAST_COPY = 4 };

struct reading {
    const uint8_t *in, *end;
};

static bool length(struct reading *r, size_t *n)
{
    if (*n < 15)
        return true;
    for (uint8_t byte = 255; byte == 255; *n += byte) {
        if (r->in == r->end)
            return false;
        byte = *r->in++;
    }
    return true;
}

bool lz4_unpack(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    struct reading r = {in, in + n};
    size_t at = 0;
    while (r.in < r.end) {
        uint8_t token = *r.in++;
        size_t literals = token >> 4, copied = token & 15;
        if (!length(&r, &literals) || literals > (size_t)(r.end - r.in) || literals > size - at)
            return false;
        if (literals)
            memcpy(out + at, r.in, literals);
        r.in += literals;
        at += literals;
        if (r.in == r.end)
            break;
        if (r.end - r.in < 2)
            return false;
        size_t distance = r.in[0] | (size_t)r.in[1] << 8;
        r.in += 2;
        if (!length(&r, &copied) || !distance || distance > at || copied + LEAST_COPY > size - at)
            return false;
        for (copied += LEAST_COPY; copied; copied--, at++)
            out[at] = out[at - distance];
    }
    return at == size;
}
