/* Rules of normalization: see charsmap.h. */
#include "tokenizer/charsmap.h"

#include "base/str.h"

#include <string.h>

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* *n: bytes written to `to`, which has room for 3 of every 4 characters; false: not base64. */
static bool base64(const char *s, size_t length, unsigned char *to, size_t *n)
{
    uint32_t bits = 0;
    *n = 0;
    size_t digits = length;
    while (digits && digits + 2 > length && s[digits - 1] == '=')
        digits--;
    if (length % 4)
        return false;
    for (size_t i = 0; i < digits; i++) {
        int d = base64_digit(s[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4)
            to[(*n)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return true;
}

static bool parse(struct charsmap *m, const unsigned char *data, size_t n)
{
    if (n < 4)
        return false;
    uint32_t bytes = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    if (bytes % 4 || bytes > n - 4 || bytes == 0)
        return false;
    m->n = bytes / 4;
    for (size_t i = 0; i < m->n; i++) {
        const unsigned char *u = data + 4 + 4 * i;
        m->units[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    m->n_texts = n - 4 - bytes;
    if (m->n_texts)
        memcpy(m->texts, data + 4 + bytes, m->n_texts);
    m->texts[m->n_texts++] = 0;
    for (size_t i = 0; i < m->n_texts;) {
        int c = utf8_sequence(m->texts + i, m->n_texts - i);
        if (!c)
            return false;
        i += (size_t)c;
    }
    return true;
}

int charsmap_read(struct charsmap *m, struct arena *a, const char *text, bool *good, struct snug_err *err)
{
    size_t n, length = strlen(text), room = length / 4 * 3 + 4;
    unsigned char *data = arena_alloc(a, room);
    m->units = arena_alloc(a, room);
    m->texts = arena_alloc(a, room);
    if (!data || !m->units || !m->texts)
        return err_no_memory(err, 3 * room);
    *good = base64(text, length, data, &n) && parse(m, data, n);
    return SNUG_OK;
}

static size_t below(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

const char *charsmap_find(const struct charsmap *m, const char *s, size_t n, bool longest, size_t *length)
{
    const char *found = NULL;
    size_t at = below(m->units[0]);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        at ^= c;
        if (c == 0 || at >= m->n || (m->units[at] & (1u << 31 | 0xFF)) != c)
            return found;
        bool ends = m->units[at] >> 8 & 1;
        at ^= below(m->units[at]);
        if (!ends)
            continue;
        size_t text = at < m->n ? m->units[at] & 0x7FFFFFFF : m->n_texts;
        found = text < m->n_texts ? m->texts + text : NULL;
        *length = i + 1;
        if (!longest || !found)
            return found;
    }
    return found;
}
