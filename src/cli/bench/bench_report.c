/* The table in three forms: lines for people, Markdown, JSON. */
#include "cli/bench/bench.h"

#include <math.h>
#include <stdio.h>

static const double MB = 1e6;

void bench_setting(const struct bench_result *r, char to[64])
{
    snprintf(to, 64, "%s, %lld x %lld", r->dtype, (long long)r->batch_size, (long long)r->accumulation);
}

double bench_planned_share(const struct bench_result *r)
{
    return r->status == BENCH_MEASURED && r->memory_bytes
               ? (double)(r->arenas * r->arena_bytes) / (double)r->memory_bytes
               : 0;
}

const struct bench_result *bench_fastest(const struct bench *b)
{
    const struct bench_result *best = NULL;
    size_t n = 0;
    for (size_t i = 0; i < b->n_results; i++) {
        const struct bench_result *r = &b->results[i];
        if (r->status != BENCH_MEASURED)
            continue;
        n++;
        best = best && best->samples_per_second >= r->samples_per_second ? best : r;
    }
    return n > 1 ? best : NULL;
}

const struct bench_result *bench_smallest(const struct bench *b)
{
    const struct bench_result *best = NULL;
    size_t n = 0;
    for (size_t i = 0; i < b->n_results; i++) {
        const struct bench_result *r = &b->results[i];
        if (r->status != BENCH_MEASURED)
            continue;
        n++;
        best = best && best->memory_bytes <= r->memory_bytes ? best : r;
    }
    return n > 1 ? best : NULL;
}

const char *bench_mark_text(const struct bench *b, const struct bench_result *r)
{
    bool fastest = r == bench_fastest(b), smallest = r == bench_smallest(b);
    return fastest && smallest ? " (fastest, smallest)" : fastest ? " (fastest)" : smallest ? " (smallest)" : "";
}

/* Of several ranks, the speed beside that of as many single ones. */
static void put_of_linear(const struct bench *b, const struct bench_result *r, struct str *out)
{
    double measured = bench_of_linear(b, r), planned = bench_of_linear_planned(b, r);
    if (r->ranks == 1 || !(measured > 0))
        return;
    str_printf(out, "  Of linear: %.1f %%", 100 * measured);
    if (planned > 0)
        str_printf(out, ", as planned %.1f %%", 100 * planned);
    str_append(out, "\n");
}

void bench_row_text(const struct bench *b, const struct bench_result *r, struct str *out)
{
    char setting[64];
    bench_setting(r, setting);
    str_printf(out, "%s (%s)%s%s\n", r->title, setting, *r->note ? ": " : "", r->note);
    if (r->status != BENCH_MEASURED) {
        str_printf(out, "  %s: %s\n", bench_status_names[r->status], r->reason);
        return;
    }
    str_printf(out, "  Time: %.2f\n  Samples/second: %.2f\n  Tokens/second: %.0f\n", r->seconds, r->samples_per_second,
               r->tokens_per_second);
    put_of_linear(b, r, out);
    if (r->before_bytes) /* a GPU: the guide's line, whose MB are 2^20 bytes */
        str_printf(out, "  GPU memory occupied: %lld MB.\n", (long long)(r->memory_bytes >> 20));
    else
        str_printf(out, "  Memory occupied: %.0f MB\n", (double)r->memory_bytes / MB);
    str_printf(out, "  Arena, as planned: %lld of these %lld bytes, %.1f %%\n", (long long)(r->arenas * r->arena_bytes),
               (long long)r->memory_bytes, 100 * bench_planned_share(r));
    if (r->arena_bytes != r->planned_bytes)
        str_printf(out, "  snug plan said %lld bytes: please report this\n", (long long)r->planned_bytes);
}

/* ---- Markdown ---- */

/* The text in a cell: a bar would end it. */
static void put_cell(struct str *out, const char *text)
{
    for (; *text; text++) {
        str_append(out, *text == '|' ? "\\" : "");
        str_append_n(out, text, 1);
    }
}

