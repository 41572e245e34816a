/* size.h: sizes in bytes as people read and write them. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* In three digits and units of 1024: "812 B", "34.7 MiB", "1.02 GiB"; `buf` is returned. */
enum { SIZE_TEXT_MAX = 24 };
const char *size_text(int64_t bytes, char buf[SIZE_TEXT_MAX]);

/* A decimal number, perhaps a blank, and a unit in any case: B, KB, MB, GB, TB of 1000; KiB or Ki, MiB, GiB, TiB, and K, M, G, T
 * alone, of 1024; no unit: bytes. False for anything else and for what is not from 1 to 2^62. *unit: whether one was there. */
bool size_read(const char *text, int64_t *bytes, bool *unit);

#endif
