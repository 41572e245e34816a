/* The picture of a plan: memory over the nodes of its programs, side by side, and a legend with the bytes at the peak. */
#include "base/size.h"
#include "plan/anatomy.h"
#include "plan/report.h"

#include <stdio.h>
#include <string.h>

/* Pixels: the plot on the left, the legend on the right of it. */
enum {
    LEFT = 76,
    RIGHT = 700,
    TOP = 84,
    BOTTOM = 424,
    LEGEND = 728,
    WIDTH = 1040,
    LINE = 20,
    BETWEEN = 8, /* programs */
    LEAST = 14,  /* width of a program */
    GROUPS = 12, /* of layers */
    SHARES = 6,  /* of what holds the most */
    LETTER = 7   /* about, of 13 pixels */
};

static const char *const styles =
    "<style>\n"
    "svg{color-scheme:light dark}\n"
    "text{font:13px system-ui,sans-serif;fill:#1f2430}.title{font-size:14px;font-weight:600}.head{font-weight:600}\n"
    ".quiet{fill:#5b6472}.right{text-anchor:end}.middle{text-anchor:middle}.paper{fill:#fff}\n"
    ".axis{stroke:#8a93a1;fill:none}.grid{stroke:#8a93a1;stroke-opacity:.25;fill:none}\n"
    ".peak{stroke:#1f2430;fill:none;stroke-dasharray:4 3}.dot{fill:#1f2430}\n"
    /* ORDER component */
    ".c0{fill:#3b6fb6}.c1{fill:#86b0e3}.c2{fill:#7a5ea8}.c3{fill:#c2703d}.c4{fill:#8b8f98}.c5{fill:#b5b8bf}\n"
    ".c6{fill:#2f9272}.c7{fill:#c9a227}.c8{fill:#b8485a}.none{visibility:hidden}.gap{fill:none;stroke:#8a93a1;stroke-"
    "dasharray:2 2}\n"
    "@media (prefers-color-scheme:dark){text{fill:#e6e9ef}.quiet{fill:#a3acba}.paper{fill:#14171d}\n"
    ".peak{stroke:#e6e9ef}.dot{fill:#e6e9ef}.c0{fill:#5b93dd}.c1{fill:#9cc3f2}.c2{fill:#a487d6}.c3{fill:#e0925c}\n"
    ".c6{fill:#45b78f}.c7{fill:#e3c14d}.c8{fill:#dd6b7e}}\n"
    "</style>\n";

struct picture {
    const struct plan *plan;
    struct str *out;
    double bytes_high; /* what the whole height is */
    struct anatomy peak;
    struct {
        double x, width;
    } programs[PLAN_MAX_PROGRAMS];
};

static double y_of(const struct picture *c, int64_t bytes)
{
    return BOTTOM - (BOTTOM - TOP) * (double)bytes / c->bytes_high;
}

static void put_text(struct str *out, double x, double y, const char *class, const char *text)
{
    str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    str_xml(out, text);
    str_append(out, "</text>\n");
}

/* ---- the plot ---- */

/* A program has a column for each two pixels, or for each node where these are fewer. What a column shows is the node of it that
 * holds the most. */
struct columns {
    int n;
    int *node; /* (n) */
    double x, width;
};

static int column_of(const struct columns *c, int node, int n_nodes)
{
    return (int)((int64_t)(node - 1) * c->n / (n_nodes - 1));
}

static bool columns_make(const struct timeline *t, double x, double width, struct columns *c)
{
    int nodes = t->n_nodes - 1;
    *c = (struct columns){.n = nodes < (int)width / 2 ? nodes : (int)width / 2, .x = x, .width = width};
    c->node = mem_alloc((size_t)(c->n + 1) * sizeof *c->node);
    for (int k = 1; c->node && k <= nodes; k++) {
        int *node = &c->node[column_of(c, k, t->n_nodes)];
        if (!*node || timeline_total(t, k) > timeline_total(t, *node))
            *node = k;
    }
    return c->node;
}

static double column_x(const struct columns *c, int i)
{
    return c->x + c->width * i / c->n;
}

