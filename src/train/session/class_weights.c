#include "train/session/class_weights.h"

#include "format/json.h"
#include "train/session/class_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 20 };

void class_weights_balance(const int64_t *counts, int32_t classes, int64_t rows, float *weights)
{
    for (int32_t i = 0; i < classes; i++)
        weights[i] = (float)((double)rows / ((double)classes * (double)counts[i]));
}

/* Of each label, the training rows that have it, or the words. */
static void count_rows(const struct dataset *d, int64_t *counts)
{
    for (int64_t i = 0; d->targets && i < d->n_tokens; i++)
        if (d->targets[i] >= 0)
            counts[d->targets[i]]++;
    if (d->targets)
        return;
    for (int64_t row = 0; row < d->n_rows; row++)
        if (d->classes)
            counts[d->classes[row]]++;
        else
            for (int32_t i = 0; i < d->num_labels; i++)
                counts[i] += d->values[row * d->num_labels + i] > 0.5f;
}

/* The formula counts what has a class: rows, or words. Of several labels to a row each is a question of its own: rows without it for each
 * row with it. */
static int balance(const struct session *s, float *weights, struct snug_err *err)
{
    const struct dataset *d = &s->train;
    char buf[32];
    int64_t *counts = mem_alloc((size_t)d->num_labels * sizeof *counts);
    if (!counts)
        return err_no_memory(err, (unsigned long long)d->num_labels * sizeof *counts);
    int code = SNUG_OK;
    count_rows(d, counts);
    for (int32_t i = 0; i < d->num_labels && !code; i++)
        if (!counts[i])
            code = err_set(err, SNUG_ERR_INPUT,
                           "%s: no %s has the label '%s', so --class-weights balanced has no weight "
                           "for it; give a FILE",
                           s->o->train_data.first, d->targets ? "word" : "row", class_name(s, i, buf));
    int64_t all = 0;
    for (int32_t i = 0; i < d->num_labels; i++)
        all += counts[i];
    if (!code && !d->values)
        class_weights_balance(counts, d->num_labels, all, weights);
    for (int32_t i = 0; i < d->num_labels && !code && d->values; i++)
        weights[i] = (float)((double)(d->n_rows - counts[i]) / (double)counts[i]);
    mem_free(counts);
    return code;
}

/* Labels without names of their own are 0 and LABEL_0, 1 and LABEL_1, and so on. */
static int32_t find_label(const struct session *s, const char *name)
{
    int32_t id = s->labels.n ? label_map_find(&s->labels, name) : -1;
    if (id >= 0 || (s->labels.n && !s->labels.numbers))
        return id;
    const char *digits = strncmp(name, "LABEL_", 6) ? name : name + 6;
    size_t n = strspn(digits, "0123456789");
    long number = n && n < 8 && !digits[n] ? strtol(digits, NULL, 10) : -1;
    return number < s->model.num_labels ? (int32_t)number : -1;
}

static int unknown_label(const struct session *s, const char *path, const char *name, struct snug_err *err)
{
    const char *near = nearest_name(name, (const char *const *)s->labels.names, (size_t)s->labels.n);
    return near ? err_set(err, SNUG_ERR_INPUT, "%s: '%s' is none of the labels; did you mean '%s'?", path, name, near)
                : err_set(err, SNUG_ERR_INPUT, "%s: '%s' is none of the %lld labels; take it out", path, name,
                          (long long)s->model.num_labels);
}

static int take_weight(const struct session *s, const char *path, const char *name, const json_t *v, float *weights,
                       struct snug_err *err)
{
    int32_t id = find_label(s, name);
    if (id < 0)
        return unknown_label(s, path, name, err);
    double w = json_number_value(v);
    if (!json_is_number(v) || !(w >= 0) || !isfinite((float)w))
        return err_set(err, SNUG_ERR_INPUT, "%s: the weight of '%s' is no number of at least 0; give one", path, name);
    weights[id] = (float)w;
    return SNUG_OK;
}

static int check_complete(const struct session *s, const char *path, const float *weights, struct snug_err *err)
{
    double sum = 0;
    char buf[32];
    for (int32_t i = 0; i < (int32_t)s->model.num_labels; i++) {
        if (isnan(weights[i]))
            return err_set(err, SNUG_ERR_INPUT, "%s: the label '%s' has no weight; give each label one", path,
                           class_name(s, i, buf));
        sum += (double)weights[i];
    }
    return sum > 0 ? SNUG_OK : err_set(err, SNUG_ERR_INPUT, "%s: all weights are 0; give one above 0", path);
}

static int read_file(const struct session *s, const char *path, float *weights, struct snug_err *err)
{
    json_t *object = NULL, *v;
    const char *name;
    TRY(json_read_file(s->io, path, FILE_LIMIT, &object, err));
    int code = json_is_object(object)
                   ? SNUG_OK
                   : err_set(err, SNUG_ERR_INPUT, "%s: not a JSON object; give {\"label\": weight, ...}", path);
    for (int64_t i = 0; i < s->model.num_labels; i++)
        weights[i] = NAN;
    json_object_foreach(object, name, v) if (!code) code = take_weight(s, path, name, v, weights, err);
    json_decref(object);
    return code ? code : check_complete(s, path, weights, err);
}

static void note_weights(const struct session *s)
{
    int32_t least = 0, most = 0;
    char a[32], b[32];
    for (int32_t i = 1; i < (int32_t)s->model.num_labels; i++) {
        least = s->class_weights[i] < s->class_weights[least] ? i : least;
        most = s->class_weights[i] > s->class_weights[most] ? i : most;
    }
    session_note(s, "class weights: from %.4g (%s) to %.4g (%s)", (double)s->class_weights[least],
                 class_name(s, least, a), (double)s->class_weights[most], class_name(s, most, b));
}

int class_weights_open(struct session *s, struct snug_err *err)
{
    const char *from = s->o->class_weights;
    size_t n = (size_t)s->model.num_labels;
    if (!from || !(s->o->command & (CMD_TRAIN | CMD_PLAN)))
        return SNUG_OK;
    bool classifies = model_task(&s->model)->classes, rows = !model_task(&s->model)->per_token;
    if (!classifies || (rows && s->model.problem == PROBLEM_REGRESSION))
        return err_set(err, SNUG_ERR_USAGE, "--class-weights: no effect on %s; leave it out",
                       classifies ? model_problem_names[PROBLEM_REGRESSION] : model_class(&s->model));
    s->class_weights = mem_alloc(n * sizeof *s->class_weights);
    if (!s->class_weights)
        return err_no_memory(err, n * sizeof *s->class_weights);
    for (size_t i = 0; i < n; i++) /* of a plan without data */
        s->class_weights[i] = 1;
    bool balanced = !strcmp(from, "balanced");
    if (balanced && s->has_train)
        TRY(balance(s, s->class_weights, err));
    if (!balanced)
        TRY(read_file(s, from, s->class_weights, err));
    note_weights(s);
    return SNUG_OK;
}
