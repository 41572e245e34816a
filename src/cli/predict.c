/* snug predict: a line per row, in the order of the file: CSV, or JSON lines with --json. */
#include "base/str.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

/* In place: logits become probabilities, or stay what they are in a regression. */
static void to_probabilities(const struct session *s, double *x)
{
    int64_t n = s->model.num_labels;
    double max = x[metrics_argmax(x, n)], sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (s->model.problem == PROBLEM_MULTI_LABEL)
            x[i] = 1 / (1 + exp(-x[i]));
        else if (s->model.problem == PROBLEM_SINGLE_LABEL)
            sum += x[i] = exp(x[i] - max);
    }
    for (int64_t i = 0; s->model.problem == PROBLEM_SINGLE_LABEL && i < n; i++)
        x[i] /= sum;
}

static void put_csv_field(struct str *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        str_append(out, text);
        return;
    }
    str_append(out, "\"");
    for (; *text; text++)
        str_append_n(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_append(out, "\"");
}

/* The labels that are predicted: one, or those of probability over 1/2 with ';' between them. */
static void put_labels(const struct session *s, struct str *out, const double *p, bool json)
{
    struct str names = {0};
    char buf[32];
    int64_t best = metrics_argmax(p, s->model.num_labels);
    for (int32_t i = 0; i < s->model.num_labels; i++)
        if (s->model.problem == PROBLEM_MULTI_LABEL ? p[i] > 0.5 : i == best) {
            str_append(&names, names.n ? ";" : "");
            str_append(&names, session_label(s, i, buf));
        }
    if (json)
        str_json(out, str_text(&names));
    else
        put_csv_field(out, str_text(&names));
    str_free(&names);
}

static void put_header(const struct session *s, struct str *out)
{
    char buf[32];
    bool number = s->model.problem == PROBLEM_REGRESSION;
    str_append(out, number ? "row" : "row,label");
    for (int32_t i = 0; i < s->model.num_labels; i++) {
        str_append(out, ",");
        put_csv_field(out, session_label(s, i, buf));
    }
    str_append(out, "\n");
}

static void put_row_csv(const struct session *s, struct str *out, int64_t row, const double *p)
{
    str_printf(out, "%lld", (long long)row);
    if (s->model.problem != PROBLEM_REGRESSION) {
        str_append(out, ",");
        put_labels(s, out, p, false);
    }
    for (int64_t i = 0; i < s->model.num_labels; i++)
        str_printf(out, ",%.6g", p[i]);
    str_append(out, "\n");
}

static void put_row_json(const struct session *s, struct str *out, int64_t row, const double *p)
{
    char buf[32];
    str_printf(out, "{\"row\":%lld", (long long)row);
    if (s->model.problem != PROBLEM_REGRESSION) {
        str_append(out, ",\"label\":");
        put_labels(s, out, p, true);
    }
    str_append(out, s->model.problem == PROBLEM_REGRESSION ? ",\"values\":{" : ",\"probabilities\":{");
    for (int32_t i = 0; i < s->model.num_labels; i++) {
        str_append(out, i ? "," : "");
        str_json(out, session_label(s, i, buf));
        str_printf(out, ":%.6g", p[i]);
    }
    str_append(out, "}}\n");
}

static int print_rows(const struct session *s, bool json, double *logits, struct snug_err *err)
{
    struct str out = {0};
    if (!json)
        put_header(s, &out);
    for (int64_t r = 0; r < s->data.n_rows; r++) {
        double *p = logits + r * s->model.num_labels;
        to_probabilities(s, p);
        if (json)
            put_row_json(s, &out, r, p);
        else
            put_row_csv(s, &out, r, p);
        if (out.n > 1 << 16) {
            fwrite(out.s, 1, out.n, stdout);
            out.n = 0;
        }
    }
    fwrite(str_text(&out), 1, out.n, stdout);
    int code = str_check(&out, err);
    str_free(&out);
    return code;
}

int run_predict(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct session s;
    struct screen screen;
    struct stop_flag stop = {0};
    double *logits = NULL;
    (void)args;
    screen_open(&screen);
    TRY(signals_install(&stop, err));
    int code = session_open(&s, &io_posix, o, screen_notes(&screen), &stop, err);
    if (!code && s.model.task != MODEL_SEQUENCE_CLASSIFICATION)
        code =
            err_set(err, SNUG_ERR_USAGE, "%s: %s gives no prediction per row; use a model for sequence classification",
                    o->model, model_class(&s.model));
    if (!code)
        code = session_load(&s, err);
    size_t n = code ? 0 : (size_t)(s.data.n_rows * s.model.num_labels);
    if (!code && !(logits = mem_alloc(n * sizeof *logits)))
        code = err_no_memory(err, n * sizeof *logits);
    if (!code)
        code = evaluate(&s, NULL, logits, NULL, err);
    if (!code)
        code = print_rows(&s, o->json, logits, err);
    mem_free(logits);
    session_close(&s);
    signals_restore();
    return code;
}
