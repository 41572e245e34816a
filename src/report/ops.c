/* Where the time of a step goes: which ops take how much of it. */
#include "report/page.h"

#include "base/mem.h"
#include "graph/op.h"
#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 12 }; /* ops that have a row of their own */

struct row {
    const char *op;
    double nodes, seconds;
};

static int slowest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return x->seconds != y->seconds ? (x->seconds < y->seconds) - (x->seconds > y->seconds) : strcmp(x->op, y->op);
}

/* A file that somebody has edited may have anything in it. */
static size_t read_rows(const json_t *times, struct row *rows, double *seconds)
{
    size_t i, n = 0;
    json_t *v;
    *seconds = 0;
    json_array_foreach(times, i, v)
    {
        struct row r = {.op = json_string_value(json_object_get(v, "op")),
                        .nodes = json_number_value(json_object_get(v, "nodes")),
                        .seconds = json_number_value(json_object_get(v, "seconds"))};
        if (!r.op || !(r.seconds > 0) || !isfinite(r.seconds))
            continue;
        *seconds += r.seconds;
        rows[n++] = r;
    }
    qsort(rows, n, sizeof *rows, slowest_first);
    return n;
}

/* The first clause of the op's definition. */
static void put_meaning(const char *name, struct str *out)
{
    const char *text = "";
    for (int op = 1; op < OP_COUNT; op++)
        if (!strcmp(op_table[op].name, name))
            text = op_table[op].text;
    struct str clause = {0};
    str_append_n(&clause, text, strcspn(text, ";"));
    str_append(out, "<td class=\"text\">");
    str_xml(out, str_text(&clause));
    str_append(out, "</td>");
    out->failed |= clause.failed;
    str_free(&clause);
}

static void put_numbers(const struct row *r, double seconds, struct str *out)
{
    double share = r->seconds / seconds;
    str_printf(out,
               "<td class=\"n\">%.6g</td><td class=\"n\">%.4g</td><td class=\"n cell\" style=\"--part:%.3f\">%.3g "
               "%%</td>",
               r->nodes, 1e3 * r->seconds, 0.45 * share, 100 * share);
    table_row_end(out);
}

static void put_rows(const struct row *rows, size_t n, double seconds, struct str *out)
{
    struct row others = {0};
    for (size_t i = 0; i < n; i++) {
        if (i < MOST) {
            table_row(out, rows[i].op);
            put_meaning(rows[i].op, out);
            put_numbers(&rows[i], seconds, out);
            continue;
        }
        others.nodes += rows[i].nodes;
        others.seconds += rows[i].seconds;
    }
    if (n <= MOST)
        return;
    table_row(out, "others");
    str_printf(out, "<td class=\"text\">%zu ops</td>", n - MOST);
    put_numbers(&others, seconds, out);
}

void page_ops(const struct facts *f, struct str *out)
{
    const json_t *ops = json_object_get(f->environment, "ops"), *times = json_object_get(ops, "times");
    const char *how = json_string_value(json_object_get(ops, "how"));
    double seconds;
    if (!json_array_size(times))
        return;
    struct row *rows = mem_alloc(json_array_size(times) * sizeof *rows);
    size_t n = rows ? read_rows(times, rows, &seconds) : 0;
    out->failed |= !rows;
    if (n) {
        table_begin(out, "Slowest ops");
        table_head(out, "op");
        table_head(out, "what it computes");
        table_head(out, "nodes of a step");
        table_head(out, "ms of a step");
        table_head(out, "share");
        table_body(out);
        put_rows(rows, n, seconds, out);
        table_end(out);
        str_append(out, "<p class=\"quiet\">");
        str_xml(out, how ? how : "");
        str_append(out, "</p>\n");
    }
    mem_free(rows);
}
