/* format/safetensors, opening: rows S1 to S29 of the bad-input specification, as bytes. Verdicts are those of the
 * reference (safetensors/src/tensor.rs, version 0.8) except where the row says that snug is stricter. */
#include "format/safetensors.h"
#include "st_bytes.h"

#define W(fields) "{\"w\":{" fields "}}"
#define F32_4 "\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]"
#define U8_0 "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]"
#define LONE "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"

/* A header (its length goes in front of it), then `data` zero bytes. `part` NULL: accepted. */
static const struct {
    const char *row, *header;
    size_t bytes, data;
    const char *part;
} cases[] = {
    {"S5", BYTES("{\"\xff\":" LONE "}"), 1, "f:10: the header is not valid: expected UTF-8 text"},
    {"S5 overlong", BYTES("{\"\xc0\xaf\":" LONE "}"), 1, "expected UTF-8 text"},
    {"S5 CESU", BYTES("{\"\xed\xa0\x80\xed\xb0\x80\":" LONE "}"), 1, "expected UTF-8 text"},
    {"S5 outside a string", BYTES("{\xc3\xa9\"a\":" LONE "}"), 1, "f:9: the header is not valid: expected '\"'"},
    {"S5 lone high", BYTES("{\"\\ud800\":" LONE "}"), 1, "f:10: the header is not valid: expected a valid escape"},
    {"S5 lone low", BYTES("{\"\\udc00\":" LONE "}"), 1, "expected a valid escape"},
    {"S5 high, high", BYTES("{\"\\ud800\\ud800\":" LONE "}"), 1, "expected a valid escape"},
    {"S5 high, last high", BYTES("{\"\\ud83d\\udbff\":" LONE "}"), 1, "expected a valid escape"},
    {"S5 high, no surrogate", BYTES("{\"\\ud83d\\ue000\":" LONE "}"), 1, "expected a valid escape"},
    {"S5 high at the end", BYTES("{\"\\ud800\\u"), 0, "expected a valid escape"},
    {"S5 pair", BYTES("{\"\\ud83d\\ude00\":" LONE "}"), 1, NULL},
    {"S5 raw", BYTES("{\"\xf0\x9f\x98\x80\":" LONE "}"), 1, NULL},
    {"S5 NUL in a name", BYTES("{\"a\\u0000\":" LONE "}"), 1, "a character other than 0"}, /* stricter: C strings */
    {"S5 control", BYTES("{\"a\n\":" LONE "}"), 1, "without control characters"},
    {"S5 escapes", BYTES("{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\":" LONE "}"), 1, NULL},
    {"S5 bad escape", BYTES("{\"\\x\":" LONE "}"), 1, "expected a valid escape"},
    {"S6 open", BYTES("{"), 0, "f:9: the header is not valid: expected '\"', found the header's end"},
    {"S6 open string", BYTES("{\"abc"), 0, "expected '\"', found the header's end"},
    {"S6 open escape", BYTES("{\"abc\\"), 0, "expected a valid escape"},
    {"S6 no value", BYTES("{\"w\":"), 0, "expected '{', found the header's end"},
    {"S6 open number", BYTES("{\"w\":{\"shape\":[1"), 0, "shape holds '1'"},
    {"S6 open list", BYTES("{\"w\":{\"shape\":[1 "), 0, "expected ',' or ']', found the header's end"},
    {"S6 garbage", BYTES("{}x"), 0, "f:10: the header is not valid: expected nothing more, found 'x'"},
    {"S6 two documents", BYTES("{}{}"), 0, "expected nothing more"},
    {"S6 NUL", BYTES("{}\0"), 0, "expected nothing more"},
    {"S6 NaN", BYTES(W("\"dtype\":\"F32\",\"shape\":[NaN],\"data_offsets\":[0,4]")), 4, "shape holds 'NaN'"},
    {"S6 comment", BYTES("{/* c */}"), 0, "expected '\"'"},
    {"S6 trailing comma", BYTES("{\"w\":{" F32_4 "},}"), 16, "expected '\"'"},
    {"S6 trailing comma", BYTES(W("\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]")), 1, "shape holds ']'"},
    {"S6 nesting", BYTES("{\"w\":[[[[[[[["), 0, "expected '{', found '['"},
    {"S7 list", BYTES("[]"), 0, "expected '{', found '['"},
    {"S7 string", BYTES("\"x\""), 0, "expected '{'"},
    {"S7 number", BYTES("1"), 0, "expected '{', found '1'"},
    {"S7 empty", BYTES(""), 0, "expected '{', found the header's end"},
    {"S7 empty, data", BYTES(""), 5, "expected '{', found the header's end"},
    {"S8", BYTES(" \t\r\n" W(F32_4)), 16, NULL},
    {"S9", BYTES(W(F32_4) "   \n"), 16, NULL},
    {"S10 same", BYTES("{\"w\":{" F32_4 "},\"w\":{" F32_4 "}}"), 16, "tensor w is in the header twice"},
    {"S10 escaped",
     BYTES("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
           "\"\\u0077\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"),
     4, "tensor w is in the header twice"},
    {"S10 empty tensors", BYTES("{\"w\":{" U8_0 "},\"w\":{" U8_0 "}}"), 0, "tensor w is in the header twice"},
    {"S11 metadata", BYTES("{\"__metadata__\":{},\"__metadata__\":{}}"), 0, "__metadata__ twice"},
    {"S11 escaped", BYTES("{\"__metadata__\":{},\"\\u005f_metadata__\":{}}"), 0, "__metadata__ twice"},
    {"S11 in metadata", BYTES("{\"__metadata__\":{\"a\":\"1\",\"b\":\"\",\"a\":\"2\"}}"), 0,
     "__metadata__ has key a twice"},
    {"S11 dtype", BYTES(W(F32_4 ",\"dtype\":\"F32\"")), 16, "tensor w has dtype twice"},
    {"S11 shape", BYTES(W(F32_4 ",\"shape\":[2,2]")), 16, "tensor w has shape twice"},
    {"S11 offsets", BYTES(W(F32_4 ",\"data_offsets\":[0,16]")), 16, "tensor w has data_offsets twice"},
    {"unknown field", BYTES(W(F32_4 ",\"strides\":[2,1]")), 16, "unknown field \"strides\""}, /* stricter */
    {"S12 list", BYTES("{\"__metadata__\":[]}"), 0, "expected '{'"},
    {"S12 null", BYTES("{\"__metadata__\":null}"), 0, "expected '{', found 'null'"},
    {"S12 string", BYTES("{\"__metadata__\":\"a\"}"), 0, "expected '{'"},
    {"S12 number in it", BYTES("{\"__metadata__\":{\"a\":1}}"), 0, "expected '\"', found '1'"},
    {"S12 object in it", BYTES("{\"__metadata__\":{\"a\":{}}}"), 0, "expected '\"'"},
    {"S13 unknown", BYTES(W("\"dtype\":\"F33\",\"shape\":[],\"data_offsets\":[0,4]")), 4,
     "f: tensor w: unknown dtype \"F33\""},
    {"S13 case", BYTES(W("\"dtype\":\"f32\",\"shape\":[],\"data_offsets\":[0,4]")), 4, "unknown dtype \"f32\""},
    {"S13 empty", BYTES(W("\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,4]")), 4, "unknown dtype \"\""},
    {"S13 number", BYTES(W("\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]")), 4,
     "expected a dtype such as \"F32\", found '1'"},
    {"S13 null", BYTES(W("\"dtype\":null,\"shape\":[],\"data_offsets\":[0,4]")), 4, "expected a dtype"},
    {"S13 C64", BYTES(W("\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]")), 8, "C64 is not supported; convert"},
    {"S13 F8", BYTES(W("\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]")), 1, NULL},
    {"S13 F8", BYTES(W("\"dtype\":\"F8_E5M2\",\"shape\":[1],\"data_offsets\":[0,1]")), 1, NULL},
    {"S13 F8", BYTES(W("\"dtype\":\"F8_E4M3FNUZ\",\"shape\":[1],\"data_offsets\":[0,1]")), 1, "FNUZ is not supported"},
    {"S13 F8", BYTES(W("\"dtype\":\"F8_E5M2FNUZ\",\"shape\":[1],\"data_offsets\":[0,1]")), 1, "is not supported"},
    {"S13 F8", BYTES(W("\"dtype\":\"F8_E8M0\",\"shape\":[1],\"data_offsets\":[0,1]")), 1, "is not supported"},
    {"S13 F6", BYTES(W("\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]")), 3, "F6_E2M3 is not supported"},
    {"S13 F4", BYTES(W("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]")), 1, "F4 is not supported"},
    {"S14 negative", BYTES(W("\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]")), 4,
     "f:37: tensor w: shape holds '-1'"},
    {"S14 -0", BYTES(W("\"dtype\":\"F32\",\"shape\":[-0],\"data_offsets\":[0,0]")), 0, "shape holds '-0'"},
    {"S14 float", BYTES(W("\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]")), 4, "shape holds '1.0'"},
    {"S14 exponent", BYTES(W("\"dtype\":\"F32\",\"shape\":[1e3],\"data_offsets\":[0,4000]")), 4000,
     "shape holds '1e3'"},
    {"S14 string", BYTES(W("\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]")), 4, "shape holds '\"1\"'"},
    {"S14 null", BYTES(W("\"dtype\":\"F32\",\"shape\":[null],\"data_offsets\":[0,4]")), 4, "shape holds 'null'"},
    {"S14 no list", BYTES(W("\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]")), 4, "expected '[', found '1'"},
    {"S14 leading zero", BYTES(W("\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]")), 4, "shape holds '01'"},
    {"S14 > 2^64", BYTES(W("\"dtype\":\"U8\",\"shape\":[18446744073709551617],\"data_offsets\":[0,1]")), 1,
     "shape holds '18446744073709551617'"},
    {"S14 2^48", BYTES(W("\"dtype\":\"U8\",\"shape\":[0,281474976710656],\"data_offsets\":[0,0]")), 0,
     "dimension 281474976710656 is not below the format's 2^48"}, /* stricter */
    {"S14 2^48-1", BYTES(W("\"dtype\":\"U8\",\"shape\":[0,281474976710655],\"data_offsets\":[0,0]")), 0, NULL},
    {"S15 product", BYTES(W("\"dtype\":\"U8\",\"shape\":[2,18446744073709551614],\"data_offsets\":[0,1]")), 1,
     "shape holds '18446744073709551614'"},
    {"S15 with the dtype", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,9223372036854775807],\"data_offsets\":[0,1]")), 1,
     "dimension 9223372036854775807"},
    {"S15 below 2^48", BYTES(W("\"dtype\":\"U8\",\"shape\":[65536,65536,65536,65536],\"data_offsets\":[0,0]")), 0,
     "the size of shape [65536, 65536, 65536, 65536] overflows"},
    {"S15 dtype", BYTES(W("\"dtype\":\"F64\",\"shape\":[65536,65536,65536,4096],\"data_offsets\":[0,0]")), 0,
     "overflows"},
    {"S15 2^63, then a 0", BYTES(W("\"dtype\":\"U8\",\"shape\":[140737488355328,65536,0],\"data_offsets\":[0,0]")), 0,
     NULL},
    {"S15 then a 0", BYTES(W("\"dtype\":\"U8\",\"shape\":[281474976710655,281474976710655,0],\"data_offsets\":[0,0]")),
     0, "overflows"}, /* as the reference: checked from the left */
    {"S16 absent", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2]")), 16, "tensor w has no data_offsets"},
    {"S16 no dtype", BYTES(W("\"shape\":[2,2],\"data_offsets\":[0,16]")), 16, "tensor w has no dtype"},
    {"S16 no shape", BYTES(W("\"dtype\":\"F32\",\"data_offsets\":[0,16]")), 16, "tensor w has no shape"},
    {"S16 empty object", BYTES("{\"w\":{}}"), 16, "tensor w has no dtype"},
    {"S16 none", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[]")), 16, "data_offsets has 0 entries"},
    {"S16 one", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16]")), 16, "data_offsets has 1 entries"},
    {"S16 three", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16,16]")), 16,
     "data_offsets has 3 entries"},
    {"S16 backwards", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,0]")), 16,
     "data_offsets [16, 0] ends before it begins"},
    {"S16 negative", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[-16,0]")), 16,
     "data_offsets holds '-16'"},
    {"S16 2^64-1",
     BYTES(W("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[18446744073709551614,18446744073709551615]")), 1,
     "data_offsets holds '18446744073709551614'"},
    {"S17 too few", BYTES(W("\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,12]")), 12,
     "F32 of shape [2, 2] takes 16 bytes, but data_offsets give it 12"},
    {"S17 too many", BYTES(W("\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,8]")), 8,
     "F32 of shape [] takes 4 bytes, but data_offsets give it 8"},
    {"S18", BYTES(W("\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]")), 1,
     "F4 of shape [1] does not fill whole bytes"},
    {"S18", BYTES(W("\"dtype\":\"F6_E3M2\",\"shape\":[3],\"data_offsets\":[0,2]")), 2, "does not fill whole bytes"},
    {"S19 part", BYTES("{\"a\":{" F32_4 "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}"), 20,
     "tensors a and b overlap"},
    {"S19 inside", BYTES("{\"a\":{" F32_4 "},\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}}"), 16,
     "tensors a and b overlap"},
    {"S20 hole", BYTES("{\"a\":{" F32_4 "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]}}"), 24,
     "a hole of 4 bytes in the data before tensor b"},
    {"S20 start", BYTES(W("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]")), 8,
     "a hole of 4 bytes in the data before tensor w"},
    {"S21", BYTES(W(F32_4)), 17, "1 bytes too many: the header describes 16 bytes of data, the file has 17"},
    {"S21 no tensor", BYTES("{}"), 3, "3 bytes too many"},
    {"S22", BYTES(W(F32_4)), 15, "1 bytes are missing: the header describes 16 bytes of data, the file has 15"},
    {"S22 all", BYTES(W(F32_4)), 0, "16 bytes are missing"},
    {"S22 2^63-1",
     BYTES("{\"a\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[0,1152921504606846976]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[1152921504606846976,"
           "2305843009213693952]},"
           "\"c\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[2305843009213693952,"
           "3458764513820540928]},"
           "\"d\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[3458764513820540928,"
           "4611686018427387904]},"
           "\"e\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[4611686018427387904,"
           "5764607523034234880]},"
           "\"f\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[5764607523034234880,"
           "6917529027641081856]},"
           "\"g\":{\"dtype\":\"U8\",\"shape\":[2147483648,536870912],\"data_offsets\":[6917529027641081856,"
           "8070450532247928832]},"
           "\"h\":{\"dtype\":\"U8\",\"shape\":[1073741823,1073741825],\"data_offsets\":[8070450532247928832,"
           "9223372036854775807]}}"),
     0, "9223372036854775807 bytes are missing"},
    {"S23 two empty", BYTES("{\"a\":{" U8_0 "},\"b\":{" U8_0 "}}"), 0, NULL},
    {"S23 empty and real", BYTES("{\"a\":{" F32_4 "},\"b\":{" U8_0 "}}"), 16, NULL},
    {"S23 at the end", BYTES("{\"a\":{" F32_4 "},\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[16,16]}}"), 16,
     NULL},
    {"S24 scalar", BYTES(W("\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]")), 4, NULL},
    {"S24 zero", BYTES(W("\"dtype\":\"F32\",\"shape\":[3,0,2],\"data_offsets\":[0,0]")), 0, NULL},
    {"S24 8 dims", BYTES(W("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]")), 1, NULL},
    {"9 dims", BYTES(W("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]")), 1,
     "more than 8 dimensions"},
    {"S25", BYTES("{}"), 0, NULL},
    {"S25 metadata", BYTES("{\"__metadata__\":{\"b\":\"2\",\"a\":\"1\"}}"), 0, NULL},
    {"S25 empty metadata", BYTES("{ \"__metadata__\" : { } }"), 0, NULL},
    {"S27 keys", BYTES(W("\"data_offsets\":[0,16],\"shape\":[2,2],\"dtype\":\"F32\"")), 16, NULL},
    {"S27 order", BYTES("{\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]},\"a\":{" F32_4 "}}"), 20,
     NULL},
    {"S28",
     BYTES("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
           "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}"),
     9, NULL},
    {"blanks", BYTES("{ \"w\" : { \"dtype\" : \"F32\" , \"shape\" : [ 2 , 2 ] ,\n\"data_offsets\"\t:\r[ 0 , 16 ] } }"),
     16, NULL},
};

