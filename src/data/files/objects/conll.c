#include "data/files/objects/conll.h"

#include <string.h>

int conll_open(const struct io *io, const char *path, struct conll *c, struct snug_err *err)
{
    *c = (struct conll){0};
    return lines_open(io, path, &c->lines, err);
}

void conll_open_source(struct source *source, struct conll *c)
{
    *c = (struct conll){0};
    lines_open_source(source, &c->lines);
}

void conll_close(struct conll *c)
{
    lines_close(&c->lines);
    json_decref(c->row);
    c->row = NULL;
}

struct field {
    const char *s;
    size_t n;
};

/* The first and the last column of a line, and how many there are. */
static int split(const char *line, struct field *first, struct field *last)
{
    const char *between = strchr(line, '\t') ? "\t" : " ";
    int n = 0;
    for (const char *at = line; *at;) {
        at += strspn(at, between);
        size_t length = strcspn(at, between);
        if (!length)
            break;
        *last = (struct field){at, length};
        *first = n++ ? *first : *last;
        at += length;
    }
    return n;
}

/* Only where a sentence may begin: a word may be "#", too. */
static bool is_comment(const char *line)
{
    return !strncmp(line, "# id", 4) || (!strncmp(line, "# ", 2) && strstr(line, " = "));
}

static bool append(json_t *list, struct field f)
{
    return !json_array_append_new(list, json_stringn(f.s, f.n));
}

/* One line into the sentence, which it may begin. *ends: it is a line between sentences. */
static int add_line(struct conll *c, json_t *tokens, json_t *tags, bool *ends, struct snug_err *err)
{
    struct field word = {0}, tag = {0};
    struct place at = {.path = c->lines.source.path, .n = c->lines.line};
    const char *line = c->lines.text;
    int n = split(line, &word, &tag);
    bool begins = !json_array_size(tokens);
    *ends = n == 0 || !strncmp(line, "-DOCSTART-", 10);
    if (*ends || (begins && is_comment(line)))
        return SNUG_OK;
    if (c->columns && n != c->columns)
        return err_at(err, SNUG_ERR_INPUT, at,
                      "%d columns where the lines before have %d; write a word and its tag on each line, and a blank "
                      "line between sentences",
                      n, c->columns);
    c->columns = n;
    if (begins)
        c->place = at;
    return append(tokens, word) && append(tags, tag) ? SNUG_OK : err_no_memory(err, word.n + tag.n);
}

static int read_sentence(struct conll *c, json_t *tokens, json_t *tags, struct snug_err *err)
{
    bool ends = false;
    while (!ends || !json_array_size(tokens)) {
        TRY(lines_next(&c->lines, err));
        if (c->lines.ended)
            return SNUG_OK;
        TRY(add_line(c, tokens, tags, &ends, err));
    }
    return SNUG_OK;
}

int conll_next(struct conll *c, struct snug_err *err)
{
    json_t *tokens = json_array(), *tags = json_array();
    json_decref(c->row);
    c->row = NULL;
    int code = tokens && tags ? read_sentence(c, tokens, tags, err) : err_no_memory(err, 64);
    if (!code && json_array_size(tokens)) {
        c->row = c->columns > 1 ? json_pack("{s:O, s:O}", "tokens", tokens, "tags", tags)
                                : json_pack("{s:O}", "tokens", tokens);
        code = c->row ? SNUG_OK : err_no_memory(err, 64);
    }
    json_decref(tokens);
    json_decref(tags);
    return code;
}
