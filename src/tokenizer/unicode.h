/* unicode.h: properties of code points as Hugging Face's tokenizers library sees them (see unicode_tables.py), and
 * UTF-8 of text that is known to be valid. */
#ifndef TOKENIZER_UNICODE_H
#define TOKENIZER_UNICODE_H

#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

/* ORDER char_flag: unicode_tables.py numbers the bits */
enum char_flag {
    CHAR_DROP = 1 << 0,  /* removed by clean_text: control, format, private use, U+FFFD */
    CHAR_SPACE = 1 << 1, /* White_Space */
    CHAR_PUNCT = 1 << 2, /* punctuation, and the symbols of ASCII */
    CHAR_HAN = 1 << 3,   /* an ideograph that becomes a word of its own */
    CHAR_MARK = 1 << 4,  /* nonspacing mark */
    CHAR_NFD = 1 << 5,   /* has a canonical decomposition or a combining class */
    CHAR_LOWER = 1 << 6, /* has another lower case */
    CHAR_WORD = 1 << 7,  /* \w of regular expressions */
};

/* (0x10000) the flags of the code points of plane 0, where nearly all text is; for mem_free; NULL when memory is out.
 */
uint8_t *char_flags_new(void);
uint8_t char_flags_search(uint32_t c); /* of any code point, in some ten steps */

static inline uint8_t char_flags(const uint8_t *plane0, uint32_t c)
{
    return c < 0x10000 ? plane0[c] : char_flags_search(c);
}

uint32_t char_lower(uint32_t c);       /* of a CHAR_LOWER other than U+0130, whose lower case is "i" and U+0307 */
struct hash128 char_tables_hash(void); /* changes when the tables do */

/* Decodes the character at `s`; returns its bytes. */
static inline int utf8_decode(const char *text, uint32_t *c)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return *c = s[0], 1;
    if (s[0] < 0xE0)
        return *c = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu), 2;
    if (s[0] < 0xF0)
        return *c = (s[0] & 0xFu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu), 3;
    return *c = (s[0] & 0x7u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu), 4;
}

/* `s` (n bytes) does not begin with valid UTF-8: how many bytes one U+FFFD stands for, the longest part that could begin a
 * character (Unicode Standard 3.9, "maximal subpart"), as Rust's from_utf8_lossy has it. */
static inline size_t utf8_broken(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    size_t want = s[0] < 0xC2 || s[0] > 0xF4 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (want == 1 || n < 2 || s[1] < low || s[1] > high)
        return 1;
    size_t i = 2;
    while (i < want && i < n && (s[i] & 0xC0) == 0x80)
        i++;
    return i;
}

/* Bytes of the character that ends before text + at; at > 0. */
static inline int utf8_back(const char *text, size_t at)
{
    int n = 1;
    while (((unsigned char)text[at - (size_t)n] & 0xC0) == 0x80)
        n++;
    return n;
}

/* Writes at most 4 bytes; returns how many. */
static inline int utf8_encode(uint32_t c, char *s)
{
    if (c < 0x80)
        return s[0] = (char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6)
        s[i] = (char)(0x80 | (c & 0x3F));
    s[0] = (char)((0xF00 >> n) | c);
    return n;
}

#endif
