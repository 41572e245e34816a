#include "format/yaml.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MOST_DEPTH = 32 };

struct reader {
    yaml_parser_t parser;
    const char *path, *text;
    size_t bytes;
    json_t *lines; /* of the keys of the first mapping */
};

static int error_at(const struct reader *r, yaml_mark_t mark, const char *what, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s:%zu:%zu: %s", r->path, mark.line + 1, mark.column + 1, what);
}

/* ---- Events. ---- */

/* Bytes that are no text: libyaml tells only where. */
static int not_text(const struct reader *r, struct snug_err *err)
{
    size_t line = 1, at = r->parser.problem_offset < r->bytes ? r->parser.problem_offset : r->bytes;
    for (size_t i = 0; i < at; i++)
        line += r->text[i] == '\n';
    return err_set(err, SNUG_ERR_INPUT, "%s:%zu: holds bytes that are not UTF-8 text; is it the right file?", r->path,
                   line);
}

static int not_yaml(const struct reader *r, struct snug_err *err)
{
    static const struct {
        const char *problem, *what;
    } rows[] = {
        {"mapping values are not allowed", "a ':' where none can be; quote a value that holds one"},
        {"could not find expected ':'", "no ':' behind a name; give lines of NAME: VALUE"},
        {"unexpected end of stream", "a quote or bracket is not closed"},
        {"cannot start any token", "a value cannot begin so; quote it"},
    };
    yaml_mark_t mark = r->parser.problem_mark;
    const char *problem = r->parser.problem ? r->parser.problem : "";
    if (mark.index < r->bytes && r->text[mark.index] == '\t')
        return error_at(r, mark, "a tab; indent with blanks", err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(problem, rows[i].problem))
            return error_at(r, mark, rows[i].what, err);
    return error_at(r, mark, "not valid YAML; give lines of NAME: VALUE, those of one level indented alike", err);
}

/* The next event; the caller deletes it, also after an error. */
static int next_event(struct reader *r, yaml_event_t *event, struct snug_err *err)
{
    memset(event, 0, sizeof *event);
    if (yaml_parser_parse(&r->parser, event))
        return SNUG_OK;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return err_no_memory(err, r->bytes);
    return r->parser.error == YAML_READER_ERROR ? not_text(r, err) : not_yaml(r, err);
}

/* ---- Scalars. ---- */

static bool is_one_of(const char *text, const char *words)
{
    const char *at = strstr(words, text);
    size_t n = strlen(text);
    return n && at && (at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]);
}

/* [-+]?(0|[1-9][0-9_]*) within int64. */
static json_t *integer_of(const char *text)
{
    char digits[24];
    size_t n = 0;
    const char *s = text + (*text == '-' || *text == '+');
    if ((*s == '0' && s[1]) || *s < '0' || *s > '9')
        return NULL;
    digits[n++] = *text == '-' ? '-' : '+';
    for (; *s; s++)
        if (*s >= '0' && *s <= '9' && n < sizeof digits - 1)
            digits[n++] = *s;
        else if (*s != '_')
            return NULL;
    digits[n] = 0;
    errno = 0;
    long long x = strtoll(digits, NULL, 10);
    return errno ? NULL : json_integer(x);
}

/* A decimal number with a point or an exponent, as JSON has it but for ".5", "5." and "+5.0". */
static json_t *real_of(const char *text)
{
    struct str number = {0};
    const char *s = text + (*text == '-' || *text == '+');
    if (!s[strcspn(s, "0123456789")] || s[strspn(s, "0123456789.eE+-")])
        return NULL;
    str_append(&number, *text == '-' ? "-" : "");
    str_append(&number, *s == '.' ? "0" : "");
    for (; *s; s++) {
        str_append_n(&number, s, 1);
        if (*s == '.' && (s[1] < '0' || s[1] > '9'))
            str_append(&number, "0");
    }
    json_t *x = json_loads(str_text(&number), JSON_DECODE_ANY, NULL);
    str_free(&number);
    if (x && !json_is_real(x)) { /* 010 is not here: a JSON number does not begin so */
        json_decref(x);
        x = NULL;
    }
    return x;
}

static json_t *plain_scalar(const char *text)
{
    json_t *x;
    if (!*text || is_one_of(text, "~ null Null NULL"))
        return json_null();
    if (is_one_of(text, "true True TRUE yes Yes YES on On ON"))
        return json_true();
    if (is_one_of(text, "false False FALSE no No NO off Off OFF"))
        return json_false();
    if ((x = integer_of(text)) || (x = real_of(text)))
        return x;
    return json_string(text);
}

static int read_scalar(const struct reader *r, const yaml_event_t *event, json_t **out, struct snug_err *err)
{
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return error_at(r, event->start_mark, "a text that holds \\0; leave it out", err);
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    *out = plain ? plain_scalar(text) : json_string(text);
    return *out ? SNUG_OK : err_no_memory(err, event->data.scalar.length);
}

/* ---- Nodes. ---- */

static int read_node(struct reader *r, const yaml_event_t *event, int depth, json_t **out, struct snug_err *err);

