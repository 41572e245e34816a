#include "output/evaluation.h"

#include "base/mem.h"
#include "output/log.h"
#include "output/own_json.h"

#include <string.h>

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
    own_json_begin(out);
    str_printf(out, ", \"step\": %lld", (long long)step);
    metrics_report(m, put_loss, out);
    put_labels(m, names, out);
    TRY(put_confusions(m, out, err));
    return str_check(out, err);
}
