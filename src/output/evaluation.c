#include "output/evaluation.h"

#include "base/out_file.h"
#include "output/log.h"

#include <string.h>

enum { FILE_LIMIT = 64 << 20 };

bool evaluation_has_labels(const struct metrics *m)
{
    bool one_number = m->setup.kind == METRICS_REGRESSION && m->n_labels == 1; /* the metrics of all say it */
    return metric_lists[m->setup.kind].n_by_label && m->n_labels && !one_number;
}

static void add_number(void *out, const char *name, double value)
{
    log_number(out, name, value);
}

static void put_labels(const struct metrics *m, const char *const *names, struct str *out)
{
    str_append(out, ", \"by_label\": [");
    for (int64_t i = 0; i < m->n_labels; i++) {
        str_append(out, i ? ",\n{\"label\": " : "\n{\"label\": ");
        if (names && names[i])
            str_json(out, names[i]);
        else
            str_printf(out, "\"LABEL_%lld\"", (long long)i);
        metrics_report_label(m, i, add_number, out);
        str_append(out, "}");
    }
    str_append(out, "]");
}

static int put_confusions(const struct metrics *m, struct str *out, struct snug_err *err)
{
    struct confusion *cells;
    size_t n;
    TRY(metrics_confusions(m, &cells, &n, err));
    str_append(out, ", \"confusions\": [");
    for (size_t i = 0; i < n; i++)
        str_printf(out, "%s[%d, %d, %lld]", i ? ", " : "", cells[i].actual, cells[i].predicted,
                   (long long)cells[i].rows);
    str_append(out, "]}\n");
    mem_free(cells);
    return SNUG_OK;
}

static void put_loss(void *out, const char *name, double value)
{
    if (!strcmp(name, "loss"))
        log_number(out, "eval_loss", value);
}

int evaluation_text(const struct metrics *m, const char *const *names, int64_t step, struct str *out,
                    struct snug_err *err)
{
    str_append(out, "{\"snug_version\": ");
    str_json(out, SNUG_VERSION);
    str_printf(out, ", \"step\": %lld", (long long)step);
    metrics_report(m, put_loss, out);
    put_labels(m, names, out);
    TRY(put_confusions(m, out, err));
    return str_check(out, err);
}

json_t *evaluation_read(const struct io *io, const char *path)
{
    json_t *file = NULL;
    if (!io_exists(io, path) || json_read_object(io, path, FILE_LIMIT, &file, NULL))
        return NULL;
    if (json_is_string(json_object_get(file, "snug_version")) && json_is_array(json_object_get(file, "by_label")))
        return file;
    json_decref(file);
    return NULL;
}

static bool is_ours(const struct io *io, const char *path)
{
    json_t *file = evaluation_read(io, path);
    json_decref(file);
    return file;
}

int evaluation_write(const struct io *io, const char *path, const char *tmp, const struct str *text,
                     struct snug_err *err)
{
    struct out_file f = {0};
    struct stat st;
    bool is_there = !io->lstat(io, path, &st) && S_ISREG(st.st_mode);
    if (is_there && !is_ours(io, path))
        return err_set(err, SNUG_ERR_USAGE, "%s: is there already and is no evaluation of snug; rename it", path);
    int code = out_file_open_as(io, path, tmp, is_there, &f, err);
    if (!code)
        code = out_file_write(&f, str_text(text), text->n, err);
    if (!code)
        code = out_file_publish(&f, err);
    out_file_drop(&f);
    return code;
}
