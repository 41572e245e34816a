/* Options as JSON: --config files, which may be YAML or saved TrainingArguments, and what a checkpoint records. */
#include "format/json.h"
#include "base/str.h"
#include "format/yaml.h"
#include "options/value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CONFIG_LIMIT = 16 << 20 };

static const char *const wanted[] = {
    [OPTION_BOOL] = "true or false",
    [OPTION_INT] = "a whole number",
    [OPTION_UINT] = "a whole number",
    [OPTION_REAL] = "a number",
    [OPTION_STEPS] = "a number",
    [OPTION_BYTES] = "a string such as \"8GiB\"",
    [OPTION_CHAR] = "a string",
    [OPTION_STR] = "a string",
    [OPTION_PATHS] = "a string, or an array of strings",
    [OPTION_TEXTS] = "a string",
    [OPTION_WORD] = "a string",
    [OPTION_KWARGS] = "an object",
};

static bool is_list_of_strings(const json_t *v)
{
    size_t i, strings = 0;
    json_t *item;
    json_array_foreach(v, i, item) strings += json_is_string(item);
    return strings > 0 && strings == json_array_size(v);
}

/* As it would be typed, with commas. */
static char *joined(struct options *o, const json_t *list)
{
    size_t i;
    json_t *item;
    char *text = arena_strdup(&o->arena, json_string_value(json_array_get(list, 0)));
    json_array_foreach(list, i, item) if (i && text) text =
        arena_printf(&o->arena, "%s,%s", text, json_string_value(item));
    return text;
}

/* A JSON value as it would be typed, if it is of a kind that `type` takes. A string may stand for any value: readers of
 * YAML 1.1 make one of 5e-5. */
static int value_text(struct options *o, enum option_type type, const json_t *v, const char *from, const char **text,
                      struct snug_err *err)
{
    char number[NUMBER_TEXT_MAX];
    bool fractions = type == OPTION_REAL || type == OPTION_STEPS;
    bool numbers = fractions || type == OPTION_INT || type == OPTION_UINT || type == OPTION_BYTES;
    char *copy = NULL;
    if (json_is_boolean(v) && type == OPTION_BOOL)
        copy = arena_strdup(&o->arena, json_is_true(v) ? "true" : "false");
    else if (json_is_integer(v) && numbers)
        copy = arena_printf(&o->arena, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v) && fractions)
        copy = arena_strdup(&o->arena, number_text(json_real_value(v), number));
    else if (json_is_string(v))
        copy = arena_strdup(&o->arena, json_string_value(v));
    else if (type == OPTION_STR && is_list_of_strings(v))
        copy = joined(o, v);
    else if ((json_is_object(v) && type == OPTION_KWARGS) || (is_list_of_strings(v) && type == OPTION_PATHS)) {
        char *dump = json_dumps(v, JSON_COMPACT);
        copy = dump ? arena_strdup(&o->arena, dump) : NULL;
        free(dump);
    } else {
        char *dump = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        int code = err_set(err, SNUG_ERR_USAGE, "%s: %s is of the wrong kind; give %s", from, dump ? dump : "the value",
                           wanted[type]);
        free(dump);
        return code;
    }
    *text = copy;
    return copy ? SNUG_OK : err_no_memory(err, sizeof number);
}

/* Whether a value of an ignored or refused member asks for nothing: null, empty, its off value, or false where that is
 * not the opposite of off. An object asks for nothing when each of its members does. */
static bool asks_nothing_but(const json_t *v, const json_t *off)
{
    if (json_is_null(v) || json_equal(v, off) || (json_is_string(v) && !*json_string_value(v)) ||
        (json_is_array(v) && json_array_size(v) == 0) || (json_is_object(v) && json_object_size(v) == 0))
        return true;
    if (json_is_false(v))
        return !json_is_true(off);
    if (!json_is_object(v) || !json_is_object(off))
        return false;
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        const json_t *off_member = json_object_get(off, key);
        if (!json_is_null(member) && !(off_member && json_equal(member, off_member)))
            return false;
    }
    return true;
}

static bool asks_nothing(const struct option_meaning *m, const json_t *v)
{
    if (m->kind != MEANS_ACCEPTED && m->kind != MEANS_REFUSED)
        return json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0);
    json_t *off = json_loads(m->foreign->off, JSON_DECODE_ANY, NULL);
    bool nothing = asks_nothing_but(v, off);
    json_decref(off);
    return nothing;
}

bool option_asks_nothing(const struct option_meaning *m, const char *text)
{
    bool on = true;
    json_t *v = !text || flag_read(text, &on) ? json_boolean(on) : json_loads(text, JSON_DECODE_ANY, NULL);
    if (!v)
        v = json_string(text);
    bool nothing = v && asks_nothing(m, v);
    json_decref(v);
    return nothing;
}

