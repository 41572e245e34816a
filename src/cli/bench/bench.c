/* snug bench: the rows of the table, and how each is planned, run and measured. */
#include "cli/bench/bench.h"

#include "base/io.h"
#include "base/size.h"
#include "cli/commands.h"
#include "format/model_dir.h"
#include "model/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const bench_status_names[] = {"not run", "measured", "not available", "failed"};

#define BENCH_ROW(...) {__VA_ARGS__},
const struct bench_row bench_rows[] = {BENCH_ROWS(BENCH_ROW)};
const size_t n_bench_rows = sizeof bench_rows / sizeof *bench_rows;

enum { GPU_STEPS = 128, CPU_STEPS = 6 };

/* ---- what is asked for ---- */

static const struct bench_row *find_row(const char *name, size_t length)
{
    for (size_t i = 0; i < n_bench_rows; i++)
        if (strlen(bench_rows[i].name) == length && !strncmp(bench_rows[i].name, name, length))
            return &bench_rows[i];
    return NULL;
}

static int unknown_row(const char *name, struct snug_err *err)
{
    const char *names[sizeof bench_rows / sizeof *bench_rows];
    struct str all = {0};
    for (size_t i = 0; i < n_bench_rows; i++) {
        names[i] = bench_rows[i].name;
        str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = nearest_name(name, names, n_bench_rows);
    if (nearest)
        err_set(err, SNUG_ERR_USAGE, "--rows: there is no row '%s'; did you mean %s?", name, nearest);
    else
        err_set(err, SNUG_ERR_USAGE, "--rows: there is no row '%s'; there are %s", name, str_text(&all));
    str_free(&all);
    return SNUG_ERR_USAGE;
}

/* The table of ranks is of one experiment. */
static int choose_ranks(struct bench *b, const bool *wanted, struct snug_err *err)
{
    const struct bench_row *row = find_row("bf16", strlen("bf16"));
    int n = 0;
    for (size_t i = 0; i < n_bench_rows; i++) {
        row = wanted[i] ? &bench_rows[i] : row;
        n += wanted[i];
    }
    if (n > 1)
        return err_set(err, SNUG_ERR_USAGE, "--rows %s: several GPUs or ranks run one of them; give one, such as bf16",
                       b->o->rows);
    return bench_ranks_rows(b, row, err);
}

/* --rows NAME,NAME: in the order of the table, each once. */
static int choose_rows(struct bench *b, struct snug_err *err)
{
    bool wanted[sizeof bench_rows / sizeof *bench_rows] = {false};
    const char *list = b->o->rows;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t length = strcspn(at, ",");
        const struct bench_row *row = find_row(at, length);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (!row)
            return unknown_row(name, err);
        wanted[row - bench_rows] = true;
    }
    if (b->ranks > 1)
        return choose_ranks(b, wanted, err);
    b->results = mem_alloc(n_bench_rows * sizeof *b->results);
    if (!b->results)
        return err_no_memory(err, n_bench_rows * sizeof *b->results);
    for (size_t i = 0; i < n_bench_rows; i++) {
        const struct bench_row *row = &bench_rows[i];
        struct bench_result *r = &b->results[b->n_results];
        if (list && !wanted[i])
            continue;
        *r = (struct bench_result){.row = row,
                                   .dtype = row->dtype,
                                   .batch_size = row->accumulation ? 1 : b->o->samples_per_step,
                                   .accumulation = row->accumulation ? b->o->samples_per_step : 1,
                                   .ranks = 1,
                                   .arenas = 1};
        snprintf(r->title, sizeof r->title, "%s", row->title);
        b->n_results++;
    }
    return SNUG_OK;
}

static char *path_in(const char *dir, const char *name)
{
    struct str s = {0};
    str_printf(&s, "%s/%s", dir, name);
    if (!s.failed)
        return s.s;
    str_free(&s);
    return NULL;
}

static int open_scratch(struct bench *b, struct snug_err *err)
{
    b->output_dir = mem_strdup(b->o->output_dir ? b->o->output_dir : "snug-bench");
    char *scratch = b->output_dir ? path_in(b->output_dir, ".running-XXXXXX") : NULL;
    if (!scratch)
        return err_no_memory(err, 4096);
    b->made_output_dir = !io_exists(&io_posix, b->output_dir);
    int code = io_make_dirs(&io_posix, b->output_dir, err);
    if (!code && !mkdtemp(scratch))
        code = err_errno(err, SNUG_ERR_IO, b->output_dir, "hold a temporary folder", errno);
    if (code)
        mem_free(scratch);
    else
        b->scratch = scratch;
    return code;
}

