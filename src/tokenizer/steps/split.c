/* Pre-tokenizers that cut a text and change nothing in it: Split, Whitespace, WhitespaceSplit, Punctuation, Digits. */
#include "tokenizer/char_class.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

struct split {
    struct pattern pattern;
    enum split_behavior behavior;
    bool invert;
};

int pre_tokenizer_Split_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct split *s = step_state(t, sizeof *s, state, err);
    if (!s)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "pre_tokenizer", err, "pattern", "behavior", "invert"));
    TRY(pattern_read(t, o, "pattern", &s->pattern, err));
    TRY(json_get_bool(o, t->path, "invert", false, &s->invert, err));
    return step_get_behavior(t, o, "pre_tokenizer.behavior", true, &s->behavior, err);
}

int pre_tokenizer_Split_run(const void *state, struct encoder *e, struct words *w)
{
    const struct split *s = state;
    return words_split(e, w, pattern_next, &s->pattern, s->behavior, s->invert);
}

/* The first run of characters without any of the flags `not`, from `at` on. */
static bool find_run(const struct encoder *e, struct text text, size_t at, uint8_t not, size_t *start, size_t *end)
{
    uint32_t c;
    size_t n;
    for (; at < text.n; at += n) {
        n = (size_t)utf8_decode(text.s + at, &c);
        if (!(char_flags(e->t->flags, c) & not ))
            break;
    }
    *start = *end = at;
    for (; *end < text.n; *end += n) {
        n = (size_t)utf8_decode(text.s + *end, &c);
        if (char_flags(e->t->flags, c) & not )
            break;
    }
    return *start < *end;
}

static bool next_non_space(const void *state, struct encoder *e, struct text text, size_t at, size_t *start,
                           size_t *end, int *code)
{
    (void)state, (void)code;
    return find_run(e, text, at, CHAR_SPACE, start, end);
}

/* \w+|[^\w\s]+ */
static bool next_word(const void *state, struct encoder *e, struct text text, size_t at, size_t *start, size_t *end,
                      int *code)
{
    uint32_t c;
    (void)state, (void)code;
    if (!find_run(e, text, at, CHAR_SPACE, start, end))
        return false;
    utf8_decode(text.s + *start, &c);
    if (!(char_flags(e->t->flags, c) & CHAR_WORD))
        return find_run(e, text, *start, CHAR_SPACE | CHAR_WORD, start, end);
    for (*end = *start; *end < text.n;) {
        size_t n = (size_t)utf8_decode(text.s + *end, &c);
        if (!(char_flags(e->t->flags, c) & CHAR_WORD))
            break;
        *end += n;
    }
    return true;
}

static int no_settings(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    return ONLY_KEYS_OF(t, o, "pre_tokenizer", err, "type");
}

int pre_tokenizer_Whitespace_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

int pre_tokenizer_Whitespace_run(const void *state, struct encoder *e, struct words *w)
{
    return words_split(e, w, next_word, state, SPLIT_REMOVED, true);
}

int pre_tokenizer_WhitespaceSplit_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

int pre_tokenizer_WhitespaceSplit_run(const void *state, struct encoder *e, struct words *w)
{
    return words_split(e, w, next_non_space, state, SPLIT_REMOVED, true);
}

static bool next_char(struct encoder *e, struct text text, size_t at, bool (*is)(const struct encoder *, uint32_t),
                      size_t *start, size_t *end)
{
    for (size_t n; at < text.n; at += n) {
        uint32_t c;
        n = (size_t)utf8_decode(text.s + at, &c);
        if (is(e, c)) {
            *start = at;
            *end = at + n;
            return true;
        }
    }
    return false;
}

static bool is_punctuation(const struct encoder *e, uint32_t c)
{
    return char_flags(e->t->flags, c) & CHAR_PUNCT;
}

static bool next_punctuation(const void *state, struct encoder *e, struct text text, size_t at, size_t *start,
                             size_t *end, int *code)
{
    (void)state, (void)code;
    return next_char(e, text, at, is_punctuation, start, end);
}

int pre_tokenizer_Punctuation_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    enum split_behavior *b = step_state(t, sizeof *b, state, err);
    if (!b)
        return SNUG_ERR_ENV;
    *b = SPLIT_ISOLATED;
    TRY(ONLY_KEYS(t, o, "pre_tokenizer", err, "behavior"));
    return step_get_behavior(t, o, "pre_tokenizer.behavior", false, b, err);
}

int pre_tokenizer_Punctuation_run(const void *state, struct encoder *e, struct words *w)
{
    const enum split_behavior *b = state;
    return words_split(e, w, next_punctuation, NULL, *b, false);
}

static bool is_numeric(const struct encoder *e, uint32_t c)
{
    (void)e;
    return c < 0x80 ? c >= '0' && c <= '9' : char_in_class(c, CLASS_NUMERIC);
}

static bool next_digit(const void *state, struct encoder *e, struct text text, size_t at, size_t *start, size_t *end,
                       int *code)
{
    (void)state, (void)code;
    return next_char(e, text, at, is_numeric, start, end);
}

int pre_tokenizer_Digits_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    bool *individual = step_state(t, sizeof *individual, state, err);
    if (!individual)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "pre_tokenizer", err, "individual_digits"));
    return json_get_bool(o, t->path, "individual_digits", false, individual, err);
}

int pre_tokenizer_Digits_run(const void *state, struct encoder *e, struct words *w)
{
    const bool *individual = state;
    return words_split(e, w, next_digit, NULL, *individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false);
}
