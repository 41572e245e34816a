/* A dataset whose tokens were made elsewhere: a safetensors file with input_ids (N, S) and perhaps attention_mask and
 * token_type_ids (N, S) and labels. Rows are read one at a time, and go to files where they are too many for memory. */
#include "data/dataset_parts.h"
#include "data/files/source.h"
#include "data/label_reader.h"
#include "data/split.h"
#include "format/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct pretokenized {
    const struct dataset_options *o;
    struct st_file file;
    const struct st_tensor *ids, *mask, *types, *labels;
    int64_t n, width;             /* (N, S) */
    int64_t *row, *row_mask;      /* (S): what is being read, and the mask of the row */
    int32_t *row_ids, *row_types; /* (S) */
    struct token_store tokens;
    bool ignores; /* rows with the label `ignored` are left out */
    double ignored;
    int64_t most_label; /* labels of tokens are below it */
};

static bool is_integer(const struct st_tensor *t)
{
    return t->dtype == DT_I64 || t->dtype == DT_I32 || t->dtype == DT_U8 || t->dtype == DT_BOOL;
}

static bool is_float(const struct st_tensor *t)
{
    return t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_F16 || t->dtype == DT_BF16;
}

/* Elements [from, from + n) as int64. */
static int read_integers(const struct st_file *f, const struct st_tensor *t, int64_t from, int64_t n, int64_t *to,
                         struct snug_err *err)
{
    int64_t size = dtype_bytes(t->dtype, 1);
    /* The raw elements go to the end of `to`, so that widening them from the front overtakes none. */
    char *raw = (char *)(to + n) - n * size;
    TRY(io_read_at(f->io, f->fd, f->path, raw, (size_t)(n * size), t->at + from * size, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t x = 0;
        int32_t narrow = 0;
        if (t->dtype == DT_I64) {
            memcpy(&x, raw + i * size, sizeof x);
        } else if (t->dtype == DT_I32) {
            memcpy(&narrow, raw + i * size, sizeof narrow);
            x = narrow;
        } else {
            x = (uint8_t)raw[i];
        }
        to[i] = x;
    }
    return SNUG_OK;
}

static int bad_tensor(const struct pretokenized *p, const struct st_tensor *t, const char *want, struct snug_err *err)
{
    char shape[128] = "";
    size_t n = 0;
    for (int i = 0; i < t->ndim && n < sizeof shape - 24; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s (%s); %s", p->o->path, t->name, dtype_name(t->dtype), shape,
                   want);
}

static int find(struct pretokenized *p, const char *name, const struct st_tensor **t, struct snug_err *err)
{
    *t = st_find(&p->file, name);
    if (!*t)
        return SNUG_OK;
    if (!is_integer(*t) || (*t)->ndim != 2)
        return bad_tensor(p, *t, "two dimensions (rows, tokens) of I64 or I32 are wanted", err);
    if (p->ids && p->ids != *t && ((*t)->shape[0] != p->n || (*t)->shape[1] != p->width))
        return bad_tensor(p, *t, "the shape of input_ids is wanted", err);
    return SNUG_OK;
}

static int find_tensors(struct pretokenized *p, struct snug_err *err)
{
    TRY(find(p, "input_ids", &p->ids, err));
    if (!p->ids)
        return err_set(err, SNUG_ERR_INPUT, "%s: no tensor 'input_ids'; tokens are read from input_ids (rows, tokens)",
                       p->o->path);
    p->n = p->ids->shape[0];
    p->width = p->ids->shape[1];
    if (p->n < 1 || p->width < 1 || p->width > INT32_MAX)
        return bad_tensor(p, p->ids, "at least one row and one token are wanted", err);
    TRY(find(p, "attention_mask", &p->mask, err));
    return find(p, "token_type_ids", &p->types, err);
}

/* What the labels' dtype and dimensions show, or whether they fit the task asked for. */
static int decide_task(struct pretokenized *p, enum data_task *task, struct snug_err *err)
{
    const struct st_tensor *t = p->labels = *task == TASK_UNLABELED ? NULL : st_find(&p->file, "labels");
    if (!t && *task == TASK_AUTO)
        *task = TASK_UNLABELED;
    if (!t && (task_has_classes(*task) || *task == TASK_SEQ2SEQ))
        return err_set(err, SNUG_ERR_INPUT, "%s: no tensor 'labels'; training needs it", p->o->path);
    if (!t)
        return SNUG_OK;
    if (*task == TASK_SEQ2SEQ)
        return t->ndim == 2 && t->shape[0] == p->n && is_integer(t)
                   ? SNUG_OK
                   : bad_tensor(p, t, "the ids of a target in each row are wanted", err);
    bool asked = *task != TASK_AUTO;
    bool per_row = t->ndim == 1 && t->shape[0] == p->n, per_row_many = t->ndim == 2 && t->shape[0] == p->n;
    if (*task == TASK_AUTO)
        *task = per_row && is_integer(t) ? TASK_CLASS : per_row ? TASK_REGRESSION : TASK_MULTI_LABEL;
    else if (*task == TASK_CLASS || task_has_targets(*task)) {
        bool fits = *task == TASK_CLASS ? per_row : per_row_many && t->shape[1] == p->width;
        return fits && is_integer(t) ? SNUG_OK
               : *task == TASK_CLASS ? bad_tensor(p, t, "one integer per row is wanted", err)
                                     : bad_tensor(p, t, "one integer per token is wanted", err);
    }
    bool fits = (per_row && *task != TASK_MULTI_LABEL) || per_row_many;
    /* As many integers as tokens could be a label of each token: then somebody must have said that they are not. */
    bool number = is_float(t) || (is_integer(t) && (asked || t->ndim == 1 || t->shape[1] != p->width));
    if (!fits || !number)
        return bad_tensor(p, t,
                          *task == TASK_REGRESSION ? "one or more numbers per row are wanted"
                                                   : "a number for each label per row is wanted",
                          err);
    return SNUG_OK;
}

static int allocate(struct pretokenized *p, struct snug_err *err)
{
    size_t n = (size_t)p->width;
    p->row = mem_alloc(n * sizeof *p->row);
    p->row_mask = mem_alloc(n * sizeof *p->row_mask);
    p->row_ids = mem_alloc(n * sizeof *p->row_ids);
    p->row_types = mem_alloc(n * sizeof *p->row_types);
    if (p->row && p->row_mask && p->row_ids && p->row_types)
        return SNUG_OK;
    return err_no_memory(err, n * (2 * sizeof *p->row + 2 * sizeof *p->row_ids));
}

/* The row's tokens are those where the mask is 1: a stretch [*from, *to) with padding before or behind it. */
static int apply_mask(const struct pretokenized *p, struct place at, int64_t *from, int64_t *to, struct snug_err *err)
{
    *from = 0;
    *to = p->width;
    if (!p->mask)
        return SNUG_OK;
    while (*from < p->width && p->row_mask[*from] == 0)
        ++*from;
    for (*to = *from; *to < p->width && p->row_mask[*to] == 1;)
        ++*to;
    if (*from == *to && *from < p->width)
        return err_at(err, SNUG_ERR_INPUT, at,
                      "attention_mask is %lld at position %lld; write 1 for tokens, 0 for padding",
                      (long long)p->row_mask[*from], (long long)*from);
    if (*from == *to)
        return err_at(err, SNUG_ERR_INPUT, at, "attention_mask is 0 everywhere; a row needs a token");
    for (int64_t i = *to; i < p->width; i++)
        if (p->row_mask[i] != 0)
            return err_at(err, SNUG_ERR_INPUT, at, "attention_mask is %lld at position %lld, behind padding",
                          (long long)p->row_mask[i], (long long)i);
    return SNUG_OK;
}

static int read_row_of(const struct pretokenized *p, const struct st_tensor *t, int64_t row, int64_t *to,
                       struct snug_err *err)
{
    return read_integers(&p->file, t, row * p->width, p->width, to, err);
}

/* p->row [from, to) as int32 in [0, limit). */
static int narrow(const struct pretokenized *p, struct place at, const char *what, int64_t limit, int64_t from,
                  int64_t to, int32_t *out, struct snug_err *err)
{
    for (int64_t i = from; i < to; i++) {
        if (p->row[i] < 0 || p->row[i] >= limit)
            return err_at(err, SNUG_ERR_INPUT, at, "%s %lld at position %lld is outside [0, %lld)", what,
                          (long long)p->row[i], (long long)i, (long long)limit);
        out[i - from] = (int32_t)p->row[i];
    }
    return SNUG_OK;
}

/* Of the tokens that are added next. */
static int add_targets(struct pretokenized *p, struct place at, int64_t limit, int64_t from, int64_t to,
                       struct snug_err *err)
{
    struct token_rows *t = &p->tokens.rows;
    size_t end = (size_t)(t->n_tokens + to - from);
    if (!MEM_GROW(t->words, t->words_cap, end))
        return err_no_memory(err, end * sizeof *t->words);
    for (int64_t i = from; i < to; i++) {
        if (p->row[i] != IGNORE_INDEX && (p->row[i] < 0 || p->row[i] >= limit))
            return err_at(err, SNUG_ERR_INPUT, at, "label %lld at position %lld is neither %d nor in [0, %lld)",
                          (long long)p->row[i], (long long)i, IGNORE_INDEX, (long long)limit);
        t->words[t->n_tokens + i - from] = (int32_t)p->row[i];
    }
    return SNUG_OK;
}

/* The row's labels: the ids of its target, up to those that do not count. */
static int add_target(struct pretokenized *p, struct place at, int64_t row, size_t n_source, struct snug_err *err)
{
    int64_t width = p->labels->shape[1], n = 0, vocabulary = p->o->vocab_size > 0 ? p->o->vocab_size : INT32_MAX;
    int64_t *wide = mem_alloc((size_t)width * sizeof *wide);
    int32_t *ids = mem_alloc((size_t)width * sizeof *ids);
    int code = wide && ids ? read_integers(&p->file, p->labels, row * width, width, wide, err)
                           : err_no_memory(err, (size_t)width * sizeof *wide);
    while (!code && n < width && wide[n] != IGNORE_INDEX) {
        if (wide[n] < 0 || wide[n] >= vocabulary)
            code = err_at(err, SNUG_ERR_INPUT, at, "label %lld at position %lld is neither %d nor in [0, %lld)",
                          (long long)wide[n], (long long)n, IGNORE_INDEX, (long long)vocabulary);
        else
            ids[n] = (int32_t)wide[n], n++;
    }
    for (int64_t i = n; i < width && !code; i++)
        if (wide[i] != IGNORE_INDEX)
            code = err_at(err, SNUG_ERR_INPUT, at,
                          "label %lld at position %lld stands behind %d; only the end of a "
                          "target may be left out",
                          (long long)wide[i], (long long)i, IGNORE_INDEX);
    if (!code && !n)
        code = err_at(err, SNUG_ERR_INPUT, at, "labels are %d everywhere; a target needs a token", IGNORE_INDEX);
    if (p->o->max_target_length && n > p->o->max_target_length) {
        n = p->o->max_target_length;
        p->tokens.rows.truncated++;
    }
    if (!code)
        code = token_rows_add_pair(&p->tokens.rows, p->row_ids, n_source, ids, (size_t)n, err);
    mem_free(wide);
    mem_free(ids);
    return code;
}

static int read_row(struct pretokenized *p, int64_t row, bool targets, struct snug_err *err)
{
    struct place at = {.path = p->o->path, .n = row, .is_row = true};
    int64_t from, to, vocabulary = p->o->vocab_size > 0 ? p->o->vocab_size : INT32_MAX;
    if (p->mask)
        TRY(read_row_of(p, p->mask, row, p->row_mask, err));
    TRY(apply_mask(p, at, &from, &to, err));
    if (p->o->max_length > 0 && to - from > p->o->max_length) {
        to = from + p->o->max_length;
        p->tokens.rows.truncated++;
    }
    TRY(read_row_of(p, p->ids, row, p->row, err));
    TRY(narrow(p, at, "token id", vocabulary, from, to, p->row_ids, err));
    if (p->o->task == TASK_SEQ2SEQ)
        return add_target(p, at, row, (size_t)(to - from), err);
    if (p->types) {
        TRY(read_row_of(p, p->types, row, p->row, err));
        TRY(narrow(p, at, "token type", UINT8_MAX + 1, from, to, p->row_types, err));
    }
    if (targets) {
        TRY(read_row_of(p, p->labels, row, p->row, err));
        TRY(add_targets(p, at, p->most_label, from, to, err));
    }
    return token_rows_add(&p->tokens.rows, p->row_ids, p->types ? p->row_types : NULL, (size_t)(to - from), err);
}

static bool is_ignored(const struct pretokenized *p, double label)
{
    return p->ignores && (float)label == (float)p->ignored;
}

/* `drop` (N): rows that are left out for their label. */
static int drop_rows(struct dataset *d, const uint8_t *drop, struct snug_err *err)
{
    for (int64_t row = 0; row < d->n_rows; row++)
        d->ignored += drop[row];
    return d->ignored ? dataset_move_rows(d, drop, NULL, err) : SNUG_OK;
}

static int read_classes(const struct pretokenized *p, uint8_t *drop, struct dataset *d, struct snug_err *err)
{
    size_t bytes = (size_t)p->n * sizeof(int64_t);
    int64_t *wide = mem_alloc(bytes);
    d->classes = mem_alloc((size_t)p->n * sizeof *d->classes);
    int code = wide && d->classes ? read_integers(&p->file, p->labels, 0, p->n, wide, err) : err_no_memory(err, bytes);
    for (int64_t row = 0; row < p->n && !code; row++) {
        struct place at = {.path = p->o->path, .n = row, .is_row = true};
        drop[row] = is_ignored(p, (double)wide[row]);
        if (!drop[row])
            code = label_id_check(wide[row], at, p->o->labels, p->o->num_labels, p->o->misfit, err);
        d->classes[row] = (int32_t)wide[row];
    }
    mem_free(wide);
    if (!code)
        code = drop_rows(d, drop, err);
    return code ? code : labels_of_numbers(d, p->o->path, p->o->labels, p->o->num_labels, err);
}

/* Any number type to float. */
static int read_floats(const struct pretokenized *p, int64_t n, float *to, struct snug_err *err)
{
    size_t bytes = (size_t)n * sizeof(int64_t);
    void *raw = mem_alloc(bytes);
    int code = raw ? SNUG_OK : err_no_memory(err, bytes);
    if (!code && is_integer(p->labels)) {
        code = read_integers(&p->file, p->labels, 0, n, raw, err);
        for (int64_t i = 0; i < n && !code; i++)
            to[i] = (float)((int64_t *)raw)[i];
    } else if (!code) {
        code = st_read(&p->file, p->labels, raw, err);
        if (!code)
            dtype_convert(to, DT_F32, raw, p->labels->dtype, n);
    }
    mem_free(raw);
    return code;
}

static int read_values(const struct pretokenized *p, uint8_t *drop, struct dataset *d, struct snug_err *err)
{
    int64_t width = p->labels->ndim == 2 ? p->labels->shape[1] : 1;
    size_t bytes = (size_t)(p->n * width) * sizeof *d->values;
    d->values = mem_alloc(bytes);
    if (!d->values)
        return err_no_memory(err, bytes);
    TRY(read_floats(p, p->n * width, d->values, err));
    for (int64_t i = 0; i < p->n * width; i++)
        drop[i / width] |= is_ignored(p, (double)d->values[i]);
    for (int64_t i = 0; i < p->n * width; i++) {
        struct place at = {.path = p->o->path, .n = i / width, .is_row = true};
        float x = d->values[i];
        if (drop[i / width])
            continue;
        if (!isfinite(x) || (d->task == TASK_MULTI_LABEL && !(x >= 0 && x <= 1)))
            return err_at(err, SNUG_ERR_INPUT, at, "label %g is not %s", (double)x,
                          d->task == TASK_MULTI_LABEL ? "between 0 and 1" : "finite");
    }
    d->label_form = LABELS_VECTORS;
    d->num_labels = (int32_t)width;
    TRY(drop_rows(d, drop, err));
    return labels_of_values(d, p->o->path, p->o->labels, p->o->num_labels, width, p->o->misfit, err);
}

static int read_labels(struct pretokenized *p, struct dataset *d, struct snug_err *err)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", 0);
    uint8_t *drop = mem_alloc((size_t)p->n);
    int code = c && drop ? SNUG_OK : err_no_memory(err, (size_t)p->n);
    if (!code) {
        p->ignores = p->o->ignore_label && label_number(p->o->ignore_label, &p->ignored, c);
        code = d->task == TASK_CLASS ? read_classes(p, drop, d, err) : read_values(p, drop, d, err);
    }
    if (c)
        freelocale(c);
    mem_free(drop);
    return code;
}

