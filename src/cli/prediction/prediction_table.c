/* Predictions on a terminal: a table as wide as the window, for people. A row has a line for each label that is shown, the
 * first with the row's number and what was read, cut to what fits. */
#include "cli/predictions.h"
#include "cli/report.h"
#include "cli/terminal.h"

#include <string.h>

enum { ROW_COLUMNS = 4, GAP = 2, LEAST_TEXT = 10 }; /* less of a text is not worth its place */

static bool is_regression(const struct predictions *p)
{
    return snug_problem_type(p->s) == SNUG_REGRESSION;
}

static int value_columns(const struct predictions *p)
{
    return is_regression(p) ? 12 : 6;
}

/* A single number needs no name. */
static bool has_names(const struct predictions *p)
{
    return !is_regression(p) || snug_num_labels(p->s) > 1;
}

/* Columns for the names of labels: those of the longest, but at most a third of the window. */
int prediction_name_columns(struct predictions *p)
{
    char buf[32];
    if (!p->longest_name)
        for (int64_t i = 0; i < snug_num_labels(p->s); i++) {
            int columns = text_cell_columns(label_name(p->s, i, buf));
            p->longest_name = columns > p->longest_name ? columns : p->longest_name;
        }
    int most = p->columns / 3, least = (int)strlen("label");
    return p->longest_name < least ? least : p->longest_name < most ? p->longest_name : most;
}

static void put_name(struct str *out, const char *name, int columns)
{
    text_cell(out, name, columns);
    str_printf(out, "%*s", GAP, "");
}

/* On one line, whatever the text has. */
static void put_text(struct str *out, const char *text, int columns)
{
    struct str line = {0}, clean = {0};
    str_append(&line, text);
    for (char *c = line.s; c && (c = strpbrk(c, "\t\r\n")); c++)
        *c = ' ';
    str_escape(&clean, str_text(&line));
    text_cut(out, str_text(&clean), columns);
    out->failed |= line.failed || clean.failed;
    str_free(&line);
    str_free(&clean);
}

/* The names of the columns that were read, or what the row has in them. */
static void put_input(struct predictions *p, bool names, int columns)
{
    struct str all = {0};
    for (int i = 0; i < snug_columns(p->s); i++)
        str_printf(&all, "%s%s", i ? " | " : "", names ? snug_column(p->s, i) : snug_cell(p->s, i));
    if (all.n && columns >= LEAST_TEXT) {
        str_printf(&p->line, "%*s", GAP, "");
        put_text(&p->line, str_text(&all), columns);
    }
    p->line.failed |= all.failed;
    str_free(&all);
}

static int text_room(struct predictions *p)
{
    return p->columns - ROW_COLUMNS - GAP - (has_names(p) ? prediction_name_columns(p) + GAP : 0) - value_columns(p) -
           GAP;
}

static void put_header(struct predictions *p)
{
    str_printf(&p->line, "%*s%*s", ROW_COLUMNS, "row", GAP, "");
    if (has_names(p))
        put_name(&p->line, "label", prediction_name_columns(p));
    str_printf(&p->line, "%*s", value_columns(p), is_regression(p) ? "value" : "prob.");
    put_input(p, true, text_room(p));
    str_append(&p->line, "\n");
}

/* The labels that are shown, in front in p->order. */
static int64_t choose(struct predictions *p, const double *values)
{
    if (is_regression(p) || p->top)
        return predictions_choose(p, values, p->top);
    if (snug_problem_type(p->s) == SNUG_SINGLE_LABEL)
        return predictions_choose(p, values, 1);
    int64_t all = predictions_choose(p, values, 0), n = 0;
    for (int64_t i = 0; i < all; i++)
        if (p->order[i].value > p->threshold)
            p->order[n++] = p->order[i];
    return n;
}

static void put_value(struct predictions *p, double x)
{
    if (number_word(x))
        str_printf(&p->line, "%*s", value_columns(p), number_word(x));
    else
        str_printf(&p->line, is_regression(p) ? "%*.6g" : "%*.4f", value_columns(p), x);
}

void prediction_table_row(struct predictions *p, int64_t index, const double *values)
{
    char buf[32];
    int64_t n = choose(p, values);
    if (!p->begun)
        put_header(p);
    for (int64_t i = 0; i < n || !i; i++) {
        if (i)
            str_printf(&p->line, "\n%*s", ROW_COLUMNS + GAP, "");
        else
            str_printf(&p->line, "%*lld%*s", ROW_COLUMNS, (long long)index, GAP, "");
        if (has_names(p))
            put_name(&p->line, n ? label_name(p->s, p->order[i].label, buf) : "(none)", prediction_name_columns(p));
        if (n)
            put_value(p, p->order[i].value);
        else
            str_printf(&p->line, "%*s", value_columns(p), "");
        if (!i)
            put_input(p, false, text_room(p));
    }
}

void prediction_text_row(struct predictions *p, int64_t index)
{
    struct str clean = {0};
    str_escape(&clean, snug_text(p->s));
    if (!p->begun)
        str_printf(&p->line, "%*s%*sgenerated\n", ROW_COLUMNS, "row", GAP, "");
    str_printf(&p->line, "%*lld%*s%s", ROW_COLUMNS, (long long)index, GAP, "", str_text(&clean));
    p->line.failed |= clean.failed;
    str_free(&clean);
}
