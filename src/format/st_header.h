/* st_header.h: the JSON header of a safetensors file, for safetensors.c; and what other containers need to become a struct st_file. */
#ifndef FORMAT_ST_HEADER_H
#define FORMAT_ST_HEADER_H

#include "format/safetensors.h"

/* What to do about most defects of a file. */
#define ST_AGAIN "; get or export the file again"

/* Parses f->header (header_bytes long, and is changed in place: names and metadata are the decoded strings in it) into
 * f->tensors, in the order of the header, with `at` counted from the start of the data, and f->metadata. Each tensor is
 * checked for itself: its dtype, shape and size agree. Memory stays with f also after a failure. */
int st_parse_header(struct st_file *f, struct snug_err *err);

/* Makes f->by_name from f->tensors, and sorts f->metadata; what is there twice is SNUG_ERR_INPUT. */
int st_sort_names(struct st_file *f, struct snug_err *err);

#endif
