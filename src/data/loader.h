/* loader.h: the micro-batches of each optimizer step, prepared ahead by a thread.
 *
 * An optimizer step takes a window of `accumulation` times `batch_size` rows at its place in the epoch's order, cut
 * into micro-batches of at most batch_size rows, and of at most max_tokens tokens. The last window of an epoch is
 * shorter and still makes a step. What is in a window depends on batch_size * accumulation only, not
 * on how it is cut.
 *
 * With several ranks, micro-batches r, r + ranks, r + 2 ranks, … are rank r's. Rows are then dealt out so that the micro-batches of a
 * window have about as many tokens each, and nobody waits long for another. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "base/stop.h"
#include "data/batch.h"
#include "data/order.h"

struct window {
    int64_t step;       /* optimizer steps before this one, over all epochs */
    int64_t epoch;      /* from 0 */
    int64_t epoch_step; /* steps of this epoch before this one */
    bool ends_epoch;
    int32_t n_micro;
    const struct batch *micro; /* (n_micro) */
    int64_t n_samples;         /* rows of all micro-batches */
    /* The N that the loss is divided by: in language models the targets that are not ignored, else n_samples. It can be 0
     * when texts are very short: then there is nothing to learn. */
    int64_t n_targets;
    int64_t n_tokens;
};

struct loader_options {
    const struct dataset *data;
    const struct order *order;
    int32_t batch_size, accumulation; /* accumulation: of all ranks together */
    int32_t ranks;                    /* 0 and 1: one */
    int64_t max_tokens; /* of a micro-batch, which then has fewer rows, and a window more micro-batches; 0: no limit */
    int64_t drop_below; /* an epoch leaves out its last rows that do not fill a batch of so many; 0: none */
    int64_t start_step; /* the first window's step; any one is found at once */
    /* At this step, at this row of this epoch, batch_size and accumulation began to hold; before it they were others.
     * All 0: always. */
    int64_t from_step, from_epoch, from_row;
    int64_t end_step;       /* no window from this step on */
    uint64_t seed;          /* of the masking */
    struct masking masking; /* TASK_MASKED_LM without targets */
    int32_t prefetch;       /* windows ready ahead of the one in use; 0: 2 */
};

struct loader;

/* Starts the thread. Data and order must outlive the loader. SNUG_ERR_INPUT: fewer rows than one micro-batch;
 * SNUG_ERR_USAGE: drop_below leaves no step; SNUG_ERR_ENV: no memory or no thread. */
int loader_open(const struct loader_options *o, struct loader **loader, struct snug_err *err);
/* The next window, in step order, valid until the next call; NULL when end_step is reached. */
int loader_next(struct loader *l, const struct window **w, struct snug_err *err);
void loader_close(struct loader *l); /* stops and joins the thread; NULL is fine */

/* For the plan with a limit of tokens: how many rows a micro-batch has about, batch_size at most. */
int64_t loader_usual_rows(const struct dataset *d, int32_t batch_size, int64_t max_tokens);

/* SNUG_ERR_USAGE unless each row fits into a micro-batch of max_tokens. */
int loader_check_max_tokens(const struct dataset *d, int64_t max_tokens, struct snug_err *err);

/* Whether there is a step to make: loader_open's SNUG_ERR_INPUT and SNUG_ERR_USAGE, before anything is allocated. */
int loader_check(const struct dataset *d, int64_t batch_size, int64_t accumulation, int64_t drop_below,
                 struct snug_err *err);

/* Optimizer steps of an epoch. */
int64_t loader_steps_per_epoch(int64_t n_rows, int32_t batch_size, int32_t accumulation, int64_t drop_below);

/* T and S of struct batch. */
struct token_count {
    int64_t T, S;
};

static inline void token_count_add(struct token_count *sum, const struct dataset *d, int64_t row)
{
    sum->T += dataset_length(d, row) - dataset_source(d, row);
    sum->S += dataset_source(d, row);
}

/* Each of the two by itself. */
static inline void token_count_raise(struct token_count *most, struct token_count to)
{
    most->T = to.T > most->T ? to.T : most->T;
    most->S = to.S > most->S ? to.S : most->S;
}

/* The tokens of the largest micro-batch of steps start_step … end_step - 1, and those of the largest sources, for each of n sizes of
 * micro-batches into which windows may be cut; the limit of tokens does not count. A row takes half a microsecond. SNUG_STOPPED where
 * `stop` (or NULL) asks for it. */
int loader_largest(const struct loader_options *o, const int64_t *sizes, int n, const struct stop_flag *stop,
                   struct token_count *tokens, struct snug_err *err);

/* No micro-batch of batch_size rows has more tokens, sources included, whatever the order is (the sum of the longest rows). -1: no
 * memory. */
int64_t loader_max_tokens(const struct dataset *d, int32_t batch_size);

/* Evaluation and prediction: every row once, longest first, in batches of at most max_rows rows and max_tokens tokens
 * (0: no such limit). batch.rows says which rows; batch.sample counts from 0 in each batch. */
struct eval_loader;
enum { EVAL_KEPT = 2 };
int eval_open(const struct dataset *d, int32_t max_rows, int64_t max_tokens, uint64_t seed,
              const struct masking *masking, struct eval_loader **out, struct snug_err *err);
const struct batch *eval_next(struct eval_loader *e); /* NULL after the last; EVAL_KEPT of them stay valid */
void eval_rewind(struct eval_loader *e);
/* A loader of the batches me, me + n, me + 2n, … of another one, which must outlive it. */
int eval_share(const struct eval_loader *of, int me, int n, struct eval_loader **out, struct snug_err *err);
int64_t eval_batches(const struct eval_loader *e);            /* of the loader, or of the one that this is a share of */
struct token_count eval_largest(const struct eval_loader *e); /* of any of its batches */
int32_t eval_max_rows(const struct eval_loader *e);
void eval_close(struct eval_loader *e);

#endif
