/* chart.h: a line chart as inline SVG: values on hover, a description and a table for who does not see it. Colours are the page's. */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CHART_SERIES = 8,   /* in one chart */
    CHART_POINTS = 1000 /* drawn, of all series together */
};

struct series {
    const char *name;    /* any text */
    const double *x, *y; /* (n) finite; x never falls */
    size_t n;
    size_t colour; /* of the page's, below CHART_SERIES */
};

/* How numbers of the y axis are written. */
enum chart_unit { CHART_NUMBER, CHART_PERCENT /* of a share from 0 to 1 */, CHART_BYTES };

struct chart {
    const char *title, *x_title;
    enum chart_unit unit;
    bool log_x; /* the x axis has the logarithm of x, which is above 0 */
    struct series series[CHART_SERIES];
    size_t n;
    const char *mark_text; /* beside a dotted line at x = mark; NULL: none */
    double mark;
};

/* Appends a <figure>. A long series is thinned: each stretch of it keeps its lowest and its highest point. */
void chart_put(const struct chart *c, struct str *out);

/* Appends a picture that stands by itself, a whole SVG file with the title and the names of the series in it. */
void chart_picture(const struct chart *c, struct str *out);

/* A number as the axis has it. */
void chart_number(struct str *out, enum chart_unit unit, double value);

/* The points of a series that are drawn, at most `most` (4 or more) of them: their indices, in order, with the first and the last
 * point, the lowest and the highest. Gives how many. `keep` has room for `most`. */
size_t chart_thin(const struct series *s, size_t most, size_t *keep);

#endif
