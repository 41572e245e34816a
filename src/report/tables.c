/* The tables of a page: evaluations, answers, options. */
#include "report/page.h"

#include "options/options.h"
#include "report/table.h"

#include <string.h>

enum { MOST_EVALUATIONS = 200, MOST_SAMPLES = 40 };

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
    table_begin(out, "Evaluations");
    table_head(out, "step");
    table_head(out, "epoch");
    json_object_foreach((json_t *)(uintptr_t)last, member, v) if (facts_metric(member))
        table_head(out, facts_metric(member));
    table_body(out);
    json_array_foreach(f->log, i, line) n += is_evaluation(line);
    json_array_foreach(f->log, i, line)
    {
        if (!is_evaluation(line) || n - seen++ > MOST_EVALUATIONS)
            continue;
        table_row(out, NULL);
        table_value(out, json_object_get(line, "step"));
        table_value(out, json_object_get(line, "epoch"));
        json_object_foreach((json_t *)(uintptr_t)last, member, v) if (facts_metric(member))
            table_value(out, json_object_get(line, member));
        table_row_end(out);
    }
    table_end(out);
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
    table_begin(out, "Last evaluations");
    table_head(out, "metric");
    for (size_t i = 0; i < n; i++)
        table_head(out, runs[i].dir);
    table_body(out);
    json_object_foreach((json_t *)(uintptr_t)first, member, v)
    {
        if (!facts_metric(member) && strcmp(member, "step"))
            continue;
        table_row(out, facts_metric(member) ? facts_metric(member) : member);
        for (size_t i = 0; i < n; i++)
            table_value(out, json_object_get(facts_last_evaluation(&runs[i]), member));
        table_row_end(out);
    }
    table_end(out);
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
        table_row(out, named ? f->dir : NULL);
        for (size_t k = 0; k < sizeof members / sizeof *members; k++)
            table_value(out, json_object_get(line, members[k]));
        table_row_end(out);
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
    table_begin(out, "Answers");
    if (n > 1)
        table_head(out, "run");
    table_head(out, "step");
    table_head(out, "prompt");
    table_head(out, "expected");
    table_head(out, "answer");
    table_body(out);
    for (size_t i = 0; i < n; i++)
        put_answers(&runs[i], n > 1, out);
    table_end(out);
}

/* ---- options ---- */

/* Whether they are written alike: a number that is whole comes out of a file as an integer, and of the options as a real. */
static bool is_same(const json_t *a, const json_t *b, struct str *out)
{
    struct str x = {0}, y = {0};
    options_json_value(a, &x);
    options_json_value(b, &y);
    bool same = !strcmp(str_text(&x), str_text(&y));
    out->failed |= x.failed || y.failed;
    str_free(&x);
    str_free(&y);
    return same;
}

/* Of one run what is not as by default; of several what they do not all have alike, but for the folder that they write. */
static bool is_shown(const struct facts *runs, size_t n, const json_t *defaults, const char *name, struct str *out)
{
    const json_t *value = json_object_get(runs[0].options, name), *usual = json_object_get(defaults, name);
    if (!strcmp(name, "snug_version") || (n > 1 && !strcmp(name, "output_dir")))
        return false;
    if (n == 1)
        return !(json_is_null(value) && (!usual || json_is_false(usual))) && !(usual && is_same(value, usual, out));
    for (size_t i = 1; i < n; i++)
        if (!json_equal(value, json_object_get(runs[i].options, name)))
            return true;
    return false;
}

static void put_options(const struct facts *runs, size_t n, const json_t *defaults, struct str *out)
{
    const char *name;
    json_t *v;
    table_begin(out, n == 1 ? "Options" : "Options that differ");
    table_head(out, "option");
    for (size_t i = 0; i < n; i++)
        table_head(out, n == 1 ? "value" : runs[i].dir);
    if (n == 1)
        table_head(out, "by default");
    table_body(out);
    json_object_foreach(runs[0].options, name, v) if (is_shown(runs, n, defaults, name, out))
    {
        table_row(out, name);
        for (size_t i = 0; i < n; i++)
            table_value(out, json_object_get(runs[i].options, name));
        if (n == 1)
            table_value(out, json_object_get(defaults, name));
        table_row_end(out);
    }
    table_end(out);
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
