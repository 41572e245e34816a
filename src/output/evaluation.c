#include "output/evaluation.h"

#include "base/mem.h"
#include "output/log.h"
#include "output/own_json.h"

#include <string.h>

enum { MISTAKES = 20 };

bool evaluation_has_parts(const struct metrics *m)
{
    return metric_lists[m->setup.kind].n_by_label && m->n_labels;
}

static void put_name(const char *const *names, int64_t i, struct str *out)
{
    if (names && names[i])
        str_append(out, names[i]);
    else
        str_printf(out, "LABEL_%lld", (long long)i);
}

static void add_number(void *out, const char *name, double value)
{
    log_number(out, name, value);
}

/* The numbers of a single output are the metrics of all. */
static void put_labels(const struct metrics *m, const char *const *names, struct str *out)
{
    bool one_number = m->setup.kind == METRICS_REGRESSION && m->n_labels == 1;
    str_append(out, ", \"by_label\": [");
    for (int64_t i = 0; i < m->n_labels && !one_number; i++) {
        struct str name = {0};
        put_name(names, i, &name);
        str_append(out, i ? ",\n{\"label\": " : "\n{\"label\": ");
        str_json(out, str_text(&name));
        metrics_report_label(m, i, add_number, out);
        str_append(out, "}");
        out->failed |= name.failed;
        str_free(&name);
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
    str_append(out, "]");
    mem_free(cells);
    return SNUG_OK;
}

/* What a row is, or is predicted to be: the names of its class or labels, or its numbers. */
static void put_answer(const struct metrics *m, const char *const *names, int64_t row, bool predicted, struct str *out)
{
    struct str text = {0};
    int64_t rows = m->setup.rows;
    if (m->setup.kind == METRICS_SINGLE_LABEL)
        put_name(names, predicted ? m->guess[row] : m->label[row], &text);
    for (int64_t i = 0; m->setup.kind != METRICS_SINGLE_LABEL && i < m->setup.width; i++) {
        bool number = m->setup.kind == METRICS_REGRESSION;
        if (!number && !(m->marks[i * rows + row] & (predicted ? MARK_PREDICTED : MARK_ACTUAL)))
            continue;
        str_append(&text, text.n ? ", " : "");
        if (number)
            str_printf(&text, "%.6g", (predicted ? m->predicted : m->actual)[i * rows + row]);
        else
            put_name(names, i, &text);
    }
    str_printf(out, ", \"%s\": ", predicted ? "predicted" : "label");
    str_json(out, str_text(&text));
    out->failed |= text.failed;
    str_free(&text);
}

static int put_mistakes(const struct metrics *m, const char *const *names, const struct row_texts *texts,
                        struct str *out, struct snug_err *err)
{
    struct mistake list[MISTAKES];
    int n = metrics_mistakes(m, list, MISTAKES), code = SNUG_OK;
    str_append(out, ", \"mistakes\": [");
    for (int i = 0; i < n && !code; i++) {
        struct str text = {0};
        str_printf(out, "%s\n{\"row\": %lld", i ? "," : "", (long long)list[i].row);
        log_number(out, "loss", list[i].loss);
        put_answer(m, names, list[i].row, false, out);
        put_answer(m, names, list[i].row, true, out);
        code = texts ? texts->put(texts->ctx, list[i].row, &text, err) : SNUG_OK;
        if (text.n) {
            str_append(out, ", \"text\": ");
            str_json(out, str_text(&text));
        }
        str_append(out, "}");
        out->failed |= text.failed;
        str_free(&text);
    }
    str_append(out, "]}\n");
    return code;
}

static void put_loss(void *out, const char *name, double value)
{
    if (!strcmp(name, "loss"))
        log_number(out, "eval_loss", value);
}

int evaluation_text(const struct metrics *m, const char *const *names, const struct row_texts *texts, int64_t step,
                    struct str *out, struct snug_err *err)
{
    own_json_begin(out);
    str_printf(out, ", \"step\": %lld", (long long)step);
    metrics_report(m, put_loss, out);
    put_labels(m, names, out);
    TRY(put_confusions(m, out, err));
    TRY(put_mistakes(m, names, texts, out, err));
    return str_check(out, err);
}
