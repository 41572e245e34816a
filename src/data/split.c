#include "data/split.h"

#include "data/dataset_parts.h"
#include "data/order.h"
#include "data/random.h"
#include "data/tokens/token_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- moving rows ---- */

/* `n` items of a row each, (n_rows, n): the moved ones to `out`, unless it is NULL, the others to the front. */
static void part_items(void *items, size_t item_bytes, int64_t n_rows, const uint8_t *which, void *out)
{
    char *from = items, *kept = items, *moved = out;
    for (int64_t row = 0; items && row < n_rows; row++, from += item_bytes) {
        if (!which[row]) {
            memmove(kept, from, item_bytes);
            kept += item_bytes;
        } else if (moved) {
            memcpy(moved, from, item_bytes);
            moved += item_bytes;
        }
    }
}

/* Items of a token each, (n_tokens). */
static void part_tokens(void *items, size_t item_bytes, const struct dataset *d, const uint8_t *which, void *out)
{
    char *all = items, *kept = items, *moved = out;
    for (int64_t row = 0; items && row < d->n_rows; row++) {
        size_t bytes = (size_t)dataset_length(d, row) * item_bytes;
        const char *from = all + (size_t)d->offsets[row] * item_bytes;
        if (!which[row]) {
            memmove(kept, from, bytes);
            kept += bytes;
        } else if (moved) {
            memcpy(moved, from, bytes);
            moved += bytes;
        }
    }
}

static struct dataset like(const struct dataset *d, int64_t n_rows, int64_t n_tokens)
{
    return (struct dataset){.path = d->path,
                            .task = d->task,
                            .n_rows = n_rows,
                            .n_tokens = n_tokens,
                            .num_labels = d->num_labels,
                            .label_form = d->label_form,
                            .start_id = d->start_id};
}

static int allocate(const struct dataset *d, int64_t n_rows, int64_t n_tokens, struct dataset *out,
                    struct snug_err *err)
{
    size_t rows = (size_t)n_rows, tokens = (size_t)n_tokens, width = (size_t)d->num_labels;
    *out = like(d, n_rows, n_tokens);
    out->offsets = mem_alloc((rows + 1) * sizeof *out->offsets);
    out->ids = mem_alloc(tokens * sizeof *out->ids);
    out->types = d->types ? mem_alloc(tokens) : NULL;
    out->loss_mask = d->loss_mask ? mem_alloc(tokens) : NULL;
    out->classes = d->classes ? mem_alloc(rows * sizeof *out->classes) : NULL;
    out->values = d->values ? mem_alloc(rows * width * sizeof *out->values) : NULL;
    out->targets = d->targets ? mem_alloc(tokens * sizeof *out->targets) : NULL;
    out->sources = d->sources ? mem_alloc(rows * sizeof *out->sources) : NULL;
    bool all = out->offsets && out->ids && !out->types == !d->types && !out->loss_mask == !d->loss_mask &&
               !out->classes == !d->classes && !out->values == !d->values && !out->targets == !d->targets &&
               !out->sources == !d->sources;
    int code = all ? SNUG_OK : err_no_memory(err, (tokens + rows) * sizeof *out->ids);
    if (!code && d->labels.n)
        code = label_map_copy(&out->labels, &d->labels, d->path, err);
    if (code)
        dataset_close(out);
    return code;
}

/* Last, because the lengths of rows are read from them. */
static void part_offsets(struct dataset *d, const uint8_t *which, struct dataset *out)
{
    int64_t kept = 0, moved = 0, end = 0, out_end = 0, start = 0;
    for (int64_t row = 0; row < d->n_rows; row++) {
        int64_t next = d->offsets[row + 1], length = next - start;
        start = next;
        if (!which[row])
            d->offsets[++kept] = end += length;
        else if (out)
            out->offsets[++moved] = out_end += length;
    }
    d->n_rows = kept;
    d->n_tokens = end;
}

/* ---- of data in files, which are not written to ---- */

