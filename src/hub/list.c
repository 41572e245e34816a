/* What a revision is, by the hub's API: /api/models/OWNER/NAME/revision/REVISION has "sha" and "siblings": [{"rfilename"}, …]. */
#include "format/json.h"
#include "hub/internal.h"

#include <string.h>

enum { LIMIT = 256 << 20 }; /* bytes of such a list; a hundred thousand files have ten megabytes */

static int64_t from_start(void *ctx)
{
    (void)ctx;
    return 0;
}

static int begin(void *ctx, const struct http_answer *a, struct snug_err *err)
{
    (void)a, (void)err;
    str_free(ctx);
    return SNUG_OK;
}

static int add(void *ctx, const char *bytes, size_t n, struct snug_err *err)
{
    struct str *text = ctx;
    str_append_n(text, bytes, n);
    return text->n > LIMIT
               ? err_set(err, SNUG_ERR_INPUT, "the hub's list of files has over %d MiB; check HF_ENDPOINT", LIMIT >> 20)
               : str_check(text, err);
}

/* A name that would leave the snapshot's folder is nobody's. */
int repository_read_list(struct repository *r, const char *url, const char *text, size_t n, struct file_names *all,
                         struct snug_err *err)
{
    json_t *doc = NULL, *one;
    size_t i;
    TRY(json_parse(text, n, url, &doc, err));
    const char *sha = json_string_value(json_object_get(doc, "sha"));
    int code = SNUG_OK;
    if (!sha || !is_commit(sha) || !json_is_array(json_object_get(doc, "siblings")))
        code =
            err_set(err, SNUG_ERR_INPUT, "%s: is no answer of a hub, it lacks sha or siblings; check HF_ENDPOINT", url);
    else
        strcpy(r->commit, sha);
    if (!code)
        json_array_foreach(json_object_get(doc, "siblings"), i, one)
        {
            const char *name = json_string_value(json_object_get(one, "rfilename"));
            if (!name || !hub_path_is_safe(name))
                continue;
            const char *copy = arena_strdup(r->arena, name);
            TRY_TO(done, copy ? file_names_add(all, copy, err) : err_no_memory(err, strlen(name)));
        }
done:
    json_decref(doc);
    return code;
}

int repository_list(struct repository *r, struct file_names *all, struct snug_err *err)
{
    struct str url = {0}, text = {0};
    struct http_answer a;
    const struct http_sink sink = {.from = from_start, .begin = begin, .add = add, .ctx = &text};
    str_printf(&url, "%s/api/%s/%s/revision/", str_text(&r->env.endpoint),
               hub_wants_rows(r->wish) ? "datasets" : "models", r->wish->name.repository);
    http_escape(&url, r->wish->name.revision, false);
    int code = str_check(&url, err);
    if (!code)
        code = http_request(&r->http, str_text(&url), r->wish->text, &sink, &a, err);
    if (!code && a.status != 200)
        code = repository_refused(r, r->wish->text, false, &a, err);
    if (!code)
        code = repository_read_list(r, str_text(&url), str_text(&text), text.n, all, err);
    str_free(&url);
    str_free(&text);
    return code;
}
