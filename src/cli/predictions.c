#include "cli/predictions.h"

#include "base/mem.h"
#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

void predictions_put_csv(struct predictions *p, const char *text)
{
    struct str *out = &p->line, clean = {0};
    if (p->terminal) {
        str_escape(&clean, text);
        text = str_text(&clean);
    }
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    str_append(out, quote ? "\"" : "");
    for (const char *from = text, *mark; *from; from = mark) {
        mark = from + strcspn(from, "\"");
        str_append_n(out, from, (size_t)(mark - from));
        if (*mark == '"')
            str_append(out, "\"\""), mark++;
    }
    str_append(out, quote ? "\"" : "");
    out->failed |= clean.failed;
    str_free(&clean);
}

static void put_name(struct predictions *p, int64_t label)
{
    char buf[32];
    if (p->json)
        str_json_printed(&p->line, label_name(p->s, label, buf));
    else
        predictions_put_csv(p, label_name(p->s, label, buf));
}

static void put_value(struct predictions *p, double x)
{
    if (p->json)
        str_json_number(&p->line, x, 6);
    else if (number_word(x))
        str_append(&p->line, number_word(x));
    else
        str_printf(&p->line, "%.6g", x);
}

/* ---- labels ---- */

static int compare_likely(const void *a, const void *b)
{
    const struct likely *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value) - (x->value > y->value)
                                : (x->label > y->label) - (x->label < y->label);
}

int64_t predictions_choose(struct predictions *p, const double *values, int64_t top)
{
    int64_t n = snug_num_labels(p->s);
    for (int64_t i = 0; i < n; i++)
        p->order[i] = (struct likely){.label = i, .value = values ? values[i] : 0};
    if (!top)
        return n;
    qsort(p->order, (size_t)n, sizeof *p->order, compare_likely);
    return top < n ? top : n;
}

static int64_t likeliest(const struct predictions *p, const double *values)
{
    int64_t best = 0;
    for (int64_t i = 1; i < snug_num_labels(p->s); i++)
        best = values[i] > values[best] ? i : best;
    return best;
}

/* A JSON array, or with ';' between them. */
static void put_several(struct predictions *p, const double *values)
{
    struct str names = {0};
    char buf[32];
    for (int64_t i = 0; i < snug_num_labels(p->s); i++) {
        if (!(values[i] > p->threshold))
            continue;
        str_append(&names, names.n ? p->json ? "," : ";" : "");
        if (p->json)
            str_json_printed(&names, label_name(p->s, i, buf));
        else
            str_append(&names, label_name(p->s, i, buf));
    }
    p->line.failed |= names.failed;
    if (p->json)
        str_printf(&p->line, "[%s]", str_text(&names));
    else
        predictions_put_csv(p, str_text(&names));
    str_free(&names);
}

static void put_label(struct predictions *p, const double *values)
{
    if (snug_problem_type(p->s) == SNUG_MULTI_LABEL)
        put_several(p, values);
    else
        put_name(p, likeliest(p, values));
}

/* Neither a text nor a regression's numbers have one. */
static bool has_label(const struct predictions *p)
{
    return !snug_text(p->s) && snug_problem_type(p->s) != SNUG_REGRESSION;
}

/* ---- CSV ---- */

/* Name i of the header's first part, NULL behind the last; `buf` holds it where it has to be made. */
static const char *own_column(const struct predictions *p, int64_t i, char buf[48])
{
    int64_t labels = snug_num_labels(p->s), shown = p->top && p->top < labels ? p->top : labels;
    if (i == 0)
        return "row";
    if (snug_text(p->s))
        return i == 1 ? "generated" : NULL;
    if (has_label(p) && i-- == 1)
        return "label";
    i--;
    if (i >= (p->top ? 2 * shown : shown))
        return NULL;
    if (!p->top)
        return label_name(p->s, i, buf);
    snprintf(buf, 48, "%s_%lld", i % 2 ? "probability" : "label", (long long)(i / 2 + 1));
    return buf;
}

static bool is_taken(const struct predictions *p, const char *name, int column)
{
    char buf[48];
    const char *own;
    for (int64_t i = 0; (own = own_column(p, i, buf)); i++)
        if (!strcmp(own, name))
            return true;
    for (int i = 0; i < snug_columns(p->s); i++)
        if (i != column && !strcmp(snug_column(p->s, i), name))
            return true;
    return false;
}

