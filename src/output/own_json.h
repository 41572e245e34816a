/* own_json.h: files of the output folder that are for the report: JSON objects with a member snug_version, by which they are known. */
#ifndef OUTPUT_OWN_JSON_H
#define OUTPUT_OWN_JSON_H

#include "base/io.h"
#include "base/str.h"
#include "format/json.h"

#define EVALUATION_NAME "last_evaluation.json" /* output/evaluation.h */
#define ENVIRONMENT_NAME "environment.json"    /* train/environment.h */

/* The file as a new reference; NULL where there is none, or none that snug wrote. */
json_t *own_json_read(const struct io *io, const char *path);

/* Writes it to `path`, by way of `tmp`, as in out_file_open_as. A file that is there is replaced if snug wrote it; else
 * SNUG_ERR_USAGE. */
int own_json_write(const struct io *io, const char *path, const char *tmp, const struct str *text,
                   struct snug_err *err);

/* Begins such an object, without the end of it. */
void own_json_begin(struct str *out);

#endif
