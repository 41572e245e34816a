/* NFD, NFC, NFKD, NFKC (Unicode Standard Annex 15): decompose, sort the marks behind each character by their class, and for
 * the composed forms put together again what can be. utf8proc has the tables. The library's are older: a character that it does
 * not know (CHAR_NFD, CLASS_COMPAT) stays as it is. Time is linear: a hostile run of marks is sorted by counting. */
#include "base/mem.h"
#include "tokenizer/char_class.h"
#include "tokenizer/steps/step.h"
#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

enum { WIDEST = 20, CODE_POINT = 0xFFFFFF }; /* the most characters of one decomposition: U+FDFA has 18 */

static int push_char(struct encoder *e, uint32_t c, struct text in)
{
    struct scratch *s = e->s;
    uint32_t class = 0;
    if (c >= 0x300 && char_flags(e->t->flags, c) & CHAR_NFD)
        class = (uint32_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
    if (!MEM_GROW(s->chars, s->chars_cap, s->n_chars + 1) ||
        (e->placed && !MEM_GROW(s->char_places, s->char_places_cap, s->n_chars + 1)))
        return err_no_memory(e->err, (s->n_chars + 1) * sizeof *s->chars);
    if (e->placed)
        s->char_places[s->n_chars] = *in.from;
    s->chars[s->n_chars++] = class << 24 | c;
    return 0;
}

static int decompose(struct encoder *e, struct text in, bool compatible)
{
    e->s->n_chars = 0;
    for (size_t i = 0; i < in.n;) {
        uint32_t c;
        struct text here = text_part(in, i, in.n);
        i += (size_t)utf8_decode(in.s + i, &c);
        bool compat = compatible && c >= 0x80 && char_in_class(c, CLASS_COMPAT);
        if (!compat && (c < 0xC0 || !(char_flags(e->t->flags, c) & CHAR_NFD))) {
            TRY(push_char(e, c, here));
            continue;
        }
        utf8proc_int32_t parts[WIDEST];
        int boundary = 0;
        utf8proc_ssize_t n =
            utf8proc_decompose_char((utf8proc_int32_t)c, parts, WIDEST,
                                    compat ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE, &boundary);
        for (utf8proc_ssize_t k = 0; k < n && k < WIDEST; k++)
            TRY(push_char(e, (uint32_t)parts[k], here));
    }
    return 0;
}

/* Sorts chars[from, to), which all have a class other than 0; equal classes keep their order. `spare` has room for them. Their places
 * stay in the text's order, as the library has it. */
static void sort_marks(uint32_t *chars, size_t from, size_t to, uint32_t *spare)
{
    size_t place[257] = {0};
    bool sorted = true;
    for (size_t i = from + 1; i < to; i++)
        sorted = sorted && chars[i - 1] >> 24 <= chars[i] >> 24;
    if (sorted)
        return;
    for (size_t i = from; i < to; i++)
        place[(chars[i] >> 24) + 1]++;
    for (int class = 0; class < 256; class ++)
        place[class + 1] += place[class];
    for (size_t i = from; i < to; i++)
        spare[place[chars[i] >> 24]++] = chars[i];
    memcpy(chars + from, spare, (to - from) * sizeof *chars);
}

static int sort_all(struct encoder *e)
{
    struct scratch *s = e->s;
    if (!MEM_GROW(s->chars, s->chars_cap, 2 * s->n_chars)) /* the second half is spare */
        return err_no_memory(e->err, 2 * s->n_chars * sizeof *s->chars);
    for (size_t i = 0; i < s->n_chars; i++) {
        size_t to = i;
        while (to < s->n_chars && s->chars[to] >> 24)
            to++;
        if (to > i + 1)
            sort_marks(s->chars, i, to, s->chars + s->n_chars);
        i = to > i ? to - 1 : i;
    }
    return 0;
}

/* What two characters compose to; 0: nothing that the library knows. */
static uint32_t compose_two(const struct encoder *e, uint32_t a, uint32_t b)
{
    utf8proc_int32_t two[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
    if (b < 0x300 || utf8proc_normalize_utf32(two, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) != 1)
        return 0;
    uint32_t c = (uint32_t)two[0];
    return char_flags(e->t->flags, c) & CHAR_NFD ? c : 0;
}

static void shift_places(struct scratch *s, size_t from, size_t to, size_t joined)
{
    for (size_t k = from; k < to; k++)
        s->char_places[k] = s->char_places[k + 1 < to ? k + 1 : joined];
}

/* A mark joins the last character of class 0 unless one of its class or a higher one stands between. */
static void compose(struct encoder *e)
{
    struct scratch *s = e->s;
    size_t kept = 0, starter = SIZE_MAX;
    uint32_t last_class = 0;
    for (size_t i = 0; i < s->n_chars; i++) {
        uint32_t c = s->chars[i] & CODE_POINT, class = s->chars[i] >> 24, whole = 0;
        bool beside = starter + 1 == kept;
        if (starter != SIZE_MAX && (beside || last_class < class))
            whole = compose_two(e, s->chars[starter], c);
        if (whole) {
            s->chars[starter] = whole;
            if (e->placed) /* of marks that were passed over: the library gives each the place of the one behind it */
                shift_places(s, starter + 1, kept, i);
            continue;
        }
        if (class == 0)
            starter = kept;
        last_class = class;
        if (e->placed) /* a composed character keeps the place of its first part, as in the library */
            s->char_places[kept] = s->char_places[i];
        s->chars[kept++] = c;
    }
    s->n_chars = kept;
}

static int normalize(struct encoder *e, struct text in, struct text_buf *out, bool compatible, bool composed)
{
    size_t ascii = 0;
    while (ascii < in.n && !(in.s[ascii] & 0x80))
        ascii++;
    if (ascii == in.n)
        return text_copy(out, in, 0, in.n, e->err);
    TRY(decompose(e, in, compatible));
    TRY(sort_all(e));
    if (composed)
        compose(e);
    TRY(text_room(out, 4 * e->s->n_chars, e->err));
    for (size_t i = 0; i < e->s->n_chars; i++) {
        if (e->placed)
            text_set_place(out, (struct text){"", 1, &e->s->char_places[i]}, 0, 1);
        out->n += (size_t)utf8_encode(e->s->chars[i] & CODE_POINT, out->s + out->n);
    }
    return 0;
}

#define FORM(T, compatible, composed)                                                                                  \
    int normalizer_##T##_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)                      \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        return ONLY_KEYS_OF(t, o, "normalizer", err, "type");                                                          \
    }                                                                                                                  \
    int normalizer_##T##_run(const void *state, struct encoder *e, struct text in, struct text_buf *out)               \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        return normalize(e, in, out, compatible, composed);                                                            \
    }
FORM(NFC, false, true)
FORM(NFD, false, false)
FORM(NFKC, true, true)
FORM(NFKD, true, false)
