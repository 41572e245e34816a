#include "data/files/csv.h"

/* The states of Python's _csv.c that a dialect without an escape character can reach. */
enum state { START_FIELD, IN_FIELD, IN_QUOTES, QUOTE_IN_QUOTES };

int csv_open(const struct io *io, const char *path, char delimiter, struct csv *c, struct snug_err *err)
{
    struct source source = {.fd = -1};
    *c = (struct csv){.source.fd = -1};
    TRY(source_open(io, path, &source, err));
    return csv_open_source(&source, delimiter, c, err);
}

int csv_open_source(struct source *source, char delimiter, struct csv *c, struct snug_err *err)
{
    *c = (struct csv){.delimiter = delimiter, .source = *source};
    *source = (struct source){.fd = -1};
    if (delimiter <= 0 || delimiter == '"' || delimiter == '\r' || delimiter == '\n')
        return err_set(err, SNUG_ERR_USAGE, "--delimiter: byte 0x%02X cannot separate fields; give one ASCII character",
                       (unsigned char)delimiter);
    return SNUG_OK;
}

void csv_close(struct csv *c)
{
    source_close(&c->source);
    mem_free(c->text);
    mem_free(c->starts);
    c->text = NULL;
    c->starts = NULL;
}

const char *csv_field(const struct csv *c, size_t i, size_t *bytes)
{
    *bytes = c->starts[i + 1] - c->starts[i] - 1;
    return c->text + c->starts[i];
}

static int end_field(struct csv *c, struct snug_err *err)
{
    c->text[c->n_text++] = 0;
    c->n_fields++;
    if (!MEM_GROW(c->starts, c->starts_cap, c->n_fields + 1))
        return err_no_memory(err, c->starts_cap * 2 * sizeof *c->starts);
    c->starts[c->n_fields] = c->n_text;
    return SNUG_OK;
}

/* Room for what the bytes that are ready can become: one byte each, and the 0 behind the last field. */
static int make_room(struct csv *c, int64_t quote_line, struct snug_err *err)
{
    struct place p = {.path = c->source.path, .n = c->line};
    if (c->n_text > SOURCE_ROW_BYTES && quote_line)
        return err_at(err, SNUG_ERR_INPUT, p,
                      "a row of more than %d bytes; is the quote opened on line %lld never closed?", SOURCE_ROW_BYTES,
                      (long long)quote_line);
    if (c->n_text > SOURCE_ROW_BYTES)
        return err_at(err, SNUG_ERR_INPUT, p, "a row of more than %d bytes; split the text", SOURCE_ROW_BYTES);
    size_t want = c->n_text + (c->source.n - c->source.i) + 2;
    return MEM_GROW(c->text, c->text_cap, want) ? SNUG_OK : err_no_memory(err, want);
}

/* A CR or LF outside quotes ends the row; an LF right behind a CR is the same line end. */
static void count_line(struct csv *c, char ch)
{
    c->source.line += ch == '\r' || !c->after_cr;
    c->after_cr = ch == '\r';
}

static int step(struct csv *c, char ch, enum state *state, int64_t *quote_line, bool *row_ends, struct snug_err *err)
{
    bool line_end = ch == '\r' || ch == '\n';
    if (line_end)
        count_line(c, ch);
    else
        c->after_cr = false;
    if (*state == IN_QUOTES) {
        if (ch == '"')
            *state = QUOTE_IN_QUOTES;
        else
            c->text[c->n_text++] = ch;
    } else if (line_end || ch == c->delimiter) {
        *state = START_FIELD;
        *row_ends = line_end;
        *quote_line = 0;
        return end_field(c, err);
    } else if (*state == START_FIELD && ch == '"') {
        *state = IN_QUOTES;
        *quote_line = c->source.line;
    } else if (*state == QUOTE_IN_QUOTES && ch != '"') {
        struct place p = {.path = c->source.path, .n = c->source.line};
        return err_at(err, SNUG_ERR_INPUT, p,
                      "field %zu, '%.*s', goes on behind its closing quote; a quote inside quotes is written \"\"",
                      c->n_fields + 1, (int)(c->n_text - c->starts[c->n_fields]), c->text + c->starts[c->n_fields]);
    } else {
        *state = *state == QUOTE_IN_QUOTES ? IN_QUOTES : IN_FIELD;
        c->text[c->n_text++] = ch;
    }
    return SNUG_OK;
}

/* Passes over blank lines and the LF that is left of a CRLF; `more` is false at the end of the file. */
static int find_row(struct csv *c, bool *more, struct snug_err *err)
{
    struct source *s = &c->source;
    for (;; s->i++) {
        if (s->i == s->n)
            TRY(source_fill(s, err));
        *more = s->i < s->n;
        if (!*more || (s->buf[s->i] != '\r' && s->buf[s->i] != '\n'))
            return SNUG_OK;
        count_line(c, s->buf[s->i]);
    }
}

int csv_next(struct csv *c, struct snug_err *err)
{
    struct source *s = &c->source;
    enum state state = START_FIELD;
    int64_t quote_line = 0;
    bool more, row_ends = false;
    c->n_fields = c->n_text = 0;
    TRY(find_row(c, &more, err));
    c->line = s->line;
    if (!more)
        return SNUG_OK;
    if (!MEM_GROW(c->starts, c->starts_cap, 1))
        return err_no_memory(err, sizeof *c->starts);
    c->starts[0] = 0;
    while (!row_ends) {
        if (s->i == s->n)
            TRY(source_fill(s, err));
        TRY(make_room(c, quote_line, err));
        if (s->i == s->n)
            break;
        while (!row_ends && s->i < s->n)
            TRY(step(c, s->buf[s->i++], &state, &quote_line, &row_ends, err));
    }
    struct place p = {.path = s->path, .n = quote_line};
    if (!row_ends && state == IN_QUOTES)
        return err_at(err, SNUG_ERR_INPUT, p,
                      "the quote opened here is never closed; the row starting on line %lld takes in "
                      "the rest of the file",
                      (long long)c->line);
    if (!row_ends)
        TRY(end_field(c, err));
    s->row++;
    return SNUG_OK;
}
