/* Evaluation: rows sorted by length, so that a batch of few long rows and one of many short rows need about the same
 * memory and no batch waits for one long row. The batches are cut once; nothing depends on time or threads. */
#include "data/loader.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct eval_loader {
    const struct dataset *data;
    struct masker masker;
    int64_t *rows; /* (n_rows), longest first */
    int32_t max_rows;
    int64_t max_tokens;
    int64_t at;          /* rows given out */
    int64_t most_tokens; /* of a batch, sources included */
    struct token_count largest;
    int32_t largest_rows;
    int64_t n_batches;
    int first, every;                      /* the batches that it gives */
    bool shares;                           /* rows and masker are another loader's */
    struct batch_buffer buffer[EVAL_KEPT]; /* one after the other */
    struct batch batch[EVAL_KEPT];
    int n_given; /* batches, so far */
};

/* Longest first, by counting; equal lengths stay in the order of the file. */
static int sort_rows(struct eval_loader *e, struct snug_err *err)
{
    const struct dataset *d = e->data;
    size_t bytes = ((size_t)d->longest + 2) * sizeof(int64_t);
    int64_t *start = mem_alloc(bytes);
    if (!start)
        return err_no_memory(err, bytes);
    for (int64_t row = 0; row < d->n_rows; row++)
        start[d->longest - dataset_length(d, row) + 1]++;
    for (int32_t i = 0; i < d->longest; i++)
        start[i + 1] += start[i];
    for (int64_t row = 0; row < d->n_rows; row++)
        e->rows[start[d->longest - dataset_length(d, row)]++] = row;
    mem_free(start);
    return SNUG_OK;
}

/* Rows of the batch that starts at `from`, and their tokens. */
static int32_t cut(const struct eval_loader *e, int64_t from, struct token_count *tokens)
{
    int32_t n = 0;
    *tokens = (struct token_count){0};
    for (; n < e->max_rows && from + n < e->data->n_rows; n++) {
        int64_t row = e->rows[from + n];
        if (n > 0 && tokens->T + tokens->S + dataset_length(e->data, row) > e->max_tokens)
            break;
        token_count_add(tokens, e->data, row);
    }
    return n;
}

static void measure(struct eval_loader *e)
{
    for (int64_t from = 0; from < e->data->n_rows;) {
        struct token_count tokens;
        int32_t n = cut(e, from, &tokens);
        e->most_tokens = tokens.T + tokens.S > e->most_tokens ? tokens.T + tokens.S : e->most_tokens;
        token_count_raise(&e->largest, tokens);
        e->largest_rows = n > e->largest_rows ? n : e->largest_rows;
        from += n;
        e->n_batches++;
    }
}

static int open_buffers(struct eval_loader *e, struct snug_err *err)
{
    for (int i = 0; i < EVAL_KEPT; i++)
        TRY(batch_buffer_open(&e->buffer[i], e->data, e->most_tokens, e->largest_rows, 1, err));
    return SNUG_OK;
}

int eval_open(const struct dataset *d, int32_t max_rows, int64_t max_tokens, uint64_t seed,
              const struct masking *masking, struct eval_loader **out, struct snug_err *err)
{
    *out = NULL;
    if (max_rows < 1)
        return err_set(err, SNUG_ERR_USAGE, "evaluation batch size %d is not at least 1", (int)max_rows);
    if (max_tokens > 0 && max_tokens < d->longest)
        return err_set(
            err, SNUG_ERR_USAGE,
            "the longest row has %d tokens, over the %lld of an evaluation batch; use a smaller --max-length",
            (int)d->longest, (long long)max_tokens);
    struct eval_loader *e = mem_alloc(sizeof *e);
    int64_t *rows = mem_alloc((size_t)d->n_rows * sizeof *rows);
    if (!e || !rows) {
        mem_free(e);
        mem_free(rows);
        return err_no_memory(err, (unsigned long long)d->n_rows * sizeof *rows);
    }
    *e = (struct eval_loader){.data = d, .rows = rows, .max_rows = max_rows, .every = 1};
    e->max_tokens = max_tokens > 0 && max_tokens < INT32_MAX ? max_tokens : INT32_MAX;
    int code;
    TRY_TO(fail, masking_open(&e->masker, d, masking, seed, err));
    TRY_TO(fail, sort_rows(e, err));
    measure(e);
    TRY_TO(fail, open_buffers(e, err));
    *out = e;
    return SNUG_OK;
fail:
    eval_close(e);
    return code;
}

int eval_share(const struct eval_loader *of, int me, int n, struct eval_loader **out, struct snug_err *err)
{
    struct eval_loader *e = *out = mem_alloc(sizeof *e);
    if (!e)
        return err_no_memory(err, sizeof *e);
    *e = *of;
    memset(e->buffer, 0, sizeof e->buffer);
    e->shares = true;
    e->first = me;
    e->every = n;
    eval_rewind(e);
    return open_buffers(e, err);
}

static void skip(struct eval_loader *e, int batches)
{
    struct token_count tokens;
    while (batches-- > 0)
        e->at += cut(e, e->at, &tokens); /* 0 rows behind the last */
}

const struct batch *eval_next(struct eval_loader *e)
{
    skip(e, e->n_given ? e->every - 1 : e->first);
    if (e->at == e->data->n_rows)
        return NULL;
    struct token_count tokens;
    int32_t n = cut(e, e->at, &tokens);
    int i = e->n_given++ % EVAL_KEPT;
    batch_buffer_reset(&e->buffer[i]);
    batch_fill(&e->buffer[i], e->data, e->rows + e->at, n, NULL, 0, &e->masker, &e->batch[i]);
    dataset_release(e->data); /* other rows come next */
    e->at += n;
    return &e->batch[i];
}

void eval_rewind(struct eval_loader *e)
{
    e->at = 0;
    e->n_given = 0;
}

struct token_count eval_largest(const struct eval_loader *e)
{
    return e->largest;
}

int64_t eval_batches(const struct eval_loader *e)
{
    return e->n_batches;
}

int32_t eval_max_rows(const struct eval_loader *e)
{
    return e->largest_rows;
}

void eval_close(struct eval_loader *e)
{
    if (!e)
        return;
    for (int i = 0; i < EVAL_KEPT; i++)
        batch_buffer_close(&e->buffer[i]);
    if (!e->shares) {
        masking_close(&e->masker);
        mem_free(e->rows);
    }
    mem_free(e);
}
