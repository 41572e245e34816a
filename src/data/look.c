/* A look at what labels a data file has, before anybody decides what to train on it. */
#include "data/dataset_parts.h"
#include "data/number.h"
#include "data/table.h"
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
    look->names = json_is_string(label) || json_is_string(json_array_get(label, 0));
    look->labels = json_is_real(label) ? TASK_REGRESSION : json_is_array(label) ? TASK_MULTI_LABEL : TASK_CLASS;
}

/* Columns whose names do not fit are left out. */
static void list_others(const struct table *t, struct dataset_look *look)
{
    size_t room = sizeof look->others;
    for (int i = 0; i < t->n_columns; i++) {
        size_t n = strlen(look->others);
        if (i != t->text && i != t->pair && i != t->label && n + strlen(t->columns[i]) + 3 < room)
            snprintf(look->others + n, room - n, "%s%s", n ? ", " : "", t->columns[i]);
    }
}

static int look_at_table(const struct io *io, const struct dataset_options *o, enum data_format format,
                         struct dataset_look *look, struct snug_err *err)
{
    struct table t;
    TRY(table_open(io, o, format, TABLE_LABELS_IF_ANY, &t, err));
    int code = SNUG_OK;
    list_others(&t, look);
    if (t.label >= 0) {
        snprintf(look->column, sizeof look->column, "%s", t.columns[t.label]);
        look->labels = TASK_CLASS;
        code = table_next(&t, err);
    }
    if (!code && t.label_text)
        look_at_text(t.label_text, look);
    else if (!code && t.label_json)
        look_at_json(t.label_json, look);
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
    enum data_format format;
    TRY(data_format_of(io, o->path, &format, err));
    if (format == FORMAT_SAFETENSORS)
        return look_at_safetensors(io, o->path, look, err);
    look->synthetic = format == FORMAT_SYNTHETIC;
    return look->synthetic ? SNUG_OK : look_at_table(io, o, format, look, err);
}
