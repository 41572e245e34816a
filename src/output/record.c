#include "output/record.h"

#include "format/json.h"

#include <string.h>

enum { RECORD_LIMIT = 1 << 20 };
static const char version[] = "snug_version";

/* What describes how a run was started, not what it computes. */
static const char *const starts[] = {"resume_from_checkpoint",
                                     "overwrite_output_dir",
                                     "allow_data_change",
                                     "allow_option_change",
                                     "require_bitexact",
                                     "config",
                                     "lr_find",
                                     "num_processes",
                                     "process_index",
                                     "main_process"};

int record_text(const struct options *o, struct str *out, struct snug_err *err)
{
    json_t *all = NULL, *record = json_object();
    if (!record)
        return err_no_memory(err, 1 << 12);
    json_object_set_new(record, version, json_string(SNUG_VERSION));
    int code = options_to_json(o, false, &all, err);
    if (!code && json_object_update(record, all))
        code = err_no_memory(err, 1 << 12);
    if (!code) {
        for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
            if (json_object_get(record, starts[i]))
                json_object_set_new(record, starts[i], json_null());
        options_json_text(record, out);
        code = str_check(out, err);
    }
    json_decref(all);
    json_decref(record);
    return code;
}

static bool says_how_it_started(const char *name)
{
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strcmp(name, starts[i]))
            return true;
    return false;
}

void record_word(struct str *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
    if (*text && strspn(text, plain) == strlen(text)) {
        str_append(out, text);
        return;
    }
    str_append(out, "'");
    for (; *text; text++)
        str_append_n(out, *text == '\'' ? "'\\''" : text, *text == '\'' ? 4 : 1);
    str_append(out, "'");
}

/* The keys that were given of row `parent`, as an object that its option takes. */
static json_t *given_keys(const struct options *o, int parent, const json_t *values)
{
    json_t *given = json_object();
    for (int i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].parent == parent && option_asks(o, i))
            json_object_set(given, option_rows[i].name, json_object_get(values, option_rows[i].name));
    return given;
}

static void put_option(const struct options *o, int i, const json_t *value, struct str *out)
{
    char flag[OPTION_NAME_MAX];
    json_t *keys = option_rows[i].type == OPTION_KWARGS ? given_keys(o, i, value) : NULL;
    struct str text = {0};
    if (keys ? json_object_size(keys) > 0 : option_asks(o, i)) {
        str_printf(out, " %s", option_flag(option_rows[i].name, flag));
        if (json_is_string(value))
            str_append(&text, json_string_value(value));
        else if (!json_is_true(value))
            options_json_value(keys ? keys : value, &text);
        if (text.n) {
            str_append(out, " ");
            record_word(out, str_text(&text));
        }
    }
    str_free(&text);
    json_decref(keys);
}

int record_command(const struct options *o, struct str *out, struct snug_err *err)
{
    json_t *all = NULL;
    TRY(options_to_json(o, false, &all, err));
    str_printf(out, "snug %s", command_name(o->command));
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = &option_rows[i];
        json_t *value = row->type == OPTION_SECTION || row->parent >= 0 ? NULL : json_object_get(all, row->name);
        if (value && !json_is_null(value) && !says_how_it_started(row->name))
            put_option(o, i, value, out);
    }
    json_decref(all);
    return str_check(out, err);
}

bool record_is_ours(const struct io *io, const char *path)
{
    json_t *record = NULL;
    if (json_read_file(io, path, RECORD_LIMIT, &record, NULL))
        return false;
    bool ours = json_is_string(json_object_get(record, version));
    json_decref(record);
    return ours;
}
