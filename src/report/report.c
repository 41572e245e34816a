#include "report/report.h"

#include "output/own_file.h"
#include "report/page.h"

int report_page(const struct io *io, const char *const *dirs, size_t n, const char *standing, struct str *out,
                struct snug_err *err)
{
    struct facts runs[REPORT_RUNS] = {0};
    int code = SNUG_OK;
    for (size_t i = 0; i < n && !code; i++)
        code = facts_read(io, dirs[i], &runs[i], err);
    if (!code) {
        page_begin(runs, n, standing, out);
        code = page_curves(runs, n, out, err);
    }
    if (!code) {
        page_evaluations(runs, n, out);
        if (n == 1)
            page_classes(runs, out), page_mistakes(runs, out);
        page_samples(runs, n, out);
        if (n == 1)
            page_ops(runs, out);
        code = page_options(runs, n, out, err);
    }
    if (!code) {
        if (n == 1)
            page_environment(runs, out);
        page_end(runs, n, out);
        code = str_check(out, err);
    }
    for (size_t i = 0; i < n; i++)
        facts_free(&runs[i]);
    return code;
}

/* By the mark at its beginning, which page_begin puts there. */
static bool is_ours(const struct io *io, const char *path)
{
    return own_file_has_mark(io, path, "<meta name=\"generator\" content=\"snug\"/>");
}

int report_write(const struct io *io, const char *const *dirs, size_t n, const char *path, const char *tmp,
                 struct snug_err *err)
{
    struct str text = {0};
    int code = report_page(io, dirs, n, NULL, &text, err);
    if (!code)
        code = own_file_write(io, path, tmp, is_ours,
                              "is no report of snug; rename it, or name another file with --output", &text, err);
    str_free(&text);
    return code;
}
