#include "data/files/objects/jsonl.h"

#include "format/json.h"

#include <stdio.h>
#include <string.h>

static bool is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n';
}

static char first_character(const struct source *s)
{
    size_t i = s->i;
    while (i < s->n && is_blank(s->buf[i]))
        i++;
    return i < s->n ? s->buf[i] : 0;
}

/* Uses up n bytes. */
static void advance(struct jsonl *j, size_t n)
{
    struct source *s = &j->source;
    const char *at = s->buf + s->i, *end = at + n, *line_end;
    for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
        s->line++;
        j->line_at = s->offset + (line_end + 1 - s->buf);
    }
    s->i += n;
}

/* Of the next byte in its line, from 1. */
static int64_t column(const struct jsonl *j)
{
    return j->source.offset + (int64_t)j->source.i - j->line_at + 1;
}

static int check_first(const struct jsonl *j, char first, struct snug_err *err)
{
    if (first == '[' && j->source.is_stream)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: '[' where an object was expected; give --data-format json if it is one array", j->path);
    if (first == '[')
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: '[' where an object was expected; name the file .json if it is one array", j->path);
    if (first && first != '{')
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: '%c' where '{' was expected; it is not JSON (is it CSV? then name it .csv)", j->path,
                       first);
    return SNUG_OK;
}

/* The next n bytes to the row being read, called `what` in a message. They are not used up. */
static int add_text(struct jsonl *j, size_t n, const char *what, struct snug_err *err)
{
    if (j->n_text + n > SOURCE_ROW_BYTES)
        return err_at(err, SNUG_ERR_INPUT, j->place, "a %s of more than %d bytes; split the text", what,
                      SOURCE_ROW_BYTES);
    if (!MEM_GROW(j->text, j->text_cap, j->n_text + n + 1))
        return err_no_memory(err, j->n_text + n + 1);
    memcpy(j->text + j->n_text, j->source.buf + j->source.i, n);
    j->n_text += n;
    return SNUG_OK;
}

/* Behind the first character of a source that is open. */
static int begin(struct jsonl *j, struct snug_err *err)
{
    char first = first_character(&j->source);
    j->is_array = first == '[' && j->array_allowed;
    j->line_at = j->source.offset + (int64_t)j->source.i;
    if (!j->is_array)
        return check_first(j, first, err);
    while (is_blank(j->source.buf[j->source.i]))
        advance(j, 1);
    advance(j, 1);
    return SNUG_OK;
}

int jsonl_open(const struct io *io, const char *path, bool array_allowed, struct jsonl *j, struct snug_err *err)
{
    *j = (struct jsonl){.path = path, .array_allowed = array_allowed, .source.fd = -1};
    TRY(source_open(io, path, &j->source, err));
    int code = begin(j, err);
    if (code)
        jsonl_close(j);
    return code;
}

int jsonl_open_source(struct source *source, bool array_allowed, struct jsonl *j, struct snug_err *err)
{
    *j = (struct jsonl){.path = source->path, .source = *source, .array_allowed = array_allowed};
    *source = (struct source){.fd = -1};
    return begin(j, err);
}

/* ---- an array ---- */

/* The next character that is not blank, which is not used up; 0 at the end of the file. */
static int peek(struct jsonl *j, char *ch, struct snug_err *err)
{
    struct source *s = &j->source;
    for (*ch = 0; !*ch;) {
        if (s->i == s->n)
            TRY(source_fill(s, err));
        if (s->i == s->n)
            return SNUG_OK;
        if (is_blank(s->buf[s->i]))
            advance(j, 1);
        else
            *ch = s->buf[s->i];
    }
    return SNUG_OK;
}

static int bad_array(const struct jsonl *j, const char *what, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s:%lld:%lld: %s", j->path, (long long)j->source.line, (long long)column(j),
                   what);
}

/* Where in an item of the array a reader is. */
struct nesting {
    int64_t depth;
    bool in_string, escaped;
};

/* How many of n bytes belong to the item; *ended when its last one does. */
static size_t to_item_end(struct nesting *at, const char *s, size_t n, bool *ended)
{
    for (size_t i = 0; i < n; i++) {
        char ch = s[i];
        bool opens = ch == '{' || ch == '[', closes = ch == '}' || ch == ']';
        if (at->in_string) {
            at->in_string = at->escaped || ch != '"';
            at->escaped = !at->escaped && ch == '\\';
        } else if (at->depth == 0 && (ch == ',' || closes)) { /* behind a number or a word */
            *ended = true;
            return i;
        } else {
            at->in_string = ch == '"';
            at->depth += opens - closes;
        }
        if (closes && !at->in_string && at->depth == 0) {
            *ended = true;
            return i + 1;
        }
    }
    return n;
}

