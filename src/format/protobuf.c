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

/* ---- reading ---- */

static bool read_varint(struct proto_reader *r, uint64_t *x)
{
    *x = 0;
    for (int shift = 0; shift < 64 && r->n; shift += 7) {
        unsigned char c = (unsigned char)*r->s++;
        r->n--;
        *x |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return shift < 63 || c < 2;
    }
    return false;
}

static bool read_little(struct proto_reader *r, uint64_t *x, size_t bytes)
{
    *x = 0;
    if (r->n < bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        *x |= (uint64_t)(unsigned char)r->s[i] << 8 * i;
    r->s += bytes;
    r->n -= bytes;
    return true;
}

static bool read_bytes(struct proto_reader *r, struct proto_reader *bytes)
{
    uint64_t n;
    if (!read_varint(r, &n) || n > r->n)
        return false;
    *bytes = (struct proto_reader){r->s, (size_t)n};
    r->s += n;
    r->n -= (size_t)n;
    return true;
}

enum proto_read proto_next(struct proto_reader *r, struct proto_field *f)
{
    uint64_t key;
    *f = (struct proto_field){0};
    if (!r->n)
        return PROTO_END;
    if (!read_varint(r, &key) || key >> 3 < 1 || key >> 3 >= 1 << 29)
        return PROTO_BROKEN;
    f->number = (int)(key >> 3);
    f->kind = (enum proto_kind)(key & 7);
    bool good = f->kind == PROTO_VARINT   ? read_varint(r, &f->value)
                : f->kind == PROTO_DOUBLE ? read_little(r, &f->value, 8)
                : f->kind == PROTO_FLOAT  ? read_little(r, &f->value, 4)
                                          : f->kind == PROTO_BYTES && read_bytes(r, &f->bytes);
    return good ? PROTO_READ : PROTO_BROKEN;
}

float proto_as_float(const struct proto_field *f)
{
    uint32_t bits = (uint32_t)f->value;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
