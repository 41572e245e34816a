#include "base/str.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for n more bytes and the 0 behind them. */
static bool reserve(struct str *s, size_t n)
{
    if (!s->failed && !MEM_GROW(s->s, s->cap, s->n + n + 1))
        s->failed = true;
    return !s->failed;
}

void str_append_n(struct str *s, const char *bytes, size_t n)
{
    if (!reserve(s, n))
        return;
    memcpy(s->s + s->n, bytes, n);
    s->n += n;
    s->s[s->n] = 0;
}

void str_append(struct str *s, const char *text)
{
    str_append_n(s, text, strlen(text));
}

void str_printf(struct str *s, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0 || !reserve(s, (size_t)n)) {
        s->failed = true;
        return;
    }
    va_start(ap, format);
    vsnprintf(s->s + s->n, (size_t)n + 1, format, ap);
    va_end(ap);
    s->n += (size_t)n;
}

void str_json(struct str *s, const char *text)
{
    static const char short_forms[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
    };
    str_append_n(s, "\"", 1);
    for (size_t left = strlen(text); left;) {
        unsigned char c = (unsigned char)*text;
        int n = utf8_sequence(text, left);
        if (c == '"' || c == '\\')
            str_printf(s, "\\%c", c);
        else if (c < 0x20 && short_forms[c])
            str_printf(s, "\\%c", short_forms[c]);
        else if (c < 0x20)
            str_printf(s, "\\u%04x", c);
        else if (n)
            str_append_n(s, text, (size_t)n);
        else
            str_append(s, "\xEF\xBF\xBD");
        n += !n;
        text += n;
        left -= (size_t)n;
    }
    str_append_n(s, "\"", 1);
}

const char *str_text(const struct str *s)
{
    return s->s ? s->s : "";
}

int str_check(const struct str *s, struct snug_err *err)
{
    return s->failed ? err_no_memory(err, s->n + 1) : SNUG_OK;
}

void str_free(struct str *s)
{
    mem_free(s->s);
    *s = (struct str){0};
}

int utf8_sequence(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
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

int utf8_printable(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    int len = s[0] < 0x20 || s[0] == 0x7F ? 0 : utf8_sequence(text, n);
    return len == 2 && s[0] == 0xC2 && s[1] < 0xA0 ? 0 : len;
}
