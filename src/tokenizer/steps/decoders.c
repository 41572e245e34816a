/* Decoders that are nobody's counterpart, or whose counterpart is a model: WordPiece, ByteFallback, Fuse, Strip, BPEDecoder. */
#include "base/mem.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>

static int no_settings(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    return ONLY_KEYS_OF(t, o, "decoder", err, "type");
}

struct wordpiece {
    const char *prefix;
    bool cleanup;
};

int decoder_WordPiece_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct wordpiece *w = step_state(t, sizeof *w, state, err);
    if (!w)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "decoder", err, "prefix", "cleanup"));
    TRY(step_get_string(t, o, "prefix", true, &w->prefix, err));
    return json_get_bool(o, t->path, "cleanup", true, &w->cleanup, err);
}

/* Takes back, within one token, the blanks that splitting put in: each rule over the whole text, one after the other. */
static size_t clean_up(char *s, size_t n)
{
    static const char *const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        size_t from = strlen(rules[r][0]), to = strlen(rules[r][1]), kept = 0; /* to <= from */
        for (size_t i = 0; i < n;) {
            bool match = n - i >= from && !memcmp(s + i, rules[r][0], from);
            memmove(s + kept, match ? rules[r][1] : s + i, match ? to : 1);
            kept += match ? to : 1;
            i += match ? from : 1;
        }
        n = kept;
    }
    return n;
}

int decoder_WordPiece_run(const void *state, struct encoder *e, struct words *w)
{
    const struct wordpiece *p = state;
    size_t prefix = strlen(p->prefix);
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        struct text token = word_text(w, i);
        size_t start = to->n;
        bool continues = i && token.n >= prefix && !memcmp(token.s, p->prefix, prefix);
        if (i && !continues)
            TRY(text_append(to, " ", 1, e->err));
        size_t skip = continues ? prefix : 0;
        TRY(text_append(to, token.s + skip, token.n - skip, e->err));
        if (p->cleanup && to->n > start)
            to->n = start + clean_up(to->s + start, to->n - start);
        TRY(words_add(e, w, (struct span){start, to->n, false}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}

int decoder_ByteFallback_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

/* The byte of "<0x41>"; -1: another token. */
static int byte_token(struct text token)
{
    static const char hex[] = "0123456789abcdef0123456789ABCDEF";
    if (token.n != 6 || memcmp(token.s, "<0x", 3) != 0 || token.s[5] != '>')
        return -1;
    const char *high = memchr(hex, token.s[3], 32), *low = memchr(hex, token.s[4], 32);
    return high && low ? (int)((high - hex) % 16 * 16 + (low - hex) % 16) : -1;
}

/* Neighbouring bytes are one text; if it is not UTF-8, each byte is a U+FFFD. */
int decoder_ByteFallback_run(const void *state, struct encoder *e, struct words *w)
{
    (void)state;
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n;) {
        size_t start = to->n, bytes = 0;
        int byte;
        for (; i < w->n && (byte = byte_token(word_text(w, i))) >= 0; i++, bytes++)
            TRY(text_append(to, (const char[]){(char)byte}, 1, e->err));
        bool valid = true;
        for (size_t at = start; valid && at < to->n;) {
            int n = utf8_sequence(to->s + at, to->n - at);
            valid = n > 0;
            at += (size_t)n;
        }
        if (!valid) {
            to->n = start;
            for (size_t k = 0; k < bytes; k++)
                TRY(text_append(to, "\xEF\xBF\xBD", 3, e->err));
        }
        if (!bytes)
            TRY(text_append(to, word_text(w, i).s, word_text(w, i).n, e->err));
        i += !bytes;
        TRY(words_add(e, w, (struct span){start, to->n, false}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}

int decoder_Fuse_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return no_settings(t, o, err);
}

int decoder_Fuse_run(const void *state, struct encoder *e, struct words *w)
{
    (void)state;
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++)
        TRY(text_append(to, word_text(w, i).s, word_text(w, i).n, e->err));
    TRY(words_add(e, w, (struct span){0, to->n, false}));
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}

struct strip {
    const char *content; /* one character */
    int64_t start, stop; /* at most so many from either end of each token */
};

int decoder_Strip_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct strip *s = step_state(t, sizeof *s, state, err);
    if (!s)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "decoder", err, "content", "start", "stop"));
    TRY(step_get_string(t, o, "content", true, &s->content, err));
    TRY(json_get_int(o, t->path, "start", true, 0, INT64_MAX, &s->start, err));
    return json_get_int(o, t->path, "stop", true, 0, INT64_MAX, &s->stop, err);
}

int decoder_Strip_run(const void *state, struct encoder *e, struct words *w)
{
    const struct strip *s = state;
    size_t n = strlen(s->content);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        struct span span = w->spans[i];
        const char *text = w->text.s;
        for (int64_t k = 0;
             n && k < s->start && span.end - span.start >= n && !memcmp(text + span.start, s->content, n); k++)
            span.start += n;
        for (int64_t k = 0;
             n && k < s->stop && span.end - span.start >= n && !memcmp(text + span.end - n, s->content, n); k++)
            span.end -= n;
        TRY(words_add(e, w, span));
    }
    words_end(e, w);
    return 0;
}

int decoder_BPEDecoder_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct pattern *suffix = step_state(t, sizeof *suffix, state, err);
    if (!suffix)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "decoder", err, "suffix"));
    TRY(step_get_string(t, o, "suffix", true, &suffix->literal, err));
    suffix->n = strlen(suffix->literal);
    return 0;
}

/* The suffix is where a word ends: a blank, but for the last. */
int decoder_BPEDecoder_run(const void *state, struct encoder *e, struct words *w)
{
    const struct pattern *suffix = state;
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        size_t start = to->n;
        TRY(pattern_replace(suffix, e, word_text(w, i), i + 1 < w->n ? " " : "", to));
        TRY(words_add(e, w, (struct span){start, to->n, false}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}
