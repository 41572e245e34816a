#include "train/card.h"

#include "format/json.h"
#include "output/log.h"
#include "output/record.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_LIMIT = 64 << 20, CARD_LIMIT = 4 << 20, MOST_ROWS = 100 };

/* Ends a card; the hash of what is above follows, and then END. */
static const char MARK[] = "\n<!-- snug writes this file anew as long as nobody has edited it: ";
static const char END[] = " -->\n";

/* ---- The log. */

/* Its lines, as an array of objects; what cannot be read is left out. */
static json_t *read_log(const struct io *io, const char *dir)
{
    json_t *log = json_array();
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/" LOG_NAME, dir), *text = NULL;
    size_t n;
    if (log && path && !io_read_file(io, path, LOG_LIMIT, &text, &n, NULL))
        for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
            json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
            if (o)
                json_array_append_new(log, o);
        }
    mem_free(text);
    arena_free(&a);
    return log;
}

static bool is_evaluation(const json_t *line)
{
    return json_object_get(line, "eval_loss") != NULL;
}

/* The last evaluation of that step, borrowed; NULL if there is none. */
static const json_t *evaluation_of(const json_t *log, int64_t step)
{
    for (size_t i = json_array_size(log); i-- > 0;) {
        const json_t *line = json_array_get(log, i);
        if (is_evaluation(line) && json_integer_value(json_object_get(line, "step")) == step)
            return line;
    }
    return NULL;
}

/* "accuracy" of "eval_accuracy"; NULL for what is no metric. */
static const char *metric_name(const char *member)
{
    static const char *const others[] = {"runtime", "samples_per_second"};
    if (strncmp(member, "eval_", 5) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(member + 5, others[i]))
            return NULL;
    return member + 5;
}

static void put_number(struct str *out, const json_t *v)
{
    if (json_is_string(v))
        str_append(out, json_string_value(v));
    else if (json_is_number(v))
        str_printf(out, "%.6g", json_number_value(v));
    else
        str_append(out, "-");
}

/* ---- Names. */

/* As code in a line of Markdown: without what would end it. */
static void put_code(struct str *out, const char *text)
{
    str_append(out, "`");
    for (; *text; text++) {
        bool ends = *text == '`' || *text == '|' || (unsigned char)*text < 0x20 || *text == 0x7F;
        str_append_n(out, ends ? "?" : text, 1);
    }
    str_append(out, "`");
}

static const char *last_part(struct arena *a, const char *path)
{
    char *real = realpath(path, NULL), *copy = arena_strdup(a, real ? real : path);
    free(real);
    char *slash = copy ? strrchr(copy, '/') : NULL;
    return slash && slash[1] ? slash + 1 : copy ? copy : "model";
}

/* ORG/NAME where the model folder lies in the hub's cache, under models--ORG--NAME; else NULL. */
static const char *hub_name(struct arena *a, const char *path)
{
    static const char mark[] = "/models--";
    char *real = realpath(path, NULL), *copy = real ? arena_strdup(a, real) : NULL;
    free(real);
    char *at = copy ? strstr(copy, mark) : NULL;
    if (!at)
        return NULL;
    at += sizeof mark - 1;
    at[strcspn(at, "/")] = 0;
    char *dashes = strstr(at, "--");
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    return at;
}

/* ---- The parts. */

/* Files of their own, or rows of the training files that were held out. */
static const struct opt_paths *evaluated_on(const struct session *s)
{
    return s->o->eval_data.first ? &s->o->eval_data : &s->o->train_data;
}

static void put_files(struct str *out, const struct opt_paths *p)
{
    put_code(out, p->first);
    for (size_t i = 0; i < p->n_more; i++) {
        str_append(out, ", ");
        put_code(out, p->more[i]);
    }
}

static void put_results(const struct session *s, const json_t *evaluation, struct str *out)
{
    const char *member, *name;
    json_t *v;
    struct arena a = {0};
    str_append(out, "model-index:\n- name: ");
    str_json(out, last_part(&a, s->o->output_dir));
    str_printf(out,
               "\n  results:\n  - task:\n      type: %s\n    dataset:\n      name: ", model_task(&s->model)->pipeline);
    str_json(out, last_part(&a, evaluated_on(s)->first));
    str_append(out, "\n      type: ");
    str_json(out, last_part(&a, evaluated_on(s)->first));
    str_append(out, "\n    metrics:\n");
    json_object_foreach((json_t *)(uintptr_t)evaluation, member,
                        v) if ((name = metric_name(member)) && json_is_number(v))
    {
        str_printf(out, "    - type: %s\n      name: %s\n      value: ", name, name);
        put_number(out, v);
        str_append(out, "\n");
    }
    arena_free(&a);
}

/* YAML, in which strings of JSON are strings. */
static void put_header(const struct session *s, const json_t *evaluation, struct str *out)
{
    struct arena a = {0};
    const char *base = hub_name(&a, s->o->model), *member, *name;
    json_t *v;
    str_append(out, "---\nlibrary_name: transformers\n");
    if (base) {
        str_append(out, "base_model: ");
        str_json(out, base);
        str_append(out, "\n");
    }
    str_printf(out, "pipeline_tag: %s\ntags:\n- snug\n", model_task(&s->model)->pipeline);
    if (evaluation) {
        str_append(out, "metrics:\n");
        json_object_foreach((json_t *)(uintptr_t)evaluation, member, v) if ((name = metric_name(member)))
            str_printf(out, "- %s\n", name);
        put_results(s, evaluation, out);
    }
    str_append(out, "---\n\n");
    arena_free(&a);
}

