/* bench-step: the snug command, with the time that each kernel takes. Its arguments are snug's; at the end it prints,
 * on standard error, a line per op, then one per op and shapes that took half a per cent: runs, seconds, share of the
 * time from the first kernel to the last, speed. The first step finds memory untouched: give a few. The linker puts
 * __wrap_backend_cpu in the place of backend_cpu (bench/kernels/meson.build). */
#include "backend/backend.h"

#include "base/seconds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct backend *__real_backend_cpu(void);
const struct backend *__wrap_backend_cpu(void);

enum { MOST = 4096 };

static struct line {
    enum op op;
    char shapes[64];
    int runs;
    double seconds, best, flops;
} lines[MOST];
static struct line totals[OP_COUNT];
static int n_lines;
static double began, ended, in_kernels;

/* The first two slots that are there, and the dtype of the first. */
static struct line *line_of(enum op op, const union args_any *args)
{
    char text[64] = "";
    int n = 0;
    for (int s = 0; s < op_table[op].n_slots && n < 2; s++) {
        const struct tensor *t = &args->slot[s];
        size_t at = strlen(text);
        if (!t->data)
            continue;
        n++;
        snprintf(text + at, sizeof text - at, "%s %s", at ? "," : "", dtype_name(t->dtype));
        for (int d = 0; d < t->ndim; d++) {
            at = strlen(text);
            snprintf(text + at, sizeof text - at, "%c%lld", d ? 'x' : ' ', (long long)t->shape[d]);
        }
    }
    for (int i = 0; i < n_lines; i++)
        if (lines[i].op == op && !strcmp(lines[i].shapes, text))
            return &lines[i];
    struct line *l = &lines[n_lines < MOST - 1 ? n_lines++ : n_lines];
    l->op = op;
    memcpy(l->shapes, text, sizeof text);
    return l;
}

static int timed_node(const struct work *work, struct snug_err *err)
{
    const struct backend *cpu = __real_backend_cpu();
    struct line *l = line_of(work->op, &work->args);
    double start = seconds_now();
    if (began == 0)
        began = start;
    int code = cpu->run(cpu, work, 1, err);
    ended = seconds_now();
    in_kernels += ended - start;
    l->runs++;
    l->seconds += ended - start;
    l->best = l->runs == 1 || ended - start < l->best ? ended - start : l->best;
    l->flops += op_table[work->op].flops(&work->args);
    return code;
}

static int timed_run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b;
    for (int i = 0; i < n; i++)
        TRY(timed_node(&work[i], err));
    return SNUG_OK;
}

static int slower_first(const void *a, const void *b)
{
    double x = ((const struct line *)a)->seconds, y = ((const struct line *)b)->seconds;
    return (x < y) - (x > y);
}

/* The lines with at least this share of the time. */
static void print(struct line *some, int n, double all, double least)
{
    qsort(some, (size_t)n, sizeof *some, slower_first);
    fprintf(stderr, "%8s %9s %6s %9s %8s  op\n", "runs", "s", "%", "best ms", "GFLOP/s");
    for (int i = 0; i < n; i++) {
        struct line *l = &some[i];
        if (l->runs > 0 && l->seconds >= least * all)
            fprintf(stderr, "%8d %9.3f %6.2f %9.3f %8.0f  %s%s\n", l->runs, l->seconds, 100 * l->seconds / all,
                    1e3 * l->best, 1e-9 * l->flops / l->seconds, op_table[l->op].name, l->shapes);
    }
}

static void report(void)
{
    double all = ended - began;
    if (!n_lines)
        return;
    for (int i = 0; i < n_lines; i++) {
        struct line *l = &lines[i], *t = &totals[l->op];
        t->op = l->op;
        t->runs += l->runs;
        t->seconds += l->seconds;
        t->flops += l->flops;
        t->best = t->best > 0 && t->best < l->best ? t->best : l->best;
    }
    print(totals, OP_COUNT, all, 0.001);
    print(lines, n_lines, all, 0.005);
    fprintf(stderr, "%.3f s from the first kernel to the last, %.3f s of them outside kernels\n", all,
            all - in_kernels);
}

const struct backend *__wrap_backend_cpu(void)
{
    static struct backend timed;
    if (!timed.run) {
        timed = *__real_backend_cpu();
        timed.run = timed_run;
        atexit(report);
    }
    return &timed;
}
