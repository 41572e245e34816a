/* snug plan: what a run will allocate, before anything runs. */
#include "cli/screen.h"

#include "cli/commands.h"
#include "plan/report.h"

#include <string.h>

static double step_flops(const struct session *s)
{
    int k = s->run.where.step >= 0 ? s->run.where.step : s->run.where.first;
    return k < 0 ? 0 : run_flops(&s->run, k, s->run.plan.programs[k].max);
}

static int64_t count_weights(const struct session *s)
{
    struct run_value *w;
    size_t n;
    int64_t total = 0;
    if (run_list(&s->run, 1u << ROLE_WEIGHT, &w, &n, NULL))
        return 0;
    for (size_t i = 0; i < n; i++)
        total += w[i].elements;
    mem_free(w);
    return total;
}

void plan_heading(const struct session *s, FILE *f)
{
    const struct compile_settings *c = &s->compile;
    fprintf(f, "%s: %s, %lld weights, %s on %s, %d threads\n", s->o->model, model_class(&s->model),
            (long long)count_weights(s),
            c->precision.narrow == DT_BF16 ? "bf16 with fp32 master weights" : dtype_name(c->precision.narrow),
            c->backend->name, c->threads);
    if (c->train)
        fprintf(f, "micro-batches of %lld sequences, at most %lld tokens together, %lld per step%s; %.3g GFLOP each\n",
                (long long)c->train_max.B, (long long)c->train_max.T, (long long)c->accumulation,
                c->recompute_every_n ? ", activations recomputed" : "", step_flops(s) / 1e9);
}

/* ORDER pass: as in the words of --dump. */
static const char *const passes[] = {"none", "build", "grad", "precision", "update", "recompute", "order"};

struct dumper {
    struct screen screen; /* first: notes take it as their context */
    const char *pass;
};

static void print_graph(void *ctx, const char *pass, const char *program, const char *text)
{
    const struct dumper *d = ctx;
    if (!strcmp(pass, d->pass))
        printf("# %s, after %s\n%s", program, pass, text);
}

int run_plan(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct session s;
    struct dumper dumper = {.pass = passes[o->dump]};
    struct str out = {0};
    (void)args;
    screen_open(&dumper.screen);
    struct session_events events = screen_notes(&dumper.screen);
    if (o->dump != OPT_DUMP_NONE)
        events.dump = print_graph;
    int code = session_open(&s, &io_posix, o, events, NULL, err);
    if (!code && o->dump != OPT_DUMP_NONE) {
        session_close(&s);
        return SNUG_OK;
    }
    if (!code && o->json) {
        plan_report_json(&s.run.plan, &out);
        code = str_check(&out, err);
        if (!code)
            printf("%s\n", str_text(&out));
    } else if (!code) {
        plan_report_text(&s.run.plan, &out);
        code = str_check(&out, err);
        if (!code) {
            plan_heading(&s, stdout);
            fputs(str_text(&out), stdout);
        }
    }
    str_free(&out);
    session_close(&s);
    return code;
}