/* A column of the input keeps its name, unless a prediction has it: then input_ is put in front. */
static void put_input_name(struct predictions *p, int column)
{
    struct str name = {0};
    str_append(&name, snug_column(p->s, column));
    while (!name.failed && is_taken(p, str_text(&name), column)) {
        struct str longer = {0};
        str_printf(&longer, "input_%s", str_text(&name));
        str_free(&name);
        name = longer;
    }
    p->line.failed |= name.failed;
    predictions_put_csv(p, str_text(&name));
    str_free(&name);
}

static void put_header(struct predictions *p)
{
    char buf[48];
    const char *own;
    for (int64_t i = 0; (own = own_column(p, i, buf)); i++) {
        str_append(&p->line, i ? "," : "");
        predictions_put_csv(p, own);
    }
    for (int i = 0; i < snug_columns(p->s); i++) {
        str_append(&p->line, ",");
        put_input_name(p, i);
    }
    str_append(&p->line, "\n");
}

static void put_csv_row(struct predictions *p, int64_t index, const double *values)
{
    int64_t shown = predictions_choose(p, values, p->top);
    if (!p->begun)
        put_header(p);
    str_printf(&p->line, "%lld", (long long)index);
    if (snug_text(p->s)) {
        str_append(&p->line, ",");
        predictions_put_csv(p, snug_text(p->s));
    }
    if (has_label(p)) {
        str_append(&p->line, ",");
        put_label(p, values);
    }
    for (int64_t i = 0; i < shown; i++) {
        str_append(&p->line, ",");
        if (p->top) {
            put_name(p, p->order[i].label);
            str_append(&p->line, ",");
        }
        put_value(p, p->order[i].value);
    }
    for (int i = 0; i < snug_columns(p->s); i++) {
        str_append(&p->line, ",");
        predictions_put_csv(p, snug_cell(p->s, i));
    }
}

/* ---- JSON ---- */

static void put_input(struct predictions *p)
{
    if (!snug_columns(p->s))
        return;
    str_append(&p->line, ",\"input\":");
    if (snug_row_json(p->s)) {
        str_json_whole_printed(&p->line, snug_row_json(p->s));
        return;
    }
    for (int i = 0; i < snug_columns(p->s); i++) {
        str_append(&p->line, i ? "," : "{");
        str_json_printed(&p->line, snug_column(p->s, i));
        str_append(&p->line, ":");
        str_json_printed(&p->line, snug_cell(p->s, i));
    }
    str_append(&p->line, "}");
}

static void put_json_values(struct predictions *p, const double *values)
{
    int64_t shown = predictions_choose(p, values, p->top);
    if (has_label(p)) {
        str_append(&p->line, ",\"label\":");
        put_label(p, values);
    }
    str_append(&p->line, has_label(p) ? ",\"probabilities\":{" : ",\"values\":{");
    for (int64_t i = 0; i < shown; i++) {
        str_append(&p->line, i ? "," : "");
        put_name(p, p->order[i].label);
        str_append(&p->line, ":");
        put_value(p, p->order[i].value);
    }
    str_append(&p->line, "}");
}

static void put_json_row(struct predictions *p, int64_t index, const double *values)
{
    str_printf(&p->line, "{\"row\":%lld", (long long)index);
    if (snug_text(p->s)) {
        str_append(&p->line, ",\"generated\":");
        str_json_printed(&p->line, snug_text(p->s));
    } else {
        put_json_values(p, values);
    }
    put_input(p);
    str_append(&p->line, "}");
}

/* ---- lines ---- */

int predictions_add(struct predictions *p, int64_t index, const double *values, struct snug_err *err)
{
    size_t bytes = (size_t)snug_num_labels(p->s) * sizeof *p->order;
    p->line.n = 0;
    if (snug_answers(p->s) >= 0) {
        prediction_answers_row(p, index);
        p->begun = true;
        return str_check(&p->line, err);
    }
    if (snug_words(p->s) >= 0) {
        prediction_words_row(p, index, values);
        p->begun = true;
        return str_check(&p->line, err);
    }
    if (!p->order)
        p->order = mem_alloc(bytes);
    if (!p->order)
        return err_no_memory(err, bytes);
    if (p->json)
        put_json_row(p, index, values);
    else if (p->columns && snug_text(p->s))
        prediction_text_row(p, index);
    else if (p->columns)
        prediction_table_row(p, index, values);
    else
        put_csv_row(p, index, values);
    p->begun = true;
    str_append(&p->line, "\n");
    return str_check(&p->line, err);
}

void predictions_free(struct predictions *p)
{
    str_free(&p->line);
    mem_free(p->order);
}
