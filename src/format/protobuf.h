/* protobuf.h: messages in the wire format of protocol buffers (protobuf.dev/programming-guides/encoding): a field is its number and
 * kind in a varint, then a varint (kind 0), 8 bytes (1), a length and bytes (2) or 4 bytes (5). Numbers are written whatever they
 * are, also those that are 0. */
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

#endif