/* A folder is taken as it is; another name stands for a built-in description. */
static int open_model(struct bench *b, struct snug_err *err)
{
    struct stat st;
    b->model_name = b->o->model ? b->o->model : "bert-large";
    if (!stat(b->model_name, &st)) {
        b->model = mem_strdup(b->model_name);
        return b->model ? SNUG_OK : err_no_memory(err, strlen(b->model_name));
    }
    b->model = path_in(b->scratch, "model");
    return b->model ? bench_model_write(b->model_name, b->model, err) : err_no_memory(err, 4096);
}

/* --max-length, or what the model can take. */
static int choose_length(struct bench *b, struct snug_err *err)
{
    struct model_dir dir = {.weights_optional = true};
    struct model_config config;
    TRY(model_dir_open(&io_posix, b->model, &dir, err));
    int code = model_config_read(dir.config, dir.config_path, &config, err);
    if (!code)
        b->max_length = option_given(b->o, max_length) ? b->o->max_length : config.longest;
    model_dir_close(&dir);
    return code;
}

/* ---- the plan of a row ---- */

struct plan_line {
    struct bench *b;
    int64_t arena_bytes, batch_size, accumulation;
    double samples_per_second, exchange; /* of a step, a share */
};

static void read_plan(void *ctx, const char *line)
{
    struct plan_line *p = ctx;
    json_t *o = json_loads(line, 0, NULL);
    const char *device = json_string_value(json_object_get(o, "device"));
    if (device) {
        const json_t *time = json_object_get(o, "time");
        double step = json_number_value(json_object_get(time, "step_seconds"));
        p->samples_per_second = json_number_value(json_object_get(time, "samples_per_second"));
        p->exchange = step > 0 ? json_number_value(json_object_get(time, "exchange_seconds")) / step : 0;
        p->arena_bytes = json_integer_value(json_object_get(o, "arena_bytes"));
        p->b->weights = json_integer_value(json_object_get(o, "weights"));
        snprintf(p->b->device, sizeof p->b->device, "%s", device);
        snprintf(p->b->threads, sizeof p->b->threads, "%lld",
                 (long long)json_integer_value(json_object_get(o, "threads")));
    }
    const json_t *way = json_array_get(json_object_get(o, "ways"), 0); /* which is taken */
    if (way) {
        p->batch_size = json_integer_value(json_object_get(way, "batch_size"));
        p->accumulation = json_integer_value(json_object_get(way, "gradient_accumulation_steps"));
    }
    json_decref(o);
}

/* The arena of row `r` in precision `dtype`, and what it chooses; *exit_code and `error` when it is refused. */
static int plan_row(struct bench *b, struct bench_result *r, const char *dtype, int64_t *bytes, int *exit_code,
                    char error[SNUG_ERR_TEXT], struct snug_err *err)
{
    struct plan_line p = {.b = b, .batch_size = r->batch_size, .accumulation = r->accumulation};
    struct child_events events = {.line = read_plan, .ctx = &p};
    TRY(bench_run(b, r, dtype, "plan", &events, exit_code, error, err));
    *bytes = p.arena_bytes;
    r->batch_size = p.batch_size;
    r->accumulation = p.accumulation;
    r->planned_samples_per_second = p.samples_per_second;
    r->planned_exchange = p.exchange;
    return SNUG_OK;
}

/* What is wrong with the model, the data or the device would be wrong with every row: it ends the command. */
static int plan_first(struct bench *b, struct snug_err *err)
{
    struct bench_result plain = {.row = &bench_rows[0], .batch_size = 1, .accumulation = 1, .ranks = 1};
    char error[SNUG_ERR_TEXT];
    int64_t bytes;
    int exit_code;
    TRY(plan_row(b, &plain, plain.row->dtype, &bytes, &exit_code, error, err));
    if (exit_code)
        return err_set(err, exit_code > 128 ? SNUG_ERR_ENV : exit_code, "%s", error);
    bool cpu = !strcmp(b->device, "cpu") || !strcmp(b->device, "reference");
    b->steps = option_given(b->o, steps) ? b->o->steps : cpu ? CPU_STEPS : GPU_STEPS;
    b->skipped = b->steps / 3 > 2 ? b->steps / 3 : 2;
    if (!cpu && !nvml_open(&b->nvml) && nvml_read(b->nvml, b->gpus.of[0], getpid(), &b->gpu)) {
        nvml_close(b->nvml);
        b->nvml = NULL;
    }
    return SNUG_OK;
}

/* What "half" is on this device. */
static int choose_half(struct bench *b, struct snug_err *err)
{
    struct bench_result plain = {.row = &bench_rows[0], .batch_size = 1, .accumulation = 1, .ranks = 1};
    int64_t bytes;
    int exit_code;
    if (b->half)
        return SNUG_OK;
    TRY(plan_row(b, &plain, "fp16", &bytes, &exit_code, b->no_fp16, err));
    b->half = exit_code ? "bf16" : "fp16";
    return SNUG_OK;
}

