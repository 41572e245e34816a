/* From text to one option's value. */
#include "options/value.h"

#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Numbers, whatever the locale of the process. ---- */

/* Digits, with at most one point among them, then perhaps an exponent. */
static bool looks_decimal(const char *s)
{
    int digits = 0;
    s += *s == '-';
    for (; isdigit((unsigned char)*s); s++)
        digits++;
    s += *s == '.';
    for (; isdigit((unsigned char)*s); s++)
        digits++;
    if (!digits)
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        if (!isdigit((unsigned char)*s))
            return false;
        while (isdigit((unsigned char)*s))
            s++;
    }
    return !*s;
}

bool number_read(const char *text, double *out)
{
    if (!looks_decimal(text))
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    errno = 0;
    double x = strtod_l(text, NULL, c);
    bool lost = errno == ERANGE && (isinf(x) || x == 0);
    freelocale(c);
    if (lost)
        return false;
    *out = x;
    return true;
}

const char *number_text(double x, char buf[NUMBER_TEXT_MAX])
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = uselocale(c);
    double back = 0;
    if (x == floor(x) && fabs(x) < 1e15)
        snprintf(buf, NUMBER_TEXT_MAX, "%.0f", x);
    else
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(buf, NUMBER_TEXT_MAX, "%.*g", digits, x);
            if (number_read(buf, &back) && back == x)
                break;
        }
    uselocale(old);
    freelocale(c);
    return buf;
}

bool flag_read(const char *text, bool *out)
{
    *out = strcasecmp(text, "true") == 0;
    return *out || strcasecmp(text, "false") == 0;
}

/* "[0, 1)": from 0 to below 1. */
struct interval {
    double low, high; /* high may be infinite */
    bool low_open, high_open;
};

static struct interval interval_of(const char *domain)
{
    struct interval v = {.low_open = domain[0] == '(', .high_open = domain[strlen(domain) - 1] == ')'};
    char low[40], high[40];
    if (sscanf(domain + 1, "%39[^,], %39[^])]", low, high) != 2)
        return v; /* a mistake in the table; its test finds it */
    number_read(low, &v.low);
    if (!number_read(high, &v.high))
        v.high = INFINITY;
    return v;
}

static bool interval_holds(const struct interval *v, double x)
{
    return (v->low_open ? x > v->low : x >= v->low) && (v->high_open ? x < v->high : x <= v->high);
}

/* "of at least 0 and below 1" */
static const char *interval_words(const struct interval *v, char buf[128])
{
    char low[NUMBER_TEXT_MAX], high[NUMBER_TEXT_MAX];
    int n = snprintf(buf, 128, "%s %s", v->low_open ? "above" : "of at least", number_text(v->low, low));
    if (isfinite(v->high))
        snprintf(buf + n, 128 - (size_t)n, " and %s %s", v->high_open ? "below" : "at most",
                 number_text(v->high, high));
    return buf;
}

/* SNUG_ERR_USAGE: `text` is no number, or (`number`) one out of range. */
static int bad_number(const char *from, const char *text, bool number, const char *kind, const struct interval *v,
                      struct snug_err *err)
{
    char range[128];
    interval_words(v, range);
    if (number)
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is out of range; give %s %s", from, text, kind, range);
    return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is not %s; give one %s", from, text, kind, range);
}

/* Digits only, with a sign if `signed_too`. *number: it was one, though it may be too large. */
static bool whole_read(const char *text, bool *negative, uint64_t *out, bool *number)
{
    const char *s = text + (*text == '-');
    *negative = *text == '-';
    *number = *s && strspn(s, "0123456789") == strlen(s);
    if (!*number)
        return false;
    errno = 0;
    *out = strtoull(s, NULL, 10);
    return errno == 0;
}

static int read_int(const char *from, const char *text, const char *domain, int64_t *out, struct snug_err *err)
{
    struct interval v = interval_of(domain);
    bool negative, number;
    uint64_t u = 0;
    if (!whole_read(text, &negative, &u, &number) || u > INT64_MAX)
        return bad_number(from, text, number, "a whole number", &v, err);
    int64_t x = negative ? -(int64_t)u : (int64_t)u;
    if (!interval_holds(&v, (double)x))
        return bad_number(from, text, true, "a whole number", &v, err);
    *out = x;
    return SNUG_OK;
}

