/* Sentence-embedding models, as the library sentence-transformers writes them: a model folder, and modules.json with what comes
 * behind the model, each in a folder of its own: pooling, a dense layer, a normalization. */
#include "format/model_dir.h"

#include <stdio.h>
#include <string.h>

enum { MODULES_LIMIT = 1 << 20 };

static bool is_carried(const struct model_dir *d, const char *folder)
{
    size_t n = strlen(folder);
    for (size_t i = 0; i < d->n_carried; i++)
        if (!strncmp(d->carried[i], folder, n) && d->carried[i][n] == '/')
            return true;
    return false;
}

bool model_dir_has_modules(const struct model_dir *d)
{
    for (size_t i = 0; i < d->n_carried; i++)
        if (!strcmp(d->carried[i], "modules.json"))
            return true;
    return false;
}

void model_dir_unknown_module(const struct model_dir *d, char path[64])
{
    json_t *modules = NULL, *module;
    size_t i;
    char *file = model_dir_has_modules(d) ? model_dir_file(d, "modules.json") : NULL;
    *path = 0;
    if (file && !json_read_file(d->io, file, MODULES_LIMIT, &modules, NULL))
        json_array_foreach(modules, i, module)
        {
            const char *folder = json_string_value(json_object_get(module, "path"));
            bool found = false;
            if (*path || !folder || !*folder || is_carried(d, folder))
                continue;
            if (!model_dir_has(d, folder, &found, NULL) && found) /* a module without files has no folder on the hub */
                snprintf(path, 64, "%s", folder);
        }
    json_decref(modules);
    mem_free(file);
}
