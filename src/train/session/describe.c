#include "train/session/describe.h"

#include "base/size.h"
#include "plan/report.h"
#include "train/fit/table.h"
#include "train/session/batches.h"

int64_t describe_weights(const struct session *s)
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

struct snug_forecast describe_forecast(const struct session *s)
{
    const struct forecast *f = &s->forecast;
    if (!f->known)
        return (struct snug_forecast){0};
    return (struct snug_forecast){.step_seconds = f->step_seconds,
                                  .exchange_bytes = f->exchange.bytes,
                                  .exchange_seconds = f->exchange.seconds,
                                  .samples_per_second = f->samples / f->step_seconds,
                                  .tokens_per_second = f->tokens / f->step_seconds,
                                  .evaluation_seconds = f->evaluation_seconds,
                                  .steps = f->steps,
                                  .evaluations = f->evaluations,
                                  .run_seconds = f->run_seconds,
                                  .measured = f->measured,
                                  .disturbed = f->disturbed};
}

/* 0.42 s, 42.0 s, 4 min 20 s, 4 h 20 min */
static void put_duration(struct str *out, double seconds)
{
    long long s = (long long)(seconds + 0.5);
    if (seconds < 60)
        str_printf(out, seconds < 10 ? "%.2f s" : "%.1f s", seconds);
    else if (s < 3600)
        str_printf(out, "%lld min %lld s", s / 60, s % 60);
    else
        str_printf(out, "%lld h %lld min", s / 3600, s / 60 % 60);
}

/* Three digits, and all of them before the point. */
static void put_number(struct str *out, double x)
{
    str_printf(out, x < 999.5 ? "%.3g" : "%.0f", x);
}

static void put_forecast(struct str *out, const struct snug_forecast *f, int64_t network_bytes)
{
    bool short_step = f->step_seconds < 1;
    char size[SIZE_TEXT_MAX];
    const char *basis = f->measured    ? "measured"
                        : f->disturbed ? "a guess: other programs have the processors"
                                       : "estimated";
    str_append(out, "time     ");
    if (f->steps) {
        put_duration(out, f->run_seconds);
        str_printf(out, " for %lld step%s", (long long)f->steps, f->steps == 1 ? "" : "s");
        if (f->evaluations) {
            str_printf(out, " and %lld evaluation%s of ", (long long)f->evaluations, f->evaluations == 1 ? "" : "s");
            put_duration(out, f->evaluation_seconds);
        }
        str_printf(out, ", %s\n", basis);
    }
    str_printf(out, "%s", f->steps ? "         " : "");
    put_number(out, (short_step ? 1e3 : 1) * f->step_seconds);
    str_printf(out, " %s a step, ", short_step ? "ms" : "s");
    if (f->exchange_seconds > 0) {
        put_number(out, (short_step ? 1e3 : 1) * f->exchange_seconds);
        str_printf(out, " of it between GPUs (%s", size_text(f->exchange_bytes, size));
        if (network_bytes)
            str_printf(out, ", %s of that by the network", size_text(network_bytes, size));
        str_append(out, "), ");
    }
    put_number(out, f->samples_per_second);
    str_printf(out, " samples/s, %.0f tokens/s%s%s\n", f->tokens_per_second, f->steps ? "" : ", ",
               f->steps ? "" : basis);
}

/* Bytes of the gradients that micro-steps add up, in `type`. */
static int64_t accumulated_bytes(const struct session *s, enum dtype type)
{
    int64_t bytes = 0;
    const struct graph *g = &s->run.plan.programs[s->run.where.first].graph;
    for (int i = 1; i < g->n_values; i++) {
        const struct value *v = graph_value(g, i);
        bool here = !v->rank || v->rank == s->run.plan.fullest;
        bytes += v->role == ROLE_GRADIENT && v->persists && !v->base && v->dtype == type && here
                     ? value_bytes(v, (struct dims){0})
                     : 0;
    }
    return bytes;
}

