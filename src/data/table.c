#include "data/table.h"

#include "base/str.h"
#include "format/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The names of columns that data sets on the hub and transformers' own examples use, the likelier first. */
static const struct {
    const char *text, *pair;
} usual_texts[] = {
    {"text", "text_pair"},     {"text", NULL},           {"sentence1", "sentence2"}, {"question1", "question2"},
    {"premise", "hypothesis"}, {"question", "sentence"}, {"query", "passage"},       {"text_a", "text_b"},
    {"sentence", NULL},        {"utterance", NULL},      {"content", NULL},          {"review", NULL},
};
static const char *const usual_labels[] = {"label", "labels", "category", "target", "intent", "class", "score"};

int data_format_of(const struct io *io, const char *path, enum data_format *format, struct snug_err *err)
{
    static const struct {
        const char *ending;
        enum data_format format;
    } endings[] = {
        {".csv", FORMAT_CSV},     {".tsv", FORMAT_TSV},      {".json", FORMAT_JSON},
        {".jsonl", FORMAT_JSONL}, {".ndjson", FORMAT_JSONL}, {".safetensors", FORMAT_SAFETENSORS},
    };
    if (strncmp(path, "synthetic:", 10) == 0) {
        *format = FORMAT_SYNTHETIC;
        return SNUG_OK;
    }
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
        if (strcasecmp(dot, endings[i].ending) == 0) {
            *format = endings[i].format;
            return SNUG_OK;
        }
    }
    struct stat st;
    if (io->stat(io, path, &st) == 0 && S_ISDIR(st.st_mode))
        return err_set(err, SNUG_ERR_INPUT, "%s: a folder; give a file of data in it", path);
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: the ending '%s' is not one of .csv, .tsv, .json, .jsonl and .safetensors; rename or convert it",
                   path, dot ? dot : "");
}

static int find_column(const struct table *t, const char *name)
{
    for (int i = 0; i < t->n_columns; i++)
        if (strcmp(t->columns[i], name) == 0)
            return i;
    return -1;
}

static int no_column(const struct table *t, const char *what, const char *name, struct snug_err *err)
{
    static const char others[] = ";\t|,";
    struct str list = {0};
    for (int i = 0; i < t->n_columns; i++)
        str_printf(&list, "%s%s", i ? ", " : "", t->columns[i]);
    int code = str_check(&list, err);
    const char *other = t->is_csv && t->n_columns == 1 ? strpbrk(t->columns[0], others) : NULL;
    if (!code && other)
        code = err_set(err, SNUG_ERR_INPUT, "%s:1: one column only; it looks like '%s' separated: use --delimiter '%s'",
                       t->path, *other == '\t' ? "\\t" : (char[]){*other, 0},
                       *other == '\t' ? "\\t" : (char[]){*other, 0});
    else if (!code && name)
        code = err_set(err, SNUG_ERR_INPUT, "%s: no column '%s'; there are: %s", t->path, name, str_text(&list));
    else if (!code)
        code = err_set(err, SNUG_ERR_INPUT, "%s: no column with a usual name for the %s; name one with --%s-column: %s",
                       t->path, what, what, str_text(&list));
    str_free(&list);
    return code;
}

static int named_column(const struct table *t, const char *what, const char *name, int *column, struct snug_err *err)
{
    *column = find_column(t, name);
    return *column < 0 ? no_column(t, what, name, err) : SNUG_OK;
}

static int find_columns(struct table *t, const struct dataset_options *o, enum table_labels labels,
                        struct snug_err *err)
{
    t->text = t->pair = t->label = -1;
    if (o->text_column)
        TRY(named_column(t, "text", o->text_column, &t->text, err));
    for (size_t i = 0; t->text < 0 && i < sizeof usual_texts / sizeof *usual_texts; i++) {
        int text = find_column(t, usual_texts[i].text);
        int pair = usual_texts[i].pair ? find_column(t, usual_texts[i].pair) : -1;
        if (text < 0 || (usual_texts[i].pair && pair < 0))
            continue;
        t->text = text;
        t->pair = pair;
    }
    if (t->text < 0)
        return no_column(t, "text", NULL, err);
    if (o->text_pair_column)
        TRY(named_column(t, "text-pair", o->text_pair_column, &t->pair, err));
    if (labels == TABLE_NO_LABELS)
        return SNUG_OK;
    if (o->label_column)
        return named_column(t, "label", o->label_column, &t->label, err);
    for (size_t i = 0; t->label < 0 && i < sizeof usual_labels / sizeof *usual_labels; i++)
        t->label = find_column(t, usual_labels[i]);
    return t->label < 0 && labels == TABLE_LABELS ? no_column(t, "label", NULL, err) : SNUG_OK;
}

static int add_column(struct table *t, const char *name, struct snug_err *err)
{
    if (find_column(t, name) >= 0)
        return err_set(err, SNUG_ERR_INPUT, "%s:1: two columns are called '%s'; rename one", t->path, name);
    t->columns[t->n_columns] = arena_strdup(&t->arena, name);
    if (!t->columns[t->n_columns])
        return err_no_memory(err, strlen(name) + 1);
    t->n_columns++;
    return SNUG_OK;
}

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