/* ---- measuring a row ---- */

struct measurement {
    struct bench *b;
    struct bench_result *r;
    struct bench_mark skipped, last;
    bool summary; /* came */
};

static void show_step(const struct measurement *m)
{
    if (!m->b->terminal)
        return;
    char setting[64];
    bench_setting(m->r, setting);
    printf("\r\033[K%s (%s): step %lld of %lld", m->r->title, setting, (long long)m->last.step, (long long)m->b->steps);
    fflush(stdout);
}

static void read_line(void *ctx, const char *line)
{
    struct measurement *m = ctx;
    json_t *o = json_loads(line, 0, NULL);
    if (json_object_get(o, "samples_per_second")) {
        m->last = (struct bench_mark){json_integer_value(json_object_get(o, "step")),
                                      json_number_value(json_object_get(o, "samples_per_second")),
                                      json_number_value(json_object_get(o, "tokens_per_second"))};
        if (m->last.step == m->b->skipped)
            m->skipped = m->last;
        show_step(m);
    } else if (json_object_get(o, "train_runtime")) {
        m->summary = true;
        m->r->seconds = json_number_value(json_object_get(o, "train_runtime"));
        m->r->first_step_seconds = json_number_value(json_object_get(o, "first_step_seconds"));
        m->r->arena_bytes = json_integer_value(json_object_get(o, "arena_bytes"));
        if (!m->b->nvml)
            m->r->memory_bytes = json_integer_value(json_object_get(o, "memory"));
    }
    json_decref(o);
}

/* The most that was in use on the device while the row ran. */
static void look_at_device(void *ctx)
{
    struct measurement *m = ctx;
    struct nvml_memory now;
    if (m->b->nvml && !nvml_read(m->b->nvml, m->b->gpus.of[0], getpid(), &now) && now.used_bytes > m->r->memory_bytes)
        m->r->memory_bytes = now.used_bytes;
}

static bool find_rates(const struct measurement *m)
{
    return m->summary && bench_rates(&m->skipped, &m->last, m->b->o->samples_per_step * m->r->ranks,
                                     &m->r->samples_per_second, &m->r->tokens_per_second);
}

static int train_row(struct bench *b, struct bench_result *r, struct snug_err *err)
{
    struct measurement m = {.b = b, .r = r};
    struct child_events events = {.line = read_line, .tick = look_at_device, .ctx = &m};
    struct nvml_memory before;
    char out[4096];
    int exit_code;
    if (b->nvml && !nvml_read(b->nvml, b->gpus.of[0], getpid(), &before))
        r->before_bytes = before.used_bytes;
    show_step(&m);
    int code = bench_run(b, r, r->dtype, "train", &events, &exit_code, r->reason, err);
    snprintf(out, sizeof out, "%s/out", b->scratch);
    bench_remove_tree(out);
    if (b->terminal)
        fputs("\r\033[K", stdout);
    TRY(code);
    r->status = exit_code == SNUG_ERR_USAGE    ? BENCH_LACKING
                : !exit_code && find_rates(&m) ? BENCH_MEASURED
                                               : BENCH_FAILED;
    if (!exit_code && r->status == BENCH_FAILED)
        snprintf(r->reason, sizeof r->reason, "its log has no steps to measure");
    return SNUG_OK;
}

/* --memory-budget, or what the guide's combined row takes: what else is there in that room? */
static int choose_budget(struct bench *b, struct bench_result *r, int *exit_code, struct snug_err *err)
{
    static const char combined[] = "fp16_accumulation_checkpointing";
    struct bench_result guide = {.row = find_row(combined, strlen(combined)),
                                 .batch_size = 1,
                                 .accumulation = b->o->samples_per_step,
                                 .ranks = r->ranks};
    char size[SIZE_TEXT_MAX];
    *exit_code = 0;
    r->budget_bytes = b->o->memory_budget;
    if (!r->budget_bytes)
        TRY(plan_row(b, &guide, r->dtype, &r->budget_bytes, exit_code, r->reason, err));
    if (!*exit_code)
        snprintf(r->title, sizeof r->title, "planned for %s", size_text(r->budget_bytes, size));
    return SNUG_OK;
}