/* "12.3 MiB in BF16 and 56 B in F32" */
static void put_accumulated(struct str *out, const struct session *s)
{
    const struct precision *p = &s->compile.precision;
    int64_t narrow = p->narrow == p->wide ? 0 : accumulated_bytes(s, p->narrow), wide = accumulated_bytes(s, p->wide);
    char size[SIZE_TEXT_MAX];
    str_printf(out, "step     %s%lld micro-batches; gradients added up: ",
               batches_cut_by_tokens(s, s->choices.micro.B) ? "about " : "", (long long)s->choices.accumulation);
    if (narrow)
        str_printf(out, "%s in %s and ", size_text(narrow, size), dtype_name(p->narrow));
    str_printf(out, "%s in %s\n", size_text(wide, size), dtype_name(p->wide));
}

/* 5091, 22.7 million, 1.24 billion */
static void put_count(struct str *out, int64_t n)
{
    if (n < 1000000)
        str_printf(out, "%lld", (long long)n);
    else if (n < 1000000000)
        str_printf(out, "%.3g million", (double)n / 1e6);
    else
        str_printf(out, "%.3g billion", (double)n / 1e9);
}

const char *describe_precision(const struct session *s)
{
    static const char *const bf16[2][2] = {
        {"bf16 with fp32 master weights", "bf16, weights and states included"},
        {"fp8 and bf16 with fp32 master weights", "fp8 and bf16, weights and states included"}};
    const struct precision *p = &s->compile.precision;
    return s->o->dtype == OPT_DTYPE_TF32     ? "tf32"
           : p->pure || p->narrow == DT_BF16 ? bf16[p->fp8][p->pure]
           : p->narrow == DT_F16             ? "fp16 with fp32 master weights"
           : p->narrow == DT_F32             ? "fp32"
           : p->narrow == DT_F64             ? "double precision"
                                             : dtype_name(p->narrow);
}

static void put_batch(struct str *out, const struct session *s)
{
    const struct choices *c = &s->choices;
    const struct plan *p = &s->run.plan;
    int k = s->run.where.step >= 0 ? s->run.where.step : s->run.where.first;
    if (k < 0)
        return;
    char sources[64] = "";
    if (c->micro.S)
        snprintf(sources, sizeof sources, " in targets and %lld in sources", (long long)c->micro.S);
    str_printf(out, "batch    %lld sequence%s, at most %lld tokens together%s: %.3g GFLOP\n", (long long)c->micro.B,
               c->micro.B == 1 ? "" : "s", (long long)c->micro.T, sources, run_flops(&s->run, k, c->micro) / 1e9);
    if (c->accumulation > 1 && s->run.where.first >= 0)
        put_accumulated(out, s);
    if (c->recompute_every_n || c->recompute)
        str_printf(out, "         activations of %d of %lld layers are computed again in the backward pass\n",
                   p->programs[k].recomputed_layers, (long long)s->model.layers);
}

/* " for each of 4 ranks", or GPUs; empty for one. */
static const char *of_ranks(const struct session *s, char *text, size_t room)
{
    *text = '\0';
    if (s->compile.ranks > 1)
        snprintf(text, room, " for each of %d %s", s->compile.ranks, s->o->gpus ? "GPUs" : "ranks");
    return text;
}

void describe_plan(const struct session *s, struct str *out)
{
    const struct compile_settings *c = &s->compile;
    const struct plan *p = &s->run.plan;
    const struct snug_forecast f = describe_forecast(s);
    char size[SIZE_TEXT_MAX], ranks[48];
    str_append(out, "model    ");
    str_escape(out, s->o->model);
    str_printf(out, ": %s, ", model_class(&s->model));
    put_count(out, describe_weights(s));
    str_printf(out, " weights\ndevice   %s, ", c->backend->name);
    of_ranks(s, ranks, sizeof ranks);
    if (!c->backend->facts.host_memory && c->ranks > 1)
        str_printf(out, "%d GPUs, ", c->ranks);
    str_printf(out, "%d thread%s%s, %s\n", c->threads, c->threads == 1 ? "" : "s",
               c->backend->facts.host_memory ? ranks : "", describe_precision(s));
    put_batch(out, s);
    str_printf(out, "memory   %s%s", size_text(p->arena_bytes, size), ranks);
    if (p->least_bytes < p->persistent_bytes)
        str_printf(out, " (%s of the one that has least)",
                   size_text(p->arena_bytes - p->persistent_bytes + p->least_bytes, size));
    if (p->host_bytes)
        str_printf(out, ", and %s of the host for %s%s", size_text(p->host_bytes, size), plan_host_holds(p),
                   c->ranks > 1 ? " of each" : "");
    if (p->disk_bytes)
        str_printf(out, ", and %s on disk for optimizer states%s", size_text(p->disk_bytes, size),
                   c->ranks > 1 ? " of each" : "");
    if (plan_transfer_bytes(p) > 1 << 20) /* less is not worth saying, here and below */
        str_printf(out, ", and %s of the host for inputs and results on their way",
                   size_text(plan_transfer_bytes(p), size));
    if (p->checkpoint_bytes)
        str_printf(out, ", and %s more while a checkpoint is written", size_text(p->checkpoint_bytes, size));
    if (p->metrics_bytes > 1 << 20)
        str_printf(out, ", and %s for an evaluation's metrics", size_text(p->metrics_bytes, size));
    str_append(out, "\n");
    if (f.step_seconds > 0)
        put_forecast(out, &f, s->forecast.exchange.network_bytes);
    table_text(s, out);
}

