#include "format/json.h"

#include "base/str.h"
#include "format/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The byte behind the string that starts at the quote at i, or n when it does not end. */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        if (text[i] == '\\')
            i++;
    return i < n ? i + 1 : n;
}

static int error_at(struct snug_err *err, const char *path, const char *text, size_t at, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column += (text[i] & 0xC0) != 0x80;
        if (text[i] == '\n')
            line++, column = 1;
    }
    return err_set(err, SNUG_ERR_INPUT, "%s:%zu:%zu: %s", path, line, column, what);
}

/* True for digits (after a sign) that no int64 can hold; fractions and exponents are not integers. */
static bool is_big_integer(const char *digits, size_t n)
{
    char copy[32];
    if (n < 19)
        return false;
    size_t sign = *digits == '-';
    for (size_t i = sign; i < n; i++)
        if (digits[i] < '0' || digits[i] > '9')
            return false;
    if (n >= sizeof copy)
        return true;
    memcpy(copy, digits, n);
    copy[n] = 0;
    errno = 0;
    strtoll(copy, NULL, 10);
    return errno == ERANGE;
}

/* What must happen before jansson sees the text: it recurses (to a depth of 2048), so the nesting is counted here; and
 * it refuses integers beyond int64, so those get an exponent, which makes them reals. `patched` stays empty when there
 * are none, else it is the whole text. */
static int prepare(const char *text, size_t n, const char *path, struct str *patched, struct snug_err *err)
{
    size_t depth = 0, copied = 0;
    for (size_t i = 0; i < n;) {
        char c = text[i];
        if (c == '"') {
            i = skip_string(text, n, i);
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            size_t end = i + 1;
            while (end < n && strchr("+-.0123456789eE", text[end]) && text[end])
                end++;
            if (is_big_integer(text + i, end - i)) {
                str_append_n(patched, text + copied, end - copied);
                str_append(patched, "e0");
                copied = end;
            }
            i = end;
        } else {
            if ((c == '[' || c == '{') && ++depth > JSON_MAX_DEPTH)
                return error_at(err, path, text, i, "nested deeper than 128 levels; is it the right file?");
            if ((c == ']' || c == '}') && depth)
                depth--;
            i++;
        }
    }
    if (copied)
        str_append_n(patched, text + copied, n - copied);
    return str_check(patched, err);
}

static size_t skip_blanks(const char *text, size_t n, size_t i)
{
    while (i < n && is_blank(text[i]))
        i++;
    return i;
}

/* The byte behind the value at i. */
static size_t skip_value(const char *text, size_t n, size_t i)
{
    size_t depth = 0;
    while (i < n) {
        char c = text[i];
        if (c == '"')
            i = skip_string(text, n, i);
        else if (depth == 0 && (c == ',' || c == ']' || c == '}' || is_blank(c)))
            return i;
        else {
            depth += c == '[' || c == '{';
            depth -= c == ']' || c == '}';
            i++;
        }
        if (depth == 0 && (c == '"' || c == ']' || c == '}'))
            return i;
    }
    return n;
}

/* The first '{' that is still open at `at`. */
static size_t innermost_object(const char *text, size_t at)
{
    size_t open[JSON_MAX_DEPTH], depth = 0;
    for (size_t i = 0; i < at;) {
        if (text[i] == '"') {
            i = skip_string(text, at, i);
            continue;
        }
        if (text[i] == '{' || text[i] == '[')
            open[depth++] = i;
        else if (text[i] == '}' || text[i] == ']')
            depth--;
        i++;
    }
    return open[depth - 1];
}

struct member {
    size_t key, key_end, value, value_end, next;
};

/* The member of an object whose key starts at or behind i. */
static struct member member_at(const char *text, size_t n, size_t i)
{
    struct member m;
    m.key = skip_blanks(text, n, i);
    m.key_end = skip_string(text, n, m.key);
    m.value = skip_blanks(text, n, skip_blanks(text, n, m.key_end) + 1);
    m.value_end = skip_value(text, n, m.value);
    m.next = skip_blanks(text, n, m.value_end) + 1;
    return m;
}

