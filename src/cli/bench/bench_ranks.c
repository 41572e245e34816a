/* The table of ranks: one experiment on 1, 2, 4 … of them, each with as many rows a step and, on a CPU, as many threads. */
#include "base/machine.h"
#include "base/mem.h"
#include "cli/bench/bench.h"

#include <stdio.h>

int bench_ranks_rows(struct bench *b, const struct bench_row *row, struct snug_err *err)
{
    enum { MOST = 16 }; /* doublings, and the last row */
    int threads = b->o->threads ? (int)b->o->threads : machine_cpus();
    b->rank_threads = b->gpus.n ? 0 : threads > b->ranks ? threads / b->ranks : 1;
    b->results = mem_alloc(MOST * sizeof *b->results);
    if (!b->results)
        return err_no_memory(err, MOST * sizeof *b->results);
    for (int ranks = 1; b->n_results < MOST; ranks *= 2) {
        struct bench_result *r = &b->results[b->n_results++];
        bool last = ranks >= b->ranks;
        int n = last ? b->ranks : ranks;
        *r = (struct bench_result){.row = row,
                                   .dtype = row->dtype,
                                   .batch_size = row->accumulation ? 1 : b->o->samples_per_step,
                                   .accumulation = row->accumulation ? b->o->samples_per_step : 1,
                                   .ranks = n,
                                   .arenas = b->gpus.n ? 1 : n};
        snprintf(r->title, sizeof r->title, "%d %s%s", n, b->gpus.n ? "GPU" : "rank", n > 1 ? "s" : "");
        if (last)
            break;
    }
    return SNUG_OK;
}

static double of_linear(double rate, const struct bench_result *r, double alone)
{
    return rate > 0 && alone > 0 ? rate / (r->ranks * alone) : 0;
}

double bench_of_linear(const struct bench *b, const struct bench_result *r)
{
    return b->ranks > 1 ? of_linear(r->samples_per_second, r, b->results[0].samples_per_second) : 0;
}

double bench_of_linear_planned(const struct bench *b, const struct bench_result *r)
{
    return b->ranks > 1 ? of_linear(r->planned_samples_per_second, r, b->results[0].planned_samples_per_second) : 0;
}

/* A cell; blank where nothing is known. */
static void put_percent(struct str *out, bool known, double share)
{
    if (known)
        str_printf(out, " %.1f %% |", 100 * share);
    else
        str_append(out, " |");
}

static void put_row(const struct bench *b, const struct bench_result *r, struct str *out)
{
    bool measured = r->status == BENCH_MEASURED, several = r->ranks > 1;
    double reached = bench_of_linear(b, r), planned = bench_of_linear_planned(b, r);
    str_printf(out, "| %d | %s | %lld x %lld |", r->ranks, r->dtype, (long long)r->batch_size,
               (long long)r->accumulation);
    if (measured)
        str_printf(out, " %.2f | %.2f | %.0f |", r->seconds, r->samples_per_second, r->tokens_per_second);
    else
        str_printf(out, " %s | | |", bench_status_names[r->status]);
    put_percent(out, measured && reached > 0, reached);
    put_percent(out, planned > 0, planned);
    put_percent(out, measured && several && reached > 0, 1 - reached);
    put_percent(out, several && r->planned_exchange > 0, r->planned_exchange);
    str_printf(out, " %.1f |\n", (double)(measured ? r->arena_bytes : r->planned_bytes) / 1e6);
}

void bench_ranks_table(const struct bench *b, struct str *out)
{
    str_printf(
        out,
        "| %s | precision | batch x accumulation | time, s | samples/s | tokens/s | of linear | as planned | lost | "
        "exchange, planned | arena of each, MB |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
        b->gpus.n ? "GPUs" : "ranks");
    for (size_t i = 0; i < b->n_results; i++)
        put_row(b, &b->results[i], out);
    str_printf(
        out,
        "\nTime is of all steps; samples/s and tokens/s, of all together, are of the last %lld, without the first "
        "%lld. Of linear is their share of that many times the first row's; lost is what is missing: the exchange "
        "of gradients and weights, and waiting for each other. The plan's exchange is by what the links between GPUs "
        "promise%s. 1 MB is 1,000,000 bytes.\n",
        (long long)(b->steps - b->skipped), (long long)b->skipped,
        b->gpus.n ? "" : "; of ranks on a CPU it knows none");
    if (b->rank_threads)
        str_printf(out, "\nEach rank has %d thread%s of the CPU.\n", b->rank_threads, b->rank_threads == 1 ? "" : "s");
}
