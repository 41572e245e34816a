/* What a label column holds, decided when all of it has been read: the map of names to ids, and ids or values per row.
 */
#include "data/label_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int numbered_map(struct label_map *m, const char *prefix, int32_t n, const char *path, struct snug_err *err)
{
    struct arena a = {0};
    const char **names = arena_alloc(&a, (size_t)n * sizeof *names);
    bool failed = !names;
    for (int32_t i = 0; i < n && !failed; i++)
        failed = !(names[i] = arena_printf(&a, "%s%d", prefix, (int)i));
    int code = failed ? err_no_memory(err, (size_t)n * 32) : label_map_init(m, names, n, path, err);
    arena_free(&a);
    m->from_data = true;
    return code;
}

static int too_few_classes(const char *path, const char *name, int64_t n_rows, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s: all %lld rows have one label, '%s'; at least two are needed", path,
                   (long long)n_rows, name);
}

/* `least` and `greatest` of all classes. */
static int numbers_from(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                        int32_t least, int32_t greatest, struct snug_err *err)
{
    d->num_labels = given ? given->n : num_labels ? num_labels : greatest + 1;
    d->label_form = LABELS_NUMBERS;
    if (given)
        return label_map_copy(&d->labels, given, path, err);
    char text[16];
    snprintf(text, sizeof text, "%d", (int)least);
    if (!num_labels && least == greatest)
        return too_few_classes(path, text, d->n_rows, err);
    return numbered_map(&d->labels, "", d->num_labels, path, err);
}

int labels_of_numbers(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                      struct snug_err *err)
{
    int32_t greatest = 0, least = INT32_MAX;
    for (int64_t i = 0; i < d->n_rows; i++) {
        greatest = d->classes[i] > greatest ? d->classes[i] : greatest;
        least = d->classes[i] < least ? d->classes[i] : least;
    }
    return numbers_from(d, path, given, num_labels, least, greatest, err);
}

int labels_of_targets(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                      struct snug_err *err)
{
    int32_t greatest = 0, least = INT32_MAX;
    for (int64_t i = 0; i < d->n_tokens; i++) {
        if (d->targets[i] == IGNORE_INDEX)
            continue;
        greatest = d->targets[i] > greatest ? d->targets[i] : greatest;
        least = d->targets[i] < least ? d->targets[i] : least;
    }
    if (least == INT32_MAX)
        return err_set(err, SNUG_ERR_INPUT, "%s: no token has a label; give some data with labels", path);
    return numbers_from(d, path, given, num_labels, least, greatest, err);
}

int labels_of_values(struct dataset *d, const char *path, const struct label_map *given, int32_t num_labels,
                     int64_t width, const char *misfit, struct snug_err *err)
{
    long long want = given ? given->n : num_labels ? num_labels : width;
    if (width != want)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: rows have %lld labels where %lld are expected; use matching data, or %s", path,
                       (long long)width, want, misfit ? misfit : "another model or --num-labels");
    if (width > LABELS_MAX)
        return err_set(err, SNUG_ERR_INPUT, "%s: %lld labels are over the limit of %d", path, (long long)width,
                       LABELS_MAX);
    d->num_labels = (int32_t)width;
    return given ? label_map_copy(&d->labels, given, path, err)
                 : numbered_map(&d->labels, "LABEL_", d->num_labels, path, err);
}

static bool all_are_one(const struct label_reader *r)
{
    for (int64_t i = 1; i < r->n_items; i++)
        if (r->ids[i] != r->ids[0])
            return false;
    return r->n_items;
}

static int by_name(const void *a, const void *b)
{
    const struct seen_name *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Sorted names give the ids, or the file's own order of them; r->ids change from indices of `seen` to these. */
static int map_of_names(struct label_reader *r, const char *path, struct label_map *m, struct snug_err *err)
{
    if (r->given)
        return label_map_copy(m, r->given, path, err);
    if (r->num_labels && r->num_labels != r->n_seen)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: the data name %d labels, not the %d of the model's head or --num-labels; use matching data, or %s",
            path, (int)r->n_seen, (int)r->num_labels, r->misfit ? r->misfit : "a base model without --num-labels");
    if (all_are_one(r) && (r->task == TASK_CLASS || r->task == TASK_TOKEN_CLASS))
        return too_few_classes(path, r->seen[r->ids[0]].name, r->n_rows, err);
    struct arena a = {0};
    struct seen_name **sorted = arena_alloc(&a, (size_t)r->n_seen * sizeof *sorted);
    const char **names = arena_alloc(&a, (size_t)r->n_seen * sizeof *names);
    int code = sorted && names ? SNUG_OK : err_no_memory(err, (size_t)r->n_seen * sizeof *names);
    for (int32_t i = 0; i < r->n_seen && !code; i++)
        sorted[i] = &r->seen[i];
    if (!code && r->n_seen && !r->columns->classes)
        qsort(sorted, (size_t)r->n_seen, sizeof *sorted, by_name);
    for (int32_t i = 0; i < r->n_seen && !code; i++) {
        sorted[i]->id = i;
        names[i] = sorted[i]->name;
    }
    if (!code)
        code = label_map_init(m, names, r->n_seen, path, err);
    arena_free(&a);
    if (code)
        return code;
    m->from_data = true;
    m->numbers = false; /* names were written, even if they are "0" and "1" in quotes */
    for (int64_t i = 0; i < r->n_items; i++)
        r->ids[i] = r->seen[r->ids[i]].id;
    return SNUG_OK;
}

