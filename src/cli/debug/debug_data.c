/* snug debug data: the rows that are read from a data file, or with a model what becomes of them. */
#include "base/str.h"
#include "cli/commands.h"
#include "data/files/table.h"
#include "data/questions/questions.h"
#include "tokenizer/tokenizer.h"

#include <limits.h>
#include <stdlib.h>

static void note(void *ctx, const char *line)
{
    (void)ctx;
    print_note(line);
}

static void append_key(struct str *out, const char *name)
{
    str_append(out, out->s[out->n - 1] == '{' ? "" : ",");
    str_json(out, name);
    str_append(out, ":");
}

/* The label of row t, or an object of those in several columns. */
static void append_labels(const struct table *t, struct str *out)
{
    const struct columns *c = &t->columns;
    if (c->n_labels > 1)
        str_append(out, ",\"labels\":{");
    for (int i = 0; i < c->n_labels; i++) {
        append_key(out, c->n_labels > 1 ? c->names[c->labels[i]] : "label");
        char *dump = t->label_jsons[i] ? json_dumps(t->label_jsons[i], JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        if (dump)
            str_append(out, dump);
        else
            str_json(out, t->label_texts[i]);
        free(dump);
    }
    str_append(out, c->n_labels > 1 ? "}" : "");
}

/* One line of JSON for each row of a table: text, pair and label, as far as there are such columns. */
static int append_rows(const struct dataset_options *d, enum data_format format, struct str *out, struct snug_err *err)
{
    struct table t;
    bool labels = (d->task == TASK_AUTO || task_problem(d->task)) && format != FORMAT_LINES;
    TRY(table_open(&io_posix, d, format, labels ? TABLE_LABELS : TABLE_NO_LABELS, &t, err));
    int code;
    while (!(code = table_next(&t, err)) && !t.ended && !out->failed) {
        str_append(out, "{");
        append_key(out, "text");
        str_json(out, t.row_text);
        if (t.row_pair) {
            append_key(out, "pair");
            str_json(out, t.row_pair);
        }
        append_labels(&t, out);
        str_append(out, "}\n");
    }
    table_close(&t);
    if (!code && out->n == 0)
        code = err_set(err, SNUG_ERR_INPUT, "%s: 0 rows behind the header; give some data", d->path);
    return code;
}

/* A problem's, of data with labels for each row; else the task's. */
static const char *task_name(enum data_task labels)
{
    if (task_problem(labels))
        return model_problem_names[task_problem(labels)];
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (model_tasks[t].labels == labels)
            return model_task_names[t];
    return "unlabeled";
}

static void append_dataset(const struct dataset *d, struct str *out)
{
    char hex[33];
    hash_hex(dataset_fingerprint(d), hex);
    str_printf(out,
               "{\"task\":\"%s\",\"rows\":%lld,\"tokens\":%lld,\"longest\":%d,\"truncated\":%lld,\"empty\":%lld,"
               "\"fingerprint\":\"%s\",\"labels\":[",
               task_name(d->task), (long long)d->n_rows, (long long)d->n_tokens, d->longest, (long long)d->truncated,
               (long long)d->empty, hex);
    for (int32_t i = 0; i < d->labels.n; i++) {
        str_append(out, i ? "," : "");
        str_json(out, d->labels.names[i]);
    }
    str_append(out, "]}\n");
}

/* With the tokenizer `t`, or NULL where the file has tokens already. */
static int append_summary(const struct options *o, struct dataset_options *d, const struct tokenizer *t,
                          struct str *out, struct snug_err *err)
{
    int64_t longest = t ? tokenizer_max_length(t) : 0;
    d->tokenizer = t;
    d->vocab_size = t ? tokenizer_vocab_size(t) : INT_MAX;
    d->max_length = o->max_length                      ? (int32_t)o->max_length
                    : longest > 0 && longest < 1 << 20 ? (int32_t)longest
                                                       : 1 << 20;
    struct dataset data;
    TRY(dataset_open(&io_posix, d, &data, err));
    append_dataset(&data, out);
    dataset_close(&data);
    return SNUG_OK;
}

int run_debug_data(struct options *o, const struct arguments *args, struct snug_err *err)
{
    const struct question_options questions = {.doc_stride = option_given(o, doc_stride) ? o->doc_stride : -1};
    bool spans = model_tasks[o->task].labels == TASK_SPAN && o->model;
    struct dataset_options d = {
        .path = args->items[0],
        .questions = spans ? &questions : NULL,
        .task = task_labels((enum model_task)o->task, (enum problem)o->problem_type),
        .text_column = o->text_column,
        .text_pair_column = o->text_pair_column,
        .label_column = o->label_column,
        .delimiter = o->delimiter,
        .ignore_label = o->ignore_label,
        .empty_is_error = o->empty == OPT_EMPTY_ERROR,
        .num_labels = (int32_t)o->num_labels,
        .seed = o->seed,
        .threads = (int)o->threads,
        .cache_dir = o->cache_dir ? o->cache_dir : "",
        .note = note,
    };
    enum data_format format;
    struct tokenizer *t = NULL;
    struct str out = {0};
    TRY(data_format_of(&io_posix, d.path, &format, err));
    if (o->model)
        TRY(tokenizer_open(&io_posix, o->model, &t, err));
    bool rows = !t && format != FORMAT_SAFETENSORS && format != FORMAT_SYNTHETIC;
    int code = rows ? append_rows(&d, format, &out, err) : append_summary(o, &d, t, &out, err);
    if (!code)
        code = str_check(&out, err);
    if (!code)
        fwrite(str_text(&out), 1, out.n, stdout);
    str_free(&out);
    tokenizer_close(t);
    return code;
}