/* The sum of the bands below `band` in a column. */
static int64_t below(const struct timeline *t, int node, int band)
{
    int64_t sum = 0;
    for (int b = 0; b < band; b++)
        sum += t->bands[(size_t)node * (size_t)t->n_bands + (size_t)b];
    return sum;
}

/* Along the lower edge of a band, from the left or from the right. */
static void put_edge(const struct picture *c, const struct timeline *t, const struct columns *cols, int band, bool back)
{
    double last = -1;
    for (int k = 0; k < cols->n; k++) {
        int i = back ? cols->n - 1 - k : k;
        double y = y_of(c, below(t, cols->node[i], band));
        if (k == 0)
            str_printf(c->out, back ? "L%.1f %.1f" : "M%.1f %.1f", column_x(cols, back ? cols->n : 0), y);
        else if (y != last)
            str_printf(c->out, "H%.1fV%.1f", column_x(cols, back ? i + 1 : i), y);
        last = y;
    }
    str_printf(c->out, "H%.1f", column_x(cols, back ? 0 : cols->n));
}

static bool is_empty(const struct timeline *t, const struct columns *cols, int band)
{
    for (int i = 0; i < cols->n; i++)
        if (t->bands[(size_t)cols->node[i] * (size_t)t->n_bands + (size_t)band])
            return false;
    return true;
}

static void put_bands(const struct picture *c, const struct timeline *t, const struct columns *cols)
{
    for (int b = 0; b < t->n_bands; b++) {
        int group = b - COMPONENT_ACTIVATIONS, component = group < 0           ? b
                                                           : group < t->groups ? COMPONENT_ACTIVATIONS
                                                                               : b - t->groups + 1;
        if (is_empty(t, cols, b))
            continue;
        str_printf(c->out, "<path class=\"c%d\"", component);
        if (component == COMPONENT_ACTIVATIONS && t->groups > 1)
            str_printf(c->out, " fill-opacity=\"%.2f\"", 0.4 + 0.6 * group / (t->groups - 1));
        str_append(c->out, " d=\"");
        put_edge(c, t, cols, b, false);
        put_edge(c, t, cols, b + 1, true);
        str_append(c->out, "Z\"/>\n");
    }
}

