/* yaml.h: reading YAML files of settings as JSON values, on top of libyaml. Scalars without quotes are what PyYAML takes
 * them for: null, booleans (yes and on are true), integers, numbers; but 5e-5 is a number too, as in YAML 1.2, and what
 * only YAML 1.1 calls a number or a date (010, 1:30, 2026-01-01) stays text. Refused are anchors' aliases, merges ("<<"),
 * tags, keys that are no scalars or there twice, a second document, nesting deeper than 32, and \0. */
#ifndef FORMAT_YAML_H
#define FORMAT_YAML_H

#include "base/io.h"

#include <jansson.h>

/* A new reference, for json_decref; an empty document is null. *lines: a new object with the line, from 1, of each key at
 * the top. Errors are SNUG_ERR_INPUT with "path:line:column: …"; both are NULL then. `path` is for the messages. */
int yaml_parse(const char *text, size_t bytes, const char *path, json_t **out, json_t **lines, struct snug_err *err);

#endif