static void put_intro(const struct session *s, const json_t *evaluation, int64_t step, struct str *out)
{
    struct arena a = {0};
    const char *base = hub_name(&a, s->o->model), *member, *name;
    json_t *v;
    str_printf(out, "# %s\n\n%s, fine-tuned from ", last_part(&a, s->o->output_dir), model_class(&s->model));
    put_code(out, base ? base : s->o->model);
    str_append(out, " on ");
    put_files(out, &s->o->train_data);
    str_printf(out, " (%lld rows).\n", (long long)s->train.n_rows);
    if (evaluation) {
        str_append(out, "\nResults on ");
        str_append(out, s->o->eval_data.first ? "" : "rows held out of ");
        put_files(out, evaluated_on(s));
        str_printf(out, " (%lld rows), after step %lld:\n\n| metric | value |\n|---|---:|\n", (long long)s->data.n_rows,
                   (long long)step);
        json_object_foreach((json_t *)(uintptr_t)evaluation, member, v) if ((name = metric_name(member)))
        {
            str_printf(out, "| %s | ", name);
            put_number(out, v);
            str_append(out, " |\n");
        }
    }
    arena_free(&a);
}

/* A row for each evaluation, with the loss that was logged last before it; of many, the last ones. */
static void put_history(const json_t *log, struct str *out)
{
    const json_t *first = NULL;
    json_t *line, *v, *loss = NULL;
    const char *member, *name;
    size_t i, rows = 0, seen = 0;
    json_array_foreach(log, i, line) if (is_evaluation(line))
    {
        first = first ? first : line;
        rows++;
    }
    if (!first)
        return;
    str_append(out, "\n## Evaluations during training\n\n| step | epoch | training loss |");
    json_object_foreach((json_t *)(uintptr_t)first, member, v) if ((name = metric_name(member)))
        str_printf(out, " %s%s |", strcmp(name, "loss") ? "" : "evaluation ", name);
    str_append(out, "\n|---:|---:|---:|");
    json_object_foreach((json_t *)(uintptr_t)first, member, v) if (metric_name(member)) str_append(out, "---:|");
    str_append(out, "\n");
    json_array_foreach(log, i, line)
    {
        loss = json_object_get(line, "loss") ? json_object_get(line, "loss") : loss;
        if (!is_evaluation(line) || rows - seen++ > MOST_ROWS)
            continue;
        str_printf(out, "| %lld | ", (long long)json_integer_value(json_object_get(line, "step")));
        put_number(out, json_object_get(line, "epoch"));
        str_append(out, " | ");
        put_number(out, loss);
        json_object_foreach((json_t *)(uintptr_t)first, member, v) if (metric_name(member))
        {
            str_append(out, " | ");
            put_number(out, json_object_get(line, member));
        }
        str_append(out, " |\n");
    }
}

static int put_training(const struct session *s, struct str *out, struct snug_err *err)
{
    str_append(out, "\n## Training\n\nEvery option is in `" RECORD_NAME "`; `snug train --config " RECORD_NAME
                    " --output-dir ANOTHER` is the same run. What was\ngiven, all else being as `snug help` says:\n\n"
                    "```sh\n");
    TRY(record_command(s->o, out, err));
    str_append(out, "\n```\n");
    return SNUG_OK;
}

static void put_versions(const struct session *s, struct str *out)
{
    const struct backend *b = s->compile.backend;
    str_printf(out, "\n## Versions\n\n- snug %s\n- device: %s, %s\n- precision: %s\n", SNUG_VERSION, b->name,
               b->kernels(b), dtype_name(s->compile.precision.narrow));
}

/* ---- The whole. */

static void put_mark(struct str *out)
{
    char hex[33];
    hash_hex(hash_bytes(str_text(out), out->n), hex);
    str_printf(out, "%s%s%s", MARK, hex, END);
}

int card_text(const struct session *s, const struct io *io, const char *dir, int64_t step, struct str *out,
              struct snug_err *err)
{
    json_t *log = read_log(io, dir);
    const json_t *evaluation = s->has_data ? evaluation_of(log, step) : NULL;
    put_header(s, evaluation, out);
    put_intro(s, evaluation, step, out);
    int code = put_training(s, out, err);
    put_history(log, out);
    put_versions(s, out);
    put_mark(out);
    json_decref(log);
    return code ? code : str_check(out, err);
}

bool card_is_free(const struct io *io, const char *dir)
{
    struct arena a = {0};
    struct stat st;
    char *path = arena_printf(&a, "%s/" CARD_NAME, dir), *text = NULL, hex[33];
    size_t n = 0, tail = sizeof MARK - 1 + 32 + sizeof END - 1;
    bool is_free = false;
    if (path && io->lstat(io, path, &st) < 0)
        is_free = errno == ENOENT;
    else if (path && S_ISREG(st.st_mode) && !io_read_file(io, path, CARD_LIMIT, &text, &n, NULL) && n > tail) {
        hash_hex(hash_bytes(text, n - tail), hex);
        is_free =
            !strncmp(text + n - tail, MARK, sizeof MARK - 1) && !strncmp(text + n - tail + sizeof MARK - 1, hex, 32);
    }
    mem_free(text);
    arena_free(&a);
    return is_free;
}