static void put_machine(const struct bench *b, struct str *out)
{
    if (b->nvml)
        str_printf(out, "%s (driver %s)", b->gpu.name, b->gpu.driver);
    else
        str_printf(out, "%s, %s threads, on %s", b->cpu, b->threads, b->device);
}

static void put_table_row(const struct bench *b, const struct bench_result *r, struct str *out)
{
    const char *mark = bench_mark_text(b, r), *bold = *mark ? "**" : "";
    str_printf(out, "| %s%s%s%s%s | %s | %lld x %lld | ", bold, r->title, mark, bold, *r->note ? " *" : "", r->dtype,
               (long long)r->batch_size, (long long)r->accumulation);
    if (r->status == BENCH_MEASURED) {
        str_printf(out, "%.2f | %.2f | %.0f | %.0f | %.0f | %.1f %% |\n", r->seconds, r->samples_per_second,
                   r->tokens_per_second, (double)r->memory_bytes / MB, (double)r->arena_bytes / MB,
                   100 * bench_planned_share(r));
        return;
    }
    str_printf(out, "%s | | | | ", bench_status_names[r->status]);
    if (r->planned_bytes)
        str_printf(out, "%.0f", (double)r->planned_bytes / MB);
    str_append(out, " | |\n");
}

/* Why some rows have no numbers, and what is not as a row says. */
static void put_reasons(const struct bench *b, struct str *out)
{
    bool notes = false;
    for (size_t i = 0; i < b->n_results; i++) {
        const struct bench_result *r = &b->results[i];
        notes |= *r->note != 0;
        if (r->status == BENCH_MEASURED)
            continue;
        str_printf(out, "\n- %s, %s: ", r->title, bench_status_names[r->status]);
        put_cell(out, r->reason);
    }
    if (notes) {
        str_append(out, "\n\n\\* in bf16, because this device has no fp16: ");
        put_cell(out, b->no_fp16);
    }
    str_append(out, "\n");
}

