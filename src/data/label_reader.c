#include "data/label_reader.h"

#include "base/str.h"
#include "data/files/number.h"
#include "format/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool label_number(const char *text, double *x, locale_t c_locale)
{
    enum number_kind kind = number_kind(text, strlen(text));
    bool is_number = kind == NUMBER_INTEGER || kind == NUMBER_REAL;
    *x = is_number ? number_value(text, c_locale) : 0;
    return is_number;
}

void label_reader_close(struct label_reader *r)
{
    for (int32_t i = 0; i < r->n_seen; i++)
        mem_free(r->seen[i].name);
    mem_free(r->seen);
    mem_free(r->slots);
    mem_free(r->ids);
    mem_free(r->numbers);
    mem_free(r->row_ends);
    if (r->c_locale)
        freelocale(r->c_locale);
    *r = (struct label_reader){0};
}

/* ---- different names ---- */

static size_t slot_of(const struct label_reader *r, const char *name)
{
    size_t i = (size_t)hash_bytes(name, strlen(name)).low % r->n_slots;
    while (r->slots[i] >= 0 && strcmp(r->seen[r->slots[i]].name, name) != 0)
        i = (i + 1) % r->n_slots;
    return i;
}

static int grow_slots(struct label_reader *r, struct snug_err *err)
{
    size_t n = r->n_slots ? r->n_slots * 4 : 256;
    int32_t *slots = mem_realloc(r->slots, n * sizeof *slots);
    if (!slots)
        return err_no_memory(err, n * sizeof *slots);
    r->slots = slots;
    r->n_slots = n;
    memset(slots, 0xFF, n * sizeof *slots);
    for (int32_t i = 0; i < r->n_seen; i++)
        slots[slot_of(r, r->seen[i].name)] = i;
    return SNUG_OK;
}

static int see(struct label_reader *r, struct place p, const char *name, int32_t *index, struct snug_err *err)
{
    if ((size_t)r->n_seen * 2 >= r->n_slots)
        TRY(grow_slots(r, err));
    size_t slot = slot_of(r, name);
    *index = r->slots[slot];
    if (*index >= 0)
        return SNUG_OK;
    if (r->n_seen == LABELS_MAX)
        return err_at(err, SNUG_ERR_INPUT, p,
                      "label '%s' is one more than %d different labels; is it the right column?", name, LABELS_MAX);
    char *copy = mem_strdup(name);
    if (!copy || !MEM_GROW(r->seen, r->seen_cap, (size_t)r->n_seen + 1)) {
        mem_free(copy);
        return err_no_memory(err, strlen(name) + 1);
    }
    r->seen[r->n_seen].name = copy;
    *index = r->slots[slot] = r->n_seen++;
    return SNUG_OK;
}

/* ---- opening ---- */

int label_reader_open(struct label_reader *r, enum data_task task, const struct dataset_options *o,
                      const struct columns *columns, struct snug_err *err)
{
    *r = (struct label_reader){.task = task,
                               .given = o->labels,
                               .num_labels = o->num_labels,
                               .misfit = o->misfit,
                               .columns = columns,
                               .column_each = columns->n_labels > 1,
                               .ignore = o->ignore_label};
    if (r->column_each && task == TASK_CLASS)
        return err_set(
            err, SNUG_ERR_USAGE,
            "--label-column: %d columns are no single label; give --problem-type multi_label_classification, "
            "or regression",
            columns->n_labels);
    r->c_locale = newlocale(LC_ALL_MASK, "C", 0);
    if (!r->c_locale)
        return err_no_memory(err, 4096);
    for (int32_t i = 0, id; i < columns->n_classes && !r->given && r->task != TASK_REGRESSION; i++)
        TRY(see(r, (struct place){.path = o->path}, columns->classes[i], &id, err));
    r->ignore_is_number = r->ignore && label_number(r->ignore, &r->ignore_number, r->c_locale);
    return SNUG_OK;
}

/* ---- one item ---- */

static int same_form(struct label_reader *r, struct place p, const char *item, bool is_name, struct snug_err *err)
{
    if (!r->any) {
        r->any = true;
        r->are_names = is_name;
        r->first = p;
    }
    if (r->are_names == is_name)
        return SNUG_OK;
    return err_at(err, SNUG_ERR_INPUT, p, "label '%s' is a %s, but that of %s %lld is a %s; use one kind only", item,
                  is_name ? "name" : "number", p.is_row ? "row" : "line", (long long)r->first.n,
                  is_name ? "number" : "name");
}

static int push_id(struct label_reader *r, int32_t id, struct snug_err *err)
{
    if (!MEM_GROW(r->ids, r->ids_cap, (size_t)r->n_items + 1))
        return err_no_memory(err, (size_t)r->n_items * sizeof *r->ids);
    r->ids[r->n_items++] = id;
    return SNUG_OK;
}

