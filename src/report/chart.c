#include "report/chart.h"

#include "base/mem.h"
#include "base/size.h"
#include "output/own_file.h"

#include <math.h>
#include <stdio.h>

/* Of the picture, in its own units; the page scales it. */
enum {
    WIDTH = 400,
    HEIGHT = 220,
    LEFT = 62,
    RIGHT = 390,
    TOP = 12,
    BOTTOM = 180,
    TICKS = 5,
    TABLE_ROWS = 60,
    HITS = 300
};

/* An axis from low to high, with a tick at each multiple of step; where it is logarithmic, these are logarithms to base 10. */
struct axis {
    double low, high, step;
};

struct drawing {
    const struct chart *chart;
    struct str *out;
    struct axis x, y;
    size_t most;  /* points of a series */
    size_t *keep; /* (most) */
};

/* ---- thinning ---- */

/* The lowest and the highest of points first <= i < end, in their order. */
static size_t keep_extremes(const struct series *s, size_t first, size_t end, size_t *keep)
{
    size_t low = first, high = first;
    for (size_t i = first; i < end; i++) {
        low = s->y[i] < s->y[low] ? i : low;
        high = s->y[i] > s->y[high] ? i : high;
    }
    keep[0] = low < high ? low : high;
    keep[1] = low < high ? high : low;
    return low == high ? 1 : 2;
}

size_t chart_thin(const struct series *s, size_t most, size_t *keep)
{
    size_t n = 0;
    if (s->n <= most) {
        for (; n < s->n; n++)
            keep[n] = n;
        return n;
    }
    size_t inner = s->n - 2, stretches = (most - 2) / 2;
    keep[n++] = 0;
    for (size_t k = 0; k < stretches; k++)
        n += keep_extremes(s, 1 + k * inner / stretches, 1 + (k + 1) * inner / stretches, keep + n);
    keep[n++] = s->n - 1;
    return n;
}

/* ---- axes ---- */

/* The least of 1, 2 and 5 times a power of ten (of bytes: a power of two) that makes at most TICKS steps of `range`. */
static double nice_step(double range, enum chart_unit unit)
{
    double least = range / TICKS;
    if (unit == CHART_BYTES)
        return exp2(ceil(log2(least)));
    double power = pow(10, floor(log10(least))), share = least / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

/* Ticks of one axis are at least so far apart, as a share of the largest, since chart_number writes them with so many digits. */
static double least_step(enum chart_unit unit)
{
    return unit == CHART_BYTES ? 1e-2 : unit == CHART_PERCENT ? 1e-3 : 1e-5;
}

static struct axis axis_of(double low, double high, enum chart_unit unit)
{
    double range = high - low, size = fmax(fabs(low), fabs(high));
    if (!(range > 1e-9 * size)) { /* a line without a slope lies in the middle */
        range = size > 0 ? size : 1;
        low -= range / 2;
        high += range / 2;
    }
    struct axis a = {.step = nice_step(fmax(range, TICKS * least_step(unit) * size), unit)};
    a.low = floor(low / a.step) * a.step;
    a.high = ceil(high / a.step) * a.step;
    return a;
}

static double along(const struct drawing *d, double x)
{
    return d->chart->log_x ? log10(x) : x;
}

static void find_axes(struct drawing *d)
{
    double x[2] = {INFINITY, -INFINITY}, y[2] = {INFINITY, -INFINITY};
    for (size_t k = 0; k < d->chart->n; k++)
        for (size_t i = 0; i < d->chart->series[k].n; i++) {
            const struct series *s = &d->chart->series[k];
            x[0] = fmin(x[0], along(d, s->x[i])), x[1] = fmax(x[1], along(d, s->x[i]));
            y[0] = fmin(y[0], s->y[i]), y[1] = fmax(y[1], s->y[i]);
        }
    d->x = axis_of(x[0], x[1], CHART_NUMBER);
    d->x.low = fmin(x[0], x[1] > x[0] ? x[0] : d->x.low);
    d->x.high = x[1] > x[0] ? x[1] : d->x.high;
    if (d->chart->log_x)
        d->x.step = fmax(d->x.step, 1);
    d->y = axis_of(y[0], y[1], d->chart->unit);
}

static double x_of(const struct drawing *d, double x)
{
    return LEFT + (RIGHT - LEFT) * ((along(d, x) - d->x.low) / (d->x.high - d->x.low));
}

static double y_of(const struct drawing *d, double y)
{
    return BOTTOM - (BOTTOM - TOP) * ((y - d->y.low) / (d->y.high - d->y.low));
}

void chart_number(struct str *out, enum chart_unit unit, double value)
{
    char size[SIZE_TEXT_MAX];
    if (unit == CHART_BYTES && fabs(value) < 9e18)
        str_append(out, size_text((int64_t)value, size));
    else if (unit == CHART_PERCENT)
        str_printf(out, "%.4g %%", 100 * value);
    else
        str_printf(out, "%.6g", value);
}

/* A tick's number has no digits of rounding: 0.30000000000000004 is 0.3, and 1e-19 is 0. */
static double tick(const struct axis *a, int i)
{
    return (ceil(a->low / a->step - 1e-9) + i) * a->step + 0.0; /* -0 becomes 0 */
}

static void put_axes(const struct drawing *d)
{
    struct str *out = d->out;
    for (int i = 0; tick(&d->y, i) <= d->y.high + d->y.step * 1e-6; i++) {
        double y = y_of(d, tick(&d->y, i));
        str_printf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" class=\"end\">", LEFT, y,
                   RIGHT, LEFT - 6, y + 4);
        chart_number(out, d->chart->unit, tick(&d->y, i));
        str_append(out, "</text>\n");
    }
    for (int i = 0; tick(&d->x, i) <= d->x.high + d->x.step * 1e-6; i++) {
        double at = d->chart->log_x ? pow(10, tick(&d->x, i)) : tick(&d->x, i), x = x_of(d, at);
        str_printf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" class=\"%s\">", x, BOTTOM,
                   BOTTOM + 4, x, BOTTOM + 17, x > RIGHT - 12 ? "end" : "mid");
        chart_number(out, CHART_NUMBER, at);
        str_append(out, "</text>\n");
    }
    str_printf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/><text x=\"%d\" y=\"%d\" class=\"mid quiet\">", LEFT, TOP,
               BOTTOM, RIGHT, (LEFT + RIGHT) / 2, HEIGHT - 6);
    str_xml(out, d->chart->x_title);
    str_append(out, "</text>\n");
}

