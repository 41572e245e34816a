#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void bad_ptx(const char *what, const char *at)
{
    fprintf(stderr, "emulator: %s: %.120s\n", what, at);
    exit(99);
}

void *grown(void *p, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return p;
    *room = *room ? 2 * *room : 64;
    p = realloc(p, *room * size);
    if (!p)
        bad_ptx("no memory", "");
    return p;
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

const char *skip_space(const char *p)
{
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (p[0] != '/' || p[1] != '/')
            return p;
        p += strcspn(p, "\n");
    }
}

struct word next_word(const char **p)
{
    *p = skip_space(*p);
    struct word w = {*p, 0};
    while (in_name(w.at[w.n]))
        w.n++;
    if (!w.n)
        w.n = 1;
    *p = w.at + w.n;
    return w;
}

bool word_is(struct word w, const char *text)
{
    return w.n == strlen(text) && !memcmp(w.at, text, w.n);
}

bool words_equal(struct word a, struct word b)
{
    return a.n == b.n && !memcmp(a.at, b.at, a.n);
}

bool take_char(const char **p, char c)
{
    const char *at = skip_space(*p);
    if (*at != c)
        return false;
    *p = at + 1;
    return true;
}

static const struct {
    const char *name;
    int bytes;
} types[] = {
    [PTX_PRED] = {"pred", 1},    [PTX_B8] = {"b8", 1},     [PTX_B16] = {"b16", 2},       [PTX_B32] = {"b32", 4},
    [PTX_B64] = {"b64", 8},      [PTX_U8] = {"u8", 1},     [PTX_U16] = {"u16", 2},       [PTX_U32] = {"u32", 4},
    [PTX_U64] = {"u64", 8},      [PTX_S8] = {"s8", 1},     [PTX_S16] = {"s16", 2},       [PTX_S32] = {"s32", 4},
    [PTX_S64] = {"s64", 8},      [PTX_F16] = {"f16", 2},   [PTX_F32] = {"f32", 4},       [PTX_F64] = {"f64", 8},
    [PTX_F16X2] = {"f16x2", 4},  [PTX_BF16] = {"bf16", 2}, [PTX_BF16X2] = {"bf16x2", 4}, [PTX_TF32] = {"tf32", 4},
    [PTX_E4M3X2] = {"e4m3x2", 2}};

enum ptx_type type_named(struct word w)
{
    for (int i = PTX_PRED; i <= PTX_E4M3X2; i++)
        if (word_is(w, types[i].name))
            return (enum ptx_type)i;
    return PTX_NONE;
}

int ptx_bytes(enum ptx_type type)
{
    return types[type].bytes;
}

uint64_t word_number(struct word w)
{
    char digits[40] = {0};
    uint32_t single;
    memcpy(digits, w.at, w.n < sizeof digits ? w.n : sizeof digits - 1);
    if (digits[0] == '0' && (digits[1] == 'f' || digits[1] == 'F' || digits[1] == 'd' || digits[1] == 'D')) {
        uint64_t bits = strtoull(digits + 2, NULL, 16);
        single = (uint32_t)bits;
        return tolower((unsigned char)digits[1]) == 'f' ? single : bits;
    }
    return strtoull(digits, NULL, 0);
}

/* .param .align 8 .b8 NAME[64] */
struct declaration declaration(const char **p)
{
    struct declaration d = {.count = 1};
    for (;;) {
        struct word w = next_word(p);
        if (word_is(w, ".align"))
            d.align = word_number(next_word(p));
        else if (w.at[0] == '.' && (d.type = type_named((struct word){w.at + 1, w.n - 1})) == PTX_NONE)
            bad_ptx("a declaration of an unknown type", w.at);
        else if (w.at[0] != '.') {
            d.name = w;
            break;
        }
    }
    if (!d.align)
        d.align = (uint64_t)ptx_bytes(d.type);
    if (take_char(p, '[')) {
        d.count = take_char(p, ']') ? 0 : word_number(next_word(p));
        if (d.count)
            take_char(p, ']');
    } else if (take_char(p, '<')) {
        d.ranged = true;
        d.count = word_number(next_word(p));
        take_char(p, '>');
    }
    return d;
}

uint32_t take_room(uint32_t *used, const struct declaration *d)
{
    uint32_t at = (uint32_t)((*used + d->align - 1) / d->align * d->align);
    *used = at + (uint32_t)(d->count * (uint64_t)ptx_bytes(d->type));
    return at;
}
