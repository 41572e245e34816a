/* thrift.h: Thrift's compact protocol, in which Parquet keeps all that is no data
 * (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
 *
 * A struct is read by a table of the fields that are wanted; others are skipped. A field that the file lacks, or has with another
 * type, keeps what was there. */
#ifndef FORMAT_PARQUET_THRIFT_H
#define FORMAT_PARQUET_THRIFT_H

#include "base/mem.h"

/* Where reading is. What lies at p when it fails is not what it should be, or the bytes end (`ended`); after that nothing is read. */
struct thrift {
    const uint8_t *p, *end;
    struct arena *arena; /* of lists */
    int depth;
    bool failed, ended, no_memory;
};

/* Bytes of the input. */
struct thrift_text {
    const char *s;
    size_t n;
};

struct thrift_list {
    void *items; /* (n) structs */
    size_t n;
};

enum thrift_kind {
    THRIFT_INT,     /* int64_t, of a whole number of any width */
    THRIFT_BOOL,    /* bool */
    THRIFT_TEXT,    /* struct thrift_text */
    THRIFT_STRUCT,  /* by `fields`, within the same struct in C: offsets count from its beginning */
    THRIFT_PRESENT, /* bool: the field is there, whatever is in it */
    THRIFT_LIST,    /* struct thrift_list of structs by `fields`, of item_bytes each */
};

struct thrift_fields {
    const struct thrift_field *rows;
    size_t n, item_bytes;
    const void *blank; /* what an item of a list is before it is read; NULL: zeros */
};

struct thrift_field {
    int id;
    enum thrift_kind kind;
    size_t offset;
    const struct thrift_fields *fields;
};

/* Reads a struct into *out; false when it failed. */
bool thrift_struct(struct thrift *t, const struct thrift_fields *fields, void *out);

#endif