/* At most 60 bytes of the value of m. */
static int cut(const struct member *m)
{
    size_t n = m->value_end > m->value ? m->value_end - m->value : 0;
    return (int)(n > 60 ? 60 : n);
}

/* jansson stopped behind the second of two equal keys, at `key_end`: everything up to there is well-formed. Walks the
 * object's members to find the first of them, so that the message can show both values. */
static int duplicate_key(const char *text, size_t n, size_t key_end, const char *path, struct snug_err *err)
{
    size_t begin = innermost_object(text, key_end) + 1;
    struct member second = member_at(text, n, begin), first;
    while (second.key_end < key_end)
        second = member_at(text, n, second.next);
    /* The same key may be written with other escapes: compare what the strings mean. */
    json_t *key = json_loadb(text + second.key, key_end - second.key, JSON_DECODE_ANY, NULL);
    bool same = false;
    for (size_t i = begin; !same && i < second.key; i = first.next) {
        first = member_at(text, n, i);
        json_t *other = json_loadb(text + first.key, first.key_end - first.key, JSON_DECODE_ANY, NULL);
        same = json_equal(key, other);
        json_decref(other);
    }
    char what[512];
    if (same)
        snprintf(what, sizeof what, "key %.150s is given twice, as %.*s and as %.*s; keep one", json_string_value(key),
                 cut(&first), text + first.value, cut(&second), text + second.value);
    else
        snprintf(what, sizeof what, "a key is given twice; keep one"); /* out of memory for the words above */
    json_decref(key);
    return error_at(err, path, text, second.key, what);
}

/* What jansson's texts (in its load.c) say, in words for the user. A text begins with `text`; `expected` is what would
 * have been right where it says so, else `fault` is what is wrong. */
static const struct {
    const char *text, *expected, *fault;
} mistakes[] = {
    {"string or '}' expected", "a name in quotes", NULL},
    {"':' expected", "':'", NULL},
    {"'}' expected", "',' or '}'", NULL},
    {"']' expected", "',' or ']'", NULL},
    {"end of file expected", "the end of the document", NULL},
    {"invalid token", "a value", NULL},
    {"unexpected token", "a value", NULL},
    {"premature end of input", NULL, "the text ends in a string; is the file complete?"},
    {"unexpected newline", NULL, "a string goes over the end of its line; close it, or write \\n"},
    {"control character", NULL, "a control character in a string; write it as \\u00XX"},
    {"invalid escape", NULL, "a backslash in a string that begins no escape of JSON; write \\\\"},
    {"invalid Unicode", NULL, "a \\u in a string that is no character; correct it"},
    {"\\u0000 is not allowed", NULL, "\\u0000 is not allowed; remove it"},
    {"too big", NULL, "a number is too large; correct it"},
    {"real number overflow", NULL, "a number is too large; correct it"},
    {"unable to decode", NULL, "a byte is not UTF-8; save the file as UTF-8"},
};

