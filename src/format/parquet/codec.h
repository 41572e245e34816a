/* codec.h: how pages are compressed. */
#ifndef FORMAT_PARQUET_CODEC_H
#define FORMAT_PARQUET_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exactly `size` bytes into `out`; false: these are not `n` bytes of so many. */
typedef bool parquet_unpack(const uint8_t *in, size_t n, uint8_t *out, size_t size);

struct parquet_codec {
    const char *name;
    parquet_unpack *unpack; /* NULL: it is not read here */
};

/* By its number in the file; NULL: none that has a name. */
const struct parquet_codec *parquet_codec(int64_t number);

parquet_unpack snappy_unpack, lz4_unpack; /* snappy.c, lz4.c */

#endif
