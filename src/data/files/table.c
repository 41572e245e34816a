#include "data/files/table.h"

#include "base/str.h"
#include "data/dataset_parts.h"
#include "data/files/answers.h"
#include "data/files/header.h"
#include "data/files/sniff.h"
#include "format/json.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool is_csv(const struct table *t)
{
    return t->format == FORMAT_CSV || t->format == FORMAT_TSV;
}

static int next_object(struct table *t, struct snug_err *err)
{
    TRY(objects_next(&t->objects, err));
    t->object = t->objects.row;
    return SNUG_OK;
}

/* ---- one file ---- */

/* '{"' or '[{' can hardly begin a header. */
static const char *json_kind(const struct source *s)
{
    size_t i = s->i;
    if (i == s->n || (s->buf[i] != '{' && s->buf[i] != '['))
        return NULL;
    bool array = s->buf[i++] == '[';
    while (i < s->n && strchr(" \t\r\n", s->buf[i]))
        i++;
    char second = i < s->n ? s->buf[i] : 0;
    return second != (array ? '{' : '"') ? NULL : array ? ".json" : ".jsonl";
}

static int open_csv(struct table *t, struct columns *c, struct snug_err *err)
{
    char delimiter = t->o->delimiter ? t->o->delimiter : t->format == FORMAT_TSV ? '\t' : ',';
    if (t->input)
        TRY(csv_open_source(t->input, delimiter, &t->csv, err));
    else
        TRY(csv_open(t->io, t->path, delimiter, &t->csv, err));
    const char *kind = json_kind(&t->csv.source);
    if (kind)
        return err_set(err, SNUG_ERR_INPUT, "%s:1: looks like JSON, not CSV; rename it to %s", t->path, kind);
    TRY(csv_next(&t->csv, err));
    if (t->csv.n_fields == 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: the file is empty, 0 rows; give some data", t->path);
    TRY(header_refuse_separator(&t->csv, err));
    t->csv.source.row = 1; /* the header does not count */
    for (size_t i = 0; i < t->csv.n_fields; i++) {
        size_t bytes;
        TRY(columns_add(c, t->path, csv_field(&t->csv, i, &bytes), err));
    }
    return SNUG_OK;
}

static int open_objects(struct table *t, struct columns *c, struct snug_err *err)
{
    if (t->input)
        TRY(objects_open_source(t->input, t->format, &t->objects, err));
    else
        TRY(objects_open(t->io, t->path, t->format, &t->objects, err));
    TRY(next_object(t, err));
    if (!t->object)
        return err_set(err, SNUG_ERR_INPUT, "%s: no %s in it; 0 rows", t->path, objects_called(&t->objects));
    t->pending = true;
    const char *key;
    json_t *value;
    json_object_foreach(t->object, key, value) TRY(columns_add(c, t->path, key, err));
    return SNUG_OK;
}

static int open_lines(struct table *t, struct columns *c, struct snug_err *err)
{
    if (t->input)
        lines_open_source(t->input, &t->lines);
    else
        TRY(lines_open(t->io, t->path, &t->lines, err));
    return columns_add(c, t->path, "text", err);
}

static int open_file(struct table *t, struct columns *c, struct snug_err *err)
{
    t->closed = false;
    return is_csv(t) ? open_csv(t, c, err) : table_has_objects(t) ? open_objects(t, c, err) : open_lines(t, c, err);
}

/* NULL: the file is not read from front to back. */
static struct source *source_of(struct table *t)
{
    return is_csv(t) ? &t->csv.source : table_has_objects(t) ? objects_source(&t->objects) : &t->lines.source;
}

static void close_file(struct table *t)
{
    if (t->closed)
        return;
    if (is_csv(t))
        csv_close(&t->csv);
    else if (table_has_objects(t))
        objects_close(&t->objects);
    else
        lines_close(&t->lines);
    t->object = NULL;
    t->closed = true;
}

/* ---- columns ---- */

/* NULL, or what the only column of a CSV file seems to be separated by. */
static const char *better_delimiter(const struct table *t)
{
    const char *found = is_csv(t) && t->columns.n == 1 ? strpbrk(t->columns.names[0], ";\t|,") : NULL;
    return !found ? NULL : *found == ';' ? ";" : *found == '|' ? "|" : *found == ',' ? "," : "\\t";
}

/* Where columns may hide: in an object within the row, or in the rows of the only object that there is. Says so; SNUG_OK
 * where there are none. The rows of a pipe are not waited for. */
static int look_within(struct table *t, struct snug_err *err)
{
    const char *key, *object = NULL, *rows = NULL;
    json_t *value;
    char name[64];
    json_object_foreach(t->object, key, value)
    {
        object = object ? object : json_object_size(value) ? key : NULL;
        rows = rows ? rows : json_is_object(json_array_get(value, 0)) ? key : NULL;
    }
    snprintf(name, sizeof name, "%s", object ? object : rows ? rows : "");
    if (object)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: its '%s' is an object; name its members with the options for columns, as in --text-column "
                       "%s.%s",
                       t->path, name, name, json_object_iter_key(json_object_iter(json_object_get(t->object, object))));
    if (!rows || !objects_was_only_row(&t->objects))
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: an object whose '%s' is an array of rows; write them alone, with: jq -c '.[\"%s\"][]'", t->path,
                   name, name);
}

