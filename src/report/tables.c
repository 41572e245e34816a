/* The tables of a page: evaluations, answers, options. */
#include "report/page.h"

#include "options/options.h"

#include <string.h>

enum { MOST_EVALUATIONS = 200, MOST_SAMPLES = 40 };

static void put_head(struct str *out, const char *text)
{
    str_append(out, "<th scope=\"col\">");
    str_xml(out, text);
    str_append(out, "</th>");
}

static void put_value(struct str *out, const json_t *v)
{
    struct str text = {0};
    if (json_is_string(v))
        str_append(&text, json_string_value(v));
    else if (json_is_real(v) || json_is_integer(v))
        str_printf(&text, "%.10g", json_number_value(v));
    else if (v && !json_is_null(v))
        options_json_value(v, &text);
    else
        str_append(&text, "-");
    str_append(out, json_is_number(v) ? "<td class=\"n\">" : "<td class=\"text\">");
    str_xml(out, str_text(&text));
    str_append(out, "</td>");
    out->failed |= text.failed;
    str_free(&text);
}

static void begin_table(struct str *out, const char *title)
{
    str_append(out, "<section>\n<h2>");
    str_append(out, title);
    str_append(out, "</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"");
    str_append(out, title);
    str_append(out, "\"><table>\n<thead><tr>");
}

static void end_table(struct str *out)
{
    str_append(out, "</tbody></table></div>\n</section>\n");
}

static void begin_row(struct str *out, const char *name)
{
    str_append(out, "<tr><th scope=\"row\">");
    str_xml(out, name);
    str_append(out, "</th>");
}

/* ---- evaluations ---- */

static bool is_evaluation(const json_t *line)
{
    return json_object_get(line, "eval_loss");
}

/* A row for each evaluation of a run, the last ones of many. */
static void put_history(const struct facts *f, struct str *out)
{
    const json_t *last = facts_last_evaluation(f);
    json_t *line, *v;
    const char *member;
    size_t i, n = 0, seen = 0;
    begin_table(out, "Evaluations");
    put_head(out, "step");
    put_head(out, "epoch");
    json_object_foreach((json_t *)(uintptr_t)last, member, v) if (facts_metric(member))
        put_head(out, facts_metric(member));
    str_append(out, "</tr></thead><tbody>\n");
    json_array_foreach(f->log, i, line) n += is_evaluation(line);
    json_array_foreach(f->log, i, line)
    {
        if (!is_evaluation(line) || n - seen++ > MOST_EVALUATIONS)
            continue;
        str_append(out, "<tr>");
        put_value(out, json_object_get(line, "step"));
        put_value(out, json_object_get(line, "epoch"));
        json_object_foreach((json_t *)(uintptr_t)last, member, v) if (facts_metric(member))
            put_value(out, json_object_get(line, member));
        str_append(out, "</tr>\n");
    }
    end_table(out);
}

/* A row for each metric, a column for each run. */
static void put_last_evaluations(const struct facts *runs, size_t n, struct str *out)
{
    const json_t *first = NULL;
    const char *member;
    json_t *v;
    for (size_t i = 0; i < n && !first; i++)
        first = facts_last_evaluation(&runs[i]);
    if (!first)
        return;
    begin_table(out, "Last evaluations");
    put_head(out, "metric");
    for (size_t i = 0; i < n; i++)
        put_head(out, runs[i].dir);
    str_append(out, "</tr></thead><tbody>\n");
    json_object_foreach((json_t *)(uintptr_t)first, member, v)
    {
        if (!facts_metric(member) && strcmp(member, "step"))
            continue;
        begin_row(out, facts_metric(member) ? facts_metric(member) : member);
        for (size_t i = 0; i < n; i++)
            put_value(out, json_object_get(facts_last_evaluation(&runs[i]), member));
        str_append(out, "</tr>\n");
    }
    end_table(out);
}

void page_evaluations(const struct facts *runs, size_t n, struct str *out)
{
    if (n > 1)
        put_last_evaluations(runs, n, out);
    else if (facts_last_evaluation(runs))
        put_history(runs, out);
}

/* ---- answers ---- */

static bool is_sample(const json_t *line)
{
    return json_object_get(line, "eval_sample");
}

/* Of a run, its last answers. */
static void put_answers(const struct facts *f, bool named, struct str *out)
{
    static const char *const members[] = {"step", "prompt", "expected", "generated"};
    size_t i, n = 0, seen = 0;
    json_t *line;
    json_array_foreach(f->log, i, line) n += is_sample(line);
    json_array_foreach(f->log, i, line)
    {
        if (!is_sample(line) || n - seen++ > MOST_SAMPLES)
            continue;
        if (named)
            begin_row(out, f->dir);
        else
            str_append(out, "<tr>");
        for (size_t k = 0; k < sizeof members / sizeof *members; k++)
            put_value(out, json_object_get(line, members[k]));
        str_append(out, "</tr>\n");
    }
}

void page_samples(const struct facts *runs, size_t n, struct str *out)
{
    size_t samples = 0, k;
    json_t *line;
    for (size_t i = 0; i < n; i++)
        json_array_foreach(runs[i].log, k, line) samples += is_sample(line);
    if (!samples)
        return;
    begin_table(out, "Answers");
    if (n > 1)
        put_head(out, "run");
    put_head(out, "step");
    put_head(out, "prompt");
    put_head(out, "expected");
    put_head(out, "answer");
    str_append(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < n; i++)
        put_answers(&runs[i], n > 1, out);
    end_table(out);
}

/* ---- options ---- */

/* Of one run what is not as by default; of several what they do not all have alike, but for the folder that they write. */
static bool is_shown(const struct facts *runs, size_t n, const json_t *defaults, const char *name)
{
    const json_t *value = json_object_get(runs[0].options, name), *usual = json_object_get(defaults, name);
    if (!strcmp(name, "snug_version") || (n > 1 && !strcmp(name, "output_dir")))
        return false;
    if (n == 1)
        return !json_equal(value, usual) && !(json_is_null(value) && !usual);
    for (size_t i = 1; i < n; i++)
        if (!json_equal(value, json_object_get(runs[i].options, name)))
            return true;
    return false;
}

static void put_options(const struct facts *runs, size_t n, const json_t *defaults, struct str *out)
{
    const char *name;
    json_t *v;
    begin_table(out, n == 1 ? "Options" : "Options that differ");
    put_head(out, "option");
    for (size_t i = 0; i < n; i++)
        put_head(out, n == 1 ? "value" : runs[i].dir);
    if (n == 1)
        put_head(out, "by default");
    str_append(out, "</tr></thead><tbody>\n");
    json_object_foreach(runs[0].options, name, v) if (is_shown(runs, n, defaults, name))
    {
        begin_row(out, name);
        for (size_t i = 0; i < n; i++)
            put_value(out, json_object_get(runs[i].options, name));
        if (n == 1)
            put_value(out, json_object_get(defaults, name));
        str_append(out, "</tr>\n");
    }
    end_table(out);
}

int page_options(const struct facts *runs, size_t n, struct str *out, struct snug_err *err)
{
    struct options o;
    json_t *defaults = NULL;
    for (size_t i = 0; i < n; i++)
        if (!json_object_size(runs[i].options)) {
            str_append(
                out, "<section>\n<h2>Options</h2>\n<p>They are in training_args.json once a run has come to its end; ");
            str_xml(out, runs[i].dir);
            str_append(out, " has none yet.</p>\n</section>\n");
            return SNUG_OK;
        }
    options_init(&o, CMD_TRAIN);
    int code = options_to_json(&o, false, &defaults, err);
    if (!code)
        put_options(runs, n, defaults, out);
    json_decref(defaults);
    options_free(&o);
    return code;
}
