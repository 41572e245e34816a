/* The header's JSON has only three levels and four kinds of values, so it is read here by hand, in one pass and in
 * place, and not by jansson. A header of the allowed 100 MB can hold two million tensors. A tree of JSON values takes
 * more than twenty times the memory of such a header. Whatever is not that shape is refused where it stands; nothing
 * recurses. */
#include "format/st_header.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

struct parser {
    struct st_file *f;
    struct snug_err *err;
    char *p, *end;
    size_t tensor_cap, metadata_cap;
};

static long long position(const struct parser *s)
{
    return (long long)(s->p - s->f->header) + 8;
}

static void skip_blanks(struct parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

/* "found ..." for messages. */
static const char *found(const struct parser *s, char text[48])
{
    int n = 0;
    while (n < 30 && s->p + n < s->end && !strchr(",:[]{} \t\r\n", s->p[n]))
        n++;
    if (s->p >= s->end)
        return strcpy(text, "the header's end");
    snprintf(text, 48, "'%.*s'", n ? n : 1, s->p);
    return text;
}

static int expected(struct parser *s, const char *what)
{
    char text[48];
    return err_set(s->err, SNUG_ERR_INPUT, "%s:%lld: the header is not valid: expected %s, found %s" ST_AGAIN,
                   s->f->path, position(s), what, found(s, text));
}

static int expect(struct parser *s, char c)
{
    char what[4] = {'\'', c, '\'', 0};
    skip_blanks(s);
    if (s->p >= s->end || *s->p != c)
        return expected(s, what);
    s->p++;
    return SNUG_OK;
}

/* After an item of a list: true and past the comma when another follows; else past the closing bracket. */
static int another(struct parser *s, char close, bool *more)
{
    char what[12];
    skip_blanks(s);
    *more = s->p < s->end && *s->p == ',';
    if (*more || (s->p < s->end && *s->p == close)) {
        s->p++;
        return SNUG_OK;
    }
    snprintf(what, sizeof what, "',' or '%c'", close);
    return expected(s, what);
}

/* True and past it when the list that was just opened is empty. */
static bool closes(struct parser *s, char close)
{
    skip_blanks(s);
    if (s->p >= s->end || *s->p != close)
        return false;
    s->p++;
    return true;
}

/* The four hex digits behind "\u"; -1 if they are not. */
static int hex4(const struct parser *s, const char *at)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = at + i < s->end ? at[i] : 0;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static char *put_utf8(char *w, int c)
{
    if (c < 0x80) {
        *w++ = (char)c;
    } else if (c < 0x800) {
        *w++ = (char)(0xC0 | c >> 6);
        *w++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *w++ = (char)(0xE0 | c >> 12);
        *w++ = (char)(0x80 | (c >> 6 & 63));
        *w++ = (char)(0x80 | (c & 63));
    } else {
        *w++ = (char)(0xF0 | c >> 18);
        *w++ = (char)(0x80 | (c >> 12 & 63));
        *w++ = (char)(0x80 | (c >> 6 & 63));
        *w++ = (char)(0x80 | (c & 63));
    }
    return w;
}

/* The escape whose backslash is at s->p, decoded to *w. */
static int escape(struct parser *s, char **w)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->p + 1 < s->end ? s->p[1] : 0;
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        *(*w)++ = to[simple - from];
        s->p += 2;
        return SNUG_OK;
    }
    int v = c == 'u' ? hex4(s, s->p + 2) : -1, length = 6;
    if (v >= 0xD800 && v <= 0xDBFF && s->p + 7 < s->end && s->p[6] == '\\' && s->p[7] == 'u') {
        int low = hex4(s, s->p + 8);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            v = 0x10000 + (v - 0xD800) * 0x400 + (low - 0xDC00);
            length = 12;
        }
    }
    if (v <= 0 || (v >= 0xD800 && v <= 0xDFFF))
        return expected(s, "a valid escape of a character other than 0");
    *w = put_utf8(*w, v);
    s->p += length;
    return SNUG_OK;
}

