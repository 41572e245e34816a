/* Where and how a run was made, and what one step holds in memory. */
#include "report/page.h"

#include "base/mem.h"
#include "report/chart.h"
#include "report/table.h"

#include <string.h>

/* ---- memory of one step ---- */

/* The numbers of a list into `to`, of which there must be n; false where it is no such list. */
static bool read_numbers(const json_t *list, size_t n, double *to)
{
    size_t i;
    json_t *v;
    if (json_array_size(list) != n)
        return false;
    json_array_foreach(list, i, v)
    {
        if (!json_is_number(v))
            return false;
        to[i] = json_number_value(v);
    }
    return true;
}

/* A file that somebody has edited may have anything in it. */
static bool never_falls(const double *x, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (x[i] < x[i - 1])
            return false;
    return true;
}

static void put_memory(const json_t *memory, size_t n, double *numbers, struct str *out)
{
    const char *program = json_string_value(json_object_get(memory, "program")), *member;
    struct str title = {0};
    double *x = numbers, *y = numbers + n;
    json_t *v;
    str_printf(&title, "planned memory by kind: %s", program ? program : "step");
    struct chart chart = {.title = str_text(&title), .x_title = "node", .unit = CHART_BYTES};
    bool good = read_numbers(json_object_get(memory, "node"), n, x) && never_falls(x, n);
    json_object_foreach((json_t *)(uintptr_t)memory, member, v)
    {
        if (!strcmp(member, "node") || chart.n == CHART_SERIES || !read_numbers(v, n, y))
            continue;
        chart.series[chart.n] = (struct series){.name = member, .x = x, .y = y, .n = n, .colour = chart.n};
        chart.n++;
        y += n;
    }
    if (good && chart.n && !title.failed)
        chart_put(&chart, out);
    out->failed |= title.failed;
    str_free(&title);
}

void page_memory(const struct facts *f, struct str *out)
{
    const json_t *memory = json_object_get(f->environment, "memory");
    size_t n = json_array_size(json_object_get(memory, "node"));
    if (!n)
        return;
    double *numbers = mem_alloc(n * (CHART_SERIES + 2) * sizeof *numbers);
    if (numbers)
        put_memory(memory, n, numbers, out);
    else
        out->failed = true;
    mem_free(numbers);
}

/* ---- the machine ---- */

void page_environment(const struct facts *f, struct str *out)
{
    const char *member;
    json_t *v;
    if (!json_object_size(f->environment))
        return;
    table_begin(out, "Environment");
    table_head(out, "what");
    table_head(out, "value");
    table_body(out);
    json_object_foreach(f->environment, member, v)
    {
        if (json_is_object(v) || json_is_array(v))
            continue;
        table_row(out, member);
        if (!strncmp(member, "memory", 6) && json_is_number(v)) {
            str_append(out, "<td class=\"n\">");
            chart_number(out, CHART_BYTES, json_number_value(v));
            str_append(out, "</td>");
        } else {
            table_value(out, v);
        }
        table_row_end(out);
    }
    table_end(out);
}
