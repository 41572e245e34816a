/* The command lines of a row's processes. */
#include "cli/bench/bench.h"

#include <stdio.h>

#define DEVICE_WORD(id, text) text,

enum { MAX_ARGUMENTS = 48 };

struct command_line {
    const char *argv[MAX_ARGUMENTS];
    int n;
    struct arena arena;
    bool failed;
};

static void add(struct command_line *c, const char *word)
{
    c->failed |= !word;
    c->argv[c->n++] = word;
}

static void add_number(struct command_line *c, const char *flag, int64_t value)
{
    add(c, flag);
    add(c, arena_printf(&c->arena, "%lld", (long long)value));
}

static void add_option(struct command_line *c, const char *flag, const char *value)
{
    add(c, flag);
    add(c, value);
}

/* The first n of the GPUs that were asked for. A list of one ends in a comma. */
static const char *first_gpus(struct command_line *c, const struct gpus *g, int n)
{
    struct str list = {0};
    for (int i = 0; i < n; i++)
        str_printf(&list, "%d%s", g->of[i], i && i + 1 == n ? "" : ",");
    const char *out = list.failed ? NULL : arena_printf(&c->arena, "%s", str_text(&list));
    str_free(&list);
    return out;
}

static void add_ranks(const struct bench *b, const struct bench_result *r, struct command_line *c)
{
    if (b->gpus.n)
        add_option(c, "--gpus", first_gpus(c, &b->gpus, r->ranks));
    else if (b->ranks > 1)
        add_number(c, "--ranks", r->ranks);
    if (b->o->zero_stage && r->ranks > 1)
        add_number(c, "--zero-stage", b->o->zero_stage);
    if (b->rank_threads)
        add_number(c, "--threads", (int64_t)b->rank_threads * r->ranks);
    else if (option_given(b->o, threads))
        add_number(c, "--threads", b->o->threads);
}

/* `snug plan` and `snug train` of a row take the same options. */
static void make_line(const struct bench *b, const struct bench_result *r, const char *dtype, const char *command,
                      struct command_line *c)
{
    static const char *const devices[] = {WORDS_DEVICE(DEVICE_WORD)};
    int64_t steps = b->steps ? b->steps : 1, samples = b->o->samples_per_step;
    *c = (struct command_line){0};
    add(c, "snug");
    add(c, command);
    add(c, "--json");
    add_option(c, "--model", b->model);
    add(c, "--init-from-config");
    add_option(c, "--train-data",
               arena_printf(&c->arena, "synthetic:%lldx%lld", (long long)(steps * samples * r->ranks),
                            (long long)b->max_length));
    add_number(c, "--max-length", b->max_length);
    add_option(c, "--output-dir", arena_printf(&c->arena, "%s/out", b->scratch));
    add(c, "--discard-model");
    add_option(c, "--save-strategy", "no");
    add_number(c, "--max-steps", steps);
    add_number(c, "--logging-steps", b->skipped ? b->skipped : 1);
    add_option(c, "--dtype", dtype);
    add_option(c, "--optim", r->row->optim);
    add_number(c, "--per-device-train-batch-size", r->row->searched ? samples : r->batch_size);
    if (r->row->searched)
        add_option(c, "--memory-budget", arena_printf(&c->arena, "%lldB", (long long)r->budget_bytes));
    else
        add_number(c, "--gradient-accumulation-steps", r->accumulation);
    if (r->row->checkpointing)
        add(c, "--gradient-checkpointing");
    if (option_given(b->o, device))
        add_option(c, "--device", devices[b->o->device]);
    add_ranks(b, r, c);
    c->argv[c->n] = NULL;
}

int bench_run(const struct bench *b, const struct bench_result *r, const char *dtype, const char *command,
              const struct child_events *events, int *exit_code, char error[SNUG_ERR_TEXT], struct snug_err *err)
{
    struct command_line c;
    make_line(b, r, dtype, command, &c);
    int code = c.failed ? err_no_memory(err, 4096) : child_run(c.argv, events, b->stop, exit_code, error, err);
    if (!code && *exit_code && !*error)
        snprintf(error, SNUG_ERR_TEXT, *exit_code > 128 ? "ended by signal %d%s" : "ended with status %d%s",
                 *exit_code > 128 ? *exit_code - 128 : *exit_code,
                 *exit_code == 137 ? ": the system had no more memory?" : "");
    arena_free(&c.arena);
    return code;
}
