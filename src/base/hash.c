#include "base/hash.h"

#include <stdio.h>
#include <xxhash.h>

struct hash128 hash_bytes(const void *data, size_t bytes)
{
    XXH128_hash_t h = XXH3_128bits(data, bytes);
    return (struct hash128){h.high64, h.low64};
}

struct hash_state *hash_new(void)
{
    XXH3_state_t *s = XXH3_createState();
    if (s)
        XXH3_128bits_reset(s);
    return (struct hash_state *)s;
}

void hash_add(struct hash_state *h, const void *data, size_t bytes)
{
    XXH3_128bits_update((XXH3_state_t *)h, data, bytes);
}

struct hash128 hash_now(const struct hash_state *h)
{
    XXH128_hash_t r = XXH3_128bits_digest((const XXH3_state_t *)h);
    return (struct hash128){r.high64, r.low64};
}

struct hash128 hash_end(struct hash_state *h)
{
    struct hash128 r = hash_now(h);
    XXH3_freeState((XXH3_state_t *)h);
    return r;
}

void hash_hex(struct hash128 h, char hex[33])
{
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high, (unsigned long long)h.low);
}
