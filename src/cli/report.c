#include "cli/report.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MATRIX_CLASSES = 200, /* of more, --json has no confusion matrix */
    MATRIX_SHOWN = 20,    /* nor has the terminal, of more than these, or than fit */
    ROWS_SHOWN = 100,     /* of more labels, a terminal gets the WORST_SHOWN */
    WORST_SHOWN = 20,
    CONFUSIONS = 20,       /* in --json */
    CONFUSIONS_SHOWN = 10, /* elsewhere */
    NAME_LEAST = 16,       /* columns that the names of labels get, if they need them, before numbers are left out */
    NAME_MOST = 40,
};

/* ---- numbers ---- */

void numbers_add(void *numbers, const char *name, double value)
{
    struct numbers *l = numbers;
    l->failed |= !MEM_GROW(l->of, l->cap, l->n + 1);
    if (l->failed)
        return;
    snprintf(l->of[l->n].name, sizeof l->of->name, "%s", name);
    l->of[l->n++].value = value;
}

void numbers_free(struct numbers *l)
{
    mem_free(l->of);
    *l = (struct numbers){0};
}

static void put_json_numbers(struct str *out, const struct numbers *l)
{
    for (size_t i = 0; i < l->n; i++) {
        str_printf(out, "%s\"%s\": ", i ? ", " : "", l->of[i].name);
        str_json_number(out, l->of[i].value, 10);
    }
}

/* ---- labels ---- */

const char *label_name(const snug_session *s, int64_t id, char buf[32])
{
    const char *name = snug_label(s, id);
    snprintf(buf, 32, "LABEL_%lld", (long long)id);
    return name ? name : buf;
}

/* Whether labels have numbers of their own: those of a single output are the same as of all rows. */
static bool has_labels(const snug_session *s)
{
    int64_t n = snug_evaluated_labels(s);
    return n > 1 || (n == 1 && snug_problem_type(s) != SNUG_REGRESSION);
}

/* What was evaluated by itself: a label, or a type of entity. */
static const char *evaluated_name(const snug_session *s, int64_t id, char buf[32])
{
    const char *name = snug_evaluated_name(s, id);
    snprintf(buf, 32, "LABEL_%lld", (long long)id);
    return name ? name : buf;
}

struct by_label {
    int64_t n;
    struct numbers *of; /* (n) */
};

static void close_by_label(struct by_label *b)
{
    for (int64_t i = 0; b->of && i < b->n; i++)
        numbers_free(&b->of[i]);
    mem_free(b->of);
}

static int open_by_label(const snug_session *s, struct by_label *b, struct snug_err *err)
{
    *b = (struct by_label){.n = has_labels(s) ? snug_evaluated_labels(s) : 0};
    b->of = mem_alloc((size_t)(b->n + 1) * sizeof *b->of);
    int code = b->of ? SNUG_OK : err_no_memory(err, (size_t)b->n * sizeof *b->of);
    for (int64_t i = 0; !code && i < b->n; i++) {
        code = snug_evaluated_label(s, i, numbers_add, &b->of[i], err);
        if (!code && b->of[i].failed)
            code = err_no_memory(err, sizeof *b->of);
    }
    return code;
}

/* ---- confusions ---- */

struct cell {
    int64_t actual, predicted, rows;
};

struct confusions {
    struct cell *cells; /* (n) that have rows */
    size_t n, cap;
    bool failed;
};

static void add_cell(void *ctx, int64_t actual, int64_t predicted, int64_t rows)
{
    struct confusions *c = ctx;
    c->failed |= !MEM_GROW(c->cells, c->cap, c->n + 1);
    if (!c->failed)
        c->cells[c->n++] = (struct cell){actual, predicted, rows};
}

static int open_confusions(const snug_session *s, struct confusions *c, struct snug_err *err)
{
    TRY(snug_evaluated_confusions(s, add_cell, c, err));
    return c->failed ? err_no_memory(err, c->cap * sizeof *c->cells) : SNUG_OK;
}

