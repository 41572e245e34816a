/* json.h: reading JSON safely, on top of jansson. Stricter than RFC 8259 asks: a document is refused when it is not
 * UTF-8, holds an object key twice, is nested deeper than 128, holds a number beyond the range of a double, or a
 * \u0000 (C strings end there). A UTF-8 BOM is skipped. An integer beyond int64, such as the 10^30 that
 * tokenizer_config.json files have for "no limit", is read as a real. */
#ifndef FORMAT_JSON_H
#define FORMAT_JSON_H

#include "base/io.h"

#include <jansson.h>

enum { JSON_MAX_DEPTH = 128 };

/* All give a new reference, for json_decref, or leave *out NULL. Errors are SNUG_ERR_INPUT with "path:line:column:
 * ...", and those of io_read_file. `path` is for the messages. */
int json_parse(const char *text, size_t bytes, const char *path, json_t **out, struct snug_err *err);
int json_read_file(const struct io *io, const char *path, int64_t limit, json_t **out, struct snug_err *err);

/* The same where only an object at the top level will do. */
int json_read_object(const struct io *io, const char *path, int64_t limit, json_t **out, struct snug_err *err);

/* Typed members of object `o` (from file `path`). When the key is absent: `*out` keeps what the caller put there if
 * `required` is false, else SNUG_ERR_INPUT. A value of another type or out of [min, max] is SNUG_ERR_INPUT with key,
 * value and range. Integers must be written as integers (1e3 and 1.0 are refused); null counts as absent. Strings live
 * as long as `o`. */
int json_get_int(json_t *o, const char *path, const char *key, bool required, int64_t min, int64_t max, int64_t *out,
                 struct snug_err *err);
int json_get_real(json_t *o, const char *path, const char *key, bool required, double min, double max, double *out,
                  struct snug_err *err);
int json_get_bool(json_t *o, const char *path, const char *key, bool required, bool *out, struct snug_err *err);
int json_get_string(json_t *o, const char *path, const char *key, bool required, const char **out,
                    struct snug_err *err);

/* For messages: `v` in at most 63 bytes (containers only by name, long strings cut). NULL is "absent". */
const char *json_value_text(json_t *v, char text[64]);

#endif
