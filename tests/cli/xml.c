/* A reader of XML 1.0 (fifth edition) that keeps nothing but the names of open elements. Productions in brackets. */
#include "xml.h"

#include "base/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 32, LONGEST_NAME = 64, ATTRIBUTES = 32 };

struct reader {
    const char *s, *end, *start;
    char open[DEEPEST][LONGEST_NAME];
    int depth, elements;
    const char *complaint;
};

static bool fails(struct reader *r, const char *why)
{
    if (!r->complaint)
        r->complaint = why;
    return false;
}

static bool name_char(char c, bool first) /* [4] [4a], ASCII only */
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
    return letter || (!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

static void skip_blanks(struct reader *r)
{
    while (r->s < r->end && *r->s && strchr(" \t\r\n", *r->s))
        r->s++;
}

static bool read_name(struct reader *r, char name[LONGEST_NAME])
{
    int n = 0;
    while (r->s < r->end && n < LONGEST_NAME - 1 && name_char(*r->s, n == 0))
        name[n++] = *r->s++;
    name[n] = 0;
    return n ? true : fails(r, "a name is missing");
}

static bool read_reference(struct reader *r) /* [68], of the five that need no declaration */
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((size_t)(r->end - r->s) >= strlen(known[i]) && !memcmp(r->s, known[i], strlen(known[i]))) {
            r->s += strlen(known[i]);
            return true;
        }
    return fails(r, "& begins no known reference");
}

static bool read_char(struct reader *r) /* [2] [14]: one character of text */
{
    int n = utf8_sequence(r->s, (size_t)(r->end - r->s));
    if (*r->s == '&')
        return read_reference(r);
    if (!n)
        return fails(r, "not UTF-8");
    if ((unsigned char)*r->s < ' ' && !strchr("\t\r\n", *r->s ? *r->s : 'x'))
        return fails(r, "a control character");
    r->s += n;
    return true;
}

static bool read_attribute(struct reader *r, char seen[][LONGEST_NAME], int n) /* [41] [10] */
{
    if (!read_name(r, seen[n]))
        return false;
    for (int i = 0; i < n; i++)
        if (!strcmp(seen[i], seen[n]))
            return fails(r, "an attribute is given twice");
    if (r->end - r->s < 2 || *r->s++ != '=' || (*r->s != '"' && *r->s != '\''))
        return fails(r, "an attribute has no quoted value");
    for (char quote = *r->s++; r->s < r->end && *r->s != quote;)
        if (*r->s == '<' || !read_char(r))
            return fails(r, "< in an attribute");
    return r->s++ < r->end ? true : fails(r, "a value does not end");
}

static bool read_start(struct reader *r) /* [40] [44] */
{
    char seen[ATTRIBUTES][LONGEST_NAME];
    if (r->depth == DEEPEST || (!r->depth && r->elements))
        return fails(r, "a second root, or too deep");
    if (!read_name(r, r->open[r->depth++]))
        return false;
    r->elements++;
    for (int n = 0;; n++) {
        const char *before = r->s;
        skip_blanks(r);
        if (r->s >= r->end || n == ATTRIBUTES)
            return fails(r, "a tag does not end");
        if (*r->s == '>') {
            r->s++;
            return true;
        }
        if (*r->s == '/' && r->s + 1 < r->end && r->s[1] == '>') {
            r->s += 2;
            r->depth--;
            return true;
        }
        if (before == r->s)
            return fails(r, "no blank before an attribute");
        if (!read_attribute(r, seen, n))
            return false;
    }
}

static bool read_end(struct reader *r) /* [42] */
{
    char name[LONGEST_NAME];
    r->s++;
    if (!read_name(r, name))
        return false;
    skip_blanks(r);
    if (r->s >= r->end || *r->s++ != '>')
        return fails(r, "an end tag does not end");
    if (!r->depth || strcmp(r->open[--r->depth], name) != 0)
        return fails(r, "an end tag of another element");
    return true;
}

static bool read_content(struct reader *r)
{
    if (*r->s == '<') {
        r->s++;
        return r->s < r->end && *r->s == '/' ? read_end(r) : read_start(r);
    }
    if (!r->depth && !strchr(" \t\r\n", *r->s ? *r->s : 'x'))
        return fails(r, "text outside the root");
    return read_char(r);
}

const char *xml_complaint(const char *text, size_t n)
{
    static char where[128];
    struct reader r = {.s = text, .end = text + n, .start = text};
    while (r.s < r.end && read_content(&r))
        ;
    if (!r.complaint && (r.depth || !r.elements))
        r.complaint = "the root does not end";
    if (!r.complaint)
        return NULL;
    snprintf(where, sizeof where, "%s, near byte %zu: %.40s", r.complaint, (size_t)(r.s - r.start), r.s);
    return where;
}