/* Rows x Rows, most first; what is right comes last. */
static int compare_cells(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    bool right_x = x->actual == x->predicted, right_y = y->actual == y->predicted;
    if (right_x != right_y)
        return right_x - right_y;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    if (x->actual != y->actual)
        return x->actual < y->actual ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

/* Brings what was taken for something else to the front; how many there are. */
static size_t sort_confusions(struct confusions *c)
{
    size_t wrong = 0;
    if (c->n)
        qsort(c->cells, c->n, sizeof *c->cells, compare_cells);
    while (wrong < c->n && c->cells[wrong].actual != c->cells[wrong].predicted)
        wrong++;
    return wrong;
}

/* (n, n); NULL: no memory */
static int64_t *make_matrix(const struct confusions *c, int64_t n)
{
    int64_t *m = mem_alloc((size_t)(n * n) * sizeof *m);
    for (size_t i = 0; m && i < c->n; i++)
        m[c->cells[i].actual * n + c->cells[i].predicted] = c->cells[i].rows;
    return m;
}

/* ---- a report ---- */

struct report {
    struct by_label b;
    struct confusions c;
    struct str out;
};

static int open_report(const snug_session *s, struct report *r, struct snug_err *err)
{
    *r = (struct report){0};
    TRY(open_by_label(s, &r->b, err));
    return open_confusions(s, &r->c, err);
}

/* Prints what was made without an error, and frees it all. */
static int close_report(struct report *r, int code, struct snug_err *err)
{
    if (!code)
        code = str_check(&r->out, err);
    if (!code)
        fputs(str_text(&r->out), stdout);
    close_by_label(&r->b);
    mem_free(r->c.cells);
    str_free(&r->out);
    return code;
}

/* ---- JSON ---- */

static void put_json_labels(struct str *out, const snug_session *s, const struct by_label *b)
{
    char buf[32];
    str_append(out, ", \"by_label\": [");
    for (int64_t i = 0; i < b->n; i++) {
        str_append(out, i ? ", {\"label\": " : "{\"label\": ");
        str_json_printed(out, evaluated_name(s, i, buf));
        str_append(out, ", ");
        put_json_numbers(out, &b->of[i]);
        str_append(out, "}");
    }
    str_append(out, "]");
}

static void put_json_matrix(struct str *out, const struct confusions *c, int64_t n)
{
    int64_t *m = make_matrix(c, n);
    out->failed |= !m;
    str_append(out, ", \"confusion_matrix\": [");
    for (int64_t i = 0; m && i < n; i++) {
        str_append(out, i ? ", [" : "[");
        for (int64_t k = 0; k < n; k++)
            str_printf(out, "%s%lld", k ? ", " : "", (long long)m[i * n + k]);
        str_append(out, "]");
    }
    str_append(out, "]");
    mem_free(m);
}

static void put_json_confusions(struct str *out, const snug_session *s, struct confusions *c)
{
    char buf[32];
    size_t n = sort_confusions(c);
    str_append(out, ", \"top_confusions\": [");
    for (size_t i = 0; i < n && i < CONFUSIONS; i++) {
        str_append(out, i ? ", {\"label\": " : "{\"label\": ");
        str_json_printed(out, label_name(s, c->cells[i].actual, buf));
        str_append(out, ", \"predicted\": ");
        str_json_printed(out, label_name(s, c->cells[i].predicted, buf));
        str_printf(out, ", \"rows\": %lld}", (long long)c->cells[i].rows);
    }
    str_append(out, "]");
}

int report_json(const struct numbers *all, const snug_session *s, struct snug_err *err)
{
    struct report r;
    int code = open_report(s, &r, err);
    str_append(&r.out, "{");
    put_json_numbers(&r.out, all);
    if (!code && r.b.n)
        put_json_labels(&r.out, s, &r.b);
    if (!code && r.c.n && r.b.n <= MATRIX_CLASSES)
        put_json_matrix(&r.out, &r.c, r.b.n);
    if (!code && r.c.n)
        put_json_confusions(&r.out, s, &r.c);
    str_append(&r.out, "}\n");
    return close_report(&r, code, err);
}

/* ---- tables ---- */

/* Columns of the longest name of `n` labels. */
static int longest_name(const snug_session *s, int64_t n)
{
    char buf[32];
    int longest = (int)strlen("label");
    for (int64_t i = 0; i < n; i++) {
        int width = text_cell_columns(evaluated_name(s, i, buf));
        longest = width > longest ? width : longest;
    }
    return longest;
}

static int number_columns(const char *name)
{
    int n = (int)strlen(name);
    return 2 + (n > 8 ? n : 8);
}

static void put_number(struct str *out, const char *name, double value)
{
    bool count = !strcmp(name, "support") || !strcmp(name, "predicted");
    if (number_word(value))
        str_printf(out, "%*s", number_columns(name), number_word(value));
    else
        str_printf(out, count ? "%*.0f" : fabs(value) < 1000 ? "%*.4f" : "%*.4g", number_columns(name), value);
}

/* How many of the numbers fit beside the names, and the columns that names get. */
static size_t fit_numbers(const struct numbers *first, int longest, int columns, int *name_columns)
{
    int used = 0;
    size_t n = 0;
    *name_columns = longest < NAME_MOST || !columns ? longest : NAME_MOST;
    int least = *name_columns < NAME_LEAST ? *name_columns : NAME_LEAST;
    while (n < first->n && (!columns || least + used + number_columns(first->of[n].name) <= columns))
        used += number_columns(first->of[n++].name);
    if (columns && *name_columns > columns - used)
        *name_columns = columns - used;
    return n;
}

/* A label's place in the table. */
struct place {
    int64_t id;
    double f1;
};

static double f1_of(const struct numbers *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->of[i].name, "f1"))
            return l->of[i].value;
    return 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->f1 != y->f1 ? (x->f1 > y->f1) - (x->f1 < y->f1) : (x->id > y->id) - (x->id < y->id);
}

