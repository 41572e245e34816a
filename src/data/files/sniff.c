#include "data/files/sniff.h"

#include "base/str.h"

#include <string.h>

/* The fields of a header, without their quotes; what is quoted for good reason is no usual name. */
static int add_fields(struct columns *c, const char *line, size_t n, char delimiter, struct snug_err *err)
{
    for (size_t from = 0, to; from <= n; from = to + 1) {
        const char *end = memchr(line + from, delimiter, n - from);
        to = end ? (size_t)(end - line) : n;
        size_t a = from, b = to;
        if (b - a >= 2 && line[a] == '"' && line[b - 1] == '"')
            a++, b--;
        struct str name = {0};
        str_append_n(&name, line + a, b - a);
        int code = str_check(&name, err);
        if (!code)
            code = columns_add(c, "", str_text(&name), err);
        str_free(&name);
        TRY(code);
    }
    return SNUG_OK;
}

/* A single column has to be called text: a line of text may well be a word such as Title. */
static bool is_header(const struct dataset_options *o, const char *line, size_t n, char delimiter)
{
    struct columns c = {0};
    struct snug_err ignored;
    bool found = !add_fields(&c, line, n, delimiter, &ignored) && !columns_find(&c, o, false, &ignored) && c.text >= 0;
    bool yes = found && (c.n > 1 || o->text_column || !strcmp(c.names[0], "text"));
    columns_free(&c);
    return yes;
}

/* "{", "[" alone, or "[{" with blanks between: a text may well begin with another bracket. */
static bool begins_json(const char *line, size_t n)
{
    size_t i = 1;
    if (!n || (*line != '{' && *line != '['))
        return false;
    while (*line == '[' && i < n && strchr(" \t\r", line[i]))
        i++;
    return *line == '{' || i == n || line[i] == '{';
}

/* "sep=;", which Excel writes in front of a header: the reader says what to do about it. */
static bool is_separator(const char *line, size_t n)
{
    return n == 5 && !memcmp(line, "sep=", 4);
}

int sniff_format(struct source *s, const struct dataset_options *o, enum data_format *format, struct snug_err *err)
{
    size_t n;
    TRY(source_first_line(s, &n, err));
    const char *line = s->buf + s->i;
    while (n && line[n - 1] == '\r')
        n--;
    size_t blanks = 0;
    while (blanks < n && strchr(" \t", line[blanks]))
        blanks++;
    if (begins_json(line + blanks, n - blanks))
        *format = line[blanks] == '[' ? FORMAT_JSON : FORMAT_JSONL;
    else if (o->delimiter || is_separator(line, n) || is_header(o, line, n, ','))
        *format = FORMAT_CSV;
    else if (is_header(o, line, n, '\t'))
        *format = FORMAT_TSV;
    else
        *format = o->text_column ? FORMAT_CSV : FORMAT_LINES; /* CSV: says that the column is not there */
    return SNUG_OK;
}
