#include "chat/text.h"

#include <string.h>
#include <utf8proc.h>

/* The code point at `s` of valid UTF-8, and its bytes. */
static int32_t point_at(const char *s, size_t n, size_t *bytes)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t used = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
    *bytes = used > 0 ? (size_t)used : 1;
    return used > 0 ? c : -1;
}

static bool is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t chat_space(const char *s, size_t n)
{
    size_t bytes;
    return n && is_space(point_at(s, n, &bytes)) ? bytes : 0;
}

size_t chat_skip_spaces(const char *s, size_t n)
{
    size_t i = 0;
    for (size_t more; (more = chat_space(s + i, n - i)); i += more)
        ;
    return i;
}

/* Bytes of the text's last code point. */
static size_t last_point(const char *s, size_t n)
{
    size_t bytes = 1;
    while (bytes < n && ((unsigned char)s[n - bytes] & 0xc0) == 0x80)
        bytes++;
    return bytes;
}

size_t chat_until_spaces(const char *s, size_t n)
{
    for (size_t bytes; n; n -= bytes) {
        bytes = last_point(s, n);
        if (!chat_space(s + n - bytes, bytes))
            break;
    }
    return n;
}

size_t chat_length(struct chat_value text)
{
    size_t points = 0;
    for (size_t i = 0; i < text.text.n; i++)
        points += ((unsigned char)text.text.s[i] & 0xc0) != 0x80;
    return points;
}

size_t chat_offset(struct chat_value text, size_t points)
{
    size_t i = 0;
    for (; i < text.text.n && points; points--)
        for (i++; i < text.text.n && ((unsigned char)text.text.s[i] & 0xc0) == 0x80;)
            i++;
    return i;
}

size_t chat_find(struct chat_value text, struct chat_value what, size_t from)
{
    if (!what.text.n)
        return from <= text.text.n ? from : CHAT_NOWHERE;
    const char *found =
        from < text.text.n ? memmem(text.text.s + from, text.text.n - from, what.text.s, what.text.n) : NULL;
    return found ? (size_t)(found - text.text.s) : CHAT_NOWHERE;
}

static bool strips(const char *s, size_t n, const struct chat_value *chars)
{
    return chars ? chat_find(*chars, chat_text(s, n), 0) != CHAT_NOWHERE : chat_space(s, n) > 0;
}

struct chat_value chat_strip(struct chat_value v, const struct chat_value *chars, enum chat_side side)
{
    const char *s = v.text.s;
    size_t n = v.text.n;
    for (size_t bytes; side & CHAT_LEFT && n; s += bytes, n -= bytes) {
        point_at(s, n, &bytes);
        if (!strips(s, bytes, chars))
            break;
    }
    for (size_t bytes; side & CHAT_RIGHT && n; n -= bytes) {
        bytes = last_point(s, n);
        if (!strips(s + n - bytes, bytes, chars))
            break;
    }
    return chat_text(s, n);
}

/* ---- new texts ---- */

int chat_replace(struct chat_run *r, struct chat_value v, struct chat_value from, struct chat_value to, int64_t most,
                 struct chat_value *out)
{
    struct str s = {0};
    size_t done = 0, look = 0, at;
    while (most != 0 && s.n <= CHAT_MEMORY && (at = chat_find(v, from, look)) != CHAT_NOWHERE) {
        str_append_n(&s, v.text.s + done, at - done);
        str_append_n(&s, to.text.s, to.text.n);
        done = at + from.text.n;
        look = done;
        if (!from.text.n) { /* between all characters, and at both ends */
            size_t next = chat_offset(chat_text(v.text.s + at, v.text.n - at), 1);
            look = at + (next ? next : 1);
        }
        most -= most > 0;
    }
    str_append_n(&s, v.text.s + done, v.text.n - done);
    return chat_take_str(r, &s, SNUG_OK, out);
}

static int split_at_spaces(struct chat_run *r, struct chat_value v, int64_t most, struct chat_list *list)
{
    const char *s = v.text.s, *end = s + v.text.n;
    for (;;) {
        s += chat_skip_spaces(s, (size_t)(end - s));
        if (s == end)
            return SNUG_OK;
        const char *word = s;
        if (most == 0) /* the rest, with white space at its end */
            return chat_list_add(r, list, chat_text(s, (size_t)(end - s)));
        while (s < end && !chat_space(s, (size_t)(end - s)))
            s++;
        TRY(chat_list_add(r, list, chat_text(word, (size_t)(s - word))));
        most -= most > 0;
    }
}

