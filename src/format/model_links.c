/* Where the links of a model folder may lead. */
#include "format/model_dir.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Cuts from a real path what lies below the folder that its files belong to. A snapshot of the Hugging Face cache,
 * models--X/snapshots/REV, is a folder of links into models--X/blobs: it is a part of models--X. Whether it is one. */
static bool to_own_folder(char *real)
{
    static const char cache[] = "models--", snapshots[] = "snapshots";
    char *revision = strrchr(real, '/');
    if (!revision || revision - real < (ptrdiff_t)sizeof snapshots)
        return false;
    char *parent = revision - (sizeof snapshots - 1); /* where "snapshots" would begin, behind a slash */
    if (parent[-1] != '/' || strncmp(parent, snapshots, sizeof snapshots - 1))
        return false;
    char *model = parent - 1;
    while (model > real && model[-1] != '/')
        model--;
    if (strncmp(model, cache, sizeof cache - 1))
        return false;
    parent[-1] = 0;
    return true;
}

int model_link_check(const struct model_dir *d, const char *name, bool shard, struct snug_err *err)
{
    struct stat st;
    char own[PATH_MAX], target[PATH_MAX];
    char *path = model_dir_file(d, name);
    if (!path)
        return err_no_memory(err, strlen(d->path) + strlen(name) + 2);
    bool leads = d->io->lstat(d->io, path, &st) == 0 && S_ISLNK(st.st_mode) && d->io->realpath(d->io, d->path, own) &&
                 d->io->realpath(d->io, path, target); /* of one that leads nowhere, whoever opens it says so */
    mem_free(path);
    if (!leads || !(to_own_folder(own) || shard))
        return SNUG_OK;
    size_t n = strlen(own);
    if (!strncmp(target, own, n) && target[n] == '/')
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: %s%.80s is a link to %s, out of the model's folder; put the file itself here", d->path,
                   shard ? "shard " : "", name, target);
}

bool model_dir_of_hub(const struct model_dir *d, char name[MODEL_HUB_NAME], char commit[MODEL_HUB_COMMIT])
{
    char real[PATH_MAX];
    if (!d->io->realpath(d->io, d->path, real))
        return false;
    const char *last = strrchr(real, '/') + 1;
    if (strlen(last) != MODEL_HUB_COMMIT - 1 || strspn(last, "0123456789abcdef") != MODEL_HUB_COMMIT - 1)
        return false;
    memcpy(commit, last, MODEL_HUB_COMMIT);
    if (!to_own_folder(real))
        return false;
    const char *model = strrchr(real, '/') + 1 + strlen("models--"), *dashes = strstr(model, "--");
    int owner = dashes ? (int)(dashes - model) : 0; /* the hub's oldest models have none */
    int n = owner ? snprintf(name, MODEL_HUB_NAME, "%.*s/%s", owner, model, dashes + 2)
                  : snprintf(name, MODEL_HUB_NAME, "%s", model);
    return n > 0 && n < MODEL_HUB_NAME;
}
