/* batch.h: the rows of a micro-batch laid one after another, as the program's inputs want them. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include "data/masking.h"

/* B sequences with T tokens together; no padding. Arrays belong to whoever made the batch. Where rows are a source and a target, the
 * sequences are the targets, as a decoder reads them: each token beside the one that it shall predict. */
struct batch {
    int32_t T, B;
    int32_t S;                /* tokens of the sequences' sources together; 0 where they have none */
    int32_t longest;          /* tokens of the longest sequence */
    const int32_t *ids;       /* (T) */
    const int32_t *positions; /* (T), from 0 in each sequence */
    const int32_t *past;      /* (B): tokens of the sequence before these, of generation; else NULL */
    /* (B, cache_rows) and (B): where rows are in the caches, as op/attention/attention_cached.c has `at`, of beams; else NULL */
    const int32_t *cache_at, *source_at;
    int64_t cache_rows;
    const int32_t *types;      /* (T) */
    const int32_t *cu_seqlens; /* (B + 1): sequence b is [cu_seqlens[b], cu_seqlens[b + 1]) */
    const int32_t *sample;     /* (B): the sequence's index within the optimizer step; random masks are keyed by it */
    const int64_t *rows;       /* (B): its row in the dataset */
    const int32_t *classes;    /* (B), TASK_CLASS, else NULL */
    const float *values;       /* (B, num_labels), TASK_REGRESSION and TASK_MULTI_LABEL, else NULL */
    /* (T), of tasks with a target per token, else NULL: what the logits at token t shall predict, or IGNORE_INDEX. In a causal
     * model that is the label of t + 1, and IGNORE_INDEX at a sequence's end. */
    const int32_t *targets;
    const int32_t *source_ids, *source_positions; /* (S) */
    const int32_t *source_cu_seqlens;             /* (B + 1) */
    const int32_t *source_rows; /* (B): tokens of the whole source, of generation, which reads it once; else NULL */
    int64_t n_targets;          /* targets that are not ignored, where there are targets; else, and of TASK_SPAN, B */
};

/* Memory for batches of at most max_T tokens (sources and targets each) and max_B sequences together; several may share it. */
struct batch_buffer {
    int64_t max_T, max_B;
    int32_t num_labels;
    int32_t *ids, *positions, *types, *cu_seqlens, *sample, *classes, *targets;
    int32_t *source_ids, *source_positions, *source_cu_seqlens; /* NULL: rows have no sources */
    float *values;
    int64_t *rows;
    int64_t n_T, n_S, n_B, n_batches; /* used so far */
};

int batch_buffer_open(struct batch_buffer *b, const struct dataset *d, int64_t max_T, int64_t max_B,
                      int64_t max_batches, struct snug_err *err);
void batch_buffer_close(struct batch_buffer *b);
void batch_buffer_reset(struct batch_buffer *b); /* empties it: the batches laid there are over */

/* Lays the n rows behind what the buffer already holds and describes them in *b. `samples` (n) are their indices within the
 * optimizer step; NULL: from 0. `masker` is used for TASK_MASKED_LM without targets. */
void batch_fill(struct batch_buffer *buffer, const struct dataset *d, const int64_t *rows, int32_t n,
                const int32_t *samples, int64_t epoch, const struct masker *masker, struct batch *b);

#endif