/* Only a causal language model reads conversations. */
static int refuse_conversations(const struct table *t, struct snug_err *err)
{
    struct columns found = t->columns;
    columns_find_form(&found);
    if (found.form == ROWS_TEXT)
        return SNUG_OK;
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: has conversations, in '%s', which only a causal language model reads (--task causal-lm); name a "
        "text with --text-column",
        t->path, found.names[found.turns]);
}

static int no_usual_column(struct table *t, const char *what, struct snug_err *err)
{
    if (table_has_objects(t) && t->columns.text < 0)
        TRY(refuse_conversations(t, err));
    if (t->format == FORMAT_LINES)
        return err_set(err, SNUG_ERR_INPUT, "%s: a text file has no %s; give .csv or .jsonl, or another --task",
                       t->path, what);
    if (table_has_objects(t))
        TRY(look_within(t, err));
    else if (t->columns.text < 0 && !t->columns.n_labels)
        TRY(header_refuse_row(&t->csv, &t->columns, err));
    struct str list = {0};
    columns_listed(&t->columns, &list);
    int code = str_check(&list, err);
    if (!code)
        code = err_set(err, SNUG_ERR_INPUT, "%s: no column with a usual name for the %s; name one with --%s-column: %s",
                       t->path, what, what, str_text(&list));
    str_free(&list);
    return code;
}

static int find_columns(struct table *t, enum table_labels labels, struct snug_err *err)
{
    struct columns *c = &t->columns;
    c->row = t->object;
    int code = columns_find(c, t->o, labels != TABLE_NO_LABELS, err);
    c->row = NULL;
    if (!code)
        TRY(word_columns_find(t, labels, err));
    if (c->form == ROWS_WORDS)
        return SNUG_OK;
    if (table_has_objects(t) && !t->o->text_column && (labels == TABLE_LABELS_IF_ANY || t->o->task == TASK_CAUSAL_LM))
        columns_find_form(c);
    if (c->form != ROWS_TEXT) {
        c->text = c->pair = -1;
        c->text_guessed = false;
        return code;
    }
    bool causal = t->o->task == TASK_CAUSAL_LM || (labels == TABLE_LABELS_IF_ANY && c->text < 0);
    if (!code && causal && !t->o->text_column && t->format != FORMAT_LINES)
        TRY(answers_refuse(t, err));
    bool no_label = labels == TABLE_LABELS && !c->n_labels;
    const char *better = better_delimiter(t);
    if (better && (code || c->text < 0 || no_label))
        return err_set(err, SNUG_ERR_INPUT, "%s:1: one column only; it looks like '%s' separated: use --delimiter '%s'",
                       t->path, better, better);
    if (!code && c->text < 0)
        code = no_usual_column(t, "text", err);
    if (!code && c->pair < 0 && t->o->task == TASK_SEQ2SEQ)
        code = no_usual_column(t, "target", err);
    if (!code && no_label)
        code = no_usual_column(t, "label", err);
    return code;
}

/* A copy, since the file is closed before the others of the table are read. */
static int find_classes(struct table *t, struct snug_err *err)
{
    struct columns *c = &t->columns;
    size_t n = 0;
    if (c->n_labels != 1 || !table_has_objects(t))
        return SNUG_OK;
    const char *const *names = objects_classes(&t->objects, c->names[c->labels[0]], &n);
    if (!names || n > LABELS_MAX)
        return SNUG_OK;
    c->classes = arena_alloc(&c->arena, n * sizeof *c->classes);
    for (size_t i = 0; c->classes && i < n; i++)
        if (!(c->classes[i] = arena_strdup(&c->arena, names[i])))
            c->classes = NULL;
    c->n_classes = (int)n;
    return c->classes ? SNUG_OK : err_no_memory(err, n * sizeof *c->classes);
}

static int allocate(struct table *t, struct snug_err *err)
{
    struct columns *c = &t->columns;
    size_t n = (size_t)c->n_labels + 1;
    t->places = arena_alloc(&c->arena, (size_t)c->n * sizeof *t->places);
    t->label_texts = arena_alloc(&c->arena, n * sizeof *t->label_texts);
    t->label_jsons = arena_alloc(&c->arena, n * sizeof *t->label_jsons);
    if (!t->places || !t->label_texts || !t->label_jsons)
        return err_no_memory(err, n * sizeof *t->label_texts);
    for (int i = 0; i < c->n; i++)
        t->places[i] = i;
    return SNUG_OK;
}