/* ---- the lines ---- */

static void put_hit(const struct drawing *d, const struct series *s, size_t i)
{
    str_printf(d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"hit\"><title>", x_of(d, s->x[i]),
               y_of(d, s->y[i]));
    str_xml(d->out, s->name);
    str_printf(d->out, ", %s %.6g: ", d->chart->x_title, s->x[i]);
    chart_number(d->out, d->chart->unit, s->y[i]);
    str_append(d->out, "</title></circle>\n");
}

/* Places to point at are fewer than points: no mouse finds a hundredth of a line. */
static void put_series(const struct drawing *d, size_t k)
{
    const struct series *s = &d->chart->series[k];
    size_t n = chart_thin(s, d->most, d->keep), hits = HITS / d->chart->n;
    str_printf(d->out, "<g class=\"s%zu\"><path class=\"line\" d=\"", s->colour);
    for (size_t i = 0; i < n; i++)
        str_printf(d->out, "%c%.1f %.1f", i ? 'L' : 'M', x_of(d, s->x[d->keep[i]]), y_of(d, s->y[d->keep[i]]));
    str_append(d->out, "\"/>\n");
    if (s->n == 1)
        str_printf(d->out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", x_of(d, s->x[0]),
                   y_of(d, s->y[0]));
    n = chart_thin(s, hits, d->keep);
    for (size_t i = 0; i < n; i++)
        put_hit(d, s, d->keep[i]);
    str_append(d->out, "</g>\n");
}

/* What the picture shows, for who hears it. */
static void put_words(const struct drawing *d)
{
    const struct chart *c = d->chart;
    str_xml(d->out, c->title);
    str_append(d->out, " over ");
    str_xml(d->out, c->x_title);
    for (size_t k = 0; k < c->n; k++) {
        const struct series *s = &c->series[k];
        size_t low = 0, high = 0;
        for (size_t i = 0; i < s->n; i++) {
            low = s->y[i] < s->y[low] ? i : low;
            high = s->y[i] > s->y[high] ? i : high;
        }
        str_append(d->out, k ? "; " : ": ");
        str_xml(d->out, s->name);
        str_append(d->out, " goes from ");
        chart_number(d->out, c->unit, s->y[0]);
        str_append(d->out, " to ");
        chart_number(d->out, c->unit, s->y[s->n - 1]);
        str_append(d->out, ", lowest ");
        chart_number(d->out, c->unit, s->y[low]);
        str_printf(d->out, " at %.6g, highest ", s->x[low]);
        chart_number(d->out, c->unit, s->y[high]);
        str_printf(d->out, " at %.6g", s->x[high]);
    }
}

static void put_legend(const struct drawing *d)
{
    str_append(d->out, "<p class=\"legend\">");
    for (size_t k = 0; k < d->chart->n; k++) {
        str_printf(d->out,
                   "<span><svg class=\"s%zu\" width=\"22\" height=\"8\" aria-hidden=\"true\">"
                   "<path class=\"line\" d=\"M0 4H22\"/></svg> ",
                   d->chart->series[k].colour);
        str_xml(d->out, d->chart->series[k].name);
        str_append(d->out, "</span> ");
    }
    str_append(d->out, "</p>\n");
}

