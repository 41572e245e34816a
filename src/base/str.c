#include "base/str.h"

#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
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
    if (n) /* without any, `bytes` may be NULL */
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

/* The code point of a valid sequence of n bytes. */
static uint32_t code_point(const char *text, int n)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t c = n == 1 ? s[0] : s[0] & (0xFFu >> (n + 1));
    for (int i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3F);
    return c;
}

static void append_json(struct str *s, const char *text, size_t left, bool printed)
{
    static const char short_forms[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
    };
    str_append_n(s, "\"", 1);
    while (left) {
        unsigned char c = (unsigned char)*text;
        int n = utf8_sequence(text, left);
        if (c == '"' || c == '\\')
            str_printf(s, "\\%c", c);
        else if (c < 0x20 && short_forms[c])
            str_printf(s, "\\%c", short_forms[c]);
        else if (c < 0x20 || (n && printed && !utf8_printable(text, left)))
            str_printf(s, "\\u%04x", code_point(text, n)); /* none of them is above U+FFFF */
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

void str_json(struct str *s, const char *text)
{
    append_json(s, text, strlen(text), false);
}

void str_json_str(struct str *s, const struct str *text)
{
    append_json(s, str_text(text), text->n, false);
}

void str_json_printed(struct str *s, const char *text)
{
    append_json(s, text, strlen(text), true);
}

void str_json_whole_printed(struct str *s, const char *json)
{
    for (size_t left = strlen(json); left;) {
        int whole = utf8_sequence(json, left), n = whole + !whole;
        if (utf8_printable(json, left))
            str_append_n(s, json, (size_t)n);
        else if (whole)
            str_printf(s, "\\u%04x", code_point(json, n));
        json += n;
        left -= (size_t)n;
    }
}

void str_xml(struct str *s, const char *text)
{
    for (size_t left = strlen(text); left;) {
        int n = utf8_sequence(text, left);
        if (*text == '&')
            str_append(s, "&amp;");
        else if (*text == '<')
            str_append(s, "&lt;");
        else if (*text == '>')
            str_append(s, "&gt;");
        else if (*text == '"')
            str_append(s, "&quot;");
        else if (!n || (unsigned char)*text < ' ')
            str_append(s, "?");
        else
            str_append_n(s, text, (size_t)n);
        text += n ? n : 1;
        left -= (size_t)(n ? n : 1);
    }
}

static size_t escape(char *out, size_t room, const char *text, size_t n)
{
    size_t w = 0;
    for (size_t i = 0; i < n && w + 5 < room;) {
        int bytes = utf8_printable(text + i, n - i);
        if (bytes)
            memcpy(out + w, text + i, (size_t)bytes);
        w += bytes ? (size_t)bytes : (size_t)snprintf(out + w, room - w, "\\x%02X", (unsigned char)text[i]);
        i += bytes ? (size_t)bytes : 1;
    }
    out[w] = 0;
    return w;
}

size_t text_escape(char *out, size_t room, const char *text)
{
    return escape(out, room, text, strlen(text));
}

static void append_escaped(struct str *s, const char *text, size_t n)
{
    if (reserve(s, 4 * n + 5))
        s->n += escape(s->s + s->n, 4 * n + 6, text, n);
}

void str_escape(struct str *s, const char *text)
{
    append_escaped(s, text, strlen(text));
}

void str_escape_str(struct str *s, const struct str *text)
{
    append_escaped(s, str_text(text), text->n);
}

const char *number_word(double x)
{
    return isfinite(x) ? NULL : isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

void str_json_number(struct str *s, double x, int digits)
{
    const char *word = number_word(x);
    if (word)
        str_printf(s, "\"%s\"", word);
    else
        str_printf(s, "%.*g", digits, x);
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

size_t utf8_prefix(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t w;
        if (n - i >= sizeof w) {
            memcpy(&w, s + i, sizeof w);
            const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
            if (!((w | ((w - ones) & ~w)) & tops)) { /* eight bytes of ASCII, none 0 */
                i += sizeof w;
                continue;
            }
        }
        int length = s[i] ? utf8_sequence(s + i, n - i) : 0;
        if (!length)
            break;
        i += (size_t)length;
    }
    return i;
}

int utf8_printable(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    int len = s[0] < 0x20 || s[0] == 0x7F ? 0 : utf8_sequence(text, n);
    uint32_t c = len > 1 ? code_point(text, len) : 0;
    bool steers = (c >= 0x80 && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
                  (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return steers ? 0 : len;
}
