/* snug eval: metrics of a model on labelled data. */
#include "base/str.h"
#include "cli/commands.h"
#include "cli/screen.h"

#include <math.h>

struct lines {
    bool json;
    struct str out;
};

static void add(void *ctx, const char *name, double value)
{
    struct lines *l = ctx;
    if (!l->json)
        str_printf(&l->out, "%-20s %.6g\n", name, value);
    else
        str_printf(&l->out, isfinite(value) ? "%s\"%s\": %.10g" : "%s\"%s\": null", l->out.n ? ", " : "", name, value);
}

int run_eval(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {0};
    struct lines l = {.json = o->json};
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code)
        code = snug_evaluate(c.session, add, &l, err);
    if (!code)
        code = str_check(&l.out, err);
    if (!code)
        printf(l.json ? "{%s}\n" : "%s", str_text(&l.out));
    str_free(&l.out);
    return cli_close(&c, code);
}
