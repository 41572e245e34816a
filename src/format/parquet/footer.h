/* footer.h: what a Parquet file says of itself (https://github.com/apache/parquet-format/blob/master/README.md).
 *
 * A file begins and ends with "PAR1". Before the last one stand the footer and its length (u32). The footer has the schema, a tree
 * of columns flattened, and for each group of rows where the chunk of each column lies. A chunk is a list of pages, each behind a header.
 * */
#ifndef FORMAT_PARQUET_FOOTER_H
#define FORMAT_PARQUET_FOOTER_H

#include "base/io.h"
#include "format/parquet/thrift.h"

enum { PARQUET_FOOTER_BYTES = 32 << 20, PARQUET_PAGE_BYTES = 256 << 20 };

enum parquet_type {
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTE_ARRAY,
    PARQUET_FIXED, /* FIXED_LEN_BYTE_ARRAY */
    PARQUET_TYPES
};

enum parquet_repetition { PARQUET_REQUIRED, PARQUET_OPTIONAL, PARQUET_REPEATED };

/* Older annotations of a type. */
enum parquet_converted {
    CONVERTED_UTF8,
    CONVERTED_MAP,
    CONVERTED_MAP_KEY_VALUE,
    CONVERTED_LIST,
    CONVERTED_ENUM,
    CONVERTED_DECIMAL,
    CONVERTED_UINT_8 = 11,
    CONVERTED_UINT_64 = 14,
    CONVERTED_JSON = 19,
};

struct parquet_element {
    struct thrift_text name;
    int64_t type, type_length, repetition, n_children, converted, scale; /* -1: not said */
    bool is_string, is_map, is_list, is_enum, is_decimal, is_json, is_integer, is_signed,
        is_float16; /* newer annotations */
    int64_t logical_scale;
};

struct parquet_chunk {
    struct thrift_text file; /* another file that has it */
    bool encrypted;
    int64_t type, codec, n_values, bytes, data_page, dictionary_page; /* -1: not said; bytes: as stored */
};

struct parquet_group {
    struct thrift_list chunks; /* struct parquet_chunk, one for each leaf of the schema, in its order */
    int64_t n_rows;
};

struct parquet_key {
    struct thrift_text key, value;
};

struct parquet_footer {
    struct thrift_list schema; /* struct parquet_element: a node, then what is below it */
    struct thrift_list groups; /* struct parquet_group */
    struct thrift_list keys;   /* struct parquet_key */
    int64_t n_rows;
    int64_t data_end; /* offset at which the footer begins */
    char *bytes;      /* what texts point into */
    struct arena arena;
};

/* SNUG_ERR_INPUT: it is no such file, or one that is cut, encrypted or damaged. parquet_footer_free gives back what there is. */
int parquet_footer_read(const struct io *io, int fd, const char *path, int64_t size, struct parquet_footer *f,
                        struct snug_err *err);
void parquet_footer_free(struct parquet_footer *f);

/* The header of a page. */
enum parquet_page_type { PARQUET_DATA_PAGE, PARQUET_INDEX_PAGE, PARQUET_DICTIONARY_PAGE, PARQUET_DATA_PAGE_V2 };
#define PARQUET_NO_CRC INT64_MIN
struct parquet_page {
    int64_t type, bytes, stored_bytes, crc;                 /* crc: of the bytes as stored, or PARQUET_NO_CRC */
    int64_t n_values, encoding, def_encoding, rep_encoding; /* of any type of page */
    int64_t def_bytes, rep_bytes;                           /* version 2: levels, which are not compressed */
    bool compressed;
};
/* From the first n bytes at a page: *header_bytes, and true. false: it is none; *more: the header may be longer than that. */
bool parquet_page_read(const void *bytes, size_t n, struct parquet_page *page, size_t *header_bytes, bool *more);

#endif
