#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT = 225 };

/* Bytes of the valid UTF-8 sequence at s (n bytes left), 0 if there is none. */
static int sequence_length(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80)
        return 1;
    int len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || (size_t)len > n)
        return 0;
    for (int i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

static size_t escape(char *out, size_t room, const char *in)
{
    size_t n = strlen(in), w = 0;
    for (size_t i = 0; i < n && w + 5 < room;) {
        const unsigned char *s = (const unsigned char *)in + i;
        int len = s[0] < 0x20 || s[0] == 0x7F ? 0 : sequence_length(s, n - i);
        if (len) {
            memcpy(out + w, s, (size_t)len);
            w += (size_t)len, i += (size_t)len;
        } else {
            w += (size_t)snprintf(out + w, room - w, "\\x%02X", s[0]);
            i++;
        }
    }
    out[w] = 0;
    return w;
}

int err_set(struct snug_err *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    char raw[8192], clean[16384];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    size_t n = escape(clean, sizeof clean, raw);
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
