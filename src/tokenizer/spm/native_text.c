/* Normalization as SentencePiece does it (its normalizer.cc): at each place the longest piece of a user as it is, else the longest rule,
 * else the character; blanks become "▁", one of them begins the text. */
#include "tokenizer/spm/native.h"
#include "tokenizer/unicode.h"

#include <string.h>

size_t spm_native_user(const struct spm_native *n, struct text s, size_t at)
{
    size_t longest = 0;
    uint32_t node = TRIE_ROOT;
    for (size_t i = at; i < s.n && (node = trie_step(&n->users, node, (unsigned char)s.s[i])); i++)
        if (n->users.values[node] >= 0)
            longest = i + 1 - at;
    return longest;
}

/* What stands for the first bytes of a text, and how many those are. */
struct prefix {
    const char *s;
    size_t n, consumed;
};

static struct prefix next_prefix(const struct spm_native *n, struct text in, size_t at)
{
    size_t bytes = spm_native_user(n, in, at);
    const char *rule = NULL;
    if (!bytes && n->rules)
        rule = charsmap_find(n->rules, in.s + at, in.n - at, true, &bytes);
    if (rule)
        return (struct prefix){rule, strlen(rule), bytes};
    if (!bytes)
        bytes = (size_t)utf8_sequence(in.s + at, in.n - at);
    return (struct prefix){in.s + at, bytes, bytes};
}

static int add_blank(const struct spm_native *n, struct encoder *e, struct text_buf *out)
{
    return n->spm.escapes_blanks ? text_append(out, SPM_BLANK, SPM_BLANK_BYTES, e->err)
                                 : text_append(out, " ", 1, e->err);
}

static int add_prefix(const struct spm_native *n, struct encoder *e, struct prefix p, struct text_buf *out)
{
    while (p.n) {
        const char *blank = memchr(p.s, ' ', p.n);
        size_t before = blank ? (size_t)(blank - p.s) : p.n, taken = before + (blank != NULL);
        TRY(text_append(out, p.s, before, e->err));
        if (blank)
            TRY(add_blank(n, e, out));
        p.s += taken;
        p.n -= taken;
    }
    return SNUG_OK;
}

static void cut_blanks(const struct spm_native *n, struct text_buf *out)
{
    const char *blank = n->spm.escapes_blanks ? SPM_BLANK : " ";
    size_t bytes = strlen(blank);
    while (out->n >= bytes && !memcmp(out->s + out->n - bytes, blank, bytes))
        out->n -= bytes;
    out->n_placed = out->n_placed < out->n ? out->n_placed : out->n;
}

/* Where the text begins without blanks that go. */
static size_t first_place(const struct spm_native *n, struct text in)
{
    size_t at = 0;
    while (n->spm.removes_blanks && at < in.n) {
        struct prefix p = next_prefix(n, in, at);
        if (p.n != 1 || *p.s != ' ')
            break;
        at += p.consumed;
    }
    return at;
}

int spm_native_normalize(const struct spm_native *n, struct encoder *e, struct text in, struct text_buf *out)
{
    size_t at = first_place(n, in);
    bool after_blank = n->spm.removes_blanks;
    if (at == in.n)
        return SNUG_OK;
    text_from(out, in, at, at + (size_t)utf8_sequence(in.s + at, in.n - at));
    if (n->spm.dummy_prefix && !n->spm.blanks_behind)
        TRY(add_blank(n, e, out));
    while (at < in.n) {
        struct prefix p = next_prefix(n, in, at);
        text_from(out, in, at, at + p.consumed);
        at += p.consumed;
        for (; after_blank && p.n && *p.s == ' '; p.n--)
            p.s++;
        TRY(add_prefix(n, e, p, out));
        if (p.n)
            after_blank = n->spm.removes_blanks && p.s[p.n - 1] == ' ';
    }
    if (n->spm.removes_blanks)
        cut_blanks(n, out);
    return n->spm.dummy_prefix && n->spm.blanks_behind ? add_blank(n, e, out) : SNUG_OK;
}