int option_assign_json_keys(struct options *o, int parent, enum option_source source, const char *from,
                            const char *text, struct snug_err *err)
{
    json_error_t where;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(object)) {
        json_decref(object);
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is not a JSON object; give KEY=VALUE,... or {\"KEY\": VALUE}",
                       from, text);
    }
    const char *key, *value;
    json_t *v;
    int code = SNUG_OK;
    json_object_foreach(object, key, v)
    {
        struct option_meaning m = option_lookup_key(o, parent, key);
        if (asks_nothing(&m, v))
            continue;
        char *where_key = arena_printf(&o->arena, "%s %s", from, key);
        enum option_type type = m.kind == MEANS_OPTION ? option_rows[m.option].type : OPTION_SECTION;
        if (!where_key)
            TRY_TO(out, err_no_memory(err, strlen(from) + strlen(key)));
        if (m.kind == MEANS_OPTION)
            TRY_TO(out, value_text(o, type, v, where_key, &value, err));
        else
            value = "";
        TRY_TO(out, option_assign_key(o, parent, source, from, key, value, err));
    }
out:
    json_decref(object);
    return code;
}

/* ---- --config. ---- */

/* Whether the object says the same by the option's own name: saved TrainingArguments have two for some. */
static bool says_it_twice(const json_t *object, const struct option_meaning *m, const json_t *v)
{
    const json_t *own = m->spelling ? json_object_get(object, option_rows[m->option].name) : NULL;
    return own && json_equal(own, v);
}

/* What a --config file holds. */
struct config {
    const char *path;
    json_t *object, *lines; /* lines: of each name; NULL for JSON, whose reader does not tell */
};

static char *place_of(struct options *o, const struct config *c, const char *name)
{
    json_int_t line = json_integer_value(json_object_get(c->lines, name));
    return line ? arena_printf(&o->arena, "%s:%lld: %s", c->path, (long long)line, name)
                : arena_printf(&o->arena, "%s: %s", c->path, name);
}

/* Whether `no` is a word of the option: YAML makes false of it. */
static bool takes_no(int option)
{
    bool takes = option_rows[option].type == OPTION_WORD && word_in("no", option_rows[option].domain, NULL);
    for (size_t i = 0; i < n_option_values; i++)
        takes |= option_values[i].option == option && strcmp(option_values[i].spelling, "no") == 0;
    return takes;
}

static int read_member(struct options *o, const struct config *c, const char *name, const json_t *v, bool ratios,
                       struct snug_err *err)
{
    struct option_meaning m = option_lookup(o, name);
    bool ratio = m.spelling && m.spelling->kind == SPELLING_RATIO;
    if (asks_nothing(&m, v) || m.kind == MEANS_OTHER_COMMAND || ratio != ratios || says_it_twice(c->object, &m, v))
        return SNUG_OK;
    char *from = place_of(o, c, name);
    if (!from)
        return err_no_memory(err, strlen(c->path) + strlen(name) + 24);
    TRY(option_refuse(o, &m, from, name, err));
    if (m.kind == MEANS_ACCEPTED)
        return SNUG_OK;
    if (m.option == OPTION_config)
        return err_set(err, SNUG_ERR_USAGE, "%s: a config file cannot name another; leave it out", from);
    bool word = m.option == OPTION_resume_from_checkpoint && json_is_boolean(v); /* true is one of its values */
    if (word && json_is_false(v))
        return SNUG_OK;
    bool flag = word || (m.spelling && m.spelling->value);
    enum option_type type = flag ? OPTION_BOOL : option_rows[m.option].type;
    if (m.option == OPTION_deepspeed && json_is_object(v)) /* the configuration itself, as its JSON */
        type = OPTION_KWARGS;
    const char *text = "no";
    if (!json_is_false(v) || flag || !takes_no(m.option))
        TRY(value_text(o, type, v, from, &text, err));
    return option_assign(o, &m, FROM_CONFIG, from, text, err);
}

static bool ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);
    return n >= k && strcasecmp(path + n - k, ending) == 0;
}

/* By the name's ending; without a known one by the first mark, as a JSON object has one. */
static bool is_yaml(const char *path, const char *text)
{
    if (ends_in(path, ".yaml") || ends_in(path, ".yml"))
        return true;
    text += strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    text += strspn(text, " \t\r\n");
    return !ends_in(path, ".json") && *text != '{' && *text != '[';
}

static int read_config(struct config *c, const struct io *io, struct snug_err *err)
{
    char *text;
    size_t n;
    TRY(io_read_file(io, c->path, CONFIG_LIMIT, &text, &n, err));
    bool yaml = is_yaml(c->path, text);
    int code =
        yaml ? yaml_parse(text, n, c->path, &c->object, &c->lines, err) : json_parse(text, n, c->path, &c->object, err);
    mem_free(text);
    if (!code && !json_is_object(c->object) && !(yaml && json_is_null(c->object)))
        code =
            err_set(err, SNUG_ERR_INPUT, "%s: %s", c->path,
                    yaml ? "not lines of NAME: VALUE; give them" : "not a JSON object; give {\"option\": value, ...}");
    return code;
}

