#include "hub/environment.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* An empty variable counts as one that is not set. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_true(const char *value)
{
    return value && (!strcasecmp(value, "1") || !strcasecmp(value, "on") || !strcasecmp(value, "yes") ||
                     !strcasecmp(value, "true"));
}

/* A path from the environment, in which "~/" is the home folder, as huggingface_hub has it. */
static void put_path(struct str *out, const char *path)
{
    const char *home = variable("HOME");
    if (!strncmp(path, "~/", 2) && home)
        str_printf(out, "%s%s", home, path + 1);
    else
        str_append(out, path);
}

static int put_home(struct str *out, struct snug_err *err)
{
    const char *hf = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (hf)
        put_path(out, hf);
    else if (xdg)
        str_printf(out, "%s/huggingface", xdg);
    else if (home)
        str_printf(out, "%s/.cache/huggingface", home);
    else
        return err_set(err, SNUG_ERR_USAGE,
                       "HOME is not set, so there is no place for downloads; set HF_HOME to a folder");
    return SNUG_OK;
}

static int read_endpoint(struct str *out, struct snug_err *err)
{
    const char *set = variable("HF_ENDPOINT");
    if (set && strncmp(set, "https://", 8) != 0 && strncmp(set, "http://", 7) != 0)
        return err_set(err, SNUG_ERR_USAGE, "HF_ENDPOINT: '%s' is not an address; give one that begins with https://",
                       set);
    size_t n = set ? strlen(set) : 0;
    while (n && set[n - 1] == '/')
        n--;
    if (set)
        str_append_n(out, set, n);
    else
        str_append(out, "https://huggingface.co");
    return SNUG_OK;
}

/* It becomes a line of a request: nothing in it may begin another one. The message does not show it. */
static int take_token(struct str *out, const char *text, const char *where, struct snug_err *err)
{
    size_t from = strspn(text, " \t\r\n"), n = strlen(text + from);
    while (n && strchr(" \t\r\n", text[from + n - 1]))
        n--;
    for (size_t i = 0; i < n; i++)
        if (text[from + i] <= ' ' || text[from + i] > '~')
            return err_set(err, SNUG_ERR_USAGE, "%s: a token has letters, digits and underscores only; set it anew",
                           where);
    str_append_n(out, text + from, n);
    return SNUG_OK;
}

static int read_token(const struct io *io, const char *home, struct str *out, struct snug_err *err)
{
    const char *set = variable("HF_TOKEN"), *path = variable("HF_TOKEN_PATH");
    if (!set)
        set = variable("HUGGING_FACE_HUB_TOKEN");
    if (set)
        return take_token(out, set, "HF_TOKEN", err);
    struct str file = {0};
    char *text = NULL;
    size_t n;
    if (path)
        put_path(&file, path);
    else
        str_printf(&file, "%s/token", home);
    int code = str_check(&file, err);
    /* Without one the hub answers what is public; whether that is enough, it says. */
    if (!code && io_exists(io, str_text(&file)))
        code = io_read_file(io, str_text(&file), 4096, &text, &n, err);
    if (!code && text)
        code = take_token(out, text, str_text(&file), err);
    mem_free(text);
    str_free(&file);
    return code;
}

int hub_environment_read(const struct io *io, struct hub_environment *e, struct snug_err *err)
{
    static const char *const bundles[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"};
    const char *cache = variable("HF_HUB_CACHE");
    struct str home = {0};
    *e = (struct hub_environment){.offline =
                                      is_true(variable("HF_HUB_OFFLINE")) || is_true(variable("TRANSFORMERS_OFFLINE"))};
    int code = put_home(&home, err);
    if (!code && cache)
        put_path(&e->cache, cache);
    else if (!code)
        str_printf(&e->cache, "%s/hub", str_text(&home));
    if (!code)
        code = read_endpoint(&e->endpoint, err);
    for (int i = 0; i < 3 && !e->certificates.n; i++)
        if (variable(bundles[i]))
            str_append(&e->certificates, variable(bundles[i]));
    if (!code)
        code = read_token(io, str_text(&home), &e->token, err);
    str_free(&home);
    if (!code)
        code = str_check(&e->cache, err);
    if (!code)
        code = str_check(&e->endpoint, err);
    if (!code)
        code = str_check(&e->certificates, err);
    return code ? code : str_check(&e->token, err);
}

void hub_environment_free(struct hub_environment *e)
{
    str_free(&e->endpoint);
    str_free(&e->cache);
    str_free(&e->token);
    str_free(&e->certificates);
}
