#include "format/parquet/delta.h"

#include "format/parquet/hybrid.h"
#include "format/parquet/varint.h"

enum { MOST_PER_BLOCK = 1 << 20, MOST_WIDTH = 64 };

bool delta_start(struct delta *d, const uint8_t *bytes, size_t n)
{
    uint64_t per_block, first;
    *d = (struct delta){.p = bytes, .end = bytes + n};
    if (!varint_read(&d->p, d->end, &per_block) || !varint_read(&d->p, d->end, &d->minis) ||
        !varint_read(&d->p, d->end, &d->left) || !varint_read(&d->p, d->end, &first))
        return false;
    if (!d->minis || per_block > MOST_PER_BLOCK || per_block % d->minis || per_block / d->minis % 8 || !per_block)
        return false;
    d->per_mini = per_block / d->minis;
    d->value = (uint64_t)zigzag(first);
    d->mini = d->minis;
    return true;
}

static bool next_block(struct delta *d)
{
    uint64_t least;
    if (!varint_read(&d->p, d->end, &least) || (uint64_t)(d->end - d->p) < d->minis)
        return false;
    d->least = (uint64_t)zigzag(least);
    d->widths = d->p;
    d->p += d->minis;
    d->mini = 0;
    return true;
}

static bool next_mini(struct delta *d)
{
    if (d->mini == d->minis && !next_block(d))
        return false;
    d->width = d->widths[d->mini++];
    d->in_mini = d->per_mini;
    d->bit = 0;
    return d->width <= MOST_WIDTH;
}

bool delta_next(struct delta *d, int64_t *value)
{
    uint64_t more;
    if (!d->left)
        return false;
    if (d->begun) {
        if (!d->in_mini && !next_mini(d))
            return false;
        if (!unpack_bits(&d->p, d->end, &d->bit, d->width, &more))
            return false;
        d->in_mini--;
        d->value += d->least + more;
    }
    d->begun = true;
    d->left--;
    *value = (int64_t)d->value;
    return true;
}

const uint8_t *delta_behind(struct delta d)
{
    uint64_t left = d.left ? d.left - !d.begun : 0;
    while (left) {
        if (!next_mini(&d) || (uint64_t)(d.end - d.p) < d.per_mini / 8 * (uint64_t)d.width)
            return NULL;
        d.p += d.per_mini / 8 * (uint64_t)d.width;
        left -= left < d.per_mini ? left : d.per_mini;
    }
    return d.p;
}
