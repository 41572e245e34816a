/* A long line keeps its extremes, a short one all of its points; the numbers of a chart are those that it was given. */
#include "report/chart.h"

#include "../cli/xml.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void thinning_keeps_extremes(void **state)
{
    enum { N = 100000, MOST = 200 };
    (void)state;
    double *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
    size_t keep[MOST];
    assert_true(x && y);
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)i;
        y[i] = sin((double)i / 700);
    }
    y[77777] = 50;
    y[33333] = -60;
    struct series s = {.name = "s", .x = x, .y = y, .n = N};
    size_t n = chart_thin(&s, MOST, keep), high = 0, low = 0;
    assert_in_range(n, MOST / 2, MOST);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || keep[i] > keep[i - 1]);
        high += keep[i] == 77777;
        low += keep[i] == 33333;
    }
    assert_int_equal(keep[0], 0);
    assert_int_equal(keep[n - 1], N - 1);
    assert_int_equal(high, 1);
    assert_int_equal(low, 1);
    s.n = MOST;
    assert_int_equal(chart_thin(&s, MOST, keep), MOST);
    s.n = MOST + 1; /* one too many */
    n = chart_thin(&s, MOST, keep);
    assert_true(n <= MOST && keep[n - 1] == MOST);
    free(x);
    free(y);
}

static void check_chart(const double *x, const double *y, size_t n, enum chart_unit unit, const char *expected)
{
    struct str out = {0};
    struct chart c = {.title = "a <b>", .x_title = "step", .unit = unit, .series = {{"s \"&\"", x, y, n, 0}}, .n = 1};
    chart_put(&c, &out);
    const char *complaint = xml_complaint(str_text(&out), out.n);
    if (complaint)
        fail_msg("%s", complaint);
    if (!strstr(str_text(&out), expected))
        fail_msg("no %s in %s", expected, str_text(&out));
    assert_null(strstr(str_text(&out), "nan"));
    assert_null(strstr(str_text(&out), "inf"));
    assert_null(strstr(str_text(&out), "<b>"));
    str_free(&out);
}

static void odd_lines_are_drawn(void **state)
{
    (void)state;
    check_chart((double[]){1, 2, 4}, (double[]){0.5, -2, 3}, 3, CHART_NUMBER, "lowest -2 at 2, highest 3 at 4");
    check_chart((double[]){7}, (double[]){0.125}, 1, CHART_NUMBER, "step 7: 0.125</title>");  /* a point */
    check_chart((double[]){1, 2}, (double[]){0, 0}, 2, CHART_PERCENT, "step 2: 0 %</title>"); /* no range at all */
    check_chart((double[]){1, 2}, (double[]){3, 3}, 2, CHART_NUMBER, "step 2: 3</title>");
    check_chart((double[]){1, 2}, (double[]){0.25, 1}, 2, CHART_PERCENT, "step 1: 25 %</title>");
    check_chart((double[]){1, 2}, (double[]){1024, 3 * 1048576}, 2, CHART_BYTES, "step 2: 3.00 MiB</title>");
    check_chart((double[]){1, 2}, (double[]){1e300, -1e300}, 2, CHART_NUMBER, "step 1: 1e+300</title>");
    check_chart((double[]){1, 2}, (double[]){1e-300, 2e-300}, 2, CHART_NUMBER, "step 2: 2e-300</title>");
    check_chart((double[]){1, 2}, (double[]){1, 1 + 1e-12}, 2, CHART_NUMBER, "step 2: 1</title>");
}

/* What a tick says is not what the one below it says, however little the values differ. */
static void check_ticks(double low, double high, enum chart_unit unit, const char *lowest)
{
    struct str out = {0};
    struct chart c = {.title = "c",
                      .x_title = "step",
                      .unit = unit,
                      .series = {{"s", (double[]){1, 2}, (double[]){low, high}, 2, 0}},
                      .n = 1};
    static const char before[] = "class=\"end\">";
    char last[64] = "";
    int ticks = 0;
    chart_put(&c, &out);
    /* Those of the other axis come behind, and have no line across the chart in front of them. */
    for (const char *at = str_text(&out); (at = strstr(at, "H390\"/><text")) && (at = strstr(at, before)); ticks++) {
        char text[64];
        at += sizeof before - 1;
        assert_int_equal(sscanf(at, "%63[^<]", text), 1);
        assert_string_not_equal(text, last);
        if (!ticks)
            assert_string_equal(text, lowest);
        memcpy(last, text, sizeof last);
    }
    assert_in_range(ticks, 2, 7);
    str_free(&out);
}

static void ticks_differ(void **state)
{
    (void)state;
    check_ticks(341 * 1048576.0, 341 * 1048576.0 + 98304, CHART_BYTES, "340 MiB");
    check_ticks(1e9, 1e9 + 1000, CHART_BYTES, "944 MiB");
    check_ticks(0.5, 0.5 + 1e-7, CHART_PERCENT, "50 %");
    check_ticks(1234567, 1234567.5, CHART_NUMBER, "1.23456e+06");
    check_ticks(0, 200 * 1048576.0, CHART_BYTES, "0 B");
}

/* A rate's axis has powers of ten at equal distances; a mark stands at its place among them. */
static void a_picture_stands_by_itself(void **state)
{
    (void)state;
    struct str out = {0};
    struct chart c = {.title = "a <b>",
                      .x_title = "rate",
                      .log_x = true,
                      .mark_text = "here & now",
                      .mark = 1e-2,
                      .series = {{"s", (double[]){1e-4, 1e-3, 1}, (double[]){3, 1, 2}, 3, 0}},
                      .n = 1};
    chart_picture(&c, &out);
    const char *text = str_text(&out), *complaint = xml_complaint(text, out.n);
    if (complaint)
        fail_msg("%s", complaint);
    const char *lines[] = {"xmlns=\"http://www.w3.org/2000/svg\"",
                           ">a &lt;b&gt;</text>",
                           ">here &amp; now</text>",
                           "M62.0 ",
                           "L144.0 ",
                           "L390.0 ",
                           "class=\"mark\" d=\"M226.0 ",
                           "<title>s, rate 0.001: 1<"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no %s in %s", lines[i], text);
    assert_null(strstr(text, "var(--s"));
    str_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thinning_keeps_extremes), cmocka_unit_test(odd_lines_are_drawn),
                                       cmocka_unit_test(ticks_differ), cmocka_unit_test(a_picture_stands_by_itself)};
    return cmocka_run_group_tests_name("chart", tests, NULL, NULL);
}
