/* Made-up rows, for measuring: "synthetic:ROWSxLENGTH". Every number comes from Philox, keyed by the seed and counted
 * by row and position, so the same spec and seed give the same data everywhere. */
#include "data/dataset_parts.h"
#include "data/label_reader.h"
#include "data/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_LABEL = 1 << 30 }; /* the counter's position for the labels of a row or of its tokens; lengths are below it */

static struct philox draw(const uint32_t key[2], int64_t row, uint32_t position)
{
    return philox4x32((struct philox){{position, (uint32_t)row, (uint32_t)(row >> 32), 0}}, key[0], key[1]);
}

/* A number from 1 to max in plain digits; the text behind it, or NULL. */
static const char *whole_number(const char *s, int64_t max, int64_t *n)
{
    if (*s < '1' || *s > '9')
        return NULL;
    for (*n = 0; *s >= '0' && *s <= '9'; s++) {
        *n = *n * 10 + (*s - '0');
        if (*n > max)
            return NULL;
    }
    return s;
}

/* Rows of a source and a target have `length` tokens of the first and a quarter as many, 1 at least, of the second. */
static int64_t target_length(int64_t length)
{
    return length / 4 > 0 ? length / 4 : 1;
}

static int add_sources(struct dataset *d, int32_t length, struct snug_err *err)
{
    d->sources = mem_alloc((size_t)d->n_rows * sizeof *d->sources);
    for (int64_t row = 0; d->sources && row < d->n_rows; row++)
        d->sources[row] = length;
    return d->sources ? SNUG_OK : err_no_memory(err, (unsigned long long)d->n_rows * sizeof *d->sources);
}

static int allocate(struct dataset *d, int64_t rows, int64_t length, int32_t num_labels, struct snug_err *err)
{
    d->n_rows = rows;
    d->n_tokens = rows * length;
    d->offsets = mem_alloc((size_t)(rows + 1) * sizeof *d->offsets);
    d->ids = mem_alloc((size_t)d->n_tokens * sizeof *d->ids);
    if (d->task == TASK_CLASS)
        d->classes = mem_alloc((size_t)rows * sizeof *d->classes);
    else if (d->task == TASK_TOKEN_CLASS || d->task == TASK_SPAN)
        d->targets = mem_alloc((size_t)d->n_tokens * sizeof *d->targets);
    else if (task_has_label(d->task))
        d->values = mem_alloc((size_t)rows * (size_t)num_labels * sizeof *d->values);
    bool labels = d->task == TASK_SPAN || task_has_classes(d->task);
    if (d->offsets && d->ids && (!labels || d->classes || d->values || d->targets))
        return SNUG_OK;
    return err_no_memory(err, (unsigned long long)d->n_tokens * sizeof *d->ids);
}

static void fill_labels(struct dataset *d, const uint32_t key[2], int64_t row, int32_t num_labels)
{
    for (int32_t i = 0; i < (d->classes ? 1 : num_labels); i++) {
        uint32_t bits = draw(key, row, AT_LABEL + (uint32_t)i).w[0];
        if (d->classes)
            d->classes[row] = data_below(bits, num_labels);
        else if (d->task == TASK_REGRESSION)
            d->values[row * num_labels + i] = (float)(bits >> 8) / 16777216.0f; /* [0, 1) */
        else
            d->values[row * num_labels + i] = (float)(bits >> 31);
    }
}

static void mark_answer(struct dataset *d, const uint32_t key[2], int64_t row, int64_t length)
{
    int32_t start = data_below(draw(key, row, AT_LABEL).w[0], (int32_t)length);
    int32_t end = start + data_below(draw(key, row, AT_LABEL + 1).w[0], (int32_t)length - start);
    int32_t *targets = d->targets + d->offsets[row];
    memset(targets, 0, (size_t)length * sizeof *targets);
    targets[start] |= 1;
    targets[end] |= 2;
}

int dataset_make_synthetic(const struct dataset_options *o, struct dataset *d, struct dataset_origin *origin,
                           struct snug_err *err)
{
    int64_t rows = 0, length = 0;
    const char *s = whole_number(o->path + strlen("synthetic:"), (int64_t)1 << 40, &rows);
    s = s && *s == 'x' ? whole_number(s + 1, AT_LABEL - 1, &length) : NULL;
    if (!s || *s || rows > ((int64_t)1 << 40) / length)
        return err_set(err, SNUG_ERR_USAGE, "%s: write synthetic:ROWSxLENGTH, such as synthetic:1000x128", o->path);
    if (o->max_length && length > o->max_length)
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: rows of %lld tokens are longer than the %d that fit; make them shorter", o->path,
                       (long long)length, (int)o->max_length);
    if (o->vocab_size < 1)
        return err_set(err, SNUG_ERR_USAGE, "%s: needs a vocabulary, not one of %d tokens", o->path,
                       (int)o->vocab_size);
    d->task = o->task == TASK_AUTO ? TASK_CLASS : o->task;
    int32_t source = (int32_t)length;
    length += d->task == TASK_SEQ2SEQ ? target_length(length) : 0;
    int32_t num_labels = o->labels ? o->labels->n : o->num_labels ? o->num_labels : d->task == TASK_REGRESSION ? 1 : 2;
    TRY(allocate(d, rows, length, num_labels, err));
    if (d->task == TASK_SEQ2SEQ)
        TRY(add_sources(d, source, err));
    uint32_t key[2];
    data_key(o->seed, FOR_SYNTHETIC, key);
    for (int64_t row = 0; row < rows; row++) {
        TRY(source_check_stop(o->stop, o->path, err));
        d->offsets[row + 1] = d->offsets[row] + length;
        for (int64_t i = 0; i < length; i++)
            d->ids[d->offsets[row] + i] = data_below(draw(key, row, (uint32_t)i).w[0], o->vocab_size);
        for (int64_t i = 0; d->task == TASK_TOKEN_CLASS && i < length; i++)
            d->targets[d->offsets[row] + i] = data_below(draw(key, row, AT_LABEL + (uint32_t)i).w[0], num_labels);
        if (d->task == TASK_SPAN)
            mark_answer(d, key, row, length);
        if (task_has_label(d->task))
            fill_labels(d, key, row, num_labels);
    }
    const int64_t all[] = {rows, length, o->vocab_size, (int64_t)o->seed, num_labels};
    origin->content = hash_bytes(all, sizeof all);
    if (d->task == TASK_TOKEN_CLASS)
        return labels_of_targets(d, o->path, o->labels, num_labels, err);
    if (d->classes)
        return labels_of_numbers(d, o->path, o->labels, num_labels, err);
    d->label_form = d->values ? LABELS_VECTORS : LABELS_NONE;
    return d->values ? labels_of_values(d, o->path, o->labels, num_labels, num_labels, o->misfit, err) : SNUG_OK;
}