static int push_number(struct label_reader *r, double x, struct snug_err *err)
{
    if (!MEM_GROW(r->numbers, r->numbers_cap, (size_t)r->n_items + 1))
        return err_no_memory(err, (size_t)r->n_items * sizeof *r->numbers);
    r->numbers[r->n_items++] = x;
    return SNUG_OK;
}

/* -1, 0, or 1: "true" and "false" in any case, as spreadsheets and languages write them. */
static int truth_of(const char *text)
{
    return strcasecmp(text, "true") == 0 ? 1 : strcasecmp(text, "false") == 0 ? 0 : -1;
}

/* A truth value is the same label however it is spelt: the training data may be JSON and these CSV. */
static int32_t find_given(const struct label_map *given, const char *name)
{
    static const char *const spelt[2][3] = {{"False", "false", "FALSE"}, {"True", "true", "TRUE"}};
    int32_t id = label_map_find(given, name);
    int truth = truth_of(name);
    for (int i = 0; i < 3 && id < 0 && truth >= 0; i++)
        id = label_map_find(given, spelt[truth][i]);
    return id;
}

static int add_name(struct label_reader *r, struct place p, const char *name, struct snug_err *err)
{
    if (r->task == TASK_REGRESSION)
        return err_at(err, SNUG_ERR_INPUT, p, "label '%s' is not a number, which regression needs%s%s", name,
                      r->misfit ? "; correct it, or " : "", r->misfit ? r->misfit : "");
    if (!*name)
        return err_at(err, SNUG_ERR_INPUT, p, "the label is empty; every row needs one");
    TRY(same_form(r, p, name, true, err));
    int32_t id;
    if (!r->given) {
        TRY(see(r, p, name, &id, err));
    } else {
        id = find_given(r->given, name);
        if (id < 0)
            return err_at(err, SNUG_ERR_INPUT, p,
                          "label '%s' is not one of the %d labels of the %s ('%s', ...); correct it, or %s", name,
                          (int)r->given->n, r->given->from_data ? "training data" : "model",
                          r->given->n ? r->given->names[0] : "",
                          r->misfit && !r->given->from_data ? r->misfit : "leave the row out");
    }
    return push_id(r, id, err);
}

int label_id_check(int64_t value, struct place p, const struct label_map *given, int32_t num_labels, const char *misfit,
                   struct snug_err *err)
{
    int32_t n = given ? given->n : num_labels;
    if (value < 0)
        return err_at(
            err, SNUG_ERR_INPUT, p,
            "label %lld is negative; classes are numbered from 0, and --ignore-label %lld leaves such rows out",
            (long long)value, (long long)value);
    if (n > 0 && value >= n)
        return err_at(err, SNUG_ERR_INPUT, p,
                      "label %lld is out of range: %d labels are numbered 0 to %d; correct it, or %s", (long long)value,
                      (int)n, (int)n - 1, misfit ? misfit : "use another model");
    if (value >= LABELS_MAX)
        return err_at(err, SNUG_ERR_INPUT, p, "label %lld is over the limit of %d classes; is it the right column?",
                      (long long)value, LABELS_MAX);
    return SNUG_OK;
}

int label_numbers_check(const char *item, struct place p, const struct label_map *given, struct snug_err *err)
{
    if (!given || !given->from_data || given->numbers)
        return SNUG_OK;
    return err_at(err, SNUG_ERR_INPUT, p,
                  "label '%s' is a number, but those of the training data are names ('%s', ...); write a name", item,
                  given->n ? given->names[0] : "");
}

static bool has_classes(const struct label_reader *r)
{
    return r->task == TASK_CLASS || r->task == TASK_TOKEN_CLASS;
}

/* A number as the id of a class. */
static int add_id(struct label_reader *r, struct place p, const char *item, const int64_t *whole, struct snug_err *err)
{
    if (!whole)
        return err_at(err, SNUG_ERR_INPUT, p,
                      "label '%s' is not a whole number; write classes as 0, 1, 2 ... or as names%s%s%s", item,
                      r->given || r->num_labels ? "" : ", or give --problem-type regression", r->misfit ? ", or " : "",
                      r->misfit ? r->misfit : "");
    TRY(label_numbers_check(item, p, r->given, err));
    TRY(label_id_check(*whole, p, r->given, r->num_labels, r->misfit, err));
    return push_id(r, (int32_t)*whole, err);
}

/* `whole`: x exactly, or NULL when it is no whole number. */
static int add_number(struct label_reader *r, struct place p, const char *item, double x, const int64_t *whole,
                      struct snug_err *err)
{
    if (has_classes(r) && r->given && r->given->numerals)
        return add_name(r, p, item, err);
    TRY(same_form(r, p, item, false, err));
    if (has_classes(r))
        return add_id(r, p, item, whole, err);
    if (!isfinite((float)x))
        return err_at(err, SNUG_ERR_INPUT, p, "label '%s' is out of the range of a float", item);
    return push_number(r, x, err);
}

