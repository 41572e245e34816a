#include "format/protobuf.h"

#include <string.h>

void proto_varint(struct str *m, uint64_t x)
{
    for (; x > 127; x >>= 7)
        str_append_n(m, (const char[]){(char)(x | 128)}, 1);
    str_append_n(m, (const char[]){(char)x}, 1);
}

void proto_little(struct str *m, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        str_append_n(m, (const char[]){(char)(x >> 8 * i)}, 1);
}

void proto_key(struct str *m, int field, enum proto_kind kind)
{
    proto_varint(m, (uint64_t)field << 3 | kind);
}

void proto_number(struct str *m, int field, int64_t x)
{
    proto_key(m, field, PROTO_VARINT);
    proto_varint(m, (uint64_t)x);
}

void proto_double(struct str *m, int field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    proto_key(m, field, PROTO_DOUBLE);
    proto_little(m, bits, 8);
}

void proto_float(struct str *m, int field, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    proto_key(m, field, PROTO_FLOAT);
    proto_little(m, bits, 4);
}

void proto_bytes(struct str *m, int field, const char *bytes, size_t n)
{
    proto_key(m, field, PROTO_BYTES);
    proto_varint(m, n);
    str_append_n(m, bytes, n);
}

void proto_text(struct str *m, int field, const char *text)
{
    proto_bytes(m, field, text, strlen(text));
}

void proto_message(struct str *m, int field, struct str *inner)
{
    proto_bytes(m, field, str_text(inner), inner->n);
    m->failed |= inner->failed;
    str_free(inner);
}