int options_read_config(struct options *o, const struct io *io, const char *path, struct snug_err *err)
{
    struct config c = {.path = path};
    json_t *v;
    const char *name;
    int code = read_config(&c, io, err);
    for (int ratios = 0; !code && ratios < 2; ratios++)
        json_object_foreach(c.object, name, v)
        {
            TRY_TO(out, read_member(o, &c, name, v, ratios, err));
        }
out:
    json_decref(c.object);
    json_decref(c.lines);
    return code;
}

/* ---- What a checkpoint records. ---- */

static json_t *word_json(const char *words, int index)
{
    for (; index > 0; index--)
        words = strchr(words, '|') + 1;
    return json_stringn(words, strcspn(words, "|"));
}

/* Paths may be any bytes; JSON is UTF-8. */
static json_t *string_json(const char *s)
{
    json_t *j = json_string(s);
    if (j)
        return j;
    struct str clean = {0};
    str_json(&clean, s);
    j = clean.failed ? NULL : json_loads(str_text(&clean), JSON_DECODE_ANY, NULL);
    str_free(&clean);
    return j;
}

/* A string, or an array; that too for a path which would be taken for one. */
static json_t *paths_json(const struct opt_paths *p)
{
    if (!p->n_more && p->first[0] != '[')
        return string_json(p->first);
    json_t *array = json_array();
    for (size_t i = 0; i <= p->n_more; i++)
        json_array_append_new(array, string_json(i ? p->more[i - 1] : p->first));
    return array;
}

static json_t *texts_json(const struct opt_texts *t)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < t->n; i++)
        json_array_append_new(list, json_string(t->items[i]));
    return list;
}

static json_t *value_json(const struct options *o, int i)
{
    const struct option_row *row = &option_rows[i];
    const void *member = option_member(o, i);
    if (row->type != OPTION_KWARGS && o->source[i] == FROM_DEFAULT && strcmp(row->unset, "none") == 0)
        return json_null();
    switch (row->type) {
    case OPTION_BOOL:
        return json_boolean(*(const bool *)member);
    case OPTION_INT:
    case OPTION_BYTES:
        return json_integer(*(const int64_t *)member);
    case OPTION_UINT: {
        uint64_t x = *(const uint64_t *)member;
        char digits[24];
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)x);
        return x <= INT64_MAX ? json_integer((json_int_t)x) : json_string(digits);
    }
    case OPTION_REAL:
        return json_real(*(const double *)member);
    case OPTION_STEPS: {
        const struct opt_steps *s = member;
        return s->ratio > 0 ? json_real(s->ratio) : json_integer(s->steps);
    }
    case OPTION_CHAR:
        return json_stringn(member, 1);
    case OPTION_STR:
        return string_json(*(const char *const *)member);
    case OPTION_PATHS:
        return paths_json(member);
    case OPTION_TEXTS:
        return texts_json(member);
    case OPTION_WORD:
        return word_json(row->domain, *(const int *)member);
    case OPTION_KWARGS:
        return json_object();
    case OPTION_SECTION:
        break;
    }
    return NULL;
}

int options_to_json(const struct options *o, bool results_only, json_t **out, struct snug_err *err)
{
    json_t *object = json_object();
    for (int i = 0; i < N_OPTIONS && object; i++) {
        const struct option_row *row = &option_rows[i];
        bool keys = row->type == OPTION_KWARGS;
        if (!(row->commands & o->command) || row->type == OPTION_SECTION || i == OPTION_config ||
            i == OPTION_deepspeed /* whose values others have */ || (results_only && !row->result && !keys))
            continue;
        json_t *into = row->parent < 0 ? object : json_object_get(object, option_rows[row->parent].name);
        if (json_object_set_new(into, row->name, value_json(o, i)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    for (int i = 0; i < N_OPTIONS && object; i++)
        if (results_only && option_rows[i].type == OPTION_KWARGS &&
            json_object_size(json_object_get(object, option_rows[i].name)) == 0)
            json_object_del(object, option_rows[i].name);
    *out = object;
    return object ? SNUG_OK : err_no_memory(err, 4096);
}

void options_json_value(const json_t *v, struct str *out)
{
    char number[NUMBER_TEXT_MAX];
    const char *key, *comma = "";
    json_t *member;
    if (json_is_real(v)) {
        str_append(out, number_text(json_real_value(v), number));
    } else if (json_is_object(v)) {
        str_append(out, "{");
        json_object_foreach((json_t *)(uintptr_t)v, key, member)
        {
            str_append(out, comma);
            str_json(out, key);
            str_append(out, ": ");
            options_json_value(member, out);
            comma = ", ";
        }
        str_append(out, "}");
    } else {
        char *text = json_dumps(v, JSON_ENCODE_ANY);
        str_append(out, text ? text : "null");
        out->failed |= !text;
        free(text);
    }
}

void options_json_text(const json_t *object, struct str *out)
{
    const char *key, *before = "{\n  ";
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        str_append(out, before);
        str_json(out, key);
        str_append(out, ": ");
        options_json_value(v, out);
        before = ",\n  ";
    }
    str_append(out, "\n}\n");
}