static int open_bytes(const void *data, size_t bytes, struct st_file *f, struct snug_err *err)
{
    struct memory_file file = {"f", data, bytes};
    struct memory_io m;
    memory_io_init(&m, &file, 1);
    int code = st_open(&m.io, "f", f, err);
    assert_int_equal(m.open_files, code ? 0 : 1);
    if (!code)
        st_detach(f); /* the io is about to go */
    return code;
}

static void rows_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct st_file f;
        struct snug_err err = {0};
        size_t total;
        unsigned char *file = build(cases[i].header, cases[i].bytes, cases[i].data, &total);
        int code = open_bytes(file, total, &f, &err);
        if (code != (cases[i].part ? SNUG_ERR_INPUT : SNUG_OK) || (code && !strstr(err.text, cases[i].part)))
            fail_msg("%s: code %d \"%s\", wanted \"%s\"", cases[i].row, code, err.text,
                     cases[i].part ? cases[i].part : "accepted");
        if (!code) {
            assert_null(st_find(&f, "absent"));
            st_close(&f);
        }
        free(file);
    }
}

/* S1 to S4, and every file that stops too early. */
static void lengths(void **state)
{
    (void)state;
    struct st_file f;
    struct snug_err err;
    size_t total;
    unsigned char *file = build(BYTES(W(F32_4)), 16, &total);
    for (size_t n = 0; n < total; n++) {
        unsigned char *part = malloc(n + !n);
        memcpy(part, file, n);
        assert_int_equal(open_bytes(part, n, &f, &err), SNUG_ERR_INPUT);
        assert_non_null(strstr(err.text, n < 8            ? "too short"
                                         : n < total - 16 ? "get or export the file again"
                                                          : "bytes are missing"));
        free(part);
    }
    static const struct {
        unsigned char n[8];
        const char *part;
    } bad[] = {
        {{0x01, 0xe1, 0xf5, 0x05}, "100000001 bytes, over the limit of 100000000"},
        {{0x00, 0xe1, 0xf5, 0x05}, "a header of 100000000 bytes, but only 73 bytes follow"},
        {{0, 0, 0, 0, 0, 0, 0, 0x80}, "9223372036854775808 bytes, over the limit"},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "18446744073709551615 bytes, over the limit"},
        {{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "over the limit"},
        {{74}, "a header of 74 bytes, but only 73 bytes follow"},
    };
    assert_int_equal(total, 81);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(file, bad[i].n, 8);
        assert_int_equal(open_bytes(file, total, &f, &err), SNUG_ERR_INPUT);
        if (!strstr(err.text, bad[i].part))
            fail_msg("\"%s\" lacks \"%s\"", err.text, bad[i].part);
    }
    free(file);
}