/* 0 or 1, or with classes the name that Python gives it, unless the classes are numbers. */
static int add_truth(struct label_reader *r, struct place p, const char *item, bool truth, struct snug_err *err)
{
    if (has_classes(r) && !(r->given && r->given->numbers))
        return add_name(r, p, item, err);
    return add_number(r, p, item, truth, &(int64_t){truth}, err);
}

/* `item` is followed by a 0 byte. */
static int add_text(struct label_reader *r, struct place p, const char *item, struct snug_err *err)
{
    enum number_kind kind = number_kind(item, strlen(item));
    if (kind == NUMBER_BLANKS)
        return err_at(err, SNUG_ERR_INPUT, p, "label '%s' is a number with blanks around it; remove them", item);
    int truth = r->task == TASK_MULTI_LABEL ? -1 : truth_of(item); /* a list of names */
    if (truth >= 0)
        return add_truth(r, p, item, truth, err);
    if (kind == NUMBER_NO)
        return add_name(r, p, item, err);
    int64_t whole = kind == NUMBER_INTEGER ? strtoll(item, NULL, 10) : 0; /* at most 18 digits */
    return add_number(r, p, item, number_value(item, r->c_locale), kind == NUMBER_INTEGER ? &whole : NULL, err);
}

static int add_json(struct label_reader *r, struct place p, json_t *v, struct snug_err *err)
{
    char text[64];
    json_value_text(v, text);
    if (json_is_string(v))
        return add_name(r, p, json_string_value(v), err);
    if (json_is_boolean(v))
        return add_truth(r, p, json_is_true(v) ? "True" : "False", json_is_true(v), err);
    int64_t whole = json_integer_value(v); /* 0 for what is no integer */
    if (json_is_number(v))
        return add_number(r, p, text, json_number_value(v), json_is_integer(v) ? &whole : NULL, err);
    return err_at(err, SNUG_ERR_INPUT, p, "the label is %s; %s", text,
                  r->task == TASK_CLASS && !r->given && !r->num_labels && json_is_array(v)
                      ? "write a name or a whole number, or give --problem-type multi_label_classification"
                  : has_classes(r)             ? "write a name or a whole number"
                  : r->task == TASK_REGRESSION ? "write a number or a list of numbers"
                                               : "write a list of names or of 0 and 1");
}

/* ---- one row ---- */

static int end_row(struct label_reader *r, struct place p, struct snug_err *err)
{
    if (r->task != TASK_CLASS) {
        if (!MEM_GROW(r->row_ends, r->row_ends_cap, (size_t)r->n_rows + 1))
            return err_no_memory(err, (size_t)r->n_rows * sizeof *r->row_ends);
        r->row_ends[r->n_rows] = r->n_items;
    }
    r->n_rows++;
    if (r->task != TASK_REGRESSION)
        return SNUG_OK;
    if (r->column_each)
        return SNUG_OK;
    long long width = (long long)r->row_ends[0], want = r->num_labels ? r->num_labels : width;
    long long n = (long long)(r->n_items - (r->n_rows > 1 ? r->row_ends[r->n_rows - 2] : 0));
    if (n == 0)
        return err_at(err, SNUG_ERR_INPUT, p, "the label is empty; every row needs one");
    if (n != want)
        return err_at(err, SNUG_ERR_INPUT, p, "%lld labels where %lld are expected", n, want);
    return SNUG_OK;
}

static int add_array(struct label_reader *r, struct place p, json_t *array, struct snug_err *err)
{
    size_t i;
    json_t *v;
    json_array_foreach(array, i, v) TRY(add_json(r, p, v, err));
    return SNUG_OK;
}

static int add_array_text(struct label_reader *r, struct place p, const char *text, struct snug_err *err)
{
    json_t *array;
    if (json_parse(text, strlen(text), "label", &array, NULL))
        return err_at(err, SNUG_ERR_INPUT, p, "label '%s' begins as a JSON array but is none", text);
    int code = add_array(r, p, array, err);
    json_decref(array);
    return code;
}

/* "a; b": items are separated by semicolons, blanks around them do not count. */
static int add_list(struct label_reader *r, struct place p, const char *text, struct snug_err *err)
{
    int code = SNUG_OK;
    while (!code && *text) {
        size_t n = strcspn(text, ";"), from = 0, to = n;
        while (from < to && strchr(" \t", text[from]))
            from++;
        while (to > from && strchr(" \t", text[to - 1]))
            to--;
        struct str item = {0};
        str_append_n(&item, text + from, to - from);
        code = str_check(&item, err);
        if (!code)
            code = add_text(r, p, str_text(&item), err);
        str_free(&item);
        text += n + (text[n] == ';');
    }
    return code;
}

