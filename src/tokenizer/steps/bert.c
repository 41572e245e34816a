/* The order of the steps is BertNormalizer's: clean, space out ideographs, decompose and drop marks, lower-case. They
 * run as one pass: only canonical ordering, which sorts the combining characters behind a base character by their
 * class, needs to hold characters back (scratch: chars). */
#include "tokenizer/steps/bert.h"

#include "base/mem.h"
#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* One character becomes at most this many bytes: 4 of a decomposition, 4 bytes each, between two blanks. */
enum { WIDEST = 24 };

struct pass {
    const struct bert_normalizer *n;
    const uint8_t *flags;
    struct scratch *scratch;
    struct text_buf *to;
    size_t left; /* bytes of input from the current character on */
    struct text in;
    size_t start, end; /* the current character */
    struct snug_err *err;
};

void bert_normalizer_init(struct bert_normalizer *n, const uint8_t *flags)
{
    n->strip_accents = n->stated_accents == FLAG_NULL ? n->lowercase : n->stated_accents;
    for (int c = 0; c < 128; c++) {
        n->ascii[c] = (unsigned char)c;
        if (n->lowercase && c >= 'A' && c <= 'Z')
            n->ascii[c] = (unsigned char)(c - 'A' + 'a');
        if (n->clean_text && flags[c] & CHAR_SPACE)
            n->ascii[c] = ' ';
        if (n->clean_text && flags[c] & CHAR_DROP)
            n->ascii[c] = ASCII_DROP;
    }
}

/* Room for `more` bytes and then for all that is left if it is ASCII, so that the loop over ASCII need not ask. */
static int make_room(struct pass *p, size_t more)
{
    return text_room(p->to, more + p->left, p->err);
}

/* The end of the pipeline, within the room made before. */
static void emit(struct pass *p, uint32_t c)
{
    struct text_buf *o = p->to;
    if (p->n->strip_accents && char_flags(p->flags, c) & CHAR_MARK)
        return;
    if (p->n->lowercase && char_flags(p->flags, c) & CHAR_LOWER) {
        if (c == 0x130) {
            o->n += (size_t)utf8_encode('i', o->s + o->n);
            c = 0x307;
        } else {
            c = char_lower(c);
        }
    }
    o->n += (size_t)utf8_encode(c, o->s + o->n);
}

/* Emits the run of combining characters sorted by class, equal classes in their order. A pass per class that occurs
 * keeps it linear in the length of the run, which a hostile text can make a million. */
static int flush_run(struct pass *p)
{
    struct scratch *o = p->scratch;
    bool occurs[256] = {false};
    for (size_t i = 0; i < o->n_chars; i++)
        occurs[o->chars[i] >> 24] = true;
    TRY(make_room(p, o->n_chars * 4 + WIDEST));
    size_t nth = 0;
    for (uint32_t class = 1; class < 256; class ++)
        for (size_t i = 0; occurs[class] && i < o->n_chars; i++)
            if (o->chars[i] >> 24 == class) {
                if (p->to->placed) /* the places keep their order, as the library has it */
                    text_set_place(p->to, (struct text){"", 1, &o->char_places[nth++]}, 0, 1);
                emit(p, o->chars[i] & 0xFFFFFF);
            }
    o->n_chars = 0;
    text_from(p->to, p->in, p->start, p->end);
    return 0;
}

/* A character that is its own decomposition. */
static int order(struct pass *p, uint32_t c, uint32_t class)
{
    struct scratch *o = p->scratch;
    if (class == 0) {
        if (o->n_chars)
            TRY(flush_run(p));
        emit(p, c);
        return 0;
    }
    if (!MEM_GROW(o->chars, o->chars_cap, o->n_chars + 1) ||
        (p->to->placed && !MEM_GROW(o->char_places, o->char_places_cap, o->n_chars + 1)))
        return err_no_memory(p->err, (o->n_chars + 1) * sizeof *o->chars);
    if (p->to->placed)
        o->char_places[o->n_chars] = p->to->place;
    o->chars[o->n_chars++] = class << 24 | c;
    return 0;
}

static int decompose(struct pass *p, uint32_t c)
{
    if (!p->n->strip_accents || !(char_flags(p->flags, c) & CHAR_NFD))
        return order(p, c, 0);
    utf8proc_int32_t parts[4];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, 4, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        TRY(order(p, (uint32_t)parts[i], (uint32_t)utf8proc_get_property(parts[i])->combining_class));
    return 0;
}