/* Tokens of the rows whose `which` is `side`. */
static int store_side(const struct dataset *d, const uint8_t *which, uint8_t side, struct token_store *s,
                      struct snug_err *err)
{
    bool no_folder;
    for (int64_t row = 0; row < d->n_rows; row++) {
        int64_t at = d->offsets[row], offsets[] = {0, d->offsets[row + 1] - at};
        const struct token_rows one = {.n_rows = 1,
                                       .n_tokens = offsets[1],
                                       .offsets = offsets,
                                       .ids = d->ids + at,
                                       .types = d->types ? d->types + at : NULL,
                                       .any_type = d->types != NULL,
                                       .loss_mask = d->loss_mask ? d->loss_mask + at : NULL,
                                       .words = d->targets ? d->targets + at : NULL,
                                       .sources = d->sources ? d->sources + row : NULL};
        if (!which[row] == !side)
            TRY(token_rows_append(&s->rows, &one, err));
        TRY(token_store_settle(s, &no_folder, NULL, err));
        if (row % 8192 == 0)
            dataset_release(d);
    }
    return SNUG_OK;
}

/* What each row has besides tokens. */
static int copy_labels(const struct dataset *d, const uint8_t *which, uint8_t side, struct dataset *out,
                       struct snug_err *err)
{
    size_t rows = (size_t)out->n_rows, width = (size_t)d->num_labels;
    out->classes = d->classes ? mem_alloc(rows * sizeof *out->classes) : NULL;
    out->values = d->values ? mem_alloc(rows * width * sizeof *out->values) : NULL;
    if (!out->classes != !d->classes || !out->values != !d->values)
        return err_no_memory(err, rows * sizeof *out->values);
    for (int64_t row = 0, to = 0; row < d->n_rows; row++) {
        if (!which[row] != !side)
            continue;
        if (d->classes)
            out->classes[to] = d->classes[row];
        if (d->values)
            memcpy(out->values + (size_t)to * width, d->values + (size_t)row * width, width * sizeof *d->values);
        to++;
    }
    return d->labels.n ? label_map_copy(&out->labels, &d->labels, d->path, err) : SNUG_OK;
}

static int make_side(const struct dataset *d, const uint8_t *which, uint8_t side, struct dataset *out,
                     struct snug_err *err)
{
    struct token_store s;
    const struct token_store_options o = {.io = d->files.io, .dir = d->files.dir, .in_memory = d->files.in_memory};
    token_store_open(&s, &o);
    *out = like(d, 0, 0);
    int code = store_side(d, which, side, &s, err);
    if (!code)
        code = token_store_finish(&s, out, err);
    token_store_close(&s);
    if (!code)
        code = copy_labels(d, which, side, out, err);
    out->targets = out->words;
    out->words = NULL;
    if (code)
        dataset_close(out);
    return code;
}

static int make_both(struct dataset *d, const uint8_t *which, struct dataset *out, struct snug_err *err)
{
    struct dataset kept;
    TRY(make_side(d, which, 0, &kept, err));
    int code = out ? make_side(d, which, 1, out, err) : SNUG_OK;
    if (code) {
        dataset_close(&kept);
        return code;
    }
    kept.truncated = d->truncated;
    kept.empty = d->empty;
    kept.ignored = d->ignored;
    kept.no_target = d->no_target;
    dataset_close(d);
    *d = kept;
    return SNUG_OK;
}

/* ---- either way ---- */

int dataset_move_rows(struct dataset *d, const uint8_t *which, struct dataset *out, struct snug_err *err)
{
    int64_t n_rows = 0, n_tokens = 0;
    if (d->files.n_maps)
        return make_both(d, which, out, err);
    for (int64_t row = 0; row < d->n_rows; row++) {
        n_rows += which[row] != 0;
        n_tokens += which[row] ? dataset_length(d, row) : 0;
    }
    if (out)
        TRY(allocate(d, n_rows, n_tokens, out, err));
    part_tokens(d->ids, sizeof *d->ids, d, which, out ? out->ids : NULL);
    part_tokens(d->types, sizeof *d->types, d, which, out ? out->types : NULL);
    part_tokens(d->loss_mask, sizeof *d->loss_mask, d, which, out ? out->loss_mask : NULL);
    part_tokens(d->targets, sizeof *d->targets, d, which, out ? out->targets : NULL);
    part_items(d->sources, sizeof *d->sources, d->n_rows, which, out ? out->sources : NULL);
    part_items(d->classes, sizeof *d->classes, d->n_rows, which, out ? out->classes : NULL);
    part_items(d->values, (size_t)d->num_labels * sizeof *d->values, d->n_rows, which, out ? out->values : NULL);
    part_offsets(d, which, out);
    return SNUG_OK;
}