static int finish_classes(struct label_reader *r, const char *path, struct dataset *d, struct snug_err *err)
{
    if (r->are_names)
        TRY(map_of_names(r, path, &d->labels, err));
    d->classes = r->ids;
    r->ids = NULL;
    if (!r->are_names)
        return labels_of_numbers(d, path, r->given, r->num_labels, err);
    d->label_form = LABELS_NAMES;
    d->num_labels = d->labels.n;
    return SNUG_OK;
}

static int64_t row_start(const struct label_reader *r, int64_t row)
{
    return row ? r->row_ends[row - 1] : 0;
}

static int make_values(struct label_reader *r, struct dataset *d, int64_t width, struct snug_err *err)
{
    size_t bytes = (size_t)r->n_rows * (size_t)width * sizeof *d->values;
    d->values = mem_alloc(bytes);
    return d->values ? SNUG_OK : err_no_memory(err, bytes);
}

/* Every row has `width` numbers: they are the values. */
static int finish_vectors(struct label_reader *r, const char *path, struct dataset *d, int64_t width,
                          struct snug_err *err)
{
    TRY(make_values(r, d, width, err));
    for (int64_t i = 0; i < r->n_items; i++)
        d->values[i] = (float)r->numbers[i];
    d->label_form = LABELS_VECTORS;
    return labels_of_values(d, path, r->given, r->num_labels, width, r->misfit, err);
}

/* The output of each label column: of its name, or if the model has no names, of its place. */
static int outputs_of_columns(const struct label_reader *r, const char *path, int32_t *outputs, struct snug_err *err)
{
    const struct columns *c = r->columns;
    for (int i = 0; i < c->n_labels; i++) {
        const char *name = c->names[c->labels[i]];
        outputs[i] = r->given && !r->given->numbers ? label_map_find(r->given, name) : i;
        if (outputs[i] < 0)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: the column '%s' is not one of the %d labels of the %s ('%s', ...); correct it, or %s",
                           path, name, (int)r->given->n, r->given->from_data ? "training data" : "model",
                           r->given->n ? r->given->names[0] : "",
                           r->misfit && !r->given->from_data ? r->misfit : "leave the column out");
    }
    return SNUG_OK;
}

static int name_columns(const struct label_reader *r, const char *path, struct label_map *m, struct snug_err *err)
{
    const struct columns *c = r->columns;
    struct arena a = {0};
    const char **names = arena_alloc(&a, (size_t)c->n_labels * sizeof *names);
    int code = names ? SNUG_OK : err_no_memory(err, (size_t)c->n_labels * sizeof *names);
    for (int i = 0; i < c->n_labels && !code; i++)
        names[i] = c->names[c->labels[i]];
    label_map_free(m);
    if (!code)
        code = label_map_init(m, names, c->n_labels, path, err);
    m->from_data = true;
    arena_free(&a);
    return code;
}

/* A number for each label column. */
static int finish_columns(struct label_reader *r, const char *path, struct dataset *d, struct snug_err *err)
{
    int64_t width = r->columns->n_labels;
    int32_t *outputs = mem_alloc((size_t)width * sizeof *outputs);
    int code = outputs ? make_values(r, d, width, err) : err_no_memory(err, (size_t)width * sizeof *outputs);
    d->label_form = LABELS_VECTORS;
    if (!code)
        code = labels_of_values(d, path, r->given, r->num_labels, width, r->misfit, err);
    if (!code)
        code = outputs_of_columns(r, path, outputs, err);
    for (int64_t i = 0; i < r->n_items && !code; i++)
        d->values[i / width * width + outputs[i % width]] = (float)r->numbers[i];
    if (!code && !r->given)
        code = name_columns(r, path, &d->labels, err);
    mem_free(outputs);
    return code;
}

/* Rows list the ids of their labels, which are in r->ids: 1 there, 0 elsewhere. */
static int fill_from_ids(struct label_reader *r, struct dataset *d, struct snug_err *err)
{
    TRY(make_values(r, d, d->num_labels, err));
    for (int64_t row = 0; row < r->n_rows; row++)
        for (int64_t i = row_start(r, row); i < r->row_ends[row]; i++)
            d->values[row * d->num_labels + r->ids[i]] = 1;
    return SNUG_OK;
}

