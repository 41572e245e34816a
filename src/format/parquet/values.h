/* values.h: the values of a page, one after another, in any of Parquet's encodings. */
#ifndef FORMAT_PARQUET_VALUES_H
#define FORMAT_PARQUET_VALUES_H

#include "base/mem.h"
#include "format/parquet/delta.h"
#include "format/parquet/footer.h"
#include "format/parquet/hybrid.h"

struct parquet_value {
    union {
        int64_t i; /* BOOLEAN, INT32, INT64 */
        double x;  /* FLOAT, DOUBLE */
        const uint8_t *bytes;
    };
    size_t n; /* bytes of BYTE_ARRAY and FIXED */
};

struct parquet_dictionary {
    const struct parquet_value *items;
    size_t n;
};

struct parquet_values {
    const struct parquet_encoding *encoding;
    enum parquet_type type;
    size_t width; /* bytes of a value of a fixed size */
    const uint8_t *p, *end;
    int bit;
    struct parquet_dictionary dictionary;
    struct hybrid hybrid;
    struct delta prefixes, numbers;
    size_t i, n; /* of values side by side */
    char *text;  /* the last value, where it is put together */
    size_t text_n, text_cap;
    bool no_memory;
};

/* By its number in the file; NULL: none that is known. */
const struct parquet_encoding *parquet_encoding(int64_t number);
const char *parquet_encoding_name(const struct parquet_encoding *e);
bool parquet_encoding_is_dictionary(const struct parquet_encoding *e);

/* Begins with n bytes, which stay where they are. v->type, width and dictionary are set; false: the encoding is not for the type, or
 * these bytes are not in it. */
bool parquet_values_start(struct parquet_values *v, const struct parquet_encoding *e, const uint8_t *bytes, size_t n);
/* Bytes of a value live until the next call. false: there are no more, or they are not in this encoding. */
bool parquet_values_next(struct parquet_values *v, struct parquet_value *value);
void parquet_values_free(struct parquet_values *v);

#endif
