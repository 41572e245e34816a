#include "data/batch.h"

#include "base/mem.h"
#include "data/dataset_parts.h"

#include <assert.h>
#include <string.h>

static void *take(int64_t n, size_t item_bytes, bool wanted, int64_t *missing)
{
    if (!wanted)
        return NULL;
    void *p = mem_alloc((size_t)n * item_bytes);
    if (!p)
        *missing += n * (int64_t)item_bytes;
    return p;
}

int batch_buffer_open(struct batch_buffer *b, const struct dataset *d, int64_t max_T, int64_t max_B,
                      int64_t max_batches, struct snug_err *err)
{
    bool tokens = task_has_targets(d->task);
    bool values = d->task == TASK_REGRESSION || d->task == TASK_MULTI_LABEL;
    int64_t missing = 0;
    *b = (struct batch_buffer){.max_T = max_T, .max_B = max_B, .num_labels = d->num_labels};
    b->ids = take(max_T, sizeof *b->ids, true, &missing);
    b->positions = take(max_T, sizeof *b->positions, true, &missing);
    b->types = take(max_T, sizeof *b->types, true, &missing);
    b->targets = take(max_T, sizeof *b->targets, tokens, &missing);
    b->cu_seqlens = take(max_B + max_batches, sizeof *b->cu_seqlens, true, &missing);
    b->sample = take(max_B, sizeof *b->sample, true, &missing);
    b->rows = take(max_B, sizeof *b->rows, true, &missing);
    b->classes = take(max_B, sizeof *b->classes, d->task == TASK_CLASS, &missing);
    b->source_ids = take(max_T, sizeof *b->source_ids, d->sources, &missing);
    b->source_positions = take(max_T, sizeof *b->source_positions, d->sources, &missing);
    b->source_cu_seqlens = take(max_B + max_batches, sizeof *b->source_cu_seqlens, d->sources, &missing);
    b->values = take(max_B * d->num_labels, sizeof *b->values, values, &missing);
    if (!missing)
        return SNUG_OK;
    batch_buffer_close(b);
    return err_no_memory(err, (unsigned long long)missing);
}

void batch_buffer_close(struct batch_buffer *b)
{
    mem_free(b->ids);
    mem_free(b->positions);
    mem_free(b->types);
    mem_free(b->targets);
    mem_free(b->cu_seqlens);
    mem_free(b->sample);
    mem_free(b->rows);
    mem_free(b->classes);
    mem_free(b->values);
    mem_free(b->source_ids);
    mem_free(b->source_positions);
    mem_free(b->source_cu_seqlens);
    *b = (struct batch_buffer){0};
}

void batch_buffer_reset(struct batch_buffer *b)
{
    b->n_T = b->n_S = b->n_B = b->n_batches = 0;
}

static void fill_targets(const struct dataset *d, const struct masker *masker, int64_t epoch, int64_t row, int32_t *ids,
                         int32_t *targets, int32_t n)
{
    const int32_t *given = d->targets ? d->targets + d->offsets[row] : NULL;
    if (d->task == TASK_CAUSAL_LM) {
        memcpy(targets, (given ? given : ids) + 1, (size_t)(n - 1) * sizeof *targets);
        targets[n - 1] = IGNORE_INDEX;
        const uint8_t *learned = d->loss_mask ? d->loss_mask + d->offsets[row] : NULL;
        for (int32_t i = 0; learned && i < n - 1; i++)
            targets[i] = learned[i + 1] ? targets[i] : IGNORE_INDEX;
    } else if (given) {
        memcpy(targets, given, (size_t)n * sizeof *targets);
    } else {
        masking_apply(masker, epoch, row, ids, targets, n);
    }
}

static void fill_source(struct batch_buffer *f, const struct dataset *d, int64_t row, int64_t at, int32_t n)
{
    memcpy(f->source_ids + at, d->ids + d->offsets[row], (size_t)n * sizeof *f->source_ids);
    for (int32_t i = 0; i < n; i++)
        f->source_positions[at + i] = i;
}

/* A decoder reads what it has written so far: each token of the target predicts the next one, the start the first. The start is a token
 * of the model's, or the target's own last one. */
