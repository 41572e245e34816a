/* bench.h: snug bench, the table of experiments of Hugging Face's guide "Efficient Training on a Single GPU" on the
 * user's machine and model. Every row is a `snug train` of its own process: a fresh allocator, a fresh device context,
 * and memory that nobody else has touched.
 *
 *   bench.c          the rows, and their order of events: plan, train, results
 *   bench_rates.c    the speed of the last steps, from the log
 *   bench_line.c     the command lines of a row's processes
 *   bench_child.c    a process: its lines as they come, its error, its end
 *   bench_model.c    the built-in descriptions of models, in a temporary folder
 *   bench_report.c   bench.md, bench.json, and what is printed
 *   bench_svg.c      bench.svg
 *   bench_ranks.c    the other table, of one experiment on 1, 2, 4 … ranks (--gpus, --ranks) */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

#include "backend/processor.h"
#include "base/str.h"
#include "cuda/libraries/nvml.h"
#include "options/gpus.h"
#include "options/options.h"

#include <stdbool.h>

/* The experiments, in the guide's order: name for --rows, title as the guide calls it, --dtype ("half": fp16 where the
 * device has it, else bf16), --optim, gradient accumulation, gradient checkpointing; whether a plan is searched for a memory
 * budget, which is no row of the guide's. */
#define BENCH_ROWS(ROW)                                                                                                \
    ROW("vanilla", "vanilla", "fp32", "adamw_torch", false, false, false)                                              \
    ROW("accumulation", "gradient accumulation", "fp32", "adamw_torch", true, false, false)                            \
    ROW("checkpointing", "accumulation + checkpointing", "fp32", "adamw_torch", true, true, false)                     \
    ROW("fp16", "fp16", "fp16", "adamw_torch", false, false, false)                                                    \
    ROW("fp16_accumulation_checkpointing", "fp16 + accumulation + checkpointing", "half", "adamw_torch", true, true,   \
        false)                                                                                                         \
    ROW("bf16", "bf16", "bf16", "adamw_torch", false, false, false)                                                    \
    ROW("tf32", "tf32", "tf32", "adamw_torch", false, false, false)                                                    \
    ROW("adafactor", "Adafactor", "fp32", "adafactor", false, false, false)                                            \
    ROW("adam8bit", "8-bit Adam", "fp32", "adamw_8bit", false, false, false)                                           \
    ROW("all_adafactor", "everything, with Adafactor", "half", "adafactor", true, true, false)                         \
    ROW("all_adam8bit", "everything, with 8-bit Adam", "half", "adamw_8bit", true, true, false)                        \
    ROW("planned", "planned for a budget", "half", "adamw_torch", false, false, true)

/* An experiment. */
struct bench_row {
    const char *name, *title, *dtype, *optim;
    bool accumulation, checkpointing, searched;
};
extern const struct bench_row bench_rows[];
extern const size_t n_bench_rows;

enum bench_status {
    BENCH_NOT_RUN, /* not asked for, or stopped before its turn */
    BENCH_MEASURED,
    BENCH_LACKING, /* this build or device does not have it: nothing was run */
    BENCH_FAILED   /* it was run and ended badly, such as for want of memory */
};
extern const char *const bench_status_names[]; /* as in bench.json. ORDER bench_status */

struct bench_result {
    const struct bench_row *row;
    char title[64]; /* the row's, or with the budget that was searched for */
    enum bench_status status;
    char reason[SNUG_ERR_TEXT]; /* why there are no numbers */
    char note[SNUG_ERR_TEXT];   /* what is not as the row says; "" mostly */
    const char *dtype;          /* that was run */
    int64_t batch_size, accumulation;
    int64_t budget_bytes;  /* of a row that is searched */
    int64_t planned_bytes; /* arena, as `snug plan` says before the run; 0: refused */
    int ranks;             /* side by side; 1: one GPU, or the whole CPU */
    int arenas;            /* that memory_bytes has: of each rank on a CPU */

    /* As planned; 0: not known. */
    double planned_samples_per_second;
    double planned_exchange; /* share of a step in which the ranks exchange gradients and weights */

    /* BENCH_MEASURED */
    double seconds;            /* of all steps, loading and compiling left out */
    double first_step_seconds; /* from the start of training, with loading, to the end of the first step */
    double samples_per_second; /* of the last two thirds of the steps */
    double tokens_per_second;  /* likewise; real ones, there is no padding */
    int64_t memory_bytes;      /* CPU: resident; GPU: in use on the whole device */
    int64_t before_bytes;      /* GPU: in use on the device before the row began */
    int64_t arena_bytes;       /* allocated by the run */
};

