/* dtype.h: the element types of tensors, one row each, in the order in which the safetensors format sorts them. */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdint.h>

/* DTYPE(enum name, name in files, bits of an element, what snug can compute with) */
#define DTYPES(DTYPE)                                                                                                  \
    DTYPE(U64, "U64", 64, 0)                                                                                           \
    DTYPE(I64, "I64", 64, 1)                                                                                           \
    DTYPE(F64, "F64", 64, 1)                                                                                           \
    DTYPE(C64, "C64", 64, 0)                                                                                           \
    DTYPE(F32, "F32", 32, 1)                                                                                           \
    DTYPE(U32, "U32", 32, 0)                                                                                           \
    DTYPE(I32, "I32", 32, 1)                                                                                           \
    DTYPE(BF16, "BF16", 16, 1)                                                                                         \
    DTYPE(F16, "F16", 16, 1)                                                                                           \
    DTYPE(U16, "U16", 16, 0)                                                                                           \
    DTYPE(I16, "I16", 16, 0)                                                                                           \
    DTYPE(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, 0)                                                                            \
    DTYPE(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, 0)                                                                            \
    DTYPE(F8_E8M0, "F8_E8M0", 8, 0)                                                                                    \
    DTYPE(F8_E4M3, "F8_E4M3", 8, 1)                                                                                    \
    DTYPE(F8_E5M2, "F8_E5M2", 8, 0)                                                                                    \
    DTYPE(I8, "I8", 8, 0)                                                                                              \
    DTYPE(U8, "U8", 8, 1)                                                                                              \
    DTYPE(F6_E3M2, "F6_E3M2", 6, 0)                                                                                    \
    DTYPE(F6_E2M3, "F6_E2M3", 6, 0)                                                                                    \
    DTYPE(F4, "F4", 4, 0)                                                                                              \
    DTYPE(BOOL, "BOOL", 8, 1)

enum dtype {
#define DTYPE(id, name, bits, computes) DT_##id,
    DTYPES(DTYPE)
#undef DTYPE
        DT_COUNT
};

const char *dtype_name(enum dtype t);
int dtype_bits(enum dtype t);
int64_t dtype_bytes(enum dtype t, int64_t elements); /* of a whole number of bytes */
int dtype_from_name(const char *name);               /* enum dtype, or -1 */

/* bf16 and fp16 bit patterns to float and back, rounding to nearest even; NaN stays NaN. */
float bf16_to_float(uint16_t bits);
uint16_t bf16_from_float(float x);
float fp16_to_float(uint16_t bits);
uint16_t fp16_from_float(float x);

/* Bit patterns of F8_E4M3, which has no infinities, to float and back. What is over 448 becomes 448. */
float e4m3_to_float(uint8_t bits);
uint8_t e4m3_from_float(float x);

/* Converts n elements between any two of F64 F32 BF16 F16, or between equal types, rounding to nearest even: once, but
 * F64 to 16 bits goes through float and rounds twice. */
void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n);

#endif