static int open_csv(const struct io *io, struct table *t, char delimiter, struct snug_err *err)
{
    TRY(csv_open(io, t->path, delimiter, &t->csv, err));
    const char *kind = json_kind(&t->csv.source);
    if (kind)
        return err_set(err, SNUG_ERR_INPUT, "%s:1: looks like JSON, not CSV; rename it to %s", t->path, kind);
    TRY(csv_next(&t->csv, err));
    if (t->csv.n_fields == 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: the file is empty, 0 rows; give some data", t->path);
    t->columns = arena_alloc(&t->arena, t->csv.n_fields * sizeof *t->columns);
    if (!t->columns)
        return err_no_memory(err, t->csv.n_fields * sizeof *t->columns);
    t->csv.source.row = 1; /* the header does not count */
    for (size_t i = 0; i < t->csv.n_fields; i++) {
        size_t bytes;
        TRY(add_column(t, csv_field(&t->csv, i, &bytes), err));
    }
    return SNUG_OK;
}

static int open_json(const struct io *io, struct table *t, bool array_allowed, struct snug_err *err)
{
    TRY(jsonl_open(io, t->path, array_allowed, &t->json, err));
    TRY(jsonl_next(&t->json, err));
    if (!t->json.row)
        return err_set(err, SNUG_ERR_INPUT, "%s: no objects in it; 0 rows", t->path);
    t->pending = true;
    size_t n = json_object_size(t->json.row);
    t->columns = arena_alloc(&t->arena, n * sizeof *t->columns);
    if (!t->columns)
        return err_no_memory(err, n * sizeof *t->columns);
    const char *key;
    json_t *value;
    json_object_foreach(t->json.row, key, value) TRY(add_column(t, key, err));
    return SNUG_OK;
}

int table_open(const struct io *io, const struct dataset_options *o, enum data_format format, enum table_labels labels,
               struct table *t, struct snug_err *err)
{
    *t = (struct table){.path = o->path, .csv.source.fd = -1, .json.source.fd = -1};
    t->is_csv = format == FORMAT_CSV || format == FORMAT_TSV;
    char delimiter = o->delimiter ? o->delimiter : format == FORMAT_TSV ? '\t' : ',';
    int code = t->is_csv ? open_csv(io, t, delimiter, err) : open_json(io, t, format == FORMAT_JSON, err);
    if (!code)
        code = find_columns(t, o, labels, err);
    if (code)
        table_close(t);
    return code;
}

static int next_csv(struct table *t, struct snug_err *err)
{
    TRY(csv_next(&t->csv, err));
    t->ended = t->csv.n_fields == 0;
    if (t->ended)
        return SNUG_OK;
    t->place = (struct place){.path = t->path, .n = t->csv.line};
    if (t->csv.n_fields != (size_t)t->n_columns)
        return err_at(err, SNUG_ERR_INPUT, t->place, "%zu fields where the header has %d; quote a text that holds '%c'",
                      t->csv.n_fields, t->n_columns, t->csv.delimiter);
    size_t label_bytes;
    t->row_text = csv_field(&t->csv, (size_t)t->text, &t->text_bytes);
    if (t->pair >= 0)
        t->row_pair = csv_field(&t->csv, (size_t)t->pair, &t->pair_bytes);
    if (t->label >= 0)
        t->label_text = csv_field(&t->csv, (size_t)t->label, &label_bytes);
    return SNUG_OK;
}

static int json_text(const struct table *t, int column, const char **text, size_t *bytes, struct snug_err *err)
{
    json_t *v = json_object_get(t->json.row, t->columns[column]);
    char shown[64];
    if (!json_is_string(v))
        return err_at(err, SNUG_ERR_INPUT, t->place, "'%s' is %s, not a string; every row needs a text",
                      t->columns[column], json_value_text(v, shown));
    *text = json_string_value(v);
    *bytes = json_string_length(v);
    return SNUG_OK;
}

static int next_json(struct table *t, struct snug_err *err)
{
    if (!t->pending)
        TRY(jsonl_next(&t->json, err));
    t->pending = false;
    t->ended = !t->json.row;
    if (t->ended)
        return SNUG_OK;
    t->place = t->json.place;
    TRY(json_text(t, t->text, &t->row_text, &t->text_bytes, err));
    if (t->pair >= 0)
        TRY(json_text(t, t->pair, &t->row_pair, &t->pair_bytes, err));
    if (t->label >= 0) {
        t->label_json = json_object_get(t->json.row, t->columns[t->label]);
        if (!t->label_json)
            return err_at(err, SNUG_ERR_INPUT, t->place, "no '%s'; every row needs a label", t->columns[t->label]);
    }
    return SNUG_OK;
}

int table_next(struct table *t, struct snug_err *err)
{
    return t->is_csv ? next_csv(t, err) : next_json(t, err);
}

struct hash128 table_hash(const struct table *t)
{
    return t->is_csv ? source_hash(&t->csv.source) : jsonl_hash(&t->json);
}

void table_close(struct table *t)
{
    if (t->is_csv)
        csv_close(&t->csv);
    else
        jsonl_close(&t->json);
    arena_free(&t->arena);
}
