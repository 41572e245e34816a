/* bench.svg: for every row a bar of speed and a bar of memory, of which the planned arena is the dark part. Of ranks: the speed beside that
 * of as many single ones, and the share of it. */
#include "cli/bench/bench.h"

#include <stdio.h>

/* Pixels. Two panels stand side by side behind the labels. */
enum {
    LABELS = 350,
    PANEL = 270,
    GAP = 124,
    TOP = 76,
    ROW = 30,
    BAR = 18,
    LINE = 20,
    WIDTH = LABELS + 2 * (PANEL + GAP)
};

static const char *const styles =
    "<style>svg{color-scheme:light dark}text{font:13px "
    "system-ui,sans-serif;fill:#1f2430}.title{font-size:16px;font-weight:600}"
    ".head,.best{font-weight:600}.quiet{fill:#5b6472}.paper{fill:#fff}.speed{fill:#3b6fb6}.memory{fill:#b9c6d8}"
    ".planned{fill:#5a708f}\n@media "
    "(prefers-color-scheme:dark){text{fill:#e6e9ef}.quiet{fill:#a3acba}.paper{fill:#14171d}"
    ".speed{fill:#5b93dd}.memory{fill:#3c4a60}.planned{fill:#8fa8cc}}</style>\n";

static void put_text(struct str *out, double x, double y, const char *class, const char *text)
{
    str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    str_xml(out, text);
    str_append(out, "</text>\n");
}

static void put_bar(struct str *out, double x, double y, double width, const char *class)
{
    str_printf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" class=\"%s\"/>\n", x, y, width, BAR,
               class);
}

struct scale {
    double speed, memory; /* the largest of all rows */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* As many times the first row's speed as there are ranks; 0 in the other table. */
static double linear(const struct bench *b, const struct bench_result *r)
{
    return b->ranks > 1 ? r->ranks * b->results[0].samples_per_second : 0;
}

static struct scale find_scale(const struct bench *b)
{
    struct scale s = {0};
    for (size_t i = 0; i < b->n_results; i++) {
        const struct bench_result *r = &b->results[i];
        if (r->status != BENCH_MEASURED)
            continue;
        s.speed = larger(s.speed, larger(r->samples_per_second, linear(b, r)));
        s.memory = larger(s.memory, larger((double)r->memory_bytes, (double)r->arena_bytes));
    }
    return s;
}

static double share(double part, double whole)
{
    return whole > 0 ? PANEL * part / whole : 0;
}

/* The right panel: a bar, a dark one in it, and what is written behind them. */
struct pair {
    double outer, inner; /* pixels */
    char text[64];
    bool best;
};

static struct pair memory_pair(const struct bench *b, const struct bench_result *r, struct scale s)
{
    struct pair p = {.outer = share((double)r->memory_bytes, s.memory),
                     .inner = share((double)r->arena_bytes, s.memory),
                     .best = r == bench_smallest(b)};
    snprintf(p.text, sizeof p.text, "%.0f%s", (double)r->memory_bytes / 1e6, p.best ? " smallest" : "");
    return p;
}

/* Percents; a bar ends with its panel, as a plan may promise more than there is. */
static struct pair linear_pair(const struct bench *b, const struct bench_result *r)
{
    double reached = bench_of_linear(b, r), planned = bench_of_linear_planned(b, r);
    struct pair p = {.outer = share(planned < 1 ? planned : 1, 1), .inner = share(reached < 1 ? reached : 1, 1)};
    if (planned > 0 && r->ranks > 1)
        snprintf(p.text, sizeof p.text, "%.1f, plan %.1f", 100 * reached, 100 * planned);
    else
        snprintf(p.text, sizeof p.text, "%.1f", 100 * reached);
    return p;
}

static void put_result(const struct bench *b, const struct bench_result *r, struct scale s, double y, struct str *out)
{
    char text[160], setting[64];
    const double speed_x = LABELS, pair_x = LABELS + PANEL + GAP;
    bool fastest = b->ranks == 1 && r == bench_fastest(b);
    bench_setting(r, setting);
    snprintf(text, sizeof text, "%s (%s)", r->title, setting);
    put_text(out, 10, y + 14, "label", text);
    if (r->status != BENCH_MEASURED) {
        snprintf(text, sizeof text, "%s: %.100s", bench_status_names[r->status], r->reason);
        put_text(out, speed_x, y + 14, "quiet", text);
        return;
    }
    double speed = share(r->samples_per_second, s.speed), ideal = share(linear(b, r), s.speed);
    struct pair p = b->ranks > 1 ? linear_pair(b, r) : memory_pair(b, r, s);
    if (ideal > 0)
        put_bar(out, speed_x, y, ideal, "memory");
    put_bar(out, speed_x, y, speed, "speed");
    snprintf(text, sizeof text, "%.4g%s", r->samples_per_second, fastest ? " fastest" : "");
    put_text(out, speed_x + larger(speed, ideal) + 6, y + 14, fastest ? "best" : "value", text);
    put_bar(out, pair_x, y, p.outer, "memory");
    put_bar(out, pair_x, y, p.inner, "planned");
    put_text(out, pair_x + larger(p.outer, p.inner) + 6, y + 14, p.best ? "best" : "value", p.text);
}

void bench_svg(const struct bench *b, struct str *out)
{
    struct str title = {0};
    struct scale s = find_scale(b);
    int height = TOP + ROW * (int)b->n_results + 14 + LINE;
    str_printf(&title, "snug bench: %s, %lld tokens, %s", b->model_name, (long long)b->max_length,
               b->nvml ? b->gpu.name : b->cpu);
    str_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" width=\"%d\" "
               "height=\"%d\" "
               "viewBox=\"0 0 %d %d\">\n<title id=\"title\">",
               WIDTH, height, WIDTH, height);
    str_xml(out, str_text(&title));
    str_printf(out, "</title>\n<desc id=\"desc\">Samples per second and %s of each row, as bars.</desc>\n",
               b->ranks > 1 ? "share of linear" : "memory");
    str_append(out, styles);
    str_append(out, "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n");
    put_text(out, 10, 26, "title", str_text(&title));
    put_text(out, LABELS, TOP - 14, "head", b->ranks > 1 ? "samples/s (outer bar: linear)" : "samples/s");
    put_text(out, LABELS + PANEL + GAP, TOP - 14, "head",
             b->ranks > 1 ? "percent of linear (outer bar: as planned)" : "memory, MB (inner bar: as planned)");
    for (size_t i = 0; i < b->n_results; i++)
        put_result(b, &b->results[i], s, TOP + ROW * (double)i, out);
    put_text(out, 10, height - 12, "quiet",
             b->ranks > 1 ? "in brackets: precision, rows of a micro-batch x micro-batches of a step, for each"
                          : "in brackets: precision, rows of a micro-batch x micro-batches of a step; planned: the "
                            "arena, as snug plan tells it");
    str_append(out, "</svg>\n");
    out->failed |= title.failed;
    str_free(&title);
}