/* The text of a single label column. */
static int add_row_text(struct label_reader *r, struct place p, const char *text, struct snug_err *err)
{
    if (r->task == TASK_CLASS)
        return add_text(r, p, text, err);
    return *text == '[' ? add_array_text(r, p, text, err) : add_list(r, p, text, err);
}

static int add_row_json(struct label_reader *r, struct place p, json_t *value, struct snug_err *err)
{
    if (json_is_string(value) && r->task == TASK_MULTI_LABEL)
        return add_row_text(r, p, json_string_value(value), err);
    return json_is_array(value) && r->task != TASK_CLASS ? add_array(r, p, value, err) : add_json(r, p, value, err);
}

/* ---- one row of several columns ---- */

static int bad_cell(const struct label_reader *r, struct place p, int i, const char *cell, struct snug_err *err)
{
    return err_at(err, SNUG_ERR_INPUT, p,
                  "'%s' is '%s', not %s; correct it, or leave such rows out with --ignore-label",
                  r->columns->names[r->columns->labels[i]], cell, r->task == TASK_MULTI_LABEL ? "0 or 1" : "a number");
}

static int add_cell(struct label_reader *r, struct place p, int i, const char *cell, double x, struct snug_err *err)
{
    bool fits = r->task == TASK_MULTI_LABEL ? x >= 0 && x <= 1 : isfinite((float)x);
    r->any = true;
    return fits ? push_number(r, x, err) : bad_cell(r, p, i, cell, err);
}

static int add_cell_text(struct label_reader *r, struct place p, int i, const char *cell, struct snug_err *err)
{
    double x = truth_of(cell);
    if (x < 0 && !label_number(cell, &x, r->c_locale))
        return bad_cell(r, p, i, cell, err);
    return add_cell(r, p, i, cell, x, err);
}

static int add_cell_json(struct label_reader *r, struct place p, int i, json_t *v, struct snug_err *err)
{
    char shown[64];
    json_value_text(v, shown);
    if (!json_is_boolean(v) && !json_is_number(v))
        return bad_cell(r, p, i, shown, err);
    return add_cell(r, p, i, shown, json_is_boolean(v) ? json_is_true(v) : json_number_value(v), err);
}

/* ---- rows that are left out ---- */

static bool is_ignored_text(const struct label_reader *r, const char *text)
{
    if (!r->ignore || !strcmp(text, r->ignore))
        return r->ignore;
    double x;
    return r->ignore_is_number && label_number(text, &x, r->c_locale) && x == r->ignore_number;
}

static bool is_ignored_json(const struct label_reader *r, json_t *v)
{
    return json_is_string(v) ? is_ignored_text(r, json_string_value(v))
                             : r->ignore_is_number && json_is_number(v) && json_number_value(v) == r->ignore_number;
}

/* ---- a row ---- */

/* The labels of a row, one of each column: of CSV texts, of JSON values; the other is NULL. */
struct cells {
    const char *const *texts;
    json_t *const *values;
};

static bool is_ignored(const struct label_reader *r, const struct cells *c, int i)
{
    return c->texts ? is_ignored_text(r, c->texts[i]) : is_ignored_json(r, c->values[i]);
}

static int read_cell(struct label_reader *r, struct place p, const struct cells *c, int i, struct snug_err *err)
{
    return c->texts ? add_cell_text(r, p, i, c->texts[i], err) : add_cell_json(r, p, i, c->values[i], err);
}

static int read_whole(struct label_reader *r, struct place p, const struct cells *c, struct snug_err *err)
{
    return c->texts ? add_row_text(r, p, c->texts[0], err) : add_row_json(r, p, c->values[0], err);
}

static int read_row(struct label_reader *r, struct place p, const struct cells *c, bool *left_out, struct snug_err *err)
{
    *left_out = false;
    for (int i = 0; i < r->columns->n_labels; i++)
        *left_out |= is_ignored(r, c, i);
    r->n_ignored += *left_out;
    if (*left_out)
        return SNUG_OK;
    for (int i = 0; r->column_each && i < r->columns->n_labels; i++)
        TRY(read_cell(r, p, c, i, err));
    if (!r->column_each)
        TRY(read_whole(r, p, c, err));
    return end_row(r, p, err);
}

int label_reader_text(struct label_reader *r, struct place p, const char *const *texts, bool *left_out,
                      struct snug_err *err)
{
    return read_row(r, p, &(struct cells){.texts = texts}, left_out, err);
}

int label_reader_json(struct label_reader *r, struct place p, json_t *const *values, bool *left_out,
                      struct snug_err *err)
{
    return read_row(r, p, &(struct cells){.values = values}, left_out, err);
}