void bench_markdown(const struct bench *b, struct str *out)
{
    str_append(out, "# snug bench: ");
    put_cell(out, b->model_name);
    if (b->ranks > 1)
        str_printf(out, " on 1 to %d %s", b->ranks, b->gpus.n ? "GPUs" : "ranks");
    str_append(out, "\n\n");
    put_machine(b, out);
    str_printf(out,
               "; snug " SNUG_VERSION ", %s. %lld weights, rows of %lld tokens, %lld optimizer steps of %lld rows%s; "
               "dropout as the model's config.json says.\n\n",
               b->date, (long long)b->weights, (long long)b->max_length, (long long)b->steps,
               (long long)b->o->samples_per_step, b->ranks > 1 ? " for each rank" : "");
    if (b->ranks > 1) {
        bench_ranks_table(b, out);
        put_reasons(b, out);
        return;
    }
    str_append(out,
               "| | precision | batch x accumulation | time, s | samples/s | tokens/s | memory, MB | planned, MB | "
               "planned / memory |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < b->n_results; i++)
        put_table_row(b, &b->results[i], out);
    str_printf(
        out, "\nTime is of all steps; samples/s and tokens/s are of the last %lld, without the first %lld. Memory is ",
        (long long)(b->steps - b->skipped), (long long)b->skipped);
    if (b->nvml)
        str_printf(out,
                   "the most that was in use on the device while the row ran, as nvidia-smi shows it; %.0f MB of it "
                   "before the first row",
                   (double)b->gpu.used_bytes / MB);
    else
        str_append(out, "what is resident at the end");
    str_append(out, ". Planned is the arena, which `snug plan` tells to the byte. 1 MB is 1,000,000 bytes.\n");
    for (size_t i = 0; i < b->n_results; i++)
        if (b->results[i].row->searched && b->results[i].status == BENCH_MEASURED)
            str_append(out, "\nThe row that is planned for a budget has the fastest cut into micro-batches that fits, "
                            "and computes again no "
                            "more than there is no room for (`--memory-budget`).\n");
    put_reasons(b, out);
}

/* ---- JSON ---- */

static void put_string(struct str *out, const char *name, const char *value)
{
    str_printf(out, ",\"%s\":", name);
    str_json(out, value);
}

static void put_int(struct str *out, const char *name, int64_t value)
{
    str_printf(out, ",\"%s\":%lld", name, (long long)value);
}

static void put_real(struct str *out, const char *name, double value)
{
    str_printf(out, ",\"%s\":", name);
    str_json_number(out, value, 9);
}

static void put_flag(struct str *out, const char *name, bool value)
{
    str_printf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void put_result(const struct bench *b, const struct bench_result *r, struct str *out)
{
    str_append(out, "{\"name\":");
    str_json(out, r->row->name);
    put_string(out, "title", r->title);
    if (r->budget_bytes)
        put_int(out, "memory_budget", r->budget_bytes);
    put_string(out, "dtype", r->dtype);
    put_string(out, "optim", r->row->optim);
    put_flag(out, "gradient_checkpointing", r->row->checkpointing);
    put_int(out, "batch_size", r->batch_size);
    put_int(out, "gradient_accumulation_steps", r->accumulation);
    put_string(out, "status", bench_status_names[r->status]);
    if (b->ranks > 1)
        put_int(out, "ranks", r->ranks);
    if (b->ranks > 1 && r->planned_samples_per_second > 0) {
        put_real(out, "planned_samples_per_second", r->planned_samples_per_second);
        put_real(out, "planned_of_linear", bench_of_linear_planned(b, r));
    }
    if (r->planned_exchange > 0)
        put_real(out, "planned_exchange", r->planned_exchange);
    if (*r->reason)
        put_string(out, "reason", r->reason);
    if (*r->note)
        put_string(out, "note", r->note);
    if (r->planned_bytes)
        put_int(out, "planned_bytes", r->planned_bytes);
    if (r->status == BENCH_MEASURED) {
        put_int(out, "arena_bytes", r->arena_bytes);
        put_int(out, "memory_bytes", r->memory_bytes);
        if (b->nvml)
            put_int(out, "memory_before_bytes", r->before_bytes);
        put_real(out, "planned_of_memory", bench_planned_share(r));
        put_real(out, "seconds", r->seconds);
        put_real(out, "first_step_seconds", r->first_step_seconds);
        put_real(out, "samples_per_second", r->samples_per_second);
        put_real(out, "tokens_per_second", r->tokens_per_second);
        if (bench_of_linear(b, r) > 0)
            put_real(out, "of_linear", bench_of_linear(b, r));
        if (b->ranks == 1) {
            put_flag(out, "fastest", r == bench_fastest(b));
            put_flag(out, "smallest", r == bench_smallest(b));
        }
    }
    str_append(out, "}");
}

void bench_json(const struct bench *b, struct str *out)
{
    str_append(out, "{\"version\":\"" SNUG_VERSION "\"");
    put_string(out, "date", b->date);
    put_string(out, "model", b->model_name);
    put_int(out, "weights", b->weights);
    put_string(out, "device", b->device);
    put_string(out, "cpu", b->cpu);
    if (b->nvml) {
        put_string(out, "gpu", b->gpu.name);
        put_string(out, "driver", b->gpu.driver);
        put_int(out, "gpu_memory_bytes", b->gpu.total_bytes);
    }
    put_string(out, "memory_is", b->nvml ? "in use on the device" : "resident");
    put_int(out, "max_length", b->max_length);
    put_int(out, "samples_per_step", b->o->samples_per_step);
    put_int(out, "steps", b->steps);
    put_int(out, "timed_steps", b->steps - b->skipped);
    str_append(out, ",\n\"rows\":[\n");
    for (size_t i = 0; i < b->n_results; i++) {
        put_result(b, &b->results[i], out);
        str_append(out, i + 1 < b->n_results ? ",\n" : "\n");
    }
    str_append(out, "]}\n");
}