int chat_split(struct chat_run *r, struct chat_value v, const struct chat_value *separator, int64_t most,
               struct chat_value *out)
{
    struct chat_list *list;
    TRY(chat_list_new(r, CHAT_LIST, 8, &list, out));
    if (!separator)
        return split_at_spaces(r, v, most, list);
    if (!separator->text.n)
        return chat_fail(r, "split: the separator is empty");
    size_t from = 0, at;
    while (most != 0 && (at = chat_find(v, *separator, from)) != CHAT_NOWHERE) {
        TRY(chat_list_add(r, list, chat_text(v.text.s + from, at - from)));
        from = at + separator->text.n;
        most -= most > 0;
    }
    return chat_list_add(r, list, chat_text(v.text.s + from, v.text.n - from));
}

/* As Python's str.splitlines. */
static bool ends_line(int32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

int chat_split_lines(struct chat_run *r, struct chat_value v, struct chat_value *out)
{
    struct chat_list *list;
    TRY(chat_list_new(r, CHAT_LIST, 8, &list, out));
    for (size_t from = 0, at, bytes = 0; from < v.text.n; from = at + bytes) {
        for (at = from; at < v.text.n && !ends_line(point_at(v.text.s + at, v.text.n - at, &bytes));)
            at += bytes;
        TRY(chat_list_add(r, list, chat_text(v.text.s + from, at - from)));
        if (at == v.text.n)
            return SNUG_OK;
        bytes += v.text.s[at] == '\r' && at + 1 < v.text.n && v.text.s[at + 1] == '\n';
    }
    return SNUG_OK;
}

static bool begins_word(int32_t before)
{
    return is_space(before) || (before > 0 && before < 128 && strchr("-({[<", before));
}

/* Letter by letter. Of the few that become two letters only ß does. */
int chat_in_case(struct chat_run *r, struct chat_value v, enum chat_case how, struct chat_value *out)
{
    struct str s = {0};
    const int32_t sharp_s = 0xDF;
    bool inside = false; /* of a word */
    for (size_t i = 0, bytes; i < v.text.n; i += bytes) {
        int32_t c = point_at(v.text.s + i, v.text.n - i, &bytes);
        int32_t upper = utf8proc_toupper(c), lower = utf8proc_tolower(c);
        bool first = i == 0 || ((how == CHAT_TITLE || how == CHAT_WORDS) && !inside);
        bool up = how == CHAT_UPPER || (how != CHAT_LOWER && first);
        utf8proc_uint8_t bytes_of[4];
        utf8proc_ssize_t n = utf8proc_encode_char(up ? upper : lower, bytes_of);
        if (up && c == sharp_s)
            str_append(&s, how == CHAT_UPPER ? "SS" : "Ss");
        else
            str_append_n(&s, (const char *)bytes_of, n > 0 ? (size_t)n : 0);
        inside = how == CHAT_WORDS ? !begins_word(c) : upper != lower;
    }
    return chat_take_str(r, &s, SNUG_OK, out);
}

/* ---- slices ---- */

static int64_t clamp(const int64_t *at, int64_t n, int64_t absent, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    if (!at)
        return absent;
    int64_t x = *at < 0 ? *at + n : *at;
    return x < low ? low : x > high ? high : x;
}

int chat_slice(struct chat_run *r, struct chat_value v, const int64_t *from, const int64_t *to, int64_t step,
               struct chat_value *out)
{
    if (step == 0)
        return chat_fail(r, "a slice with a step of 0");
    const struct chat_list *items;
    TRY(chat_items(r, v, &items));
    int64_t n = (int64_t)items->n;
    int64_t first = clamp(from, n, step > 0 ? 0 : n - 1, step), end = clamp(to, n, step > 0 ? n : -1, step);
    struct chat_list *list;
    struct chat_value all;
    enum chat_kind kind = v.kind == CHAT_TUPLE ? CHAT_TUPLE : CHAT_LIST;
    TRY(chat_list_new(r, kind, 8, &list, &all));
    step = step > n ? n + 1 : step < -n ? -n - 1 : step; /* one item, without overflow */
    for (int64_t i = first; step > 0 ? i < end : i > end; i += step)
        TRY(chat_list_add(r, list, items->items[i]));
    *out = all;
    if (v.kind != CHAT_TEXT)
        return SNUG_OK;
    struct str s = {0};
    for (size_t i = 0; i < list->n; i++)
        str_append_n(&s, list->items[i].text.s, list->items[i].text.n);
    return chat_take_str(r, &s, SNUG_OK, out);
}
