/* The frame of a page, its curves and its evaluations. */
#include "report/page.h"

#include "output/record.h"
#include "report/chart.h"

#include <string.h>

/* Contrast: text 4.5 to 1 at least, lines 3 to 1, on light and on dark paper (WCAG 2.1 AA). */
static const char styles[] =
    "<style>\n"
    ":root{color-scheme:light dark;--ink:#1f2430;--quiet:#5b6472;--paper:#fff;--edge:#d5d9df;"
    "--tint:47 100 173;--s0:#2f64ad;--s1:#b0541c;--s2:#1f7a5c;--s3:#8a3fa0}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--quiet:#a3acba;--paper:#14171d;--edge:#3a414d;"
    "--tint:127 176 240;--s0:#7fb0f0;--s1:#f0a36b;--s2:#5fcfa4;--s3:#d49be6}}\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:80rem;margin:0 "
    "auto;padding:1rem}\n"
    "h1,p{overflow-wrap:anywhere}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}\n"
    "figure{margin:0}figcaption{font-weight:600}.quiet,summary{color:var(--quiet)}\n"
    ".charts{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr))}\n"
    ".wide{overflow-x:auto;max-height:30rem}table{border-collapse:collapse;font-size:.9rem}\n"
    "th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid var(--edge);vertical-align:top}\n"
    ".cell{background:rgb(var(--tint)/var(--part))}thead th{max-width:9rem;overflow-wrap:break-word}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums}td.text,pre{white-space:pre-wrap;overflow-wrap:anywhere}\n"
    "td.text{min-width:15rem;max-width:30rem}svg{width:100%;height:auto;overflow:visible}.legend "
    "svg{width:22px;height:8px}\n"
    ".legend{font-size:.85rem;margin:0}.legend span{display:inline-block;margin-right:1rem;overflow-wrap:anywhere}\n"
    "svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg text.quiet{fill:var(--quiet)}\n"
    ".end{text-anchor:end}.mid{text-anchor:middle}.grid{stroke:var(--edge);fill:none}.axis{stroke:var(--quiet);fill:"
    "none}\n"
    ".line{fill:none;stroke:var(--c);stroke-width:1.6;stroke-linejoin:round}.dot{fill:var(--c)}\n"
    ".hit{fill:var(--c);fill-opacity:0}.hit:hover{fill-opacity:1}\n"
    ".s0,.s4{--c:var(--s0)}.s1,.s5{--c:var(--s1)}.s2,.s6{--c:var(--s2)}.s3,.s7{--c:var(--s3)}\n"
    ".s4,.s5,.s6,.s7{stroke-dasharray:5 3}\n"
    "</style>\n";

static void put_title(const struct facts *runs, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        str_append(out, i ? ", " : "");
        str_xml(out, runs[i].dir);
    }
}

static const char *option_text(const struct facts *f, const char *name)
{
    const char *text = json_string_value(json_object_get(f->options, name));
    return text ? text : "";
}

/* What the last line with a step says of the run in a sentence. */
static void put_summary(const struct facts *f, struct str *out)
{
    const json_t *last = json_array_get(f->log, json_array_size(f->log) - 1), *evaluation = facts_last_evaluation(f);
    const char *member;
    json_t *v;
    str_append(out, "<p>");
    if (*option_text(f, "model")) {
        str_append(out, "Model ");
        str_xml(out, option_text(f, "model"));
        str_append(out, ". ");
    }
    str_printf(out, "The log ends at step %lld, epoch %.4g.",
               (long long)json_integer_value(json_object_get(last, "step")),
               json_number_value(json_object_get(last, "epoch")));
    if (evaluation)
        str_printf(out,
                   " Evaluated after step %lld:", (long long)json_integer_value(json_object_get(evaluation, "step")));
    const char *between = " ";
    json_object_foreach((json_t *)(uintptr_t)evaluation, member, v) if (facts_metric(member) && json_is_number(v))
    {
        str_append(out, between);
        str_xml(out, facts_metric(member));
        str_printf(out, " %.6g", json_number_value(v));
        between = ", ";
    }
    str_append(out, evaluation ? ".</p>\n" : "</p>\n");
}

void page_begin(const struct facts *runs, size_t n, const char *standing, struct str *out)
{
    str_append(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                    "<meta name=\"generator\" content=\"snug\"/>\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>\n"
                    "<link rel=\"icon\" href=\"data:,\"/>\n<title>");
    put_title(runs, n, out);
    str_append(out, "</title>\n");
    str_append(out, styles);
    str_append(out, "</head>\n<body>\n<main>\n<h1>");
    put_title(runs, n, out);
    str_append(out, "</h1>\n");
    if (standing) {
        str_append(out, "<p><strong>");
        str_xml(out, standing);
        str_append(out, "</strong></p>\n");
    }
    if (n == 1)
        put_summary(runs, out);
}

/* ---- curves ---- */

struct curve {
    const char *title, *member;
    const char *second; /* another member in the same chart, or NULL */
    enum chart_unit unit;
};

/* With several runs a line is named after its run. */
static const char *series_name(const struct facts *f, size_t n, const struct curve *c, bool second)
{
    return n > 1 ? f->dir : second ? "evaluation" : c->second ? "training" : c->title;
}

