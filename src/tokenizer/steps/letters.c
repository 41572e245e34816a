/* Normalizers that look at one character at a time: Lowercase, StripAccents, Strip, Nmt; and Prepend. */
#include "tokenizer/char_class.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>

/* What a character becomes: at most two. Returns how many. */
typedef int map_char(const struct encoder *e, uint32_t c, uint32_t to[2]);

static int map_text(struct encoder *e, struct text in, struct text_buf *out, map_char *map)
{
    TRY(text_room(out, in.n, e->err));
    for (size_t i = 0; i < in.n;) {
        uint32_t c, to[2];
        size_t start = i;
        i += (size_t)utf8_decode(in.s + i, &c);
        text_from(out, in, start, i);
        int n = map(e, c, to);
        TRY(text_room(out, 8 + in.n - i, e->err));
        for (int k = 0; k < n; k++)
            out->n += (size_t)utf8_encode(to[k], out->s + out->n);
    }
    return 0;
}

static int no_settings(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    return ONLY_KEYS_OF(t, o, "normalizer", err, "type");
}

static int lower(const struct encoder *e, uint32_t c, uint32_t to[2])
{
    to[0] = c;
    if (c == 0x130) { /* İ */
        to[0] = 'i';
        to[1] = 0x307;
        return 2;
    }
    if (char_flags(e->t->flags, c) & CHAR_LOWER)
        to[0] = char_lower(c);
    return 1;
}

int normalizer_Lowercase_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

int normalizer_Lowercase_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    (void)state;
    return map_text(e, in, out, lower);
}

static int drop_accent(const struct encoder *e, uint32_t c, uint32_t to[2])
{
    (void)e;
    to[0] = c;
    return c < 0x300 || !char_in_class(c, CLASS_ACCENT);
}

int normalizer_StripAccents_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

int normalizer_StripAccents_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    (void)state;
    return map_text(e, in, out, drop_accent);
}

/* As sentencepiece's nmt rules: control characters go, white space and what has no width is a blank. */
static int nmt(const struct encoder *e, uint32_t c, uint32_t to[2])
{
    (void)e;
    to[0] = c;
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
        return 0;
    if (c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
        c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD)
        to[0] = ' ';
    return 1;
}

int normalizer_Nmt_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

int normalizer_Nmt_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    (void)state;
    return map_text(e, in, out, nmt);
}

struct strip {
    bool left, right;
};

int normalizer_Strip_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct strip *s = step_state(t, sizeof *s, state, err);
    if (!s)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "normalizer", err, "strip_left", "strip_right"));
    TRY(json_get_bool(o, t->path, "strip_left", true, &s->left, err));
    return json_get_bool(o, t->path, "strip_right", true, &s->right, err);
}

int normalizer_Strip_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    const struct strip *s = state;
    uint32_t c;
    size_t start = 0, end = in.n;
    while (s->left && start < end) {
        size_t n = (size_t)utf8_decode(in.s + start, &c);
        if (!(char_flags(e->t->flags, c) & CHAR_SPACE))
            break;
        start += n;
    }
    while (s->right && start < end) {
        size_t n = (size_t)utf8_back(in.s, end);
        utf8_decode(in.s + end - n, &c);
        if (!(char_flags(e->t->flags, c) & CHAR_SPACE))
            break;
        end -= n;
    }
    return text_copy(out, in, start, end, e->err);
}

int normalizer_Prepend_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    const char **prefix = step_state(t, sizeof *prefix, state, err);
    if (!prefix)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "normalizer", err, "prepend"));
    return step_get_string(t, o, "prepend", true, prefix, err);
}

int normalizer_Prepend_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    const char *const *prefix = state;
    if (in.n)
        TRY(text_before(out, in, *prefix, e->err));
    return text_copy(out, in, 0, in.n, e->err);
}
