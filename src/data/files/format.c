#include "data/files/format.h"

#include "base/files/unpack.h"
#include "data/files/foreign.h"

#include <string.h>
#include <strings.h>

const char *const data_format_names[FORMAT_COUNT] = {[FORMAT_CSV] = "CSV",
                                                     [FORMAT_TSV] = "TSV",
                                                     [FORMAT_JSON] = "JSON",
                                                     [FORMAT_JSONL] = "JSON lines",
                                                     [FORMAT_LINES] = "lines of text",
                                                     [FORMAT_CONLL] = "CoNLL columns",
                                                     [FORMAT_PARQUET] = "Parquet"};

bool data_format_is_table(enum data_format format)
{
    return format != FORMAT_SAFETENSORS && format != FORMAT_SYNTHETIC;
}

/* What is read from front to back. */
static bool may_be_packed(enum data_format format)
{
    return data_format_is_table(format) && format != FORMAT_PARQUET;
}

int data_format_of(const struct io *io, const char *path, enum data_format *format, struct snug_err *err)
{
    static const struct {
        const char *ending;
        enum data_format format;
    } endings[] = {
        {".csv", FORMAT_CSV},     {".tsv", FORMAT_TSV},         {".json", FORMAT_JSON},
        {".jsonl", FORMAT_JSONL}, {".ndjson", FORMAT_JSONL},    {".txt", FORMAT_LINES},
        {".conll", FORMAT_CONLL}, {".bio", FORMAT_CONLL},       {".iob", FORMAT_CONLL},
        {".iob2", FORMAT_CONLL},  {".parquet", FORMAT_PARQUET}, {".safetensors", FORMAT_SAFETENSORS},
    };
    if (strncmp(path, "synthetic:", 10) == 0) {
        *format = FORMAT_SYNTHETIC;
        return SNUG_OK;
    }
    size_t n = unpack_name(path);
    bool packed = path[n] != 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t bytes = strlen(endings[i].ending);
        if (n < bytes || strncasecmp(path + n - bytes, endings[i].ending, bytes) != 0)
            continue;
        if (packed && !may_be_packed(endings[i].format))
            continue;
        *format = endings[i].format;
        return SNUG_OK;
    }
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    struct stat st;
    if (io->stat(io, path, &st) == 0 && S_ISDIR(st.st_mode))
        return err_set(err, SNUG_ERR_INPUT, "%s: a folder; give a file of data in it", path);
    TRY(foreign_refuse_file(io, path, err));
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: the ending '%s' is not one of .csv, .tsv, .json, .jsonl, .parquet, .txt, .conll and "
                   ".safetensors; rename or "
                   "convert it",
                   path, dot ? dot : "");
}