void describe_title(const struct session *s, struct str *out)
{
    const struct choices *c = &s->choices;
    char ranks[48];
    str_append(out, model_class(&s->model));
    str_append(out, ", ");
    put_count(out, describe_weights(s));
    str_printf(out, " weights, %s, ", describe_precision(s));
    if (s->compile.train)
        str_printf(out, "%lld x %lld sequences%s, ", (long long)c->accumulation, (long long)c->micro.B,
                   of_ranks(s, ranks, sizeof ranks));
    str_printf(out, "on %s", s->compile.backend->name);
}

/* "time":{…}, */
static void put_time_json(struct str *out, const struct snug_forecast *f, int64_t network_bytes)
{
    str_printf(
        out,
        "\"time\":{\"step_seconds\":%.6g,\"exchange_bytes\":%lld,\"network_bytes\":%lld,\"exchange_seconds\":%.6g,"
        "\"samples_per_second\":%.6g,\"tokens_per_second\":%.6g,"
        "\"steps\":%lld,\"evaluations\":%lld,\"evaluation_seconds\":%.6g,\"run_seconds\":%.6g,"
        "\"basis\":\"%s\",\"disturbed\":%s},",
        f->step_seconds, (long long)f->exchange_bytes, (long long)network_bytes, f->exchange_seconds,
        f->samples_per_second, f->tokens_per_second, (long long)f->steps, (long long)f->evaluations,
        f->evaluation_seconds, f->run_seconds, f->measured ? "measured" : "estimated", f->disturbed ? "true" : "false");
}

/* "accumulated_gradients":{…}, */
static void put_accumulated_json(struct str *out, const struct session *s)
{
    const struct precision *p = &s->compile.precision;
    str_append(out, "\"accumulated_gradients\":{");
    if (p->narrow != p->wide)
        str_printf(out, "\"%s\":%lld,", dtype_name(p->narrow), (long long)accumulated_bytes(s, p->narrow));
    str_printf(out, "\"%s\":%lld},", dtype_name(p->wide), (long long)accumulated_bytes(s, p->wide));
}

void describe_plan_json(const struct session *s, struct str *out)
{
    const struct compile_settings *c = &s->compile;
    const struct snug_forecast f = describe_forecast(s);
    struct str plan = {0};
    plan_report_json(&s->run.plan, &plan);
    str_append(out, "{\"model\":");
    str_json_printed(out, s->o->model);
    str_printf(out,
               ",\"class\":\"%s\",\"weights\":%lld,\"dtype\":\"%s\",\"device\":\"%s\",\"threads\":%d,\"ranks\":%d,",
               model_class(&s->model), (long long)describe_weights(s), dtype_name(c->precision.narrow),
               c->backend->name, c->threads, c->ranks);
    if (f.step_seconds > 0)
        put_time_json(out, &f, s->forecast.exchange.network_bytes);
    if (s->choices.accumulation > 1 && s->run.where.first >= 0)
        put_accumulated_json(out, s);
    table_json(s, out);
    str_append(out, plan.n ? plan.s + 1 : ""); /* behind its { */
    out->failed |= plan.failed;
    str_free(&plan);
}