/* Escapes as RFC 8259 has them, and surrogate pairs at both ends of their range. */
static void names_are_decoded(void **state)
{
    (void)state;
    static const char escaped[] =
        "{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud800\\udc00\\ud83d\\ude00\\udbff\\udfff\":" LONE "}";
    static const char name[] = "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x90\x80\x80\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf";
    struct st_file f;
    struct snug_err err;
    size_t total;
    unsigned char *file = build(BYTES(escaped), 1, &total);
    assert_int_equal(open_bytes(file, total, &f, &err), 0);
    assert_string_equal(f.tensors[0].name, name);
    st_close(&f);
    free(file);
}

/* S2: one byte over the limit, and all bytes are there. */
static void header_over_the_limit(void **state)
{
    (void)state;
    struct st_file f;
    struct snug_err err;
    unsigned char *file = malloc(100000009);
    memset(file, ' ', 100000009);
    memcpy(file, "\x01\xe1\xf5\x05\x00\x00\x00\x00{}", 10);
    assert_int_equal(open_bytes(file, 100000009, &f, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "a header of 100000001 bytes, over the limit of 100000000"));
    file[0] = 0;
    assert_int_equal(open_bytes(file, 100000008, &f, &err), 0);
    st_close(&f);
    free(file);
}

static size_t allocated, most_allocated;

