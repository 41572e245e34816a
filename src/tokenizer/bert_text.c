/* The order of the steps is BertNormalizer's: clean, space out ideographs, decompose and drop marks, lower-case. They
 * run as one pass: only canonical ordering, which sorts the combining characters behind a base character by their
 * class, needs to hold characters back (out->run). */
#include "tokenizer/bert_text.h"

#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* One character becomes at most this many bytes: 4 of a decomposition, 4 bytes each, between two blanks. */
enum { WIDEST = 24 };

struct pass {
    const struct bert_normalizer *n;
    const uint8_t *flags;
    struct token_buf *out;
    size_t left; /* bytes of input from the current character on */
    struct snug_err *err;
};

void bert_normalizer_init(struct bert_normalizer *n, const uint8_t *flags)
{
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
    size_t want = p->out->n_normal + more + p->left;
    if (!MEM_GROW(p->out->normal, p->out->normal_cap, want))
        return err_no_memory(p->err, want);
    return 0;
}

/* The end of the pipeline, within the room made before. */
static void emit(struct pass *p, uint32_t c)
{
    struct token_buf *o = p->out;
    if (p->n->strip_accents && char_flags(p->flags, c) & CHAR_MARK)
        return;
    if (p->n->lowercase && char_flags(p->flags, c) & CHAR_LOWER) {
        if (c == 0x130) {
            o->n_normal += (size_t)utf8_encode('i', o->normal + o->n_normal);
            c = 0x307;
        } else {
            c = char_lower(c);
        }
    }
    o->n_normal += (size_t)utf8_encode(c, o->normal + o->n_normal);
}

/* Emits the run of combining characters sorted by class, equal classes in their order. A pass per class that occurs
 * keeps it linear in the length of the run, which a hostile text can make a million. */
static int flush_run(struct pass *p)
{
    struct token_buf *o = p->out;
    bool occurs[256] = {false};
    for (size_t i = 0; i < o->n_run; i++)
        occurs[o->run[i] >> 24] = true;
    TRY(make_room(p, o->n_run * 4 + WIDEST));
    for (uint32_t class = 1; class < 256; class ++)
        for (size_t i = 0; occurs[class] && i < o->n_run; i++)
            if (o->run[i] >> 24 == class)
                emit(p, o->run[i] & 0xFFFFFF);
    o->n_run = 0;
    return 0;
}

/* A character that is its own decomposition. */
static int order(struct pass *p, uint32_t c, uint32_t class)
{
    struct token_buf *o = p->out;
    if (class == 0) {
        if (o->n_run)
            TRY(flush_run(p));
        emit(p, c);
        return 0;
    }
    if (!MEM_GROW(o->run, o->run_cap, o->n_run + 1))
        return err_no_memory(p->err, (o->n_run + 1) * sizeof *o->run);
    o->run[o->n_run++] = class << 24 | c;
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

int bert_normalize(const struct bert_normalizer *n, const uint8_t *flags, const char *text, size_t bytes,
                   struct token_buf *out, struct snug_err *err)
{
    struct pass p = {n, flags, out, bytes, err};
    out->n_normal = out->n_run = 0;
    TRY(make_room(&p, WIDEST));
    for (size_t i = 0; i < bytes;) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x80) {
            i++;
            unsigned char as = n->ascii[byte];
            if (as == ASCII_DROP)
                continue;
            if (out->n_run) {
                p.left = bytes - i + 1;
                TRY(flush_run(&p));
            }
            out->normal[out->n_normal++] = (char)as;
        } else {
            uint32_t c;
            p.left = bytes - i;
            TRY(make_room(&p, 2 * WIDEST));
            i += (size_t)utf8_decode(text + i, &c);
            TRY(beyond_ascii(&p, c));
        }
    }
    p.left = 0;
    return out->n_run ? flush_run(&p) : 0;
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
