#include "data/files/objects/jsonl.h"

#include "format/json.h"

#include <string.h>

enum { ARRAY_BYTES = 256 << 20 }; /* an array is held in memory as a whole */

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

static int open_array(const struct io *io, struct jsonl *j, struct snug_err *err)
{
    char *text;
    size_t bytes;
    TRY(io_read_file(io, j->path, ARRAY_BYTES, &text, &bytes, err));
    j->hash = hash_bytes(text, bytes);
    int code = json_parse(text, bytes, j->path, &j->array, err);
    mem_free(text);
    return code;
}

static int check_first(const struct jsonl *j, char first, struct snug_err *err)
{
    if (first == '[' && j->source.packed)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: '[' where an object was expected; decompress the file if it is one array", j->path);
    if (first == '[' && j->source.is_stream)
        return err_set(err, SNUG_ERR_INPUT, "%s:1: '[' where an object was expected; write one object a line", j->path);
    if (first == '[')
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: '[' where an object was expected; name the file .json if it is one array", j->path);
    if (first && first != '{')
        return err_set(err, SNUG_ERR_INPUT,
                       "%s:1: '%c' where '{' was expected; it is not JSON (is it CSV? then name it .csv)", j->path,
                       first);
    return SNUG_OK;
}

int jsonl_open(const struct io *io, const char *path, bool array_allowed, struct jsonl *j, struct snug_err *err)
{
    *j = (struct jsonl){.path = path, .array_allowed = array_allowed, .source.fd = -1};
    TRY(source_open(io, path, &j->source, err));
    char first = first_character(&j->source);
    bool array = first == '[' && array_allowed && !j->source.packed;
    if (array)
        source_close(&j->source);
    int code = array ? open_array(io, j, err) : check_first(j, first, err);
    if (code)
        jsonl_close(j);
    return code;
}

int jsonl_open_source(struct source *source, struct jsonl *j, struct snug_err *err)
{
    *j = (struct jsonl){.path = source->path, .source = *source};
    *source = (struct source){.fd = -1};
    return check_first(j, first_character(&j->source), err);
}

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
        if (j->n_text + n > SOURCE_ROW_BYTES)
            return err_at(err, SNUG_ERR_INPUT, j->place, "a line of more than %d bytes; split the text",
                          SOURCE_ROW_BYTES);
        if (!MEM_GROW(j->text, j->text_cap, j->n_text + n + 1))
            return err_no_memory(err, j->n_text + n + 1);
        memcpy(j->text + j->n_text, s->buf + s->i, n);
        for (size_t i = 0; blank && i < n; i++)
            blank = is_blank(s->buf[s->i + i]);
        j->n_text += n;
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

int jsonl_next(struct jsonl *j, struct snug_err *err)
{
    if (j->array) {
        j->place = (struct place){.path = j->path, .n = (int64_t)j->item, .is_row = true};
        j->row = json_array_get(j->array, j->item++); /* borrowed; NULL past the end */
    } else {
        json_decref(j->row);
        j->row = NULL;
        TRY(read_line(j, err));
        if (j->n_text)
            TRY(parse_line(j, err));
    }
    if (j->row && !json_is_object(j->row))
        return err_at(err, SNUG_ERR_INPUT, j->place, "not an object; write {\"text\": ..., \"label\": ...}");
    return SNUG_OK;
}

struct hash128 jsonl_hash(const struct jsonl *j)
{
    return j->array ? j->hash : source_hash(&j->source);
}

void jsonl_close(struct jsonl *j)
{
    source_close(&j->source);
    mem_free(j->text);
    j->text = NULL;
    if (j->array)
        json_decref(j->array);
    else
        json_decref(j->row);
    j->array = j->row = NULL;
}
