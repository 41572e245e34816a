#include "train/record.h"

#include "format/json.h"

enum { RECORD_LIMIT = 1 << 20 };
static const char version[] = "snug_version";

int record_text(const struct options *o, struct str *out, struct snug_err *err)
{
    static const char *const off[] = {"overwrite_output_dir", "allow_data_change", "require_bitexact"};
    json_t *all = NULL, *record = json_object();
    if (!record)
        return err_no_memory(err, 1 << 12);
    json_object_set_new(record, version, json_string(SNUG_VERSION));
    int code = options_to_json(o, false, &all, err);
    if (!code && json_object_update(record, all))
        code = err_no_memory(err, 1 << 12);
    if (!code) {
        json_object_set_new(record, "resume_from_checkpoint", json_null());
        for (size_t i = 0; i < sizeof off / sizeof *off; i++)
            json_object_set_new(record, off[i], json_false());
        options_json_text(record, out);
        code = str_check(out, err);
    }
    json_decref(all);
    json_decref(record);
    return code;
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