/* ---- several files ---- */

/* The names of all columns, whatever their order. Objects name theirs row by row. */
static int match_columns(struct table *t, const struct columns *now, struct snug_err *err)
{
    const struct columns *first = &t->columns;
    if (!is_csv(t))
        return SNUG_OK;
    for (int i = 0; i < first->n; i++) {
        int found = -1;
        for (int k = 0; k < now->n && found < 0; k++)
            if (strcmp(first->names[i], now->names[k]) == 0)
                found = k;
        if (found < 0)
            return err_set(err, SNUG_ERR_INPUT, "%s: no column '%s', which %s has; several files need the same columns",
                           t->path, first->names[i], t->o->path);
        t->places[i] = found;
    }
    for (int k = 0; k < now->n; k++) {
        bool known = false;
        for (int i = 0; i < first->n; i++)
            known |= strcmp(first->names[i], now->names[k]) == 0;
        if (!known)
            return err_set(err, SNUG_ERR_INPUT, "%s: %s has no column '%s'; several files need the same columns",
                           t->path, t->o->path, now->names[k]);
    }
    return now->n == first->n
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT, "%s: %d columns where %s has %d; several files need the same", t->path,
                         now->n, t->o->path, first->n);
}

static int same_format(const struct table *t, const char *path, struct snug_err *err)
{
    enum data_format format;
    TRY(data_format_of(t->io, path, &format, err));
    return format == t->format
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT, "%s: of another kind than %s; give files of one kind, or convert some",
                         path, t->o->path);
}

/* The hash of `file` files, the last of which has the hash `h`: of one file its own. */
static struct hash128 hash_with(struct hash128 before, struct hash128 h, size_t file)
{
    struct hash128 both[] = {before, h};
    return file ? hash_bytes(both, sizeof both) : h;
}

/* When the rows of a file have ended: goes on with the next. `ended` stays when there is none. */
static int next_file(struct table *t, struct snug_err *err)
{
    if (t->file == t->o->n_more_paths)
        return SNUG_OK;
    t->hash = table_hash(t);
    close_file(t);
    t->path = t->o->more_paths[t->file++];
    TRY(same_format(t, t->path, err));
    struct columns now = {0};
    int code = open_file(t, &now, err);
    if (!code)
        code = match_columns(t, &now, err);
    columns_free(&now);
    t->ended = false;
    return code;
}

int table_hash_files(const struct io *io, const struct dataset_options *o, struct hash128 *hash, struct snug_err *err)
{
    struct hash128 h;
    for (size_t i = 0; i <= o->n_more_paths; i++) {
        TRY(source_hash_file(io, i ? o->more_paths[i - 1] : o->path, o->stop, &h, err));
        *hash = hash_with(*hash, h, i);
    }
    return SNUG_OK;
}

/* ---- opening ---- */

static int open_standard_input(struct table *t, struct snug_err *err)
{
    struct source input;
    TRY(source_open_stream(t->io, STDIN_FILENO, t->path, t->o->stop, &input, err));
    int code = SNUG_OK;
    if (t->format == FORMAT_UNKNOWN) {
        code = sniff_format(&input, t->o, &t->format, err);
        if (!code)
            dataset_note(t->o, "read as %s, by its first line; --data-format says otherwise",
                         data_format_names[t->format]);
    }
    t->input = &input;
    if (!code)
        code = open_file(t, &t->columns, err);
    t->input = NULL;
    source_close(&input);
    return code;
}

static int open_first(struct table *t, enum table_labels labels, struct snug_err *err)
{
    TRY(t->o->standard_input ? open_standard_input(t, err) : open_file(t, &t->columns, err));
    TRY(find_columns(t, labels, err));
    for (size_t i = 0; i < t->o->n_more_paths; i++)
        TRY(same_format(t, t->o->more_paths[i], err));
    TRY(find_classes(t, err));
    return allocate(t, err);
}

int table_open(const struct io *io, const struct dataset_options *o, enum data_format format, enum table_labels labels,
               struct table *t, struct snug_err *err)
{
    *t = (struct table){.io = io, .o = o, .format = format, .path = o->path, .closed = true};
    t->csv.source.fd = t->lines.source.fd = -1;
    int code = open_first(t, labels, err);
    if (code)
        table_close(t);
    return code;
}

void table_close(struct table *t)
{
    close_file(t);
    columns_free(&t->columns);
}

/* ---- rows ---- */

