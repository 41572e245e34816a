/* Precompiled: sentencepiece's normalization rules, as a double-array trie (darts-clone) whose leaves are places in a text of
 * replacements. As the library does it: a grapheme cluster of up to 5 bytes is looked up whole, and the first, shortest, rule that
 * begins it replaces all of it. Without such a rule, and in a longer cluster, each code point is looked up by itself. */
#include "tokenizer/char_class.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum { CLUSTER_MOST = 5 };

int normalizer_Precompiled_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct charsmap *m = step_state(t, sizeof *m, state, err);
    const char *text;
    bool good;
    if (!m)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "normalizer", err, "precompiled_charsmap"));
    TRY(json_get_string(o, t->path, "precompiled_charsmap", true, &text, err));
    TRY(charsmap_read(m, &t->arena, text, &good, err));
    if (!good)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: normalizer.precompiled_charsmap is not what sentencepiece writes; is the file "
                       "complete?",
                       t->path);
    return 0;
}

/* ---- grapheme clusters (UAX 29, extended) ---- */

static bool is_control(int class)
{
    return class == UTF8PROC_BOUNDCLASS_CR || class == UTF8PROC_BOUNDCLASS_LF || class == UTF8PROC_BOUNDCLASS_CONTROL;
}

static bool is_extender(int class)
{
    return class == UTF8PROC_BOUNDCLASS_EXTEND || class == UTF8PROC_BOUNDCLASS_SPACINGMARK ||
           class == UTF8PROC_BOUNDCLASS_ZWJ;
}

/* utf8proc's, but where the library has others: those of Unicode 16 and, of what extends the character before it, a list. */
static int class_of(uint32_t c)
{
    int class = utf8proc_get_property((utf8proc_int32_t)c)->boundclass;
    if (c == 0x113D1)
        return UTF8PROC_BOUNDCLASS_PREPEND;
    if (c == 0x11A3A)
        return UTF8PROC_BOUNDCLASS_OTHER;
    if (is_extender(class) == char_in_class(c, CLASS_EXTENDERS))
        return class;
    return is_extender(class) ? UTF8PROC_BOUNDCLASS_OTHER : UTF8PROC_BOUNDCLASS_EXTEND;
}

/* A syllable of Hangul goes on. */
static bool joins_hangul(int before, int class)
{
    enum { L = UTF8PROC_BOUNDCLASS_L, V = UTF8PROC_BOUNDCLASS_V, T = UTF8PROC_BOUNDCLASS_T };
    enum { LV = UTF8PROC_BOUNDCLASS_LV, LVT = UTF8PROC_BOUNDCLASS_LVT };
    if (before == L)
        return class == L || class == V || class == LV || class == LVT;
    return ((before == LV || before == V) && (class == V || class == T)) ||
           ((before == LVT || before == T) && class == T);
}

/* What is before a character in its cluster. */
struct before {
    int class;       /* of the last one */
    bool pictograph; /* with nothing but extenders behind it */
    bool half_flag;  /* a regional indicator without another */
};

/* Whether a character of that class belongs to the cluster. */
static bool joins(struct before *b, int class)
{
    bool flag = class == UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR, second = flag && b->half_flag;
    bool picture = class == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
    bool joins = b->class == UTF8PROC_BOUNDCLASS_CR && class == UTF8PROC_BOUNDCLASS_LF;
    if (!is_control(b->class) && !is_control(class))
        joins = is_extender(class) || b->class == UTF8PROC_BOUNDCLASS_PREPEND || joins_hangul(b->class, class) ||
                (picture && b->pictograph && b->class == UTF8PROC_BOUNDCLASS_ZWJ) || second;
    *b = (struct before){
        .class = class, .pictograph = picture || (b->pictograph && is_extender(class)), .half_flag = flag && !second};
    return joins;
}

static bool is_plain(char c)
{
    return c >= ' ' && c <= '~';
}

/* Bytes of the grapheme cluster at s. */
static size_t cluster(struct text s)
{
    uint32_t c;
    if (s.n == 1 || (is_plain(s.s[0]) && is_plain(s.s[1])))
        return 1;
    size_t n = (size_t)utf8_decode(s.s, &c);
    struct before b = {.class = UTF8PROC_BOUNDCLASS_CONTROL};
    joins(&b, class_of(c));
    while (n < s.n) {
        size_t more = (size_t)utf8_decode(s.s + n, &c);
        if (!joins(&b, class_of(c)))
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

/* What a rule makes of `in`, or `in` itself. */
static int append(struct encoder *e, const char *rule, struct text in, struct text_buf *out)
{
    return rule ? append_rule(e, rule, in, out) : text_copy(out, in, 0, in.n, e->err);
}

static const char *rule_of(const struct charsmap *m, struct text s)
{
    size_t length;
    return charsmap_find(m, s.s, s.n, false, &length);
}

int normalizer_Precompiled_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    const struct charsmap *m = state;
    TRY(text_room(out, in.n, e->err));
    for (size_t i = 0, n; i < in.n; i += n) {
        n = cluster(text_part(in, i, in.n));
        struct text whole = text_part(in, i, i + n);
        const char *rule = n <= CLUSTER_MOST ? rule_of(m, whole) : NULL;
        if (rule) {
            TRY(append_rule(e, rule, whole, out));
            continue;
        }
        for (size_t k = 0, bytes; k < n; k += bytes) {
            bytes = (size_t)utf8_sequence(whole.s + k, n - k);
            struct text one = text_part(whole, k, k + bytes);
            TRY(append(e, rule_of(m, one), one, out));
        }
    }
    return 0;
}
