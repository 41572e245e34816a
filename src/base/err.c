#include "base/err.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT = 225 };

int err_set(struct snug_err *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    char raw[8192], clean[16384];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    size_t n = text_escape(clean, sizeof clean, raw);
    err->code = code;
    if (n <= LIMIT) {
        memcpy(err->text, clean, n + 1);
        return code;
    }
    /* The ends carry the file name and the advice; the middle of a long value is what a reader misses least. */
    size_t head = 100, tail = n - (LIMIT - 103);
    while ((clean[head] & 0xC0) == 0x80)
        head--;
    while ((clean[tail] & 0xC0) == 0x80)
        tail++;
    snprintf(err->text, sizeof err->text, "%.*s...%s", (int)head, clean, clean + tail);
    return code;
}

int err_no_memory(struct snug_err *err, unsigned long long bytes)
{
    return err_set(err, SNUG_ERR_ENV, "out of host memory: %llu bytes were wanted; free some or use a smaller setting",
                   bytes);
}

int err_errno(struct snug_err *err, int code, const char *path, const char *verb, int errnum)
{
    return err_set(err, code, "%s: cannot %s: %s", path, verb, strerror(errnum));
}