/* ---- choosing them ---- */

struct stratum {
    int32_t id;
    int64_t rows, take, remainder;
};

static int by_remainder(const void *a, const void *b)
{
    const struct stratum *x = a, *y = b;
    return x->remainder != y->remainder ? (x->remainder < y->remainder) - (x->remainder > y->remainder)
                                        : (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b)
{
    const struct stratum *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int32_t stratum_of(const struct dataset *d, int64_t row)
{
    return d->classes ? d->classes[row] : 0;
}

/* How many rows of each stratum are taken, of `want` all together. */
static void share_out(const struct dataset *d, struct stratum *s, int32_t n, int64_t want)
{
    for (int32_t i = 0; i < n; i++)
        s[i].id = i;
    for (int64_t row = 0; row < d->n_rows; row++)
        s[stratum_of(d, row)].rows++;
    int64_t left = want;
    for (int32_t i = 0; i < n; i++) {
        s[i].take = want * s[i].rows / d->n_rows;
        s[i].remainder = want * s[i].rows % d->n_rows;
        left -= s[i].take;
    }
    qsort(s, (size_t)n, sizeof *s, by_remainder);
    for (int64_t before = -1; left > 0 && left != before;) {
        before = left;
        for (int32_t i = 0; i < n && left > 0; i++)
            if (s[i].take + 1 < s[i].rows) {
                s[i].take++;
                left--;
            }
    }
    qsort(s, (size_t)n, sizeof *s, by_id);
}

/* Goes through the rows in a random order of their own. */
static int choose(const struct dataset *d, struct stratum *s, uint64_t seed, uint8_t *which, struct snug_err *err)
{
    struct order order;
    TRY(order_open(&order, ORDER_RANDOM, d->n_rows, seed, NULL, 0, err));
    data_key(seed, FOR_SPLIT, order.key);
    for (int64_t i = 0; i < d->n_rows; i++) {
        int64_t row = order_row(&order, 0, i);
        struct stratum *of = &s[stratum_of(d, row)];
        which[row] = of->take > 0;
        of->take -= which[row];
    }
    order_close(&order);
    return SNUG_OK;
}

/* What a resumed run must agree on. */
static void mark(struct dataset *d, struct hash128 before, struct hash128 rows, const char *part)
{
    char text[80], a[33], b[33];
    hash_hex(before, a);
    hash_hex(rows, b);
    int n = snprintf(text, sizeof text, "%s %s %s", a, b, part);
    d->fingerprint = hash_bytes(text, (size_t)n);
}

static int split(struct dataset *d, struct stratum *s, int32_t n, int64_t want, uint64_t seed, uint8_t *which,
                 struct dataset *held_out, struct snug_err *err)
{
    share_out(d, s, n, want);
    TRY(choose(d, s, seed, which, err));
    struct hash128 rows = hash_bytes(which, (size_t)d->n_rows), before = d->fingerprint;
    TRY(dataset_move_rows(d, which, held_out, err));
    if (!held_out->n_rows) {
        dataset_close(held_out);
        return err_set(err, SNUG_ERR_INPUT, "%s: --eval-split can hold out none of %lld rows; each label needs two",
                       d->path, (long long)d->n_rows);
    }
    mark(d, before, rows, "train");
    mark(held_out, before, rows, "eval");
    int code = dataset_measure(d, d->path, err);
    if (!code)
        code = dataset_measure(held_out, d->path, err);
    if (code)
        dataset_close(held_out);
    return code;
}

int dataset_split(struct dataset *d, double share, uint64_t seed, struct dataset *held_out, struct snug_err *err)
{
    int32_t n = d->classes ? d->num_labels : 1;
    int64_t want = (int64_t)ceil(share * (double)d->n_rows);
    if (want >= d->n_rows)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: --eval-split %g of %lld rows leaves none to train on; use less, or more data", d->path,
                       share, (long long)d->n_rows);
    struct stratum *s = mem_alloc((size_t)n * sizeof *s);
    uint8_t *which = mem_alloc((size_t)d->n_rows);
    int code = s && which ? split(d, s, n, want, seed, which, held_out, err)
                          : err_no_memory(err, (size_t)d->n_rows + (size_t)n * sizeof *s);
    mem_free(s);
    mem_free(which);
    return code;
}
