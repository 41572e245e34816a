/* protobuf.h: messages in the wire format of protocol buffers (protobuf.dev/programming-guides/encoding): a field is its number and
 * kind in a varint, then a varint (kind 0), 8 bytes (1), a length and bytes (2) or 4 bytes (5). Numbers are written whatever they
 * are, also those that are 0. Groups (kinds 3 and 4) are not read. */
#ifndef FORMAT_PROTOBUF_H
#define FORMAT_PROTOBUF_H

#include "base/str.h"

#include <stdint.h>

enum proto_kind { PROTO_VARINT, PROTO_DOUBLE, PROTO_BYTES, PROTO_FLOAT = 5 };

void proto_varint(struct str *m, uint64_t x);
void proto_little(struct str *m, uint64_t x, int bytes); /* as it is, without a field */
void proto_key(struct str *m, int field, enum proto_kind kind);

void proto_number(struct str *m, int field, int64_t x);
void proto_double(struct str *m, int field, double x);
void proto_float(struct str *m, int field, float x);
void proto_bytes(struct str *m, int field, const char *bytes, size_t n);
void proto_text(struct str *m, int field, const char *text);
/* Takes `inner`, and empties it. */
void proto_message(struct str *m, int field, struct str *inner);

/* Reading: the fields of a message one after another. A message within is the bytes of a field, and a reader of its own. */
struct proto_reader {
    const char *s; /* what is left */
    size_t n;
};
struct proto_field {
    int number;
    enum proto_kind kind;
    uint64_t value;            /* PROTO_VARINT; PROTO_FLOAT and PROTO_DOUBLE: the bits */
    struct proto_reader bytes; /* PROTO_BYTES */
};
enum proto_read { PROTO_END, PROTO_READ, PROTO_BROKEN };
enum proto_read proto_next(struct proto_reader *r, struct proto_field *f);
float proto_as_float(const struct proto_field *f); /* of PROTO_FLOAT */

#endif
