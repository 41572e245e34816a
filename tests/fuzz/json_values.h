/* json_values.h: a change of a JSON text that leaves it JSON. */
#ifndef TESTS_FUZZ_JSON_VALUES_H
#define TESTS_FUZZ_JSON_VALUES_H

#include "fuzz.h"

#include <string.h>

/* Puts another value in the place of one: numbers at the edges, other kinds, what other models say. The new size; the old
 * one where there is no value, or no room. */
static inline size_t replace_json_value(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const values[] = {"0",
                                         "1",
                                         "-1",
                                         "2",
                                         "3",
                                         "7",
                                         "0.5",
                                         "-0.0",
                                         "1e308",
                                         "1e-320",
                                         "null",
                                         "true",
                                         "false",
                                         "\"\"",
                                         "\"x\"",
                                         "\"NaN\"",
                                         "\"relu\"",
                                         "\"gpt2\"",
                                         "[]",
                                         "{}",
                                         "[1,2]",
                                         "30522",
                                         "2147483647",
                                         "2147483648",
                                         "9007199254740993",
                                         "9223372036854775807",
                                         "-9223372036854775808"};
    size_t colons = 0, at = 0;
    for (size_t i = 0; i < size; i++)
        colons += data[i] == ':';
    if (!colons)
        return size;
    for (size_t left = seed % colons + 1; left; at++)
        left -= data[at] == ':';
    size_t end = at;
    while (end < size && data[end] != ',' && data[end] != '}')
        end++;
    const char *value = values[seed / 1024 % (sizeof values / sizeof *values)];
    size_t n = strlen(value);
    if (size - (end - at) + n > max_size)
        return size;
    memmove(data + at + n, data + end, size - end);
    memcpy(data + at, value, n);
    return size - (end - at) + n;
}

#endif