/* A string, decoded in place (it never grows) and ended with a 0 byte. */
static int string(struct parser *s, const char **out)
{
    TRY(expect(s, '"'));
    char *w = s->p;
    *out = w;
    while (s->p < s->end && *s->p != '"') {
        if (*s->p == '\\') {
            TRY(escape(s, &w));
            continue;
        }
        int n = (unsigned char)*s->p < 0x20 ? 0 : utf8_sequence(s->p, (size_t)(s->end - s->p));
        if (!n)
            return expected(s, "UTF-8 text without control characters");
        memmove(w, s->p, (size_t)n);
        w += n;
        s->p += n;
    }
    if (s->p >= s->end)
        return expected(s, "'\"'");
    s->p++;
    *w = 0;
    return SNUG_OK;
}

/* An integer from 0 to 2^63 - 1, written as digits only. */
static int number(struct parser *s, const char *tensor, const char *field, int64_t *out)
{
    char text[48];
    skip_blanks(s);
    const char *begin = s->p;
    int64_t v = 0;
    bool good = s->p < s->end && *s->p >= '0' && *s->p <= '9';
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
            good = false;
    if (good && *begin == '0' && s->p > begin + 1)
        good = false;
    if (good && s->p < s->end && strchr(",] \t\r\n", *s->p)) {
        *out = v;
        return SNUG_OK;
    }
    s->p = (char *)begin;
    return err_set(s->err, SNUG_ERR_INPUT,
                   "%s:%lld: tensor %.100s: %s holds %s; expected an integer from 0 to 2^63-1, in digits", s->f->path,
                   position(s), tensor, field, found(s, text));
}

static int shape(struct parser *s, struct st_tensor *t)
{
    TRY(expect(s, '['));
    for (bool more = !closes(s, ']'); more;) {
        int64_t n;
        TRY(number(s, t->name, "shape", &n));
        if (n >= (int64_t)1 << 48)
            return err_set(s->err, SNUG_ERR_INPUT,
                           "%s: tensor %.100s: dimension %lld is not below the format's 2^48" ST_AGAIN, s->f->path,
                           t->name, (long long)n);
        if (t->ndim == ST_MAX_DIMS)
            return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s has more than %d dimensions", s->f->path, t->name,
                           ST_MAX_DIMS);
        t->shape[t->ndim++] = n;
        TRY(another(s, ']', &more));
    }
    return SNUG_OK;
}

/* [begin, end), kept as at and bytes. */
static int data_offsets(struct parser *s, struct st_tensor *t)
{
    int64_t v[2] = {0, 0};
    int n = 0;
    TRY(expect(s, '['));
    for (bool more = !closes(s, ']'); more; n++) {
        int64_t ignored;
        TRY(number(s, t->name, "data_offsets", n < 2 ? &v[n] : &ignored));
        TRY(another(s, ']', &more));
    }
    if (n != 2)
        return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s: data_offsets has %d entries; expected 2", s->f->path,
                       t->name, n);
    if (v[0] > v[1])
        return err_set(s->err, SNUG_ERR_INPUT,
                       "%s: tensor %.100s: data_offsets [%lld, %lld] ends before it begins" ST_AGAIN, s->f->path,
                       t->name, (long long)v[0], (long long)v[1]);
    t->at = v[0];
    t->bytes = v[1] - v[0];
    return SNUG_OK;
}

static int dtype(struct parser *s, struct st_tensor *t)
{
    const char *name;
    skip_blanks(s);
    if (s->p < s->end && *s->p != '"')
        return expected(s, "a dtype such as \"F32\"");
    TRY(string(s, &name));
    int found_dtype = dtype_from_name(name);
    if (found_dtype < 0)
        return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s: unknown dtype \"%.40s\"" ST_AGAIN, s->f->path,
                       t->name, name);
    t->dtype = (enum dtype)found_dtype;
    return SNUG_OK;
}

/* Of the format, but nothing that snug reads, keeps or writes. */
static bool is_unsupported(enum dtype t)
{
    return t == DT_C64 || (t >= DT_F8_E5M2FNUZ && t <= DT_F8_E8M0) || dtype_bits(t) < 8;
}