/* Advice for what people write where JSON wants something else. */
static const char *advice(const char *found)
{
    static const char *const known[][2] = {
        {"NaN", "JSON has no NaN"},
        {"Infinity", "JSON has no Infinity"},
        {"-", "JSON has no -Infinity, and digits follow a minus sign"},
        {"/", "JSON has no comments"},
        {"#", "JSON has no comments"},
        {"'", "JSON has double quotes only"},
        {"}", "is there a comma too many?"},
        {"]", "is there a comma too many?"},
        {"True", "JSON has true, false and null"},
        {"False", "JSON has true, false and null"},
        {"None", "JSON has true, false and null"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(found, known[i][0]))
            return known[i][1];
    return "correct the file";
}

/* The word or mark at which jansson stopped, which its text ends in unless it is long; "" at the end of the file. */
static void stopped_at(const json_error_t *e, char found[32])
{
    const char *near = strstr(e->text, " near '");
    size_t n = near ? strlen(near + 7) : 0;
    snprintf(found, 32, "%.*s", n ? (int)n - 1 : 0, near ? near + 7 : "");
}

static int syntax_error(const char *text, size_t n, const json_error_t *e, const char *path, struct snug_err *err)
{
    const char *expected = NULL, *fault = "it is malformed; correct the file";
    char found[32], what[160];
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (!strncmp(e->text, mistakes[i].text, strlen(mistakes[i].text))) {
            expected = mistakes[i].expected;
            fault = mistakes[i].fault;
            break;
        }
    stopped_at(e, found);
    size_t at = e->position > 0 && (size_t)e->position <= n ? (size_t)e->position : n, back = strlen(found);
    at -= back <= at ? back : 0;
    if (expected && strstr(e->text, "near end of file"))
        snprintf(what, sizeof what, "not valid JSON: it ends where %s is expected; is the file complete?", expected);
    else if (expected && !*found)
        snprintf(what, sizeof what, "not valid JSON: a long word where %s is expected; correct the file", expected);
    else if (expected)
        snprintf(what, sizeof what, "not valid JSON: '%s' where %s is expected; %s", found, expected, advice(found));
    else
        snprintf(what, sizeof what, "not valid JSON: %s", fault);
    return error_at(err, path, text, at, what);
}

static int parse_with_jansson(const char *text, size_t n, const char *path, json_t **out, struct snug_err *err)
{
    json_error_t e;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (*out)
        return SNUG_OK;
    /* jansson words some failed allocations as syntax errors. Memory that is back must not blame the file, memory that
     * is still out neither: so ask for some, then parse again. */
    json_t *probe = json_array();
    if (!probe)
        return err_no_memory(err, n);
    json_decref(probe);
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (*out)
        return SNUG_OK;
    if (!e.text[0] || json_error_code(&e) == json_error_out_of_memory)
        return err_no_memory(err, n);
    if (json_error_code(&e) == json_error_duplicate_key && e.position > 0 && (size_t)e.position <= n)
        return duplicate_key(text, n, (size_t)e.position, path, err);
    unsigned char first = (unsigned char)text[skip_blanks(text, n, 0)];
    const char *kind = first == '<' || first >= 'A' ? foreign_kind(text, n < 64 ? n : 64) : NULL;
    if (kind && first != '[' && first != '{')
        return err_set(err, SNUG_ERR_INPUT, "%s: not JSON but %s", path, kind);
    return syntax_error(text, n, &e, path, err);
}

int json_parse(const char *text, size_t bytes, const char *path, json_t **out, struct snug_err *err)
{
    *out = NULL;
    if (bytes >= 2 && (!memcmp(text, "\xFF\xFE", 2) || !memcmp(text, "\xFE\xFF", 2) || !text[0] || !text[1]))
        return err_set(err, SNUG_ERR_INPUT, "%s: is UTF-16 or UTF-32 text, or binary; JSON must be UTF-8", path);
    if (bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3))
        text += 3, bytes -= 3;
    if (skip_blanks(text, bytes, 0) == bytes)
        return err_set(err, SNUG_ERR_INPUT, "%s: is empty; a JSON document was expected", path);
    struct str patched = {0};
    int code = prepare(text, bytes, path, &patched, err);
    if (!code)
        code = parse_with_jansson(patched.s ? patched.s : text, patched.s ? patched.n : bytes, path, out, err);
    str_free(&patched);
    return code;
}

int json_read_file(const struct io *io, const char *path, int64_t limit, json_t **out, struct snug_err *err)
{
    char *text;
    size_t bytes;
    *out = NULL;
    TRY(io_read_file(io, path, limit, &text, &bytes, err));
    int code = json_parse(text, bytes, path, out, err);
    mem_free(text);
    return code;
}

int json_read_object(const struct io *io, const char *path, int64_t limit, json_t **out, struct snug_err *err)
{
    char kind[64];
    TRY(json_read_file(io, path, limit, out, err));
    if (json_is_object(*out))
        return SNUG_OK;
    int code = err_set(err, SNUG_ERR_INPUT, "%s: the document is %s; an object {...} was expected", path,
                       json_value_text(*out, kind));
    json_decref(*out);
    *out = NULL;
    return code;
}