static int read_rows(struct pretokenized *p, bool targets, struct snug_err *err)
{
    for (int64_t row = 0; row < p->n; row++) {
        TRY(read_row(p, row, targets, err));
        TRY(dataset_settle(p->o, &p->tokens, err));
        TRY(source_check_stop(p->o->stop, p->o->path, err));
    }
    return SNUG_OK;
}

static int read_all(struct pretokenized *p, struct dataset *d, struct snug_err *err)
{
    d->task = p->o->task;
    TRY(find_tensors(p, err));
    TRY(decide_task(p, &d->task, err));
    TRY(allocate(p, err));
    bool targets = p->labels && task_has_targets(d->task) && d->task != TASK_SEQ2SEQ;
    p->most_label = task_is_lm(d->task)    ? p->o->vocab_size > 0 ? p->o->vocab_size : INT32_MAX
                    : d->task == TASK_SPAN ? 4
                    : p->o->labels         ? p->o->labels->n
                    : p->o->num_labels     ? p->o->num_labels
                                           : LABELS_MAX;
    TRY(read_rows(p, targets, err));
    TRY(token_store_finish(&p->tokens, d, err));
    d->targets = d->words;
    d->words = NULL;
    if (d->task == TASK_TOKEN_CLASS)
        return labels_of_targets(d, p->o->path, p->o->labels, p->o->num_labels, err);
    return task_has_label(d->task) ? read_labels(p, d, err) : SNUG_OK;
}

int dataset_read_safetensors(const struct io *io, const struct dataset_options *o, const char *dir, struct dataset *d,
                             struct dataset_origin *origin, struct snug_err *err)
{
    struct pretokenized p = {.o = o};
    const struct token_store_options store = dataset_store(io, o, dir);
    TRY(st_open(io, o->path, &p.file, err));
    token_store_open(&p.tokens, &store);
    const struct st_file *f = &p.file;
    int code = source_hash_open(io, f->fd, o->path, f->file_bytes, o->stop, &origin->content, err);
    if (!code)
        code = read_all(&p, d, err);
    if (!code)
        code = source_check_unchanged(io, f->fd, o->path, f->file_bytes, f->identity.st_mtim, err);
    st_close(&p.file);
    mem_free(p.row);
    mem_free(p.row_mask);
    mem_free(p.row_ids);
    mem_free(p.row_types);
    token_store_close(&p.tokens);
    return code;
}
