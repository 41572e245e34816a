/* Which GGUF file a model's path stands for. */
#include "format/gguf/model.h"

#include <stdio.h>
#include <string.h>

static bool ends_in_gguf(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".gguf");
}

static char *join(const char *folder, const char *name)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = mem_alloc(n);
    if (path)
        snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static int only_one(const struct io *io, const char *folder, char **file, struct snug_err *err)
{
    struct arena a = {0};
    const char *const *names, *found = NULL;
    size_t n = 0, count = 0;
    if (io_list(io, folder, &a, &names, &n, NULL))
        n = 0; /* whoever opens the folder says why it cannot be read */
    for (size_t i = 0; i < n; i++)
        if (ends_in_gguf(names[i]))
            found = count++ ? found : names[i];
    int code = SNUG_OK;
    if (count > 1)
        code = err_set(err, SNUG_ERR_INPUT, "%s: has %zu GGUF files; give one of them, such as %s/%s", folder, count,
                       folder, found);
    else if (count && !(*file = join(folder, found)))
        code = err_no_memory(err, strlen(folder) + strlen(found) + 2);
    arena_free(&a);
    return code;
}

int gguf_find_file(const struct io *io, const char *path, char **file, struct snug_err *err)
{
    struct stat st;
    *file = NULL;
    if (io->stat(io, path, &st) < 0)
        return SNUG_OK;
    if (!S_ISDIR(st.st_mode)) {
        if (ends_in_gguf(path) && !(*file = mem_strdup(path)))
            return err_no_memory(err, strlen(path) + 1);
        return SNUG_OK;
    }
    char *config = join(path, "config.json");
    if (!config)
        return err_no_memory(err, strlen(path) + 16);
    bool has_config = io->lstat(io, config, &st) == 0;
    mem_free(config);
    return has_config ? SNUG_OK : only_one(io, path, file, err);
}
