#include "data/files/number.h"

#include <stdbool.h>
#include <stdlib.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t digits(const char *s, size_t n, size_t i)
{
    while (i < n && is_digit(s[i]))
        i++;
    return i;
}

static enum number_kind kind_without_blanks(const char *s, size_t n)
{
    size_t start = n > 0 && (s[0] == '-' || s[0] == '+'), i = digits(s, n, start), n_digits = i - start;
    bool canonical = n_digits > 0 && n_digits <= 18 && (s[start] != '0' || n_digits == 1);
    if (i == n && canonical && s[0] != '+' && !(s[0] == '-' && s[1] == '0'))
        return NUMBER_INTEGER;
    if (i < n && s[i] == '.') {
        size_t end = digits(s, n, i + 1);
        n_digits += end - (i + 1);
        i = end;
    }
    if (!n_digits)
        return NUMBER_NO;
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        size_t exponent = i + 1 + (i + 1 < n && (s[i + 1] == '-' || s[i + 1] == '+'));
        i = digits(s, n, exponent);
        if (i == exponent)
            return NUMBER_NO;
    }
    return i == n ? NUMBER_REAL : NUMBER_NO;
}

enum number_kind number_kind(const char *s, size_t n)
{
    size_t before = 0, after = n;
    while (before < after && is_blank(s[before]))
        before++;
    while (after > before && is_blank(s[after - 1]))
        after--;
    enum number_kind kind = kind_without_blanks(s + before, after - before);
    return kind != NUMBER_NO && after - before < n ? NUMBER_BLANKS : kind;
}

double number_value(const char *text, locale_t c_locale)
{
    return strtod_l(text, NULL, c_locale);
}