static void put_labels(struct str *out, const snug_session *s, const struct by_label *b, int columns)
{
    struct place *places = mem_alloc((size_t)b->n * sizeof *places);
    bool few = !columns || b->n <= ROWS_SHOWN;
    int64_t shown = few ? b->n : WORST_SHOWN;
    int name_columns;
    char buf[32];
    out->failed |= !places;
    for (int64_t i = 0; places && i < b->n; i++)
        places[i] = (struct place){.id = i, .f1 = f1_of(&b->of[i])};
    if (places && !few)
        qsort(places, (size_t)b->n, sizeof *places, compare_places);
    size_t n = fit_numbers(&b->of[0], longest_name(s, b->n), columns, &name_columns);
    if (!few)
        str_printf(out, "\nthe %lld labels of lowest f1, of %lld (--json has all)", (long long)shown, (long long)b->n);
    str_append(out, "\n");
    text_cell(out, "label", name_columns);
    for (size_t i = 0; i < n; i++)
        str_printf(out, "%*s", number_columns(b->of[0].of[i].name), b->of[0].of[i].name);
    str_append(out, "\n");
    for (int64_t i = 0; places && i < shown; i++) {
        const struct numbers *l = &b->of[places[i].id];
        text_cell(out, evaluated_name(s, places[i].id, buf), name_columns);
        for (size_t k = 0; k < n; k++)
            put_number(out, l->of[k].name, l->of[k].value);
        str_append(out, "\n");
    }
    mem_free(places);
}

/* Columns of a cell of the confusion matrix. */
static int cell_columns(const struct confusions *c, int64_t n)
{
    int64_t most = n - 1;
    for (size_t i = 0; i < c->n; i++)
        most = c->cells[i].rows > most ? c->cells[i].rows : most;
    return 2 + snprintf(NULL, 0, "%lld", (long long)most);
}

/* Classes are numbered, names stand in front of their rows. False: it does not fit. */
static bool put_matrix(struct str *out, const snug_session *s, const struct confusions *c, int64_t n, int columns)
{
    int cell = cell_columns(c, n), id_columns = n > 10 ? 2 : 1, longest = longest_name(s, n);
    int name_columns = longest < NAME_MOST || !columns ? longest : NAME_MOST;
    char buf[32];
    if (n > MATRIX_SHOWN)
        return false;
    if (columns && id_columns + 1 + name_columns + n * cell > columns)
        name_columns = columns - id_columns - 1 - (int)n * cell;
    if (name_columns < longest && name_columns < NAME_LEAST / 2)
        return false;
    int64_t *m = make_matrix(c, n);
    out->failed |= !m;
    str_printf(out, "\nrows of each label, by what is predicted\n%*s", id_columns + 1 + name_columns, "");
    for (int64_t k = 0; k < n; k++)
        str_printf(out, "%*lld", cell, (long long)k);
    str_append(out, "\n");
    for (int64_t i = 0; m && i < n; i++) {
        str_printf(out, "%*lld ", id_columns, (long long)i);
        text_cell(out, label_name(s, i, buf), name_columns);
        for (int64_t k = 0; k < n; k++)
            str_printf(out, "%*lld", cell, (long long)m[i * n + k]);
        str_append(out, "\n");
    }
    mem_free(m);
    return true;
}

static void put_confusions(struct str *out, const snug_session *s, struct confusions *c, int64_t labels, int columns)
{
    size_t n = sort_confusions(c);
    int longest = longest_name(s, labels), left = (columns - 10) / 2;
    int name_columns = longest < left || !columns ? longest : left;
    char buf[32];
    if (!n)
        return;
    str_append(out, "\nwhat is taken for something else most often\n    rows  ");
    text_cell(out, "label", name_columns);
    str_append(out, "  predicted\n");
    for (size_t i = 0; i < n && i < CONFUSIONS_SHOWN; i++) {
        str_printf(out, "%8lld  ", (long long)c->cells[i].rows);
        text_cell(out, label_name(s, c->cells[i].actual, buf), name_columns);
        str_append(out, "  ");
        text_cell(out, label_name(s, c->cells[i].predicted, buf), columns ? name_columns : 0);
        str_append(out, "\n");
    }
}

int report_text(const struct numbers *all, const snug_session *s, int columns, struct snug_err *err)
{
    struct report r;
    int code = open_report(s, &r, err);
    for (size_t i = 0; i < all->n; i++) {
        str_printf(&r.out, "%-20s ", all->of[i].name);
        if (number_word(all->of[i].value))
            str_printf(&r.out, "%s\n", number_word(all->of[i].value));
        else
            str_printf(&r.out, "%.6g\n", all->of[i].value);
    }
    if (!code && r.b.n)
        put_labels(&r.out, s, &r.b, columns);
    if (!code && r.c.n && !put_matrix(&r.out, s, &r.c, r.b.n, columns))
        put_confusions(&r.out, s, &r.c, r.b.n, columns);
    return close_report(&r, code, err);
}