static bool are_vectors(const struct label_reader *r)
{
    int64_t width = r->row_ends[0];
    for (int64_t row = 0; row < r->n_rows; row++)
        if (r->row_ends[row] - row_start(r, row) != width)
            return false;
    for (int64_t i = 0; i < r->n_items; i++)
        if (!(r->numbers[i] >= 0 && r->numbers[i] <= 1))
            return false;
    return width >= 2;
}

/* An id twice in a row tells that rows were meant as vectors, of which one has another length. */
static int check_once(const struct label_reader *r, const char *path, struct snug_err *err)
{
    int64_t width = r->row_ends[0], other = 0;
    while (other + 1 < r->n_rows && r->row_ends[other] - row_start(r, other) == width)
        other++;
    for (int64_t row = 0; row < r->n_rows; row++)
        for (int64_t i = row_start(r, row); i < r->row_ends[row]; i++)
            for (int64_t k = i + 1; k < r->row_ends[row]; k++)
                if (r->ids[i] == r->ids[k])
                    return err_set(err, SNUG_ERR_INPUT,
                                   "%s: row %lld has label %d twice, and row %lld has %lld labels where row 1 has "
                                   "%lld; write a 0 or 1 for each label in all rows, or each id once",
                                   path, (long long)row + 1, (int)r->ids[i], (long long)other + 1,
                                   (long long)(r->row_ends[other] - row_start(r, other)), (long long)width);
    return SNUG_OK;
}

/* Numbers for TASK_MULTI_LABEL: a 0 or 1 (or something between) for each label, or else lists of ids. */
static int finish_multi_numbers(struct label_reader *r, const char *path, struct dataset *d, struct snug_err *err)
{
    if (are_vectors(r))
        return finish_vectors(r, path, d, r->row_ends[0], err);
    char first[32];
    snprintf(first, sizeof first, "%g", r->numbers[0]);
    TRY(label_numbers_check(first, r->first, r->given, err));
    int32_t greatest = 0;
    r->ids = mem_alloc((size_t)r->n_items * sizeof *r->ids);
    if (!r->ids)
        return err_no_memory(err, (size_t)r->n_items * sizeof *r->ids);
    for (int64_t i = 0; i < r->n_items; i++) {
        double x = r->numbers[i];
        if (x != floor(x) || x < 0 || x >= LABELS_MAX)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: label %g is not an id from 0 to %d, and rows are not equally long lists of 0 and 1",
                           path, x, LABELS_MAX - 1);
        r->ids[i] = (int32_t)x;
        greatest = r->ids[i] > greatest ? r->ids[i] : greatest;
    }
    TRY(check_once(r, path, err));
    int32_t n = r->given ? r->given->n : r->num_labels ? r->num_labels : greatest + 1;
    if (greatest >= n)
        return err_set(err, SNUG_ERR_INPUT, "%s: label %d is out of range: %d labels are numbered 0 to %d", path,
                       (int)greatest, (int)n, (int)n - 1);
    TRY(labels_of_values(d, path, r->given, r->num_labels, n, r->misfit, err));
    d->label_form = LABELS_NUMBERS;
    return fill_from_ids(r, d, err);
}

/* The class of each word at its first token. */
static int finish_words(struct label_reader *r, const char *path, struct dataset *d, struct snug_err *err)
{
    if (!r->any)
        return err_set(err, SNUG_ERR_INPUT, "%s: no row has a word with a tag; give some data", path);
    if (r->are_names)
        TRY(map_of_names(r, path, &d->labels, err));
    d->targets = d->words;
    d->words = NULL;
    for (int64_t row = 0; row < d->n_rows; row++)
        for (int64_t i = d->offsets[row]; i < d->offsets[row + 1]; i++)
            d->targets[i] = d->targets[i] < 0 ? IGNORE_INDEX : r->ids[row_start(r, row) + d->targets[i]];
    if (!r->are_names)
        return labels_of_targets(d, path, r->given, r->num_labels, err);
    d->label_form = LABELS_NAMES;
    d->num_labels = d->labels.n;
    return SNUG_OK;
}

int label_reader_finish(struct label_reader *r, const char *path, struct dataset *d, struct snug_err *err)
{
    d->ignored = r->n_ignored;
    if (r->task == TASK_CLASS)
        return finish_classes(r, path, d, err);
    if (r->task == TASK_TOKEN_CLASS)
        return finish_words(r, path, d, err);
    if (r->column_each)
        return finish_columns(r, path, d, err);
    if (r->task == TASK_REGRESSION)
        return finish_vectors(r, path, d, r->row_ends[0], err);
    if (r->any && !r->are_names)
        return finish_multi_numbers(r, path, d, err);
    if (!r->any && !r->given)
        return err_set(err, SNUG_ERR_INPUT, "%s: no row has a label", path);
    TRY(map_of_names(r, path, &d->labels, err));
    d->label_form = LABELS_NAMES;
    d->num_labels = d->labels.n;
    return fill_from_ids(r, d, err);
}
