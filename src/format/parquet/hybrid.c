#include "format/parquet/hybrid.h"

#include "format/parquet/varint.h"

void hybrid_start(struct hybrid *h, const uint8_t *bytes, size_t n, int width)
{
    *h = (struct hybrid){.p = bytes, .end = bytes + n, .width = width};
}

bool unpack_bits(const uint8_t **p, const uint8_t *end, int *bit, int width, uint64_t *value)
{
    *value = 0;
    for (int got = 0; got < width;) {
        if (*p == end)
            return false;
        int take = 8 - *bit < width - got ? 8 - *bit : width - got;
        *value |= ((uint64_t)(**p >> *bit) & ((1u << take) - 1)) << got;
        got += take;
        *bit += take;
        *p += *bit >> 3;
        *bit &= 7;
    }
    return true;
}

/* A varint: twice the length of a run, whose number follows in whole bytes; or twice the eighth of the number of packed ones, + 1. */
static bool next_run(struct hybrid *h)
{
    uint64_t header, value = 0;
    if (!varint_read(&h->p, h->end, &header))
        return false;
    h->packed = header & 1;
    h->left = h->packed ? (header >> 1) * 8 : header >> 1;
    if (h->packed)
        return true;
    int bits = (h->width + 7) / 8 * 8, bit = 0;
    if (!unpack_bits(&h->p, h->end, &bit, bits, &value))
        return false;
    h->value = (uint32_t)value;
    return value >> h->width == 0;
}

bool hybrid_next(struct hybrid *h, uint32_t *value)
{
    uint64_t x;
    *value = 0;
    while (!h->left)
        if (!next_run(h))
            return false;
    h->left--;
    if (!h->packed) {
        *value = h->value;
        return true;
    }
    if (!unpack_bits(&h->p, h->end, &h->bit, h->width, &x))
        return false;
    *value = (uint32_t)x;
    return true;
}
