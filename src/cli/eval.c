/* snug eval: metrics of a model on labelled data. */
#include "cli/commands.h"
#include "cli/screen.h"
#include "train/evaluate.h"
#include "train/log.h"

struct lines {
    bool json;
    struct str out;
};

static void add(void *ctx, const char *name, double value)
{
    struct lines *l = ctx;
    if (l->json)
        log_number(&l->out, name, value);
    else
        str_printf(&l->out, "%-20s %.6g\n", name, value);
}

int run_eval(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct session s;
    struct screen screen;
    struct stop_flag stop = {0};
    struct metrics m = {0};
    struct lines l = {.json = o->json};
    double seconds = 0;
    (void)args;
    screen_open(&screen);
    TRY(signals_install(&stop, err));
    int code = session_open(&s, &io_posix, o, screen_notes(&screen), &stop, err);
    if (!code)
        code = session_load(&s, err);
    if (!code)
        code = evaluate_metrics(&s, &m, err);
    if (!code)
        code = evaluate(&s, &m, NULL, &seconds, err);
    if (!code) {
        str_append(&l.out, l.json ? "{" : "");
        metrics_report(&m, add, &l);
        add(&l, "rows", (double)s.data.n_rows);
        add(&l, "seconds", seconds);
        add(&l, "samples_per_second", (double)s.data.n_rows / seconds);
        printf("%s%s", str_text(&l.out), l.json ? "}\n" : "");
    }
    str_free(&l.out);
    metrics_close(&m);
    session_close(&s);
    signals_restore();
    return code;
}