static int read_uint(const char *from, const char *text, uint64_t *out, struct snug_err *err)
{
    bool negative, number;
    if (whole_read(text, &negative, out, &number) && !negative)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is %s; give a whole number from 0 to 18446744073709551615", from,
                   text, number ? "out of range" : "not a whole number");
}

static int read_real(const char *from, const char *text, const char *domain, double *out, struct snug_err *err)
{
    struct interval v = interval_of(domain);
    double x;
    if (!number_read(text, &x))
        return bad_number(from, text, looks_decimal(text), "a number", &v, err);
    if (!interval_holds(&v, x))
        return bad_number(from, text, true, "a number", &v, err);
    *out = x;
    return SNUG_OK;
}

/* The Trainer's rule: below 1 a share of all steps, from 1 on a number of steps. */
static int read_steps(const char *from, const char *text, const char *domain, struct opt_steps *out,
                      struct snug_err *err)
{
    struct interval v = interval_of(domain);
    double x;
    bool number = number_read(text, &x);
    bool share = number && x > 0 && x < 1;
    bool whole = number && x == floor(x) && x <= 1e15 && interval_holds(&v, x);
    if (!share && !whole)
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: '%s' is %s; give a whole number of steps from %d on, or a share of all steps below 1", from,
                       text, looks_decimal(text) ? "out of range" : "not a number", (int)v.low);
    *out = share ? (struct opt_steps){.ratio = x} : (struct opt_steps){.steps = (int64_t)x};
    return SNUG_OK;
}

/* A number below 1 MiB without a unit is a number of GiB or MiB whose unit was forgotten. */
static int read_bytes(const char *from, const char *text, int64_t *out, struct snug_err *err)
{
    bool unit;
    if (!size_read(text, out, &unit))
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is not a size; give a number with a unit, such as 8GiB or 900MB",
                       from, text);
    if (!unit && *out < 1 << 20)
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' would be bytes; did you mean %s%s?", from, text, text,
                       *out < 512 ? "GiB" : "MiB");
    return SNUG_OK;
}

static int read_char(const char *from, const char *text, char *out, struct snug_err *err)
{
    if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0)
        text = "\t";
    unsigned char c = (unsigned char)text[0];
    if (!c || text[1] || c >= 0x7F || (c < ' ' && c != '\t') || c == '"')
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is not one ASCII character; give one, or tab", from, text);
    *out = (char)c;
    return SNUG_OK;
}

bool word_in(const char *word, const char *words, int *index)
{
    size_t n = strlen(word);
    for (int i = 0; *words; i++) {
        size_t len = strcspn(words, "|");
        if (len == n && strncmp(words, word, n) == 0) {
            if (index)
                *index = i;
            return true;
        }
        words += len + (words[len] == '|');
    }
    return false;
}

/* "a|b|c" as "a, b, c" */
static void words_listed(const char *words, char buf[256])
{
    size_t w = 0;
    for (; *words && w < 253; words++) {
        buf[w++] = *words == '|' ? ',' : *words;
        if (*words == '|')
            buf[w++] = ' ';
    }
    buf[w] = 0;
}

/* An error has room for one line: of many words only what was most likely meant. */
static int refuse_word(const struct options *o, const char *from, const char *text, const char *domain,
                       struct snug_err *err)
{
    enum { MANY = 100, MOST = 16 };
    char list[256], *words[MOST], *rest;
    size_t n = 0;
    if (strlen(domain) <= MANY) {
        words_listed(domain, list);
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is unknown; use one of %s", from, text, list);
    }
    snprintf(list, sizeof list, "%s", domain);
    for (char *w = strtok_r(list, "|", &rest); w && n < MOST; w = strtok_r(NULL, "|", &rest))
        words[n++] = w;
    const char *near = nearest_name(text, (const char *const *)words, n);
    return near ? err_set(err, SNUG_ERR_USAGE,
                          "%s: '%s' is unknown; did you mean %s? 'snug %s --help-all' lists what there is", from, text,
                          near, command_name(o->command))
                : err_set(err, SNUG_ERR_USAGE, "%s: '%s' is unknown; 'snug %s --help-all' lists what there is", from,
                          text, command_name(o->command));
}

