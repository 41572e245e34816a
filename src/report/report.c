#include "report/report.h"

#include "base/out_file.h"
#include "report/page.h"

#include <string.h>

enum { HEAD = 256 };

int report_page(const struct io *io, const char *const *dirs, size_t n, struct str *out, struct snug_err *err)
{
    struct facts runs[REPORT_RUNS] = {0};
    int code = SNUG_OK;
    for (size_t i = 0; i < n && !code; i++)
        code = facts_read(io, dirs[i], &runs[i], err);
    if (!code) {
        page_begin(runs, n, out);
        code = page_curves(runs, n, out, err);
    }
    if (!code) {
        page_evaluations(runs, n, out);
        if (n == 1)
            page_classes(runs, out), page_mistakes(runs, out);
        page_samples(runs, n, out);
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
    char head[HEAD + 1] = {0};
    int fd;
    int64_t size;
    if (io_open_read(io, path, &fd, &size, NULL))
        return false;
    int code = io_read_at(io, fd, path, head, size < HEAD ? (size_t)size : HEAD, 0, NULL);
    io->close(io, fd);
    return !code && strstr(head, "<meta name=\"generator\" content=\"snug\"/>");
}

int report_write(const struct io *io, const char *const *dirs, size_t n, const char *path, const char *tmp,
                 struct snug_err *err)
{
    struct str text = {0};
    struct out_file f = {0};
    struct stat st;
    int code = report_page(io, dirs, n, &text, err);
    bool is_there = !io->lstat(io, path, &st) && S_ISREG(st.st_mode);
    if (!code && is_there && !is_ours(io, path))
        code = err_set(err, SNUG_ERR_USAGE,
                       "%s: is there already and is no report of snug; rename it, or name another file with --output",
                       path);
    if (!code)
        code = out_file_open_as(io, path, tmp, is_there, &f, err);
    if (!code)
        code = out_file_write(&f, str_text(&text), text.n, err);
    if (!code)
        code = out_file_publish(&f, err);
    out_file_drop(&f);
    str_free(&text);
    return code;
}