/* From the first character of an item on. */
static int take_item(struct jsonl *j, struct snug_err *err)
{
    struct source *s = &j->source;
    struct nesting at = {0};
    j->from_line = s->line;
    j->from_column = column(j);
    for (bool ended = false; !ended;) {
        if (s->i == s->n)
            TRY(source_fill(s, err));
        if (s->i == s->n)
            return bad_array(j, "the file ends within the array; is it whole?", err);
        size_t n = to_item_end(&at, s->buf + s->i, s->n - s->i, &ended);
        TRY(add_text(j, n, "row", err));
        advance(j, n);
    }
    return j->n_text ? SNUG_OK : bad_array(j, "a row expected", err);
}

/* The text of the next item; n_text is 0 behind the last. */
static int read_item(struct jsonl *j, struct snug_err *err)
{
    char ch;
    j->n_text = 0;
    TRY(peek(j, &ch, err));
    if (ch == ',' && j->item) {
        advance(j, 1);
        TRY(peek(j, &ch, err));
        if (ch == ']' || ch == ',')
            return bad_array(j, "no row behind ','; leave the comma out", err);
    } else if (ch && ch != ']' && j->item)
        return bad_array(j, "',' or ']' expected behind a row", err);
    if (ch != ']')
        return take_item(j, err);
    advance(j, 1);
    TRY(peek(j, &ch, err));
    return ch ? bad_array(j, "something behind the end of the array; take it out", err) : SNUG_OK;
}

/* json_parse counts from 1:1 in what it is given; its message gets the place in the file instead. */
static int parse_item(struct jsonl *j, struct snug_err *err)
{
    struct snug_err e;
    long long line, at;
    int code = json_parse(j->text, j->n_text, "row", &j->row, &e), behind = 0;
    if (!code)
        return SNUG_OK;
    if (sscanf(e.text, "row:%lld:%lld: %n", &line, &at, &behind) < 2 || !behind)
        return err_at(err, code, j->place, "%s", e.text);
    at += line == 1 ? j->from_column - 1 : 0;
    return err_set(err, code, "%s:%lld:%lld: %s", j->path, (long long)j->from_line + line - 1, at, e.text + behind);
}

static int next_item(struct jsonl *j, struct snug_err *err)
{
    if (j->ended)
        return SNUG_OK;
    j->place = (struct place){.path = j->path, .n = j->item, .is_row = true};
    TRY(read_item(j, err));
    j->ended = !j->n_text;
    j->item += !j->ended;
    j->source.row++;
    return j->ended ? SNUG_OK : parse_item(j, err);
}

/* ---- lines ---- */

/* The next line that is not blank; n_text is 0 at the end of the file. */
static int read_line(struct jsonl *j, struct snug_err *err)
{
    struct source *s = &j->source;
    bool blank = true;
    j->n_text = 0;
    j->place = (struct place){.path = j->path, .n = s->line};
    for (;;) {
        if (s->i == s->n)
            TRY(source_fill(s, err));
        if (s->i == s->n)
            break;
        char *end = memchr(s->buf + s->i, '\n', s->n - s->i);
        size_t n = (end ? (size_t)(end - s->buf) : s->n) - s->i;
        TRY(add_text(j, n, "line", err));
        for (size_t i = 0; blank && i < n; i++)
            blank = is_blank(s->buf[s->i + i]);
        s->i += n + (end != NULL);
        s->line += end != NULL;
        if (end && !blank)
            break;
        if (end) {
            j->n_text = 0;
            j->place.n = s->line;
        }
    }
    s->row++;
    if (blank)
        j->n_text = 0;
    return SNUG_OK;
}

/* json_parse counts lines from 1 in what it is given; its message gets the line of the file instead. */
static int parse_line(struct jsonl *j, struct snug_err *err)
{
    struct snug_err e;
    int code = json_parse(j->text, j->n_text, "row", &j->row, &e);
    if (!code)
        return SNUG_OK;
    const char *text = strncmp(e.text, "row:1:", 6) == 0 ? e.text + 6 : NULL;
    if (j->array_allowed && j->place.n == 1)
        return err_at(err, code, j->place, "neither an array of objects nor one object a line; write one of them");
    if (!text)
        return err_at(err, code, j->place, "%s", e.text);
    return err_set(err, code, "%s:%lld:%s", j->path, (long long)j->place.n, text);
}

static int next_line(struct jsonl *j, struct snug_err *err)
{
    TRY(read_line(j, err));
    return j->n_text ? parse_line(j, err) : SNUG_OK;
}

int jsonl_next(struct jsonl *j, struct snug_err *err)
{
    json_decref(j->row);
    j->row = NULL;
    TRY(j->is_array ? next_item(j, err) : next_line(j, err));
    if (j->row && !json_is_object(j->row))
        return err_at(err, SNUG_ERR_INPUT, j->place, "not an object; write {\"text\": ..., \"label\": ...}");
    return SNUG_OK;
}

struct hash128 jsonl_hash(const struct jsonl *j)
{
    return source_hash(&j->source);
}

void jsonl_close(struct jsonl *j)
{
    source_close(&j->source);
    mem_free(j->text);
    j->text = NULL;
    json_decref(j->row);
    j->row = NULL;
}