/* "forward", "backward" and what comes behind, below the axis, where there is room for the word. */
static void put_phases(const struct picture *c, const struct program *g, const struct columns *cols)
{
    const char *const words[] = {"forward", "backward", "updates"};
    int n = g->graph.n_nodes, first = 0, last = 0;
    for (int k = 1; k < n; k++)
        if (g->graph.nodes[k].backward) {
            first = first ? first : k;
            last = k;
        }
    if (!first)
        return;
    const int from[] = {1, first, last + 1, n};
    for (int i = 0; i < 3; i++) {
        double x = cols->x + cols->width * (from[i] - 1) / (n - 1);
        double width = cols->width * (from[i + 1] - from[i]) / (n - 1);
        if (i && from[i] < n)
            str_printf(c->out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", x, TOP, BOTTOM + 4);
        if (width > LETTER * (double)strlen(words[i]))
            put_text(c->out, x + width / 2, BOTTOM + 18, "quiet middle", words[i]);
    }
}

static void put_peak(const struct picture *c, const struct timeline *t, const struct columns *cols)
{
    const struct program *g = &c->plan->programs[c->plan->largest];
    const struct node *at = &g->graph.nodes[g->peak_node];
    int i = column_of(cols, g->peak_node, t->n_nodes);
    double x = (column_x(cols, i) + column_x(cols, i + 1)) / 2, y = y_of(c, c->peak.total);
    char text[160], size[SIZE_TEXT_MAX], layer[32];
    plan_layer_name(at->layer, t->n_layers, layer, sizeof layer);
    snprintf(text, sizeof text, "peak: %s at node %d, %s, %s", size_text(c->peak.total, size), g->peak_node,
             op_table[at->op].name, layer);
    str_printf(c->out,
               "<path class=\"peak\" d=\"M%.1f %dV%d\"/><circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", x,
               TOP - 16, BOTTOM, x, y);
    bool left = x > (double)(LEFT + RIGHT) / 2;
    put_text(c->out, x + (left ? -6 : 6), TOP - 8, left ? "head right" : "head", text);
}

static bool put_program(const struct picture *c, int k)
{
    const struct program *g = &c->plan->programs[k];
    struct timeline t;
    struct columns cols = {0};
    bool made =
        timeline_make(c->plan, k, GROUPS, &t) && columns_make(&t, c->programs[k].x, c->programs[k].width, &cols);
    if (made) {
        put_bands(c, &t, &cols);
        put_phases(c, g, &cols);
        if (k == c->plan->largest)
            put_peak(c, &t, &cols);
    }
    mem_free(cols.node);
    timeline_free(&t);
    return made;
}

/* A program without nodes has nothing to show. */
static bool is_shown(const struct plan *p, int k)
{
    return p->programs[k].graph.n_nodes > 1;
}

static void place_programs(struct picture *c)
{
    const struct plan *p = c->plan;
    double nodes = 0, shown = 0, x = LEFT;
    for (int k = 0; k < p->n_programs; k++)
        if (is_shown(p, k)) {
            nodes += p->programs[k].graph.n_nodes;
            shown++;
        }
    double room = RIGHT - LEFT - shown * LEAST - (shown - 1) * BETWEEN;
    for (int k = 0; k < p->n_programs; k++) {
        c->programs[k].x = x;
        c->programs[k].width = LEAST + room * p->programs[k].graph.n_nodes / nodes;
        x += is_shown(p, k) ? c->programs[k].width + BETWEEN : 0;
    }
}

/* The name of each program below it; a number, where it is too narrow for its name, with the names in a line below. */
static void put_names(const struct picture *c)
{
    const struct plan *p = c->plan;
    struct str key = {0};
    for (int k = 0, number = 0; k < p->n_programs; k++) {
        if (!is_shown(p, k))
            continue;
        char text[64];
        bool fits = c->programs[k].width > LETTER * (double)strlen(p->programs[k].name);
        snprintf(text, sizeof text, "%s", p->programs[k].name);
        if (!fits) {
            snprintf(text, sizeof text, "%d", ++number);
            str_printf(&key, "%s%d: %s", key.n ? ", " : "", number, p->programs[k].name);
        }
        put_text(c->out, c->programs[k].x + c->programs[k].width / 2, BOTTOM + 38, "middle", text);
    }
    if (key.n)
        put_text(c->out, LEFT, BOTTOM + 60, "quiet", str_text(&key));
    c->out->failed |= key.failed;
    str_free(&key);
}

static void put_axis(const struct picture *c)
{
    static const int64_t steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0, i = 0, most = 6;
    double size = 1;
    while (unit < 4 && c->bytes_high / size >= 1024) {
        size *= 1024;
        unit++;
    }
    while (i < 8 && c->bytes_high / size / (double)steps[i] > most)
        i++;
    for (int64_t at = 0; (double)at * size <= c->bytes_high; at += steps[i]) {
        char text[32];
        double y = y_of(c, (int64_t)((double)at * size));
        snprintf(text, sizeof text, "%lld %s", (long long)at, units[unit]);
        str_printf(c->out, "<path class=\"%s\" d=\"M%d %.1fH%d\"/>\n", at ? "grid" : "axis", LEFT, y, RIGHT);
        put_text(c->out, LEFT - 8, y + 4, "quiet right", text);
    }
}

/* ---- the legend ---- */

static double put_size(const struct picture *c, double y, const char *class, const char *name, int64_t bytes)
{
    char size[SIZE_TEXT_MAX];
    str_printf(c->out, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"12\" height=\"12\"/>\n", class, LEGEND, y - 11);
    put_text(c->out, LEGEND + 20, y, "", name);
    str_printf(c->out, "<text x=\"%d\" y=\"%.1f\" class=\"right\" data-name=\"%s\" data-bytes=\"%lld\">%s</text>\n",
               WIDTH - 20, y, name, (long long)bytes, size_text(bytes, size));
    return y + LINE;
}

static double put_legend(const struct picture *c)
{
    const struct plan *p = c->plan;
    double y = TOP;
    put_text(c->out, LEGEND, y - 24, "head", "at the peak");
    for (int i = COMPONENT_COUNT - 1; i >= 0; i--) { /* as they are stacked */
        char class[8];
        snprintf(class, sizeof class, "c%d", i);
        if (c->peak.by_component[i])
            y = put_size(c, y, class, component_names[i], c->peak.by_component[i]);
        if (c->peak.by_component[i] && i == COMPONENT_ACTIVATIONS) {
            put_text(c->out, LEGEND + 20, y - 3, "quiet", "faint: first layers, full: last");
            y += LINE;
        }
    }
    if (p->arena_bytes > c->peak.total)
        y = put_size(c, y, "gap", "gap of the packing", p->arena_bytes - c->peak.total);
    str_printf(c->out, "<path class=\"peak\" d=\"M%d %.1fH%d\"/>\n", LEGEND, y - 5, LEGEND + 12);
    return put_size(c, y, "gap none", "arena", p->arena_bytes);
}

static double put_largest(const struct picture *c, double y)
{
    struct shares s;
    plan_shares(c->plan, c->plan->largest, c->plan->programs[c->plan->largest].peak_node, &s);
    put_text(c->out, LEGEND, y, "head", "what holds the most");
    for (size_t i = 0; i < s.n && i < SHARES; i++) {
        char text[96], size[SIZE_TEXT_MAX];
        snprintf(text, sizeof text, s.of[i].n > 1 ? "%s (%d)" : "%s", s.of[i].maker, s.of[i].n);
        y += LINE;
        put_text(c->out, LEGEND, y, "", text);
        put_text(c->out, WIDTH - 20, y, "right", size_text(s.of[i].bytes, size));
    }
    c->out->failed |= s.failed;
    shares_free(&s);
    return y;
}

/* What a screen reader says. */
static void put_description(const struct picture *c, struct str *out)
{
    const struct plan *p = c->plan;
    char size[SIZE_TEXT_MAX];
    str_printf(
        out,
        "<desc id=\"desc\">Memory over the nodes of each program, stacked by what it is for. At the peak, node %d of "
        "program %s:",
        p->programs[p->largest].peak_node, p->programs[p->largest].name);
    for (int i = 0; i < COMPONENT_COUNT; i++)
        if (c->peak.by_component[i])
            str_printf(out, " %s %s,", component_names[i], size_text(c->peak.by_component[i], size));
    str_printf(out, " together %s", size_text(c->peak.total, size));
    str_printf(out, " of an arena of %s.</desc>\n", size_text(p->arena_bytes, size));
}

void plan_picture(const struct plan *p, const char *title, struct str *out)
{
    struct str body = {0};
    struct picture c = {.plan = p, .out = &body, .bytes_high = 1.04 * (double)p->arena_bytes};
    plan_anatomy(p, p->largest, p->programs[p->largest].peak_node, &c.peak, NULL, 0);
    place_programs(&c);
    put_axis(&c);
    for (int k = 0; k < p->n_programs; k++)
        if (is_shown(p, k))
            body.failed |= !put_program(&c, k);
    put_names(&c);
    str_printf(&body, "<path class=\"peak\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(&c, p->arena_bytes), RIGHT);
    double end = put_largest(&c, put_legend(&c) + 14);
    double height = end + 24 > BOTTOM + 76 ? end + 24 : BOTTOM + 76;
    str_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" width=\"%d\" "
               "height=\"%.0f\" "
               "viewBox=\"0 0 %d %.0f\">\n<title id=\"title\">",
               WIDTH, height, WIDTH, height);
    str_xml(out, title);
    str_append(out, "</title>\n");
    put_description(&c, out);
    str_append(out, styles);
    str_append(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
    put_text(out, 20, 32, "title", title);
    str_append(out, str_text(&body));
    str_append(out, "</svg>\n");
    out->failed |= body.failed;
    str_free(&body);
}
