#include "hub/name.h"

#include "base/str.h"

#include <string.h>
#include <strings.h>

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

/* n characters of an owner or a name: the hub has 96 at most, none of them begins with a mark, and "--" and ".." are its own. */
static bool is_part(const char *s, size_t n)
{
    if (n < 1 || n > 96 || s[0] == '.' || s[0] == '-' || s[n - 1] == '.' || s[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_plain(s[i]) || (i && (s[i] == '.' || s[i] == '-') && s[i] == s[i - 1]))
            return false;
    return true;
}

bool hub_path_is_safe(const char *path)
{
    for (const char *part = path;; part++) {
        size_t n = strcspn(part, "/");
        if (n < 1 || n > 255 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += n;
        if (!*part)
            break;
    }
    for (size_t left = strlen(path), bytes; left; left -= bytes, path += bytes)
        if (!(bytes = (size_t)utf8_printable(path, left)) || *path == '\\')
            return false;
    return true;
}

static bool is_revision(const char *s)
{
    for (const char *c = s; *c; c++)
        if (!is_plain(*c) && *c != '/')
            return false;
    return hub_path_is_safe(s);
}

/* Whether n bytes end as the name of a file does. */
static bool ends_as_file(const char *s, size_t n)
{
    static const char *const endings[] = {".csv",   ".tsv",  ".json", ".jsonl",       ".ndjson", ".txt", ".conll",
                                          ".bio",   ".iob",  ".iob2", ".safetensors", ".gguf",   ".bin", ".parquet",
                                          ".arrow", ".gz",   ".zip",  ".zst",         ".xz",     ".bz2", ".pt",
                                          ".pth",   ".yaml", ".yml",  ".md"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (n > length && strncasecmp(s + n - length, endings[i], length) == 0)
            return true;
    }
    return false;
}

/* n bytes into a text of `room`; false where they do not fit. */
static bool take(char *to, size_t room, const char *s, size_t n)
{
    if (n >= room)
        return false;
    memcpy(to, s, n);
    to[n] = 0;
    return true;
}

/* The bytes of [OWNER/]NAME in front of `text`; 0 where it has another form. */
static size_t repository_in(const char *text, bool owner)
{
    size_t first = strcspn(text, "/@:"), all = strcspn(text, "@:");
    if (!is_part(text, first))
        return 0;
    if (text[first] != '/')
        return owner ? 0 : first;
    return is_part(text + first + 1, all - first - 1) ? all : 0;
}

bool hub_name_read(const char *text, bool owner, struct hub_name *name)
{
    size_t all = repository_in(text, owner);
    const char *at = text + all;
    if (!all || !take(name->repository, sizeof name->repository, text, all))
        return false;
    strcpy(name->revision, "main");
    name->file[0] = 0;
    if (*at == '@') {
        size_t n = strcspn(++at, ":");
        if (!take(name->revision, sizeof name->revision, at, n) || !is_revision(name->revision))
            return false;
        at += n;
    }
    if (*at == ':')
        return take(name->file, sizeof name->file, at + 1, strlen(at + 1)) && hub_path_is_safe(name->file);
    return !ends_as_file(text, all);
}
