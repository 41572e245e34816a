#include "data/files/lines.h"

#include <string.h>

int lines_open(const struct io *io, const char *path, struct lines *l, struct snug_err *err)
{
    *l = (struct lines){.source.fd = -1};
    return source_open(io, path, &l->source, err);
}

void lines_open_source(struct source *source, struct lines *l)
{
    *l = (struct lines){.source = *source};
    *source = (struct source){.fd = -1};
}

void lines_close(struct lines *l)
{
    source_close(&l->source);
    mem_free(l->text);
    l->text = NULL;
}

static size_t to_line_end(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] != '\n' && s[i] != '\r')
        i++;
    return i;
}

/* What is ready of the line; *end when that is all of it. */
static int take(struct lines *l, bool *end, struct snug_err *err)
{
    struct source *s = &l->source;
    size_t n = to_line_end(s->buf + s->i, s->n - s->i);
    if (l->n_text + n > SOURCE_ROW_BYTES)
        return err_at(err, SNUG_ERR_INPUT, (struct place){.path = s->path, .n = l->line},
                      "a line of more than %d bytes; split the text", SOURCE_ROW_BYTES);
    if (!MEM_GROW(l->text, l->text_cap, l->n_text + n + 1))
        return err_no_memory(err, l->n_text + n + 1);
    memcpy(l->text + l->n_text, s->buf + s->i, n);
    l->n_text += n;
    l->text[l->n_text] = 0;
    s->i += n;
    *end = s->i < s->n;
    if (*end)
        l->after_cr = s->buf[s->i++] == '\r';
    return SNUG_OK;
}

int lines_next(struct lines *l, struct snug_err *err)
{
    struct source *s = &l->source;
    bool end = false;
    l->n_text = 0;
    l->line = s->line;
    l->ended = true;
    while (!end) {
        if (s->i == s->n)
            TRY(source_fill(s, err));
        if (s->i == s->n)
            break;
        bool rest_of_crlf = l->after_cr && s->buf[s->i] == '\n';
        l->after_cr = false;
        s->i += rest_of_crlf;
        if (rest_of_crlf && s->i == s->n)
            continue;
        TRY(take(l, &end, err));
        l->ended = false;
    }
    s->line += end;
    s->row++;
    return SNUG_OK;
}
