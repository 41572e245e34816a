/* snug eval: metrics of a model on labelled data: one object with --json, else tables that fit the terminal. */
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/screen.h"
#include "cli/terminal.h"

#include <unistd.h>

int run_eval(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {0};
    struct numbers all = {0};
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code)
        code = snug_evaluate(c.session, numbers_add, &all, err);
    if (!code && all.failed)
        code = err_no_memory(err, all.cap * sizeof *all.of);
    if (!code && !options_follows(o) && o->json)
        code = report_json(&all, c.session, err);
    else if (!code && !options_follows(o))
        code = report_text(&all, c.session, terminal_columns(STDOUT_FILENO), err);
    numbers_free(&all);
    return cli_close(&c, code);
}