static void *counting_realloc(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    size_t *old = p ? (size_t *)p - 2 : NULL, was = old ? *old : 0;
    size_t *block = realloc(old, bytes + 16);
    if (!block)
        return NULL;
    *block = bytes;
    allocated += bytes - was;
    if (allocated > most_allocated)
        most_allocated = allocated;
    return block + 2;
}

static void counting_free(void *ctx, void *p)
{
    (void)ctx;
    allocated -= ((size_t *)p)[-2];
    free((size_t *)p - 2);
}

/* S2 and S26: the largest header, full of the smallest entries, in scrambled order. Each takes about a second; were
 * one of them quadratic, hours. */
static void largest_header(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *entry, *end, *part;
        size_t entries;
    } kinds[] = {
        {"{", "\"%06zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", "\"z\":{" U8_0 "}}", NULL, 999999},
        {"{", "\"%06zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", "\"z\":{" U8_0 "}}",
         "over 1000000 tensors", 1500000},
        {"{\"__metadata__\":{", "\"%06zx\":\"\",", "\"z\":\"\"}}", "over 1000000 entries", 7000000},
    };
    static const struct mem_ops counting = {.realloc = counting_realloc, .free = counting_free};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        unsigned char *file = malloc(100000008);
        size_t n = 8;
        n += (size_t)sprintf((char *)file + n, "%s", kinds[k].begin);
        for (size_t i = 0; i < kinds[k].entries; i++)
            n += (size_t)sprintf((char *)file + n, kinds[k].entry, i * 0x9E3779 & 0xFFFFFF); /* odd: no two alike */
        n += (size_t)sprintf((char *)file + n, "%s", kinds[k].end);
        assert_true(n <= 100000008);
        memset(file + n, ' ', 100000008 - n);
        memcpy(file, "\x00\xe1\xf5\x05\x00\x00\x00\x00", 8);
        struct st_file f;
        struct snug_err err;
        mem_set_ops(&counting);
        allocated = most_allocated = 0;
        int code = open_bytes(file, 100000008, &f, &err);
        assert_true(most_allocated < (size_t)20 * 100000000);
        if (!code) {
            assert_int_equal(f.n_tensors, 1000000);
            st_close(&f);
        } else {
            assert_non_null(kinds[k].part);
            assert_non_null(strstr(err.text, kinds[k].part));
        }
        assert_int_equal(allocated, 0);
        mem_set_ops(NULL);
        free(file);
    }
}

