/* snug report, snug compare. */
#include "cli/commands.h"
#include "report/report.h"

static int write_page(const struct arguments *args, const char *path, struct snug_err *err)
{
    TRY(report_write(&io_posix, args->items, args->n, path, NULL, err));
    struct str line = {0};
    str_append(&line, "report   ");
    str_escape(&line, path);
    puts(str_text(&line));
    str_free(&line);
    return SNUG_OK;
}

int run_report(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct str path = {0};
    str_append(&path, o->output ? o->output : args->items[0]);
    if (!o->output)
        str_append(&path, "/" REPORT_NAME);
    int code = str_check(&path, err);
    if (!code)
        code = write_page(args, str_text(&path), err);
    str_free(&path);
    return code;
}

int run_compare(struct options *o, const struct arguments *args, struct snug_err *err)
{
    return write_page(args, o->output ? o->output : "compare.html", err);
}