static void put_table(const struct drawing *d)
{
    const struct chart *c = d->chart;
    str_append(d->out,
               "<details><summary>Values</summary><div class=\"wide\"><table><thead><tr><th scope=\"col\">series</th>"
               "<th scope=\"col\">");
    str_xml(d->out, c->x_title);
    str_append(d->out, "</th><th scope=\"col\">");
    str_xml(d->out, c->title);
    str_append(d->out, "</th></tr></thead><tbody>\n");
    for (size_t k = 0; k < c->n; k++) {
        const struct series *s = &c->series[k];
        size_t n = chart_thin(s, TABLE_ROWS, d->keep);
        for (size_t i = 0; i < n; i++) {
            str_append(d->out, "<tr><td>");
            str_xml(d->out, s->name);
            str_printf(d->out, "</td><td class=\"n\">%.6g</td><td class=\"n\">", s->x[d->keep[i]]);
            chart_number(d->out, c->unit, s->y[d->keep[i]]);
            str_append(d->out, "</td></tr>\n");
        }
    }
    str_append(d->out, "</tbody></table></div></details>\n");
}

/* On the side of its line that has more room. */
static void put_mark(const struct drawing *d)
{
    if (!d->chart->mark_text)
        return;
    double x = x_of(d, d->chart->mark);
    bool left = x > (LEFT + RIGHT) / 2.0;
    str_printf(d->out, "<path class=\"mark\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\"%s>", x, TOP, BOTTOM,
               left ? x - 5 : x + 5, TOP + 10, left ? " class=\"end\"" : "");
    str_xml(d->out, d->chart->mark_text);
    str_append(d->out, "</text>\n");
}

/* The axes and what lies within them. */
static void put_inside(struct drawing *d)
{
    put_axes(d);
    for (size_t k = 0; k < d->chart->n; k++)
        put_series(d, k);
    put_mark(d);
}

static bool begin_drawing(struct drawing *d)
{
    d->most = CHART_POINTS / (d->chart->n ? d->chart->n : 1);
    d->keep = mem_alloc(d->most * sizeof *d->keep);
    d->out->failed |= !d->keep;
    if (d->keep)
        find_axes(d);
    return d->keep;
}

void chart_put(const struct chart *c, struct str *out)
{
    struct drawing d = {.chart = c, .out = out};
    if (!begin_drawing(&d))
        return;
    str_append(out, "<figure><figcaption>");
    str_xml(out, c->title);
    str_printf(out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    put_words(&d);
    str_append(out, "\">\n");
    put_inside(&d);
    str_append(out, "</svg>\n");
    if (c->n > 1)
        put_legend(&d);
    put_table(&d);
    str_append(out, "</figure>\n");
    mem_free(d.keep);
}

/* ---- a picture by itself ---- */

enum { HEADING = 44, SCALE = 2, BETWEEN_NAMES = 130 };

static const char picture_styles[] =
    "<style>\n"
    "svg{color-scheme:light dark;--c:#2f64ad}\n"
    "text{font:12px system-ui,sans-serif;fill:#1f2430}.title{font-size:14px;font-weight:600}.quiet{fill:#5b6472}\n"
    ".paper{fill:#fff}.end{text-anchor:end}.mid{text-anchor:middle}.grid{stroke:#d5d9df;fill:none}\n"
    ".axis{stroke:#5b6472;fill:none}.mark{stroke:#1f2430;fill:none;stroke-dasharray:3 3}\n"
    ".line{fill:none;stroke:var(--c);stroke-width:1.6;stroke-linejoin:round}.dot,.hit{fill:var(--c)}\n"
    ".hit{fill-opacity:0}.hit:hover{fill-opacity:1}.s1{--c:#b0541c}.s2{--c:#1f7a5c}.s3{--c:#8a3fa0}\n"
    "@media (prefers-color-scheme:dark){svg{--c:#7fb0f0}text{fill:#e6e9ef}.quiet{fill:#a3acba}.paper{fill:#14171d}\n"
    ".grid{stroke:#3a414d}.axis{stroke:#a3acba}.mark{stroke:#e6e9ef}.s1{--c:#f0a36b}.s2{--c:#5fcfa4}.s3{--c:#d49be6}}"
    "\n</style>\n";

void chart_picture(const struct chart *c, struct str *out)
{
    struct drawing d = {.chart = c, .out = out};
    if (!begin_drawing(&d))
        return;
    str_printf(out,
               OWN_PICTURE " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 %d %d %d\" "
                           "role=\"img\" aria-label=\"",
               SCALE * WIDTH, SCALE * (HEIGHT + HEADING), -HEADING, WIDTH, HEIGHT + HEADING);
    put_words(&d);
    str_append(out, "\">\n");
    str_append(out, picture_styles);
    str_printf(out, "<rect class=\"paper\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", -HEADING, WIDTH, HEIGHT + HEADING);
    str_printf(out, "<text class=\"title\" x=\"10\" y=\"%d\">", 18 - HEADING);
    str_xml(out, c->title);
    str_append(out, "</text>\n");
    for (size_t k = 0; k < c->n; k++) {
        double x = LEFT + (double)k * BETWEEN_NAMES;
        str_printf(out, "<path class=\"line s%zu\" d=\"M%.1f %dh22\"/><text class=\"quiet\" x=\"%.1f\" y=\"%d\">",
                   c->series[k].colour, x, 34 - HEADING, x + 28, 38 - HEADING);
        str_xml(out, c->series[k].name);
        str_append(out, "</text>\n");
    }
    put_inside(&d);
    str_append(out, "</svg>\n");
    mem_free(d.keep);
}