/* X3, X4: what is found where weights should be. */
static void foreign_files(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
        const char *part;
    } files[] = {
        {BYTES("version https://git-lfs.github.com/spec/v1\noid "
               "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e"
               "2ca24d17e2393\nsize 12345\n"),
         "f: not a safetensors file but a Git LFS pointer, not the weights; run `git lfs pull`"},
        {BYTES("<!DOCTYPE html><html><title>404</title></html>"), "an HTML or XML page"},
        {BYTES("\n  <?xml version=\"1.0\"?><Error/>"), "an HTML or XML page"},
        {BYTES("{\"error\":\"Invalid credentials in Authorization header\"}"), "but JSON, perhaps an error"},
        {BYTES("Entry not found"), "plain text"},
        {BYTES("PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0model/data.pkl"), "a zip archive, perhaps PyTorch weights"},
        {BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3."), "a Python pickle, which is never read"},
        {BYTES("\x80\4\x95\0\0\0\0\0\0\0\0}\x94."), "a Python pickle"},
        {BYTES("GGUF\3\0\0\0\1\0\0\0\0\0\0\0"), "a GGUF file"},
        {BYTES("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0"), "an HDF5 file"},
        {BYTES("\x1f\x8b\x08\0\0\0\0\0\0\3\1\0\0\0\xff\xff"), "gzip-compressed"},
        {BYTES("\x93NUMPY\1\0v\0{'descr': '<f4'"), "a NumPy array"},
        {BYTES("\x7f"
               "ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0>\0"),
         "is it damaged?"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct st_file f;
        struct snug_err err;
        assert_int_equal(open_bytes(files[i].data, files[i].bytes, &f, &err), SNUG_ERR_INPUT);
        if (!strstr(err.text, files[i].part))
            fail_msg("\"%s\" lacks \"%s\"", err.text, files[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_table),     cmocka_unit_test(lengths),        cmocka_unit_test(names_are_decoded),
        cmocka_unit_test(header_over_the_limit), cmocka_unit_test(largest_header), cmocka_unit_test(foreign_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
