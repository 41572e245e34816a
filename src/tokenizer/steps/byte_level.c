/* ByteLevel (GPT-2): each byte of a word is written as a printable character of its own, so that a vocabulary of 256 characters
 * holds every text. Bytes that are printable in Latin-1 stand for themselves, the others for U+0100 on, in their order. */
#include "base/str.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>

static const char gpt2_words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct byte_level {
    bool add_prefix_space;
    const struct regex *words; /* NULL: words stay whole */
    char utf8[256][2];         /* what each byte becomes */
    unsigned char bytes[256];  /* of it: 1 or 2 */
};

static bool stands_for_itself(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

int pre_tokenizer_ByteLevel_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct byte_level *b = step_state(t, sizeof *b, state, err);
    bool regex = true;
    if (!b)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "pre_tokenizer", err, "add_prefix_space", "trim_offsets", "use_regex"));
    TRY(json_get_bool(o, t->path, "add_prefix_space", true, &b->add_prefix_space, err));
    TRY(json_get_bool(o, t->path, "use_regex", false, &regex, err));
    uint32_t next = 0x100;
    for (int byte = 0; byte < 256; byte++)
        b->bytes[byte] = (unsigned char)utf8_encode(stands_for_itself(byte) ? (uint32_t)byte : next++, b->utf8[byte]);
    return regex ? step_regex(t, gpt2_words, &b->words, err) : 0;
}

static int add_prefix_spaces(struct encoder *e, struct words *w)
{
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        struct text word = word_text(w, i);
        size_t start = to->n;
        if (word.n && word.s[0] != ' ')
            TRY(text_before(to, word, " ", e->err));
        TRY(text_copy(to, word, 0, word.n, e->err));
        TRY(words_add(e, w, (struct span){start, to->n, w->spans[i].begins}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}

int pre_tokenizer_ByteLevel_run(const void *state, struct encoder *e, struct words *w)
{
    const struct byte_level *b = state;
    if (b->add_prefix_space || (e->apart && b->words))
        TRY(add_prefix_spaces(e, w));
    if (b->words)
        TRY(words_split(e, w, regex_matcher, b->words, SPLIT_ISOLATED, false));
    struct text_buf *to = words_next_text(e, w);
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        struct text word = word_text(w, i);
        size_t start = to->n;
        TRY(text_room(to, 2 * word.n, e->err));
        for (size_t k = 0; k < word.n; k++) {
            unsigned char byte = (unsigned char)word.s[k];
            text_from(to, word, k, k + 1);
            memcpy(to->s + to->n, b->utf8[byte], 2);
            to->n += b->bytes[byte];
        }
        TRY(words_add(e, w, (struct span){start, to->n, w->spans[i].begins}));
    }
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}

int decoder_ByteLevel_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return ONLY_KEYS(t, o, "decoder", err, "add_prefix_space", "trim_offsets", "use_regex");
}

/* The byte that a character stands for; -1: none. */
static int byte_of(uint32_t c)
{
    if (c < 256)
        return stands_for_itself((int)c) ? (int)c : -1;
    for (int byte = 0, next = 0x100; byte < 256; byte++)
        if (!stands_for_itself(byte) && (uint32_t)next++ == c)
            return byte;
    return -1;
}

/* A token with a character that stands for no byte, such as an added one, is taken as it is. */
static int put_bytes(struct encoder *e, struct text token, struct text_buf *to)
{
    size_t before = to->n;
    TRY(text_room(to, token.n, e->err));
    for (size_t i = 0; i < token.n;) {
        uint32_t c;
        i += (size_t)utf8_decode(token.s + i, &c);
        int byte = byte_of(c);
        if (byte < 0) {
            to->n = before;
            return text_append(to, token.s, token.n, e->err);
        }
        to->s[to->n++] = (char)byte;
    }
    return 0;
}

/* Bytes of all tokens together; what is no UTF-8 becomes U+FFFD, one for each longest part that begins a character. */
int decoder_ByteLevel_run(const void *state, struct encoder *e, struct words *w)
{
    (void)state;
    struct text_buf *bytes = words_next_text(e, w);
    for (size_t i = 0; i < w->n; i++)
        TRY(put_bytes(e, word_text(w, i), bytes));
    words_took_text(w, bytes);
    struct text_buf *to = words_next_text(e, w);
    for (size_t i = 0; i < bytes->n;) {
        size_t broken = 0;
        int n = utf8_sequence(bytes->s + i, bytes->n - i);
        if (!n)
            broken = utf8_broken(bytes->s + i, bytes->n - i);
        TRY(n ? text_append(to, bytes->s + i, (size_t)n, e->err) : text_append(to, "\xEF\xBF\xBD", 3, e->err));
        i += n ? (size_t)n : broken;
    }
    words_begin(e, w);
    TRY(words_add(e, w, (struct span){0, to->n, false}));
    words_took_text(w, to);
    words_end(e, w);
    return 0;
}