static int next_csv(struct table *t, struct snug_err *err)
{
    const struct columns *c = &t->columns;
    TRY(csv_next(&t->csv, err));
    t->ended = t->csv.n_fields == 0;
    if (t->ended)
        return SNUG_OK;
    t->place = (struct place){.path = t->path, .n = t->csv.line};
    if (t->csv.n_fields != (size_t)c->n)
        return err_at(err, SNUG_ERR_INPUT, t->place, "%zu fields where the header has %d; quote a text that holds '%c'",
                      t->csv.n_fields, c->n, t->csv.delimiter);
    size_t label_bytes;
    t->row_text = csv_field(&t->csv, (size_t)t->places[c->text], &t->text_bytes);
    if (c->pair >= 0)
        t->row_pair = csv_field(&t->csv, (size_t)t->places[c->pair], &t->pair_bytes);
    for (int i = 0; i < c->n_labels; i++)
        t->label_texts[i] = csv_field(&t->csv, (size_t)t->places[c->labels[i]], &label_bytes);
    return SNUG_OK;
}

static int json_text(struct table *t, int column, const char **text, size_t *bytes, struct snug_err *err)
{
    json_t *v = columns_value(t->object, t->columns.names[column]);
    char room[64];
    if (!json_is_string(v)) {
        bool values = json_object_get(v, "0") || json_array_size(v) > 1; /* of a column, as pandas' to_json writes it */
        const char *shown = json_value_text(v, room);
        bool first = !t->place.is_row && t->place.n == 1;
        if (values && first && objects_was_only_row(&t->objects))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: one object with a whole column in each member; write one object a row: import "
                           "pandas; pandas.read_json(FILE).to_json('FILE.jsonl', orient='records', lines=True)",
                           t->path);
        return err_at(err, SNUG_ERR_INPUT, t->place, "'%s' is %s, not a string; every row needs a text",
                      t->columns.names[column], shown);
    }
    *text = json_string_value(v);
    *bytes = json_string_length(v);
    return SNUG_OK;
}

static int next_of_objects(struct table *t, struct snug_err *err)
{
    const struct columns *c = &t->columns;
    if (!t->pending)
        TRY(next_object(t, err));
    t->pending = false;
    t->ended = !t->object;
    if (t->ended)
        return SNUG_OK;
    t->place = t->objects.place;
    t->row_text = "";
    t->text_bytes = 0;
    if (c->form == ROWS_TEXT)
        TRY(json_text(t, c->text, &t->row_text, &t->text_bytes, err));
    if (c->pair >= 0 && c->form == ROWS_TEXT)
        TRY(json_text(t, c->pair, &t->row_pair, &t->pair_bytes, err));
    for (int i = 0; i < c->n_labels; i++) {
        t->label_jsons[i] = columns_value(t->object, c->names[c->labels[i]]);
        if (!t->label_jsons[i])
            return err_at(err, SNUG_ERR_INPUT, t->place, "no '%s'; every row needs a label", c->names[c->labels[i]]);
    }
    return SNUG_OK;
}

static int next_line(struct table *t, struct snug_err *err)
{
    TRY(lines_next(&t->lines, err));
    t->ended = t->lines.ended;
    t->place = (struct place){.path = t->path, .n = t->lines.line};
    t->row_text = t->lines.text;
    t->text_bytes = t->lines.n_text;
    return SNUG_OK;
}

int table_next(struct table *t, struct snug_err *err)
{
    size_t file;
    do {
        file = t->file;
        TRY(is_csv(t) ? next_csv(t, err) : table_has_objects(t) ? next_of_objects(t, err) : next_line(t, err));
        if (t->ended)
            TRY(next_file(t, err));
    } while (t->file != file);
    return SNUG_OK;
}

const char *table_cell(const struct table *t, int column, size_t *bytes)
{
    *bytes = t->text_bytes;
    return is_csv(t) ? csv_field(&t->csv, (size_t)t->places[column], bytes) : t->row_text;
}

json_t *table_object(const struct table *t)
{
    return table_has_objects(t) ? t->object : NULL;
}

bool table_has_objects(const struct table *t)
{
    return format_has_objects(t->format);
}

bool table_is_stream(const struct table *t)
{
    return t->o->standard_input;
}

void table_before_waiting(struct table *t, int (*fn)(void *ctx, struct snug_err *err), void *ctx)
{
    struct source *source = source_of(t);
    if (source)
        source_before_waiting(source, fn, ctx);
}

struct hash128 table_hash(const struct table *t)
{
    return hash_with(t->hash,
                     is_csv(t)              ? source_hash(&t->csv.source)
                     : table_has_objects(t) ? objects_hash(&t->objects)
                                            : source_hash(&t->lines.source),
                     t->file);
}