/* What the rows have in common. */
struct bench {
    const struct options *o;
    snug_stop *stop;
    char *output_dir, *scratch;         /* scratch: a temporary folder in output_dir */
    bool made_output_dir;               /* it was not there before */
    char *model;                        /* folder */
    const char *model_name;             /* as the user gave it */
    int64_t max_length, steps, skipped; /* steps; of these, not timed */
    int64_t weights;
    char device[32], threads[16];
    char cpu[PROCESSOR_NAME_MAX];
    char date[32];
    struct nvml *nvml;      /* NULL: the device is no GPU, or nothing is told */
    struct nvml_memory gpu; /* when bench started */
    bool terminal;
    int ranks;                   /* at most; more than 1: the table of ranks */
    struct gpus gpus;            /* n 0: not asked for */
    int rank_threads;            /* of a CPU's rank, in the table of ranks */
    const char *half;            /* "fp16" or "bf16"; NULL: not asked yet */
    char no_fp16[SNUG_ERR_TEXT]; /* the reason for "bf16" */
    struct bench_result *results;
    size_t n_results;
};

/* ---- bench_rates.c ---- */

/* What a line of the log says: rates from the first step to this one. */
struct bench_mark {
    int64_t step; /* 0: there was no such line */
    double samples_per_second, tokens_per_second;
};

/* The rates of what lies between two lines. False where nothing does. */
bool bench_rates(const struct bench_mark *from, const struct bench_mark *to, int64_t samples_per_step,
                 double *samples_per_second, double *tokens_per_second);

/* ---- bench_line.c ---- */

struct child_events;
/* Runs `snug COMMAND`, plan or train, with the options of a row, in precision `dtype`; the rest as child_run. */
int bench_run(const struct bench *b, const struct bench_result *r, const char *dtype, const char *command,
              const struct child_events *events, int *exit_code, char error[SNUG_ERR_TEXT], struct snug_err *err);

/* ---- bench_child.c ---- */

struct child_events {
    void (*line)(void *ctx, const char *line); /* of its stdout, without the newline; NULL: nobody wants them */
    void (*tick)(void *ctx);                   /* about ten times a second while it runs; may be NULL */
    void *ctx;
};

/* Runs this executable with the arguments (argv[0] first, NULL last) and waits. It reads nothing, its stderr is not
 * shown, and it dies with this process. *exit_code: its own, or 128 + a signal. `error` gets the line in which it said
 * why, "" if it said nothing. SNUG_STOPPED: `stop` was asked; the child is gone. SNUG_ERR_ENV: it could not start. */
int child_run(const char *const *argv, const struct child_events *events, const snug_stop *stop, int *exit_code,
              char error[SNUG_ERR_TEXT], struct snug_err *err);

/* ---- bench_model.c ---- */

/* The names of the built-in descriptions: "bert-base, bert-large, …" */
void bench_model_names(struct str *out);

/* Makes folder `dir` with the config.json of the description `name`. SNUG_ERR_USAGE: there is none. */
int bench_model_write(const char *name, const char *dir, struct snug_err *err);

void bench_remove_tree(const char *dir); /* what cannot be removed stays */

/* ---- bench_report.c, bench_svg.c ---- */

void bench_row_text(const struct bench *b, const struct bench_result *r, struct str *out); /* what is printed */
void bench_markdown(const struct bench *b, struct str *out);
void bench_json(const struct bench *b, struct str *out);
void bench_svg(const struct bench *b, struct str *out);

/* "fp32, 4 x 1": precision, rows of a micro-batch x accumulation. */
void bench_setting(const struct bench_result *r, char to[64]);

/* The measured rows of the highest rate and of the least memory; NULL where fewer than two are measured. */
const struct bench_result *bench_fastest(const struct bench *b);
const struct bench_result *bench_smallest(const struct bench *b);
/* "", or " (fastest)", " (smallest)", " (fastest, smallest)". */
const char *bench_mark_text(const struct bench *b, const struct bench_result *r);

/* ---- bench_ranks.c ---- */

/* The rows of one experiment, bf16 without --rows. */
int bench_ranks_rows(struct bench *b, const struct bench_row *row, struct snug_err *err);

/* Its rate as a share of that of so many single ranks, measured or as planned; 0: not known. */
double bench_of_linear(const struct bench *b, const struct bench_result *r);
double bench_of_linear_planned(const struct bench *b, const struct bench_result *r);

void bench_ranks_table(const struct bench *b, struct str *out); /* for bench.md */

/* ---- */

/* The planned share of the measured memory; 0 where one is not known. */
double bench_planned_share(const struct bench_result *r);

#endif
