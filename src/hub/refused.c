#include "hub/internal.h"

#include <string.h>

static int gated(const struct repository *r, struct snug_err *err)
{
    const char *kind = hub_wants_rows(r->wish) ? "datasets/" : "", *name = r->wish->name.repository;
    const char *endpoint = str_text(&r->env.endpoint);
    if (r->env.token.n)
        return err_set(
            err, SNUG_ERR_IO,
            "%s: is given to those who accept its licence; accept it at %s/%s%s, with the account of HF_TOKEN",
            r->wish->text, endpoint, kind, name);
    return err_set(err, SNUG_ERR_IO,
                   "%s: is given to those who accept its licence; accept it at %s/%s%s, and set HF_TOKEN",
                   r->wish->text, endpoint, kind, name);
}

int repository_refused(const struct repository *r, const char *what, bool file, const struct http_answer *a,
                       struct snug_err *err)
{
    const char *endpoint = str_text(&r->env.endpoint), *kind = hub_wants_rows(r->wish) ? "dataset" : "model";
    bool token = r->env.token.n > 0;
    if (!strcmp(a->error, "GatedRepo"))
        return gated(r, err);
    if (a->status == 401 && token && strcmp(a->error, "RepoNotFound") != 0)
        return err_set(err, SNUG_ERR_IO,
                       "%s: %s does not accept the token (401); check HF_TOKEN, or the token in HF_HOME", what,
                       endpoint);
    if (a->status == 401 && !token)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: no such path here, and no public %s of that name on %s (401); check the name, or set HF_TOKEN for a "
            "private one",
            what, kind, endpoint);
    if (a->status == 403)
        return err_set(err, SNUG_ERR_IO, "%s: %s gives no access (403); %s", what, endpoint,
                       token ? "the token of HF_TOKEN may lack the right to read it" : "set HF_TOKEN");
    if (!strcmp(a->error, "RevisionNotFound"))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s has no revision %s; give a branch, a tag or a commit that is there",
                       what, r->wish->name.repository, r->wish->name.revision);
    if (a->status == 404 && file)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s has no such file any more (404); run the same again", what,
                       endpoint);
    if (a->status == 404 || a->status == 401)
        return err_set(err, SNUG_ERR_INPUT, "%s: no such path here, and no such %s on %s (%ld); check the name", what,
                       kind, endpoint, a->status);
    return err_set(err, SNUG_ERR_IO, "%s: %s answers with status %ld; check HF_ENDPOINT", what, endpoint, a->status);
}
