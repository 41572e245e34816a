/* hash.h: XXH3-128 checksums (xxHash), as used for files, tensors, caches and the state hash. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash128 {
    uint64_t high, low;
};

struct hash128 hash_bytes(const void *data, size_t bytes);

/* The same over pieces: hash_new, hash_add …, hash_end (which frees). hash_new is NULL when memory is out. */
struct hash_state;
struct hash_state *hash_new(void);
void hash_add(struct hash_state *h, const void *data, size_t bytes);
struct hash128 hash_now(const struct hash_state *h); /* of what was added so far */
struct hash128 hash_end(struct hash_state *h);

void hash_hex(struct hash128 h, char hex[33]); /* 32 lower-case digits, most significant first, and a 0 */

#endif