static int read_sequence(struct reader *r, int depth, json_t **out, struct snug_err *err)
{
    if (!(*out = json_array()))
        return err_no_memory(err, 64);
    for (int code = SNUG_OK;;) {
        yaml_event_t event;
        json_t *item = NULL;
        code = next_event(r, &event, err);
        bool end = !code && event.type == YAML_SEQUENCE_END_EVENT;
        if (!code && !end)
            code = read_node(r, &event, depth, &item, err);
        if (!code && !end && json_array_append_new(*out, item))
            code = err_no_memory(err, 64);
        yaml_event_delete(&event);
        if (code || end)
            return code;
    }
}

/* The text of a key, which the caller frees. */
static int read_key(const struct reader *r, const yaml_event_t *event, const json_t *object, char **key,
                    struct snug_err *err)
{
    char what[128];
    if (event->type != YAML_SCALAR_EVENT)
        return error_at(r, event->start_mark, "a name was expected; give lines of NAME: VALUE", err);
    const char *text = (const char *)event->data.scalar.value;
    if (event->data.scalar.tag || event->data.scalar.anchor || strcmp(text, "<<") == 0 ||
        strlen(text) != event->data.scalar.length)
        return error_at(r, event->start_mark, "merges, tags and anchors are not read; write the value out", err);
    if (json_object_get(object, text)) {
        snprintf(what, sizeof what, "'%.60s' is there twice; give it once", text);
        return error_at(r, event->start_mark, what, err);
    }
    *key = mem_strdup(text);
    return *key ? SNUG_OK : err_no_memory(err, event->data.scalar.length);
}

/* One key and its value. *end: there was none. */
static int read_pair(struct reader *r, int depth, json_t *object, bool *end, struct snug_err *err)
{
    yaml_event_t event;
    json_t *value = NULL;
    char *key = NULL;
    int code = next_event(r, &event, err);
    size_t line = event.start_mark.line + 1;
    *end = !code && event.type == YAML_MAPPING_END_EVENT;
    if (!code && !*end)
        code = read_key(r, &event, object, &key, err);
    yaml_event_delete(&event);
    if (code || *end)
        return code;
    code = next_event(r, &event, err);
    if (!code)
        code = read_node(r, &event, depth, &value, err);
    yaml_event_delete(&event);
    if (!code && (json_object_set_new(object, key, value) ||
                  (depth == 1 && json_object_set_new(r->lines, key, json_integer((json_int_t)line)))))
        code = err_no_memory(err, 64);
    mem_free(key);
    return code;
}

static int read_mapping(struct reader *r, int depth, json_t **out, struct snug_err *err)
{
    bool end = false;
    if (!(*out = json_object()))
        return err_no_memory(err, 64);
    while (!end)
        TRY(read_pair(r, depth, *out, &end, err));
    return SNUG_OK;
}

static bool is_marked(const yaml_event_t *e)
{
    return (e->type == YAML_SCALAR_EVENT && (e->data.scalar.tag || e->data.scalar.anchor)) ||
           (e->type == YAML_SEQUENCE_START_EVENT && (e->data.sequence_start.tag || e->data.sequence_start.anchor)) ||
           (e->type == YAML_MAPPING_START_EVENT && (e->data.mapping_start.tag || e->data.mapping_start.anchor));
}

/* The value that `event` begins; *out is NULL after an error. */
static int read_node(struct reader *r, const yaml_event_t *event, int depth, json_t **out, struct snug_err *err)
{
    int code;
    *out = NULL;
    if (event->type == YAML_ALIAS_EVENT || is_marked(event))
        return error_at(r, event->start_mark, "merges, tags and anchors are not read; write the value out", err);
    if (depth == MOST_DEPTH)
        return error_at(r, event->start_mark, "nested too deeply", err);
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(r, event, out, err);
    if (event->type == YAML_SEQUENCE_START_EVENT)
        code = read_sequence(r, depth + 1, out, err);
    else
        code = read_mapping(r, depth + 1, out, err);
    if (code) {
        json_decref(*out);
        *out = NULL;
    }
    return code;
}

/* Stream start, perhaps one document, stream end. */
static int read_stream(struct reader *r, json_t **out, struct snug_err *err)
{
    for (int code = SNUG_OK, documents = 0;;) {
        yaml_event_t event;
        code = next_event(r, &event, err);
        yaml_event_type_t type = event.type;
        if (!code && type == YAML_DOCUMENT_START_EVENT && documents++)
            code = error_at(r, event.start_mark, "a second document begins; give one", err);
        else if (!code && type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
                 type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT)
            code = read_node(r, &event, 0, out, err);
        yaml_event_delete(&event);
        if (code || type == YAML_STREAM_END_EVENT)
            return code;
    }
}

int yaml_parse(const char *text, size_t bytes, const char *path, json_t **out, json_t **lines, struct snug_err *err)
{
    struct reader r = {.path = path, .text = text, .bytes = bytes, .lines = json_object()};
    *out = *lines = NULL;
    if (!r.lines || !yaml_parser_initialize(&r.parser)) {
        json_decref(r.lines);
        return err_no_memory(err, 4096);
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    int code = read_stream(&r, out, err);
    yaml_parser_delete(&r.parser);
    if (!code && !*out)
        *out = json_null();
    if (code) {
        json_decref(*out);
        *out = NULL;
        json_decref(r.lines);
    } else {
        *lines = r.lines;
    }
    return code;
}
