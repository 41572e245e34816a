/* own_file.h: files of the output folder that a later run may replace, as they are known to be snug's by what is in them. */
#ifndef OUTPUT_OWN_FILE_H
#define OUTPUT_OWN_FILE_H

#include "base/io.h"
#include "base/str.h"

#define OWN_PICTURE "<svg data-generator=\"snug\"" /* how a picture begins, by which it is known */

/* Whether the file begins with a text that has `mark` in it: in its first 256 bytes. */
bool own_file_has_mark(const struct io *io, const char *path, const char *mark);

/* Writes it to `path`, by way of `tmp`, as in out_file_open_as. A regular file that is there is replaced if `is_ours`; else
 * SNUG_ERR_USAGE, with `otherwise` for what to do. */
int own_file_write(const struct io *io, const char *path, const char *tmp,
                   bool (*is_ours)(const struct io *io, const char *path), const char *otherwise,
                   const struct str *text, struct snug_err *err);

#endif