static void fill_shifted(const struct dataset *d, int64_t row, int32_t *ids, int32_t *targets, int32_t n)
{
    const int32_t *target = d->ids + d->offsets[row] + dataset_source(d, row);
    ids[0] = d->start_id < 0 ? target[n - 1] : d->start_id;
    memcpy(ids + 1, target, (size_t)(n - 1) * sizeof *ids);
    memcpy(targets, target, (size_t)n * sizeof *targets);
}

/* The n tokens of a row but those of its source. */
static void fill_row(struct batch_buffer *f, const struct dataset *d, int64_t row, int64_t epoch,
                     const struct masker *masker, int64_t at, int32_t n, int64_t *n_targets)
{
    int64_t from = d->offsets[row];
    for (int32_t i = 0; i < n; i++) {
        f->positions[at + i] = i;
        f->types[at + i] = d->types ? d->types[from + i] : 0;
    }
    if (d->sources)
        fill_shifted(d, row, f->ids + at, f->targets + at, n);
    else
        memcpy(f->ids + at, d->ids + from, (size_t)n * sizeof *f->ids);
    if (f->targets && !d->sources)
        fill_targets(d, masker, epoch, row, f->ids + at, f->targets + at, n);
    if (!f->targets || d->task == TASK_SPAN) { /* a row has one answer */
        *n_targets += 1;
        return;
    }
    for (int32_t i = 0; i < n; i++)
        *n_targets += f->targets[at + i] != IGNORE_INDEX;
}

void batch_fill(struct batch_buffer *f, const struct dataset *d, const int64_t *rows, int32_t n, const int32_t *samples,
                int64_t epoch, const struct masker *masker, struct batch *b)
{
    assert(f->n_B + n <= f->max_B);
    int64_t T = 0, S = 0, n_targets = 0;
    int32_t longest = 0, *cu_seqlens = f->cu_seqlens + f->n_B + f->n_batches;
    int32_t *source_cu = d->sources ? f->source_cu_seqlens + f->n_B + f->n_batches : NULL;
    for (int32_t i = 0; i < n; i++) {
        int64_t row = rows[i], at = f->n_B + i;
        int32_t source = dataset_source(d, row), length = dataset_length(d, row) - source;
        assert(f->n_T + T + length <= f->max_T && f->n_S + S + source <= f->max_T);
        if (source_cu) {
            fill_source(f, d, row, f->n_S + S, source);
            source_cu[i] = (int32_t)S;
            source_cu[i + 1] = (int32_t)(S += source);
        }
        fill_row(f, d, row, epoch, masker, f->n_T + T, length, &n_targets);
        f->rows[at] = row;
        f->sample[at] = samples ? samples[i] : i;
        if (f->classes)
            f->classes[at] = d->classes[row];
        if (f->values)
            memcpy(f->values + at * f->num_labels, d->values + row * f->num_labels,
                   (size_t)f->num_labels * sizeof *f->values);
        cu_seqlens[i] = (int32_t)T;
        T += length;
        longest = length > longest ? length : longest;
    }
    cu_seqlens[n] = (int32_t)T;
    *b = (struct batch){
        .T = (int32_t)T,
        .S = (int32_t)S,
        .B = n,
        .longest = longest,
        .ids = f->ids + f->n_T,
        .positions = f->positions + f->n_T,
        .types = f->types + f->n_T,
        .cu_seqlens = cu_seqlens,
        .sample = f->sample + f->n_B,
        .rows = f->rows + f->n_B,
        .classes = f->classes ? f->classes + f->n_B : NULL,
        .values = f->values ? f->values + f->n_B * f->num_labels : NULL,
        .targets = f->targets ? f->targets + f->n_T : NULL,
        .source_ids = source_cu ? f->source_ids + f->n_S : NULL,
        .source_positions = source_cu ? f->source_positions + f->n_S : NULL,
        .source_cu_seqlens = source_cu,
        .n_targets = n_targets,
    };
    f->n_T += T;
    f->n_S += S;
    f->n_B += n;
    f->n_batches++;
}
