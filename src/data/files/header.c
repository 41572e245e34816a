#include "data/files/header.h"

#include "base/str.h"
#include "data/files/number.h"

#include <stdio.h>
#include <string.h>

enum {
    SENTENCE_WORDS = 4, /* names of columns have fewer */
    ROWS_LOOKED_AT = 100,
    SHOWN_BYTES = 48
};

int header_refuse_separator(const struct csv *c, struct snug_err *err)
{
    size_t n, none = 0;
    const char *first = csv_field(c, 0, &n), *path = c->source.path;
    if (c->n_fields == 2)
        csv_field(c, 1, &none);
    bool alone = c->n_fields == 1 && n == 5, split = c->n_fields == 2 && n == 4 && !none;
    if (!(alone || split) || strncmp(first, "sep=", 4))
        return SNUG_OK;
    const char character[2] = {alone ? first[4] : c->delimiter}, *shown = *character == '\t' ? "\\t" : character;
    if (*character == c->delimiter)
        return err_set(err, SNUG_ERR_INPUT, "%s:1: 'sep=%s' is no header; delete this line", path, shown);
    return err_set(err, SNUG_ERR_INPUT, "%s:1: 'sep=%s' is no header; delete this line and give --delimiter '%s'", path,
                   shown, shown);
}

static bool is_number(const char *name)
{
    return number_kind(name, strlen(name)) != NUMBER_NO;
}

static bool is_sentence(const char *name)
{
    int words = 0;
    for (name += strspn(name, " "); *name; name += strspn(name, " ")) {
        words++;
        name += strcspn(name, " ");
    }
    return words >= SENTENCE_WORDS;
}

/* "0,1,2": what pandas writes for columns without names. */
static bool is_counted(const struct columns *c)
{
    char number[16];
    for (int i = 0; i < c->n; i++) {
        snprintf(number, sizeof number, "%d", i);
        if (strcmp(c->names[i], number))
            return false;
    }
    return true;
}

/* The first column whose name is no name, by the names alone; -1: none. */
static int odd_name(const struct columns *c)
{
    for (int i = 0; i < c->n; i++)
        if (is_sentence(c->names[i]) || is_number(c->names[i]))
            return i;
    return -1;
}

/* The first column of which a row has the name as its value: a label comes again. */
static int repeated_name(struct csv *c, const struct columns *columns)
{
    size_t bytes;
    for (int row = 0; row < ROWS_LOOKED_AT && !csv_next(c, NULL) && c->n_fields == (size_t)columns->n; row++)
        for (int i = 0; i < columns->n; i++)
            if (*columns->names[i] && !strcmp(columns->names[i], csv_field(c, (size_t)i, &bytes)))
                return i;
    return -1;
}

int header_refuse_row(struct csv *c, const struct columns *columns, struct snug_err *err)
{
    if (is_counted(columns))
        return SNUG_OK;
    int i = odd_name(columns);
    if (i < 0 && !c->source.is_stream)
        i = repeated_name(c, columns);
    if (i < 0)
        return SNUG_OK;
    char shown[SHOWN_BYTES];
    text_escape(shown, sizeof shown, columns->names[i]);
    return err_set(err, SNUG_ERR_INPUT,
                   "%s:1: '%s%s' looks like a value, not like a column's name; put a line of names such as text,label "
                   "above it",
                   c->source.path, shown, strlen(shown) < strlen(columns->names[i]) ? "..." : "");
}
