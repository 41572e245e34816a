#include "data/files/foreign.h"

#include "base/str.h"

#include <string.h>

enum { LONGEST_PATH = 40 };

/* `convert` is a line to type, with $1 for the file and $2 for what it becomes; `ending` is that of $2. An ending alone is what the
 * name should have. */
static const struct {
    const char *bytes;
    size_t n;
    const char *name, *convert, *ending;
} kinds[] = {
    {"PAR1", 4, "a Parquet file", NULL, ".parquet"},
    {"ARROW1", 6, "an Arrow file",
     "with Python: import pandas; pandas.read_feather($1).to_json($2, orient='records', lines=True)", ".jsonl"},
    {"\xFF\xFF\xFF\xFF", 4, "an Arrow stream",
     "with Python: import datasets; datasets.Dataset.from_file($1).to_json($2)", ".jsonl"},
    {"PK\x03\x04", 4, "a zip file (.xlsx is one)",
     "with Python: import pandas; pandas.read_excel($1).to_csv($2, index=False)", ".csv"},
    {"\xD0\xCF\x11\xE0", 4, "an old Office file (.xls)",
     "with Python: import pandas; pandas.read_excel($1).to_csv($2, index=False)", ".csv"},
    {"\x1F\x8B", 2, "a gzip file", "with gunzip", ""},
    {"\x28\xB5\x2F\xFD", 4, "a zstd file", "with unzstd", ""},
    {"BZh", 3, "a bzip2 file", "with bunzip2", ""},
    {"\xFD"
     "7zXZ",
     5, "an xz file", "with unxz", ""},
    {"\xFF\xFE", 2, "UTF-16 text", "with: iconv -f utf-16 -t utf-8 $1", ""},
    {"\xFE\xFF", 2, "UTF-16 text", "with: iconv -f utf-16 -t utf-8 $1", ""},
    {"SQLite format 3", 15, "an SQLite file", NULL, NULL},
    {"version https://git-lfs", 23, "a Git LFS pointer, not the file itself", NULL, NULL},
    {"__label__", 9, "lines with labels as fastText has them",
     "with: jq -Rc 'capture(\"^__label__(?<label>\\\\S+)\\\\s*(?<text>(?!\\\\s*__label__).*)\") // error' $1 > $2",
     ".jsonl"},
    {"<!DOCTYPE", 9, "an HTML page", NULL, NULL},
    {"<!doctype", 9, "an HTML page", NULL, NULL},
    {"<html", 5, "an HTML page", NULL, NULL},
};

/* As a string of Python and of the shell. A line has no room for a long path, and a name that needs escapes is left to
 * the reader: such a file is called FILE. */
static void quoted(struct str *s, const char *path, size_t n, const char *ending)
{
    bool plain = n <= LONGEST_PATH && !memchr(path, '\'', n) && !memchr(path, '\\', n);
    str_printf(s, "'%.*s%s'", plain ? (int)n : 4, plain ? path : "FILE", ending);
}

static void append_conversion(struct str *s, const char *convert, const char *ending, const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    size_t stem = dot ? (size_t)(dot - path) : strlen(path);
    for (; *convert; convert++) {
        if (*convert != '$')
            str_append_n(s, convert, 1);
        else if (*++convert == '1')
            quoted(s, path, strlen(path), "");
        else
            quoted(s, path, stem, ending);
    }
}

static int refuse(const char *path, const char *name, const char *convert, const char *ending, struct snug_err *err)
{
    struct str s = {0};
    if (convert)
        append_conversion(&s, convert, ending, path);
    int code = str_check(&s, err);
    if (!code && convert)
        code = err_set(err, SNUG_ERR_INPUT, "%s: looks like %s; convert it %s", path, name, str_text(&s));
    else if (!code && ending)
        code = err_set(err, SNUG_ERR_INPUT, "%s: looks like %s; give it as a file whose name ends in %s", path, name,
                       ending);
    else if (!code)
        code = err_set(err, SNUG_ERR_INPUT, "%s: looks like %s; give UTF-8 text (.csv, .tsv, .json, .jsonl or .txt)",
                       path, name);
    str_free(&s);
    return code;
}

int foreign_refuse(const char *path, const char *head, size_t n, struct snug_err *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].n && memcmp(head, kinds[i].bytes, kinds[i].n) == 0)
            return refuse(path, kinds[i].name, kinds[i].convert, kinds[i].ending, err);
    if (n >= 4 && ((head[0] && !head[1] && head[2] && !head[3]) || (!head[0] && head[1] && !head[2] && head[3])))
        return refuse(path, "UTF-16 text", "with: iconv -f utf-16le -t utf-8 $1", "", err);
    return SNUG_OK;
}

int foreign_refuse_file(const struct io *io, const char *path, struct snug_err *err)
{
    char head[FOREIGN_HEAD_BYTES];
    int fd;
    int64_t size;
    if (io_open_read(io, path, &fd, &size, NULL)) /* whoever reads it says why not */
        return SNUG_OK;
    size_t n = size < FOREIGN_HEAD_BYTES ? (size_t)size : FOREIGN_HEAD_BYTES;
    int code = io_read_at(io, fd, path, head, n, 0, NULL);
    io->close(io, fd);
    return code ? SNUG_OK : foreign_refuse(path, head, n, err);
}
