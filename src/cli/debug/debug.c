/* snug debug json, snug debug docs. */
#include "cli/commands.h"
#include "format/json.h"

#include <stdlib.h>
#include <string.h>

int run_debug_json(struct options *o, const struct arguments *args, struct snug_err *err)
{
    (void)o;
    json_t *j;
    TRY(json_read_file(&io_posix, args->items[0], (int64_t)1 << 30, &j, err));
    char *text = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(j);
    if (!text)
        return err_no_memory(err, 1);
    puts(text);
    free(text);
    return SNUG_OK;
}

int run_debug_docs(struct options *o, const struct arguments *args, struct snug_err *err)
{
    static const struct {
        const char *name;
        void (*print)(FILE *f);
    } documents[] = {{"options", docs_options}, {"trainer", docs_trainer}, {"ops", docs_ops},
                     {"models", docs_models},   {"man", docs_man},         {"completion", docs_completion}};
    (void)o;
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        if (strcmp(args->items[0], documents[i].name) == 0) {
            documents[i].print(stdout);
            return SNUG_OK;
        }
    return err_set(err, SNUG_ERR_USAGE, "%s: no such document; give options, trainer, ops, models, man or completion",
                   args->items[0]);
}