static int read_word(struct options *o, int i, const char *from, const char *text, int *out, struct snug_err *err)
{
    const char *domain = option_rows[i].domain;
    char list[256];
    if (word_in(text, domain, out))
        return SNUG_OK;
    for (size_t k = 0; k < n_option_values; k++)
        if (option_values[k].option == i && strcmp(option_values[k].spelling, text) == 0) {
            word_in(option_values[k].value, domain, out);
            return option_values[k].note ? option_note(o, err, "%s: %s means %s, %s", from, text,
                                                       option_values[k].value, option_values[k].note)
                                         : SNUG_OK;
        }
    words_listed(domain, list);
    for (size_t k = 0; k < n_option_lackings; k++)
        if (option_lackings[k].option == i && word_in(text, option_lackings[k].words, NULL))
            return strstr(option_lackings[k].why, "; ")
                       ? err_set(err, SNUG_ERR_USAGE, "%s: '%s' %s", from, text, option_lackings[k].why)
                       : err_set(err, SNUG_ERR_USAGE, "%s: '%s' %s; use one of %s", from, text, option_lackings[k].why,
                                 list);
    return refuse_word(o, from, text, domain, err);
}

int option_add_paths(struct options *o, int i, char *const *paths, size_t n, struct snug_err *err)
{
    struct opt_paths *p = option_member(o, i);
    const char **more = arena_alloc(&o->arena, (p->n_more + n) * sizeof *more);
    if (!more)
        return err_no_memory(err, (p->n_more + n) * sizeof *more);
    for (size_t k = 0; k < p->n_more + n; k++)
        more[k] = k < p->n_more ? p->more[k] : paths[k - p->n_more];
    p->more = more;
    p->n_more += n;
    return SNUG_OK;
}

/* A JSON array of strings; whatever else it is, `text` is a path. */
static json_t *path_array(const char *text)
{
    json_t *array = *text == '[' ? json_loads(text, 0, NULL) : NULL;
    bool strings = json_array_size(array) > 0;
    for (size_t i = 0; i < json_array_size(array); i++)
        strings &= json_is_string(json_array_get(array, i)) && *json_string_value(json_array_get(array, i));
    if (strings)
        return array;
    json_decref(array);
    return NULL;
}

static int read_paths(struct options *o, int i, const char *text, struct snug_err *err)
{
    struct opt_paths *p = option_member(o, i);
    json_t *array = path_array(text);
    int code = SNUG_OK;
    *p = (struct opt_paths){.first = text};
    for (size_t k = 0; k < json_array_size(array) && !code; k++) {
        char *path = arena_strdup(&o->arena, json_string_value(json_array_get(array, k)));
        if (!path)
            code = err_no_memory(err, strlen(text));
        else if (k)
            code = option_add_paths(o, i, &path, 1, err);
        else
            p->first = path;
    }
    json_decref(array);
    return code;
}

static int add_text(struct options *o, int i, const char *text, struct snug_err *err)
{
    struct opt_texts *t = option_member(o, i);
    const char **items = arena_alloc(&o->arena, (t->n + 1) * sizeof *items);
    if (!items)
        return err_no_memory(err, (t->n + 1) * sizeof *items);
    if (t->n)
        memcpy(items, t->items, t->n * sizeof *items);
    items[t->n++] = text;
    t->items = items;
    return SNUG_OK;
}

int option_read_value(struct options *o, int i, const char *from, const char *text, struct snug_err *err)
{
    const struct option_row *row = &option_rows[i];
    void *member = option_member(o, i);
    switch (row->type) {
    case OPTION_BOOL:
        if (flag_read(text, member))
            return SNUG_OK;
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is neither true nor false; give one of them", from, text);
    case OPTION_INT:
        return read_int(from, text, row->domain, member, err);
    case OPTION_UINT:
        return read_uint(from, text, member, err);
    case OPTION_REAL:
        return read_real(from, text, row->domain, member, err);
    case OPTION_STEPS:
        return read_steps(from, text, row->domain, member, err);
    case OPTION_BYTES:
        return read_bytes(from, text, member, err);
    case OPTION_CHAR:
        return read_char(from, text, member, err);
    case OPTION_WORD:
        return read_word(o, i, from, text, member, err);
    case OPTION_STR:
    case OPTION_PATHS:
        if (!*text)
            return err_set(err, SNUG_ERR_USAGE, "%s: is empty; give a value, or leave the option out", from);
        if (row->type == OPTION_PATHS)
            return read_paths(o, i, text, err);
        *(const char **)member = text;
        return SNUG_OK;
    case OPTION_TEXTS:
        return add_text(o, i, text, err);
    case OPTION_KWARGS:
    case OPTION_SECTION:
        break;
    }
    return SNUG_OK;
}