/* Shape, dtype and size of one tensor against each other. */
static int check(struct parser *s, const struct st_tensor *t)
{
    char text[200];
    uint64_t bits = 1;
    bool overflow = false;
    for (int i = 0; i < t->ndim; i++)
        overflow |= __builtin_mul_overflow(bits, (uint64_t)t->shape[i], &bits);
    overflow |= __builtin_mul_overflow(bits, (uint64_t)dtype_bits(t->dtype), &bits);
    if (overflow)
        return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s: the size of shape %s overflows 64 bits" ST_AGAIN,
                       s->f->path, t->name, st_shape_text(t, text));
    if (bits % 8)
        return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s: %s of shape %s does not fill whole bytes" ST_AGAIN,
                       s->f->path, t->name, dtype_name(t->dtype), st_shape_text(t, text));
    if (bits / 8 != (uint64_t)t->bytes)
        return err_set(s->err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s: %s of shape %s takes %llu bytes, but data_offsets give it %lld" ST_AGAIN,
                       s->f->path, t->name, dtype_name(t->dtype), st_shape_text(t, text), (unsigned long long)bits / 8,
                       (long long)t->bytes);
    if (is_unsupported(t->dtype))
        return err_set(s->err, SNUG_ERR_INPUT,
                       "%s: tensor %.100s: dtype %s is not supported; convert to F32, F16 or BF16", s->f->path, t->name,
                       dtype_name(t->dtype));
    return SNUG_OK;
}

static int tensor(struct parser *s, const char *name)
{
    static const struct {
        const char *name;
        int (*parse)(struct parser *, struct st_tensor *);
    } fields[] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", data_offsets}};
    struct st_file *f = s->f;
    struct st_tensor t = {.name = name};
    bool have[3] = {false};
    TRY(expect(s, '{'));
    for (bool more = !closes(s, '}'); more;) {
        const char *field;
        int i = 0;
        TRY(string(s, &field));
        while (i < 3 && strcmp(field, fields[i].name))
            i++;
        if (i == 3)
            return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s has the unknown field \"%.40s\"" ST_AGAIN,
                           f->path, name, field);
        if (have[i])
            return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s has %s twice" ST_AGAIN, f->path, name,
                           fields[i].name);
        have[i] = true;
        TRY(expect(s, ':'));
        TRY(fields[i].parse(s, &t));
        TRY(another(s, '}', &more));
    }
    for (int i = 0; i < 3; i++)
        if (!have[i])
            return err_set(s->err, SNUG_ERR_INPUT, "%s: tensor %.100s has no %s" ST_AGAIN, f->path, name,
                           fields[i].name);
    TRY(check(s, &t));
    if (f->n_tensors == ST_MAX_TENSORS)
        return err_set(s->err, SNUG_ERR_INPUT, "%s: over %d tensors; no model has so many", f->path, ST_MAX_TENSORS);
    if (!MEM_GROW(f->tensors, s->tensor_cap, f->n_tensors + 1))
        return err_no_memory(s->err, (f->n_tensors + 1) * sizeof t);
    f->tensors[f->n_tensors++] = t;
    return SNUG_OK;
}

static int metadata(struct parser *s)
{
    struct st_file *f = s->f;
    TRY(expect(s, '{'));
    for (bool more = !closes(s, '}'); more;) {
        if (f->n_metadata == ST_MAX_TENSORS)
            return err_set(s->err, SNUG_ERR_INPUT, "%s: over %d entries in __metadata__", f->path, ST_MAX_TENSORS);
        if (!MEM_GROW(f->metadata, s->metadata_cap, 2 * f->n_metadata + 2))
            return err_no_memory(s->err, 2 * f->n_metadata * sizeof(char *));
        TRY(string(s, &f->metadata[2 * f->n_metadata]));
        TRY(expect(s, ':'));
        TRY(string(s, &f->metadata[2 * f->n_metadata + 1]));
        f->n_metadata++;
        TRY(another(s, '}', &more));
    }
    return SNUG_OK;
}

int st_parse_header(struct st_file *f, struct snug_err *err)
{
    struct parser s = {.f = f, .err = err, .p = f->header, .end = f->header + f->header_bytes};
    bool have_metadata = false;
    TRY(expect(&s, '{'));
    for (bool more = !closes(&s, '}'); more;) {
        const char *name;
        TRY(string(&s, &name));
        TRY(expect(&s, ':'));
        if (strcmp(name, "__metadata__")) {
            TRY(tensor(&s, name));
        } else if (have_metadata) {
            return err_set(err, SNUG_ERR_INPUT, "%s: the header has __metadata__ twice" ST_AGAIN, f->path);
        } else {
            have_metadata = true;
            TRY(metadata(&s));
        }
        TRY(another(&s, '}', &more));
    }
    skip_blanks(&s);
    return s.p == s.end ? SNUG_OK : expected(&s, "nothing more");
}
