/* space.h: white space as Python's str.split() has it. */
#ifndef METRICS_SPACE_H
#define METRICS_SPACE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool is_python_space(int32_t c)
{
    return (c >= 0x9 && c <= 0xD) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

#endif
