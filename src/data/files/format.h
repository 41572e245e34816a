/* format.h: the kinds of data files. */
#ifndef DATA_FILES_FORMAT_H
#define DATA_FILES_FORMAT_H

#include "base/err.h"
#include "base/io.h"

/* Tables that may come from a pipe, with the words of --data-format. FORMAT_UNKNOWN is only asked for: the file's ending, or its first
 * line, shall tell. */
#define TABLE_FORMATS(W)                                                                                               \
    W(FORMAT_UNKNOWN, "auto")                                                                                          \
    W(FORMAT_CSV, "csv")                                                                                               \
    W(FORMAT_TSV, "tsv")                                                                                               \
    W(FORMAT_JSON, "json")                                                                                             \
    W(FORMAT_JSONL, "jsonl")                                                                                           \
    W(FORMAT_LINES, "txt")                                                                                             \
    W(FORMAT_CONLL, "conll")
#define FORMAT_ID(id, text) id,
enum data_format { TABLE_FORMATS(FORMAT_ID) FORMAT_PARQUET, FORMAT_SAFETENSORS, FORMAT_SYNTHETIC, FORMAT_COUNT };
#undef FORMAT_ID

extern const char
    *const data_format_names[FORMAT_COUNT]; /* of tables, in messages: "JSON lines"; NULL for the others */
bool data_format_is_table(enum data_format format);

/* What a path's ending says. SNUG_ERR_INPUT: none of those. */
int data_format_of(const struct io *io, const char *path, enum data_format *format, struct snug_err *err);

#endif
