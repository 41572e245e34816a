/* Precompiled: sentencepiece's normalization rules, as a double-array trie (darts-clone) whose leaves are places in a text of
 * replacements. As the library does it: a grapheme cluster of up to 5 bytes is looked up whole, and the first, shortest, rule that
 * begins it replaces all of it; then, or in a longer cluster, so is each code point. */
#include "tokenizer/char_class.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum { CLUSTER_MOST = 5 };

struct charsmap {
    uint32_t *units; /* (n) */
    size_t n;
    char *texts; /* (n_texts), each ends in a 0 byte, the last one too */
    size_t n_texts;
};

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

int normalizer_Precompiled_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct charsmap *m = step_state(t, sizeof *m, state, err);
    const char *text;
    size_t n;
    if (!m)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "normalizer", err, "precompiled_charsmap"));
    TRY(json_get_string(o, t->path, "precompiled_charsmap", true, &text, err));
    size_t length = strlen(text), room = length / 4 * 3 + 4;
    unsigned char *data = arena_alloc(&t->arena, room);
    m->units = arena_alloc(&t->arena, room);
    m->texts = arena_alloc(&t->arena, room);
    if (!data || !m->units || !m->texts)
        return err_no_memory(err, 3 * room);
    if (!base64(text, length, data, &n) || !parse(m, data, n))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: normalizer.precompiled_charsmap is not what sentencepiece writes; is the file "
                       "complete?",
                       t->path);
    return 0;
}

/* The replacement of the shortest rule that begins `s`; NULL: none. */
static const char *find_rule(const struct charsmap *m, struct text s)
{
    size_t at = 0;
    uint32_t unit = m->units[0];
    at ^= (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.s[i];
        at ^= c;
        if (c == 0 || at >= m->n)
            return NULL;
        unit = m->units[at];
        if ((unit & (1u << 31 | 0xFF)) != c)
            return NULL;
        at ^= (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
        if (unit >> 8 & 1) {
            size_t text = at < m->n ? m->units[at] & 0x7FFFFFFF : m->n_texts;
            return text < m->n_texts ? m->texts + text : NULL;
        }
    }
    return NULL;
}

static bool extends(uint32_t c)
{
    if (c < 0x300)
        return false;
    if (c <= 0xFFFF)
        return char_in_class(c, CLASS_EXTENDERS);
    int class = utf8proc_get_property((utf8proc_int32_t)c)->boundclass;
    return class == UTF8PROC_BOUNDCLASS_EXTEND || class == UTF8PROC_BOUNDCLASS_SPACINGMARK;
}

/* Bytes of the grapheme cluster at s, or more than CLUSTER_MOST. Of its rules those count that make clusters of so few bytes:
 * CR LF, and what extends the character before it. */
static size_t cluster(struct text s)
{
    uint32_t c;
    size_t n = (size_t)utf8_decode(s.s, &c);
    if (c == '\r' && s.n > 1 && s.s[1] == '\n')
        return 2;
    bool control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD;
    while (!control && n < s.n && n <= CLUSTER_MOST) {
        size_t more = (size_t)utf8_decode(s.s + n, &c);
        if (!extends(c))
            break;
        n += more;
    }
    return n;
}

/* Its characters stand for those of `in`, one by one; what is more than those for the last one. */
static int append_rule(struct encoder *e, const char *rule, struct text in, struct text_buf *out)
{
    size_t n = strlen(rule), at = 0, next = 0;
    if (!out->placed)
        return text_append(out, rule, n, e->err);
    for (size_t i = 0, bytes; i < n; i += bytes) {
        if (next < in.n) {
            at = next;
            next += (size_t)utf8_sequence(in.s + at, in.n - at);
        }
        text_from(out, in, at, next);
        bytes = (size_t)utf8_sequence(rule + i, n - i);
        TRY(text_append(out, rule + i, bytes, e->err));
    }
    return 0;
}

int normalizer_Precompiled_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    const struct charsmap *m = state;
    TRY(text_room(out, in.n, e->err));
    for (size_t i = 0; i < in.n;) {
        struct text rest = text_part(in, i, in.n);
        size_t n = cluster(rest);
        const char *rule = n <= CLUSTER_MOST ? find_rule(m, text_part(rest, 0, n)) : NULL;
        if (!rule) {
            uint32_t c;
            n = (size_t)utf8_decode(rest.s, &c);
            rule = find_rule(m, text_part(rest, 0, n));
        }
        TRY(rule ? append_rule(e, rule, text_part(rest, 0, n), out) : text_copy(out, rest, 0, n, e->err));
        i += n;
    }
    return 0;
}
