#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *size_text(int64_t bytes, char buf[SIZE_TEXT_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    int unit = 0;
    for (; x >= 999.5; unit++)
        x /= 1024;
    int decimals = !unit ? 0 : x < 0.9995 ? 3 : x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
    snprintf(buf, SIZE_TEXT_MAX, "%.*f %s", decimals, x, units[unit]);
    return buf;
}

/* Digits with at most one point among them, in any locale. NULL: there is no digit. Else what stands behind them. */
static const char *read_decimal(const char *s, double *x)
{
    double scale = 0;
    bool any = false;
    for (*x = 0; (*s >= '0' && *s <= '9') || (*s == '.' && !scale); s++)
        if (*s == '.') {
            scale = 1;
        } else {
            *x = *x * 10 + (*s - '0');
            scale *= 10;
            any = true;
        }
    *x /= scale ? scale : 1;
    return any ? s : NULL;
}

bool size_read(const char *text, int64_t *bytes, bool *unit)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},         {"B", 1},        {"KB", 1e3},   {"MB", 1e6},    {"GB", 1e9},    {"TB", 1e12},
                 {"K", 1024},     {"M", 0x1p20},   {"G", 0x1p30}, {"T", 0x1p40},  {"KiB", 1024},  {"MiB", 0x1p20},
                 {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"Ki", 1024},  {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    double x;
    const char *s = read_decimal(text, &x);
    if (!s)
        return false;
    s += *s == ' ' && s[1];
    *unit = *s != 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(s, units[i].name) == 0 && x * units[i].bytes >= 1 && x * units[i].bytes < 0x1p62) {
            *bytes = (int64_t)(x * units[i].bytes);
            return true;
        }
    return false;
}
