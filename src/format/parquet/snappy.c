/* Snappy's raw format (https://github.com/google/snappy/blob/main/format_description.txt): the size of what was packed as a varint, then
 * literals and copies of what came before. The two low bits of an element's first byte say which it is:
 *
 *     0   a literal; the upper bits are its length - 1, or from 60 on, the number of bytes (59 less) which have that
 *     1   a copy of 4 to 11 bytes at a distance of 11 bits: upper 3 bits of it in the byte, the others in the next one
 *     2   a copy of 1 to 64 bytes at a distance of 2 bytes
 *     3   the same at a distance of 4 bytes */
#include "format/parquet/codec.h"

#include <string.h>

struct reading {
    const uint8_t *in, *end;
    uint8_t *out, *start, *out_end;
};

/* n bytes, the least first; false: they are not there. */
static bool number(struct reading *r, int n, size_t *x)
{
    if (r->end - r->in < n)
        return false;
    *x = 0;
    for (int i = 0; i < n; i++)
        *x |= (size_t)*r->in++ << (8 * i);
    return true;
}

static bool header(struct reading *r, size_t size)
{
    size_t said = 0;
    for (int shift = 0; shift < 35 && r->in < r->end; shift += 7) {
        uint8_t byte = *r->in++;
        said |= (size_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return said == size;
    }
    return false;
}

static bool literal(struct reading *r, uint8_t tag)
{
    size_t n = tag >> 2;
    if (n >= 60 && !number(r, (int)n - 59, &n))
        return false;
    n++;
    if (n > (size_t)(r->end - r->in) || n > (size_t)(r->out_end - r->out))
        return false;
    memcpy(r->out, r->in, n);
    r->in += n;
    r->out += n;
    return true;
}

/* The stretch may overlap what it makes, which then repeats. */
static bool copy(struct reading *r, size_t n, size_t distance)
{
    if (!distance || distance > (size_t)(r->out - r->start) || n > (size_t)(r->out_end - r->out))
        return false;
    const uint8_t *from = r->out - distance;
    if (distance >= n)
        memcpy(r->out, from, n);
    else
        for (size_t i = 0; i < n; i++)
            r->out[i] = from[i];
    r->out += n;
    return true;
}

static bool element(struct reading *r)
{
    uint8_t tag = *r->in++;
    size_t distance, n = (size_t)(tag >> 2) + 1;
    if ((tag & 3) == 0)
        return literal(r, tag);
    if (!number(r, (tag & 3) == 3 ? 4 : tag & 3, &distance))
        return false;
    if ((tag & 3) == 1) {
        distance |= (size_t)(tag >> 5) << 8;
        n = (size_t)(tag >> 2 & 7) + 4;
    }
    return copy(r, n, distance);
}

bool snappy_unpack(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    struct reading r = {.in = in, .end = in + n, .out = out, .start = out, .out_end = out + size};
    if (!header(&r, size))
        return false;
    while (r.in < r.end)
        if (!element(&r))
            return false;
    return r.out == r.out_end;
}
