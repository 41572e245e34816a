#include "train/environment.h"

#include "backend/processor.h"
#include "base/machine.h"
#include "output/own_json.h"
#include "output/record.h"
#include "plan/anatomy.h"
#include "train/session/describe.h"

#include <stdio.h>
#include <sys/utsname.h>

enum { POINTS = 400 }; /* of a program's nodes, at most */

static void put_text(struct str *out, const char *name, const char *text)
{
    str_printf(out, ",\n \"%s\": ", name);
    str_json(out, text);
}

static void put_number(struct str *out, const char *name, long long value)
{
    str_printf(out, ",\n \"%s\": %lld", name, value);
}

/* Of a long program the node of each stretch that holds the most. */
static int choose_nodes(const struct timeline *t, int nodes[POINTS])
{
    int all = t->n_nodes - 1, n = all < POINTS ? all : POINTS;
    for (int i = 0; i < n; i++) {
        int first = 1 + (int)((int64_t)i * all / n), end = 1 + (int)((int64_t)(i + 1) * all / n);
        nodes[i] = first;
        for (int k = first; k < end; k++)
            if (timeline_total(t, k) > timeline_total(t, nodes[i]))
                nodes[i] = k;
    }
    return n;
}

/* With one group of activations a component is a band. Scalars are a few bytes, and go with the inputs. */
static int64_t bytes_at(const struct timeline *t, enum component c, int node)
{
    const int64_t *bands = t->bands + (size_t)node * (size_t)t->n_bands;
    return bands[timeline_band(t, c, 0)] + (c == COMPONENT_INPUTS ? bands[timeline_band(t, COMPONENT_SCALARS, 0)] : 0);
}

static void put_component(const struct timeline *t, enum component c, const int *nodes, int n, struct str *out)
{
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        most = bytes_at(t, c, nodes[i]) > most ? bytes_at(t, c, nodes[i]) : most;
    if (!most || c == COMPONENT_SCALARS)
        return;
    str_printf(out, ",\n  \"%s\": [", component_names[c]);
    for (int i = 0; i < n; i++)
        str_printf(out, "%s%lld", i ? ", " : "", (long long)bytes_at(t, c, nodes[i]));
    str_append(out, "]");
}

static int put_memory(const struct session *s, struct str *out, struct snug_err *err)
{
    const struct plan *p = &s->run.plan;
    int k = s->run.where.step >= 0 ? s->run.where.step : s->run.where.first, nodes[POINTS];
    struct timeline t;
    if (k < 0 || p->programs[k].graph.n_nodes < 2)
        return SNUG_OK;
    if (!timeline_make(p, k, 1, &t))
        return err_no_memory(err, (size_t)p->programs[k].graph.n_nodes * COMPONENT_COUNT * sizeof *t.bands);
    int n = choose_nodes(&t, nodes);
    str_append(out, ",\n \"memory\": {\"program\": ");
    str_json(out, p->programs[k].name);
    str_printf(out, ", \"arena\": %lld, \"node\": [", (long long)p->arena_bytes);
    for (int i = 0; i < n; i++)
        str_printf(out, "%s%d", i ? ", " : "", nodes[i]);
    str_append(out, "]");
    for (int c = 0; c < COMPONENT_COUNT; c++)
        put_component(&t, (enum component)c, nodes, n, out);
    str_append(out, "}");
    timeline_free(&t);
    return SNUG_OK;
}

/* Of a step on the average. */
static void put_times(const struct op_times *t, const char *how, struct str *out)
{
    const char *between = "";
    double n = (double)t->steps;
    str_append(out, ",\n \"ops\": {\"how\": ");
    str_json(out, how);
    str_append(out, ", \"times\": [");
    for (int op = 1; op < OP_COUNT; op++)
        if (t->of[op].nodes) {
            str_printf(out, "%s\n  {\"op\": \"%s\", \"nodes\": %.10g, \"seconds\": %.6g}", between, op_table[op].name,
                       (double)t->of[op].nodes / n, t->of[op].seconds / n);
            between = ",";
        }
    str_append(out, "]}");
}

/* Those of the run's steps, else those that the device's profile knows. */
static int put_ops(const struct session *s, const struct op_times *times, struct str *out, struct snug_err *err)
{
    struct op_times known;
    char how[120];
    snprintf(how, sizeof how, "measured in %lld steps behind the first of this run, each op by itself",
             (long long)times->steps);
    if (times->steps) {
        put_times(times, how, out);
        return SNUG_OK;
    }
    TRY(forecast_ops(s, &known, err));
    if (known.steps)
        put_times(&known, "measured on this device before the run, each kind of node again and again by itself", out);
    return SNUG_OK;
}

int environment_text(const struct session *s, const struct op_times *times, struct str *out, struct snug_err *err)
{
    const struct compile_settings *c = &s->compile;
    const struct backend *b = c->backend;
    struct str command = {0};
    struct utsname system;
    char processor[PROCESSOR_NAME_MAX];
    processor_name(processor);
    TRY(record_command(s->o, &command, err));
    own_json_begin(out);
    put_text(out, "command", str_text(&command));
    str_free(&command);
    put_text(out, "device", b->device ? b->device : b->name);
    put_text(out, "kernels", b->kernels(b));
    put_text(out, "precision", describe_precision(s));
    put_number(out, "threads", c->threads);
    if (c->ranks > 1)
        put_number(out, "ranks", c->ranks);
    put_text(out, "processor", *processor ? processor : "unknown");
    put_number(out, "processors", machine_cpus());
    put_number(out, "memory of the machine", machine_memory_bytes());
    put_number(out, "memory that is planned", s->run.plan.arena_bytes);
    if (!uname(&system))
        put_text(out, "system", system.sysname), put_text(out, "kernel", system.release),
            put_text(out, "architecture", system.machine);
    TRY(put_memory(s, out, err));
    TRY(put_ops(s, times, out, err));
    str_append(out, "}\n");
    return str_check(out, err);
}
