/* A look at what labels a data file has, before anybody decides what to train on it. */
#include "data/dataset_parts.h"
#include "data/files/number.h"
#include "data/files/table.h"
#include "data/questions/questions.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <string.h>

/* What one label shows: a number that is not whole can be no class, and an array is several labels. */
static void look_at_text(const char *label, struct dataset_look *look)
{
    enum number_kind kind = number_kind(label, strlen(label));
    look->names = kind == NUMBER_NO;
    look->labels = kind == NUMBER_REAL ? TASK_REGRESSION : *label == '[' ? TASK_MULTI_LABEL : TASK_CLASS;
}

static void look_at_json(json_t *label, struct dataset_look *look)
{
    look->names = json_is_string(label) || json_is_boolean(label) || json_is_string(json_array_get(label, 0));
    look->labels = json_is_real(label) ? TASK_REGRESSION : json_is_array(label) ? TASK_MULTI_LABEL : TASK_CLASS;
}

/* Columns whose names do not fit are left out. */
static void add_name(char *list, size_t room, const char *name)
{
    size_t n = strlen(list);
    if (*name && n + strlen(name) + 3 < room)
        snprintf(list + n, room - n, "%s%s", n ? ", " : "", name);
}

static void list_columns(const struct columns *c, struct dataset_look *look)
{
    for (int i = 0; i < c->n_labels; i++)
        add_name(look->column, sizeof look->column, c->names[c->labels[i]]);
    look->guessed = c->label_guessed && c->n_labels;
    if (c->n_labels && !look->column[0])
        snprintf(look->column, sizeof look->column, "%s", c->names[c->labels[0]]);
    for (int i = 0; i < c->n; i++)
        if (!columns_has(c, i))
            add_name(look->others, sizeof look->others, c->names[i]);
}

static int look_at_table(const struct io *io, const struct dataset_options *o, enum data_format format,
                         struct dataset_look *look, struct snug_err *err)
{
    struct table t;
    TRY(table_open(io, o, format, TABLE_LABELS_IF_ANY, &t, err));
    if (t.columns.form == ROWS_WORDS) {
        list_columns(&t.columns, look);
        look->labels = t.columns.n_labels ? TASK_TOKEN_CLASS : TASK_UNLABELED;
        table_close(&t);
        return SNUG_OK;
    }
    if (t.columns.form != ROWS_TEXT) { /* a conversation is for a language model, whatever else stands beside it */
        for (int i = 0; i < t.columns.n_labels; i++)
            add_name(look->column, sizeof look->column, t.columns.names[t.columns.labels[i]]);
        table_close(&t);
        return SNUG_OK;
    }
    list_columns(&t.columns, look);
    int code = SNUG_OK, n_labels = t.columns.n_labels;
    if (n_labels) {
        look->labels = TASK_CLASS;
        code = table_next(&t, err);
    }
    if (n_labels > 1)
        look->labels = TASK_MULTI_LABEL;
    else if (!code && n_labels && t.label_texts[0])
        look_at_text(t.label_texts[0], look);
    else if (!code && n_labels && t.label_jsons[0])
        look_at_json(t.label_jsons[0], look);
    table_close(&t);
    return code;
}

/* A tensor of as many labels as tokens has one for each token; of what kind others are, reading decides. */
static int look_at_safetensors(const struct io *io, const char *path, struct dataset_look *look, struct snug_err *err)
{
    struct st_file f;
    TRY(st_open(io, path, &f, err));
    const struct st_tensor *labels = st_find(&f, "labels"), *ids = st_find(&f, "input_ids");
    bool per_token = labels && ids && labels->ndim == 2 && ids->ndim == 2 && labels->shape[1] == ids->shape[1];
    if (labels && !per_token) {
        snprintf(look->column, sizeof look->column, "labels");
        look->labels = TASK_AUTO;
    }
    st_close(&f);
    return SNUG_OK;
}

int dataset_look(const struct io *io, const struct dataset_options *o, struct dataset_look *look, struct snug_err *err)
{
    *look = (struct dataset_look){.labels = TASK_UNLABELED};
    if (o->questions && questions_shown(io, o->path)) {
        look->labels = TASK_SPAN;
        return SNUG_OK;
    }
    enum data_format format;
    TRY(data_format_of(io, o->path, &format, err));
    if (format == FORMAT_SAFETENSORS)
        return look_at_safetensors(io, o->path, look, err);
    look->synthetic = format == FORMAT_SYNTHETIC;
    return look->synthetic ? SNUG_OK : look_at_table(io, o, format, look, err);
}

bool dataset_has_targets(const struct io *io, const struct dataset_options *o)
{
    struct dataset_options p = *o;
    enum data_format format;
    struct table t;
    struct st_file f;
    p.task = TASK_SEQ2SEQ;
    if (data_format_of(io, o->path, &format, NULL))
        return false;
    if (format == FORMAT_SAFETENSORS && !st_open(io, o->path, &f, NULL)) {
        const struct st_tensor *labels = st_find(&f, "labels");
        bool has = labels && labels->ndim == 2 && (labels->dtype == DT_I32 || labels->dtype == DT_I64);
        st_close(&f);
        return has;
    }
    if (format == FORMAT_SAFETENSORS || format == FORMAT_SYNTHETIC)
        return format == FORMAT_SYNTHETIC;
    if (table_open(io, &p, format, TABLE_NO_LABELS, &t, NULL))
        return false;
    bool has = !t.columns.target_is_label;
    table_close(&t);
    return has;
}