/* Its points are the chart's own until it is drawn. */
static void drop_points(struct series *s)
{
    mem_free((void *)(uintptr_t)s->x);
    mem_free((void *)(uintptr_t)s->y);
    *s = (struct series){0};
}

static int add_series(const struct facts *runs, size_t n, size_t i, const struct curve *c, bool second,
                      struct chart *chart, struct snug_err *err)
{
    struct series *s = &chart->series[chart->n];
    double *x, *y;
    TRY(facts_points(&runs[i], second ? c->second : c->member, &x, &y, &s->n, err));
    s->x = x;
    s->y = y;
    if (!s->n) {
        drop_points(s);
        return SNUG_OK;
    }
    chart->n++;
    s->name = series_name(&runs[i], n, c, second);
    s->colour = n > 1 ? i : second;
    return SNUG_OK;
}

static int put_curve(const struct facts *runs, size_t n, const struct curve *c, struct str *out, struct snug_err *err)
{
    struct chart chart = {.title = c->title, .x_title = "step", .unit = c->unit};
    int code = SNUG_OK;
    for (size_t second = 0; second <= (c->second != NULL); second++)
        for (size_t i = 0; i < n && !code; i++)
            if (chart.n < CHART_SERIES)
                code = add_series(runs, n, i, c, second, &chart, err);
    if (!code && chart.n)
        chart_put(&chart, out);
    for (size_t k = 0; k < CHART_SERIES; k++)
        drop_points(&chart.series[k]);
    return code;
}

/* A chart for each metric that an evaluation of any run has, but for the loss, which is beside that of training. */
static int put_metrics(const struct facts *runs, size_t n, struct str *out, struct snug_err *err)
{
    json_t *done = json_object(), *v;
    const char *member;
    int code = done ? SNUG_OK : err_no_memory(err, 64);
    for (size_t i = 0; i < n; i++)
        json_object_foreach((json_t *)(uintptr_t)facts_last_evaluation(&runs[i]), member, v)
        {
            struct curve c = {.title = facts_metric(member), .member = member};
            if (code || !c.title || !strcmp(c.title, "loss") || json_object_get(done, member))
                continue;
            json_object_set_new(done, member, json_true());
            code = put_curve(runs, n, &c, out, err);
        }
    json_decref(done);
    return code;
}

int page_curves(const struct facts *runs, size_t n, struct str *out, struct snug_err *err)
{
    /* A run has one colour on the whole page: only where it is alone do two lines of it share a chart. */
    bool alone = n == 1;
    const struct curve curves[] = {{"loss", "loss", alone ? "eval_loss" : NULL, CHART_NUMBER},
                                   {"evaluation loss", alone ? "" : "eval_loss", NULL, CHART_NUMBER},
                                   {"learning rate", "learning_rate", NULL, CHART_NUMBER},
                                   {"gradient norm", "grad_norm", NULL, CHART_NUMBER},
                                   {"share of the busiest expert", "expert_share_max", NULL, CHART_PERCENT},
                                   {"share of the idlest expert", "expert_share_min", NULL, CHART_PERCENT}};
    static const struct curve machine[] = {{"samples per second", "samples_per_second", NULL, CHART_NUMBER},
                                           {"tokens per second", "tokens_per_second", NULL, CHART_NUMBER},
                                           {"time waited for data", "data_wait", NULL, CHART_PERCENT},
                                           {"memory in use", "memory", NULL, CHART_BYTES}};
    str_append(out, "<section>\n<h2>Learning</h2>\n<div class=\"charts\">\n");
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        TRY(put_curve(runs, n, &curves[i], out, err));
    TRY(put_metrics(runs, n, out, err));
    str_append(out, "</div>\n</section>\n<section>\n<h2>Speed and memory</h2>\n<div class=\"charts\">\n");
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
        TRY(put_curve(runs, n, &machine[i], out, err));
    if (n == 1)
        page_memory(runs, out);
    str_append(out, "</div>\n</section>\n");
    return SNUG_OK;
}

/* A file or folder of a command to copy: `dir`, or what `name` is in it. */
static void put_argument(const char *dir, const char *name, struct str *out)
{
    struct str path = {0}, word = {0};
    str_append(&path, dir);
    if (name)
        str_printf(&path, "/%s", name);
    record_word(&word, str_text(&path));
    str_xml(out, str_text(&word));
    out->failed |= path.failed || word.failed;
    str_free(&path);
    str_free(&word);
}

void page_end(const struct facts *runs, size_t n, struct str *out)
{
    const char *version = option_text(&runs[0], "snug_version");
    str_append(out, "<section>\n<h2>Once more</h2>\n");
    for (size_t i = 0; i < n; i++)
        if (json_object_size(runs[i].options)) {
            str_append(out, "<pre>snug train --config ");
            put_argument(runs[i].dir, RECORD_NAME, out);
            str_append(out, " --output-dir ANOTHER</pre>\n");
        }
    str_append(out, "<p class=\"quiet\">snug ");
    str_xml(out, *version ? version : SNUG_VERSION);
    str_append(out, n == 1 ? ". This page: snug report" : ". This page: snug compare");
    for (size_t i = 0; i < n; i++) {
        str_append(out, " ");
        put_argument(runs[i].dir, NULL, out);
    }
    str_append(out, "</p>\n</section>\n</main>\n</body>\n</html>\n");
}
