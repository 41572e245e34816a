#include "report/facts.h"

#include "base/str.h"
#include "output/log.h"
#include "output/own_json.h"
#include "output/record.h"

#include <string.h>

enum { LOG_LIMIT = 256 << 20, RECORD_LIMIT = 1 << 20 };

static int read_log(const struct io *io, const char *path, json_t *log, struct snug_err *err)
{
    char *text;
    size_t n;
    TRY(io_read_file(io, path, LOG_LIMIT, &text, &n, err));
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (json_is_object(o) && json_is_integer(json_object_get(o, "step")))
            json_array_append(log, o);
        json_decref(o);
    }
    mem_free(text);
    return SNUG_OK;
}

/* A folder may have that of an earlier run, or of a step that a resumed run has not come to again: the log knows it then with another
 * loss, or not at all. */
static void read_evaluation(const struct io *io, const char *path, struct facts *f)
{
    json_t *file = own_json_read(io, path), *line;
    bool known = false;
    size_t i;
    json_array_foreach(f->log, i, line) known |=
        json_object_get(line, "eval_loss") &&
        json_equal(json_object_get(line, "step"), json_object_get(file, "step")) &&
        json_equal(json_object_get(line, "eval_loss"), json_object_get(file, "eval_loss"));
    if (known)
        f->evaluation = json_incref(file);
    json_decref(file);
}

int facts_read(const struct io *io, const char *dir, struct facts *f, struct snug_err *err)
{
    struct arena a = {0};
    *f = (struct facts){.dir = mem_strdup(dir), .log = json_array()};
    const char *log = arena_printf(&a, "%s/" LOG_NAME, dir), *record = arena_printf(&a, "%s/" RECORD_NAME, dir);
    const char *evaluation = arena_printf(&a, "%s/" EVALUATION_NAME, dir);
    const char *environment = arena_printf(&a, "%s/" ENVIRONMENT_NAME, dir);
    int code =
        f->dir && f->log && log && record && evaluation && environment ? SNUG_OK : err_no_memory(err, strlen(dir));
    if (!code && !io_exists(io, log))
        code =
            err_set(err, SNUG_ERR_INPUT, "%s: has no " LOG_NAME "; give the --output-dir of a run of snug train", dir);
    if (!code)
        code = read_log(io, log, f->log, err);
    if (!code && !json_array_size(f->log))
        code = err_set(err, SNUG_ERR_INPUT,
                       "%s: has no line of a run yet; wait for its first one, or give another folder", log);
    if (!code) {
        read_evaluation(io, evaluation, f);
        f->environment = own_json_read(io, environment);
    }
    if (!code && io_exists(io, record))
        code = json_read_object(io, record, RECORD_LIMIT, &f->options, err);
    if (!code && !f->options && !(f->options = json_object()))
        code = err_no_memory(err, 64);
    arena_free(&a);
    if (code)
        facts_free(f);
    return code;
}

void facts_free(struct facts *f)
{
    json_decref(f->log);
    json_decref(f->evaluation);
    json_decref(f->environment);
    json_decref(f->options);
    mem_free(f->dir);
    *f = (struct facts){0};
}

const char *facts_metric(const char *member)
{
    if (strncmp(member, "eval_", 5) != 0 || !strcmp(member, "eval_runtime") ||
        !strcmp(member, "eval_samples_per_second"))
        return NULL;
    return member + 5;
}

const json_t *facts_last_evaluation(const struct facts *f)
{
    for (size_t i = json_array_size(f->log); i-- > 0;)
        if (json_object_get(json_array_get(f->log, i), "eval_loss"))
            return json_array_get(f->log, i);
    return NULL;
}

int facts_points(const struct facts *f, const char *member, double **x, double **y, size_t *n, struct snug_err *err)
{
    size_t lines = json_array_size(f->log), i;
    json_t *line;
    *n = 0;
    *x = mem_alloc(lines * sizeof **x);
    *y = mem_alloc(lines * sizeof **y);
    if (!*x || !*y) {
        mem_free(*x);
        mem_free(*y);
        *x = *y = NULL;
        return err_no_memory(err, lines * sizeof **x);
    }
    json_array_foreach(f->log, i, line)
    {
        json_t *value = json_object_get(line, member);
        if (!json_is_number(value))
            continue;
        (*x)[*n] = (double)json_integer_value(json_object_get(line, "step"));
        (*y)[(*n)++] = json_number_value(value);
    }
    return SNUG_OK;
}
