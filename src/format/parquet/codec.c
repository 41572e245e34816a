#include "format/parquet/codec.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

static bool copy(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    if (n == size && n)
        memcpy(out, in, n);
    return n == size;
}

/* With a header of gzip, or of zlib, which some writers have. */
static bool gzip_unpack(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    enum { ANY_HEADER = 32 + MAX_WBITS };
    uint8_t nothing;
    if (n > UINT32_MAX || size > UINT32_MAX)
        return false;
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in,
                  .avail_in = (uInt)n,
                  .next_out = size ? out : &nothing,
                  .avail_out = (uInt)size};
    if (inflateInit2(&z, ANY_HEADER) != Z_OK)
        return false;
    bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == size;
    inflateEnd(&z);
    return whole;
}

static bool zstd_unpack(const uint8_t *in, size_t n, uint8_t *out, size_t size)
{
    size_t got = ZSTD_decompress(out, size, in, n);
    return !ZSTD_isError(got) && got == size;
}

static const struct parquet_codec codecs[] = {
    {"UNCOMPRESSED", copy}, {"SNAPPY", snappy_unpack}, {"GZIP", gzip_unpack},   {"LZO", NULL}, {"BROTLI", NULL},
    {"LZ4", NULL},          {"ZSTD", zstd_unpack},     {"LZ4_RAW", lz4_unpack},
};

const struct parquet_codec *parquet_codec(int64_t number)
{
    return number >= 0 && number < (int64_t)(sizeof codecs / sizeof *codecs) ? &codecs[number] : NULL;
}