/* A precision or an optimizer that this build or device does not have is refused already by the plan. */
static int measure_row(struct bench *b, struct bench_result *r, struct snug_err *err)
{
    int exit_code = 0;
    if (!strcmp(r->row->dtype, "half")) {
        TRY(choose_half(b, err));
        r->dtype = b->half;
        if (*b->no_fp16)
            snprintf(r->note, sizeof r->note, "bf16 instead of fp16");
    }
    if (r->row->searched)
        TRY(choose_budget(b, r, &exit_code, err));
    if (!exit_code)
        TRY(plan_row(b, r, r->dtype, &r->planned_bytes, &exit_code, r->reason, err));
    if (!exit_code)
        return train_row(b, r, err);
    r->status = exit_code == SNUG_ERR_USAGE || exit_code == SNUG_ERR_ENV ? BENCH_LACKING : BENCH_FAILED;
    return SNUG_OK;
}

static int measure_all(struct bench *b, struct snug_err *err)
{
    for (size_t i = 0; i < b->n_results; i++) {
        struct str text = {0};
        int code = measure_row(b, &b->results[i], err);
        if (code == SNUG_STOPPED)
            for (size_t k = i; k < b->n_results; k++)
                snprintf(b->results[k].reason, SNUG_ERR_TEXT, "stopped by a signal");
        TRY(code);
        bench_row_text(b, &b->results[i], &text);
        fputs(str_text(&text), stdout);
        fflush(stdout);
        str_free(&text);
    }
    return SNUG_OK;
}

/* ---- the command ---- */

static int write_report(const struct bench *b, const char *name, void (*make)(const struct bench *, struct str *),
                        struct str *text, struct snug_err *err)
{
    char *path = path_in(b->output_dir, name);
    make(b, text);
    int code = path ? str_check(text, err) : err_no_memory(err, 4096);
    if (!code)
        code = io_write_file(&io_posix, path, text->s, text->n, err);
    mem_free(path);
    return code;
}

static int write_reports(const struct bench *b, struct snug_err *err)
{
    struct str markdown = {0}, json = {0}, svg = {0};
    int code = write_report(b, "bench.md", bench_markdown, &markdown, err);
    if (!code)
        code = write_report(b, "bench.json", bench_json, &json, err);
    if (!code)
        code = write_report(b, "bench.svg", bench_svg, &svg, err);
    if (!code)
        printf("\n%s\nThe same, as numbers and as a picture: %s/bench.md, bench.json, bench.svg\n", str_text(&markdown),
               b->output_dir);
    str_free(&markdown);
    str_free(&json);
    str_free(&svg);
    return code;
}

static size_t count(const struct bench *b, enum bench_status status)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_results; i++)
        n += b->results[i].status == status;
    return n;
}

/* A table without a single number is an error: that of its first row. */
static int finish(const struct bench *b, int code, struct snug_err *err)
{
    bool any = count(b, BENCH_MEASURED) > 0;
    struct snug_err ignored;
    if (code == SNUG_STOPPED && !any)
        return err_set(err, SNUG_STOPPED, "stopped by a signal before a row was measured");
    if (code == SNUG_STOPPED) {
        write_reports(b, &ignored);
        return err_set(err, SNUG_STOPPED, "stopped by a signal; the rows measured so far are in %s", b->output_dir);
    }
    TRY(code);
    if (!any)
        return err_set(err, SNUG_ERR_ENV, "no row could be measured; the first, %s: %s", b->results[0].row->name,
                       b->results[0].reason);
    return write_reports(b, err);
}

static int open_bench(struct bench *b, struct snug_err *err)
{
    time_t now = time(NULL);
    struct tm utc;
    strftime(b->date, sizeof b->date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    b->terminal = isatty(STDOUT_FILENO);
    processor_name(b->cpu);
    b->ranks = (int)b->o->ranks;
    TRY(options_gpus(b->o, &b->gpus, err));
    TRY(choose_rows(b, err));
    TRY(snug_stop_new(&b->stop, err));
    TRY(snug_stop_on_signals(b->stop, err));
    TRY(open_scratch(b, err));
    TRY(open_model(b, err));
    TRY(choose_length(b, err));
    return plan_first(b, err);
}

int run_bench(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct bench b = {.o = o};
    (void)args;
    int code = open_bench(&b, err);
    bool opened = !code;
    if (!code)
        code = measure_all(&b, err);
    if (b.scratch)
        bench_remove_tree(b.scratch);
    if (opened || code == SNUG_STOPPED)
        code = finish(&b, code, err);
    if (code && b.made_output_dir)
        rmdir(b.output_dir); /* succeeds only where it is empty: nothing came of it */
    if (code == SNUG_STOPPED && snug_stop_exit_code(b.stop))
        code = snug_stop_exit_code(b.stop);
    nvml_close(b.nvml);
    snug_stop_free(b.stop);
    mem_free(b.results);
    mem_free(b.output_dir);
    mem_free(b.scratch);
    mem_free(b.model);
    return code;
}