static int beyond_ascii(struct pass *p, uint32_t c)
{
    uint8_t f = char_flags(p->flags, c);
    if (p->n->clean_text && f & CHAR_DROP)
        return 0;
    if (p->n->clean_text && f & CHAR_SPACE)
        return order(p, ' ', 0);
    if (!(p->n->handle_chinese_chars && f & CHAR_HAN))
        return decompose(p, c);
    TRY(order(p, ' ', 0));
    TRY(decompose(p, c));
    return order(p, ' ', 0);
}

int bert_normalize(const struct bert_normalizer *n, const uint8_t *flags, struct text in, struct scratch *s,
                   struct text_buf *to, struct snug_err *err)
{
    const char *text = in.s;
    size_t bytes = in.n;
    struct pass p = {.n = n, .flags = flags, .scratch = s, .to = to, .left = bytes, .in = in, .err = err};
    s->n_chars = 0;
    TRY(make_room(&p, WIDEST));
    for (size_t i = 0; i < bytes;) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x80) {
            i++;
            unsigned char as = n->ascii[byte];
            if (as == ASCII_DROP)
                continue;
            p.start = i - 1;
            p.end = i;
            if (s->n_chars) {
                p.left = bytes - i + 1;
                TRY(flush_run(&p));
            }
            text_from(to, in, p.start, p.end);
            to->s[to->n++] = (char)as;
        } else {
            uint32_t c;
            p.left = bytes - i;
            TRY(make_room(&p, 2 * WIDEST));
            p.start = i;
            i += (size_t)utf8_decode(text + i, &c);
            p.end = i;
            text_from(to, in, p.start, p.end);
            TRY(beyond_ascii(&p, c));
        }
    }
    p.left = 0;
    return s->n_chars ? flush_run(&p) : 0;
}

static inline uint8_t flags_at(const uint8_t *flags, const char *text, int *bytes)
{
    unsigned char byte = (unsigned char)*text;
    if (byte < 0x80)
        return *bytes = 1, flags[byte];
    uint32_t c;
    *bytes = utf8_decode(text, &c);
    return char_flags(flags, c);
}

size_t bert_next_word(const uint8_t *flags, const char *text, size_t bytes, size_t *at)
{
    size_t start = *at;
    int n = 0;
    uint8_t f = 0;
    while (start < bytes && (f = flags_at(flags, text + start, &n)) & CHAR_SPACE)
        start += (size_t)n;
    *at = start;
    if (start == bytes)
        return 0;
    if (f & CHAR_PUNCT)
        return (size_t)n;
    size_t end = start + (size_t)n;
    while (end < bytes && !(flags_at(flags, text + end, &n) & (CHAR_SPACE | CHAR_PUNCT)))
        end += (size_t)n;
    return end - start;
}

int normalizer_BertNormalizer_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    struct bert_normalizer *n = step_state(t, sizeof *n, state, err);
    if (!n)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "normalizer", err, "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"));
    bool strip = false;
    TRY(json_get_bool(o, t->path, "clean_text", true, &n->clean_text, err));
    TRY(json_get_bool(o, t->path, "handle_chinese_chars", true, &n->handle_chinese_chars, err));
    TRY(json_get_bool(o, t->path, "lowercase", true, &n->lowercase, err));
    TRY(json_get_bool(o, t->path, "strip_accents", false, &strip, err));
    n->stated_accents = json_is_boolean(json_object_get(o, "strip_accents")) ? strip : FLAG_NULL;
    bert_normalizer_init(n, t->flags);
    return 0;
}

int normalizer_BertNormalizer_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)
{
    return bert_normalize(state, e->t->flags, in, e->s, out, e->err);
}

struct bert_normalizer *tokenizer_bert_normalizer(const struct tokenizer *t)
{
    bool only = tokenizer_only_step(t, STEP_NORMALIZER, "BertNormalizer");
    return only ? t->steps[STEP_NORMALIZER].list[0].state : NULL;
}

int pre_tokenizer_BertPreTokenizer_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    return ONLY_KEYS_OF(t, o, "pre_tokenizer", err, "type");
}

int pre_tokenizer_BertPreTokenizer_run(const void *state, struct encoder *e, struct words *w)
{
    (void)state;
    words_begin(e, w);
    for (size_t i = 0; i < w->n; i++) {
        struct span word = w->spans[i];
        size_t at = 0, n;
        while ((n = bert_next_word(e->t->flags, w->text.s + word.start, word.end - word.start, &at))) {
            TRY(words_add(e, w, (struct span){word.start + at, word.start + at + n, word.begins && !at}));
            at += n;
        }
    }
    words_end(e, w);
    return 0;
}
