/* What the last evaluation found of each class: a table, the confusion matrix where it has room, else what was confused most often. */
#include "report/page.h"

#include "base/mem.h"
#include "report/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALL_CLASSES = 50,    /* of more, the WORST are shown */
    WORST = 20,          /* by F1 */
    MATRIX_CLASSES = 20, /* of more, the PAIRS are shown */
    PAIRS = 20,          /* that were confused most often */
    DARKEST = 35,        /* per cent of the tint behind a cell with all rows of its class: text keeps its contrast */
};

/* A file that somebody has edited has what it has. */
static const char *class_name(const json_t *labels, int64_t id)
{
    const json_t *label = json_array_get(labels, (size_t)id);
    const char *name = json_string_value(json_object_get(label, "label"));
    return name ? name : "-";
}

/* ---- each class ---- */

struct place {
    size_t id;
    double f1;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->f1 != y->f1 ? (x->f1 > y->f1) - (x->f1 < y->f1) : (x->id > y->id) - (x->id < y->id);
}

/* Fills `places` with those to show, and gives how many. Of many: the lowest F1 of classes that were met or predicted. */
static size_t choose_classes(const json_t *labels, struct place *places)
{
    size_t i, n = 0, all = json_array_size(labels);
    json_t *label;
    json_array_foreach(labels, i, label)
    {
        double f1 = json_number_value(json_object_get(label, "f1"));
        bool met = json_number_value(json_object_get(label, "support")) > 0 ||
                   json_number_value(json_object_get(label, "predicted")) > 0 || !json_object_get(label, "f1");
        if (all <= ALL_CLASSES || met)
            places[n++] = (struct place){i, f1};
    }
    if (all <= ALL_CLASSES)
        return n;
    qsort(places, n, sizeof *places, compare_places);
    return n < WORST ? n : WORST;
}

/* `what`: a word for all of them. */
static void put_classes(const json_t *labels, const char *what, const struct place *places, size_t n, struct str *out)
{
    size_t all = json_array_size(labels);
    char title[80];
    const json_t *first = json_array_get(labels, 0);
    const char *member;
    json_t *v;
    snprintf(title, sizeof title, n < all ? "%s: %zu of the lowest F1, of %zu" : "%s", what, n, all);
    table_begin(out, title);
    json_object_foreach((json_t *)(uintptr_t)first, member, v) table_head(out, member);
    table_body(out);
    for (size_t i = 0; i < n; i++) {
        const json_t *label = json_array_get(labels, places[i].id);
        table_row(out, class_name(labels, (int64_t)places[i].id));
        json_object_foreach((json_t *)(uintptr_t)first, member, v) if (strcmp(member, "label") != 0)
            table_number(out, json_object_get(label, member));
        table_row_end(out);
    }
    table_end(out);
}

/* ---- the confusion matrix ---- */

struct cell {
    int64_t actual, predicted, rows, of; /* of: all rows of the actual class */
};

static int most_rows_first(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    if (x->actual != y->actual)
        return x->actual < y->actual ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* Those with both classes among the n, in the order of the file. */
static size_t read_cells(const json_t *confusions, size_t n, int64_t *of, struct cell *cells)
{
    size_t i, k = 0;
    json_t *c;
    json_array_foreach(confusions, i, c)
    {
        struct cell *to = &cells[k];
        *to = (struct cell){.actual = json_integer_value(json_array_get(c, 0)),
                            .predicted = json_integer_value(json_array_get(c, 1)),
                            .rows = json_integer_value(json_array_get(c, 2))};
        if (to->actual < 0 || to->predicted < 0 || to->rows <= 0 || to->rows > INT32_MAX || (size_t)to->actual >= n ||
            (size_t)to->predicted >= n)
            continue;
        of[to->actual] += to->rows;
        k++;
    }
    for (i = 0; i < k; i++)
        cells[i].of = of[cells[i].actual];
    return k;
}

static double percent(const struct cell *c)
{
    return 100.0 * (double)c->rows / (double)c->of;
}

static void put_cell(const json_t *labels, const struct cell *c, struct str *out)
{
    str_printf(out, "<td class=\"n cell\" style=\"--part:%.3f\" title=\"", DARKEST / 100.0 * percent(c) / 100);
    str_xml(out, class_name(labels, c->actual));
    str_append(out, " predicted as ");
    str_xml(out, class_name(labels, c->predicted));
    str_printf(out, ": %lld of %lld rows, %.3g %%\">%lld</td>", (long long)c->rows, (long long)c->of, percent(c),
               (long long)c->rows);
}

/* `cells`: by actual, then by predicted class, as the file has them. */
static void put_matrix(const json_t *labels, const struct cell *cells, size_t n_cells, struct str *out)
{
    int64_t n = (int64_t)json_array_size(labels);
    const struct cell *matrix[MATRIX_CLASSES * MATRIX_CLASSES] = {NULL};
    for (size_t i = 0; i < n_cells; i++)
        matrix[cells[i].actual * n + cells[i].predicted] = &cells[i];
    table_begin(out, "Confusion matrix");
    table_head(out, "rows of, predicted as");
    for (int64_t p = 0; p < n; p++)
        table_head(out, class_name(labels, p));
    table_body(out);
    for (int64_t a = 0; a < n; a++) {
        table_row(out, class_name(labels, a));
        for (int64_t p = 0; p < n; p++)
            if (matrix[a * n + p])
                put_cell(labels, matrix[a * n + p], out);
            else
                str_append(out, "<td class=\"n\">0</td>");
        table_row_end(out);
    }
    table_end(out);
}

static void put_pairs(const json_t *labels, struct cell *cells, size_t n_cells, struct str *out)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n_cells; i++)
        if (cells[i].actual != cells[i].predicted)
            cells[wrong++] = cells[i];
    if (!wrong)
        return;
    qsort(cells, wrong, sizeof *cells, most_rows_first);
    table_begin(out, "Confused most often");
    table_head(out, "class");
    table_head(out, "predicted as");
    table_head(out, "rows");
    table_head(out, "of the class");
    table_body(out);
    for (size_t i = 0; i < wrong && i < PAIRS; i++) {
        table_row(out, class_name(labels, cells[i].actual));
        str_append(out, "<td class=\"text\">");
        str_xml(out, class_name(labels, cells[i].predicted));
        str_printf(out, "</td><td class=\"n\">%lld</td><td class=\"n\">%.3g %%</td>", (long long)cells[i].rows,
                   percent(&cells[i]));
        table_row_end(out);
    }
    table_end(out);
}

void page_classes(const struct facts *f, struct str *out)
{
    const json_t *labels = json_object_get(f->evaluation, "by_label");
    const json_t *confusions = json_object_get(f->evaluation, "confusions");
    size_t n = json_array_size(labels), n_cells = json_array_size(confusions);
    if (!n)
        return;
    struct place *places = mem_alloc(n * sizeof *places);
    struct cell *cells = mem_alloc((n_cells + 1) * sizeof *cells);
    int64_t *of = mem_alloc(n * sizeof *of);
    if (places && cells && of) {
        memset(of, 0, n * sizeof *of);
        put_classes(labels, n_cells ? "Classes" : "Labels", places, choose_classes(labels, places), out);
        n_cells = read_cells(confusions, n, of, cells);
        if (n_cells && n <= MATRIX_CLASSES)
            put_matrix(labels, cells, n_cells, out);
        else
            put_pairs(labels, cells, n_cells, out);
    } else {
        out->failed = true;
    }
    mem_free(places);
    mem_free(cells);
    mem_free(of);
}
