/* own_json.h: files of the output folder that are for the report: JSON objects with a member snug_version, by which they are known. */
#ifndef OUTPUT_OWN_JSON_H
#define OUTPUT_OWN_JSON_H

#include "base/io.h"
#include "base/str.h"
#include "format/json.h"

#define EVALUATION_NAME "last_evaluation.json" /* output/evaluation.h */
#define ENVIRONMENT_NAME "environment.json"    /* train/environment.h */
#define RATE_TEST_NAME "lr_find.json"          /* train/rate_search.c; with a picture, */
#define RATE_PICTURE_NAME "lr_find.svg"

/* The file as a new reference; NULL where there is none, or none that snug wrote. */
json_t *own_json_read(const struct io *io, const char *path);

bool own_json_is(const struct io *io, const char *path); /* whether there is one */

/* Writes it to `path`, by way of `tmp`: see own_file_write. */
int own_json_write(const struct io *io, const char *path, const char *tmp, const struct str *text,
                   struct snug_err *err);

/* Begins such an object, without the end of it. */
void own_json_begin(struct str *out);

#endif
