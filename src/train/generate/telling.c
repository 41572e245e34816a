#include "train/generate/telling.h"

#include <string.h>

/* Bytes of text that stay whatever follows: not a character of which bytes are lacking, which is U+FFFD so far. */
static size_t lasting(const struct str *text, bool ended)
{
    size_t n = text->n;
    while (!ended && n >= 3 && !memcmp(str_text(text) + n - 3, "\xEF\xBF\xBD", 3))
        n -= 3;
    return n;
}

static int decode(struct telling *t, const struct tokenizer *tokenizer, const int32_t *ids, int64_t n,
                  struct snug_err *err)
{
    t->text.n = 0;
    return tokenizer_decode(tokenizer, ids, (size_t)n, true, &t->text, err);
}

/* A token <0xE4> stands for a byte. Neighbours among them are characters together, or none of them is one. Tokens without a text stand
 * between them unseen. */
static int look_for_bytes(struct telling *t, const struct tokenizer *tokenizer, const int32_t *ids, int64_t n,
                          struct snug_err *err)
{
    for (; t->seen < n; t->seen++) {
        const char *token = tokenizer_token(tokenizer, ids[t->seen]);
        bool byte = token && strlen(token) == 6 && !strncmp(token, "<0x", 3) && token[5] == '>';
        if (!byte && t->open) {
            TRY(decode(t, tokenizer, ids + t->seen, 1, err));
            byte = !t->text.n;
        }
        t->open = byte;
    }
    return SNUG_OK;
}

/* All text of the first `whole` tokens is told, and ends with a whole character: from now on the tokens since the last such place are
 * enough, if they have a text that can stand before others. */
static int settle(struct telling *t, const struct tokenizer *tokenizer, const int32_t *ids, struct snug_err *err)
{
    TRY(decode(t, tokenizer, ids + t->settled, t->whole - t->settled, err));
    if (!t->text.n)
        return SNUG_OK;
    t->from = t->settled;
    t->settled = t->whole;
    t->told = t->text.n;
    return SNUG_OK;
}

static int begin(struct telling *t, const struct tokenizer *tokenizer, const int32_t *ids, int64_t n_prompt,
                 struct snug_err *err)
{
    TRY(decode(t, tokenizer, ids, n_prompt, err));
    t->told = t->text.n;
    t->begun = true;
    return SNUG_OK;
}

int telling_next(struct telling *t, const struct tokenizer *tokenizer, const int32_t *ids, int64_t n_prompt, int64_t n,
                 bool ended, const char **piece, size_t *bytes, struct snug_err *err)
{
    *piece = "";
    *bytes = 0;
    TRY(look_for_bytes(t, tokenizer, ids, n, err));
    if (!ended && (t->open || n < t->retry))
        return SNUG_OK;
    if (!t->begun)
        TRY(begin(t, tokenizer, ids, n_prompt, err));
    if (t->whole)
        TRY(settle(t, tokenizer, ids, err));
    TRY(decode(t, tokenizer, ids + t->from, n - t->from, err));
    size_t end = lasting(&t->text, ended);
    if (end > t->told) {
        *piece = str_text(&t->text) + t->told;
        *bytes = end - t->told;
        t->told = end;
    }
    t->whole = t->told == t->text.n ? n : 0;
    t->retry = t->whole ? 0 : n + (n - t->from) / 16;
    return SNUG_OK;
}

void telling_free(struct telling *t)
{
    str_free(&t->text);
    *t = (struct telling){0};
}
